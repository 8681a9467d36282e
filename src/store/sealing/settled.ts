import { obtain } from '../../kernel/bounded.js';
import type { Span } from '../../kernel/span.js';
import { timeColumnOf } from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import { slotsInSql } from '../checks/inputs.js';
import { IS_GIVEN_UP } from '../checks/results.js';
import { coveredSql, expectedSql, leftSql, rangeBeforeSql } from '../completeness/ledger.js';
import type { Runner } from '../connection.js';
import { ALL_MARKETS, type MarketChoice } from '../schema/catalog.js';
import { removedSql } from '../schema/partitions.js';
import { fromMs, rangeSql } from '../sql.js';
import type { PartitionInfo } from './partitions.js';

/** Whether all that can be known of a partition is known, and whether it adds up. */

/** A piece of a stream that is not there: given up, older than the stream is, or open. */
export interface Lack {
  readonly kind: string;
  readonly market: string;
  readonly variantS: number;
  readonly span: Span;
}

/** Why a partition cannot be sealed yet. */
export interface Unsettled extends Lack {
  readonly why: 'gap' | 'history' | 'suspect' | 'mismatch' | 'times' | 'share';
}

/** A market whose rows in a partition are not as many as were counted when they were stored. */
export interface Miscount {
  readonly market: string;
  readonly known: number;
  readonly counted: number;
}

/** Ledger of one stream within a partition. */
export interface StreamCoverage extends Omit<Lack, 'span'> {
  readonly spans: readonly Span[];
}

type Part = Pick<PartitionInfo, 'table' | 'span'>;

const FROM = fromMs('$1');
const UNTIL = fromMs('$2');
const SPAN = `tstzrange(${FROM}, ${UNTIL})`;

/** A span of some streams of one kind that is to be covered, and counts as such. */
export interface ClaimedSpan {
  readonly marketIds: readonly number[];
  readonly variantS: number;
  readonly span: Span;
}

/** Gaps that are neither given up nor claimed, nor of a candle that opened before, in time that has left. */
const OPEN_GAP = `
  SELECT 'gap' AS why, s.kind, m.name AS market, s.variant AS variant_s, one AS span
  FROM stream s JOIN market m USING (market_id), ${rangeBeforeSql(FROM)}, ${expectedSql(UNTIL)},
    ${coveredSql(`coalesce(range_before.at, '-infinity')`, UNTIL)},
    LATERAL (
      SELECT coalesce(range_agg(g.span), '{}') AS spans FROM gap g
      WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id AND g.state = 'unfillable'
        AND g.span && ${SPAN} OFFSET 0) given_up,
    unnest(expected.spans * tstzmultirange(${SPAN}) - covered.spans - given_up.spans
           - ${leftSql('s')} - CASE WHEN s.market_id = ANY ($4::int[]) AND s.variant = $5::int
             THEN tstzmultirange(${rangeSql('$6', '$7')}) ELSE '{}' END) AS one
  WHERE s.kind = ANY ($3::text[]) ORDER BY lower(one) LIMIT 1`;

/**
 * A walk back through history that has not come to its start yet, and is within the span or will be: what it brings of
 * that time is not known, so that no gap stands for it.
 */
const OPEN_HISTORY = `
  SELECT 'history' AS why, s.kind, m.name AS market, s.variant AS variant_s,
         tstzrange(${FROM}, least(reached.at, ${UNTIL})) AS span
  FROM stream s JOIN market m USING (market_id), LATERAL (
    SELECT lower(c.span) AS at FROM coverage c
    WHERE c.stream_id = s.stream_id ORDER BY lower(c.span) LIMIT 1) reached
  WHERE s.kind = ANY ($3::text[]) AND s.collect_from IS NULL AND m.delisted_at IS NULL
    AND NOT tstzmultirange(tstzrange(${FROM}, greatest(reached.at, ${FROM}))) <@ ${leftSql('s')}
  ORDER BY reached.at DESC LIMIT 1`;

/**
 * One of several daemons that divide the markets may not have begun. A market is waited for until its stream has
 * a start, or something of it is covered.
 */
const OPEN_SHARE = `
  SELECT 'share' AS why, k.kind, m.name AS market, 0 AS variant_s, ${SPAN} AS span
  FROM (
    SELECT market_id, name FROM market
    WHERE delisted_at IS NULL AND (cardinality($4::text[]) = 0 OR name = ANY ($4))
    ORDER BY market_id LIMIT $5) m, (
    SELECT DISTINCT kind FROM stream WHERE kind = ANY ($3::text[])) k
  WHERE (SELECT shares FROM exclusive_lock WHERE name = 'writer' AND id = 0) > 1 AND NOT EXISTS (
    SELECT FROM stream s WHERE s.market_id = m.market_id AND s.kind = k.kind AND (
      s.collect_from IS NOT NULL OR EXISTS (SELECT FROM coverage c WHERE c.stream_id = s.stream_id)))
  ORDER BY m.name LIMIT 1`;

