import type { PartitionInfo } from '../../store/index.js';
import { coldManifestPath } from './folder.js';
import { readColdManifest } from './manifest.js';
import type { ColdStorage } from './storage.js';

/** Starts of paths that tidying considers; anything else is not ours. */
const OURS = ['kind=', 'manifests/'];

/**
 * Takes away what is under way nowhere: scratch files, manifests of no partition, and data
 * that no such manifest names. The caller is the only process that works on the folder.
 *
 * @throws ColdError when a manifest that counts cannot be read: then nothing but scratch is touched
 */
export async function tidyColdDir(
  cold: ColdStorage,
  partitions: readonly PartitionInfo[],
): Promise<void> {
  await cold.clear();
  const known = await knownFiles(cold, partitions);
  for (const start of OURS) {
    for await (const path of cold.list(start)) if (!known.has(path)) await cold.remove(path);
  }
}

/** Manifests of a folder that name no partition of this database as it has it. @throws ColdError */
export async function findUnknownManifests(
  cold: ColdStorage,
  partitions: readonly PartitionInfo[],
): Promise<string[]> {
  const known = await knownFiles(cold, partitions);
  const unknown: string[] = [];
  for await (const path of cold.list('manifests/')) {
    if (path.endsWith('.json') && !known.has(path)) unknown.push(path);
  }
  return unknown;
}

/** Manifests of partitions, and the files that they name. @throws ColdError when one that counts cannot be read */
async function knownFiles(
  cold: ColdStorage,
  partitions: readonly PartitionInfo[],
): Promise<ReadonlySet<string>> {
  const known = new Set<string>();
  for (const { table, name, uri, state, checksum } of partitions) {
    if (state !== 'archived' && state !== 'sealed') continue;
    const at = uri ?? coldManifestPath(table, name);
    const manifest = readColdManifest(cold, at);
    // The files of a sealed partition are a spare copy: it was restored, or could not leave yet.
    const found = await (state === 'archived' ? manifest : manifest.catch(() => undefined));
    // Rows that were imported as files have another checksum once they came back; their uri goes with any change.
    if (found === undefined || (uri === null && found.checksum !== checksum)) continue;
    known.add(at);
    for (const { path } of found.files) known.add(path);
  }
  return known;
}
