import type { Batch, CommitResult, Island, Series } from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import type { Partitions } from '../schema/partitions.js';
import { ACTIVE_ORDER, BALANCE } from './account-series.js';
import type { Candidate, Outcome } from './candidate.js';
import { writeCoverage } from './coverage.js';
import { storeKlines } from './kline-rows.js';
import { storeObserved } from './observed-rows.js';
import { type PreparedGroup, type Refused, refusedRow } from './prepared.js';
import type { Quarantine, RefusedCount } from './refused-rows.js';
import { DEPTH, KLINE, STATE, TICKER } from './series.js';
import {
  type GroupOutcomes,
  streamWorks,
  type TradeStream,
  tradeStreamsSql,
} from './stream-works.js';
import { newTally, type Tally } from './tally.js';
import { storeTrades, type TradeStoring } from './trade-rows.js';

/**
 * One try at committing a group: partitions, then in one transaction the rows, the coverage that
 * they prove and what was refused. It either commits all of it or leaves no trace.
 */

/** Index probes only: temporary tables have no statistics, and the series are large. */
const BEGIN = `
  BEGIN ISOLATION LEVEL READ COMMITTED;
  SET LOCAL enable_hashjoin = off;
  SET LOCAL enable_mergejoin = off;
  SET LOCAL enable_seqscan = off;
  SET LOCAL jit = off`;

/**
 * Whoever stores trades of a market or claims coverage of it holds this until COMMIT, so that
 * counts are exact. Taken in the order of the ids by everybody: no deadlock.
 */
const lockSql = (ids: string) =>
  `SELECT pg_advisory_xact_lock(hashtext('tapekeep market'), id) FROM unnest(${ids}) AS id`;
export const LOCK_MARKETS = lockSql('$1::int[]');

/**
 * All at once, because each message costs the way to the server and back: begins, takes the locks of
 * the markets, and then asks for their streams of trades. Only numbers are written in.
 */
function beginSql(marketIds: readonly number[]): string {
  const ids = marketIds.map((id) => Math.trunc(id)).join(',');
  if (ids === '') return BEGIN;
  const markets = `'{${ids}}'::int[]`;
  return `${BEGIN}; ${lockSql(markets)}; ${tradeStreamsSql(markets)}`;
}

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
  const marketIds = marketsOf(group);
  const streams = await connection.queryScript<TradeStream>(beginSql(marketIds));
  const outcomes = await storeRows(context, group);
  const works = streamWorks(group, outcomes, marketIds.length === 0 ? [] : streams);
  const islands = await writeCoverage(connection, works);
  const { tallies, conflicts } = tallyUp(group, outcomes);
  const refused = await context.quarantine.keep(connection, [...group.refused, ...conflicts]);
  await connection.query('COMMIT');
  const results = group.batches.map((batch, index) => ({
    outcomes: tallies[index] ?? newTally(),
    islands: islandsOf(batch, islands),
  }));
  return { results, refused };
}

async function makePartitions(partitions: Partitions, group: PreparedGroup): Promise<void> {
  const klineMoments = group.klinePasses.flat().map(({ row }) => KLINE.momentMs(row));
  await partitions.ensureMoments('trade', group.trades.ms);
  await partitions.ensureMoments('kline', klineMoments);
  await partitions.ensureMoments('kline_revision', klineMoments);
  await partitions.ensureMoments(
    'ticker',
    group.tickers.map(({ row }) => TICKER.momentMs(row)),
  );
  await partitions.ensureMoments(
    'depth',
    group.depths.map(({ row }) => DEPTH.momentMs(row)),
  );
  await partitions.ensureMoments(
    'market_state',
    group.states.map(({ row }) => STATE.momentMs(row)),
  );
  await partitions.ensureMoments(
    'balance',
    group.balances.map(({ row }) => BALANCE.momentMs(row)),
  );
  await partitions.ensureMoments(
    'active_order',
    group.orders.map(({ row }) => ACTIVE_ORDER.momentMs(row)),
  );
}

function marketsOf(group: PreparedGroup): number[] {
  const ids = new Set(group.trades.runs.map(({ marketId }) => marketId));
  for (const { claims } of group.batches)
    for (const { stream } of claims ?? []) ids.add(stream.marketId);
  return [...ids].sort((a, b) => a - b);
}

async function storeRows(context: GroupContext, group: PreparedGroup): Promise<GroupOutcomes> {
  const { connection } = context;
  const trades = await storeTrades(connection, group.trades, context.trades);
  const klines: Outcome[][] = [];
  for (const pass of group.klinePasses) klines.push(await storeKlines(connection, pass));
  return {
    trades,
    klines,
    tickers: await storeObserved(connection, TICKER, group.tickers),
    depths: await storeObserved(connection, DEPTH, group.depths),
    states: await storeObserved(connection, STATE, group.states),
    balances: await storeObserved(connection, BALANCE, group.balances),
    orders: await storeObserved(connection, ACTIVE_ORDER, group.orders),
  };
}

interface TalliedGroup {
  readonly tallies: readonly Tally[];
  readonly conflicts: readonly Refused[];
}

function tallyUp(group: PreparedGroup, outcomes: GroupOutcomes): TalliedGroup {
  const tallies = group.settled.map((tally) => structuredClone(tally));
  const conflicts: Refused[] = [];
  const count = <Row extends { readonly marketId: number; readonly receivedAtMs: number }>(
    series: Series,
    candidates: readonly Candidate<Row>[],
    results: readonly Outcome[],
  ) => {
    for (const [index, { row, batch }] of candidates.entries()) {
      const outcome = results[index] ?? 'stored';
      const tally = tallies[batch];
      if (tally !== undefined) tally[series][outcome] += 1;
      if (outcome === 'conflict') conflicts.push(refusedRow(series, 'conflict', row));
    }
  };
  for (const batch of group.trades.batches) {
    const tally = tallies[batch];
    if (tally !== undefined) tally.trade.stored += 1;
  }
  for (const [place, outcome] of outcomes.trades.outcomes) {
    const tally = tallies[group.trades.batches[place] ?? 0];
    const row = group.trades.rows[place];
    if (tally === undefined || row === undefined) continue;
    tally.trade.stored -= 1;
    tally.trade[outcome] += 1;
    if (outcome === 'conflict') conflicts.push(refusedRow('trade', 'conflict', row));
  }
  for (const [index, pass] of group.klinePasses.entries()) {
    count('kline', pass, outcomes.klines[index] ?? []);
  }
  count('ticker', group.tickers, outcomes.tickers);
  count('depth', group.depths, outcomes.depths);
  count('market_state', group.states, outcomes.states);
  count('balance', group.balances, outcomes.balances);
  count('active_order', group.orders, outcomes.orders);
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
