import { hullOf, isEmptySpan, overlapOf, type Span, subtractSpans } from '../../kernel/span.js';
import type { CoveredRange, Evidence, StreamRef } from '../../model/batch.js';
import type { GapReason } from '../../model/gap-reasons.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { StoreError } from '../errors.js';
import { type RemovedRows, removedRows } from '../sealing/departed.js';
import { type Flat, fromMs, rangeSql, withSpan } from '../sql.js';
import { invalidateChecks } from '../verdicts/verdict-rows.js';
import { LOCK_MARKETS } from '../writer/transaction.js';
import { rememberGap } from './gap-memories.js';
import { coveredRangeSql } from './ledger.js';
import { type BeyondPresent, readBeyond } from './present.js';
import {
  observedCount,
  rowReader,
  shareByTime,
  shareCount,
  splitCounts,
} from './uncover-counts.js';

/**
 * Takes back what the ledger claims of a span. The rows stay: a claim can be suspect, a trade not.
 *
 * What has left the database is passed over: its rows were proven before they went, they cannot be
 * looked at here, and none could be added. It can be suspect again once it is restored.
 */

/** What the revoked span is remembered as. */
export interface Revocation {
  readonly reason: GapReason;
  readonly note: string;
  readonly atMs: number;
}

const TAKE_OVERLAPPING = `
  DELETE FROM coverage c WHERE market_id = $1 AND stream_id = $2
    AND span && ${rangeSql('$3', '$4')}
  RETURNING ${coveredRangeSql('c')}, evidence, updated_at::text AS "updatedAt"`;

/** What a covered range is left with keeps its evidence and its age. */
const INSERT_REST = `
  INSERT INTO coverage (market_id, stream_id, span, first_id, last_id, row_count, evidence, updated_at)
  VALUES ($1, $2, ${rangeSql('$3', '$4')}, $5, $6, $7, $8, $9::timestamptz)`;

/**
 * What was covered once stays expected: before collect_from, and where the expectation began with the
 * oldest covered instant, which may have just gone.
 */
const KEEP_EXPECTED = `
  INSERT INTO wanted (stream_id, market_id, span)
  SELECT s.stream_id, s.market_id, tstzrange(${fromMs('$3')}, least(s.collect_from, ${fromMs('$4')}))
  FROM stream s
  WHERE s.market_id = $1 AND s.stream_id = $2
    AND CASE WHEN s.collect_from IS NOT NULL THEN s.collect_from > ${fromMs('$3')}
             ELSE NOT EXISTS (
               SELECT FROM coverage c
               WHERE c.stream_id = s.stream_id AND lower(c.span) < ${fromMs('$3')}) END
  ON CONFLICT DO NOTHING`;

interface Taken extends CoveredRange {
  readonly evidence: Evidence;
  readonly updatedAt: string;
}

/**
 * Takes back coverage of a span and remembers it as an open gap, in one transaction.
 *
 * @returns what is left of the covered ranges that were cut, newest first
 * @throws {@link StoreError} `data_refused` for an empty span, and for a stream whose times cannot
 *   be fetched again; `partition_archived` or `partition_expired` when all of it has left the database,
 *   and when what is left of a covered range could not be counted without rows that have
 */
export async function revoke(
  database: Database,
  stream: StreamRef,
  span: Span,
  revocation: Revocation,
): Promise<CoveredRange[]> {
  if (isEmptySpan(span)) throw refused(stream, 'the span is empty');
  if (stream.kind !== 'trades' && stream.kind !== 'times' && stream.kind !== 'kline') {
    throw refused(stream, `what was seen of ${stream.kind} cannot be fetched again`);
  }
  return await database.transaction(async (runner) => {
    await runner.rows(LOCK_MARKETS, [[stream.marketId]]);
    const table = stream.kind === 'kline' ? 'kline' : 'trade';
    const removed = await removedRows(runner, table, stream.marketId);
    const parts = subtractSpans(
      span,
      removed.map((one) => one.span),
    );
    if (parts.length === 0) throw hasLeft(stream, removed, span);
    let rests: CoveredRange[] = [];
    for (const part of parts) {
      const cut = await takeBack(runner, stream, part, revocation, removed);
      rests = [...rests.filter((rest) => isEmptySpan(overlapOf(rest.span, part))), ...cut];
    }
    return rests.sort((a, b) => b.span.fromMs - a.span.fromMs);
  });
}

/**
 * Takes back coverage of a span inside the caller's transaction, who holds the lock of the market.
 *
 * @param span holds nothing that has left the database
 */
