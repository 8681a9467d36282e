import { createHash } from 'node:crypto';
import { createWriteStream } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { unlessAborted } from '../../../kernel/clock.js';
import { asColdError, ColdError, inColdWords } from '../../errors.js';
import {
  assertColdDir,
  checkFileOnce,
  type FileSums,
  noteChecked,
  SCRATCH_FOLDER,
} from '../folder.js';
import type { ColdCondition, ColdEntry, ColdHold, ColdStorage, ColdText } from '../storage.js';
import { ColdCache } from './cache.js';
import {
  BucketClient,
  type BucketPlace,
  type BucketTools,
  shortBody,
  TEXT_BYTES,
} from './client.js';

/** Options of {@link BucketStorage}. */
export interface BucketOptions extends BucketPlace, BucketTools {
  /** Folder of this machine for local copies. */
  readonly cacheDir: string;
  readonly cacheBytes: number;
}

/** Files that are fetched ahead at a time, and that may wait for it. */
const AHEAD_LANES = 6;
const AHEAD_WAITING = 4096;
/** Part of the cache that one plan may fetch ahead. */
const AHEAD_PART = 1 / 4;
/** Fetches of one reader for one file: the cache may evict it before it is used. */
const FETCHES = 3;
/** Calls of the system that fail on this machine and not in the network. */
const OF_FILES: ReadonlySet<string> = new Set(['open', 'write', 'close']);

/** Codes of what a store did not keep as it was written. */
const NOT_KEPT: ReadonlySet<string> = new Set(['cold_missing', 'cold_damaged']);

/** A fetch that several readers may wait for; it ends when none does. */
interface Fetch {
  readonly done: Promise<void>;
  readonly ending: AbortController;
  readers: number;
}

/** Cold files in a bucket of an S3-compatible store, read through a local cache. */
export class BucketStorage implements ColdStorage {
  readonly name: string;
  readonly scratch: string;
  readonly #client: BucketClient;
  readonly #cache: ColdCache;
  readonly #cacheBytes: number;
  readonly #fetching = new Map<string, Fetch>();
  readonly #waiting: (ColdEntry & { readonly signal: AbortSignal | undefined })[] = [];
  #lanes = 0;
  #isProbed = false;

  constructor(options: BucketOptions) {
    this.#client = new BucketClient(options, options);
    this.#cache = new ColdCache(options.cacheDir, options.cacheBytes, options.clock);
    this.#cacheBytes = options.cacheBytes;
    this.name = this.#client.name;
    this.scratch = join(options.cacheDir, SCRATCH_FOLDER);
  }

  at(path: string): string {
    return this.#client.at(path);
  }

  assertReadable(): void {
    assertColdDir(this.#cache.dir);
  }

  /** Sees once whether the store refuses writes whose condition does not hold. */
  async assertWritable(): Promise<void> {
    this.assertReadable();
    if (this.#isProbed) return;
    await this.#client.assertConditions();
    this.#isProbed = true;
  }

  hold(signal?: AbortSignal): ColdHold {
    const held: string[] = [];
    const take = (path: string): string | undefined => {
      const at = this.#cache.pin(path);
      if (at !== undefined) held.push(path);
      return at;
    };
    return {
      local: async (path, sums) => {
        await this.#cache.open();
        for (let fetch = 0; ; fetch += 1) {
          const at = take(path);
          try {
            if (at !== undefined) {
              await checkFileOnce(at, sums, signal);
              return at;
            }
          } catch (error) {
            if (!(error instanceof ColdError)) throw error;
            // The copy here is damaged; that of the bucket may be whole.
            if (held.pop() !== undefined) this.#cache.unpin(path);
            await this.#cache.discard(path);
          }
          if (fetch === FETCHES) throw this.#crowded(path);
          await this.#fetch({ path, ...sums }, signal);
        }
      },
      peek: async (path) => {
        await this.#cache.open();
        for (let fetch = 0; fetch <= FETCHES; fetch += 1) {
          const at = take(path);
          if (at !== undefined) return at;
          await this.#download(path, undefined, signal);
        }
        throw this.#crowded(path);
      },
      [Symbol.dispose]: () => {
        for (const path of held.splice(0)) this.#cache.unpin(path);
      },
    };
  }

  #crowded(path: string): ColdError {
    const text = `${this.at(path)} was evicted from the cache ${FETCHES} times before it was read: raise cold.cache`;
    return new ColdError('cold_cache_full', text);
  }

  ahead(files: readonly ColdEntry[], signal?: AbortSignal): void {
    let bytes = 0;
    for (const { path, bytes: own, sha256 } of files) {
      bytes += own;
      if (bytes > this.#cacheBytes * AHEAD_PART || this.#waiting.length >= AHEAD_WAITING) break;
      this.#waiting.push({ path, bytes: own, sha256, signal });
    }
    while (this.#lanes < Math.min(AHEAD_LANES, this.#waiting.length)) {
      this.#lanes += 1;
      void this.#fetchAhead().finally(() => {
        this.#lanes -= 1;
      });
    }
  }

