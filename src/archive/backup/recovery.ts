import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isThere, makeFolder } from '../../kernel/folders.js';
import { isoSpan } from '../../kernel/timestamp.js';
import { findMiscount, type PartitionInfo, type SealingAdmin } from '../../store/index.js';
import { sumFile } from '../cold/folder.js';
import { isOfFiles, readColdManifest } from '../cold/manifest.js';
import { adoptColdDir, hasColdOwner } from '../cold/owner.js';
import { manifestOf } from '../cold/restoring.js';
import type { ColdStorage, ColdTexts } from '../cold/storage.js';
import { asColdError, ColdError } from '../errors.js';
import { assertSealed, type LifeContext, sumRows } from '../sealing/seal.js';
import {
  asFull,
  assertRoom,
  below,
  type CopiedSums,
  Copying,
  KNOWN,
  LANES,
  Lanes,
} from './copying.js';
import { assertWhole, type BackupDocument } from './document.js';
import type { BackupPlace } from './place.js';

export interface Reading {
  /** Place of the backup. */
  readonly place: BackupPlace;
  readonly document: BackupDocument;
  readonly signal: AbortSignal;
  /** Bytes that were done since the last call, and what is under way. */
  readonly onBytes: (bytes: number, doing: string) => void;
}

/**
 * Copies the database of a backup, and checks each file against its checksum. All are looked at before it fails.
 *
 * @param folder gets `postgres` and the files beside it
 * @throws TapekeepError `backup_damaged` naming the files that are missing or altered; `disk_full`
 */
export async function copyDatabase(reading: Reading, folder: string): Promise<void> {
  const { place, document, signal, onBytes } = reading;
  await assertRoom(folder, { database: document.files.reduce((sum, { bytes }) => sum + bytes, 0) });
  const copying = new Copying(signal, onBytes);
  const wrong: string[] = [];
  try {
    for (const path of document.folders) await copying.folder(below(folder, `postgres/${path}`));
    const lanes = new Lanes(LANES);
    try {
      for (const { path, ...sums } of document.files) {
        await lanes.add(async () => {
          const from = `${document.folder}/${path}`;
          const copied = await place.fetch(from, below(folder, path), copying);
          if (copied === undefined) wrong.push(`${path} is missing`);
          else if (copied.sha256 !== sums.sha256) wrong.push(`${path} is altered`);
        });
      }
      await lanes.done();
    } finally {
      await lanes.settled();
    }
    await copying.sync();
  } catch (error) {
    throw asFull(error, folder, 'nothing was recovered');
  }
  assertWhole(place.name, wrong.sort());
}

/**
 * Checks a dump against its checksum, and uses it: where it is, or as a copy that is removed afterwards.
 *
 * @param folder gets the copy
 * @throws TapekeepError `backup_damaged`, `disk_full`
 */
export async function withDump(
  { place, document, signal, onBytes }: Reading,
  folder: string,
  use: (path: string) => Promise<void>,
): Promise<void> {
  const [{ path, bytes, sha256 } = { path: '', bytes: 0, sha256: '' }] = document.files;
  const from = `${document.folder}/${path}`;
  const there = place.local(from);
  const at = there ?? join(folder, `${document.folder}.dump`);
  try {
    let sums: CopiedSums | undefined;
    if (there === undefined) {
      await makeFolder(folder);
      await assertRoom(folder, { dump: bytes });
      sums = await place.fetch(from, at, new Copying(signal, onBytes));
    } else if (await isThere(at)) sums = await sumFile(at, signal);
    assertWhole(place.name, sums?.sha256 === sha256 ? [] : [`${path} is missing or altered`]);
    await use(at);
  } catch (error) {
    throw asFull(error, folder, 'nothing was recovered');
  } finally {
    if (there === undefined) await rm(at, { force: true });
  }
}

/**
 * Copies cold files that the backup has to a place that is nobody's, or that is to be adopted. Files that are there
 * stay as they are, so that another run continues.
 *
 * @returns how many were copied; files of the backup that are not as they were
 * @throws TapekeepError `disk_full`; the signal's reason
 */
