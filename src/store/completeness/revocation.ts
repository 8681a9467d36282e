import { DAY_MS } from '../../kernel/durations.js';
import {
  doOverlap,
  holdsSpan,
  hullOf,
  isEmptySpan,
  overlapOf,
  type Span,
  spanLengthMs,
  subtractSpans,
} from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { CoveredRange, Evidence, StreamRef } from '../../model/batch.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { timeColumnOf } from '../../model/kinds.js';
import {
  MOMENT_STREAMS,
  type SeriesTable,
  STREAM_KINDS,
  type StreamKind,
  seriesOf,
  tableOfStream,
} from '../../model/series.js';
import { invalidateChecks } from '../checks/results.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { StoreError } from '../errors.js';
import { LOCK_MARKETS } from '../locks.js';
import { type RemovedRows, removedRows } from '../schema/partitions.js';
import { fromMs, rangeSql } from '../sql.js';
import { forgetBeyond, rememberGap } from './gaps.js';
import {
  type BeyondPresent,
  coveredRangeSql,
  greatest,
  least,
  NO_ROWS,
  type RowCount,
  readBeyond,
  streamRefSql,
  sumCounts,
} from './ledger.js';

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
  RETURNING ${coveredRangeSql('c')}, evidence, updated_at::text`;

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
  if (MOMENT_STREAMS.has(stream.kind)) {
    throw refused(stream, `what was seen of ${stream.kind} cannot be fetched again`);
  }
  return await database.transaction(async (runner) => {
    await runner.rows(LOCK_MARKETS, [[stream.marketId]]);
    const removed = await removedRows(runner, tableOfStream(stream.kind), stream.marketId);
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
  // What can be seen at its time alone is not had again.
  const state = MOMENT_STREAMS.has(stream.kind) ? 'unfillable' : 'open';
  await rememberGap(runner, stream, {
    ...{ span, state, reason, note, atMs, nextAttemptAtMs: null },
    ...{ isAttempt: false, revokedAtMs: atMs },
  });
  return rests;
}

const JUMP_NOTE = "the exchange's clock had shown a time that had not come";

/**
 * Takes back what every stream covers after an instant that has not come yet, each in a transaction of
 * its own, and remembers it as an open gap. What was not observed after the present is forgotten.
 *
 * @param untilMs first instant that has not come yet, by the most cautious of the sources of time
 * @param presentMs the same by the source in use; that one, where it is left out
 * @param isStart whether it was covered by an earlier run; see {@link readBeyond}
 */
export async function revokeBeyond(
  database: Database,
  untilMs: number,
  { isStart, presentMs = untilMs }: { readonly isStart: boolean; readonly presentMs?: number },
): Promise<BeyondPresent[]> {
  await forgetBeyond(database, presentMs, isStart);
  const found = await readBeyond(database, untilMs, isStart);
  for (const { span, ...one } of found) {
    const stream = { ...one, collectFromMs: null };
    await database.transaction(async (runner) => {
      await runner.rows(LOCK_MARKETS, [[stream.marketId]]);
      // What lies in the future has not left the database.
      const revocation = { reason: 'clock jumped', note: JUMP_NOTE, atMs: untilMs } as const;
      await takeBack(runner, stream, span, revocation, []);
    });
  }
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
const STREAMS_OF_KINDS = `
  SELECT ${streamRefSql('stream')} FROM stream WHERE kind = ANY ($1::text[]) ORDER BY market_id, stream_id`;
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
      const kinds = STREAM_KINDS.filter((kind) => tableOfStream(kind) === tableName);
      const streams = await runner.rows<StreamRef>(STREAMS_OF_KINDS, [kinds]);
      await runner.rows(LOCK_MARKETS, [[...new Set(streams.map(({ marketId }) => marketId))]]);
      const note = `the partition ${name} was dropped or detached`;
      for (const stream of streams) {
        const removed = await removedRows(runner, tableName, stream.marketId);
        await takeBack(runner, stream, span, { reason: 'suspect', note, atMs }, removed);
      }
      await runner.rows(REPLACE_PARTITION, [tableName, span.fromMs]);
    });
  }
  return found.map(({ name }) => name);
}

/** @param span holds nothing that has left the database */
async function revokePart(
  runner: Runner,
  stream: StreamRef,
  span: Span,
  removed: readonly RemovedRows[],
): Promise<CoveredRange[]> {
  const key = [stream.marketId, stream.streamId];
  const rows = await runner.rows<Taken>(TAKE_OVERLAPPING, [...key, span.fromMs, span.toMs]);
  const rests: CoveredRange[] = [];
  for (const { evidence, updatedAt, ...range } of rows) {
    for (const rest of await cutRange(runner, stream, range, span, removed)) {
      rests.push(rest);
      await runner.rows(INSERT_REST, [
        ...[...key, rest.span.fromMs, rest.span.toMs, rest.firstId, rest.lastId, rest.rowCount],
        ...[JSON.stringify(evidence), updatedAt],
      ]);
    }
  }
  if (rows.length > 0) {
    const cut = overlapOf(hullOf(rows.map((row) => row.span)), span);
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
  const away = removed.filter((one) => doOverlap(one.span, range.span));
  const rows = rowReader(runner, stream, away);
  const counts =
    stream.kind === 'trades' || stream.kind === 'times'
      ? await splitCounts(pieces, range, rows)
      : await shareCounts(pieces, range, rows);
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
  const away = removed.filter((one) => doOverlap(one.span, span));
  const isArchived = away.some(({ state }) => state === 'archived');
  const [from, to] = [away.at(0)?.span.fromMs, away.at(-1)?.span.toMs].map((ms) => isoMs(ms ?? 0));
  const [code, why] = isArchived
    ? ([
        'partition_archived',
        `rows from ${from} to ${to} are in files: bring them back with "tapekeep restore" first`,
      ] as const)
    : (['partition_expired', `rows from ${from} to ${to} are no longer kept`] as const);
  const text = `coverage of stream ${streamId} (${kind}) cannot be taken back: ${why}`;
  return new StoreError(code, text, { action: 'skip' });
}

function refused({ kind, streamId }: StreamRef, why: string): StoreError {
  return new StoreError(
    'data_refused',
    `coverage of stream ${streamId} (${kind}) cannot be taken back: ${why}`,
  );
}

/**
 * Counts of what is left of a covered range that was cut. Of its pieces the longest is not counted:
 * its rows are those of the covered range less those of the others. So a recent span is cheap to take
 * out of a covered range of years.
 */

interface Pieces {
  readonly left: Span;
  readonly taken: Span;
  readonly right: Span;
}

type RowReader = ReturnType<typeof rowReader>;

/** What is left on both sides; of one that is empty nothing is kept. */
interface Sides {
  readonly left: RowCount;
  readonly right: RowCount;
}

const withoutIds = (left: number, right: number): Sides => ({
  left: { ...NO_ROWS, rowCount: left },
  right: { ...NO_ROWS, rowCount: right },
});

/**
 * Counts of the pieces to the left and right of what is taken out of a covered range of trades or
 * times. Undefined when it takes rows that are in files: then the partitions at both ends of the
 * covered range have left, and hold rows of its neighbours as well.
 */
async function splitCounts(
  { left, taken, right }: Pieces,
  range: CoveredRange,
  rows: RowReader,
): Promise<Sides | undefined> {
  const count = (span: Span) => (isEmptySpan(span) ? Promise.resolve(NO_ROWS) : rows.count(span));
  const unknown = [left, right].filter((span) => !isEmptySpan(span) && !rows.canCount(span));
  if (unknown.length > 1) return undefined;
  const longestMs = Math.max(...[left, taken, right].map(spanLengthMs));
  if (unknown.length === 0 && spanLengthMs(taken) === longestMs) {
    return { left: await count(left), right: await count(right) };
  }
  const isLeftLong = unknown.length === 0 ? spanLengthMs(left) === longestMs : unknown[0] === left;
  const [long, short] = isLeftLong ? [left, right] : [right, left];
  const gone = await count(taken);
  const counted = await count(short);
  const rest = await restOf(long, isLeftLong ? 'newest' : 'oldest', range, [gone, counted], rows);
  if (rest === undefined) return undefined;
  return isLeftLong ? { left: rest, right: counted } : { left: counted, right: rest };
}

/**
 * The long piece: the covered range less the others. Its inner edge is the id of the row there,
 * because ids grow with time; where the neighbouring ids show that they do not, it is counted after
 * all.
 */
async function restOf(
  span: Span,
  innerEdge: 'oldest' | 'newest',
  range: CoveredRange,
  others: readonly RowCount[],
  rows: RowReader,
): Promise<RowCount | undefined> {
  const rowCount = others.reduce((left, other) => left - other.rowCount, range.rowCount);
  if (rowCount === 0) return NO_ROWS;
  const innerId = await rows.edgeId(span, innerEdge);
  const isInOrder = others.every(
    ({ firstId, lastId }) =>
      innerId !== null &&
      (innerEdge === 'newest' ? (firstId ?? Infinity) > innerId : (lastId ?? 0) < innerId),
  );
  // And where ids began anew in it, the furthest one is neither there nor among the others.
  const edgeIds = others.map((one) => (innerEdge === 'newest' ? one.lastId : one.firstId));
  const isFurthest =
    innerEdge === 'newest'
      ? greatest([innerId, ...edgeIds]) === range.lastId
      : least([innerId, ...edgeIds]) === range.firstId;
  if (rowCount < 0 || !isInOrder || !isFurthest)
    return rows.canCount(span) ? await rows.count(span) : undefined;
  return innerEdge === 'newest'
    ? { rowCount, firstId: range.firstId, lastId: innerId }
    : { rowCount, firstId: innerId, lastId: range.lastId };
}

/**
 * The same of other series: what is taken and one of the sides is counted, the shorter one where its rows are
 * here, and the other side has the rest. Where rows of both are away they are shared by time, as candles come evenly.
 */
async function shareCounts(
  { left, taken, right }: Pieces,
  { rowCount }: CoveredRange,
  { count, isHere }: RowReader,
): Promise<Sides> {
  const rest = Math.max(0, rowCount - (await count(taken)).rowCount);
  const sides = spanLengthMs(left) < spanLengthMs(right) ? [left, right] : [right, left];
  const side = sides.find(isHere);
  if (side === undefined) {
    const ofLeft = Math.round(
      (rest * spanLengthMs(left)) / (spanLengthMs(left) + spanLengthMs(right)),
    );
    return withoutIds(ofLeft, rest - ofLeft);
  }
  const counted = isEmptySpan(side) ? 0 : Math.min((await count(side)).rowCount, rest);
  return side === left ? withoutIds(counted, rest - counted) : withoutIds(rest - counted, counted);
}

/** Counts the rows of a stream in [$2, $3). */
function countSql(kind: StreamKind): string {
  const table = tableOfStream(kind);
  const { variant } = seriesOf(table);
  const [time, ofId] = [timeColumnOf(table), table === 'trade' ? 'tid' : 'NULL::bigint'];
  return `
  SELECT count(*) AS row_count, min(${ofId}) AS first_id, max(${ofId}) AS last_id
  FROM ${table} WHERE market_id = $1
    AND ${time} >= $2::timestamptz AND ${time} < $3::timestamptz
    ${variant === null ? '' : `AND ${variant} = $4`} ${kind === 'times' ? NEEDS_TIME : ''}`;
}

const EDGE_ID = (needsTime: string, order: string) => `
  SELECT tid FROM trade
  WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz ${needsTime}
  ORDER BY traded_at ${order}, tid ${order} LIMIT 1`;
const NEEDS_TIME = 'AND executed_at IS NOT NULL';

/** First look for a row at an edge, and how much wider each further one is. */
const NEAR_MS = DAY_MS;
const WIDER = 16;

/** What the partitions that have left hold of a stream of trades or times. */
function countsAway({ kind }: StreamRef, away: readonly RemovedRows[]): AwayCount[] {
  const at = kind === 'times' ? 3 : 0;
  return away.map(({ span, counts }) => {
    const [rowCount, firstId, lastId] = [counts?.[at], counts?.[at + 1], counts?.[at + 2]];
    return { span, rowCount: rowCount ?? 0, firstId: firstId ?? null, lastId: lastId ?? null };
  });
}

interface AwayCount extends RowCount {
  readonly span: Span;
}

/**
 * Reads the rows of a stream.
 *
 * @param away partitions of its table that have left the database; what they hold was counted when
 *   they were sealed
 */
function rowReader(runner: Runner, stream: StreamRef, away: readonly RemovedRows[]) {
  const needsTime = stream.kind === 'times' ? NEEDS_TIME : '';
  const { variant } = seriesOf(tableOfStream(stream.kind));
  // As text and not as numbers: constants, from which partitions are chosen before the work.
  const bounds = (fromMs: number, toMs: number) => [fromMs, toMs].map(isoMs);
  const find = async (span: Span, order: string) => {
    const values = [stream.marketId, ...bounds(span.fromMs, span.toMs)];
    const [row] = await runner.rows<{ tid: number }>(EDGE_ID(needsTime, order), values);
    return row?.tid ?? null;
  };
  const counted = countsAway(stream, away);
  const within = (span: Span) => counted.filter((one) => doOverlap(one.span, span));
  return {
    /** Whether all rows of a span are here, or away in partitions that lie in it whole. */
    canCount: (span: Span) => within(span).every((one) => holdsSpan(span, one.span)),
    /** Whether all rows of a span are here. */
    isHere: (span: Span) => within(span).length === 0,
    async count(span: Span): Promise<RowCount> {
      const ofVariant = variant === null ? [] : [stream.variant];
      const values = [stream.marketId, ...bounds(span.fromMs, span.toMs), ...ofVariant];
      const [row] = await runner.rows<RowCount>(countSql(stream.kind), values);
      return sumCounts([row ?? NO_ROWS, ...within(span)]);
    },
    /** Id of the row at an edge of a span: its oldest, or its newest. */
    async edgeId(span: Span, edge: 'oldest' | 'newest'): Promise<number | null> {
      const { fromMs, toMs } = span;
      const isNewest = edge === 'newest';
      const there = within(span).map((one) => (isNewest ? one.lastId : one.firstId));
      for (let reachMs = NEAR_MS; ; reachMs *= WIDER) {
        const isAll = reachMs >= toMs - fromMs;
        const near = isNewest
          ? { fromMs: isAll ? fromMs : toMs - reachMs, toMs }
          : { fromMs, toMs: isAll ? toMs : fromMs + reachMs };
        const here = await find(near, isNewest ? 'DESC' : 'ASC');
        if (here === null && !isAll) continue;
        // Ids grow with time: of two places the one nearer to the edge has the one beyond.
        return isNewest ? greatest([here, ...there]) : least([here, ...there]);
      }
    },
  };
}
