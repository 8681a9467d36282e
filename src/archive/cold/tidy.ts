import { rm, rmdir } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import type { PartitionInfo } from '../../store/index.js';
import { coldManifestPath, filesBelow, SCRATCH_FOLDER } from './folder.js';
import { readColdManifest } from './manifest.js';

/** Files that tidying considers; anything else in the folder is not ours. */
const OURS = /^(?:kind=[^/]+\/|manifests\/)/;
const MANIFEST = /^manifests\/.*\.json$/;

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
  const known = await knownFiles(coldDir, partitions);
  for (const path of await filesBelow(coldDir)) {
    if (known.has(path) || !OURS.test(path)) continue;
    await rm(join(coldDir, path), { force: true });
    await removeEmptyFolders(coldDir, dirname(path));
  }
}

/** Manifests of a folder that name no partition of this database as it has it. @throws ColdError */
export async function findUnknownManifests(
  coldDir: string,
  partitions: readonly PartitionInfo[],
): Promise<string[]> {
  const known = await knownFiles(coldDir, partitions);
  return (await filesBelow(coldDir)).filter((path) => MANIFEST.test(path) && !known.has(path));
}

/** Manifests of partitions, and the files that they name. @throws ColdError when one that counts cannot be read */
async function knownFiles(
  coldDir: string,
  partitions: readonly PartitionInfo[],
): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  for (const { table, name, uri, state, checksum } of partitions) {
    if (state !== 'archived' && state !== 'sealed') continue;
    const at = uri ?? coldManifestPath(table, name);
    const manifest = readColdManifest(coldDir, at);
    // The files of a sealed partition are a spare copy: it was restored, or could not leave yet.
    const found = await (state === 'archived' ? manifest : manifest.catch(() => undefined));
    if (found === undefined || found.checksum !== checksum) continue;
    known.add(at);
    for (const { path } of found.files) known.add(path);
  }
  return known;
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
