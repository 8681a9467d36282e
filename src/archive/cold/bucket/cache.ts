import { linkSync, mkdirSync, rmSync } from 'node:fs';
import { link, readFile, rename, rm, stat, utimes } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { Clock } from '../../../kernel/clock.js';
import { codeOf } from '../../../kernel/errors.js';
import { isThere, makeFolder } from '../../../kernel/folders.js';
import { Mutex } from '../../../kernel/mutex.js';
import { asColdError, ColdError, inColdWords } from '../../errors.js';
import { Scratch } from '../../files.js';
import { filesBelow } from '../folder.js';

/** Whole files of the cache, by their path in the bucket. */
const FILES = 'files';
/** Part of the limit after which files of other processes are counted again. */
const COUNTED_EACH = 1 / 16;
/** Files make room down to this part of the limit, so that not every file has to look for some. */
const ROOM_PART = 0.95;
/** The time of the last use is noted as often as this at most. */
const USE_NOTED_MS = 60_000;

/**
 * Local copies of a bucket's files, bounded, the least recently used going first. Several processes share it without a
 * lock: a file comes by rename, and is in use as long as a second link to it, by which it is read, is in the folder of a
 * process that runs. Who evicts a file moves it away first and looks then: no reader can have linked it later.
 */
export class ColdCache {
  readonly dir: string;
  readonly #maxBytes: number;
  readonly #clock: Clock;
  /** Readers of files in use. */
  readonly #pins = new Map<string, number>();
  readonly #turn = new Mutex();
  readonly #usedAtMs = new Map<string, number>();
  /** Folder of this process: links of files in use, and files that are on their way. */
  #own: Promise<Scratch> | undefined;
  #ownPath = '';
  #number = 0;
  #bytes: number | undefined;
  #addedBytes = 0;

  constructor(dir: string, maxBytes: number, clock: Clock) {
    this.dir = dir;
    this.#maxBytes = maxBytes;
    this.#clock = clock;
  }

  at(path: string): string {
    return join(this.dir, FILES, ...path.split('/'));
  }

