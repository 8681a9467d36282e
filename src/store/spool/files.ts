import { type FileHandle, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { AbortedError, messageOf } from '../../kernel/errors.js';
import { FileLock } from '../../kernel/file-lock.js';
import { makeFolder } from '../../kernel/folders.js';
import { Mutex } from '../../kernel/mutex.js';
import type { Random } from '../../kernel/random.js';
import { Share } from '../../model/share.js';
import { StoreError } from '../errors.js';
import type { DatabaseIdentity } from '../identity.js';
import { frameOf, readFrames, syncFolder, writeThrough } from './frames.js';

/**
 * Files of the spool: `000001.spool` and so on, each of frames. What is appended is on the disk when `append` resolves;
 * the oldest file is read first and removed as a whole.
 */

/** Batches as they were made. */
const WITH_CLAIMS = '.spool';
/** Batches whose rows alone may be stored: the database went back after they were made. */
const ROWS_ONLY = '.rows';
const NAME = /^(\d{6,})(\.spool|\.rows)$/;
const LOCK = 'lock';

const FILE_BYTES_MAX = 16 * 1_048_576;
const FILE_BYTES_MIN = 65_536;
/** Files that the bound has room for; a small bound makes small files. */
const FILES_WITHIN_BOUND = 8;
/** Frames written with one wait for the disk. */
const WRITE_BYTES_MAX = 8 * 1_048_576;
/** A daemon that takes over stores its first rows without waiting for the folder. */
const LOCK_WAIT_MS = 1_000;

export interface SpoolFilesOptions {
  readonly dir: string;
  readonly maxBytes: number;
  readonly clock: Clock;
  readonly random: Random;
  /** First frame of each new file. */
  readonly header: () => Buffer;
}

/** A file that no more is written to. */
export interface SpoolFile {
  readonly number: number;
  readonly bytes: number;
  readonly isRowsOnly: boolean;
}

/** Contents of a file. */
export interface SpoolContent {
  /** Undefined: not even that is whole. */
  readonly header: Buffer | undefined;
  readonly payloads: readonly Buffer[];
  /** Confirmed frames are missing. */
  readonly isDamaged: boolean;
  readonly tornBytes: number;
}

interface Waiting {
  readonly frame: Buffer;
  resolve(): void;
  reject(error: Error): void;
}

/** The file that is written to. */
interface Writing {
  readonly number: number;
  readonly handle: FileHandle;
  bytes: number;
}

/**
 * States: *new* → *open* (this process alone owns the folder) → *closed*. A write that fails leaves no trace: the file
 * is cut back to what was confirmed before.
 */
export class SpoolFiles {
  readonly #options: SpoolFilesOptions;
  readonly #fileBytes: number;
  /** One writes, or changes the files. */
  readonly #turn = new Mutex();
  #sealed: SpoolFile[] = [];
  #writing: Writing | undefined;
  #waiting: Waiting[] = [];
  #waitingBytes = 0;
  #nextNumber = 1;
  #release: (() => Promise<void>) | undefined;
  #isClosed = false;

  constructor(options: SpoolFilesOptions) {
    const part = Math.floor(options.maxBytes / FILES_WITHIN_BOUND);
    this.#options = options;
    this.#fileBytes = Math.min(FILE_BYTES_MAX, Math.max(FILE_BYTES_MIN, part));
  }

  get dir(): string {
    return this.#options.dir;
  }

  /** Bytes in files, and of what waits to be written or is just being written. */
  get bytes(): number {
    const sealed = this.#sealed.reduce((sum, { bytes }) => sum + bytes, 0);
    return sealed + (this.#writing?.bytes ?? 0) + this.#waitingBytes;
  }

  /** Nothing is kept, and nothing waits to be. */
  get isEmpty(): boolean {
    return this.bytes === 0;
  }

  /** Takes the folder, and finds what an earlier process left. @throws StoreError `spool_refused`, `spool_in_use` */
  async open(signal: AbortSignal): Promise<void> {
    const { dir, clock, random } = this.#options;
    const refusal = (holder: string) => {
      const text = `the spool ${dir} is in use by ${holder}: this process keeps nothing while the database is away; end the other one, then restart`;
      return new StoreError('spool_in_use', text);
    };
    const lock = { path: join(dir, LOCK), clock, random, waitMs: LOCK_WAIT_MS, refusal };
    try {
      await makeFolder(dir, 0o700);
      this.#release = await new FileLock(lock).acquire(signal);
      for (const name of (await readdir(dir)).sort()) {
        const [, digits, ending] = NAME.exec(name) ?? [];
        if (digits === undefined) continue;
        const number = Number(digits);
        const { size: bytes } = await stat(join(dir, name));
        this.#sealed.push({ number, bytes, isRowsOnly: ending === ROWS_ONLY });
        this.#nextNumber = Math.max(this.#nextNumber, number + 1);
      }
      this.#sealed.sort((a, b) => a.number - b.number);
    } catch (error) {
      await this.close();
      if (error instanceof StoreError || signal.aborted) throw error;
      throw refused(`${dir} cannot be used (${messageOf(error)})`, error);
    }
  }

  /**
   * Returns when a payload is on the disk.
   *
   * @throws StoreError `spool_full` at the bound, or where the disk takes no more
   */
  async append(payload: Buffer): Promise<void> {
    if (this.#isClosed) throw new AbortedError('the store is stopped');
    const { maxBytes, dir } = this.#options;
    const frame = frameOf(payload);
    if (this.bytes + frame.length > maxBytes) {
      const text = `${dir} holds ${this.bytes} bytes, and spool.maxBytes is ${maxBytes}: new data is dropped until the database is back`;
      throw new StoreError('spool_full', text);
    }
    const written = new Promise<void>((resolve, reject) => {
      this.#waiting.push({ frame, resolve, reject });
    });
    this.#waitingBytes += frame.length;
    // Whoever comes while the disk is busy shares the next write.
    void this.#turn.run(() => this.#write());
    await written;
  }

  /** The oldest file, which is not written to any more; undefined while there is none. */
  async oldest(): Promise<SpoolFile | undefined> {
    if (this.#sealed.length === 0) await this.#turn.run(() => this.#seal());
    return this.#sealed[0];
  }

  async read(file: SpoolFile): Promise<SpoolContent> {
    const data = await readFile(this.#pathOf(file));
    const { payloads, end, bytes } = readFrames(data);
    const [header, ...rest] = payloads;
    // Only the file that was written last can end in what was never confirmed.
    const isLast = file.number === this.#nextNumber - 1;
    const isDamaged = end === 'damaged' || (end === 'torn' && !isLast);
    return { header, payloads: rest, isDamaged, tornBytes: data.length - bytes };
  }

  /** Its batches are stored. */
  async remove(file: SpoolFile): Promise<void> {
    await this.#turn.run(() => rm(this.#take(file), { force: true }));
  }

  /** Sets a damaged file aside, for a person to look at. @returns what to say of it */
  async setAside(file: SpoolFile): Promise<StoreError> {
    return await this.#turn.run(async () => {
      const path = this.#take(file);
      await rename(path, `${path}.damaged`);
      const text = `${path} differs from what was written and was renamed to ${path}.damaged; its unreadable rest is a gap. Check the disk, then remove the file`;
      return new StoreError('spool_damaged', text);
    });
  }

  /** Takes the claims from all that is kept so far, also after a restart. */
  async dropClaims(): Promise<void> {
    await this.#turn.run(async () => {
      await this.#seal();
      const changed: SpoolFile[] = [];
      for (const file of this.#sealed) {
        const to = { ...file, isRowsOnly: true };
        if (!file.isRowsOnly) await rename(this.#pathOf(file), this.#pathOf(to));
        changed.push(to);
      }
      this.#sealed = changed;
    });
  }

  /** Safe to call twice. What is kept stays. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#turn.run(() => this.#seal());
    await this.#release?.();
    this.#release = undefined;
  }

  async #write(): Promise<void> {
    let bytes = 0;
    const taken: Waiting[] = [];
    for (const one of this.#waiting) {
      if (taken.length > 0 && bytes + one.frame.length > WRITE_BYTES_MAX) break;
      taken.push(one);
      bytes += one.frame.length;
    }
    this.#waiting = this.#waiting.slice(taken.length);
    if (taken.length === 0) return;
    try {
      const writing = await this.#openFile();
      await writeThrough(writing, Buffer.concat(taken.map(({ frame }) => frame)));
      writing.bytes += bytes;
      if (writing.bytes >= this.#fileBytes) await this.#seal();
      for (const one of taken) one.resolve();
    } catch (error) {
      const text = `${this.#options.dir} takes no more (${messageOf(error)}): new data is dropped until there is room or the database is back`;
      const failure = new StoreError('spool_full', text, { cause: error });
      for (const one of taken) one.reject(failure);
    } finally {
      this.#waitingBytes -= bytes;
    }
  }

  async #openFile(): Promise<Writing> {
    if (this.#writing !== undefined) return this.#writing;
    const { dir, header } = this.#options;
    const number = this.#nextNumber;
    const path = this.#pathOf({ number, isRowsOnly: false });
    const handle = await open(path, 'wx', 0o600);
    const writing = { number, handle, bytes: 0 };
    try {
      const first = frameOf(header());
      await writeThrough(writing, first);
      writing.bytes = first.length;
      await syncFolder(dir);
    } catch (error) {
      await handle.close();
      await rm(path, { force: true });
      throw error;
    }
    this.#nextNumber += 1;
    this.#writing = writing;
    return writing;
  }

  async #seal(): Promise<void> {
    const writing = this.#writing;
    if (writing === undefined) return;
    this.#writing = undefined;
    this.#sealed.push({ number: writing.number, bytes: writing.bytes, isRowsOnly: false });
    await writing.handle.close().catch(() => undefined);
  }

  /** Takes a file from the list. It may have been renamed since it was read. @returns its path */
  #take({ number }: SpoolFile): string {
    const file = this.#sealed.find((one) => one.number === number);
    if (file === undefined) throw new Error(`no file ${number} in the spool`);
    this.#sealed = this.#sealed.filter((one) => one !== file);
    return this.#pathOf(file);
  }

  #pathOf({ number, isRowsOnly }: Pick<SpoolFile, 'number' | 'isRowsOnly'>): string {
    const ending = isRowsOnly ? ROWS_ONLY : WITH_CLAIMS;
    return join(this.#options.dir, `${String(number).padStart(6, '0')}${ending}`);
  }
}

/** @param found what is wrong with the folder */
export function refused(found: string, cause?: unknown): StoreError {
  const advice = 'move the folder away, and keep it: its own archive still needs these rows';
  return new StoreError('spool_refused', `the spool ${found}; ${advice}`, { cause });
}

/** Returns the folders with rows of the same database that no daemon of this number of shares stores. */
export async function foldersOfOtherShares(
  dir: string,
  owner: DatabaseIdentity,
  share: Share,
): Promise<string[]> {
  const whole = folderOf(owner, Share.whole);
  const isOther = (name: string) =>
    name === whole
      ? !share.isWhole
      : name.startsWith(`${whole}-share`) && (share.isWhole || !name.endsWith(`of${share.of}`));
  const found: string[] = [];
  for (const name of (await readdir(dir)).filter(isOther)) {
    const files = await readdir(join(dir, name));
    if (files.some((file) => NAME.test(file))) found.push(join(dir, name));
  }
  return found;
}

/** Daemons of several databases, and of several shares, may use one data folder. */
export function folderOf(
  { system, databaseOid, tableOid, copy }: DatabaseIdentity,
  share: Share,
): string {
  const part = share.isWhole ? '' : `-share${share.number}of${share.of}`;
  const name = `${system ?? 'unknown'}-${databaseOid}-${tableOid}${copy === null ? '' : `-${copy}`}${part}`;
  return name.replaceAll(/[^\w-]/g, '_');
}
