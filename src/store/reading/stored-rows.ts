import { DAY_MS } from '../../kernel/durations.js';
import { floorToMs, type Span } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { PageRow } from '../../model/order.js';
import { isTrue, type Runner } from '../connection.js';
import { localSql, type Reach } from '../schema/partitions.js';
import { fromMs, unnested } from '../sql.js';

/** Stored rows by which collectors and checks go on. */

/** Partitions whose trades have left the database (SQL). */
const HAS_LEFT = `table_name = 'trade' AND state IN ('archived', 'expired')`;

/** An end of a span. */
export type SpanEnd = 'oldest' | 'newest';

/** The span up to what has left the database, or from there on: rows beyond do not follow those at the end of the span. */
const UNBROKEN = {
  oldest: `SELECT $1::timestamptz::text AS from, least($2::timestamptz, (
      SELECT min(lower(span)) FROM partition_state WHERE ${HAS_LEFT} AND upper(span) > $1::timestamptz))::text AS until`,
  newest: `SELECT greatest($1::timestamptz, (
      SELECT max(upper(span)) FROM partition_state WHERE ${HAS_LEFT} AND lower(span) < $2::timestamptz))::text AS from,
      $2::timestamptz::text AS until`,
};
const storedTradesSql = (direction: string) => `
  SELECT tid, extract(epoch FROM traded_at)::float8 AS traded_at_s FROM trade
  WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
  ORDER BY traded_at ${direction}, tid ${direction} LIMIT $4`;
const STORED_TRADES = { oldest: storedTradesSql(''), newest: storedTradesSql('DESC') };

/**
 * Stored trades of a span from one of its ends on, as far as they follow each other: down or up to where rows have left
 * the database. The span may end at infinity.
 *
 * @param reach `all` goes on over archived rows, and needs the server that answers for them
 */
export async function readStoredTrades(
  runner: Runner,
  marketId: number,
  span: Span,
  limit: number,
  end: SpanEnd = 'oldest',
  reach: Reach = 'local',
): Promise<PageRow[]> {
  const bounds = [isoMs(span.fromMs), Number.isFinite(span.toMs) ? isoMs(span.toMs) : 'infinity'];
  const [unbroken] =
    reach === 'all'
      ? [{ from: bounds[0], until: bounds[1] }]
      : await runner.rows<Record<'from' | 'until', string>>(UNBROKEN[end], bounds);
  const values = [marketId, unbroken?.from, unbroken?.until, limit];
  return await runner.rows<PageRow>(STORED_TRADES[end], values);
}

const UNTIMED_PARTITION = `
  SELECT span FROM partition_state
  WHERE table_name = 'trade' AND state = 'hot' AND lower(span) < $2::timestamptz AND EXISTS (
    SELECT FROM rows_by_day
    WHERE market_id = $1 AND series = 'trade' AND variant = 0 AND timed < rows
      AND day >= (lower(span) AT TIME ZONE 'UTC')::date AND day < (upper(span) AT TIME ZONE 'UTC')::date)
  ORDER BY lower(span) DESC LIMIT 1`;
const UNTIMED_TRADES = `
  SELECT tstzrange(first_at, last_at + interval '1 s') AS lacking
  FROM (
    SELECT min(traded_at) AS first_at, max(traded_at) AS last_at FROM trade
    WHERE market_id = $1 AND executed_at IS NULL
      AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz) found
  WHERE first_at IS NOT NULL`;

/** A partition of trades, and from the first to the last second of a market in it that has a trade without exact time. */
export interface UntimedTrades {
  readonly partition: Span;
  readonly lacking: Span;
}

/**
 * Returns what a market lacks of exact times in the newest partition that can take some and begins before an instant,
 * which may be infinite.
 */
export async function readUntimedTrades(
  runner: Runner,
  marketId: number,
  beforeMs: number,
): Promise<UntimedTrades | undefined> {
  const before = Number.isFinite(beforeMs) ? isoMs(beforeMs) : 'infinity';
  const [hot] = await runner.rows<{ span: Span }>(UNTIMED_PARTITION, [marketId, before]);
  if (hot === undefined) return undefined;
  const { span: partition } = hot;
  const bounds = [isoMs(partition.fromMs), isoMs(partition.toMs)];
  const [found] = await runner.rows<{ lacking: Span }>(UNTIMED_TRADES, [marketId, ...bounds]);
  return found && { partition, lacking: found.lacking };
}

