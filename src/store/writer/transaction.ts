import { obtain } from '../../kernel/bounded.js';
import { holdsSpan, spanContains } from '../../kernel/span.js';
import type {
  Batch,
  CommitResult,
  CoverageClaim,
  CoveredRange,
  StreamRef,
} from '../../model/batch.js';
import { MOMENT_STREAMS, type Series, type SeriesRow, tableOfStream } from '../../model/series.js';
import { NO_ROWS } from '../completeness/ledger.js';
import type { Connection } from '../connection.js';
import { lockRowsSql } from '../locks.js';
import type { Partitions } from '../schema/partitions.js';
import type { CommitNumber } from './commit-number.js';
import {
  type ChangedRange,
  type CountedStream,
  type CoverageUpdate,
  FreshRows,
  type Held,
  heldByStream,
  mergeAll,
  mustCountTrades,
  readHeldSql,
  type StoredNear,
  settleCoverage,
  writeRangesSql,
} from './coverage.js';
import { CONFLICT, type PreparedGroup, type Refused, refusedRow } from './groups.js';
import type { Quarantine, RefusedCount } from './refused-rows.js';
import {
  newRowCounts,
  type Outcome,
  type PendingRow,
  SHAPES,
  TRADE,
  type TradeRun,
} from './series.js';
import { copySql, storeRows } from './staging.js';
import { type TradeColumnSet, timesOf } from './trade-columns.js';
import { findStoredSql, type Stored, type StoredTrades, sortOutTrades } from './trade-rows.js';

/**
 * One try at committing a group: partitions, then in one transaction the rows, the coverage that
 * they prove and what was refused. It either commits all of it or leaves no trace.
 */

/** Index probes only: temporary tables have no statistics, and the series are large. */
const BEGIN = [
  'BEGIN ISOLATION LEVEL READ COMMITTED',
  'SET LOCAL enable_hashjoin = off',
  'SET LOCAL enable_mergejoin = off',
  'SET LOCAL enable_seqscan = off',
  'SET LOCAL jit = off',
];

interface GroupContext {
  readonly connection: Connection;
  readonly number: CommitNumber;
  readonly partitions: Partitions;
  readonly quarantine: Quarantine;
  /** Called when the server has got the larger part of its work and is busy with it. */
  readonly whenSent: () => void;
}

export interface GroupResult {
  readonly results: readonly CommitResult[];
  readonly refused: readonly RefusedCount[];
}

/**
 * @throws WentBackError; the database's error as it came. The connection may be inside a failed transaction.
 */
export async function commitGroup(
  context: GroupContext,
  group: PreparedGroup,
): Promise<GroupResult> {
  const { connection } = context;
  await makePartitions(context.partitions, group);
  const { streams, stored, held } = await begin(context, group);
  const trades = await sortOutTrades(connection, group.trades, stored, context.whenSent);
  const outcomes = { trades, others: await storeOthers(connection, group) };
  const works = streamWorks(group, outcomes, streams);
  const merged = mergeAll(works, held);
  let { copyText } = trades;
  if (copyText !== undefined && mustCountTrades(merged)) {
    await connection.copyIn(copySql(TRADE), copyText, context.whenSent);
    copyText = undefined;
  }
  const { ranges, changed } = await settleCoverage(connection, works, merged);
  const { counts, conflicts } = countOutcomes(group, outcomes);
  const refused = await context.quarantine.keep(connection, [...group.refused, ...conflicts]);
  await end(context, changed, copyText);
  const results = group.batches.map((batch, index) => ({
    outcomes: counts[index] ?? newRowCounts(),
    ranges: rangesOf(batch, ranges),
  }));
  return { results, refused };
}

/** What is there before a group. */
interface Found {
  readonly streams: readonly TradeStream[];
  readonly stored: readonly Stored[];
  readonly held: ReadonlyMap<number, readonly Held[]>;
}

/** Advances the number, takes the locks of the markets, and asks then for all that the rest is decided by. */
async function begin({ connection, number }: GroupContext, group: PreparedGroup): Promise<Found> {
  const ids = marketsOf(group)
    .map((id) => Math.trunc(id))
    .join(',');
  const markets = `'{${ids}}'::int[]`;
  const held = readHeldSql(group.batches, group.trades);
  const ofTrades = group.trades.length > 0 ? [findStoredSql(group.trades)] : [];
  const questions =
    ids === ''
      ? []
      : [lockRowsSql('market', markets), tradeStreamsSql(markets), ...held, ...ofTrades];
  const all = await connection.script([...BEGIN, number.advanceSql, ...questions]);
  const [advanced, , streams, ...answers] = all.slice(BEGIN.length);
  await number.begun(connection, advanced);
  return {
    streams: (streams ?? []) as TradeStream[],
    held: heldByStream(answers.slice(0, held.length).flat() as Held[]),
    stored: answers.slice(held.length).flat() as Stored[],
  };
}

