import { holdsSpan, normalizeSpans, type Span } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { StreamRef } from '../../model/batch.js';
import type { CandleFigures, SlotFigures, TradeFigures } from '../../model/check-results.js';
import type { SeriesTable } from '../../model/series.js';
import { coveredSql, expectedSql, streamRefSql } from '../completeness/ledger.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { localSql, type Reach, removedFrom, removedSql } from '../schema/partitions.js';
import { fromMs } from '../sql.js';
import { IS_ABSENT_CANDLE } from './results.js';

/**
 * Inputs of checks. Bounds of time are constants of each statement, so that only the
 * partitions concerned are read, and within them only the market's part of the key.
 */

/** A market whose trades can be held against its candles. */
export interface CheckTarget {
  readonly marketId: number;
  readonly market: string;
  readonly trades: StreamRef | null;
  /** Streams of candles, the shortest interval first. */
  readonly klines: readonly StreamRef[];
}

/** Most slots that are read at once. */
export const FIGURE_SLOTS_MAX = 1000;

/** Sums are made here also of archived rows: their expressions are kept from the server that answers for those. */
const tradeSumsSql = (isInReach: string) => `
  SELECT floor(extract(epoch FROM (traded_at - $2::timestamptz)) / $4)::int AS slot,
         count(*)::float8 AS count, sum(amount)::text AS amount, sum(total)::text AS total,
         sum(price * amount)::text AS paid, max(price)::text AS high, min(price)::text AS low,
         (array_agg(price ORDER BY traded_at, tid))[1]::text AS first,
         (array_agg(price ORDER BY traded_at, tid))[count(*)::int]::text AS last
  FROM (SELECT traded_at, tid, price, amount, total FROM trade
        WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz AND ${isInReach}
        OFFSET 0) t
  GROUP BY 1`;

const candlesSql = (isInReach: string) => `
  SELECT floor(extract(epoch FROM (open_at - $2::timestamptz)) / $4)::int AS slot,
         open::text, close::text, high::text, low::text, volume::text, quote_volume::text
  FROM kline WHERE market_id = $1 AND interval_s = $4
    AND open_at >= $2::timestamptz AND open_at < $3::timestamptz AND ${isInReach}`;

/** Covered time within reach (SQL). */
const coveredInReach = (reach: Reach) => `
  SELECT c.stream_id, part AS span
  FROM coverage c JOIN stream s USING (stream_id), unnest(tstzmultirange(c.span) - CASE s.kind
      WHEN 'candles' THEN ${removedFrom(reach, 'kline')} ELSE ${removedFrom(reach, 'trade')} END) AS part
  WHERE c.market_id = $1 AND c.stream_id = ANY ($2::int[])
    AND c.span && tstzrange(${fromMs('$3')} - interval '1 microsecond', ${fromMs('$4')})`;

/** The last traded candle before an instant, if everything in between is known. */
const PREVIOUS_CLOSE = `
  SELECT close::text FROM kline
  WHERE market_id = $1 AND interval_s = $4 AND volume > 0
    AND open_at >= $2::timestamptz AND open_at < $3::timestamptz
  ORDER BY open_at DESC LIMIT 1`;

type Slotted<Figures> = Figures & { readonly slot: number };

/**
 * What the archive holds about the slots of a span, oldest first: in one snapshot, so that rows and the
 * coverage that speaks of them agree.
 *
 * @param span lies on the grid, at most {@link FIGURE_SLOTS_MAX} slots
 * @param reach `all` needs the server that answers for archived rows
 */
