import { readFile, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import { isThere, makeFolder } from '../../kernel/folders.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import { moveSynced, syncFile, writeSynced } from '../files.js';
import {
  assertColdDir,
  checkFile,
  checkFileOnce,
  type FileSums,
  filesBelow,
  SCRATCH_FOLDER,
} from './folder.js';

/** A small text with what {@link ColdStorage.putText} needs to replace it. */
export interface ColdText {
  readonly text: string;
  readonly version: string;
}

/**
 * `absent`: only if nothing is there. A version: only if the text is still the one that was read, null if there was
 * none. A folder replaces the text whatever its version: the lock of the database allows one writer.
 */
export type ColdCondition = 'absent' | { readonly version: string | null };

/** Local copies that stay until this is disposed of. */
export interface ColdHold extends Disposable {
  /**
   * Absolute path of a file, checked against its manifest: size now, and content once.
   *
   * @throws ColdError `cold_missing`, `cold_damaged`, `cold_refused`
   */
  local(path: string, sums: FileSums): Promise<string>;
  /** Absolute path of a file that nothing is known of: its content may be anything. @throws ColdError */
  peek(path: string): Promise<string>;
}

/**
 * Place of cold files. Paths are relative to it, with `/`; its layout is that of `folder.ts`. Methods throw ColdError,
 * or the reason of a signal.
 */
export interface ColdStorage {
  /** For people: the folder, or `s3://bucket/prefix`. */
  readonly name: string;
  /** Folder on this machine for files under way. One process at a time works in it. */
  readonly scratch: string;
  /** Name of a file for messages. */
  at(path: string): string;
  /** @throws ColdError `cold_refused` if DuckDB would take the name of a local folder for a pattern */
  assertReadable(): void;
  /** @throws ColdError if the place cannot be written safely */
  assertWritable(): Promise<void>;
  /** Keeps local copies for a reader. */
  hold(signal?: AbortSignal): ColdHold;
  /** Begins to fetch files that are needed soon. Failures are those of {@link ColdHold.local}. */
  ahead(files: readonly ColdEntry[], signal?: AbortSignal): void;
  /** Reads a file where it is, whole, and compares it with its manifest. */
  check(path: string, sums: FileSums, signal?: AbortSignal): Promise<void>;
  readText(path: string, maxBytes?: number): Promise<ColdText>;
  /** Reads a text whose content is known; a local copy serves as long as it is right. It may be another text. */
  readKnown(path: string, maxBytes: number, isRight: (text: string) => boolean): Promise<string>;
  /** Moves a local file to its place. It is there for good, and was read back where that says more, when this resolves. */
  put(from: string, path: string, sums: FileSums, signal?: AbortSignal): Promise<void>;
  /** @throws ColdError `cold_conflict` if the condition does not hold */
  putText(path: string, text: string, condition: ColdCondition): Promise<void>;
  /** Paths that begin with a text, in any order. */
  list(prefix: string): AsyncIterable<string>;
  isThere(path: string): Promise<boolean>;
  /** Removes a file, if it is there. */
  remove(path: string): Promise<void>;
  /** Removes what interrupted work left under way. */
  clear(): Promise<void>;
}

/** Texts of a place, such as manifests. */
export type ColdTexts = Pick<ColdStorage, 'name' | 'at' | 'readText'>;

/** A file with what its manifest says of it. */
export interface ColdEntry extends FileSums {
  readonly path: string;
}

/** Cold files in a folder of this machine. It need not exist. */
export class FolderStorage implements ColdStorage {
  readonly name: string;
  readonly scratch: string;

  constructor(dir: string) {
    this.name = dir;
    this.scratch = join(dir, SCRATCH_FOLDER);
  }

  at(path: string): string {
    return join(this.name, path);
  }

  assertReadable(): void {
    assertColdDir(this.name);
  }

  async assertWritable(): Promise<void> {
    assertColdDir(this.name);
  }

  hold(signal?: AbortSignal): ColdHold {
    return {
      local: async (path, sums) => {
        const at = this.at(path);
        await checkFileOnce(at, sums, signal);
        return at;
      },
      peek: async (path) => this.at(path),
      [Symbol.dispose]: () => undefined,
    };
  }

  ahead(): void {
    // Everything is here.
  }

  async check(path: string, sums: FileSums, signal?: AbortSignal): Promise<void> {
    await checkFile(this.at(path), sums, signal);
  }

  async readText(path: string, maxBytes = Number.POSITIVE_INFINITY): Promise<ColdText> {
    const at = this.at(path);
    const bytes = await inColdWords(at, () => readFile(at));
    if (bytes.length > maxBytes) {
      throw new ColdError('cold_damaged', `${at} has ${bytes.length} bytes: no manifest`);
    }
    return { text: bytes.toString('utf8'), version: '' };
  }

  async readKnown(path: string, maxBytes: number): Promise<string> {
    return (await this.readText(path, maxBytes)).text;
  }

  async put(from: string, path: string): Promise<void> {
    const at = this.at(path);
    await syncFile(from);
    await makeFolder(dirname(at));
    await moveSynced(from, at);
  }

  async putText(path: string, text: string, condition: ColdCondition): Promise<void> {
    const at = this.at(path);
    const temporary = `${at}.new`;
    try {
      await makeFolder(dirname(at));
      if (condition === 'absent') return await writeSynced(at, text);
      await rm(temporary, { force: true });
      await writeSynced(temporary, text);
      await moveSynced(temporary, at);
    } catch (error) {
      await rm(temporary, { force: true }).catch(() => undefined);
      if (codeOf(error) !== 'EEXIST') throw asColdError(error, at);
      throw new ColdError('cold_conflict', `${at} is there already`, { cause: error });
    }
  }

  async *list(prefix: string): AsyncGenerator<string> {
    const folder = prefix.slice(0, prefix.lastIndexOf('/') + 1).replace(/\/$/, '');
    for (const path of await filesBelow(this.name, folder)) {
      if (path.startsWith(prefix)) yield path;
    }
  }

  async isThere(path: string): Promise<boolean> {
    const at = this.at(path);
    return await inColdWords(at, () => isThere(at));
  }

  /** Also removes the folders that it leaves empty. */
  async remove(path: string): Promise<void> {
    await inColdWords(this.name, () => rm(this.at(path), { force: true }));
    for (let at = dirname(path); at !== '.' && at !== ''; at = dirname(at)) {
      const isGone = await rmdir(this.at(at)).then(
        () => true,
        () => false,
      );
      if (!isGone) return;
    }
  }

  async clear(): Promise<void> {
    await inColdWords(this.name, () => rm(this.scratch, { recursive: true, force: true }));
  }
}