/** The day of the instant is counted; of it what is in files is not. */
const storedAboveSql = (isLocal: string) => `
  SELECT ((SELECT coalesce(sum(rows), 0) FROM rows_by_day
           WHERE market_id = $1 AND series = 'trade' AND variant = 0 AND day >= ($3::timestamptz AT TIME ZONE 'UTC')::date)
        + (SELECT count(*) FROM trade
           WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz AND ${isLocal}))::float8 AS rows`;

/** How many trades of a market are stored from an instant on; about as many where its day is in files. */
export async function readStoredAbove(
  runner: Runner,
  marketId: number,
  fromMs: number,
): Promise<number> {
  const nextDayMs = floorToMs(fromMs, DAY_MS) + DAY_MS;
  const values = [marketId, isoMs(fromMs), isoMs(nextDayMs)];
  const sql = storedAboveSql(await localSql(runner, 'trade', 'traded_at'));
  const [row] = await runner.rows<{ rows: number }>(sql, values);
  return row?.rows ?? 0;
}

/** Partitions in files that hold trades of market $1 (SQL). */
const HAS_FILES = `table_name = 'trade' AND state = 'archived' AND EXISTS (
  SELECT FROM rows_by_day r
  WHERE r.market_id = $1 AND r.series = 'trade' AND r.rows > 0
    AND r.day >= (lower(span) AT TIME ZONE 'UTC')::date AND r.day < (upper(span) AT TIME ZONE 'UTC')::date)`;

/** Time whose trades of a market cannot be looked at; all of what is no longer kept (SQL). */
const LEFT_SPANS = `
  (SELECT coalesce(range_agg(span), '{}') FROM partition_state
   WHERE ${HAS_FILES} OR table_name = 'trade' AND state = 'expired')`;

/** Looks into indexes for each slot, however many trades are in it. */
const tradedSlotsSql = (isLocal: string) => `
  SELECT slot.at, hot.has_trade
  FROM unnest($2::float8[], $3::float8[]) AS asked(from_ms, to_ms), LATERAL (
    SELECT ${fromMs('asked.from_ms')} + n * make_interval(secs => $4::float8) AS at
    FROM generate_series(0, ceil((asked.to_ms - asked.from_ms) / ($4::float8 * 1000))::int - 1) AS n)
      begin,
    LATERAL (SELECT begin.at, begin.at + make_interval(secs => $4::float8) AS to_at) slot,
    LATERAL (SELECT EXISTS (
      SELECT FROM trade t
      WHERE t.market_id = $1 AND t.traded_at >= slot.at AND t.traded_at < slot.to_at AND ${isLocal}) AS has_trade) hot
  WHERE hot.has_trade OR ${LEFT_SPANS} && tstzrange(slot.at, slot.to_at)
  ORDER BY 1`;

/** What of the slots of a grid is not known to be without trades; where the slots begin, milliseconds. */
export interface TradedSlots {
  /** A trade is stored. */
  readonly traded: readonly number[];
  /** None is, and rows of this time have left the database. */
  readonly left: readonly number[];
}

/**
 * Slots of a grid in which a trade is stored, or may be in files.
 *
 * @param spans whole slots
 */
export async function readTradedSlots(
  runner: Runner,
  marketId: number,
  spans: readonly Span[],
  stepMs: number,
): Promise<TradedSlots> {
  const values = [marketId, ...unnested(spans, 'fromMs', 'toMs'), stepMs / 1000];
  const sql = tradedSlotsSql(await localSql(runner, 'trade', 't.traded_at'));
  const rows = await runner.rows<{ atMs: number; hasTrade: boolean }>(sql, values);
  const begins = (isTraded: boolean) =>
    rows.filter(({ hasTrade }) => hasTrade === isTraded).map(({ atMs }) => atMs);
  return { traded: begins(true), left: begins(false) };
}

const hasTradeBeforeSql = (isLocal: string) => `
  SELECT EXISTS (SELECT FROM trade WHERE market_id = $1 AND traded_at < ${fromMs('$2')} AND ${isLocal})
    OR EXISTS (
      SELECT FROM partition_state WHERE lower(span) < ${fromMs('$2')} AND (${HAS_FILES}
        OR table_name = 'trade' AND state = 'expired'
           AND upper(span) > (SELECT first_seen_at FROM market WHERE market_id = $1))) AS has_trade`;

/**
 * Whether an older trade of a market is stored, in the database or in files, or may have been: of what is no
 * longer kept only the time is known.
 */
export async function hasTradeBefore(
  runner: Runner,
  marketId: number,
  ms: number,
): Promise<boolean> {
  const isLocal = await localSql(runner, 'trade', 'traded_at');
  return await isTrue(runner, hasTradeBeforeSql(isLocal), [marketId, ms]);
}
