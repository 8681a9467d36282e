import { SECOND_MS } from '../../kernel/durations.js';
import { hullOf, isEmptySpan, overlapOf, type Span, subtractSpans } from '../../kernel/span.js';
import type {
  Batch,
  CommitResult,
  CoveredRange,
  Evidence,
  Revocation,
  StreamRef,
  TradeExposure,
} from '../../model/batch.js';
import {
  MOMENT_STREAMS,
  type SeriesTable,
  STREAM_KINDS,
  tableOfStream,
} from '../../model/series.js';
import { invalidateChecks } from '../checks/results.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { entriesOfChanges, type StreamChange } from '../journal.js';
import { LOCK_MARKETS, LOCK_WRITERS } from '../locks.js';
import { removedSpans } from '../schema/partitions.js';
import { fromMs, rangeSql } from '../sql.js';
import { forgetBeyond, rememberGap } from './gaps.js';
import {
  type BeyondPresent,
  coveredRangeSql,
  type NamedStream,
  readBeyond,
  streamRefSql,
} from './ledger.js';

/**
 * Revokes coverage, and moves rows that never were trades to quarantine. All of it runs inside the caller's transaction,
 * who holds the lock of the market.
 *
 * Time whose rows have left the database stays covered: its rows were checked before they went, they cannot be
 * looked at here, and none could be added. It can be suspect again once it is restored.
 */

const TAKE_OVERLAPPING = `
  DELETE FROM coverage c WHERE market_id = $1 AND stream_id = $2
    AND span && ${rangeSql('$3', '$4')}
  RETURNING ${coveredRangeSql('c')}, evidence, updated_at::text`;

/** What a covered range is left with keeps its evidence and its age. */
const INSERT_REST = `
  INSERT INTO coverage (market_id, stream_id, span, evidence, updated_at)
  VALUES ($1, $2, ${rangeSql('$3', '$4')}, $5, $6::timestamptz)`;

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

/** Revokes coverage of a span and remembers the span as a gap. @returns changes for the journal */
async function revoke(runner: Runner, revocation: Revocation): Promise<StreamChange[]> {
  const { stream, span, reason, note, atMs } = revocation;
  if (isEmptySpan(span)) return [];
  const gone = await removedSpans(runner, tableOfStream(stream.kind));
  // Live observations cannot be fetched again.
  const state = MOMENT_STREAMS.has(stream.kind) ? 'unfillable' : 'open';
  const parts = subtractSpans(span, gone);
  for (const part of parts) {
    await cutCoverage(runner, stream, part);
    await invalidateChecks(runner, stream, part);
    await rememberGap(runner, stream, {
      ...{ span: part, state, reason, note, atMs, nextAttemptAtMs: null },
      ...{ isAttempt: false, revokedAtMs: atMs },
    });
  }
  const { kind, marketId, variant } = stream;
  return parts.map((part) => ({ change: 'revoked', kind, marketId, variant, span: part }));
}

async function cutCoverage(runner: Runner, stream: StreamRef, span: Span): Promise<void> {
  const key = [stream.marketId, stream.streamId];
  const rows = await runner.rows<Taken>(TAKE_OVERLAPPING, [...key, span.fromMs, span.toMs]);
  if (rows.length === 0) return;
  for (const { evidence, updatedAt, span: whole } of rows) {
    for (const rest of subtractSpans(whole, [span])) {
      const values = [rest.fromMs, rest.toMs, JSON.stringify(evidence), updatedAt];
      await runner.rows(INSERT_REST, [...key, ...values]);
    }
  }
  const cut = overlapOf(hullOf(rows.map((row) => row.span)), span);
  await runner.rows(KEEP_EXPECTED, [...key, cut.fromMs, cut.toMs]);
}

const STREAMS_OF_KINDS = `
  SELECT ${streamRefSql('stream')} FROM stream
  WHERE kind = ANY ($1::text[]) AND ($2::int IS NULL OR market_id = $2) ORDER BY market_id, stream_id`;

async function streamsOf(
  runner: Runner,
  table: SeriesTable,
  marketId: number | null,
): Promise<StreamRef[]> {
  const kinds = STREAM_KINDS.filter((kind) => tableOfStream(kind) === table);
  return await runner.rows<StreamRef>(STREAMS_OF_KINDS, [kinds, marketId]);
}

const EXPOSE = `
  SELECT at_ms, expose_trade($1, ${fromMs('at_ms')}, tid, $4) AS is_exposed
  FROM unnest($2::float8[], $3::bigint[]) AS given(at_ms, tid)`;
/** Reason under which expose_trade counts them. */
export const EXPOSED = 'exposed by later answers';

/**
 * Moves rows that never were trades to quarantine, and revokes the coverage around them.
 *
 * @returns changes for the journal
 */
