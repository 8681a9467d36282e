import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from '../../kernel/errors.js';
import type { SeriesKind } from '../../store/index.js';
import { type ColdManifest, readColdManifest } from '../cold/manifest.js';
import { checkColdFile, placeFiles } from '../reading/cold-files.js';
import type { PlacedFile, Reading } from '../reading/reading.js';
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
    const manifests: ColdManifest[] = [];
    for (const name of names.filter((one) => one.endsWith('.json')).sort()) {
      manifests.push(await readColdManifest(dir, join('manifests', name).replaceAll('\\', '/')));
    }
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
