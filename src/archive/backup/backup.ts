import { randomBytes } from 'node:crypto';
import { basename, join } from 'node:path';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import { isoMs } from '../../kernel/timestamp.js';
import {
  type BaseBackup,
  isSameDatabase,
  listClusterFiles,
  nameOfDatabase,
  type SealingAdmin,
  type Store,
  startBaseBackup,
} from '../../store/index.js';
import { type ColdFile, parseColdManifest } from '../cold/manifest.js';
import type { ColdStorage } from '../cold/storage.js';
import { ColdError, OutputError } from '../errors.js';
import { below } from './copying.js';
import {
  type BackupDocument,
  type BackupFile,
  DOCUMENT,
  findBackup,
  RUN_FOLDER,
  readBackup,
  writeBackup,
} from './document.js';
import type { BackupPlace, BackupWriter } from './place.js';

/** How the database comes into the backup. */
export type DatabaseSource =
  | {
      readonly form: 'base';
      readonly dataDir: string;
      /** Files of `dataDir` that belong to the archive, where they are there. */
      readonly beside: readonly string[];
    }
  | {
      readonly form: 'dump';
      readonly version: string;
      /** Upper bound, bytes. */
      readonly bytes: number;
      /** The dump, once. */
      readonly dump: () => AsyncIterable<Buffer>;
    };

export interface BackupOptions {
  readonly place: BackupPlace;
  readonly store: Store;
  readonly source: DatabaseSource;
  readonly cold: ColdStorage;
  /** Copies the files of archived partitions, too. */
  readonly isWithFiles: boolean;
  /** Takes the place of an earlier backup of the same archive, which stays until the new one is whole. */
  readonly isReplacing: boolean;
  /** Version of the program. */
  readonly version: string;
  readonly clock: Clock;
  readonly signal: AbortSignal;
  /** Called with bytes that are done, their total as far as it is known, and the work under way. */
  readonly onProgress: (done: number, total: number, doing: string) => void;
}

export interface BackupReport {
  readonly document: BackupDocument;
  /** Cold files that an archived partition should have, and that are not as its manifest says. */
  readonly wrong: readonly string[];
}

/** Journal that comes beside the files: a segment each at start and stop, and as much again. */
const JOURNAL_BYTES = 64 * 2 ** 20;
/** Partitions are archived by runs that take long at the first time. */
const SEALING_WAIT_MS = 3_600_000;
const SEALING_LOOK_MS = 500;

/**
 * Makes a backup of an archive that is in use. Nothing counts before its document is written, last of all.
 *
 * Partitions are archived, restored and expired by one process at a time. That is kept out from before the backup
 * stops until the manifests are read, so that the catalog in the backup and its list of cold files are of one instant.
 *
 * @throws OutputError for a place that is not empty; TapekeepError `disk_full`, `backup_refused`; the signal's reason
 */
export async function makeBackup(options: BackupOptions): Promise<BackupReport> {
  const { place, signal } = options;
  const end = await place.take(signal).catch((error: unknown) => {
    throw place.asFull(error, 'nothing was copied');
  });
  const folder = `tapekeep-${randomBytes(6).toString('hex')}`;
  try {
    const version = await prepare(options);
    const run = new Run(options, folder);
    const document = await run.run();
    // Runs that began before the document is written cannot write theirs after it.
    const others = await runsOf(place, folder);
    await writeBackup(place, document, version);
    for (const other of others) await place.removeRun(other);
    return { document: { format: 1, ...document }, wrong: run.wrong };
  } catch (error) {
    if (!(await isKept(place, folder))) await place.removeRun(folder).catch(() => undefined);
    throw place.asFull(error, 'nothing of this backup is left there');
  } finally {
    await end();
  }
}

/** True if the document of a run is there, or if that cannot be seen. */
async function isKept(place: BackupPlace, folder: string): Promise<boolean> {
  try {
    return (await readBackup(place)).folder === folder;
  } catch (error) {
    return codeOf(error) !== 'backup_damaged';
  }
}

/** Refuses what is not to be replaced. Returns the version of what is; null: there is nothing. */
async function prepare({ place, store, isReplacing }: BackupOptions): Promise<string | null> {
  const other = (await place.names()).find((name) => name !== DOCUMENT && !RUN_FOLDER.test(name));
  if (other !== undefined) {
    const text = `it is not empty (${other}); name an empty ${place.form}, or a new one`;
    throw new OutputError(place.name, text);
  }
  const version = await findBackup(place);
  const kept = version === null ? undefined : await replaced(place, store, isReplacing);
  if (place.isShared) return version;
  for (const run of await runsOf(place, kept)) await place.removeRun(run);
  return version;
}