/** What is covered and suspect: to be fetched again, not started yet. Of what has left nothing is. */
const OPEN_SUSPECT = `
  SELECT 'suspect' AS why, s.kind, m.name AS market, s.variant AS variant_s, g.span
  FROM stream s JOIN market m USING (market_id)
    JOIN gap g ON g.stream_id = s.stream_id AND g.market_id = s.market_id
  WHERE s.kind = ANY ($3::text[]) AND g.state = 'open' AND g.reason = 'suspect'
    AND g.revoked_at IS NULL AND g.span && ${SPAN} AND NOT tstzmultirange(g.span) <@ ${leftSql('s')}
  ORDER BY lower(g.span) LIMIT 1`;

const coveredNear = (streamId: string) => `
  coalesce((SELECT range_agg(c.span * p.near) FROM coverage c
            WHERE c.stream_id = ${streamId} AND c.span && p.near), '{}')`;

/**
 * Unchecked slots that both sources cover, mismatches being retried, and suspect spans. A slot of which a part has left
 * is never judged again.
 */
const OPEN_CHECK = `
  WITH pairs AS (
    SELECT k.market_id, k.variant AS interval_s, k.stream_id AS kline_id, t.stream_id AS trades_id,
           tstzrange(${FROM} - k.variant * interval '1 s', ${UNTIL} + k.variant * interval '1 s') AS near
    FROM stream k JOIN stream t ON t.market_id = k.market_id AND t.kind = 'trades'
    WHERE k.kind = 'candles'),
  slots AS (
    SELECT p.*, ${slotsInSql(
      `${coveredNear('p.trades_id')} * ${coveredNear('p.kline_id')} - ${removedSql('trade', 'kline')}`,
      'p.interval_s',
    )} AS slots
    FROM pairs p),
  open AS (
    SELECT s.market_id, s.interval_s, one AS span
    FROM slots s, unnest(s.slots - coalesce((
        SELECT range_agg(v.span) FROM candle_check v
        WHERE v.market_id = s.market_id AND v.interval_s = s.interval_s
          AND v.span && s.near), '{}')) AS one
    WHERE one && ${SPAN}
    UNION ALL
    SELECT market_id, interval_s, span FROM candle_check v
    WHERE outcome = 'mismatch' AND next_try_at IS NOT NULL AND span && ${SPAN} AND NOT ${IS_GIVEN_UP}
      AND NOT span && ${removedSql('trade', 'kline')}
    UNION ALL
    SELECT market_id, interval_s, span FROM candle_recheck d
    WHERE span && ${SPAN} AND EXISTS (SELECT FROM pairs p WHERE p.market_id = d.market_id))
  SELECT 'mismatch' AS why, 'candles' AS kind, m.name AS market, o.interval_s AS variant_s, o.span
  FROM open o JOIN market m USING (market_id) ORDER BY lower(o.span) LIMIT 1`;

/** A trade without exact time, which may learn it yet: one that was received long ago never does. */
const OPEN_TIMES = `
  SELECT 'times' AS why, 'trades' AS kind, m.name AS market, 0 AS variant_s,
         tstzrange(t.traded_at, t.traded_at + interval '1 s') AS span
  FROM trade t JOIN market m USING (market_id)
  WHERE t.traded_at >= ${FROM} AND t.traded_at < ${UNTIL} AND t.executed_at IS NULL
    AND t.received_at > now() - interval '1 day' LIMIT 1`;

/** Rows of stream `s`. */
function rowsWithinSql(table: SeriesTable): string {
  const { variant } = seriesOf(table);
  const time = timeColumnOf(table);
  return `
          SELECT FROM ${table} r WHERE r.market_id = s.market_id
            AND r.${time} >= ${FROM} AND r.${time} < ${UNTIL}
            ${variant === null ? '' : `AND r.${variant} = s.variant`}`;
}

/**
 * Of a market that is delisted nothing is lacking from when it was missing from the list. Rows of time of which nothing is
 * expected, as a search leaves them, are not all of it.
 */