  async #fetchAhead(): Promise<void> {
    for (let one = this.#waiting.shift(); one !== undefined; one = this.#waiting.shift()) {
      const { signal, ...file } = one;
      if (signal?.aborted || (await this.#cache.has(file.path))) continue;
      // Its reader meets the failure.
      await this.#fetch(file, signal).catch(() => undefined);
    }
  }

  async check(path: string, sums: FileSums, signal?: AbortSignal): Promise<void> {
    await this.#download(path, sums, signal);
  }

  async readText(path: string, maxBytes = TEXT_BYTES): Promise<ColdText> {
    return await this.#client.readText(path, maxBytes);
  }

  async readKnown(
    path: string,
    maxBytes: number,
    isRight: (text: string) => boolean,
  ): Promise<string> {
    const copy = await this.#cache.read(path);
    if (copy !== undefined && isRight(copy)) return copy;
    const { text } = await this.#client.readText(path, maxBytes);
    if (isRight(text)) await this.#keep(path, text);
    return text;
  }

  /** Keeps a text in the cache, if it has room. */
  async #keep(path: string, text: string): Promise<void> {
    const temporary = await this.#cache.temporary();
    const content = Buffer.from(text);
    let reserved = 0;
    try {
      await this.#cache.reserve(content.length);
      reserved = content.length;
      await writeFile(temporary, content);
      await this.#cache.add(temporary, path);
    } catch {
      // The text was read, and is read again where it is.
      this.#cache.release(reserved);
      await rm(temporary, { force: true });
    }
  }

  async put(from: string, path: string, sums: FileSums, signal?: AbortSignal): Promise<void> {
    await this.#client.upload(from, path, sums, signal);
    try {
      // Kept in the cache: it is read first of all.
      await this.#download(path, sums, signal);
    } catch (error) {
      if (!(error instanceof ColdError) || !NOT_KEPT.has(error.code)) throw error;
      const text = `${this.at(path)} does not read back as it was written: the partition stays as it is (${error.message})`;
      throw new ColdError('cold_mismatch', text, { action: 'retry', cause: error });
    }
    await rm(from, { force: true });
  }