export async function readFigures(
  database: Database,
  target: CheckTarget,
  kline: StreamRef,
  span: Span,
  reach: Reach = 'local',
): Promise<SlotFigures[]> {
  const stepMs = kline.variant * 1000;
  const count = (span.toMs - span.fromMs) / stepMs;
  if (count > FIGURE_SLOTS_MAX || span.fromMs % stepMs !== 0 || span.toMs % stepMs !== 0) {
    throw new RangeError(`not up to ${FIGURE_SLOTS_MAX} whole slots: ${JSON.stringify(span)}`);
  }
  return await database.transaction(async (runner) => {
    const bounds = [target.marketId, isoMs(span.fromMs), isoMs(span.toMs), kline.variant];
    const streamIds = [kline.streamId, ...(target.trades === null ? [] : [target.trades.streamId])];
    const covered = await runner.rows<{ readonly streamId: number; readonly span: Span }>(
      coveredInReach(reach),
      [target.marketId, streamIds, span.fromMs, span.toMs],
    );
    const of = (stream: StreamRef | null) => {
      const own = covered.filter(({ streamId }) => streamId === stream?.streamId);
      return normalizeSpans(own.map((one) => one.span));
    };
    const [tradesCovered, candlesCovered] = [of(target.trades), of(kline)];
    const isInReach = async (table: SeriesTable, column: string) =>
      reach === 'all' ? 'true' : await localSql(runner, table, column);
    const [sums, stored] = [
      tradeSumsSql(await isInReach('trade', 'traded_at')),
      candlesSql(await isInReach('kline', 'open_at')),
    ];
    const trades = bySlot(await runner.rows<Slotted<TradeFigures>>(sums, bounds));
    const candles = bySlot(await runner.rows<Slotted<CandleFigures>>(stored, bounds));
    let previousClose = await closeBefore(runner, target, kline, span.fromMs, candlesCovered);
    return Array.from({ length: count }, (_, slot) => {
      const fromMs = span.fromMs + slot * stepMs;
      const one = { fromMs, toMs: fromMs + stepMs };
      const candle = candles.get(slot) ?? null;
      const figures: SlotFigures = {
        span: one,
        trades: trades.get(slot) ?? null,
        candle,
        previousClose,
        hasTrades: tradesCovered.some((part) => holdsSpan(part, one)),
        hasCandle: candlesCovered.some((part) => holdsSpan(part, one)),
      };
      if (!figures.hasCandle) previousClose = null;
      else if (candle !== null && /[1-9]/.test(candle.volume)) previousClose = candle.close;
      return figures;
    });
  }, 'ISOLATION LEVEL REPEATABLE READ READ ONLY');
}

function bySlot<Figures>(rows: readonly Slotted<Figures>[]): Map<number, Omit<Figures, 'slot'>> {
  return new Map(rows.map(({ slot, ...figures }) => [slot, figures]));
}

async function closeBefore(
  runner: Runner,
  { marketId }: CheckTarget,
  { variant }: StreamRef,
  fromMs: number,
  covered: readonly Span[],
): Promise<string | null> {
  const around = covered.find((part) => part.fromMs < fromMs && fromMs <= part.toMs);
  if (around === undefined) return null;
  const oldestMs = Math.max(around.fromMs, fromMs - FIGURE_SLOTS_MAX * variant * 1000);
  const values = [marketId, isoMs(oldestMs), isoMs(fromMs), variant];
  const [row] = await runner.rows<{ close: string }>(PREVIOUS_CLOSE, values);
  return row?.close ?? null;
}

/** What of the ledger concerns checks: which markets, which spans, and what is known of them. */

const TARGETS = `
  SELECT ${streamRefSql('s')}, m.name AS market
  FROM stream s JOIN market m USING (market_id)
  WHERE s.kind IN ('trades', 'candles') ORDER BY m.name, s.kind, s.variant`;

/** All markets that trades or candles are collected of, by name. */
export async function readTargets(runner: Runner): Promise<CheckTarget[]> {
  const targets = new Map<number, CheckTarget>();
  for (const row of await runner.rows<StreamRef & { readonly market: string }>(TARGETS)) {
    const { market, ...stream } = row;
    const { kind, marketId } = stream;
    const none = { marketId, market, trades: null, klines: [] };
    const known = targets.get(marketId) ?? none;
    const added = kind === 'candles' ? { klines: [...known.klines, stream] } : { trades: stream };
    targets.set(marketId, { ...known, ...added });
  }
  return [...targets.values()];
}

