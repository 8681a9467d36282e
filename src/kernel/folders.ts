import { mkdir, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import { codeOf } from './errors.js';

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

/** Whether something is there. @throws the error of the file system where that cannot be seen */
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
