import type { StreamRef } from '../../model/batch.js';
import type { KnownStream } from '../../model/explain.js';
import type { GapMemory } from '../../model/gap-memories.js';
import {
  BEFORE_HISTORY,
  countedUntilSql,
  lagFromSql,
  NEWEST_REMEMBERED,
  NOTES,
} from '../completeness/gaps.js';
import {
  expectedSql,
  type NamedStream,
  type StreamPlace,
  type StreamSpan,
  streamRefSql,
} from '../completeness/ledger.js';
import { EXPOSED } from '../completeness/revocation.js';
import { isTrue, type Runner } from '../connection.js';
import { isState } from '../errors.js';
import { FILLER, FIND_WRITERS } from '../locks.js';
import { START_TRIES } from '../schema/catalog.js';
import { EXPIRED_OF_KINDS, tableOfKindSql } from '../schema/partitions.js';
import { fromMs, rangeSql, unnested } from '../sql.js';

/** How far a span has come, from the ledger alone. What is none of these parts is open and due. */
export interface SpanProgress {
  readonly lengthMs: number;
  readonly coveredMs: number;
  /** Not covered, and given up. */
  readonly unfillableMs: number;
  /** Not covered, open, and not to be tried before the instant asked about. */
  readonly waitingMs: number;
  /** Stored rows of the whole stream. */
  readonly rows: number;
}

/** What is remembered of one gap, also of one that is closed. */
export interface GapDetail
  extends StreamPlace,
    Omit<GapMemory, 'gapId' | 'remarks' | 'revokedAtMs'> {
  readonly gapId: number;
}

const streamsSql = (where: string) => `
  SELECT ${streamRefSql('s')}, m.name AS market, m.delisted_at,
         c.oldest AS oldest_covered, c.newest AS newest_covered,
         ${countedUntilSql('c.newest', NEWEST_REMEMBERED)} AS counted_until, ${START_TRIES}, s.start_reason, kept.expired_until
  FROM stream s JOIN market m USING (market_id) JOIN ${EXPIRED_OF_KINDS} kept USING (kind) LEFT JOIN (
    SELECT stream_id, market_id, min(lower(span)) AS oldest, max(upper(span)) AS newest
    FROM coverage GROUP BY stream_id, market_id) c USING (stream_id, market_id)
  ${where} ORDER BY m.name, s.kind, s.variant`;
const STREAMS = streamsSql('');
const ONE_STREAM = streamsSql('WHERE s.stream_id = $1');

/** Summed as decimals, in the end a float. */
const lengthSql = (spans: string, perSecond: 1 | 1000) => `
  (SELECT (coalesce(sum(extract(epoch FROM upper(one) - lower(one))), 0) * ${perSecond})::float8
   FROM unnest(${spans}) AS one)`;
const millisOf = (spans: string) => lengthSql(spans, 1000);
const secondsOf = (spans: string) => lengthSql(spans, 1);

const rememberedSql = (state: string) => `
  (SELECT coalesce(range_agg(g.span), '{}') FROM gap g
   WHERE g.market_id = a.market_id AND g.stream_id = a.stream_id AND g.span && a.span
     AND ${state})`;

/** Stored rows of stream `s` (SQL), or those with an exact time. */
const rowsSql = (s: string, column: 'rows' | 'timed' = 'rows') => `
  (SELECT coalesce(sum(r.${column}), 0)::float8 FROM rows_by_day r
   WHERE r.market_id = ${s}.market_id AND r.series = ${tableOfKindSql(`${s}.kind`)} AND r.variant = ${s}.variant)`;

