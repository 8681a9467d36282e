import { DAY_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { Condition, CountedPiece } from '../../model/day-conditions.js';
import type { StreamKind } from '../../model/series.js';
import type { Runner } from '../connection.js';
import { fromMs, rangeSql } from '../sql.js';
import type { NamedStream, StreamPlace } from './ledger.js';

/** Conditions of days, and what they come from, of many streams at once. */

/** Streams that are asked about; what is left out selects all. */
export interface StreamChoice {
  readonly marketIds?: readonly number[] | undefined;
  readonly kind?: StreamKind | undefined;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variant?: number | undefined;
}

/** A stream by its names alone. */
export interface StreamName extends NamedStream {
  readonly isListed: boolean;
}

const NAMES = `
  SELECT s.stream_id AS "streamId", s.kind, s.market_id AS "marketId", m.name AS market, s.variant,
         m.delisted_at IS NULL AS "isListed"
  FROM stream s JOIN market m USING (market_id)
  WHERE $1::text[] IS NULL OR s.kind = ANY ($1) ORDER BY m.name, s.kind, s.variant`;

/** Reads the streams of some kinds, or all, by market, kind and variant. */
export async function readStreamNames(
  runner: Runner,
  kinds?: readonly StreamKind[],
): Promise<StreamName[]> {
  return await runner.rows<StreamName>(NAMES, [kinds ?? null]);
}

/** Expected time of a stream, or a candle in it that contradicts the trades. */
export interface StreamPiece {
  readonly streamId: number;
  readonly state: CountedPiece['state'] | 'mismatch';
  readonly fromMs: number;
  readonly toMs: number;
}

/** Milliseconds of a timestamp by floats alone, exact to the microsecond: there are tens of thousands of them (SQL). */
const quickMs = (at: string) => `round(date_part('epoch', ${at}) * 1e6) / 1e3`;

/** Columns have the names of the program, so that no row has to be made again. */
const PIECES = `
  SELECT stream_id AS "streamId", state, ${quickMs('starts_at')} AS "fromMs", ${quickMs('ends_at')} AS "toMs"
  FROM analytics.pieces(${fromMs('$1')}, ${fromMs('$2')}, $3::int[], $4, $5::int, ${fromMs('$6')})
  WHERE state IN ('covered', 'open', 'unfillable', 'mismatch')`;

/**
 * Reads what is expected in a time range, cut to it. The pieces of a stream come in any order.
 *
 * @param nowMs exchange time
 */
export async function readStreamPieces(
  runner: Runner,
  { marketIds, kind, variant }: StreamChoice,
  span: Span,
  nowMs: number,
): Promise<StreamPiece[]> {
  const choice = [marketIds ?? null, kind ?? null, variant ?? null];
  return await runner.rows<StreamPiece>(PIECES, [span.fromMs, span.toMs, ...choice, nowMs]);
}

/** Condition of a day of a stream. */
export interface StreamDay extends Pick<NamedStream, 'market' | 'kind' | 'variant'> {
  /** `2026-01-31` */
  readonly day: string;
  readonly condition: Condition;
  readonly expectedS: number;
  readonly coveredS: number;
  readonly openS: number;
  readonly unfillableS: number;
  readonly mismatches: number;
  /** Newest change that the ledger knows. */
  readonly changedAtMs: number | null;
  readonly rows: number;
}

const DAYS = `
  SELECT market, kind, variant, day::text, condition, expected_s::float8, covered_s::float8, open_s::float8,
         unfillable_s::float8, mismatches, changed_at, rows
  FROM analytics.day_conditions($1::date, $2::date, $3, $4, ${fromMs('$5')})
  ORDER BY market, kind, variant, day`;

/**
 * Reads the conditions of days, by market, kind, variant and day. A day of which nothing is expected has none.
 *
 * @param span whole days
 * @param market by its name; left out: all
 */
export async function readDays(
  runner: Runner,
  { market, kind }: { readonly market?: string; readonly kind?: StreamKind },
  span: Span,
  nowMs: number,
): Promise<StreamDay[]> {
  const [first, last] = [span.fromMs, span.toMs - DAY_MS].map((ms) => isoMs(ms).slice(0, 10));
  const values = [first, last, market ?? null, kind ?? null, nowMs];
  return await runner.rows<StreamDay>(DAYS, values as string[]);
}

const LAST_COVERED = `
  SELECT s.stream_id, (SELECT upper(c.span) FROM coverage c
                       WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
                       ORDER BY lower(c.span) DESC LIMIT 1) AS at
  FROM stream s WHERE s.stream_id = ANY ($1::int[])`;

/** Reads where coverage of streams ends, by id; without those of which nothing is covered. */
export async function readCoveredUntil(
  runner: Runner,
  streamIds: readonly number[],
): Promise<Map<number, number>> {
  const rows = await runner.rows<{ streamId: number; atMs: number | null }>(LAST_COVERED, [
    streamIds,
  ]);
  return new Map(rows.flatMap(({ streamId, atMs }) => (atMs === null ? [] : [[streamId, atMs]])));
}

/** A connection of the real-time interface, in exchange time. */
export interface SessionTime {
  readonly connectedAtMs: number;
  /** Null while it is open. */
  readonly closedAtMs: number | null;
  readonly closeCode: number | null;
  readonly reason: string | null;
}

/** Most connections that are listed of a time range: a stream that cannot stay connected has thousands. */
const SESSIONS_MAX = 500;

const SESSIONS = `
  SELECT connected_at, closed_at, close_code, reason FROM session
  WHERE market_id = $1 AND stream_id = $2 AND connected_at < ${fromMs('$4')}
    AND coalesce(closed_at, 'infinity') > ${fromMs('$3')}
  ORDER BY connected_at DESC LIMIT ${SESSIONS_MAX}`;

/** Reads the connections of a stream in a time range, the newest first; no more than 500. */
export async function readSessions(
  runner: Runner,
  { marketId, streamId }: StreamPlace,
  span: Span,
): Promise<SessionTime[]> {
  return await runner.rows<SessionTime>(SESSIONS, [marketId, streamId, span.fromMs, span.toMs]);
}

/** Candles of a market by what holding the trades against them gave. */
export interface CheckCount {
  readonly marketId: number;
  readonly intervalS: number;
  readonly verified: number;
  readonly mismatches: number;
}

const CHECKS = `
  SELECT v.market_id, v.interval_s,
         coalesce(sum(p.seconds / v.interval_s) FILTER (WHERE v.outcome = 'match'), 0)::float8 AS verified,
         count(*) FILTER (WHERE v.outcome = 'mismatch')::float8 AS mismatches
  FROM candle_check v, LATERAL (
    SELECT extract(epoch FROM least(upper(v.span), ${fromMs('$3')}) - greatest(lower(v.span), ${fromMs('$2')})) AS seconds) p
  WHERE ($1::int IS NULL OR v.market_id = $1) AND v.span && ${rangeSql('$2', '$3')}
  GROUP BY v.market_id, v.interval_s ORDER BY v.market_id, v.interval_s`;

/** Counts the check results of a time range, of one market or of all. */
export async function readCheckCounts(
  runner: Runner,
  span: Span,
  marketId?: number,
): Promise<CheckCount[]> {
  return await runner.rows<CheckCount>(CHECKS, [marketId ?? null, span.fromMs, span.toMs]);
}
