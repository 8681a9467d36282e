import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import { type GapFinding, type GapMemory, placeFinding } from '../../model/gap-memories.js';
import type { GapReason } from '../../model/gap-reasons.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { lockRowsSql } from '../locks.js';
import { boundsSql, type Flat, fromMs, rangeSql, toMs, withSpan } from '../sql.js';

/** What the ledger remembers of gaps: one row a memory, those of a stream apart from each other. */

export const GAP_STATES = ['open', 'filling', 'filled', 'unfillable'] as const;

export type GapState = (typeof GAP_STATES)[number];

/** A remembered gap, as `Store.recordedGaps` returns it. */
export interface RecordedGap {
  readonly gapId: number;
  readonly streamId: number;
  readonly marketId: number;
  readonly span: Span;
  readonly state: GapState;
  readonly reason: string;
  readonly note: string | null;
  readonly firstSeenAtMs: number;
  readonly attempts: number;
  readonly nextAttemptAtMs: number | null;
}

/** What happened to a gap. It takes the place of what was remembered of its span; of memories that
 *  reach beyond it the rest stays. */
export interface GapRecord {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly state: GapState;
  readonly reason: GapReason;
  readonly note?: string;
  /** When it was seen; exchange time. */
  readonly atMs: number;
  readonly nextAttemptAtMs?: number | null;
}

/** What one try at filling a gap came to. */
export interface GapAttempt {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly state: 'open' | 'unfillable';
  readonly reason: GapReason;
  /** What was found, in words. */
  readonly note?: string;
  /** Exchange time. */
  readonly atMs: number;
  /** Exchange time; null: as soon as possible, or never for what is unfillable. */
  readonly nextAttemptAtMs: number | null;
}

/** A process that changes memories of a market holds this until COMMIT; taken in the order of the ids. */
const LOCK_GAPS = lockRowsSql('gaps', '$1::int[]');

export async function lockGaps(runner: Runner, marketIds: Iterable<number>): Promise<void> {
  const sorted = [...new Set(marketIds)].sort((a, b) => a - b);
  if (sorted.length > 0) await runner.rows(LOCK_GAPS, [sorted]);
}

const READ_OVERLAPPING = `
  SELECT gap_id::float8 AS "gapId", ${boundsSql('span')}, state, reason, note, remarks,
         ${toMs('first_seen_at')} AS "firstSeenAtMs", attempts,
         ${toMs('next_attempt_at')} AS "nextAttemptAtMs", ${toMs('closed_at')} AS "closedAtMs",
         ${toMs('uncovered_at')} AS "uncoveredAtMs"
  FROM gap WHERE market_id = $1 AND stream_id = $2 AND state <> 'filled'
    AND span && ${rangeSql('$3', '$4')}
  ORDER BY lower(span) FOR UPDATE`;

const REMOVE = 'DELETE FROM gap WHERE market_id = $1 AND gap_id = ANY ($2::bigint[])';

const INSERT = `
  INSERT INTO gap (market_id, stream_id, span, state, reason, note, remarks, first_seen_at,
                   attempts, next_attempt_at, closed_at, uncovered_at)
  VALUES ($1, $2, ${rangeSql('$3', '$4')}, $5, $6, $7, $8, ${fromMs('$9')}, $10,
          ${fromMs('$11')}, ${fromMs('$12')}, ${fromMs('$13')})`;

const UPDATE = `
  UPDATE gap SET span = ${rangeSql('$3', '$4')}, state = $5, reason = $6,
    note = $7, remarks = $8, first_seen_at = ${fromMs('$9')}, attempts = $10,
    next_attempt_at = ${fromMs('$11')}, closed_at = ${fromMs('$12')},
    uncovered_at = ${fromMs('$13')}
  WHERE market_id = $1 AND stream_id = $2 AND gap_id = $14`;