/** The last rows, what they prove, and COMMIT, in one message. */
async function end(
  { connection, whenSent }: GroupContext,
  changed: readonly ChangedRange[],
  copyText: Buffer | undefined,
): Promise<void> {
  const statements = [...writeRangesSql(changed), 'COMMIT'];
  if (copyText === undefined) {
    await connection.script(statements);
    return;
  }
  await connection.copyIn([copySql(TRADE), ...statements].join(';\n'), copyText, whenSent);
}

async function makePartitions(partitions: Partitions, group: PreparedGroup): Promise<void> {
  await partitions.ensureTimes('trade', timesOf(group.trades));
  for (const [table, passes] of group.passes) {
    const shape = SHAPES.get(table);
    const times = passes.flat().flatMap(({ row }) => shape?.timeMs(row) ?? []);
    await partitions.ensureTimes(table, times);
  }
}

function marketsOf(group: PreparedGroup): number[] {
  const ids = new Set(group.trades.runs.map(({ marketId }) => marketId));
  for (const { claims } of group.batches)
    for (const { stream } of claims ?? []) ids.add(stream.marketId);
  return [...ids].sort((a, b) => a - b);
}

/** All rows but trades. */
async function storeOthers(connection: Connection, group: PreparedGroup): Promise<SettledRow[]> {
  const settled: SettledRow[] = [];
  for (const [table, shape] of SHAPES) {
    for (const pass of group.passes.get(table) ?? []) {
      const outcomes = await storeRows(connection, shape, pass);
      for (const [index, one] of pass.entries()) {
        settled.push({ ...one, table, outcome: outcomes[index] ?? 'stored' });
      }
    }
  }
  return settled;
}

function countOutcomes(group: PreparedGroup, outcomes: GroupOutcomes) {
  const counts = group.settled.map((one) => structuredClone(one));
  const conflicts: Refused[] = [];
  for (const [place, outcome] of outcomes.trades.outcomes) {
    const ofBatch = counts[group.trades.batches[place] ?? 0];
    const row = group.trades.rows[place];
    if (ofBatch === undefined || row === undefined) continue;
    ofBatch.trade.stored -= 1;
    ofBatch.trade[outcome] += 1;
    if (outcome === 'conflict') conflicts.push(refusedRow('trade', CONFLICT, row));
  }
  for (const { table, row, batch, outcome } of outcomes.others) {
    const ofBatch = counts[batch];
    if (ofBatch !== undefined) ofBatch[table][outcome] += 1;
    if (outcome === 'conflict') conflicts.push(refusedRow(table, CONFLICT, row));
  }
  return { counts, conflicts };
}

function rangesOf(
  batch: Batch,
  ranges: ReadonlyMap<number, readonly CoveredRange[]>,
): CoveredRange[] {
  return (batch.claims ?? []).map(({ stream, span }) => {
    const found = ranges.get(stream.streamId)?.find((one) => holdsSpan(one.span, span));
    return found ?? { streamId: stream.streamId, span, ...NO_ROWS };
  });
}

/** A row with what became of it. */
interface SettledRow extends PendingRow<SeriesRow> {
  readonly table: Series;
  readonly outcome: Outcome;
}

/** What became of the rows of a group. */
interface GroupOutcomes {
  readonly trades: StoredTrades;
  /** Those of all other series. */
  readonly others: readonly SettledRow[];
}

/** A stream in which trades count. */
interface TradeStream extends CountedStream {
  readonly kind: 'trades' | 'times';
}

/** @param ids an array of the markets, as SQL */
const tradeStreamsSql = (ids: string): string => `
  SELECT stream_id, kind, market_id, variant FROM stream
  WHERE kind IN ('trades', 'times') AND market_id = ANY (${ids})`;

interface Draft extends CoverageUpdate {
  readonly claims: CoverageClaim[];
  fresh: FreshRows;
  near: StoredNear | undefined;
}

/**
 * Finds which streams a group concerns: those that it claims for, and those in whose covered spans
 * it may have put trades, which must go on counting exactly.
 *
 * @param streams those of trades, of all markets that the group has trades of
 */
