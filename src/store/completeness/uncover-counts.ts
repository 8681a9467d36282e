import { holdsSpan, isEmptySpan, type Span } from '../../kernel/span.js';
import type { CoveredRange, StreamRef } from '../../model/batch.js';
import { seriesOf, tableOfStream } from '../../model/series.js';
import type { Runner } from '../connection.js';
import type { RemovedRows } from '../sealing/departed.js';
import { greatest, least, NO_ROWS, type RowCount, sumCounts } from './ledger.js';

/**
 * Counts of what is left of a covered range that was cut. Of its pieces the longest is not counted:
 * its rows are those of the covered range less those of the others. So a recent span is cheap to take
 * out of a covered range of years.
 */

export interface Pieces {
  readonly left: Span;
  readonly taken: Span;
  readonly right: Span;
}

/** What {@link splitCounts} asks of the rows. */
export interface RowReader {
  /** Whether all rows of a span are here, or away in partitions that lie in it whole. */
  canCount(span: Span): boolean;
  count(span: Span): Promise<RowCount>;
  /** Id of the row at an edge of a span: its oldest, or its newest. */
  edgeId(span: Span, edge: 'oldest' | 'newest'): Promise<number | null>;
}

const lengthMs = ({ fromMs, toMs }: Span) => Math.max(0, toMs - fromMs);

/** What is left on both sides. */
interface Sides {
  readonly left: RowCount;
  readonly right: RowCount;
}

/**
 * Counts of the pieces to the left and right of what is taken out of a covered range of trades or
 * times. Undefined when it takes rows that are in files: then the partitions at both ends of the
 * covered range have left, and hold rows of its neighbours as well.
 */
export async function splitCounts(
  { left, taken, right }: Pieces,
  range: CoveredRange,
  rows: RowReader,
): Promise<Sides | undefined> {
  const count = (span: Span) => (isEmptySpan(span) ? Promise.resolve(NO_ROWS) : rows.count(span));
  const unknown = [left, right].filter((span) => !isEmptySpan(span) && !rows.canCount(span));
  if (unknown.length > 1) return undefined;
  const longestMs = Math.max(...[left, taken, right].map(lengthMs));
  if (unknown.length === 0 && lengthMs(taken) === longestMs) {
    return { left: await count(left), right: await count(right) };
  }
  const isLeftLong = unknown.length === 0 ? lengthMs(left) === longestMs : unknown[0] === left;
  const [long, short] = isLeftLong ? [left, right] : [right, left];
  const gone = await count(taken);
  const counted = await count(short);
  const rest = await restOf(long, isLeftLong ? 'newest' : 'oldest', range, [gone, counted], rows);
  if (rest === undefined) return undefined;
  return isLeftLong ? { left: rest, right: counted } : { left: counted, right: rest };
}

/**
 * The long piece: the covered range less the others. Its inner edge is the id of the row there,
 * because ids grow with time; where the neighbouring ids show that they do not, it is counted after
 * all.
 */
async function restOf(
  span: Span,
  innerEdge: 'oldest' | 'newest',
  range: CoveredRange,
  others: readonly RowCount[],
  rows: RowReader,
): Promise<RowCount | undefined> {
  const rowCount = others.reduce((left, other) => left - other.rowCount, range.rowCount);
  if (rowCount === 0) return NO_ROWS;
  const innerId = await rows.edgeId(span, innerEdge);
  const isInOrder = others.every(
    ({ firstId, lastId }) =>
      innerId !== null &&
      (innerEdge === 'newest' ? (firstId ?? Infinity) > innerId : (lastId ?? 0) < innerId),
  );
  // And where ids began anew in it, the furthest one is neither there nor among the others.
  const edgeIds = others.map((one) => (innerEdge === 'newest' ? one.lastId : one.firstId));
  const isFurthest =
    innerEdge === 'newest'
      ? greatest([innerId, ...edgeIds]) === range.lastId
      : least([innerId, ...edgeIds]) === range.firstId;
  if (rowCount < 0 || !isInOrder || !isFurthest)
    return rows.canCount(span) ? await rows.count(span) : undefined;
  return innerEdge === 'newest'
    ? { rowCount, firstId: range.firstId, lastId: innerId }
    : { rowCount, firstId: innerId, lastId: range.lastId };
}

/**
 * Rows of candles are counted under their claims, and none of them goes: the pieces that are left
 * share the count of the covered range.
 */
export async function shareCount(
  { left, right }: Pieces,
  { rowCount }: CoveredRange,
  rows: Pick<RowReader, 'count'>,
): Promise<Sides> {
  const all = { ...NO_ROWS, rowCount };
  if (isEmptySpan(left) || isEmptySpan(right)) {
    return isEmptySpan(left) ? { left: NO_ROWS, right: all } : { left: all, right: NO_ROWS };
  }
  const isLeftLong = lengthMs(left) >= lengthMs(right);
  const counted = (await rows.count(isLeftLong ? right : left)).rowCount;
  const short = { ...NO_ROWS, rowCount: Math.min(counted, rowCount) };
  const long = { ...NO_ROWS, rowCount: rowCount - short.rowCount };
  return isLeftLong ? { left: long, right: short } : { left: short, right: long };
}

/** The same where rows are away: candles come evenly, so that they are shared by time. */
export function shareByTime({ left, right }: Pieces, { rowCount }: CoveredRange): Sides {
  const lengths = [lengthMs(left), lengthMs(right)] as const;
  const share = lengths[0] / Math.max(1, lengths[0] + lengths[1]);
  const ofLeft = Math.round(rowCount * share);
  return {
    left: { ...NO_ROWS, rowCount: ofLeft },
    right: { ...NO_ROWS, rowCount: rowCount - ofLeft },
  };
}

