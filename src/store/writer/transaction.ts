import type { Batch, CommitResult, Island } from '../../ledger/batch.js';
import { SERIES, type Series } from '../../model/series.js';
import type { Connection } from '../connection.js';
import { lockRowsSql } from '../locks.js';
import type { Partitions } from '../schema/partitions.js';
import { type Held, mergeAll, mustCount, settleCoverage } from './coverage.js';
import { type ChangedIsland, writeIslandsSql } from './coverage-rows.js';
import { type HeldRow, heldByStream, readHeldSql } from './held-coverage.js';
import { newTally, type Outcome, type Tally } from './outcomes.js';
import { CONFLICT, type PreparedGroup, type Refused, refusedRow } from './prepared.js';
import type { Quarantine, RefusedCount } from './refused-rows.js';
import { SHAPES, TRADE } from './series.js';
import { storeRows } from './series-rows.js';
import { copySql } from './staging.js';
import {
  type GroupOutcomes,
  streamWorks,
  type TradeStream,
  tradeStreamsSql,
} from './stream-works.js';
import { findStoredSql, type Stored, sortOutTrades, type TradeStoring } from './trade-rows.js';
import { momentsOf } from './trade-sheet.js';

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

/**
 * Whoever stores trades of a market or claims coverage of it holds this until COMMIT, so that
 * counts are exact. Taken in the order of the ids by everybody: no deadlock.
 */
export const LOCK_MARKETS = lockRowsSql('market', '$1::int[]');

export interface GroupContext {
  readonly connection: Connection;
  readonly partitions: Partitions;
  readonly quarantine: Quarantine;
  readonly trades: TradeStoring;
}

export interface GroupResult {
  readonly results: readonly CommitResult[];
  readonly refused: readonly RefusedCount[];
}

/** @throws the database's error as it came; the connection may be inside a failed transaction. */
export async function commitGroup(
  context: GroupContext,
  group: PreparedGroup,
): Promise<GroupResult> {
  const { connection } = context;
  await makePartitions(context.partitions, group);
  const { streams, stored, held } = await begin(connection, group);
  const trades = await sortOutTrades(connection, group.trades, stored, context.trades);
  const outcomes = { trades, others: await storeOthers(connection, group) };
  const works = streamWorks(group, outcomes, streams);
  const merged = mergeAll(works, held);
  let { lines } = trades;
  if (lines !== undefined && mustCount(merged)) {
    await connection.copyIn(copySql(TRADE), lines, context.trades.whenSent);
    lines = undefined;
  }
  const { islands, changed } = await settleCoverage(connection, works, merged);
  const { tallies, conflicts } = tallyUp(group, outcomes);
  const refused = await context.quarantine.keep(connection, [...group.refused, ...conflicts]);
  await end(context, changed, lines);
  const results = group.batches.map((batch, index) => ({
    outcomes: tallies[index] ?? newTally(),
    islands: islandsOf(batch, islands),
  }));
  return { results, refused };
}

/** What is there before a group. */
interface Found {
  readonly streams: readonly TradeStream[];
  readonly stored: readonly Stored[];
  readonly held: ReadonlyMap<number, readonly Held[]>;
}

/** Takes the locks of the markets, and asks then for all that the rest is decided by. */
async function begin(connection: Connection, group: PreparedGroup): Promise<Found> {
  const ids = marketsOf(group)
    .map((id) => Math.trunc(id))
    .join(',');
  if (ids === '') {
    await connection.queryScript(BEGIN);
    return { streams: [], stored: [], held: new Map() };
  }
  const markets = `'{${ids}}'::int[]`;
  const held = readHeldSql(group.batches, group.trades);
  const ofTrades = group.trades.length > 0 ? [findStoredSql(group.trades)] : [];
  const opening = [...BEGIN, lockRowsSql('market', markets)];
  const script = [...opening, tradeStreamsSql(markets), ...held, ...ofTrades];
  const [streams, ...answers] = (await connection.queryScript(script)).slice(opening.length);
  return {
    streams: (streams ?? []) as TradeStream[],
    held: heldByStream(answers.slice(0, held.length).flat() as HeldRow[]),
    stored: answers.slice(held.length).flat() as Stored[],
  };
}

/** The last rows, what they prove, and COMMIT, in one message. */
async function end(
  { connection, trades }: GroupContext,
  changed: readonly ChangedIsland[],
  lines: Buffer | undefined,
): Promise<void> {
  const statements = [...writeIslandsSql(changed), 'COMMIT'];
  if (lines === undefined) {
    await connection.queryScript(statements);
    return;
  }
  await connection.copyIn([copySql(TRADE), ...statements].join(';\n'), lines, trades.whenSent);
}

async function makePartitions(partitions: Partitions, group: PreparedGroup): Promise<void> {
  await partitions.ensureMoments('trade', momentsOf(group.trades));
  for (const [table, passes] of group.passes) {
    const shape = SHAPES.get(table);
    const moments = passes.flat().flatMap(({ row }) => shape?.momentMs(row) ?? []);
    await partitions.ensureMoments(table, moments);
    const { versions } = SERIES[table];
    if (versions !== null) await partitions.ensureMoments(versions, moments);
  }
}

function marketsOf(group: PreparedGroup): number[] {
  const ids = new Set(group.trades.runs.map(({ marketId }) => marketId));
  for (const { claims } of group.batches)
    for (const { stream } of claims ?? []) ids.add(stream.marketId);
  return [...ids].sort((a, b) => a - b);
}

/** All rows but trades. */
async function storeOthers(
  connection: Connection,
  group: PreparedGroup,
): Promise<GroupOutcomes['others']> {
  const others = new Map<Series, Outcome[][]>();
  for (const [table, shape] of SHAPES) {
    const outcomes: Outcome[][] = [];
    for (const pass of group.passes.get(table) ?? []) {
      outcomes.push(await storeRows(connection, shape, pass));
    }
    others.set(table, outcomes);
  }
  return others;
}

interface TalliedGroup {
  readonly tallies: readonly Tally[];
  readonly conflicts: readonly Refused[];
}

function tallyUp(group: PreparedGroup, outcomes: GroupOutcomes): TalliedGroup {
  const tallies = group.settled.map((tally) => structuredClone(tally));
  const conflicts: Refused[] = [];
  for (const [place, outcome] of outcomes.trades.outcomes) {
    const tally = tallies[group.trades.batches[place] ?? 0];
    const row = group.trades.rows[place];
    if (tally === undefined || row === undefined) continue;
    tally.trade.stored -= 1;
    tally.trade[outcome] += 1;
    if (outcome === 'conflict') conflicts.push(refusedRow('trade', CONFLICT, row));
  }
  for (const [series, passes] of group.passes) {
    for (const [pass, candidates] of passes.entries()) {
      for (const [index, { row, batch }] of candidates.entries()) {
        const outcome = outcomes.others.get(series)?.[pass]?.[index] ?? 'stored';
        const tally = tallies[batch];
        if (tally !== undefined) tally[series][outcome] += 1;
        if (outcome === 'conflict') conflicts.push(refusedRow(series, CONFLICT, row));
      }
    }
  }
  return { tallies, conflicts };
}

function islandsOf(batch: Batch, islands: ReadonlyMap<number, readonly Island[]>): Island[] {
  return (batch.claims ?? []).map(({ stream, span }) => {
    const found = islands
      .get(stream.streamId)
      ?.find((one) => one.span.fromMs <= span.fromMs && span.toMs <= one.span.toMs);
    return found ?? { streamId: stream.streamId, span, firstId: null, lastId: null, rowCount: 0 };
  });
}
