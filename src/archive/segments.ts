import { join } from 'node:path';
import { BoundedMap } from '../kernel/bounded.js';
import { DAY_MS } from '../kernel/durations.js';
import { overlapOf, type Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import { type MergedKind, tableOfKind } from '../model/kinds.js';
import type { RemovedPartition } from '../store/index.js';
import { checkFileOnce } from './cold/folder.js';
import { type ColdFile, type ColdManifest, readColdManifest } from './cold/manifest.js';
import { ColdError } from './errors.js';

/** Places of the rows of a span: in the database, in which files, or nowhere any more. */

/** The span of whole milliseconds that holds one of microseconds. */
export function millisOf(fromUs: number, toUs: number): Span {
  return { fromMs: Math.floor(fromUs / 1000), toMs: Math.ceil(toUs / 1000) };
}

/** A piece of time of which all rows are in one place. */
export interface Segment {
  readonly span: Span;
  readonly state: 'hot' | 'cold' | 'expired';
}

/** A segment with the partition that holds it where that has left the database. */
export interface PlacedSegment extends Segment {
  readonly partition: RemovedPartition | undefined;
}

/** A cold file with where it lies on this machine. */
export interface PlacedFile extends ColdFile {
  readonly absolutePath: string;
  /** The part of the day that was asked for and that its partition holds. */
  readonly span: Span;
}

/**
 * Cuts a span along the partitions of a series that have left. Partitions that were never made count as
 * hot: there are no rows of them anywhere.
 *
 * @param removed of all tables, those of one oldest first and none overlapping another
 */
export function findSegments(
  kind: MergedKind,
  span: Span,
  removed: readonly RemovedPartition[],
): PlacedSegment[] {
  const table = tableOfKind(kind);
  const segments: PlacedSegment[] = [];
  const add = (fromMs: number, toMs: number, partition: RemovedPartition | undefined) => {
    if (toMs <= fromMs) return;
    const state =
      partition === undefined ? 'hot' : partition.state === 'archived' ? 'cold' : 'expired';
    segments.push({ span: { fromMs, toMs }, state, partition });
  };
  let atMs = span.fromMs;
  for (const one of removed) {
    if (one.table !== table || one.span.toMs <= atMs) continue;
    if (one.span.fromMs >= span.toMs) break;
    add(atMs, one.span.fromMs, undefined);
    const endMs = Math.min(one.span.toMs, span.toMs);
    add(Math.max(atMs, one.span.fromMs), endMs, one);
    atMs = endMs;
  }
  add(atMs, span.toMs, undefined);
  return segments;
}

/** Joins segments without partition boundaries: neighbours in the same place are one segment. */
export function joinSegments(segments: readonly Segment[]): Segment[] {
  const joined: Segment[] = [];
  for (const { span, state } of segments) {
    const last = joined.at(-1);
    if (last?.state === state) {
      joined[joined.length - 1] = { state, span: { fromMs: last.span.fromMs, toMs: span.toMs } };
    } else {
      joined.push({ state, span });
    }
  }
  return joined;
}

const daySpan = (date: string): Span => {
  const fromMs = Date.parse(`${date}T00:00:00Z`);
  return { fromMs, toMs: fromMs + DAY_MS };
};

/** The files that a manifest lists for a span, in their order. */
export function placeFiles(
  coldDir: string,
  manifest: ColdManifest,
  span: Span,
  marketIds?: readonly number[],
): PlacedFile[] {
  const partition = { fromMs: Date.parse(manifest.from), toMs: Date.parse(manifest.to) };
  const asked = overlapOf(partition, span);
  const byDay = (a: ColdFile, b: ColdFile) =>
    a.date === b.date ? a.marketId - b.marketId : a.date < b.date ? -1 : 1;
  return manifest.files
    .filter(({ marketId }) => marketIds === undefined || marketIds.includes(marketId))
    .toSorted(byDay)
    .map((file) => ({
      ...file,
      absolutePath: join(coldDir, file.path),
      span: overlapOf(asked, daySpan(file.date)),
    }))
    .filter((file) => file.span.toMs > file.span.fromMs);
}

/** Manifests that are held at once; those of years would fill the memory. */
const MAX_MANIFESTS = 16;

/** The cold folder as one reader sees it. */
export class ColdFolder {
  readonly #dir: string;
  readonly #signal: AbortSignal | undefined;
  readonly #manifests = new BoundedMap<string, Promise<ColdManifest>>(MAX_MANIFESTS);

  constructor(dir: string, signal: AbortSignal | undefined) {
    this.#dir = dir;
    this.#signal = signal;
  }

  /**
   * The files of a partition that may hold rows of a span, each of them whole.
   *
   * @throws ColdError
   */
  async filesOf(
    { state, partition }: PlacedSegment,
    span: Span,
    marketIds: readonly number[] | undefined,
  ): Promise<PlacedFile[]> {
    if (state !== 'cold' || partition === undefined) return [];
    const manifest = await this.#manifestOf(partition);
    const files = placeFiles(this.#dir, manifest, span, marketIds);
    for (const file of files) await checkFileOnce(file.absolutePath, file, this.#signal);
    return files;
  }

  /** Joins several, as much of each as it holds of the span that they were cut from. */
  async filesOfAll(
    segments: readonly PlacedSegment[],
    marketIds: readonly number[] | undefined,
  ): Promise<PlacedFile[]> {
    const files: PlacedFile[] = [];
    for (const one of segments) files.push(...(await this.filesOf(one, one.span, marketIds)));
    return files;
  }

  #manifestOf(partition: RemovedPartition): Promise<ColdManifest> {
    const { table, uri } = partition;
    const from = isoMs(partition.span.fromMs);
    if (uri === null) {
      const text = `the archive does not say where ${table} of ${from} went (partition_state.uri is null)`;
      throw new ColdError('cold_missing', text);
    }
    const known = this.#manifests.get(uri);
    if (known !== undefined) return known;
    const read = this.#read(partition, uri);
    this.#manifests.set(uri, read);
    return read;
  }

  async #read(
    { table, span, manifestSha256 }: RemovedPartition,
    uri: string,
  ): Promise<ColdManifest> {
    const path = join(this.#dir, uri);
    const manifest = await readColdManifest(this.#dir, uri).catch((error: unknown) => {
      if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
      const text = `${path} is not there, though the archive counts on it: bring it back from a copy, or name the folder of cold partitions with cold.dir`;
      throw new ColdError('cold_missing', text, { cause: error });
    });
    const isSame =
      manifest.table === table &&
      Date.parse(manifest.from) === span.fromMs &&
      Date.parse(manifest.to) === span.toMs;
    if (isSame && (manifestSha256 === null || manifest.sha256 === manifestSha256)) return manifest;
    const what = isSame
      ? 'a manifest of this partition, but not the one that it was archived with'
      : `of ${manifest.table} from ${manifest.from} to ${manifest.to}, which is another partition`;
    throw new ColdError('cold_damaged', `${path} is ${what}: bring the right one back from a copy`);
  }
}