function streamWorks(
  group: PreparedGroup,
  outcomes: GroupOutcomes,
  streams: readonly TradeStream[],
): CoverageUpdate[] {
  const drafts = new Map<number, Draft>();
  for (const { claims } of group.batches) {
    for (const claim of claims ?? []) draftOf(drafts, claim.stream).claims.push(claim);
  }
  addFreshTrades(drafts, group, outcomes, streams);
  const observed = new Map<Draft, number[]>();
  const stored = storedByBatch(outcomes.others);
  for (const [index, batch] of group.batches.entries()) {
    for (const [streamId, times] of freshObservations(batch, stored.get(index) ?? [])) {
      const draft = drafts.get(streamId);
      if (draft !== undefined) observed.set(draft, [...(observed.get(draft) ?? []), ...times]);
    }
  }
  for (const [draft, times] of observed) {
    draft.fresh = new FreshRows(Float64Array.from(times).sort());
  }
  return [...drafts.values()].sort((a, b) => a.streamId - b.streamId);
}

function draftOf(
  drafts: Map<number, Draft>,
  { streamId, marketId, kind, variant }: CountedStream,
): Draft {
  const nothing = { claims: [], fresh: FreshRows.NONE, near: undefined };
  return obtain(drafts, streamId, () => ({ streamId, marketId, kind, variant, ...nothing }));
}

function addFreshTrades(
  drafts: Map<number, Draft>,
  { trades }: PreparedGroup,
  outcomes: GroupOutcomes,
  streams: readonly TradeStream[],
): void {
  const runs = new Map(trades.runs.map((run) => [run.marketId, run]));
  for (const stream of streams) {
    const run = runs.get(stream.marketId);
    if (run === undefined) continue;
    const draft = draftOf(drafts, stream);
    draft.fresh = freshTrades(trades, run, stream.kind, outcomes.trades);
    draft.near = outcomes.trades.near.get(stream.marketId);
  }
}

/** Trades that are new to a stream: stored, or for times also known before without theirs. */
function freshTrades(
  { ms, tids, timed }: TradeColumnSet,
  { start, end }: TradeRun,
  kind: 'trades' | 'times',
  { outcomes, learnt }: StoredTrades,
): FreshRows {
  const isFresh = (place: number) => {
    const isStored = outcomes.size === 0 || !outcomes.has(place);
    if (kind === 'trades') return isStored;
    return (timed[place] === 1 && isStored) || learnt.has(place);
  };
  let place = start;
  while (place < end && isFresh(place)) place += 1;
  if (place === end) return new FreshRows(ms.subarray(start, end), tids.subarray(start, end));
  const places: number[] = [];
  for (place = start; place < end; place += 1) if (isFresh(place)) places.push(place);
  return new FreshRows(
    Float64Array.from(places, (one) => ms[one] ?? 0),
    Float64Array.from(places, (one) => tids[one] ?? 0),
  );
}

/** Newly stored ones of these rows, by the place of their batch. */
function storedByBatch(rows: readonly SettledRow[]): Map<number, SettledRow[]> {
  const stored = new Map<number, SettledRow[]>();
  for (const one of rows) {
    if (one.outcome === 'stored') obtain(stored, one.batch, () => []).push(one);
  }
  return stored;
}

/** Times of the newly stored rows of one batch's streams other than trades, by stream. */
function freshObservations(
  { claims = [] }: Batch,
  stored: readonly SettledRow[],
): Map<number, number[]> {
  const fresh = new Map<number, number[]>();
  const seen = new Set<number>();
  for (const { stream } of claims) {
    if (stream.kind === 'trades' || stream.kind === 'times' || seen.has(stream.streamId)) continue;
    seen.add(stream.streamId);
    const spans = claims.filter((one) => one.stream.streamId === stream.streamId);
    const times = storedTimes(stream, stored);
    // A row at the very end of its claim, or beside it, still came with that claim.
    const place = (ms: number) => (MOMENT_STREAMS.has(stream.kind) ? placeIn(spans, ms) : ms);
    fresh.set(stream.streamId, times.map(place));
  }
  return fresh;
}

function placeIn(claims: readonly CoverageClaim[], ms: number): number {
  if (claims.some(({ span }) => spanContains(span, ms))) return ms;
  return claims.at(-1)?.span.fromMs ?? ms;
}

function storedTimes(
  { kind, marketId, variant }: StreamRef,
  stored: readonly SettledRow[],
): number[] {
  const ours = tableOfStream(kind);
  const shape = SHAPES.get(ours);
  return stored.flatMap(({ table, row }) => {
    const isOurs = table === ours && marketId === row.marketId && shape?.variantOf(row) === variant;
    return isOurs ? [shape.timeMs(row)] : [];
  });
}