  /** Makes the folder of this process, and removes what killed ones left. */
  async open(): Promise<string> {
    this.#own ??= inColdWords(this.dir, async () => {
      await makeFolder(this.dir);
      return await Scratch.makeBeside(this.dir);
    });
    this.#ownPath = (await this.#own).path;
    return this.#ownPath;
  }

  /** A name for a file on its way to the cache; gone with the process. */
  async temporary(): Promise<string> {
    this.#number += 1;
    const name = `${this.#number}`;
    return join(await this.open(), name);
  }

  /** Path by which this process reads a file that it pinned. */
  linkOf(path: string): string {
    return join(this.#ownPath, FILES, ...path.split('/'));
  }

  /**
   * Keeps a file for this process until {@link unpin}; undefined: it is not there. Without waiting, so that no other
   * reader comes between. To be called after {@link open}.
   *
   * @returns the path by which it can be read
   */
  pin(path: string): string | undefined {
    const at = this.linkOf(path);
    const readers = this.#pins.get(path) ?? 0;
    if (readers === 0) {
      try {
        mkdirSync(dirname(at), { recursive: true });
        linkSync(this.at(path), at);
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return undefined;
        throw new ColdError(
          'cold_refused',
          `${this.dir} cannot hold the cache of cold files (${codeOf(error)}): dataDir needs a file system with hard links`,
          { cause: error },
        );
      }
    }
    this.#pins.set(path, readers + 1);
    void this.#noteUse(path);
    return at;
  }

  unpin(path: string): void {
    const readers = (this.#pins.get(path) ?? 0) - 1;
    if (readers > 0) this.#pins.set(path, readers);
    else if (this.#pins.delete(path)) rmSync(this.linkOf(path), { force: true });
  }

  /** Makes room for a file that is to come. @throws ColdError `cold_cache_full` */
  async reserve(bytes: number): Promise<void> {
    await this.#turn.run(async () => {
      const isDue = this.#addedBytes > this.#maxBytes * COUNTED_EACH;
      if (this.#bytes === undefined || isDue || this.#bytes + bytes > this.#maxBytes) {
        await this.#evict(bytes);
      }
      this.#bytes = (this.#bytes ?? 0) + bytes;
      this.#addedBytes += bytes;
    });
  }

  /** Gives room back that was not used. */
  release(bytes: number): void {
    this.#bytes = Math.max(0, (this.#bytes ?? 0) - bytes);
  }

  /** Content of a text; undefined: it is not there. */
  async read(path: string): Promise<string | undefined> {
    try {
      const text = await readFile(this.at(path), 'utf8');
      void this.#noteUse(path);
      return text;
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw asColdError(error, this.dir);
    }
  }

  async has(path: string): Promise<boolean> {
    return await isThere(this.at(path));
  }

  /** Gives a whole file its place. */
  async add(temporary: string, path: string): Promise<void> {
    const at = this.at(path);
    // Whole seconds, so that noting the use of a file does not change them.
    const seconds = Math.floor(this.#clock.wallMs() / 1000);
    await utimes(temporary, seconds, seconds);
    await makeFolder(dirname(at));
    await rename(temporary, at);
    this.#usedAtMs.set(path, seconds * 1000);
  }

  /** Removes a file that is not what it should be. Who reads it goes on. */
  async discard(path: string): Promise<void> {
    await rm(this.at(path), { force: true });
  }

  async #noteUse(path: string): Promise<void> {
    const nowMs = this.#clock.wallMs();
    if (nowMs - (this.#usedAtMs.get(path) ?? 0) < USE_NOTED_MS) return;
    if (this.#usedAtMs.size > 50_000) this.#usedAtMs.clear();
    this.#usedAtMs.set(path, nowMs);
    const at = this.at(path);
    const found = await stat(at).catch(() => undefined);
    if (found !== undefined) await utimes(at, nowMs / 1000, found.mtime).catch(() => undefined);
  }

  /** Counts what is there, and removes what was not used for longest. */
  async #evict(needed: number): Promise<void> {
    const found: { path: string; bytes: number; usedAtMs: number; isInUse: boolean }[] = [];
    let total = 0;
    for (const path of await filesBelow(join(this.dir, FILES))) {
      const about = await stat(this.at(path)).catch(() => undefined);
      if (about === undefined) continue;
      const { size: bytes, atimeMs: usedAtMs, nlink } = about;
      total += bytes;
      found.push({ path, bytes, usedAtMs, isInUse: nlink > 1 });
    }
    const isFull = total + needed > this.#maxBytes;
    const allowed = this.#maxBytes * (isFull ? ROOM_PART : 1);
    found.sort((a, b) => a.usedAtMs - b.usedAtMs);
    for (const { path, bytes, isInUse } of found) {
      if (total + needed <= allowed) break;
      if (!isInUse && (await this.#remove(path))) total -= bytes;
    }
    this.#bytes = total;
    this.#addedBytes = 0;
    if (total + needed <= this.#maxBytes) return;
    const text = `cold files of ${total} bytes are in use, and ${needed} more do not fit into cold.cache (${this.#maxBytes} bytes): raise it, or ask for a shorter time or fewer markets`;
    throw new ColdError('cold_cache_full', text);
  }

  /** Returns true if the file is gone. */
  async #remove(path: string): Promise<boolean> {
    const at = this.at(path);
    const away = await this.temporary();
    try {
      await rename(at, away);
    } catch (error) {
      // Another process was quicker.
      if (codeOf(error) === 'ENOENT') return true;
      throw error;
    }
    const isInUse = (await stat(away)).nlink > 1;
    if (isInUse) await link(away, at).catch(ignoreThere);
    await rm(away, { force: true });
    return !isInUse;
  }
}

function ignoreThere(error: unknown): void {
  if (codeOf(error) !== 'EEXIST') throw error;
}
