import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import type { StreamKind } from '../../model/series.js';
import { coveredSql, expectedSql } from '../completeness/missing.js';
import type { Runner } from '../connection.js';
import { removedSql } from '../sealing/departed.js';
import { boundsSql, toMs } from '../sql.js';
import type { CheckTarget } from './verdict-figures.js';

/** What of the ledger concerns checks: which markets, which spans, and what is known of them. */

const TARGETS = `
  SELECT s.stream_id, s.kind, s.market_id, s.variant, ${toMs('s.collect_from')} AS collect_from_ms,
         m.name
  FROM stream s JOIN market m USING (market_id)
  WHERE s.kind IN ('trades', 'times', 'kline') ORDER BY m.name, s.kind, s.variant`;

interface StreamRow {
  readonly stream_id: number;
  readonly kind: StreamKind;
  readonly market_id: number;
  readonly variant: number;
  readonly collect_from_ms: number | null;
  readonly name: string;
}

/** All markets that trades or candles are collected of, by name. */
export async function readTargets(runner: Runner): Promise<CheckTarget[]> {
  const targets = new Map<number, CheckTarget>();
  for (const row of await runner.rows<StreamRow>(TARGETS)) {
    const { market_id: marketId, name: market } = row;
    const stream = {
      streamId: row.stream_id,
      kind: row.kind,
      marketId,
      variant: row.variant,
      collectFromMs: row.collect_from_ms,
    };
    const known = targets.get(marketId) ?? {
      marketId,
      market,
      trades: null,
      times: null,
      klines: [],
    };
    const added =
      row.kind === 'kline' ? { klines: [...known.klines, stream] } : { [row.kind]: stream };
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

const EXPECTED = `
  WITH trades AS (${SPANS_OF('$1')}), klines AS (${SPANS_OF('$2')})
  SELECT ${boundsSql('one')}
  FROM trades t, klines k, unnest(t.spans * k.spans - ${removedSql('trade', 'kline')}) AS one ORDER BY lower(one)`;

/**
 * What is expected of both roads, oldest first: from where both are to be collected (or happen to
 * be covered) up to where both are covered, but for partitions that have left the database. Empty
 * while that is nothing.
 */
export async function readExpected(
  runner: Runner,
  { trades }: CheckTarget,
  kline: StreamRef,
): Promise<Span[]> {
  if (trades === null) return [];
  return await runner.rows<Span>(EXPECTED, [trades.streamId, kline.streamId]);
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
  /** Time whose candles agree with the trades. */
  readonly matchMs: number;
  readonly mismatches: number;
  /** End of the newest check result; null while there is none. */
  readonly judgedUntilMs: number | null;
  /** End of what both roads cover; null while that is nothing. */
  readonly coveredUntilMs: number | null;
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
    WHERE k.kind = 'kline')`;

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
  SELECT market_id AS "marketId", interval_s AS "intervalS", is_whole AS "isWhole",
         newest.from_ms AS "fromMs", newest.to_ms AS "toMs"
  FROM slots s LEFT JOIN LATERAL (
    SELECT ${toMs('lower(one)')} AS from_ms, ${toMs('upper(one)')} AS to_ms
    FROM unnest(s.slots - coalesce((
        SELECT range_agg(v.span) FROM verdict v
        WHERE v.market_id = s.market_id AND v.interval_s = s.interval_s
          AND v.span && tstzrange(lower(s.slots), upper(s.slots))), '{}')) AS one
    ORDER BY lower(one) DESC LIMIT 1) newest ON true
  WHERE newest.to_ms IS NOT NULL OR NOT is_whole
  ORDER BY newest.to_ms DESC NULLS LAST, interval_s, market_id`;

const NEWEST_PENDING = pendingSql(NEWEST_SLOTS);
const ALL_PENDING = pendingSql(ALL_SLOTS);

interface PendingRow {
  readonly marketId: number;
  readonly intervalS: number;
  readonly isWhole: boolean;
  readonly fromMs: number | null;
  readonly toMs: number | null;
}

/** Finds what is to be checked. Remembers how long it is since whole streams were read for that. */
export class PendingSearch {
  #callsLeft = 0;

  /** For each market and interval its newest unchecked span, newest first. */
  async find(runner: Runner, limit: number): Promise<PendingSpan[]> {
    const rows = await runner.rows<PendingRow>(NEWEST_PENDING);
    const newest = rows.flatMap(toPending);
    const isWhole = rows.every((row) => row.isWhole || row.toMs !== null);
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

function toPending({ marketId, intervalS, fromMs, toMs }: PendingRow): PendingSpan[] {
  return fromMs === null || toMs === null ? [] : [{ marketId, intervalS, span: { fromMs, toMs } }];
}

/** Whole streams are read of those alone whose roads do not meet in their newest covered ranges. */
const TOTALS = `
  WITH ${NEWEST_SLOTS},
  judged AS (
    SELECT market_id, interval_s,
           coalesce(sum(extract(epoch FROM upper(span) - lower(span)) * 1000)
             FILTER (WHERE outcome = 'match'), 0)::float8 AS match_ms,
           (count(*) FILTER (WHERE outcome = 'mismatch'))::int AS mismatches,
           max(upper(span)) AS judged_until
    FROM verdict GROUP BY market_id, interval_s)
  SELECT k.market_id AS "marketId", m.name AS market, k.variant AS "intervalS",
         coalesce(j.match_ms, 0) AS "matchMs", coalesce(j.mismatches, 0) AS mismatches,
         ${toMs('j.judged_until')} AS "judgedUntilMs",
         ${toMs(`(CASE WHEN s.slots <> '{}' OR s.is_whole THEN upper(s.slots)
            ELSE upper(${slotsInSql(`${ALL_SPANS('s.trades_id')} * ${ALL_SPANS('s.kline_id')}`, 's.interval_s')}) END)`)}
           AS "coveredUntilMs"
  FROM stream k JOIN market m USING (market_id)
    LEFT JOIN judged j ON j.market_id = k.market_id AND j.interval_s = k.variant
    LEFT JOIN slots s ON s.market_id = k.market_id AND s.interval_s = k.variant
  WHERE k.kind = 'kline' ORDER BY m.name, k.variant`;

export async function readTotals(runner: Runner): Promise<CheckTotals[]> {
  return await runner.rows<CheckTotals>(TOTALS);
}
