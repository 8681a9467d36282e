import { stat } from 'node:fs/promises';
import { join } from 'node:path';
import { DAY_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { DepartedPartition } from '../../store/index.js';
import { asColdError, ColdError } from '../cold/errors.js';
import { sumFile } from '../cold/files.js';
import { type ColdFile, type ColdManifest, readColdManifest } from '../cold/manifest.js';
import type { PlacedFile } from './reading.js';

/** Files whose content was found right; a year of a hundred markets. */
const MAX_CHECKED = 50_000;

/**
 * Files whose content was held against its checksum by this program, by what would change if they
 * did. A server that opens many readings looks at each file once.
 */
const checked = new Set<string>();

const daySpan = (date: string): Span => {
  const fromMs = Date.parse(`${date}T00:00:00Z`);
  return { fromMs, toMs: fromMs + DAY_MS };
};

const intersect = (a: Span, b: Span): Span => ({
  fromMs: Math.max(a.fromMs, b.fromMs),
  toMs: Math.min(a.toMs, b.toMs),
});

/** The files that a manifest lists for a span, in their order. */
export function placeFiles(
  coldDir: string,
  manifest: ColdManifest,
  span: Span,
  marketIds?: readonly number[],
): PlacedFile[] {
  const partition = { fromMs: Date.parse(manifest.from), toMs: Date.parse(manifest.to) };
  const asked = intersect(partition, span);
  const byDay = (a: ColdFile, b: ColdFile) =>
    a.date === b.date ? a.marketId - b.marketId : a.date < b.date ? -1 : 1;
  return manifest.files
    .filter(({ marketId }) => marketIds === undefined || marketIds.includes(marketId))
    .toSorted(byDay)
    .map((file) => ({
      ...file,
      absolutePath: join(coldDir, file.path),
      span: intersect(asked, daySpan(file.date)),
    }))
    .filter((file) => file.span.toMs > file.span.fromMs);
}

/** The cold folder as one reading sees it: each manifest is read once. */
export class ColdFolder {
  readonly #dir: string;
  readonly #manifests = new Map<string, Promise<ColdManifest>>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * The files of a partition that may hold rows of a span, each of them whole.
   *
   * @throws ColdError
   */
  async filesOf(
    partition: DepartedPartition,
    span: Span,
    marketIds: readonly number[] | undefined,
    signal: AbortSignal | undefined,
  ): Promise<PlacedFile[]> {
    const manifest = await this.#manifestOf(partition);
    const files = placeFiles(this.#dir, manifest, span, marketIds);
    for (const file of files) await checkColdFile(file, signal);
    return files;
  }

  #manifestOf(partition: DepartedPartition): Promise<ColdManifest> {
    const { table, uri } = partition;
    const from = new Date(partition.span.fromMs).toISOString();
    if (uri === null) {
      const text = `the archive does not say where ${table} of ${from} went (partition_state.uri is null)`;
      throw new ColdError('cold_missing', 'fatal', text);
    }
    const known = this.#manifests.get(uri);
    if (known !== undefined) return known;
    const read = this.#read(partition, uri);
    this.#manifests.set(uri, read);
    return read;
  }

  async #read(
    { table, span, manifestSha256 }: DepartedPartition,
    uri: string,
  ): Promise<ColdManifest> {
    const manifest = await readColdManifest(this.#dir, uri).catch((error: unknown) => {
      if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
      const text = `${join(this.#dir, uri)} is not there, though the archive counts on it: bring it back from a copy, or name the folder of cold partitions with cold.dir`;
      throw new ColdError('cold_missing', 'fatal', text, { cause: error });
    });
    const isSame =
      manifest.table === table &&
      Date.parse(manifest.from) === span.fromMs &&
      Date.parse(manifest.to) === span.toMs;
    if (isSame && (manifestSha256 === null || manifest.sha256 === manifestSha256)) return manifest;
    if (isSame) {
      const text = `${join(this.#dir, uri)} is a manifest of this partition, but not the one that it was archived with: bring the right one back from a copy`;
      throw new ColdError('cold_damaged', 'fatal', text);
    }
    const path = join(this.#dir, uri);
    const text = `${path} is of ${manifest.table} from ${manifest.from} to ${manifest.to}, which is another partition: bring the right one back from a copy`;
    throw new ColdError('cold_damaged', 'fatal', text);
  }
}

/**
 * Holds a file against its manifest: its size now, and its content once in the life of the program.
 *
 * @throws ColdError `cold_missing`, `cold_damaged`, `cold_refused`
 */
export async function checkColdFile(
  { absolutePath: path, bytes, sha256 }: PlacedFile,
  signal?: AbortSignal,
): Promise<void> {
  const found = await stat(path).catch((error: unknown) => {
    throw asColdError(error, path);
  });
  if (found.size !== bytes) throw damaged(path, `it has ${found.size} bytes and not ${bytes}`);
  const key = `${path}\0${found.ino}\0${found.size}\0${found.mtimeMs}\0${sha256}`;
  if (checked.has(key)) return;
  const { sha256: digest } = await sumFile(path, signal);
  if (digest !== sha256) throw damaged(path, `its sha256 is ${digest} and not ${sha256}`);
  if (checked.size >= MAX_CHECKED) checked.clear();
  checked.add(key);
}

function damaged(path: string, what: string): ColdError {
  const text = `${path} is not what was written: ${what}. Bring it back from a copy`;
  return new ColdError('cold_damaged', 'fatal', text);
}