/** Expected or covered anyway, of one stream; up to its newest covered instant. */
const SPANS_OF = (stream: string) => `
  SELECT expected.spans + covered.spans AS spans
  FROM stream s, LATERAL (
      SELECT max(upper(c.span)) AS until FROM coverage c WHERE c.stream_id = s.stream_id OFFSET 0) newest,
    ${expectedSql('newest.until')}, ${coveredSql(`'-infinity'`, `'infinity'`)}
  WHERE s.stream_id = ${stream} AND newest.until IS NOT NULL`;

const expectedOfBoth = (reach: Reach) => `
  WITH trades AS (${SPANS_OF('$1')}), klines AS (${SPANS_OF('$2')})
  SELECT one AS span
  FROM trades t, klines k, unnest(t.spans * k.spans - ${removedFrom(reach, 'trade', 'kline')}) AS one ORDER BY lower(one)`;

/**
 * What is expected of both roads, oldest first: from where both are to be collected (or happen to
 * be covered) up to where both are covered, but for partitions that are out of reach. Empty
 * while that is nothing.
 */
export async function readExpected(
  runner: Runner,
  { trades }: CheckTarget,
  kline: StreamRef,
  reach: Reach = 'local',
): Promise<Span[]> {
  if (trades === null) return [];
  const values = [trades.streamId, kline.streamId];
  const rows = await runner.rows<{ span: Span }>(expectedOfBoth(reach), values);
  return rows.map((row) => row.span);
}

/** An unchecked span of whole slots that both sources cover. */
export interface PendingSpan {
  readonly marketId: number;
  readonly intervalS: number;
  readonly span: Span;
}

/** What is known of one market and interval. */
export interface CheckTotals {
  readonly marketId: number;
  readonly market: string;
  readonly intervalS: number;
  readonly mismatches: number;
  /** Whether the exchange lists the market: of one that it does not, nothing more is checked. */
  readonly isListed: boolean;
  /** End of the newest check result; null while there is none. */
  readonly judgedUntilMs: number | null;
}

/**
 * What both sources cover and is not checked. Asked again and again, so it is looked for among the
 * newest covered ranges first; whole streams are read only now and then, or while that finds
 * something.
 */

/** So many of the newest covered ranges of either road are looked at. */
const COVERED_RANGES = 8;
/** Whole streams are read at every so many questions, when the last time brought nothing more. */
const REST_CALLS = 20;

/** Compared as rows, which only the index by start can do: others would read the stream whole. */
const NEWEST_RANGES = (streamId: string, until: string, count: number) => `
  SELECT c.span FROM coverage c
  WHERE ROW(c.stream_id, lower(c.span)) >= ROW(${streamId}, '-infinity')
    AND ROW(c.stream_id, lower(c.span)) < ROW(${streamId}, ${until})
  ORDER BY c.stream_id DESC, lower(c.span) DESC LIMIT ${count}`;

const NEWEST_SPANS = (streamId: string) => `
  (SELECT count(*) AS count, coalesce(range_agg(span), '{}') AS spans
   FROM (${NEWEST_RANGES(streamId, 'until_at', COVERED_RANGES)}) c)`;

/** The whole slots within spans. */
export const slotsInSql = (spans: string, intervalS: string) => `
  (SELECT coalesce(range_agg(tstzrange(to_timestamp(from_s), to_timestamp(to_s))), '{}')
   FROM unnest(${spans}) AS one, LATERAL (
     SELECT ceil(date_part('epoch', lower(one)) / ${intervalS}) * ${intervalS} AS from_s,
            floor(date_part('epoch', upper(one)) / ${intervalS}) * ${intervalS} AS to_s) grid
   WHERE from_s < to_s)`;

const ALL_SPANS = (streamId: string) =>
  `(SELECT range_agg(c.span) FROM coverage c WHERE c.stream_id = ${streamId})`;

