import { readFile, rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import type { PartitionInfo } from '../../store/index.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import { writeSynced } from '../files.js';
import { coldManifestPath, filesBelow, isColdThere, SCRATCH_FOLDER } from './folder.js';
import { readColdManifest } from './manifest.js';

/** Names the archive whose folder this is: tidying must never take another one's files away. */
const MARKER = 'archive.json';
/** What tidying looks at; anything else in the folder is not ours. */
const OURS = /^(?:kind=[^/]+\/|manifests\/)/;

/** What makes an archive the one that it is. */
export interface ColdOwner {
  readonly name: string;
  readonly createdAt: string;
}

/**
 * Makes the folder ready for an archive, and its own.
 *
 * @throws ColdError `cold_refused` when it is another archive's; `cold_missing` when it holds nothing of this one's,
 *   though it should: a disk that is not mounted, whose files would lie in two places from then on
 */
export async function claimColdDir(
  coldDir: string,
  owner: ColdOwner,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  const path = join(coldDir, MARKER);
  const text = `${JSON.stringify(owner, null, 2)}\n`;
  const archived = partitions.find(({ state }) => state === 'archived');
  const places = archived === undefined ? [] : [path, join(coldDir, archived.uri ?? '')];
  const found = await Promise.all(places.map(isColdThere));
  if (archived !== undefined && !found.includes(true)) {
    const missing = `${coldDir} holds no cold files of this archive, and ${archived.name} should be there`;
    throw new ColdError(
      'cold_missing',
      `${missing}: mount its disk, bring the files back from a copy, or name the right folder by cold.dir; nothing is moved into files until then`,
    );
  }
  try {
    await makeFolder(coldDir);
    await writeSynced(path, text);
    return;
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw asColdError(error, path);
  }
  const held = await inColdWords(path, () => readFile(path, 'utf8'));
  if (held === text) return;
  throw new ColdError(
    'cold_refused',
    `${coldDir} belongs to another archive (see ${MARKER} in it): set cold.dir to a folder of its own`,
  );
}

/**
 * Takes away what is under way nowhere: scratch files, manifests of no partition, and data
 * that no such manifest names. The caller is the only process that works on the folder.
 *
 * @throws ColdError when a manifest that counts cannot be read: then nothing but scratch is touched
 */
export async function tidyColdDir(
  coldDir: string,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  await rm(join(coldDir, SCRATCH_FOLDER), { recursive: true, force: true });
  const known = new Set<string>();
  for (const { table, name, uri, state, checksum } of partitions) {
    if (state !== 'archived' && state !== 'sealed') continue;
    const at = uri ?? coldManifestPath(table, name);
    const manifest = readColdManifest(coldDir, at);
    // Of a sealed partition the files are a spare copy: it was restored, or could not leave yet.
    const found = await (state === 'archived' ? manifest : manifest.catch(() => undefined));
    if (found === undefined || found.checksum !== checksum) continue;
    known.add(at);
    for (const { path } of found.files) known.add(path);
  }
  for (const path of await filesBelow(coldDir)) {
    if (known.has(path) || !OURS.test(path)) continue;
    await rm(join(coldDir, path), { force: true });
    await removeEmptyFolders(coldDir, dirname(path));
  }
}

async function removeEmptyFolders(coldDir: string, path: string): Promise<void> {
  for (let at = path; at !== '.' && at !== ''; at = dirname(at)) {
    try {
      await rmdir(join(coldDir, at));
    } catch {
      return;
    }
  }
}