export async function takeBack(
  runner: Runner,
  stream: StreamRef,
  span: Span,
  { reason, note, atMs }: Revocation,
  removed: readonly RemovedRows[],
): Promise<CoveredRange[]> {
  const rests = await revokePart(runner, stream, span, removed);
  await invalidateChecks(runner, stream, span);
  await rememberGap(runner, stream, {
    ...{ span, state: 'open', reason, note, atMs, nextAttemptAtMs: null },
    ...{ isAttempt: false, uncoveredAtMs: atMs },
  });
  return rests;
}

const JUMP_NOTE = "the exchange's clock had shown a time that had not come";

/**
 * Takes back what every stream covers after an instant that has not come yet, each in a transaction of
 * its own, and remembers it as an open gap.
 *
 * @param isStart whether it was covered by an earlier run; see {@link readBeyond}
 */
export async function revokeBeyond(
  database: Database,
  presentMs: number,
  { isStart }: { readonly isStart: boolean },
): Promise<BeyondPresent[]> {
  const found = await readBeyond(database, presentMs, isStart);
  for (const { span, ...one } of found) {
    const stream = { ...one, collectFromMs: null };
    await database.transaction(async (runner) => {
      await runner.rows(LOCK_MARKETS, [[stream.marketId]]);
      // What lies in the future has not left the database.
      const revocation = { reason: 'clock jumped', note: JUMP_NOTE, atMs: presentMs } as const;
      await takeBack(runner, stream, span, revocation, []);
    });
  }
  return found;
}

/** @param span holds nothing that has left the database */
async function revokePart(
  runner: Runner,
  stream: StreamRef,
  span: Span,
  removed: readonly RemovedRows[],
): Promise<CoveredRange[]> {
  const key = [stream.marketId, stream.streamId];
  const rows = await runner.rows<Flat<Taken>>(TAKE_OVERLAPPING, [...key, span.fromMs, span.toMs]);
  const rests: CoveredRange[] = [];
  for (const { evidence, updatedAt, ...range } of rows.map(withSpan)) {
    for (const rest of await cutRange(runner, stream, range, span, removed)) {
      rests.push(rest);
      await runner.rows(INSERT_REST, [
        ...[...key, rest.span.fromMs, rest.span.toMs, rest.firstId, rest.lastId, rest.rowCount],
        ...[JSON.stringify(evidence), updatedAt],
      ]);
    }
  }
  if (rows.length > 0) {
    const cut = overlapOf(hullOf(rows), span);
    await runner.rows(KEEP_EXPECTED, [...key, cut.fromMs, cut.toMs]);
  }
  return rests;
}

async function cutRange(
  runner: Runner,
  stream: StreamRef,
  range: CoveredRange,
  span: Span,
  removed: readonly RemovedRows[],
): Promise<CoveredRange[]> {
  const left = { fromMs: range.span.fromMs, toMs: span.fromMs };
  const right = { fromMs: span.toMs, toMs: range.span.toMs };
  const pieces = { left, taken: overlapOf(range.span, span), right };
  const away = removed.filter((one) => !isEmptySpan(overlapOf(one.span, range.span)));
  const rows = rowReader(runner, stream, away);
  const isInstant = !['trades', 'times', 'kline'].includes(stream.kind);
  const counts = isInstant
    ? await observedCount(runner, stream, pieces, range)
    : stream.kind !== 'kline'
      ? await splitCounts(pieces, range, rows)
      : away.length > 0
        ? shareByTime(pieces, range)
        : await shareCount(pieces, range, rows);
  if (counts === undefined) throw hasLeft(stream, away, range.span);
  return [
    { span: left, ...counts.left },
    { span: right, ...counts.right },
  ]
    .filter((rest) => !isEmptySpan(rest.span))
    .map((rest) => ({ streamId: stream.streamId, ...rest }));
}

/** Why coverage of a span cannot be revoked whose rows have left. */
export function hasLeft(
  { kind, streamId }: StreamRef,
  removed: readonly RemovedRows[],
  span: Span,
): StoreError {
  const away = removed.filter((one) => !isEmptySpan(overlapOf(one.span, span)));
  const isArchived = away.some(({ state }) => state === 'archived');
  const [from, to] = [away.at(0)?.span.fromMs, away.at(-1)?.span.toMs].map((ms) =>
    new Date(ms ?? 0).toISOString(),
  );
  const [code, why] = isArchived
    ? ([
        'partition_archived',
        `rows from ${from} to ${to} are in files: bring them back with "tapekeep restore" first`,
      ] as const)
    : (['partition_expired', `rows from ${from} to ${to} are no longer kept`] as const);
  const text = `coverage of stream ${streamId} (${kind}) cannot be taken back: ${why}`;
  return new StoreError(code, 'skip', text);
}

function refused({ kind, streamId }: StreamRef, why: string): StoreError {
  return new StoreError(
    'data_refused',
    'skip',
    `coverage of stream ${streamId} (${kind}) cannot be taken back: ${why}`,
  );
}
