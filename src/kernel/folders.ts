import { mkdir, mkdtemp, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { codeOf, TapekeepError } from './errors.js';

/**
 * Makes a folder with its parents, if it is not there. Node's `recursive` says ENOENT where the disk is
 * read-only, and never ends where a file system refuses a folder in that way (/proc, an automounter's root).
 *
 * @param mode of the folders that are made
 * @throws the error of the file system for the folder that cannot be made
 */
export async function makeFolder(path: string, mode = 0o777): Promise<void> {
  try {
    await mkdir(path, { mode });
  } catch (error) {
    const parent = dirname(path);
    if (codeOf(error) !== 'ENOENT' || parent === path) return await assertFolder(path, error);
    await makeFolder(parent, mode);
    await mkdir(path, { mode }).catch((again: unknown) => assertFolder(path, again));
  }
}

/** Returns true if something is there. @throws the error of the file system where that cannot be seen */
export async function isThere(path: string): Promise<boolean> {
  try {
    await stat(path);
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return false;
    throw error;
  }
}

/** Another process may have made it meanwhile. */
async function assertFolder(path: string, error: unknown): Promise<void> {
  const found = await stat(path).catch(() => undefined);
  if (found?.isDirectory() !== true) throw error;
}

/** Whoever meets them says so in words of his own. */
const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

/**
 * Makes a folder of one's own among the temporary files.
 *
 * @param prefix of its name
 * @throws TapekeepError `temporary_folder`; the system's error where the disk is full
 */
export async function makeTemporary(prefix: string): Promise<string> {
  const folder = tmpdir();
  try {
    return await mkdtemp(join(folder, prefix));
  } catch (error) {
    if (FULL.has(codeOf(error))) throw error;
    throw new TapekeepError(
      'temporary_folder',
      `the folder for temporary files, ${folder}, cannot be written (${codeOf(error)}): let TMPDIR name a folder that exists and that this user may write`,
      { cause: error },
    );
  }
}
