import type { Batch, CoverageClaim, StreamKind, StreamRef } from '../../ledger/batch.js';
import type { Connection } from '../connection.js';
import type { Candidate, Outcome } from './candidate.js';
import type { Fresh, StreamWork } from './coverage.js';
import type { PreparedGroup } from './prepared.js';

/** What became of the rows of a group, in the order of its candidates. */
export interface GroupOutcomes {
  readonly trades: readonly Outcome[];
  readonly klines: readonly (readonly Outcome[])[];
  readonly tickers: readonly Outcome[];
  readonly depths: readonly Outcome[];
  readonly states: readonly Outcome[];
  readonly balances: readonly Outcome[];
  readonly orders: readonly Outcome[];
}

const FIND_TRADE_STREAMS = `
  SELECT stream_id, kind, market_id FROM stream
  WHERE kind IN ('trades', 'times') AND market_id = ANY ($1::int[])`;

interface Draft {
  readonly streamId: number;
  readonly marketId: number;
  readonly kind: StreamKind;
  readonly claims: CoverageClaim[];
  readonly fresh: Fresh[];
}

/**
 * Finds which streams a group concerns: those that it claims for, and those in whose covered spans
 * it may have put trades, which must go on counting exactly.
 */
export async function streamWorks(
  connection: Connection,
  group: PreparedGroup,
  outcomes: GroupOutcomes,
): Promise<StreamWork[]> {
  const drafts = new Map<number, Draft>();
  for (const { claims } of group.batches) {
    for (const claim of claims ?? []) draftOf(drafts, claim.stream).claims.push(claim);
  }
  await addFreshTrades(connection, drafts, group, outcomes);
  for (const [index, batch] of group.batches.entries()) {
    for (const [streamId, fresh] of freshObservations(group, outcomes, batch, index)) {
      const draft = drafts.get(streamId);
      for (const one of fresh) draft?.fresh.push(one);
    }
  }
  return [...drafts.values()].sort((a, b) => a.streamId - b.streamId);
}

function draftOf(
  drafts: Map<number, Draft>,
  { streamId, marketId, kind }: Pick<StreamRef, 'streamId' | 'marketId' | 'kind'>,
): Draft {
  const found = drafts.get(streamId);
  if (found !== undefined) return found;
  const made: Draft = { streamId, marketId, kind, claims: [], fresh: [] };
  drafts.set(streamId, made);
  return made;
}

async function addFreshTrades(
  connection: Connection,
  drafts: Map<number, Draft>,
  group: PreparedGroup,
  outcomes: GroupOutcomes,
): Promise<void> {
  const fresh = freshTrades(group, outcomes);
  if (fresh.size === 0) return;
  const streams = await connection.query<{
    stream_id: number;
    kind: 'trades' | 'times';
    market_id: number;
  }>(FIND_TRADE_STREAMS, [[...fresh.keys()]]);
  for (const { stream_id, kind, market_id } of streams) {
    const ref = { streamId: stream_id, marketId: market_id, kind };
    const draft = draftOf(drafts, ref);
    for (const one of fresh.get(market_id)?.[kind] ?? []) draft.fresh.push(one);
  }
}

interface FreshTrades {
  readonly trades: Fresh[];
  readonly times: Fresh[];
}

function freshTrades(group: PreparedGroup, outcomes: GroupOutcomes): Map<number, FreshTrades> {
  const fresh = new Map<number, FreshTrades>();
  let lists: FreshTrades = { trades: [], times: [] };
  let listsOf: number | undefined;
  for (let index = 0; index < group.trades.length; index += 1) {
    const row = group.trades[index]?.row;
    const outcome = outcomes.trades[index];
    if (row === undefined || (outcome !== 'stored' && outcome !== 'updated')) continue;
    if (row.marketId !== listsOf) {
      // Trades are in the order of their markets: each has its lists once.
      lists = { trades: [], times: [] };
      listsOf = row.marketId;
      fresh.set(listsOf, lists);
    }
    const one = { ms: row.tradedAtS * 1_000, tid: row.tid };
    if (outcome === 'stored') lists.trades.push(one);
    if (row.executedAtUs !== null) lists.times.push(one);
  }
  return fresh;
}

/** Newly stored rows of one batch's streams other than trades, by stream. */
function freshObservations(
  group: PreparedGroup,
  outcomes: GroupOutcomes,
  { claims = [] }: Batch,
  batch: number,
): Map<number, Fresh[]> {
  const fresh = new Map<number, Fresh[]>();
  const seen = new Set<number>();
  for (const { stream } of claims) {
    if (seen.has(stream.streamId)) continue;
    seen.add(stream.streamId);
    const spans = claims.filter((one) => one.stream.streamId === stream.streamId);
    const moments = storedMoments(group, outcomes, stream, batch);
    // A row at the very end of its claim, or beside it, still came with that claim.
    fresh.set(
      stream.streamId,
      moments.map((ms) => ({ ms: placeIn(spans, ms) })),
    );
  }
  return fresh;
}

function placeIn(claims: readonly CoverageClaim[], ms: number): number {
  if (claims.some(({ span }) => span.fromMs <= ms && ms < span.toMs)) return ms;
  return claims.at(-1)?.span.fromMs ?? ms;
}

function storedMoments(
  group: PreparedGroup,
  outcomes: GroupOutcomes,
  { kind, marketId, variant }: StreamRef,
  batch: number,
): number[] {
  const isOurs = (id: number) => marketId === 0 || marketId === id;
  if (kind === 'kline') {
    return group.klinePasses.flatMap((pass, index) =>
      stored(pass, outcomes.klines[index] ?? [], batch)
        .filter((row) => isOurs(row.marketId) && row.intervalS === variant)
        .map((row) => row.openAtS * 1_000),
    );
  }
  if (kind === 'state') {
    return stored(group.states, outcomes.states, batch)
      .filter((row) => isOurs(row.marketId) && row.periodS === variant)
      .map((row) => row.observedAtMs);
  }
  const observed = () => {
    if (kind === 'ticker') return stored(group.tickers, outcomes.tickers, batch);
    if (kind === 'depth') return stored(group.depths, outcomes.depths, batch);
    if (kind === 'balance') return stored(group.balances, outcomes.balances, batch);
    return kind === 'orders' ? stored(group.orders, outcomes.orders, batch) : [];
  };
  return observed()
    .filter((row) => isOurs(row.marketId))
    .map((row) => row.observedAtMs);
}

function stored<Row>(
  candidates: readonly Candidate<Row>[],
  outcomes: readonly Outcome[],
  batch: number,
): Row[] {
  return candidates
    .filter((one, index) => one.batch === batch && outcomes[index] === 'stored')
    .map(({ row }) => row);
}
