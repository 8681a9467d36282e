import type { PartitionInfo } from '../../store/index.js';
import { ColdError } from '../errors.js';
import { coldManifestPath } from './folder.js';
import { readColdManifest } from './manifest.js';
import { manifestOf } from './restoring.js';
import type { ColdStorage } from './storage.js';

/** Starts of paths that tidying considers; anything else is not ours. */
const OURS = ['kind=', 'manifests/'];
/** Codes of what is wrong with one manifest. */
const OF_ONE: ReadonlySet<string> = new Set(['cold_missing', 'cold_damaged']);

/**
 * Takes away what is under way nowhere: scratch files, manifests of no partition, and data
 * that no such manifest names. The caller is the only process that works on the folder.
 *
 * @throws ColdError when a manifest that counts cannot be read, or is another's: then nothing but scratch is touched
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
  for (const one of partitions) {
    const { table, name, uri, state, checksum } = one;
    if (state !== 'archived' && state !== 'sealed') continue;
    const at = uri ?? coldManifestPath(table, name);
    // The files of a sealed partition are a spare copy: it was restored, or could not leave yet.
    const found =
      state === 'archived'
        ? await manifestOf(cold, one)
        : await readColdManifest(cold, at).catch(unlessAway);
    // Rows that were imported as files have another checksum once they came back; their uri goes with any change.
    if (found === undefined || (uri === null && found.checksum !== checksum)) continue;
    known.add(at);
    for (const { path } of found.files) known.add(path);
  }
  return known;
}

/** Gives none for a manifest that is not there, or damaged. What cannot be reached may be whole. */
function unlessAway(error: unknown): undefined {
  if (error instanceof ColdError && OF_ONE.has(error.code)) return;
  throw error;
}