export async function copyColdFiles(
  { place, document, signal, onBytes }: Reading,
  cold: ColdStorage,
  isAdopting: boolean,
): Promise<{ readonly copied: number; readonly wrong: readonly string[] }> {
  const { isCopied, manifests } = document.cold;
  if (!isCopied || (!isAdopting && (await hasColdOwner(cold)))) return { copied: 0, wrong: [] };
  const copying = new Copying(signal, onBytes);
  const backedUp = coldTexts(place, document);
  const wrong: string[] = [];
  let copied = 0;
  try {
    for (const { path: at, ...sums } of manifests) {
      const uri = at.replace(/^cold\//, '');
      // A damaged one shows in its own checksum, too.
      const manifest = await readColdManifest(backedUp, uri).catch(() => undefined);
      for (const { path, bytes, sha256 } of [...(manifest?.files ?? []), { path: uri, ...sums }]) {
        if (await cold.isThere(path)) continue;
        const to = join(cold.scratch, 'recovered');
        const fault = await copying.known(to, { bytes, sha256 }, (temporary) =>
          place.fetch(`${document.folder}/cold/${path}`, temporary, copying, KNOWN),
        );
        if (fault !== null) wrong.push(`cold/${path} ${fault}`);
        else {
          await cold.put(to, path, { bytes, sha256 }, signal);
          copied += 1;
        }
      }
    }
    if (copied > 0) await cold.clear();
  } catch (error) {
    throw asFull(error, cold.name, 'nothing was recovered; files that were copied stay');
  }
  return { copied, wrong };
}

/** The manifests of a backup. */
function coldTexts(place: BackupPlace, { folder }: BackupDocument): ColdTexts {
  const of = (path: string) => `${folder}/cold/${path}`;
  return {
    name: place.at(`${folder}/cold`),
    at: (path) => place.at(of(path)),
    readText: (path) => place.readText(of(path)),
  };
}

/** Something that a recovered archive lacks. */
export interface Lack {
  /** Partition, or the folder of cold files. */
  readonly where: string;
  /** Time of the partition, ISO 8601; null: it is about none. */
  readonly span: { readonly from: string; readonly to: string } | null;
  readonly text: string;
  /** Cold files that are missing or altered. */
  readonly files: readonly string[];
}

export interface Checking extends Pick<LifeContext, 'store' | 'cold' | 'clock' | 'version'> {
  readonly reading: Reading;
  /** Also adds up the rows of sealed partitions. */
  readonly isDeep: boolean;
  /** Gives the folder of cold files to the recovered archive. */
  readonly isAdopting: boolean;
}

/** Outcome of a recovery. */
export interface Recovered {
  readonly partitions: Readonly<Record<'counted' | 'summed' | 'archived', number>>;
  readonly filesChecked: number;
  readonly isAdopted: boolean;
  readonly lacks: readonly Lack[];
}

/**
 * Brings back cold files that the backup has, and holds a recovered archive against its own ledger: counters of rows,
 * checksums of sealings, manifests and checksums of files.
 *
 * @throws StoreError; the signal's reason
 */
export async function checkRecovered(options: Checking): Promise<Recovered> {
  const { store, reading } = options;
  const admin = await store.sealing.open(reading.signal);
  try {
    return await new Check(options, admin).run();
  } finally {
    await admin.close();
  }
}

class Check {
  readonly #options: Checking;
  readonly #admin: SealingAdmin;
  readonly #lacks: Lack[] = [];
  readonly #counts = { counted: 0, summed: 0, archived: 0 };
  #filesChecked = 0;

  constructor(options: Checking, admin: SealingAdmin) {
    this.#options = options;
    this.#admin = admin;
  }

  async run(): Promise<Recovered> {
    const { store, cold, isAdopting } = this.#options;
    const partitions = await store.sealing.partitions();
    for (const one of partitions) {
      if (one.state === 'archived') await this.#checkFiles(one);
      else if (one.state !== 'expired') await this.#checkRows(one);
    }
    const adopting = isAdopting
      ? await this.#unlessCold(cold.name, async () =>
          adoptColdDir(cold, await store.sealing.identity(), partitions),
        )
      : false;
    return {
      ...{ partitions: this.#counts, filesChecked: this.#filesChecked },
      ...{ isAdopted: adopting, lacks: this.#lacks },
    };
  }

  /** Counts the rows of a partition in the database; sums them up if asked. */
  async #checkRows(one: PartitionInfo): Promise<void> {
    const { isDeep, reading } = this.#options;
    reading.signal.throwIfAborted();
    reading.onBytes(0, `rows of ${one.name}`);
    const wrong = await findMiscount(this.#admin.connection, one);
    this.#counts.counted += 1;
    if (wrong !== undefined) {
      const { market, known, counted } = wrong;
      this.#lack(one.name, one, `${known} rows of ${market} were stored, and ${counted} are there`);
    } else if (isDeep && one.state === 'sealed' && !isOfFiles({ checksum: one.checksum ?? '' })) {
      await this.#unlessCold(one.name, async () => {
        assertSealed(one, await sumRows(this.#context, one), 'it stays as it is');
        this.#counts.summed += 1;
      });
    }
  }

  get #context(): LifeContext {
    const { store, cold, clock, version, reading } = this.#options;
    const watcher = { onStep: () => undefined, onRows: () => undefined };
    const { signal } = reading;
    return { ...{ admin: this.#admin, store, cold, clock, version, watcher }, signal };
  }

  /** Reads the files of an archived partition. Without its manifest, that of the backup names them. */
  async #checkFiles(one: PartitionInfo): Promise<void> {
    const { cold, reading } = this.#options;
    const { place, document, signal, onBytes } = reading;
    this.#counts.archived += 1;
    const backedUp = coldTexts(place, document);
    let fault = '';
    const manifest = await manifestOf(cold, one).catch(async (error: unknown) => {
      if (!(error instanceof ColdError)) throw error;
      fault = error.message;
      return await manifestOf(backedUp, one).catch(() => undefined);
    });
    const files: string[] = [];
    for (const file of manifest?.files ?? []) {
      try {
        await cold.check(file.path, file, signal);
        this.#filesChecked += 1;
      } catch (error) {
        if (!(error instanceof ColdError)) throw error;
        files.push(file.path);
      }
      onBytes(0, one.name);
    }
    if (fault === '' && files.length === 0) return;
    const total = manifest?.files.length ?? 0;
    const lost = `${files.length} of ${total} files are missing or altered`;
    const text = [fault, files.length > 0 && `${lost}, first ${files[0]}`].filter(Boolean);
    this.#lack(one.name, one, text.join('; '), files);
  }

  #lack(
    where: string,
    one: Pick<PartitionInfo, 'span'> | null,
    text: string,
    files: readonly string[] = [],
  ): void {
    this.#lacks.push({ where, span: one && isoSpan(one.span), text, files });
  }

  /** Notes what is wrong with cold files or rows of a sealing. Returns true if nothing is. */
  async #unlessCold(where: string, work: () => Promise<void>): Promise<boolean> {
    try {
      await work();
      return true;
    } catch (error) {
      const known = asColdError(error, this.#options.cold.name);
      if (!(known instanceof ColdError)) throw error;
      this.#lack(where, null, known.message);
      return false;
    }
  }
}
