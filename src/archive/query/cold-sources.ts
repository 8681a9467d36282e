import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import type { SeriesKind } from '../../model/kinds.js';
import { ColdError } from '../cold/errors.js';
import { filesBelow } from '../cold/files.js';
import { type ColdManifest, readColdManifest } from '../cold/manifest.js';
import type { Reading } from '../reading.js';
import { checkColdFile, type PlacedFile, placeFiles } from '../segments.js';
import type { Bounds } from './bounds.js';
import { StatementRefusedError } from './errors.js';

/** Where the cold files of a statement come from. */
export interface ColdSource {
  /** Files that may hold rows between bounds, each held against its manifest. @throws ColdError */
  files(kind: SeriesKind, bounds: Bounds): Promise<readonly PlacedFile[]>;
}

/** The files that an archive counts on. @param ids of the markets by their names */
export function archiveSource(reading: Reading, ids: ReadonlyMap<string, number>): ColdSource {
  return {
    files: async (kind, bounds) => {
      const marketIds =
        bounds.markets === null
          ? undefined
          : [...bounds.markets].flatMap((name) => ids.get(name) ?? []);
      return await reading.coldFiles(kind, bounds, marketIds);
    },
  };
}

/** Data files that an error names; beyond them it says how many more there are. */
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
    'fatal',
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
      throw new ColdError('cold_damaged', 'fatal', text);
    }
    seen.set(`${table} ${from}`, uri);
  }
}

/** The files of a folder alone, as its manifests list them: whatever the archive may say by now. */
export class FolderSource implements ColdSource {
  readonly manifests: readonly ColdManifest[];
  readonly #dir: string;
  readonly #signal: AbortSignal;

  private constructor(dir: string, manifests: readonly ColdManifest[], signal: AbortSignal) {
    this.manifests = manifests;
    this.#dir = dir;
    this.#signal = signal;
  }

  /** @throws ColdError, StatementRefusedError when the folder is none of cold partitions */
  static async open(dir: string, signal: AbortSignal): Promise<FolderSource> {
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
    return new FolderSource(dir, manifests, signal);
  }

  async files(kind: SeriesKind, { markets, ...span }: Bounds): Promise<readonly PlacedFile[]> {
    const files = this.manifests
      .filter((manifest) => manifest.kind === kind)
      .flatMap((manifest) => placeFiles(this.#dir, manifest, span))
      .filter(({ market }) => markets?.has(market) ?? true);
    for (const file of files) await checkColdFile(file, this.#signal);
    return files;
  }
}