const lacksSql = (table: SeriesTable) => `
  SELECT s.kind, m.name AS market, s.variant AS variant_s, one AS span
  FROM stream s JOIN market m USING (market_id), ${rangeBeforeSql(FROM)}, ${expectedSql(UNTIL)},
    ${coveredSql(`coalesce(range_before.at, '-infinity')`, UNTIL)},
    LATERAL (
      SELECT coalesce(upper(expected.spans * tstzmultirange(${SPAN})), (
        SELECT ${UNTIL} WHERE EXISTS (${rowsWithinSql(table)}))) AS at OFFSET 0) expected_to,
    LATERAL (
      SELECT one FROM unnest(tstzmultirange(tstzrange(${FROM}, expected_to.at)) - covered.spans) AS one
      ORDER BY upper(one) - lower(one) DESC, lower(one) LIMIT 1) longest
  WHERE s.kind = ANY ($3::text[]) AND expected_to.at IS NOT NULL
  ORDER BY upper(one) - lower(one) DESC, m.name, s.kind DESC, s.variant`;

/** Streams that lack a part of a partition, though it is settled: the longest first. */
export async function findLacks(runner: Runner, { table, span }: Part): Promise<Lack[]> {
  const { streams, isFetchable } = seriesOf(table);
  // What can only be seen at its instant is never whole.
  if (!isFetchable) return [];
  return await runner.rows<Lack>(lacksSql(table), [span.fromMs, span.toMs, streams]);
}

/** Conditions of sealing besides gaps. */
export interface SealNeeds {
  /** Candles must be verified where they can be. */
  readonly needsChecks: boolean;
  /** Trades have a day to learn their exact times. */
  readonly needsTimes: boolean;
  /** Markets that the daemons of an archive divide among them. Default: all that are listed. */
  readonly markets?: MarketChoice | undefined;
}

/**
 * The first thing that keeps a partition from being settled; undefined when it is.
 *
 * @param claimed no gap
 */
export async function findUnsettled(
  runner: Runner,
  { table, span: { fromMs: from, toMs: to } }: Part,
  { needsChecks, needsTimes, markets = ALL_MARKETS }: SealNeeds,
  claimed: ClaimedSpan = { marketIds: [], variantS: 0, span: { fromMs: 0, toMs: 0 } },
): Promise<Unsettled | undefined> {
  const { streams, isFetchable } = seriesOf(table);
  // What could only be seen at its instant will never come: there is nothing to wait for.
  if (!isFetchable) return undefined;
  const { marketIds, variantS, span } = claimed;
  const [gap] = await runner.rows<Unsettled>(OPEN_GAP, [
    ...[from, to, streams],
    ...[marketIds, variantS, span.fromMs, span.toMs],
  ]);
  if (gap !== undefined) return gap;
  for (const sql of [OPEN_HISTORY, OPEN_SUSPECT]) {
    const [found] = await runner.rows<Unsettled>(sql, [from, to, streams]);
    if (found !== undefined) return found;
  }
  const { wanted, max } = markets;
  const [unbegun] = await runner.rows<Unsettled>(OPEN_SHARE, [from, to, streams, wanted, max]);
  if (unbegun !== undefined) return unbegun;
  const checks = needsChecks ? [OPEN_CHECK] : [];
  for (const sql of [...checks, ...(needsTimes && table === 'trade' ? [OPEN_TIMES] : [])]) {
    const [found] = await runner.rows<Unsettled>(sql, [from, to]);
    if (found !== undefined) return found;
  }
  return undefined;
}

const MISCOUNT = `
  SELECT coalesce(m.name, c.market_id::text) AS market, c.known, c.counted
  FROM miscounted($1, $2, ${rangeSql('$3', '$4')}) c LEFT JOIN market m USING (market_id) LIMIT 1`;

/** Counts a partition; undefined when its rows are as many as the counters say. */
export async function findMiscount(
  runner: Runner,
  { table, name, span: { fromMs: from, toMs: to } }: Part & Pick<PartitionInfo, 'name'>,
): Promise<Miscount | undefined> {
  const [found] = await runner.rows<Miscount>(MISCOUNT, [table, name, from, to]);
  return found;
}

const COVERAGE = `
  SELECT s.kind, m.name AS market, s.variant AS variant_s, c.span * ${SPAN} AS span
  FROM stream s JOIN coverage c USING (stream_id) JOIN market m ON m.market_id = c.market_id
  WHERE s.kind = ANY ($3::text[]) AND c.span && ${SPAN}
  ORDER BY m.name, s.kind, s.variant, lower(c.span)`;

/** Ledger of a partition, by stream. */
export async function readCoverage(
  runner: Runner,
  { table, span }: Part,
): Promise<StreamCoverage[]> {
  const { streams } = seriesOf(table);
  const rows = await runner.rows<Lack>(COVERAGE, [span.fromMs, span.toMs, streams]);
  const found = new Map<string, StreamCoverage & { readonly spans: Span[] }>();
  for (const { span: part, ...stream } of rows) {
    const name = `${stream.kind} ${stream.variantS} ${stream.market}`;
    obtain(found, name, () => ({ ...stream, spans: [] })).spans.push(part);
  }
  return [...found.values()];
}
