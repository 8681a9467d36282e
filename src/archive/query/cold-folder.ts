import { type SeriesKind, tableOfKind } from '../../model/kinds.js';
import { type ColdManifest, readColdManifest } from '../cold/manifest.js';
import type { ColdStorage } from '../cold/storage.js';
import { ColdError, StatementRefusedError } from '../errors.js';
import { filesWithin, type PlacedFile, placeFiles } from '../segments.js';
import type { Bounds } from './selection.js';

/** Data files that an error names; beyond them it counts how many more there are. */
const MAX_NAMED = 5;

/**
 * Every data file belongs to one manifest: a file that none names is of a day that would be missing
 * from the answer, unless it was left by an archiving that did not come to its end.
 *
 * @throws ColdError `cold_missing`
 */
async function assertAllNamed(
  cold: ColdStorage,
  manifests: readonly ColdManifest[],
): Promise<void> {
  const named = new Set(manifests.flatMap(({ files }) => files.map(({ path }) => path)));
  const unnamed: string[] = [];
  for await (const path of cold.list('kind=')) {
    if (path.endsWith('.parquet') && !named.has(path)) unnamed.push(path);
  }
  if (unnamed.length === 0) return;
  const more = unnamed.length > MAX_NAMED ? ` and ${unnamed.length - MAX_NAMED} more` : '';
  const names = unnamed.sort().slice(0, MAX_NAMED).join(', ');
  throw new ColdError(
    'cold_missing',
    `no manifest in ${cold.at('manifests')} names ${names}${more}: their rows would be missing from the answer. Bring the manifest back from a copy; where an archiving is under way or was interrupted, let "tapekeep seal" end it`,
  );
}

/** @throws ColdError `cold_damaged` when two manifests describe one partition */
function assertApart(cold: ColdStorage, manifests: ReadonlyMap<string, ColdManifest>): void {
  const seen = new Map<string, string>();
  for (const [uri, { table, from }] of manifests) {
    const other = seen.get(`${table} ${from}`);
    if (other !== undefined) {
      const text = `${cold.at(other)} and ${cold.at(uri)} are both of ${table} from ${from}: take away the one that is no manifest of this folder`;
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
export async function folderManifests(cold: ColdStorage): Promise<readonly ColdManifest[]> {
  const uris: string[] = [];
  for await (const path of cold.list('manifests/')) if (path.endsWith('.json')) uris.push(path);
  if (uris.length === 0 && !(await cold.isThere('manifests'))) {
    throw new StatementRefusedError(
      `${cold.name} is no place of cold partitions: it has no manifests. Name that of cold.dir or cold.url, or a copy of it with its manifests`,
    );
  }
  const found = new Map<string, ColdManifest>();
  for (const uri of uris.sort()) found.set(uri, await readColdManifest(cold, uri));
  assertApart(cold, found);
  const manifests = [...found.values()];
  await assertAllNamed(cold, manifests);
  return manifests;
}

/** Files of these manifests that may hold rows between bounds, each of them whole, until the end. @throws ColdError */
export async function folderFiles(
  cold: ColdStorage,
  signal: AbortSignal,
  manifests: readonly ColdManifest[],
  kind: SeriesKind,
  { markets, ...span }: Bounds,
): Promise<readonly PlacedFile[]> {
  const files = manifests
    .filter((manifest) => manifest.table === tableOfKind(kind))
    .flatMap((manifest) => filesWithin(manifest, span))
    .filter(({ market }) => markets?.has(market) ?? true);
  cold.ahead(files, signal);
  return await placeFiles(cold.hold(signal), files);
}
