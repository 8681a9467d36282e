import { createHash } from 'node:crypto';
import { type FileHandle, mkdir, open, readdir, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import { asColdError, ColdError } from './errors.js';
import { syncFolder } from './manifest.js';

/**
 * The file system as far as cold partitions need it, so that a test can put a full disk in its place.
 * Paths are absolute.
 */
export interface ColdFileSystem {
  makeFolder(path: string): Promise<void>;
  /** Begins a new file. */
  create(path: string): Promise<ColdFileWriter>;
  /** Makes what was written last over a loss of power. */
  sync(path: string): Promise<void>;
  /** Gives a file its place, which lasts from then on. */
  move(from: string, to: string): Promise<void>;
  remove(path: string): Promise<void>;
}

interface ColdFileWriter {
  write(bytes: Buffer): Promise<void>;
  close(): Promise<void>;
}

async function writeAll(file: FileHandle, bytes: Buffer): Promise<void> {
  let at = 0;
  while (at < bytes.length) at += (await file.write(bytes, at)).bytesWritten;
}

/** The machine's own. */
export const systemFiles: ColdFileSystem = {
  async makeFolder(path) {
    await mkdir(path, { recursive: true });
  },
  async create(path) {
    const file = await open(path, 'w', 0o644);
    return { write: (bytes) => writeAll(file, bytes), close: () => file.close() };
  },
  async sync(path) {
    const file = await open(path, 'r+');
    try {
      await file.sync();
    } finally {
      await file.close();
    }
  },
  async move(from, to) {
    await mkdir(dirname(to), { recursive: true });
    await rename(from, to);
    await syncFolder(dirname(to));
  },
  async remove(path) {
    await rm(path, { recursive: true, force: true });
  },
};

const READ_BYTES = 1024 * 1024;

/** Size and SHA-256 of a file. @throws ColdError `cold_missing`, `cold_refused` */
export async function sumFile(
  path: string,
  signal?: AbortSignal,
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  const hash = createHash('sha256');
  const buffer = Buffer.allocUnsafe(READ_BYTES);
  let bytes = 0;
  let file: FileHandle | undefined;
  try {
    file = await open(path, 'r');
    for (;;) {
      signal?.throwIfAborted();
      const { bytesRead } = await file.read(buffer, 0, READ_BYTES);
      if (bytesRead === 0) return { bytes, sha256: hash.digest('hex') };
      hash.update(buffer.subarray(0, bytesRead));
      bytes += bytesRead;
    }
  } catch (error) {
    throw asColdError(error, path);
  } finally {
    await file?.close();
  }
}

/** DuckDB takes these for patterns in the names of files that it reads. */
const PATTERN = /[*?[\]{}]/;

/** @throws ColdError `cold_refused` when DuckDB could not be told the names of files in a folder */
export function assertColdDir(coldDir: string): void {
  if (!PATTERN.test(coldDir)) return;
  const text = `the name of the folder ${coldDir} holds one of * ? [ ] { }, which are patterns to DuckDB: call the folder of cold files otherwise`;
  throw new ColdError('cold_refused', 'fatal', text);
}

/** Checks a file against what its manifest says. @throws ColdError naming it and what to do */
export async function checkFile(
  coldDir: string,
  file: { readonly path: string; readonly bytes: number; readonly sha256: string },
  signal?: AbortSignal,
): Promise<string> {
  const path = join(coldDir, file.path);
  const { bytes, sha256 } = await sumFile(path, signal);
  if (bytes === file.bytes && sha256 === file.sha256) return path;
  const what =
    bytes === file.bytes ? 'its checksum differs' : `it has ${bytes} bytes, not ${file.bytes}`;
  throw new ColdError(
    'cold_damaged',
    'fatal',
    `${path} is not the file that was written: ${what}. Bring it back from a copy; nothing was changed`,
  );
}

/** All files below a folder, relative to it with `/`; none when it is not there. */
export async function filesBelow(folder: string, at = ''): Promise<string[]> {
  const found: string[] = [];
  const names = await readdir(join(folder, at), { withFileTypes: true }).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return [];
    throw asColdError(error, join(folder, at));
  });
  for (const one of names) {
    const path = at === '' ? one.name : `${at}/${one.name}`;
    if (one.isDirectory()) found.push(...(await filesBelow(folder, path)));
    else found.push(path);
  }
  return found;
}

/** Whether something is there. */
export async function isThere(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined)) !== undefined;
}
