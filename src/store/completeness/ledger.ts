import type { Span } from '../../kernel/span.js';
import type { Island, StreamRef } from '../../ledger/batch.js';
import type { SessionClosing, TradeKey } from '../api.js';
import type { Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';

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

/** By the stream alone, as the index has it: a stream has one market. */
const NEWEST_ISLANDS = `
  SELECT stream_id, ${toMs('lower(span)')} AS from_ms, ${toMs('upper(span)')} AS to_ms,
         first_id, last_id, row_count
  FROM coverage WHERE stream_id = $1 ORDER BY lower(span) DESC LIMIT $2`;

export async function readIslands(
  runner: Runner,
  stream: StreamRef,
  limit: number,
): Promise<Island[]> {
  const values = [stream.streamId, limit];
  return (await runner.rows<CoverageRow>(NEWEST_ISLANDS, values)).map(toIsland);
}

const ISLANDS_WITHIN = `
  SELECT stream_id, ${toMs('lower(span)')} AS from_ms, ${toMs('upper(span)')} AS to_ms,
         first_id, last_id, row_count
  FROM coverage WHERE stream_id = $1
    AND lower(span) < ${fromMs('$3')} AND lower(span) >= coalesce((
      SELECT lower(c.span) FROM coverage c
      WHERE c.stream_id = $1 AND lower(c.span) <= ${fromMs('$2')}
      ORDER BY lower(c.span) DESC LIMIT 1), '-infinity')
    AND upper(span) > ${fromMs('$2')}
  ORDER BY lower(span) DESC LIMIT $4`;

/** Islands that overlap a span, newest first. */
export async function readIslandsWithin(
  runner: Runner,
  stream: StreamRef,
  { fromMs: from, toMs: to }: Span,
  limit: number,
): Promise<Island[]> {
  const values = [stream.streamId, from, to, limit];
  return (await runner.rows<CoverageRow>(ISLANDS_WITHIN, values)).map(toIsland);
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
