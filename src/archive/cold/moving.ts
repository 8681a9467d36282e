import { randomBytes } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { makeFolder } from '../../kernel/folders.js';
import { Mutex } from '../../kernel/mutex.js';
import type { DatabaseIdentity, PartitionInfo, SealingAdmin, Store } from '../../store/index.js';
import { ColdError, inColdWords } from '../errors.js';
import { checkFile, type FileSums } from './folder.js';
import {
  type ColdFile,
  type ColdManifest,
  parseColdManifest,
  readManifestText,
} from './manifest.js';
import { beginMove, endMove, readMoveSource } from './owner.js';
import { assertManifestOf } from './restoring.js';
import type { ColdStorage } from './storage.js';

export interface MoveOptions {
  readonly store: Store;
  readonly source: ColdStorage;
  readonly target: ColdStorage;
  /** Deletes the files of the source once all are in the target. */
  readonly isRemoving: boolean;
  readonly signal: AbortSignal;
  /** Called with bytes that are in the target, bytes of all files, and the work under way. */
  readonly onProgress: (done: number, total: number, doing: string) => void;
}

/** Outcome of a move. */
export interface MoveReport {
  readonly partitions: number;
  readonly copied: number;
  /** Files that were in the target already. */
  readonly found: number;
  readonly bytes: number;
  /** Files of archived partitions that neither place has whole: the move has not ended. */
  readonly wrong: readonly string[];
  /** Sealed partitions whose files are damaged: their rows are in the database. */
  readonly passedOver: readonly string[];
  /** True if the source belongs to the database. */
  readonly isOwn: boolean;
  /** Files of the source that were deleted. */
  readonly removed: number;
}

/** Partitions that are copied at a time: a bucket takes a while for each file. */
const LANES = 4;
/** Codes of what is wrong with one file or manifest. */
const OF_ONE: ReadonlySet<string> = new Set(['cold_missing', 'cold_damaged', 'cold_mismatch']);
const OURS = ['kind=', 'manifests/'];

/**
 * Moves the cold files of an archive: every file that the ledger names is copied, and compared with its manifest at both
 * ends. A manifest follows its files. Then the marker of the target puts it in use, and that of the source out of it.
 * Nothing is sealed, archived or expired meanwhile, and nothing is deleted unless asked. Interrupted at any point it
 * continues with another run: what is whole in the target stays.
 *
 * @throws ColdError `cold_refused` for a target that is another archive's or the source itself; `cold_disk_full`;
 *   StoreError `sealing_busy`; the signal's reason
 */
export async function moveColdFiles(options: MoveOptions): Promise<MoveReport> {
  const admin = await options.store.sealing.open(options.signal);
  try {
    return await new Move(options, admin, await options.store.sealing.identity()).run();
  } catch (error) {
    if (!(error instanceof ColdError) || error.code !== 'cold_disk_full') throw error;
    const text = `no space is left for the move to ${options.target.name} (${error.message}): files that were copied stay, and nothing was deleted. Free some, and run the same command again`;
    throw new ColdError('cold_disk_full', text, { cause: error });
  } finally {
    await admin.close();
  }
}

class Move {
  readonly #options: MoveOptions;
  readonly #admin: SealingAdmin;
  readonly #mine: DatabaseIdentity;
  /** Ends all lanes with the first failure of one. */
  readonly #failure = new AbortController();
  readonly #signal: AbortSignal;
  readonly #turn = new Mutex();
  readonly #wrong: string[] = [];
  readonly #passedOver: string[] = [];
  /** Paths that the ledger names and the target does not have. */
  readonly #kept = new Set<string>();
  #partitions = 0;
  #copied = 0;
  #found = 0;
  #bytes = 0;
  #total = 0;
  #staged = 0;
  /** True if the files are read from the target already. */
  #isTargetFirst = false;

  constructor(options: MoveOptions, admin: SealingAdmin, mine: DatabaseIdentity) {
    this.#options = options;
    this.#admin = admin;
    this.#mine = mine;
    this.#signal = AbortSignal.any([options.signal, this.#failure.signal]);
  }

