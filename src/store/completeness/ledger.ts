import type { Span } from '../../kernel/span.js';
import type { CoveredRange, StreamRef } from '../../model/batch.js';
import type { Runner } from '../connection.js';
import { boundsSql, type Flat, fromMs, withSpan } from '../sql.js';

/** Reading and writing the ledger outside the writer's transactions. */

export interface SessionClosing {
  readonly atMs: number;
  readonly code: number;
  readonly reason: string;
}

/**
 * SQL for the columns of a covered range, to be put together by {@link withSpan}. Ids and counts stay
 * below 2^53, because nothing larger is let in.
 *
 * @param c the row of coverage
 */
export const coveredRangeSql = (c: string) => `
  ${c}.stream_id AS "streamId", ${boundsSql(`${c}.span`)}, ${c}.first_id::float8 AS "firstId",
  ${c}.last_id::float8 AS "lastId", ${c}.row_count::float8 AS "rowCount"`;

/** How many rows, and which are the lowest and the highest of their trade ids. */
export type RowCount = Pick<CoveredRange, 'rowCount' | 'firstId' | 'lastId'>;

export const NO_ROWS: RowCount = { rowCount: 0, firstId: null, lastId: null };

export const least = (ids: readonly (number | null)[]) => furthest(ids, Math.min);
export const greatest = (ids: readonly (number | null)[]) => furthest(ids, Math.max);

function furthest(ids: readonly (number | null)[], choose: (a: number, b: number) => number) {
  const known = ids.filter((id) => id !== null);
  return known.length === 0 ? null : known.reduce((a, b) => choose(a, b));
}

/** What several counts of different rows come to. */
export function sumCounts(parts: readonly RowCount[]): RowCount {
  return {
    rowCount: parts.reduce((sum, { rowCount }) => sum + rowCount, 0),
    firstId: least(parts.map(({ firstId }) => firstId)),
    lastId: greatest(parts.map(({ lastId }) => lastId)),
  };
}

/** By the stream alone, as the index has it: a stream has one market. */
const NEWEST_RANGES = `
  SELECT ${coveredRangeSql('c')} FROM coverage c WHERE stream_id = $1 ORDER BY lower(span) DESC LIMIT $2`;

/** The newest `limit` covered ranges, newest first. */
export async function readCoveredRanges(
  runner: Runner,
  stream: StreamRef,
  limit: number,
): Promise<CoveredRange[]> {
  const values = [stream.streamId, limit];
  return (await runner.rows<Flat<CoveredRange>>(NEWEST_RANGES, values)).map(withSpan);
}

const RANGES_WITHIN = `
  SELECT ${coveredRangeSql('i')} FROM coverage i WHERE stream_id = $1
    AND lower(span) < ${fromMs('$3')} AND lower(span) >= coalesce((
      SELECT lower(c.span) FROM coverage c
      WHERE c.stream_id = $1 AND lower(c.span) <= ${fromMs('$2')}
      ORDER BY lower(c.span) DESC LIMIT 1), '-infinity')
    AND upper(span) > ${fromMs('$2')}
  ORDER BY lower(span) DESC LIMIT $4`;

/** Covered ranges that overlap a span, newest first; at most `limit`. */
export async function readRangesWithin(
  runner: Runner,
  stream: StreamRef,
  { fromMs: from, toMs: to }: Span,
  limit: number,
): Promise<CoveredRange[]> {
  const values = [stream.streamId, from, to, limit];
  return (await runner.rows<Flat<CoveredRange>>(RANGES_WITHIN, values)).map(withSpan);
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
/** Their end was not seen: they are known to have lived until their last message, no longer. */
const CLOSE_ORPHANS = `
  UPDATE session SET closed_at = last_message_at, reason = 'the collector ended without closing it'
  WHERE closed_at IS NULL RETURNING session_id`;

/** Opens a session and returns its id. */
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

/** Closes, at their last message, sessions that a crash left open. Returns how many. */
export async function closeOrphanSessions(runner: Runner): Promise<number> {
  return (await runner.rows(CLOSE_ORPHANS)).length;
}
