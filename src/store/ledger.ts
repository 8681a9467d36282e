import type { Span } from '../kernel/span.js';
import type { Island, StreamRef } from '../ledger/batch.js';
import type { GapRecord, RecordedGap, SessionClosing, StreamStatus, TradeKey } from './api.js';
import type { Runner } from './database.js';
import { fromMs, toMs } from './instants.js';

/** Reading and writing the ledger outside the writer's transactions. */

export interface CoverageRow {
  readonly stream_id: number;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly first_id: string | null;
  readonly last_id: string | null;
  readonly row_count: string;
}

/** int8 arrives as text; ids and counts stay below 2^53 because nothing larger is let in. */
export function toIsland(row: CoverageRow): Island {
  return {
    streamId: row.stream_id,
    span: { fromMs: row.from_ms, toMs: row.to_ms },
    firstId: row.first_id === null ? null : Number(row.first_id),
    lastId: row.last_id === null ? null : Number(row.last_id),
    rowCount: Number(row.row_count),
  };
}

const NEWEST_ISLANDS = `
  SELECT stream_id, ${toMs('lower(span)')} AS from_ms, ${toMs('upper(span)')} AS to_ms,
         first_id, last_id, row_count
  FROM coverage WHERE stream_id = $1 AND market_id = $2 ORDER BY lower(span) DESC LIMIT $3`;

export async function readIslands(
  runner: Runner,
  stream: StreamRef,
  limit: number,
): Promise<Island[]> {
  const values = [stream.streamId, stream.marketId, limit];
  return (await runner.rows<CoverageRow>(NEWEST_ISLANDS, values)).map(toIsland);
}

/** collect_from, and while that is unknown the oldest covered moment. */
const MISSING_SPANS = `
  WITH covered AS (
    SELECT range_agg(span) AS spans, min(lower(span)) AS oldest
    FROM coverage WHERE stream_id = $1 AND market_id = $2),
  expected AS (
    SELECT coalesce(s.collect_from, c.oldest) AS from_at, c.spans
    FROM stream s, covered c WHERE s.stream_id = $1)
  SELECT ${toMs('lower(missing)')} AS "fromMs", ${toMs('upper(missing)')} AS "toMs"
  FROM expected, unnest(
    tstzmultirange(tstzrange(from_at, greatest(from_at, ${fromMs('$3')})))
    - coalesce(spans, '{}'::tstzmultirange)) AS missing
  WHERE from_at IS NOT NULL
  ORDER BY lower(missing)`;

export async function readGaps(
  runner: Runner,
  stream: StreamRef,
  untilMs: number,
): Promise<Span[]> {
  return await runner.rows<Span>(MISSING_SPANS, [stream.streamId, stream.marketId, untilMs]);
}

const RECORD_GAP = `
  INSERT INTO gap (stream_id, market_id, span, state, reason, note, first_seen_at,
                   next_attempt_at, attempts, closed_at)
  VALUES ($1, $2, tstzrange(${fromMs('$3')}, ${fromMs('$4')}), $5, $6, $7, ${fromMs('$8')},
          ${fromMs('$9')}, CASE WHEN $5 = 'filling' THEN 1 ELSE 0 END,
          CASE WHEN $5 IN ('filled', 'unfillable') THEN ${fromMs('$8')} END)
  ON CONFLICT (market_id, stream_id, lower(span)) DO UPDATE SET
    span = excluded.span, state = excluded.state, reason = excluded.reason,
    note = coalesce(excluded.note, gap.note), next_attempt_at = excluded.next_attempt_at,
    attempts = gap.attempts + excluded.attempts, closed_at = excluded.closed_at`;

export async function recordGap(runner: Runner, gap: GapRecord): Promise<void> {
  const { stream, span, state, reason } = gap;
  await runner.rows(RECORD_GAP, [
    stream.streamId,
    stream.marketId,
    span.fromMs,
    span.toMs,
    state,
    reason,
    gap.note ?? null,
    gap.atMs,
    gap.nextAttemptAtMs ?? null,
  ]);
}

const EXCHANGE_NOW = `
  SELECT ${toMs('max(upper(span) + (now() - updated_at))')} AS now_ms FROM coverage`;

/** The newest covered moment of all streams, moved on by the time since it was written. */
export async function readExchangeNow(runner: Runner): Promise<number | null> {
  const [row] = await runner.rows<{ now_ms: number | null }>(EXCHANGE_NOW);
  return row?.now_ms ?? null;
}

const CLOSE_FILLED_GAPS = `
  UPDATE gap SET state = 'filled', closed_at = now() FROM coverage c
  WHERE gap.state IN ('open', 'filling') AND c.stream_id = gap.stream_id
    AND c.market_id = gap.market_id AND gap.span <@ c.span
  RETURNING gap_id`;

/** Marks remembered gaps that coverage has closed meanwhile. Returns how many. */
export async function closeFilledGaps(runner: Runner): Promise<number> {
  return (await runner.rows(CLOSE_FILLED_GAPS)).length;
}

const RECORDED_GAPS = `
  SELECT gap_id, stream_id, market_id, ${toMs('lower(span)')} AS from_ms,
         ${toMs('upper(span)')} AS to_ms, state, reason, note,
         ${toMs('first_seen_at')} AS first_seen_ms, attempts,
         ${toMs('next_attempt_at')} AS next_attempt_ms
  FROM gap WHERE stream_id = $1 AND market_id = $2 ORDER BY lower(span) DESC LIMIT $3`;