  async run(): Promise<MoveReport> {
    const { store, source, target, isRemoving } = this.#options;
    source.assertReadable();
    await target.assertWritable();
    const { isOwn, movedTo } = await readMoveSource(source, this.#mine);
    if (isRemoving && !isOwn) {
      const text = `${source.name} does not belong to this database, and nothing is deleted there: leave --remove-source out`;
      throw new ColdError('cold_refused', text);
    }
    if (movedTo !== undefined && movedTo !== target.name) {
      const text = `the cold files of this archive moved from ${source.name} to ${movedTo}: name that by --from`;
      throw new ColdError('cold_refused', text);
    }
    this.#isTargetFirst = movedTo !== undefined;
    await this.#assertOther();
    await beginMove(source, target, this.#mine);
    await target.clear();
    const named = (await store.sealing.partitions()).filter(isInFiles);
    this.#total = named.reduce((sum, { coldBytes }) => sum + (coldBytes ?? 0), 0);
    await this.#moveAll(named);
    await target.clear();
    let removed = 0;
    if (this.#wrong.length === 0) {
      await this.#assertLocked();
      await endMove(source, target, this.#mine);
      if (isRemoving) removed = await this.#remove();
    }
    return {
      ...{ partitions: this.#partitions, copied: this.#copied, found: this.#found, isOwn, removed },
      ...{ bytes: this.#bytes, wrong: this.#wrong.sort(), passedOver: this.#passedOver.sort() },
    };
  }

  /** Refuses a target that is the source under another name. */
  async #assertOther(): Promise<void> {
    const { source, target } = this.#options;
    const path = `.move-${randomBytes(6).toString('hex')}`;
    await target.putText(path, 'moving\n', 'absent');
    try {
      if (!(await source.isThere(path))) return;
    } finally {
      await target.remove(path);
    }
    const text = `${target.name} is ${source.name}, where the cold files are: name another place`;
    throw new ColdError('cold_refused', text);
  }

  /** Fails if the lock of sealing was lost with its connection: partitions may have changed. */
  async #assertLocked(): Promise<void> {
    await this.#turn.run(() => this.#admin.connection.rows('SELECT 1'));
  }

  /** Works on some partitions at a time. */
  async #moveAll(partitions: readonly PartitionInfo[]): Promise<void> {
    const waiting = [...partitions];
    const lane = async () => {
      for (let one = waiting.shift(); one !== undefined; one = waiting.shift()) {
        await this.#move(one);
      }
    };
    const fail = (error: unknown) => this.#failure.abort(error);
    await Promise.all(Array.from({ length: LANES }, () => lane().catch(fail)));
    this.#signal.throwIfAborted();
  }

  async #move(partition: PartitionInfo): Promise<void> {
    const { onProgress } = this.#options;
    const { name, uri } = partition;
    this.#signal.throwIfAborted();
    await this.#assertLocked();
    const fail = (error: ColdError) => {
      const isRow = partition.state === 'sealed';
      (isRow ? this.#passedOver : this.#wrong).push(`${name}: ${error.message}`);
    };
    const found = await this.#manifestOf(partition).catch(ofOne);
    if (found instanceof ColdError) {
      this.#kept.add(uri ?? '');
      fail(found);
      return;
    }
    let isWhole = true;
    for (const file of found.manifest.files) {
      this.#signal.throwIfAborted();
      const fault = await this.#place(file).catch(ofOne);
      if (fault instanceof ColdError) {
        isWhole = false;
        fail(fault);
      }
      this.#bytes += file.bytes;
      onProgress(this.#bytes, this.#total, name);
    }
    if (isWhole) {
      await this.#placeManifest(uri ?? '', found.text);
      this.#partitions += 1;
    } else {
      for (const path of [uri ?? '', ...found.manifest.files.map((one) => one.path)]) {
        this.#kept.add(path);
      }
    }
  }

  /** The manifest of a partition from the place in use, else from the other one. */
  async #manifestOf(partition: PartitionInfo): Promise<{ text: string; manifest: ColdManifest }> {
    const { source, target } = this.#options;
    const [first, second] = this.#isTargetFirst ? [target, source] : [source, target];
    const read = async (cold: ColdStorage) => {
      const text = await readManifestText(cold, partition.uri ?? '');
      const manifest = parseColdManifest(text, cold.at(partition.uri ?? ''));
      assertManifestOf(cold, partition, manifest);
      return { text, manifest };
    };
    const found = await read(first).catch(ofOne);
    if (!(found instanceof ColdError)) return found;
    const other = await read(second).catch(ofOne);
    if (other instanceof ColdError) throw found;
    return other;
  }

  /** Sees to it that the target has a file whole. */
  async #place({ path, ...sums }: ColdFile): Promise<void> {
    const { source, target } = this.#options;
    const signal = this.#signal;
    const fault = await target.check(path, sums, signal).catch(ofOne);
    if (!(fault instanceof ColdError)) {
      this.#found += 1;
      return;
    }
    using held = source.hold(signal);
    const from = await held.local(path, sums);
    this.#staged += 1;
    const staged = join(target.scratch, `move-${this.#staged}`);
    await this.#stage(from, staged, sums);
    await target.put(staged, path, sums, signal);
    this.#copied += 1;
  }

  /** Copies a file beside its place, and reads it back. */
  async #stage(from: string, to: string, sums: FileSums): Promise<void> {
    const { target } = this.#options;
    const signal = this.#signal;
    try {
      await inColdWords(to, async () => {
        await makeFolder(target.scratch);
        await pipeline(createReadStream(from), createWriteStream(to), { signal });
      });
      await checkFile(to, sums, signal);
    } catch (error) {
      await rm(to, { force: true }).catch(() => undefined);
      throw error;
    }
  }

  async #placeManifest(uri: string, text: string): Promise<void> {
    const { target } = this.#options;
    const there = await target.readText(uri).catch(ofOne);
    const version = there instanceof ColdError ? null : there.version;
    if (!(there instanceof ColdError) && there.text === text) return;
    await target.putText(uri, text, { version });
    if ((await target.readText(uri)).text === text) return;
    throw new ColdError('cold_refused', `${target.at(uri)} does not read back as it was written`);
  }

  /** Deletes the files of the source, manifests last. Returns how many. */
  async #remove(): Promise<number> {
    const { source, signal, onProgress } = this.#options;
    let removed = 0;
    for (const start of OURS) {
      for await (const path of source.list(start)) {
        signal.throwIfAborted();
        if (this.#kept.has(path)) continue;
        await source.remove(path);
        removed += 1;
        onProgress(this.#bytes, this.#total, `deleting ${path}`);
      }
    }
    await source.clear();
    return removed;
  }
}

/** True if the ledger names files of a partition. */
const isInFiles = ({ state, uri }: PartitionInfo) =>
  uri !== null && (state === 'archived' || state === 'sealed');

/** Gives back an error about one file or manifest; others end the move. */
function ofOne(error: unknown): ColdError {
  if (error instanceof ColdError && OF_ONE.has(error.code)) return error;
  throw error;
}
