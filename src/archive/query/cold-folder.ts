import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import { type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { checkFileOnce, filesBelow } from '../cold/folder.js';
import { type ColdManifest, readColdManifest } from '../cold/manifest.js';
import { ColdError, StatementRefusedError } from '../errors.js';
import { type PlacedFile, placeFiles } from '../segments.js';
import type { Bounds } from './needs.js';

/** Data files that an error names; beyond them it counts how many more there are. */
const MAX_NAMED = 5;
const DATA_FILE = /^kind=[^/]+\/.*\.parquet$/;

/**
 * Every data file belongs to one manifest: a file that none names is of a day that would be missing
 * from the answer, unless it was left by an archiving that did not come to its end.
 *
 * @throws ColdError `cold_missing`
 */
async function assertAllNamed(dir: string, manifests: readonly ColdManifest[]): Promise<void> {
  const named = new Set(manifests.flatMap(({ files }) => files.map(({ path }) => path)));
  const unnamed = (await filesBelow(dir)).filter((one) => DATA_FILE.test(one) && !named.has(one));
  if (unnamed.length === 0) return;
  const more = unnamed.length > MAX_NAMED ? ` and ${unnamed.length - MAX_NAMED} more` : '';
  const names = unnamed.sort().slice(0, MAX_NAMED).join(', ');
  throw new ColdError(
    'cold_missing',
    `no manifest in ${join(dir, 'manifests')} names ${names}${more}: their rows would be missing from the answer. Bring the manifest back from a copy; where an archiving is under way or was interrupted, let "tapekeep seal" end it`,
  );
}

/** @throws ColdError `cold_damaged` when two manifests describe one partition */
function assertApart(dir: string, manifests: ReadonlyMap<string, ColdManifest>): void {
  const seen = new Map<string, string>();
  for (const [uri, { table, from }] of manifests) {
    const other = seen.get(`${table} ${from}`);
    if (other !== undefined) {
      const text = `${join(dir, other)} and ${join(dir, uri)} are both of ${table} from ${from}: take away the one that is no manifest of this folder`;
      throw new ColdError('cold_damaged', text);
    }
    seen.set(`${table} ${from}`, uri);
  }
}

/**
 * The manifests of a folder alone, whatever the archive has by now.
 *
 * @throws ColdError, StatementRefusedError when the folder is none of cold partitions
 */
export async function folderManifests(dir: string): Promise<readonly ColdManifest[]> {
  const names = await readdir(join(dir, 'manifests'), { recursive: true }).catch(
    (error: unknown) => {
      if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'ENOTDIR') throw error;
      throw new StatementRefusedError(
        `${dir} is no folder of cold partitions: it has no manifests. Name the folder that cold.dir names, or a copy of it with its manifests`,
        error,
      );
    },
  );
  const found = new Map<string, ColdManifest>();
  for (const name of names.filter((one) => one.endsWith('.json')).sort()) {
    const uri = join('manifests', name).replaceAll('\\', '/');
    found.set(uri, await readColdManifest(dir, uri));
  }
  assertApart(dir, found);
  const manifests = [...found.values()];
  await assertAllNamed(dir, manifests);
  return manifests;
}

/** Files of these manifests that may hold rows between bounds, each of them whole. @throws ColdError */
export async function folderFiles(
  dir: string,
  manifests: readonly ColdManifest[],
  kind: SeriesKind,
  { markets, ...span }: Bounds,
  signal: AbortSignal,
): Promise<readonly PlacedFile[]> {
  const files = manifests
    .filter((manifest) => manifest.table === tableOfKind(kind))
    .flatMap((manifest) => placeFiles(dir, manifest, span))
    .filter(({ market }) => markets?.has(market) ?? true);
  for (const file of files) await checkFileOnce(file.absolutePath, file, signal);
  return files;
}