/** Places a finding among the memories of its stream. Runs inside the caller's transaction. */
export async function rememberGap(
  runner: Runner,
  { streamId, marketId }: Pick<StreamRef, 'streamId' | 'marketId'>,
  finding: GapFinding,
): Promise<void> {
  await lockGaps(runner, [marketId]);
  const { fromMs: from, toMs: to } = finding.span;
  const rows = await runner.rows<Flat<GapMemory>>(READ_OVERLAPPING, [marketId, streamId, from, to]);
  const held = rows.map(withSpan);
  const { removed, kept } = placeFinding(held, finding);
  if (removed.length > 0) await runner.rows(REMOVE, [marketId, removed]);
  for (const memory of kept) {
    const values = [
      ...[marketId, streamId, memory.span.fromMs, memory.span.toMs],
      ...[memory.state, memory.reason, memory.note, memory.remarks, memory.firstSeenAtMs],
      ...[memory.attempts, memory.nextAttemptAtMs, memory.closedAtMs, memory.uncoveredAtMs],
    ];
    if (memory.gapId === null) await runner.rows(INSERT, values);
    else await runner.rows(UPDATE, [...values, memory.gapId]);
  }
}

/** Remembers what happened to a gap. */
export async function recordGap(database: Database, gap: GapRecord): Promise<void> {
  const finding = {
    span: gap.span,
    state: gap.state,
    reason: gap.reason,
    note: gap.note ?? null,
    atMs: gap.atMs,
    nextAttemptAtMs: gap.nextAttemptAtMs ?? null,
    isAttempt: gap.state === 'filling',
    // A new suspect span is to be acted upon, whatever was done about an earlier one.
    ...(gap.reason === 'suspect' ? { uncoveredAtMs: null } : {}),
  };
  await database.transaction((runner) => rememberGap(runner, gap.stream, finding));
}

/**
 * Remembers a try at a gap: counts it and sets state, reason and next try. One memory per stream
 * and start of span, as {@link recordGap}.
 */
export async function recordAttempt(database: Database, attempt: GapAttempt): Promise<void> {
  const { stream, note = null, ...rest } = attempt;
  const isSuspect = rest.reason === 'suspect' && rest.state === 'open';
  // As in recordGap: coverage is to be taken back once more, even while the last memory is open.
  const finding = { ...rest, note, isAttempt: true, ...(isSuspect ? { uncoveredAtMs: null } : {}) };
  await database.transaction((runner) => rememberGap(runner, stream, finding));
}

/**
 * Closes what one covered range holds by now, also what was given up; a suspect only after its coverage was taken back.
 * Rows that another process works on are left to the next time.
 */
const CLOSE_FILLED_GAPS = `
  WITH filled AS (
    SELECT g.gap_id, g.market_id FROM gap g
    WHERE g.state IN ('open', 'filling', 'unfillable')
      AND NOT (g.state = 'open' AND g.reason = 'suspect' AND g.uncovered_at IS NULL)
      AND EXISTS (SELECT FROM coverage c WHERE c.market_id = g.market_id
                    AND c.stream_id = g.stream_id AND c.span @> g.span)
    FOR UPDATE SKIP LOCKED)
  UPDATE gap SET state = 'filled', closed_at = now() FROM filled f
  WHERE gap.gap_id = f.gap_id AND gap.market_id = f.market_id
  RETURNING gap.gap_id`;

/**
 * Marks remembered gaps that coverage holds by now as filled; suspects only once they were
 * revoked. Returns how many.
 */
export async function closeFilledGaps(runner: Runner): Promise<number> {
  return (await runner.rows(CLOSE_FILLED_GAPS)).length;
}

/** What the last try found, and what people wrote. */
export const NOTES = `nullif(concat_ws(E'\\n', g.note, g.remarks), '')`;

const RECORDED_GAPS = `
  SELECT gap_id::float8 AS "gapId", stream_id AS "streamId", market_id AS "marketId",
         ${boundsSql('span')}, state, reason,
         ${NOTES} AS note, ${toMs('first_seen_at')} AS "firstSeenAtMs", attempts,
         ${toMs('next_attempt_at')} AS "nextAttemptAtMs"
  FROM gap g WHERE stream_id = $1 ORDER BY lower(span) DESC, gap_id DESC LIMIT $2`;

/** Remembered gaps of a stream, newest first, at most `limit`. */
export async function readRecordedGaps(
  runner: Runner,
  stream: StreamRef,
  limit: number,
): Promise<RecordedGap[]> {
  const values = [stream.streamId, limit];
  const rows = await runner.rows<Flat<RecordedGap>>(RECORDED_GAPS, values);
  return rows.map(withSpan);
}