  async putText(path: string, text: string, condition: ColdCondition): Promise<void> {
    const version = condition === 'absent' ? null : condition.version;
    await this.#client.write(
      path,
      text,
      version === null ? { IfNoneMatch: '*' } : { IfMatch: version },
    );
    const there = await this.#client.readText(path, TEXT_BYTES).catch((error: unknown) => {
      if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
    });
    if (there?.text === text) return;
    throw new ColdError('cold_conflict', `${this.at(path)} does not read back as it was written`);
  }

  list(prefix: string): AsyncIterable<string> {
    return this.#client.list(prefix);
  }

  async isThere(path: string): Promise<boolean> {
    return await this.#client.isThere(path);
  }

  async remove(path: string): Promise<void> {
    await this.#client.remove(path);
    await this.#cache.discard(path);
  }

  async clear(): Promise<void> {
    await inColdWords(this.scratch, () => rm(this.scratch, { recursive: true, force: true }));
    // Data files alone: other programs may write beside them.
    await this.#client.abortUploads('kind=');
  }

  /** Fetches a file into the cache, once for all who wait for it. */
  async #fetch({ path, ...sums }: ColdEntry, signal: AbortSignal | undefined): Promise<void> {
    signal?.throwIfAborted();
    const fetch = this.#fetching.get(path) ?? this.#begin(path, sums);
    fetch.readers += 1;
    try {
      await (signal === undefined ? fetch.done : unlessAborted(signal, fetch.done));
    } finally {
      fetch.readers -= 1;
      if (fetch.readers === 0) fetch.ending.abort();
    }
  }

  #begin(path: string, sums: FileSums): Fetch {
    const ending = new AbortController();
    const done = this.#download(path, sums, ending.signal).finally(() => {
      if (this.#fetching.get(path) === fetch) this.#fetching.delete(path);
    });
    done.catch(() => undefined);
    const fetch: Fetch = { done, ending, readers: 0 };
    this.#fetching.set(path, fetch);
    return fetch;
  }

  /** Reads an object whole into the cache. @param sums what it should be; undefined: not known */
  async #download(
    path: string,
    sums: FileSums | undefined,
    signal: AbortSignal | undefined,
  ): Promise<void> {
    const temporary = await this.#cache.temporary();
    let reserved = 0;
    try {
      await this.#client.read(path, signal, async (body, length) => {
        const bytes = sums?.bytes ?? length ?? 0;
        if (length !== undefined && length !== bytes) {
          throw this.#damaged(path, `it has ${length} bytes and not ${bytes}`);
        }
        if (reserved === 0) {
          await this.#cache.reserve(bytes);
          reserved = bytes;
        }
        const found = await this.#save(body, temporary, bytes, signal);
        if (found.bytes !== bytes) throw shortBody(this.at(path), found.bytes, bytes);
        if (sums !== undefined && found.sha256 !== sums.sha256) {
          throw this.#damaged(path, `its sha256 is ${found.sha256} and not ${sums.sha256}`);
        }
      });
      await inColdWords(this.#cache.dir, () => this.#cache.add(temporary, path));
      if (sums !== undefined) {
        // Another process may evict it at once.
        await noteChecked(this.#cache.linkOf(path), sums, this.#cache.at(path)).catch(
          () => undefined,
        );
      }
    } catch (error) {
      this.#cache.release(reserved);
      await rm(temporary, { force: true }).catch(() => undefined);
      throw error;
    }
  }

  async #save(
    body: Readable,
    to: string,
    maxBytes: number,
    signal: AbortSignal | undefined,
  ): Promise<FileSums> {
    const hash = createHash('sha256');
    let bytes = 0;
    const counted = async function* (pieces: AsyncIterable<Buffer>) {
      for await (const piece of pieces) {
        signal?.throwIfAborted();
        hash.update(piece);
        bytes += piece.length;
        // More than was reserved is no more than one piece.
        if (bytes > maxBytes) return;
        yield piece;
      }
    };
    try {
      await pipeline(body, counted, createWriteStream(to));
    } catch (error) {
      const { syscall = '' } = Object(error) as NodeJS.ErrnoException;
      throw OF_FILES.has(syscall) ? asColdError(error, to) : error;
    }
    return { bytes, sha256: hash.digest('hex') };
  }

  #damaged(path: string, what: string): ColdError {
    const text = `${this.at(path)} is not what was written: ${what}. Bring it back from a copy`;
    return new ColdError('cold_damaged', text);
  }
}