const PROGRESS = `
  WITH asked AS (
    SELECT stream_id, market_id, ord, ${rangeSql('from_ms', 'to_ms')} AS span
    FROM unnest($1::int[], $2::int[], $3::float8[], $4::float8[]) WITH ORDINALITY
      AS t(stream_id, market_id, from_ms, to_ms, ord)),
  known AS (
    SELECT a.ord, a.span,
           ${rowsSql('s')} AS rows,
           (SELECT coalesce(range_agg(c.span * a.span), '{}') FROM coverage c
            WHERE c.market_id = a.market_id AND c.stream_id = a.stream_id AND c.span && a.span)
             AS covered,
           ${rememberedSql(`g.state = 'unfillable'`)} AS unfillable,
           ${rememberedSql(`g.state = 'open' AND g.next_attempt_at > ${fromMs('$5')}`)} AS waiting
    FROM asked a JOIN stream s USING (stream_id, market_id)),
  parts AS (SELECT *, tstzmultirange(span) - covered AS missing FROM known)
  SELECT (extract(epoch FROM upper(span) - lower(span)) * 1000)::float8 AS length_ms,
         ${millisOf('covered')} AS covered_ms,
         ${millisOf('missing * unfillable')} AS unfillable_ms,
         ${millisOf('missing * waiting - unfillable')} AS waiting_ms, rows
  FROM parts ORDER BY ord`;

const GAP = `
  SELECT gap_id, stream_id, market_id, span, state, reason, ${NOTES} AS note, first_seen_at,
         attempts, next_attempt_at, closed_at
  FROM gap g WHERE gap_id = $1`;

/** All streams by market, kind and variant, or one. */
export async function readStreams(runner: Runner, streamId?: number): Promise<KnownStream[]> {
  return streamId === undefined
    ? await runner.rows<KnownStream>(STREAMS)
    : await runner.rows<KnownStream>(ONE_STREAM, [streamId]);
}

/**
 * One answer a span, in their order.
 *
 * @param untilMs tries after this instant count as waiting; exchange time
 */
export async function readProgress(
  runner: Runner,
  spans: readonly StreamSpan[],
  untilMs: number,
): Promise<SpanProgress[]> {
  const flat = spans.map(({ span, ...stream }) => ({ ...stream, ...span }));
  return await runner.rows<SpanProgress>(PROGRESS, [
    ...unnested(flat, 'streamId', 'marketId', 'fromMs', 'toMs'),
    untilMs,
  ]);
}

/** Null when nothing has this id (any more). */
export async function readGap(runner: Runner, gapId: number): Promise<GapDetail | null> {
  const [row] = await runner.rows<GapDetail>(GAP, [gapId]);
  return row ?? null;
}

/** Size of the whole database. */
export async function readDatabaseBytes(runner: Runner): Promise<number> {
  const sql = 'SELECT pg_database_size(current_database()) AS bytes';
  const [row] = await runner.rows<{ bytes: number }>(sql);
  return row?.bytes ?? 0;
}

/** Whether a program writes to this archive at present. */
export async function readIsWritten(runner: Runner): Promise<boolean> {
  return (await runner.rows(FIND_WRITERS)).length > 0;
}

/**
 * A daemon that collects notes the exchange's present every few seconds, whether that answers or not. What an earlier
 * one noted says nothing of it.
 */
const IS_COLLECTING = `
  SELECT EXISTS (
    SELECT FROM archive, lock_holders('writer')
    WHERE application IS DISTINCT FROM '${FILLER}'
      AND present_noted_at > greatest(held_since, now() - interval '1 minute'))`;

/** Whether a daemon collects at present: one that starts, or waits for the exchange, does not yet; nor does a backfill. */
export async function readIsCollecting(runner: Runner): Promise<boolean> {
  return await isTrue(runner, IS_COLLECTING);
}

/** Whether this login may store rows, as a daemon does. */
export async function readMayWrite(runner: Runner): Promise<boolean> {
  return await isTrue(runner, `SELECT has_table_privilege('coverage', 'INSERT')`);
}

/** Takes some pages of the disk, and gives them back at the end of its transaction. */
const TRIAL = `
  CREATE TEMPORARY TABLE tapekeep_trial ON COMMIT DROP AS
  SELECT repeat('x', 1000) AS x FROM generate_series(1, 500)`;