/** One stream of tickers, or balances, covers all markets together. */
const COUNT_OBSERVED = (table: string, ofVariant: string) => `
  SELECT count(*)::float8 AS row_count FROM ${table}
  WHERE ($1 = 0 OR market_id = $1) AND observed_at >= $2::timestamptz AND observed_at < $3::timestamptz
  ${ofVariant}`;

/** The same of what was seen at its instant, when its upper end is taken. */
export async function observedCount(
  runner: Runner,
  { kind, marketId, variant }: StreamRef,
  { left, taken, right }: Pieces,
  { rowCount }: CoveredRange,
): Promise<Sides> {
  const table = tableOfStream(kind);
  const { variant: column } = seriesOf(table);
  const count = async ({ fromMs, toMs }: Span) => {
    const sql = COUNT_OBSERVED(table, column === null ? '' : `AND ${column} = $4`);
    const bounds = [fromMs, toMs].map((ms) => new Date(ms).toISOString());
    const values = [marketId, ...bounds, ...(column === null ? [] : [variant])];
    const [row] = await runner.rows<{ row_count: number }>(sql, values);
    return row?.row_count ?? 0;
  };
  const ofRight = isEmptySpan(right) ? 0 : Math.min(rowCount, await count(right));
  const ofLeft = isEmptySpan(left) ? 0 : Math.max(0, rowCount - ofRight - (await count(taken)));
  return { left: { ...NO_ROWS, rowCount: ofLeft }, right: { ...NO_ROWS, rowCount: ofRight } };
}

const COUNT_TRADES = (needsTime: string) => `
  SELECT count(*)::float8 AS "rowCount", min(tid)::float8 AS "firstId", max(tid)::float8 AS "lastId"
  FROM trade WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
  ${needsTime}`;
const COUNT_KLINES = `
  SELECT count(*)::float8 AS "rowCount", NULL AS "firstId", NULL AS "lastId" FROM kline
  WHERE market_id = $1 AND interval_s = $4 AND open_at >= $2::timestamptz
    AND open_at < $3::timestamptz`;
const EDGE_ID = (needsTime: string, order: string) => `
  SELECT tid::float8 AS tid FROM trade
  WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz ${needsTime}
  ORDER BY traded_at ${order}, tid ${order} LIMIT 1`;
const NEEDS_TIME = 'AND executed_at IS NOT NULL';

/** First look for a row at an edge, and how much wider each further one is. */
const NEAR_MS = 86_400_000;
const WIDER = 16;

const touches = (a: Span, b: Span) => a.fromMs < b.toMs && b.fromMs < a.toMs;

/** What the partitions that have left hold of a stream of trades or times. */
function countsAway({ kind }: StreamRef, away: readonly RemovedRows[]): AwayCount[] {
  const at = kind === 'times' ? 3 : 0;
  return away.map(({ span, counts }) => {
    const [rowCount, firstId, lastId] = [counts?.[at], counts?.[at + 1], counts?.[at + 2]];
    return { span, rowCount: rowCount ?? 0, firstId: firstId ?? null, lastId: lastId ?? null };
  });
}

interface AwayCount extends RowCount {
  readonly span: Span;
}

/**
 * Reads the rows of a stream of trades, times or candles.
 *
 * @param away partitions of its table that have left the database; what they hold was counted when
 *   they were sealed
 */
export function rowReader(
  runner: Runner,
  stream: StreamRef,
  away: readonly RemovedRows[],
): RowReader {
  const needsTime = stream.kind === 'times' ? NEEDS_TIME : '';
  // As text and not as numbers: constants, from which partitions are chosen before the work.
  const bounds = (fromMs: number, toMs: number) =>
    [fromMs, toMs].map((ms) => new Date(ms).toISOString());
  const find = async (span: Span, order: string) => {
    const values = [stream.marketId, ...bounds(span.fromMs, span.toMs)];
    const [row] = await runner.rows<{ tid: number }>(EDGE_ID(needsTime, order), values);
    return row?.tid ?? null;
  };
  const counted = countsAway(stream, away);
  const within = (span: Span) => counted.filter((one) => touches(one.span, span));
  return {
    canCount: (span) => within(span).every((one) => holdsSpan(span, one.span)),
    async count(span) {
      const values = [stream.marketId, ...bounds(span.fromMs, span.toMs)];
      const [row] =
        stream.kind === 'kline'
          ? await runner.rows<RowCount>(COUNT_KLINES, [...values, stream.variant])
          : await runner.rows<RowCount>(COUNT_TRADES(needsTime), values);
      return sumCounts([row ?? NO_ROWS, ...within(span)]);
    },
    async edgeId(span, edge) {
      const { fromMs, toMs } = span;
      const isNewest = edge === 'newest';
      const there = within(span).map((one) => (isNewest ? one.lastId : one.firstId));
      for (let reachMs = NEAR_MS; ; reachMs *= WIDER) {
        const isAll = reachMs >= toMs - fromMs;
        const near = isNewest
          ? { fromMs: isAll ? fromMs : toMs - reachMs, toMs }
          : { fromMs, toMs: isAll ? toMs : fromMs + reachMs };
        const here = await find(near, isNewest ? 'DESC' : 'ASC');
        if (here === null && !isAll) continue;
        // Ids grow with time: of two places the one nearer to the edge has the one beyond.
        return isNewest ? greatest([here, ...there]) : least([here, ...there]);
      }
    },
  };
}