/** What both roads cover and the database holds. */
const HELD = `t.spans * k.spans - ${removedSql('trade', 'kline')}`;

const PAIRS = `
  pairs AS MATERIALIZED (
    SELECT k.market_id, k.variant AS interval_s, t.stream_id AS trades_id, k.stream_id AS kline_id
    FROM stream k JOIN stream t ON t.market_id = k.market_id AND t.kind = 'trades'
    WHERE k.kind = 'candles')`;

const contradictedSql = (isTradeLocal: string, isCandleLocal: string) => `
  WITH slots AS MATERIALIZED (
    SELECT ${slotsInSql(`k.spans - ${removedSql('trade', 'kline')}`, '$4')}
             - ${slotsInSql('t.spans', '$4')} AS spans
    FROM (SELECT ${ALL_SPANS('$2')} AS spans OFFSET 0) k,
      (SELECT coalesce(${ALL_SPANS('$3')}, '{}') AS spans OFFSET 0) t)
  SELECT slot.from_ms
  FROM slots s, unnest(s.spans) AS one, LATERAL (
    SELECT DISTINCT floor(extract(epoch FROM traded_at) / $4)::float8 * $4 * 1000 AS from_ms
    FROM trade
    WHERE market_id = $1 AND traded_at >= lower(one) AND traded_at < upper(one) AND ${isTradeLocal}) slot
  WHERE NOT EXISTS (
    SELECT FROM kline
    WHERE market_id = $1 AND interval_s = $4 AND open_at >= ${fromMs('slot.from_ms')}
      AND open_at < ${fromMs('(slot.from_ms + $4 * 1000)')} AND ${isCandleLocal})
  ORDER BY 1 LIMIT ${FIGURE_SLOTS_MAX}`;

/**
 * Slots that the ledger calls quiet although a trade is stored in them, of those whose trades are not
 * all covered: the others are checked as pending ones. Older versions recorded such claims where the
 * exchange's history begins. Time whose rows have left the database is passed over.
 *
 * @returns oldest first, at most {@link FIGURE_SLOTS_MAX}
 */
export async function readContradicted(
  runner: Runner,
  { marketId, trades }: CheckTarget,
  { streamId, variant }: StreamRef,
): Promise<Span[]> {
  if (trades === null) return [];
  const values = [marketId, streamId, trades.streamId, variant];
  const sql = contradictedSql(
    await localSql(runner, 'trade', 'traded_at'),
    await localSql(runner, 'kline', 'open_at'),
  );
  const rows = await runner.rows<{ fromMs: number }>(sql, values);
  return rows.map((row) => ({ fromMs: row.fromMs, toMs: row.fromMs + variant * 1000 }));
}

/** For every market and interval: slots that both roads cover, and whether these are all. */
const NEWEST_SLOTS = `
  ${PAIRS},
  slots AS MATERIALIZED (
    SELECT p.*, ${slotsInSql(HELD, 'p.interval_s')} AS slots,
           t.count < ${COVERED_RANGES} AND k.count < ${COVERED_RANGES} AS is_whole
    FROM pairs p,
      LATERAL (${NEWEST_RANGES('p.trades_id', `'infinity'`, 1)}) newest_trades,
      LATERAL (${NEWEST_RANGES('p.kline_id', `'infinity'`, 1)}) newest_kline,
      LATERAL (SELECT least(upper(newest_trades.span), upper(newest_kline.span)) AS until_at) u,
      LATERAL ${NEWEST_SPANS('p.trades_id')} t, LATERAL ${NEWEST_SPANS('p.kline_id')} k)`;

const ALL_SLOTS = `
  ${PAIRS},
  slots AS MATERIALIZED (
    SELECT p.*, ${slotsInSql(HELD, 'p.interval_s')} AS slots, true AS is_whole
    FROM pairs p, LATERAL (SELECT ${ALL_SPANS('p.trades_id')} AS spans OFFSET 0) t,
      LATERAL (SELECT ${ALL_SPANS('p.kline_id')} AS spans OFFSET 0) k)`;