/** Stores rows that go again at once, as far as this login may. @throws {@link StoreError} where none can be stored, as on a full disk */
export async function tryStoring(runner: Runner): Promise<void> {
  try {
    await runner.rows(TRIAL);
  } catch (error) {
    if (!isState(error, 'not allowed')) throw error;
  }
}

/** One stream at a glance, from the ledger alone. */
export interface StreamStatus
  extends StreamRef,
    NamedStream,
    Pick<KnownStream, 'startReason' | 'expiredUntilMs'> {
  /** Stored rows, and the trades among them whose exact time is known. */
  readonly rows: number;
  readonly timed: number;
  /** Start of the oldest and end of the newest covered span; null while nothing is covered. */
  readonly oldestCoveredMs: number | null;
  readonly newestCoveredMs: number | null;
  /** Age of the whole archive. */
  readonly ageS: number;
  readonly coveredS: number;
  /**
   * Expected but not covered, up to there, or to where newer time was asked for in vain; where there is
   * neither, up to the candle that is not closed yet.
   */
  readonly gapS: number;
  /**
   * Seconds of them that lie before all that is covered, because the exchange's history began later:
   * they were wished for and never there to be had, so a share of what is complete leaves them out.
   */
  readonly beforeHistoryS: number;
  /** Seconds between covered spans that were never asked for, as between a backfill and what is collected: no gap. */
  readonly neverAskedS: number;
  /** Seconds of the others that are recorded as unfillable: they cannot be fetched any more. */
  readonly unfillableS: number;
  /** Gaps that are left when what lies before history is taken out. */
  readonly gapsWithinHistory: number;
  /** Gaps that are left when the unfillable spans and what lies before history are taken out. */
  readonly openGaps: number;
  /** Seconds of them. */
  readonly openS: number;
}

/** All streams at a glance, from the ledger alone. */

const STATUS_ROWS = `
  WITH covered AS (
    SELECT stream_id, range_agg(span) AS spans, max(upper(span)) AS newest, min(lower(span)) AS oldest
    FROM (SELECT * FROM coverage OFFSET 0) c GROUP BY stream_id),
  known AS (
    SELECT stream_id, max(upper(span)) AS newest,
           range_agg(span) FILTER (WHERE state = 'unfillable') AS unfillable
    FROM gap WHERE state <> 'filled' GROUP BY stream_id),
  seen AS (
    SELECT s.*, m.name, c.newest, c.oldest, coalesce(c.spans, '{}') AS spans,
           coalesce(k.unfillable, '{}') AS unfillable, before.spans AS before_history,
           CASE WHEN c.oldest < least(c.newest, ${fromMs('$1')})
                THEN tstzmultirange(tstzrange(c.oldest, least(c.newest, ${fromMs('$1')}))) - expected.spans - c.spans
                ELSE '{}' END AS never_asked,
           ${lagFromSql('c.newest', 'k.newest', fromMs('$1'))} AS counted_until, expected.spans AS wished
    FROM stream s JOIN market m USING (market_id) LEFT JOIN covered c USING (stream_id)
      LEFT JOIN known k USING (stream_id),
      ${BEFORE_HISTORY},
      ${expectedSql(fromMs('$1'))}),
  missed AS MATERIALIZED (
    SELECT seen.*, wished * tstzmultirange(tstzrange(NULL, counted_until)) - spans AS missing
    FROM seen)
  SELECT stream_id, kind, market_id, name AS market, variant,
         ${rowsSql('missed')} AS rows, ${rowsSql('missed', 'timed')} AS timed, oldest AS oldest_covered, newest AS newest_covered,
         coalesce((SELECT extract(epoch FROM now() - created_at)::float8 FROM archive), 0) AS age_s,
         ${secondsOf('spans')} AS covered_s,
         ${secondsOf('missing')} AS gap_s,
         ${secondsOf('missing * unfillable - before_history')} AS unfillable_s,
         ${secondsOf('missing * before_history')} AS before_history_s,
         ${secondsOf('never_asked')} AS never_asked_s,
         ${secondsOf('missing - unfillable - before_history')} AS open_s,
         (SELECT count(*) FROM unnest(missing - before_history))::int AS gaps_within_history,
         (SELECT count(*) FROM unnest(missing - unfillable - before_history))::int AS open_gaps,
         collect_from, start_reason, expired_until
  FROM missed JOIN ${EXPIRED_OF_KINDS} kept USING (kind) ORDER BY name, kind, variant`;

