import { DAY_US } from '../kernel/durations.js';
import type { ArchiveSnapshot, MergedSlice } from '../store/index.js';
import { type ColdPlace, coldDays, filesOf, newestOfFile, sortedFiles } from './cold-rows.js';
import { type Batches, inOneOrder } from './merge.js';
import { hotBlocks, makeRows, type RowMaker } from './row-blocks.js';
import type { PlacedSegment } from './segments.js';

/** The one reader of rows: of one series, of one market or several, in any order, wherever they lie. */

/** Parts that read rows. */
export interface RowPlace extends ColdPlace {
  /** Sees the rows of the database, one statement at a time. */
  readonly snapshot: ArchiveSnapshot;
  readonly signal: AbortSignal | undefined;
}

/** The part of a slice that a segment holds. */
function sliceWithin(slice: MergedSlice, { span }: PlacedSegment): MergedSlice {
  return {
    ...slice,
    fromUs: Math.max(slice.fromUs, span.fromMs * 1000),
    toUs: Math.min(slice.toUs, span.toMs * 1000),
  };
}

/**
 * The rows of a slice in its order, wherever they are; of what is expired there are none. Memory does
 * not grow with their number. Left early, it leaves the snapshot lost if that was being read.
 *
 * @param isWhole the last row is waited for: nothing is done to have the first one sooner
 * @throws StoreError, ColdError, ParquetError; the signal's reason
 */
export async function* readRows<Row>(
  place: RowPlace,
  slice: MergedSlice,
  segments: readonly PlacedSegment[],
  maker: RowMaker<Row>,
  isWhole = false,
): Batches<Row> {
  if (slice.isByReceipt) {
    const within = segments.filter(({ state }) => state === 'hot').map(({ span }) => span);
    const hot = within.length > 0 ? [hotRows(place, { ...slice, within }, maker)] : [];
    using held = place.cold.hold();
    const all = await place.cold.filesOfAll(held, segments, slice.marketIds);
    const files = all.filter(({ rows }) => rows > 0);
    const cold = files.length === 0 ? [] : [sortedFiles(place, slice, files, maker)];
    yield* inOneOrder([...hot, ...cold], maker);
    return;
  }
  let isBegun = isWhole;
  for (const [at, segment] of segments.entries()) {
    const part = sliceWithin(slice, segment);
    const next = segments[at + 1];
    if (next?.state === 'cold') void place.cold.ahead(next, next.span, slice.marketIds);
    if (segment.state === 'hot') yield* hotDays(place, part, maker);
    if (segment.state === 'cold') isBegun = yield* coldDays(place, part, segment, isBegun, maker);
  }
}

/** Rows of one statement in the database. */
function hotRows<Row>(
  { snapshot, signal }: RowPlace,
  slice: MergedSlice,
  maker: RowMaker<Row>,
): Batches<Row> {
  return makeRows(hotBlocks(snapshot, slice, signal), slice, maker);
}

/** Days that one statement reads at most; its plan has a branch for each market and partition. */
const DAYS_MAX = 32;
/** Rows below which the next statement reads twice as many days. */
const FEW_ROWS = 50_000;

/**
 * Rows in the database, days one after the other, so that no statement grows with the span and the
 * first row of a year comes as soon as that of a day.
 */
async function* hotDays<Row>(
  place: RowPlace,
  slice: MergedSlice,
  maker: RowMaker<Row>,
): Batches<Row> {
  let days = 1;
  for (let { fromUs } = slice; fromUs < slice.toUs; ) {
    const endUs = Math.floor(fromUs / DAY_US) * DAY_US + days * DAY_US;
    const toUs = Math.min(endUs, slice.toUs);
    let rows = 0;
    for await (const batch of hotRows(place, { ...slice, fromUs, toUs }, maker)) {
      rows += batch.length;
      yield batch;
    }
    days = rows < FEW_ROWS ? Math.min(days * 2, DAYS_MAX) : Math.max(1, Math.floor(days / 2));
    fromUs = toUs;
  }
}

/** Newest first, at most `limit`; of one market. */
export async function* newestRows<Row>(
  place: RowPlace,
  slice: MergedSlice,
  segments: readonly PlacedSegment[],
  limit: number,
  maker: RowMaker<Row>,
): Batches<Row> {
  let left = limit;
  for (const segment of segments.toReversed()) {
    const part = sliceWithin(slice, segment);
    using held = place.cold.hold();
    const sources =
      segment.state === 'hot'
        ? [() => hotRows(place, { ...part, newest: left }, maker)]
        : (await filesOf(place, held, part, segment))
            .toReversed()
            .map((file) => () => newestOfFile(place.engine, file, part, left, maker));
    for (const open of sources) {
      if (left <= 0) return;
      for await (const batch of open()) {
        left -= batch.length;
        yield batch;
      }
    }
  }
}