/** Folder of the backup that is to be replaced. */
async function replaced(place: BackupPlace, store: Store, isReplacing: boolean): Promise<string> {
  const { archive, madeAt, folder } = await readBackup(place);
  const mine = await store.sealing.identity();
  if (!isSameDatabase(archive, mine)) {
    const whose = `the backup there is of ${nameOfDatabase(archive)}, and this archive is ${nameOfDatabase(mine)}`;
    throw new OutputError(place.name, `${whose}; name another ${place.form}`);
  }
  if (!isReplacing) {
    const advice = `it holds the backup of ${madeAt}; --replace makes a new one and then removes that, or name another ${place.form}`;
    throw new OutputError(place.name, advice);
  }
  return folder;
}

/** Folders of other runs. */
async function runsOf(place: BackupPlace, own: string | undefined): Promise<string[]> {
  return (await place.names()).filter((name) => RUN_FOLDER.test(name) && name !== own);
}

class Run {
  readonly #options: BackupOptions;
  readonly #folder: string;
  readonly #writer: BackupWriter;
  readonly #files: BackupFile[] = [];
  /** Cold files that are missing or altered. */
  readonly wrong: string[] = [];
  /** Copied cold files, so that a second look copies what is new. */
  readonly #cold = new Set<string>();
  #done = 0;
  #total = 0;