export async function readStatus(runner: Runner, untilMs: number): Promise<StreamStatus[]> {
  return await runner.rows<StreamStatus>(STATUS_ROWS, [untilMs]);
}

export interface QuarantineFilter {
  readonly endpoint?: string;
  readonly market?: string;
  /** Part of the reason, in any case. */
  readonly reason?: string;
  /** Newest first; at most this many. */
  readonly limit: number;
}

/** A sample of refused data. Its texts come from outside. */
export interface QuarantinedRow {
  readonly quarantineId: number;
  /** Clock of the collecting machine. */
  readonly receivedAtMs: number;
  readonly endpoint: string;
  readonly market: string | null;
  readonly reason: string;
  /** Of the first of the rows. */
  readonly payload: string;
  /** Rows of the same answer that were refused for the same reason. */
  readonly count: number;
}

export interface QuarantineCount {
  readonly endpoint: string;
  readonly reason: string;
  /** Since the archive began. */
  readonly count: number;
  readonly lastAtMs: number;
  /** Samples of them that are kept; one may stand for many rows. */
  readonly kept: number;
}

/** What was refused: the newest samples of it, and the counts of all. */

const QUARANTINE_COLUMNS = `
  quarantine_id, received_at, endpoint, market, reason, payload, count`;

const NEWEST_QUARANTINED = `
  SELECT ${QUARANTINE_COLUMNS} FROM quarantine
  WHERE ($1::text IS NULL OR endpoint = $1) AND ($2::text IS NULL OR market = $2)
    AND ($3::text IS NULL OR position(lower($3) IN lower(reason)) > 0)
  ORDER BY quarantine_id DESC LIMIT $4`;

export async function readQuarantine(
  runner: Runner,
  filter: QuarantineFilter,
): Promise<QuarantinedRow[]> {
  const { endpoint = null, market = null, reason = null, limit } = filter;
  return await runner.rows<QuarantinedRow>(NEWEST_QUARANTINED, [endpoint, market, reason, limit]);
}

const ONE_QUARANTINED = `SELECT ${QUARANTINE_COLUMNS} FROM quarantine WHERE quarantine_id = $1`;

export async function readQuarantinedRow(
  runner: Runner,
  quarantineId: number,
): Promise<QuarantinedRow | null> {
  const [row] = await runner.rows<QuarantinedRow>(ONE_QUARANTINED, [quarantineId]);
  return row ?? null;
}

/** Samples name more than what they are counted under: exposed trades each their ids, and beyond a bound all reasons. */
const QUARANTINE_COUNTS = `
  WITH samples AS (
    SELECT q.endpoint, coalesce(c.reason, CASE q.endpoint WHEN 'store:trade' THEN '${EXPOSED}' ELSE 'other' END)
             AS reason
    FROM quarantine q LEFT JOIN quarantine_count c USING (endpoint, reason))
  SELECT c.endpoint, c.reason, c.count, c.last_at, coalesce(k.kept, 0) AS kept
  FROM quarantine_count c LEFT JOIN (
    SELECT endpoint, reason, count(*) AS kept FROM samples GROUP BY endpoint, reason) k
    USING (endpoint, reason)
  ORDER BY c.count DESC, c.endpoint, c.reason`;

export async function readQuarantineCounts(runner: Runner): Promise<QuarantineCount[]> {
  return await runner.rows<QuarantineCount>(QUARANTINE_COUNTS);
}
