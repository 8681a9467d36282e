import { isEmptySpan, type Span } from '../kernel/span.js';
import type { Island, StreamRef } from '../ledger/batch.js';
import type { Runner } from './database.js';

/**
 * Counts of what is left of an island that was cut. Of its pieces the longest is not counted: its rows
 * are those of the island less those of the others. So a recent span is cheap to take out of an island
 * of years.
 */

/** Exact rows of a span with their lowest and highest id. */
export interface PieceCount {
  readonly rowCount: number;
  readonly firstId: number | null;
  readonly lastId: number | null;
}

export interface Pieces {
  readonly left: Span;
  readonly taken: Span;
  readonly right: Span;
}

/** What {@link splitCounts} asks of the rows. */
export interface RowReader {
  count(span: Span): Promise<PieceCount>;
  /** Id of the row at an edge of a span: its oldest, or its newest. */
  edgeId(span: Span, edge: 'oldest' | 'newest'): Promise<number | null>;
}

const NO_ROWS: PieceCount = { rowCount: 0, firstId: null, lastId: null };
const lengthMs = ({ fromMs, toMs }: Span) => Math.max(0, toMs - fromMs);

/** Counts of the pieces to the left and right of what is taken out of an island of trades or times. */
export async function splitCounts(
  { left, taken, right }: Pieces,
  island: Island,
  rows: RowReader,
): Promise<{ readonly left: PieceCount; readonly right: PieceCount }> {
  const count = (span: Span) => (isEmptySpan(span) ? Promise.resolve(NO_ROWS) : rows.count(span));
  const longestMs = Math.max(...[left, taken, right].map(lengthMs));
  if (lengthMs(taken) === longestMs) return { left: await count(left), right: await count(right) };
  const isLeftLong = lengthMs(left) === longestMs;
  const [long, short] = isLeftLong ? [left, right] : [right, left];
  const gone = await count(taken);
  const counted = await count(short);
  const rest = await restOf(long, isLeftLong ? 'newest' : 'oldest', island, [gone, counted], rows);
  return isLeftLong ? { left: rest, right: counted } : { left: counted, right: rest };
}

/**
 * The long piece: the island less the others. Its inner edge is the id of the row there, because ids
 * grow with time; where the neighbouring ids show that they do not, it is counted after all.
 */
async function restOf(
  span: Span,
  innerEdge: 'oldest' | 'newest',
  island: Island,
  others: readonly PieceCount[],
  rows: RowReader,
): Promise<PieceCount> {
  const rowCount = others.reduce((left, other) => left - other.rowCount, island.rowCount);
  if (rowCount === 0) return NO_ROWS;
  const innerId = await rows.edgeId(span, innerEdge);
  const isInOrder = others.every(
    ({ firstId, lastId }) =>
      innerId !== null &&
      (innerEdge === 'newest' ? (firstId ?? Infinity) > innerId : (lastId ?? 0) < innerId),
  );
  if (rowCount < 0 || !isInOrder) return await rows.count(span);
  return innerEdge === 'newest'
    ? { rowCount, firstId: island.firstId, lastId: innerId }
    : { rowCount, firstId: innerId, lastId: island.lastId };
}

/**
 * Rows of candles are counted under their claims, and none of them goes: the pieces that are left
 * share the count of the island.
 */
export async function shareCount(
  { left, right }: Pieces,
  { rowCount }: Island,
  rows: Pick<RowReader, 'count'>,
): Promise<{ readonly left: PieceCount; readonly right: PieceCount }> {
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

const COUNT_TRADES = (needsTime: string) => `
  SELECT count(*)::float8 AS row_count, min(tid)::float8 AS first_id, max(tid)::float8 AS last_id
  FROM trade WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
  ${needsTime}`;
const COUNT_KLINES = `
  SELECT count(*)::float8 AS row_count, NULL AS first_id, NULL AS last_id FROM kline
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

interface CountRow {
  readonly row_count: number;
  readonly first_id: number | null;
  readonly last_id: number | null;
}

/** Reads the rows of a stream of trades, times or candles. */
export function rowReader(runner: Runner, stream: StreamRef): RowReader {
  const needsTime = stream.kind === 'times' ? NEEDS_TIME : '';
  // As text and not as numbers: constants, from which partitions are chosen before the work.
  const bounds = (fromMs: number, toMs: number) =>
    [fromMs, toMs].map((ms) => new Date(ms).toISOString());
  const find = async (span: Span, order: string) => {
    const values = [stream.marketId, ...bounds(span.fromMs, span.toMs)];
    const [row] = await runner.rows<{ tid: number }>(EDGE_ID(needsTime, order), values);
    return row?.tid ?? null;
  };
  return {
    async count({ fromMs, toMs }) {
      const values = [stream.marketId, ...bounds(fromMs, toMs)];
      const [row] =
        stream.kind === 'kline'
          ? await runner.rows<CountRow>(COUNT_KLINES, [...values, stream.variant])
          : await runner.rows<CountRow>(COUNT_TRADES(needsTime), values);
      if (row === undefined) return NO_ROWS;
      return { rowCount: row.row_count, firstId: row.first_id, lastId: row.last_id };
    },
    async edgeId({ fromMs, toMs }, edge) {
      for (let reachMs = NEAR_MS; ; reachMs *= WIDER) {
        const isAll = reachMs >= toMs - fromMs;
        const near =
          edge === 'newest'
            ? { fromMs: isAll ? fromMs : toMs - reachMs, toMs }
            : { fromMs, toMs: isAll ? toMs : fromMs + reachMs };
        const found = await find(near, edge === 'newest' ? 'DESC' : 'ASC');
        if (found !== null || isAll) return found;
      }
    },
  };
}