async function expose(runner: Runner, exposure: TradeExposure): Promise<StreamChange[]> {
  const { marketId, span, note, atMs } = exposure;
  const gone = await removedSpans(runner, 'trade');
  const seconds = exposure.rows.map(({ tradedAtS }) => ({
    fromMs: tradedAtS * SECOND_MS,
    toMs: (tradedAtS + 1) * SECOND_MS,
  }));
  // No row may leave a second that is still covered.
  const hull = hullOf([span, ...seconds]);
  const changes: StreamChange[] = [];
  for (const stream of await streamsOf(runner, 'trade', marketId)) {
    changes.push(...(await revoke(runner, { stream, span: hull, reason: 'suspect', note, atMs })));
  }
  const rows = exposure.rows.filter((_, at) => {
    const second = seconds[at];
    return second !== undefined && subtractSpans(second, gone).length > 0;
  });
  const secondsMs = rows.map(({ tradedAtS }) => tradedAtS * SECOND_MS);
  const ids = rows.map(({ tid }) => tid);
  const values = [marketId, secondsMs, ids, `${EXPOSED}: ${note}`];
  const done = await runner.rows<{ atMs: number; isExposed: boolean }>(EXPOSE, values);
  const exposed = done.filter(({ isExposed }) => isExposed);
  return [
    ...changes,
    ...exposed.map(({ atMs: fromMs }): StreamChange => {
      const second = { fromMs, toMs: fromMs + SECOND_MS };
      return { change: 'exposed', kind: 'trades', marketId, variant: 0, span: second };
    }),
  ];
}

/**
 * Applies the revocations and exposures of batches.
 *
 * @returns changes for the journal, which the caller adds at the end of its transaction
 */
export async function revokeAll(
  runner: Runner,
  batches: readonly Batch[],
): Promise<StreamChange[]> {
  const changes: StreamChange[] = [];
  for (const one of batches.flatMap(({ revoke: all }) => all ?? [])) {
    changes.push(...(await revoke(runner, one)));
  }
  for (const one of batches.flatMap(({ expose: all }) => all ?? [])) {
    changes.push(...(await expose(runner, one)));
  }
  return changes;
}

const JUMP_NOTE = "the exchange's clock had shown a time that had not come";

/**
 * Revokes what every stream covers after an instant that has not come yet. What was not observed after the present is
 * forgotten.
 *
 * @param commit commits revocations by the writer
 * @param untilMs first instant that has not come yet, by the most cautious of the sources of time
 * @param presentMs the same by the source in use; that one, where it is left out
 * @param isStart whether it was covered by an earlier run; see {@link readBeyond}
 * @param isOwn says which streams are those of the caller
 */
export async function revokeBeyond(
  database: Database,
  commit: (batch: Batch) => Promise<CommitResult>,
  untilMs: number,
  { isStart, presentMs = untilMs }: { readonly isStart: boolean; readonly presentMs?: number },
  isOwn: (stream: NamedStream) => boolean,
): Promise<BeyondPresent[]> {
  await forgetBeyond(database, presentMs, isStart);
  const found = (await readBeyond(database, untilMs, isStart)).filter(isOwn);
  const revocation = { reason: 'clock jumped', note: JUMP_NOTE, atMs: untilMs } as const;
  const all = found.map(({ span, market: _, ...one }): Revocation => {
    return { stream: { ...one, collectFromMs: null }, span, ...revocation };
  });
  if (all.length > 0) await commit({ revoke: all });
  return found;
}

/** A partition whose rows the ledger counts on, and that is not there. */
interface RemovedPartition {
  readonly tableName: SeriesTable;
  readonly name: string;
  readonly span: Span;
}

const FIND_REMOVED = `
  SELECT p.table_name, place.name, p.span
  FROM partition_state p, partition_at(p.table_name, lower(p.span)) AS place
  WHERE p.state IN ('hot', 'sealed') AND NOT EXISTS (
    SELECT FROM pg_inherits i
    WHERE i.inhparent = to_regclass(p.table_name) AND i.inhrelid = to_regclass(place.name))
  ORDER BY p.table_name, p.span`;
const REPLACE_PARTITION = `SELECT replace_partition($1, ${fromMs('$2')})`;

/**
 * Revokes what was covered by partitions that somebody dropped or detached by hand, and makes them again, empty.
 * Trades and candles are then fetched again; the rest stays a gap.
 *
 * @param atMs exchange time
 * @returns their names
 */
export async function replaceRemovedPartitions(
  database: Database,
  atMs: number,
): Promise<string[]> {
  const found = await database.rows<RemovedPartition>(FIND_REMOVED);
  for (const { tableName, name, span } of found) {
    await database.transaction(async (runner) => {
      const streams = await streamsOf(runner, tableName, null);
      // In the order of the writer.
      await runner.rows(LOCK_WRITERS);
      await runner.rows(LOCK_MARKETS, [[...new Set(streams.map(({ marketId }) => marketId))]]);
      const note = `the partition ${name} was dropped or detached`;
      const changes: StreamChange[] = [];
      for (const stream of streams) {
        changes.push(...(await revoke(runner, { stream, span, reason: 'suspect', note, atMs })));
      }
      for (const [{ sql }, values] of entriesOfChanges(changes)) await runner.rows(sql, values);
      await runner.rows(REPLACE_PARTITION, [tableName, span.fromMs]);
    });
  }
  return found.map(({ name }) => name);
}
