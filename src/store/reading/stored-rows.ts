import type { Span } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { PageRow } from '../../model/order.js';
import { isTrue, type Runner } from '../connection.js';
import { fromMs, unnested } from '../sql.js';

/** Stored rows by which collectors and checks go on. */

const TRADE_KEY = `tid, extract(epoch FROM traded_at)::float8 AS traded_at_s`;
const STORED_TRADES = `
  SELECT ${TRADE_KEY} FROM trade WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
  ORDER BY traded_at, tid LIMIT $4`;

/** Stored trades of a span, oldest first; its end may be infinite. */
export async function readStoredTrades(
  runner: Runner,
  marketId: number,
  span: Span,
  limit: number,
): Promise<PageRow[]> {
  const until = Number.isFinite(span.toMs) ? isoMs(span.toMs) : 'infinity';
  const values = [marketId, isoMs(span.fromMs), until, limit];
  return await runner.rows<PageRow>(STORED_TRADES, values);
}

/** Partitions in files that hold trades of a market (SQL). */
const HAS_FILES = `table_name = 'trade' AND state = 'archived' AND market_rows ? $1::int::text`;

/** Time whose trades of a market cannot be looked at; all of what is no longer kept (SQL). */
const LEFT_SPANS = `
  (SELECT coalesce(range_agg(span), '{}') FROM partition_state
   WHERE ${HAS_FILES} OR table_name = 'trade' AND state = 'expired')`;

/** Looks into indexes for each slot, however many trades are in it. */
const TRADED_SLOTS = `
  SELECT slot.at, hot.has_trade
  FROM unnest($2::float8[], $3::float8[]) AS asked(from_ms, to_ms), LATERAL (
    SELECT ${fromMs('asked.from_ms')} + n * make_interval(secs => $4::float8) AS at
    FROM generate_series(0, ceil((asked.to_ms - asked.from_ms) / ($4::float8 * 1000))::int - 1) AS n)
      begin,
    LATERAL (SELECT begin.at, begin.at + make_interval(secs => $4::float8) AS to_at) slot,
    LATERAL (SELECT EXISTS (
      SELECT FROM trade t
      WHERE t.market_id = $1 AND t.traded_at >= slot.at AND t.traded_at < slot.to_at) AS has_trade) hot
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
  const rows = await runner.rows<{ atMs: number; hasTrade: boolean }>(TRADED_SLOTS, values);
  const begins = (isTraded: boolean) =>
    rows.filter(({ hasTrade }) => hasTrade === isTraded).map(({ atMs }) => atMs);
  return { traded: begins(true), left: begins(false) };
}

const HAS_TRADE_BEFORE = `
  SELECT EXISTS (SELECT FROM trade WHERE market_id = $1 AND traded_at < ${fromMs('$2')})
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
  return await isTrue(runner, HAS_TRADE_BEFORE, [marketId, ms]);
}