interface GapRow {
  readonly gap_id: string;
  readonly stream_id: number;
  readonly market_id: number;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly state: RecordedGap['state'];
  readonly reason: string;
  readonly note: string | null;
  readonly first_seen_ms: number;
  readonly attempts: number;
  readonly next_attempt_ms: number | null;
}

export async function readRecordedGaps(
  runner: Runner,
  stream: StreamRef,
  limit: number,
): Promise<RecordedGap[]> {
  const values = [stream.streamId, stream.marketId, limit];
  return (await runner.rows<GapRow>(RECORDED_GAPS, values)).map((row) => ({
    gapId: Number(row.gap_id),
    streamId: row.stream_id,
    marketId: row.market_id,
    span: { fromMs: row.from_ms, toMs: row.to_ms },
    state: row.state,
    reason: row.reason,
    note: row.note,
    firstSeenAtMs: row.first_seen_ms,
    attempts: row.attempts,
    nextAttemptAtMs: row.next_attempt_ms,
  }));
}

const OPEN_SESSION = `
  INSERT INTO session (stream_id, market_id, connected_at, last_message_at)
  VALUES ($1, $2, ${fromMs('$3')}, ${fromMs('$3')}) RETURNING session_id`;
const TOUCH_SESSION = `
  UPDATE session SET last_message_at = greatest(last_message_at, ${fromMs('$2')})
  WHERE session_id = $1 AND closed_at IS NULL`;
const CLOSE_SESSION = `
  UPDATE session SET closed_at = ${fromMs('$2')}, close_code = $3, reason = left($4, 500)
  WHERE session_id = $1 AND closed_at IS NULL`;
/** Nobody saw them end: they are known to have lived until their last message, no longer. */
const CLOSE_ORPHANS = `
  UPDATE session SET closed_at = last_message_at, reason = 'the collector ended without closing it'
  WHERE closed_at IS NULL RETURNING session_id`;

export async function openSession(
  runner: Runner,
  stream: StreamRef,
  atMs: number,
): Promise<number> {
  const values = [stream.streamId, stream.marketId, atMs];
  const [row] = await runner.rows<{ session_id: string }>(OPEN_SESSION, values);
  return Number(row?.session_id);
}

export async function touchSession(runner: Runner, id: number, lastAtMs: number): Promise<void> {
  await runner.rows(TOUCH_SESSION, [id, lastAtMs]);
}

export async function closeSession(
  runner: Runner,
  id: number,
  { atMs, code, reason }: SessionClosing,
): Promise<void> {
  await runner.rows(CLOSE_SESSION, [id, atMs, code, reason]);
}

export async function closeOrphanSessions(runner: Runner): Promise<number> {
  return (await runner.rows(CLOSE_ORPHANS)).length;
}

const NEWEST_TRADES = `
  SELECT tid, ${toMs('traded_at')} AS traded_ms
  FROM trade WHERE market_id = $1 ORDER BY traded_at DESC, tid DESC LIMIT $2`;

export async function readNewestTrades(
  runner: Runner,
  marketId: number,
  count: number,
): Promise<TradeKey[]> {
  const rows = await runner.rows<{ tid: string; traded_ms: number }>(NEWEST_TRADES, [
    marketId,
    count,
  ]);
  return rows.map(({ tid, traded_ms }) => ({ tid: Number(tid), tradedAtS: traded_ms / 1_000 }));
}

const SECONDS_OF = (spans: string) => `
  (SELECT coalesce(sum(extract(epoch FROM upper(one) - lower(one))), 0)::float8
   FROM unnest(${spans}) AS one)`;

const STATUS_ROWS = `
  WITH covered AS (
    SELECT stream_id, range_agg(span) AS spans, min(lower(span)) AS oldest,
           max(upper(span)) AS newest, sum(row_count) AS row_count
    FROM coverage GROUP BY stream_id),
  unfillable AS (
    SELECT stream_id, range_agg(span) AS spans FROM gap WHERE state = 'unfillable'
    GROUP BY stream_id),
  seen AS (
    SELECT s.*, m.name, c.newest, c.row_count, coalesce(c.spans, '{}') AS spans,
           coalesce(u.spans, '{}') AS unfillable,
           coalesce(tstzmultirange(tstzrange(
             coalesce(s.collect_from, c.oldest),
             greatest(coalesce(s.collect_from, c.oldest), least(c.newest, ${fromMs('$1')})))), '{}')
           AS expected
    FROM stream s JOIN market m USING (market_id) LEFT JOIN covered c USING (stream_id)
      LEFT JOIN unfillable u USING (stream_id)),
  missed AS (
    SELECT seen.*, CASE WHEN collect_from IS NULL AND newest IS NULL THEN '{}'::tstzmultirange
                        ELSE expected - spans END AS missing
    FROM seen)
  SELECT stream_id AS "streamId", kind, market_id AS "marketId", name AS market, variant,
         coalesce(row_count, 0)::float8 AS rows, ${toMs('newest')} AS "newestCoveredMs",
         ${SECONDS_OF('spans')} AS "coveredS",
         (SELECT count(*) FROM unnest(missing))::int AS gaps,
         ${SECONDS_OF('missing')} AS "gapS",
         ${SECONDS_OF('missing * unfillable')} AS "unfillableS",
         (SELECT count(*) FROM unnest(missing - unfillable))::int AS "openGaps",
         ${toMs('collect_from')} AS "collectFromMs"
  FROM missed ORDER BY name, kind, variant`;

export async function readStatus(runner: Runner, untilMs: number): Promise<StreamStatus[]> {
  return await runner.rows<StreamStatus>(STATUS_ROWS, [untilMs]);
}