  constructor(options: BackupOptions, folder: string) {
    this.#options = options;
    this.#folder = folder;
    const { place, signal, onProgress } = options;
    this.#writer = place.writer(signal, (bytes, name) => {
      this.#done += bytes;
      onProgress(this.#done, this.#total, name);
    });
  }

  /** Copies all. Returns the document that is to be written. */
  async run(): Promise<Omit<BackupDocument, 'format'>> {
    const { store, source, version, clock, isWithFiles } = this.#options;
    try {
      await this.#writer.folder(this.#folder);
      await this.#assertRoom();
      const archive = await store.sealing.identity();
      // Most files, before the journal has to wait for them.
      if (isWithFiles) await this.#copyCold();
      const made = source.form === 'base' ? await this.#base(source) : await this.#dump(source);
      await this.#writer.sync();
      return {
        ...{ tapekeep: version, madeAt: isoMs(clock.wallMs()), archive, folder: this.#folder },
        ...{ files: this.#files, ...made },
      };
    } finally {
      await this.#writer.settled();
    }
  }

  /** Path of a file of the run in the place. */
  #at(path: string): string {
    return `${this.#folder}/${path}`;
  }

  /** Copies the files of the cluster, then stops the server's backup and takes the journal. */
  async #base({ dataDir, beside }: DatabaseSource & { form: 'base' }) {
    const { clock } = this.#options;
    const backup = await startBaseBackup(dataDir, clock);
    try {
      const { folders, files } = await listClusterFiles(backup.clusterDir);
      for (const path of folders) await this.#writer.folder(this.#at(`postgres/${path}`));
      // It says how far the files are, so that it comes last.
      const isLast = (path: string) => (path === 'global/pg_control' ? 1 : 0);
      const ordered = [...files].sort((a, b) => isLast(a.path) - isLast(b.path));
      for (const { path } of ordered) await this.#add(backup, path);
      for (const path of [...backup.beside, ...beside.map((name) => join(dataDir, name))]) {
        await this.#copy(path, basename(path));
      }
      return await this.#whileNoneMoves(async () => {
        const { stopLsn, label, segments } = await backup.stop();
        for (const name of segments) {
          if (await this.#add(backup, `pg_wal/${name}`)) continue;
          const text = `${name} of the write-ahead log is gone from ${backup.clusterDir}, though the server was to keep it; run the backup again`;
          throw new TapekeepError('backup_refused', text, { action: 'retry' });
        }
        const path = 'postgres/backup_label';
        this.#files.push({ path, ...(await this.#writer.write(label, this.#at(path))) });
        const journal = { start: backup.startLsn, stop: stopLsn };
        const cold = await this.#copyCold();
        return { ...{ postgres: backup.version, journal, cold }, folders: [...folders] };
      });
    } finally {
      await backup.close();
    }
  }

  async #dump({ version, dump, bytes }: DatabaseSource & { form: 'dump' }) {
    return await this.#whileNoneMoves(async () => {
      const path = 'archive.dump';
      this.#files.push({ path, ...(await this.#writer.stream(dump(), this.#at(path), bytes)) });
      return { postgres: version, journal: null, folders: [], cold: await this.#copyCold() };
    });
  }

  /** Copies a file of the cluster; false: it is gone. */
  async #add({ clusterDir }: BaseBackup, path: string): Promise<boolean> {
    return await this.#copy(below(clusterDir, path), `postgres/${path}`);
  }

  async #copy(from: string, path: string): Promise<boolean> {
    const copied = await this.#writer.copy(from, this.#at(path));
    if (copied !== undefined) this.#files.push({ path, ...copied });
    return copied !== undefined;
  }

  /** Waits until no other process moves partitions, and works while none can. */
  async #whileNoneMoves<T>(work: () => Promise<T>): Promise<T> {
    const admin = await this.#openSealing();
    try {
      return await work();
    } finally {
      await admin.close();
    }
  }

  async #openSealing(): Promise<SealingAdmin> {
    const { store, clock, signal, onProgress } = this.#options;
    const untilMs = clock.monotonicMs() + SEALING_WAIT_MS;
    for (;;) {
      try {
        return await store.sealing.open(signal);
      } catch (error) {
        if (codeOf(error) !== 'sealing_busy' || clock.monotonicMs() > untilMs) throw error;
      }
      onProgress(this.#done, this.#total, 'waiting: partitions are being sealed or archived');
      await sleep(clock, SEALING_LOOK_MS, signal);
    }
  }

  /** Copies the manifests of archived partitions, and their files if asked; again, what has come since. */
  async #copyCold(): Promise<BackupDocument['cold']> {
    const { store, cold, isWithFiles } = this.#options;
    const manifests: BackupFile[] = [];
    let [files, bytes] = [0, 0];
    this.wrong.length = 0;
    for (const { state, uri, name } of await store.sealing.partitions()) {
      if (state !== 'archived' || uri === null) continue;
      const read = async () => {
        const { text } = await cold.readText(uri);
        return { text, manifest: parseColdManifest(text, cold.at(uri)) };
      };
      const found = await read().catch((error: unknown) => {
        if (!(error instanceof ColdError)) throw error;
        this.wrong.push(`${name}: ${error.message}`);
      });
      if (found === undefined) continue;
      const { text, manifest } = found;
      const path = `cold/${uri}`;
      manifests.push({ path, ...(await this.#writer.write(text, this.#at(path))) });
      files += manifest.files.length;
      for (const file of manifest.files) {
        bytes += file.bytes;
        if (!isWithFiles || this.#cold.has(file.path)) continue;
        const to = this.#at(`cold/${file.path}`);
        const wrong = await this.#copyKnown(to, file);
        if (wrong === null) this.#cold.add(file.path);
        else this.wrong.push(`${name}: ${cold.at(file.path)} ${wrong}`);
      }
    }
    return { isCopied: isWithFiles, manifests, files, bytes };
  }

  /** Returns what is wrong with a cold file, in words; null: nothing. */
  async #copyKnown(to: string, file: ColdFile): Promise<string | null> {
    const { cold, signal } = this.#options;
    // Held one by one: all of them need not fit into the cache of a bucket.
    using held = cold.hold(signal);
    let wrong: string | null = null;
    // The local copy of a file in a bucket may be damaged, and the file whole.
    for (const find of [() => held.peek(file.path), () => held.local(file.path, file)]) {
      let from: string;
      try {
        from = await find();
      } catch (error) {
        if (!(error instanceof ColdError)) throw error;
        if (error.code === 'cold_missing') return 'is missing';
        return wrong ?? `cannot be read (${error.message})`;
      }
      wrong = await this.#writer.copyKnown(from, to, file);
      if (wrong === null) return null;
    }
    return wrong;
  }

  /** Finds out what the backup takes, and refuses a disk without the room for it. */
  async #assertRoom(): Promise<void> {
    const { place, source, isWithFiles, store } = this.#options;
    const cold = (await store.sealing.partitions()).reduce(
      (sum, one) => sum + (one.state === 'archived' ? (one.coldBytes ?? 0) : 0),
      0,
    );
    const database =
      source.form === 'base' ? JOURNAL_BYTES + (await sizeOf(source.dataDir)) : source.bytes;
    this.#total = database + (isWithFiles ? cold : 0);
    await place.assertRoom({ database, ...(isWithFiles && { 'cold files': cold }) });
  }
}

async function sizeOf(dataDir: string): Promise<number> {
  const { files } = await listClusterFiles(join(dataDir, 'postgres'));
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}
