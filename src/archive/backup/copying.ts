import { createHash } from 'node:crypto';
import { type FileHandle, open, rename, rm, statfs } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import { isFullDisk } from '../errors.js';
import { syncFolder } from '../files.js';

const BLOCK_BYTES = 1024 * 1024;
/** For this user alone: a database holds secrets. */
const PRIVATE = 0o600;
/** Mode of cold files, which a server reads. */
export const KNOWN = 0o644;

/** Size and SHA-256 of what was copied. */
export interface CopiedSums {
  readonly bytes: number;
  readonly sha256: string;
}

/** Files that are on their way at a time; one by one, thousands of small ones take minutes. */
export const LANES = 16;

/** Work of which a few go on at a time. */
export class Lanes {
  readonly #max: number;
  readonly #running = new Set<Promise<void>>();
  readonly #failures: unknown[] = [];

  constructor(max: number) {
    this.#max = max;
  }

  /** Begins work, and waits while too much is under way. @throws the first failure of any */
  async add(work: () => Promise<void>): Promise<void> {
    const running: Promise<void> = work()
      .catch((error: unknown) => void this.#failures.push(error))
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
    if (this.#running.size >= this.#max) await Promise.race(this.#running);
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  /** Resolves when all work is done. @throws the first failure of any */
  async done(): Promise<void> {
    await Promise.all(this.#running);
    if (this.#failures.length > 0) throw this.#failures[0];
  }

  /** Resolves when all work is done, whatever became of it. */
  async settled(): Promise<void> {
    await Promise.all(this.#running);
  }
}

/** Size and SHA-256 of a content. */
export function digestOf(content: Buffer): CopiedSums {
  return { bytes: content.length, sha256: createHash('sha256').update(content).digest('hex') };
}

/** Copies files one after the other. All are on the disk after {@link Copying.sync}. */
export class Copying {
  readonly signal: AbortSignal;
  readonly #onBytes: (bytes: number, name: string) => void;
  /** Folders that were made or got entries: their names are to last, too. */
  readonly #folders = new Set<string>();
  readonly #syncing = new Lanes(LANES);

  /** @param onBytes called with the bytes of each block */
  constructor(signal: AbortSignal, onBytes: (bytes: number, name: string) => void) {
    this.signal = signal;
    this.#onBytes = onBytes;
  }

  /** Makes a folder; by default one that only this user reads. */
  async folder(path: string, mode = 0o700): Promise<void> {
    await makeFolder(path, mode);
    this.#folders.add(path).add(dirname(path));
  }

  /**
   * Copies a file as long as it is now: what a server appends meanwhile is in its journal.
   *
   * @param to there is no such file yet
   * @returns undefined if the source is not there
   */
  async copy(from: string, to: string, mode = PRIVATE): Promise<CopiedSums | undefined> {
    this.signal.throwIfAborted();
    const source = await open(from, 'r').catch((error: unknown) => {
      if (codeOf(error) !== 'ENOENT') throw error;
    });
    if (source === undefined) return undefined;
    try {
      const { size } = await source.stat();
      return await this.save(blocksOf(source, size), to, mode, basename(from));
    } finally {
      await source.close();
    }
  }

  /** Writes a new file. @param name for the progress */
  async save(
    pieces: Iterable<Buffer> | AsyncIterable<Buffer>,
    to: string,
    mode = PRIVATE,
    name = basename(to),
  ): Promise<CopiedSums> {
    await this.folder(dirname(to), mode === PRIVATE ? 0o700 : 0o777);
    const target = await open(to, 'wx', mode);
    let isWritten = false;
    try {
      const hash = createHash('sha256');
      let bytes = 0;
      for await (const piece of pieces) {
        this.signal.throwIfAborted();
        hash.update(piece);
        await target.writeFile(piece);
        bytes += piece.length;
        this.#onBytes(piece.length, name);
      }
      isWritten = true;
      return { bytes, sha256: hash.digest('hex') };
    } finally {
      if (isWritten) await this.#syncLater(target);
      else await target.close();
    }
  }

  /** {@link Copying.known} of a file of this machine. */
  async copyKnown(from: string, to: string, sums: CopiedSums): Promise<string | null> {
    return await this.known(to, sums, (temporary) => this.copy(from, temporary, KNOWN));
  }

  /**
   * Copies a file that is known. It gets its name when it is whole and right.
   *
   * @returns what is wrong with it, in words; null: nothing
   */
  async known(
    to: string,
    sums: CopiedSums,
    copy: (temporary: string) => Promise<CopiedSums | undefined>,
  ): Promise<string | null> {
    const temporary = `${to}.new`;
    await rm(temporary, { force: true });
    const copied = await copy(temporary);
    if (copied === undefined) return 'is missing';
    const isRight = copied.bytes === sums.bytes && copied.sha256 === sums.sha256;
    await this.#syncing.done();
    if (isRight) await rename(temporary, to);
    else await rm(temporary);
    return isRight ? null : 'is altered';
  }

  async #syncLater(file: FileHandle): Promise<void> {
    await this.#syncing.add(() => file.sync().finally(() => file.close()));
  }

  /** Resolves when nothing is under way any more. */
  async settled(): Promise<void> {
    await this.#syncing.settled();
  }

  /** Makes all last that was copied so far, with its names. */
  async sync(): Promise<void> {
    await this.#syncing.done();
    for (const folder of this.#folders) await syncFolder(folder);
    this.#folders.clear();
  }
}

/** The first bytes of a file, in blocks that are used again. */
export async function* blocksOf(source: FileHandle, size: number): AsyncGenerator<Buffer> {
  const block = Buffer.allocUnsafe(BLOCK_BYTES);
  for (let bytes = 0; bytes < size; ) {
    const wanted = Math.min(BLOCK_BYTES, size - bytes);
    const { bytesRead } = await source.read(block, 0, wanted, null);
    if (bytesRead === 0) return;
    bytes += bytesRead;
    yield block.subarray(0, bytesRead);
  }
}

/** Names a full disk as such; other errors stay as they are. @param left what becomes of what was copied */
export function asFull(error: unknown, dir: string, left: string): unknown {
  if (error instanceof TapekeepError || !isFullDisk(error)) return error;
  const text = `the disk of ${dir} is full: ${left}. Make room there, or name a folder on another disk`;
  return new TapekeepError('disk_full', text, { cause: error });
}

const megabytes = (bytes: number) => `${Math.ceil(bytes / 1e6).toLocaleString('en-US')} MB`;

/** Refuses a disk without the room. @param parts bytes by what they are @throws TapekeepError `disk_full` */
export async function assertRoom(
  dir: string,
  parts: Readonly<Record<string, number>>,
): Promise<void> {
  const total = Object.values(parts).reduce((sum, bytes) => sum + bytes, 0);
  const { bavail, bsize } = await statfs(dir);
  if (bavail * bsize >= total) return;
  const named = Object.entries(parts).map(([part, bytes]) => `${part} ${megabytes(bytes)}`);
  const text = `up to ${megabytes(total)} are needed (${named.join(', ')}), and ${megabytes(bavail * bsize)} are free on the disk of ${dir}: nothing was copied. Make room there, or name a folder on another disk`;
  throw new TapekeepError('disk_full', text);
}

/** Path below a folder, of parts with `/`. */
export const below = (folder: string, path: string) => join(folder, ...path.split('/'));