const pendingSql = (slots: string) => `
  WITH ${slots}
  SELECT market_id, interval_s, is_whole, newest.span
  FROM slots s LEFT JOIN LATERAL (
    SELECT one AS span
    FROM unnest(s.slots - coalesce((
        SELECT range_agg(v.span) FROM candle_check v
        WHERE v.market_id = s.market_id AND v.interval_s = s.interval_s
          AND v.span && tstzrange(lower(s.slots), upper(s.slots))), '{}')) AS one
    ORDER BY lower(one) DESC LIMIT 1) newest ON true
  WHERE newest.span IS NOT NULL OR NOT is_whole
  ORDER BY upper(newest.span) DESC NULLS LAST, interval_s, market_id`;

const NEWEST_PENDING = pendingSql(NEWEST_SLOTS);
const ALL_PENDING = pendingSql(ALL_SLOTS);

interface PendingRow extends Omit<PendingSpan, 'span'> {
  readonly isWhole: boolean;
  readonly span: Span | null;
}

/** Finds what is to be checked. Remembers how long it is since whole streams were read for that. */
export class PendingSearch {
  #callsLeft = 0;

  /** For each market and interval its newest unchecked span, newest first. */
  async find(runner: Runner, limit: number): Promise<PendingSpan[]> {
    const rows = await runner.rows<PendingRow>(NEWEST_PENDING);
    const newest = rows.flatMap(toPending);
    const isWhole = rows.every((row) => row.isWhole || row.span !== null);
    if (isWhole || newest.length >= limit) return newest.slice(0, limit);
    if (this.#callsLeft > 0) {
      this.#callsLeft -= 1;
      return newest;
    }
    const all = (await runner.rows<PendingRow>(ALL_PENDING)).flatMap(toPending);
    this.#callsLeft = all.length > newest.length ? 0 : REST_CALLS;
    return all.slice(0, limit);
  }
}

function toPending({ marketId, intervalS, span }: PendingRow): PendingSpan[] {
  return span === null ? [] : [{ marketId, intervalS, span }];
}

const COVERED_IN_HULL = (streamId: string) => `
  (SELECT range_agg(c.span) FROM coverage c
   WHERE c.market_id = p.market_id AND c.stream_id = ${streamId} AND c.span && w.hull)`;

/** A mismatch counts where all that it speaks of is covered still; what is not is a gap. */
const TOTALS = `
  WITH ${PAIRS},
  wrong AS MATERIALIZED (
    SELECT market_id, interval_s, tstzrange(min(lower(span)), max(upper(span))) AS hull
    FROM candle_check WHERE outcome = 'mismatch' GROUP BY market_id, interval_s),
  known AS MATERIALIZED (
    SELECT w.market_id, w.interval_s, ${COVERED_IN_HULL('p.trades_id')} AS trades,
           ${COVERED_IN_HULL('p.kline_id')} AS candles
    FROM wrong w JOIN pairs p USING (market_id, interval_s)),
  judged AS (
    SELECT v.market_id, v.interval_s,
           (count(*) FILTER (WHERE v.outcome = 'mismatch' AND v.span <@ k.candles
              AND (v.span <@ k.trades OR ${IS_ABSENT_CANDLE})))::int AS mismatches,
           max(upper(v.span)) AS judged_until
    FROM candle_check v LEFT JOIN known k USING (market_id, interval_s)
    GROUP BY v.market_id, v.interval_s)
  SELECT k.market_id, m.name AS market, k.variant AS interval_s, m.delisted_at IS NULL AS is_listed,
         coalesce(j.mismatches, 0) AS mismatches, j.judged_until
  FROM stream k JOIN market m USING (market_id)
    LEFT JOIN judged j ON j.market_id = k.market_id AND j.interval_s = k.variant
  WHERE k.kind = 'candles' ORDER BY m.name, k.variant`;

export async function readTotals(runner: Runner): Promise<CheckTotals[]> {
  return await runner.rows<CheckTotals>(TOTALS);
}
