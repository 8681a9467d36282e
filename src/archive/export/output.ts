import { createHash, type Hash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import { asDiskFull, OutputError } from '../errors.js';
import { BlockWriter, moveSynced, Scratch, sweep, writeSynced } from '../files.js';
import { isPattern } from '../parquet/session.js';
import type { Manifest } from './manifest.js';

/** Target of bytes that go to no file of ours: standard output. */
export interface ByteSink {
  write(bytes: Uint8Array): Promise<void>;
}

export interface OutputOptions {
  /** A path, or undefined for `sink`. */
  readonly path: string | undefined;
  /** Path of the manifest; default: beside the file, if there is one. */
  readonly manifestPath: string | undefined;
  readonly sink: ByteSink;
  /** True if files that are there already may be replaced. */
  readonly isForced: boolean;
}

const READ_BYTES = 1024 * 1024;
const MANIFEST_ENDING = '.manifest.json';

/**
 * Target of an export. Files come to be under a name of their own, in a hidden folder beside
 * their place, and take their place whole: a crash leaves what was there before, or the new file
 * without a manifest. The next export into the folder takes the hidden one away. Devices, named pipes
 * and standard output are written to as it goes.
 *
 * States: *open* → *committed* or *discarded*.
 */
export class Output {
  readonly #options: OutputOptions;
  readonly #scratch: Scratch;
  readonly #target: FileHandle | undefined;
  readonly #blocks: BlockWriter | undefined;
  readonly #isFile: boolean;
  readonly #hash: Hash = createHash('sha256');
  #bytes = 0;

  private constructor(
    options: OutputOptions,
    scratch: Scratch,
    target: FileHandle | undefined,
    isFile: boolean,
  ) {
    this.#options = options;
    this.#scratch = scratch;
    this.#target = target;
    this.#blocks = target === undefined ? undefined : new BlockWriter(target);
    this.#isFile = isFile;
  }

  /** @throws OutputError when there is something already, or nothing can be written there */
  static async open(options: OutputOptions): Promise<Output> {
    const { path, isForced } = options;
    const kind = path === undefined ? 'stream' : await kindOf(path);
    if (path !== undefined && kind === 'folder') {
      throw new OutputError(path, 'it is a folder; name a file');
    }
    const isFile = kind === 'file' || kind === 'new';
    const folder = isFile && path !== undefined ? dirname(resolve(path)) : undefined;
    const manifestPath =
      options.manifestPath ?? (isFile ? `${path ?? ''}${MANIFEST_ENDING}` : undefined);
    if (options.manifestPath !== undefined) await refuseManifestAt(options.manifestPath, path);
    // Also where nothing will be written, because something is there already.
    if (folder !== undefined) await sweep(folder);
    if (!isForced) await refuseTaken(isFile ? path : undefined, manifestPath);
    const place = path ?? 'standard output';
    try {
      const scratch =
        folder === undefined ? await Scratch.make('export') : await Scratch.makeBeside(folder);
      const target = isFile
        ? await open(join(scratch.path, 'data'), 'wx', 0o644)
        : path === undefined
          ? undefined
          : await open(path, 'w');
      return new Output({ ...options, manifestPath }, scratch, target, isFile);
    } catch (error) {
      if (codeOf(error) === 'ENOSPC') throw asDiskFull(error, place);
      throw new OutputError(place, `${refusal(codeOf(error))} (${codeOf(error)})`, error);
    }
  }

  /** Name for people. */
  get name(): string {
    return this.#options.path ?? 'standard output';
  }

  /** Path of the manifest; undefined: the caller prints it. */
  get manifestPath(): string | undefined {
    return this.#options.manifestPath;
  }

  /** Name of the file without its folder; null for anything that is no file. */
  get fileName(): string | null {
    return this.#isFile ? basename(this.name) : null;
  }

  /** A path for something that is needed until the end. */
  scratch(name: string): string {
    if (isPattern(this.#scratch.path)) {
      throw new OutputError(
        this.name,
        'the name of its folder holds one of * ? [ ] { }; for this format choose another',
      );
    }
    return join(this.#scratch.path, name);
  }

  /** @throws DiskFullError */
  async write(bytes: Uint8Array): Promise<void> {
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    try {
      if (this.#blocks === undefined) await this.#options.sink.write(bytes);
      else await this.#blocks.add(bytes);
    } catch (error) {
      throw asDiskFull(error, this.name);
    }
  }

  /** Writes what another file holds. */
  async writeFile(path: string, signal?: AbortSignal): Promise<void> {
    for await (const piece of createReadStream(path, { highWaterMark: READ_BYTES })) {
      signal?.throwIfAborted();
      await this.write(piece as Buffer);
    }
  }

  /** Bytes written. No more can be written after it was asked for. */
  sums(): { readonly bytes: number; readonly sha256: string } {
    return { bytes: this.#bytes, sha256: this.#hash.digest('hex') };
  }

  /**
   * Everything takes its place: the file before its manifest, and an older manifest goes before both,
   * so that at no time a manifest describes another file than that which is there.
   */
  async commit(manifest: Manifest): Promise<void> {
    const { path, manifestPath } = this.#options;
    try {
      await this.#blocks?.flush();
      if (this.#isFile) await this.#target?.sync();
      await this.#target?.close();
      if (this.#isFile && !this.#options.isForced) await refuseTaken(path, manifestPath);
      if (manifestPath === undefined) return;
      const folder = dirname(resolve(manifestPath));
      const isBeside = folder === dirname(this.#scratch.path);
      // It may be on another disk than the data, where it has to wait for its name.
      const place = isBeside ? this.#scratch : await Scratch.makeBeside(folder);
      try {
        const written = join(place.path, 'manifest');
        await writeSynced(written, `${JSON.stringify(manifest, null, 2)}\n`);
        if (this.#isFile && path !== undefined) {
          await rm(manifestPath, { force: true });
          await moveSynced(join(this.#scratch.path, 'data'), resolve(path));
        }
        await moveSynced(written, resolve(manifestPath));
      } finally {
        if (!isBeside) await place.remove();
      }
    } catch (error) {
      throw asDiskFull(error, this.name);
    } finally {
      await this.#scratch.remove();
    }
  }

  /** Takes away what was begun. Safe to call at any time. */
  async discard(): Promise<void> {
    await this.#blocks?.flush().catch(() => undefined);
    await this.#target?.close().catch(() => undefined);
    await this.#scratch.remove();
  }
}

async function kindOf(path: string): Promise<'file' | 'folder' | 'device' | 'new'> {
  try {
    const found = await stat(path);
    return found.isDirectory() ? 'folder' : found.isFile() ? 'file' : 'device';
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return 'new';
    throw new OutputError(path, `${refusal(codeOf(error))} (${codeOf(error)})`, error);
  }
}

/** Asked again at the end: another export may have written there meanwhile. */
async function refuseTaken(...paths: ReadonlyArray<string | undefined>): Promise<void> {
  for (const path of paths) {
    if (path === undefined || (await kindOf(path)) === 'new') continue;
    throw new OutputError(path, 'it is there already; --force replaces it');
  }
}

/** Known before the rows are written, however many there are: the manifest comes after them. */
async function refuseManifestAt(manifestPath: string, path: string | undefined): Promise<void> {
  if (path !== undefined && resolve(path) === resolve(manifestPath)) {
    throw new OutputError(path, 'the data go there; name another file for the manifest');
  }
  if ((await kindOf(manifestPath)) === 'folder') {
    throw new OutputError(manifestPath, 'it is a folder; name a file for the manifest');
  }
  if ((await kindOf(dirname(resolve(manifestPath)))) === 'new') {
    throw new OutputError(manifestPath, `${refusal('ENOENT')} (ENOENT)`);
  }
}

function refusal(code: string): string {
  if (code === 'ENOENT') return 'its folder does not exist';
  if (code === 'ENOTDIR') return 'its folder is a file';
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS')
    return 'writing there is not allowed';
  return 'it cannot be opened';
}
