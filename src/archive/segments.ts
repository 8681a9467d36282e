import { BoundedMap } from '../kernel/bounded.js';
import { DAY_MS } from '../kernel/durations.js';
import { overlapOf, type Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import { type MergedKind, tableOfKind } from '../model/kinds.js';
import type { PlacedPartition } from '../store/index.js';
import {
  type ColdFile,
  type ColdManifest,
  isOfPartition,
  readColdManifest,
  readKnownManifest,
} from './cold/manifest.js';
import type { ColdHold, ColdStorage } from './cold/storage.js';
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

/** A segment with the partition that holds it where that is in files or gone. */
export interface PlacedSegment extends Segment {
  readonly partition: PlacedPartition | undefined;
}

/** A cold file with a part of its time. */
interface FilePart extends ColdFile {
  /** The part of the day that was asked for and that its partition holds. */
  readonly span: Span;
}

/** A cold file with where it lies on this machine. */
export interface PlacedFile extends FilePart {
  readonly absolutePath: string;
}

/**
 * Cuts a span along the partitions of a series that are in files or gone. Partitions that were never made
 * count as hot: there are no rows of them anywhere.
 *
 * @param placed of all tables, those of one oldest first and none overlapping another
 */
export function findSegments(
  kind: MergedKind,
  span: Span,
  placed: readonly PlacedPartition[],
): PlacedSegment[] {
  const table = tableOfKind(kind);
  const segments: PlacedSegment[] = [];
  const add = (fromMs: number, toMs: number, partition: PlacedPartition | undefined) => {
    if (toMs <= fromMs) return;
    const state =
      partition === undefined ? 'hot' : partition.state === 'expired' ? 'expired' : 'cold';
    segments.push({ span: { fromMs, toMs }, state, partition });
  };
  let atMs = span.fromMs;
  for (const one of placed) {
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
export function filesWithin(
  manifest: ColdManifest,
  span: Span,
  marketIds?: readonly number[],
): FilePart[] {
  const partition = { fromMs: Date.parse(manifest.from), toMs: Date.parse(manifest.to) };
  const asked = overlapOf(partition, span);
  const byDay = (a: ColdFile, b: ColdFile) =>
    a.date === b.date ? a.marketId - b.marketId : a.date < b.date ? -1 : 1;
  return manifest.files
    .filter(({ marketId }) => marketIds === undefined || marketIds.includes(marketId))
    .toSorted(byDay)
    .map((file) => ({ ...file, span: overlapOf(asked, daySpan(file.date)) }))
    .filter((file) => file.span.toMs > file.span.fromMs);
}

/** Gives files a place on this machine, each of them whole. @throws ColdError */
export async function placeFiles(
  held: ColdHold,
  files: readonly FilePart[],
): Promise<PlacedFile[]> {
  const placed: PlacedFile[] = [];
  for (const file of files) {
    placed.push({ ...file, absolutePath: await held.local(file.path, file) });
  }
  return placed;
}

/** Manifests that are held at once; those of years would fill the memory. */
const MAX_MANIFESTS = 16;
/** Partitions that are asked for ahead: a bucket takes its time for each manifest. */
const PARTITIONS_AHEAD = 8;

/** Cold files as one reader sees them. */
export class ColdReader {
  readonly #cold: ColdStorage;
  readonly #signal: AbortSignal | undefined;
  readonly #manifests = new BoundedMap<string, Promise<ColdManifest>>(MAX_MANIFESTS);

  constructor(cold: ColdStorage, signal: AbortSignal | undefined) {
    this.#cold = cold;
    this.#signal = signal;
  }

  /** Keeps files on this machine until it is disposed of. */
  hold(): ColdHold {
    return this.#cold.hold(this.#signal);
  }

  /**
   * The files of a partition that may hold rows of a span, each of them whole.
   *
   * @param held keeps them here
   * @throws ColdError
   */
  async filesOf(
    held: ColdHold,
    segment: PlacedSegment,
    span: Span,
    marketIds: readonly number[] | undefined,
  ): Promise<PlacedFile[]> {
    const files = await this.entriesOf(segment, span, marketIds);
    this.#cold.ahead(files, this.#signal);
    return await placeFiles(held, files);
  }

  /** Begins to fetch the files of a partition that is read next. Never throws. */
  async ahead(
    segment: PlacedSegment | undefined,
    span: Span,
    marketIds: readonly number[] | undefined,
  ): Promise<void> {
    if (segment === undefined) return;
    const files = await this.entriesOf(segment, span, marketIds).catch(() => []);
    this.#cold.ahead(files, this.#signal);
  }

  /** The files of a partition that may hold rows of a span, by its manifest. @throws ColdError */
  async entriesOf(
    { state, partition }: PlacedSegment,
    span: Span,
    marketIds?: readonly number[],
  ): Promise<readonly FilePart[]> {
    if (state !== 'cold' || partition === undefined) return [];
    return filesWithin(await this.#manifestOf(partition), span, marketIds);
  }

  /** Joins several, as much of each as it holds of the span that they were cut from. */
  async filesOfAll(
    held: ColdHold,
    segments: readonly PlacedSegment[],
    marketIds: readonly number[] | undefined,
  ): Promise<PlacedFile[]> {
    const files: PlacedFile[] = [];
    for (const [at, one] of segments.entries()) {
      this.expect(segments, at, marketIds);
      files.push(...(await this.filesOf(held, one, one.span, marketIds)));
    }
    return files;
  }

  /** Begins to fetch what is read some partitions after one of several that are read in turn; each once. */
  expect(
    segments: readonly PlacedSegment[],
    at: number,
    marketIds: readonly number[] | undefined,
  ): void {
    const first = at === 0 ? 1 : at + PARTITIONS_AHEAD;
    for (const next of segments.slice(first, at + PARTITIONS_AHEAD + 1)) {
      void this.ahead(next, next.span, marketIds);
    }
  }

  #manifestOf(partition: PlacedPartition): Promise<ColdManifest> {
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

  async #read(partition: PlacedPartition, uri: string): Promise<ColdManifest> {
    const { manifestSha256 } = partition;
    const path = this.#cold.at(uri);
    const reading =
      manifestSha256 === null
        ? readColdManifest(this.#cold, uri)
        : readKnownManifest(this.#cold, uri, manifestSha256);
    const manifest = await reading.catch((error: unknown) => {
      if (!(error instanceof ColdError) || error.code !== 'cold_missing') throw error;
      const text = `${path} is not there, though the archive counts on it: bring it back from a copy, or name the place of cold partitions with cold.dir`;
      throw new ColdError('cold_missing', text, { cause: error });
    });
    const isSame = isOfPartition(manifest, partition);
    if (isSame && (manifestSha256 === null || manifest.sha256 === manifestSha256)) return manifest;
    const what = isSame
      ? 'a manifest of this partition, but not the one that it was archived with'
      : `of ${manifest.table} from ${manifest.from} to ${manifest.to}, which is another partition`;
    throw new ColdError('cold_damaged', `${path} is ${what}: bring the right one back from a copy`);
  }
}
