import {
  ALL_MARKETS_ID,
  type Batch,
  type CoverageClaim,
  type StreamRef,
} from '../../ledger/batch.js';
import { type Series, type StreamKind, tableOfStream } from '../../model/series.js';
import type { StreamWork } from './coverage.js';
import { FreshRows, type StoredNear } from './fresh-rows.js';
import type { Outcome, TradeRun } from './outcomes.js';
import type { PreparedGroup } from './prepared.js';
import { SHAPES } from './series.js';
import type { StoredTrades } from './trade-rows.js';
import type { TradeSheet } from './trade-sheet.js';

/** What became of the rows of a group, in the order of its candidates. */
export interface GroupOutcomes {
  readonly trades: StoredTrades;
  /** Of the passes of each other series. */
  readonly others: ReadonlyMap<Series, readonly (readonly Outcome[])[]>;
}

/** A stream in which trades count. */
export interface TradeStream {
  readonly stream_id: number;
  readonly kind: 'trades' | 'times';
  readonly market_id: number;
}

/** @param ids an array of the markets, as SQL */
export const tradeStreamsSql = (ids: string): string => `
  SELECT stream_id, kind, market_id FROM stream
  WHERE kind IN ('trades', 'times') AND market_id = ANY (${ids})`;

interface Draft {
  readonly streamId: number;
  readonly marketId: number;
  readonly kind: StreamKind;
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
export function streamWorks(
  group: PreparedGroup,
  outcomes: GroupOutcomes,
  streams: readonly TradeStream[],
): StreamWork[] {
  const drafts = new Map<number, Draft>();
  for (const { claims } of group.batches) {
    for (const claim of claims ?? []) draftOf(drafts, claim.stream).claims.push(claim);
  }
  addFreshTrades(drafts, group, outcomes, streams);
  const observed = new Map<Draft, number[]>();
  for (const [index, batch] of group.batches.entries()) {
    for (const [streamId, moments] of freshObservations(group, outcomes, batch, index)) {
      const draft = drafts.get(streamId);
      if (draft !== undefined) observed.set(draft, [...(observed.get(draft) ?? []), ...moments]);
    }
  }
  for (const [draft, moments] of observed) {
    draft.fresh = new FreshRows(Float64Array.from(moments).sort());
  }
  return [...drafts.values()].sort((a, b) => a.streamId - b.streamId);
}

function draftOf(
  drafts: Map<number, Draft>,
  { streamId, marketId, kind }: Pick<StreamRef, 'streamId' | 'marketId' | 'kind'>,
): Draft {
  const found = drafts.get(streamId);
  if (found !== undefined) return found;
  const made: Draft = {
    streamId,
    marketId,
    kind,
    claims: [],
    fresh: FreshRows.NONE,
    near: undefined,
  };
  drafts.set(streamId, made);
  return made;
}

function addFreshTrades(
  drafts: Map<number, Draft>,
  { trades }: PreparedGroup,
  outcomes: GroupOutcomes,
  streams: readonly TradeStream[],
): void {
  const runs = new Map(trades.runs.map((run) => [run.marketId, run]));
  for (const { stream_id, kind, market_id } of streams) {
    const run = runs.get(market_id);
    if (run === undefined) continue;
    const draft = draftOf(drafts, { streamId: stream_id, marketId: market_id, kind });
    draft.fresh = freshTrades(trades, run, kind, outcomes.trades.outcomes);
    draft.near = outcomes.trades.near.get(market_id);
  }
}

/** Trades that are new to a stream: stored, or for times also known before without theirs. */
function freshTrades(
  { ms, tids, timed }: TradeSheet,
  { start, end }: TradeRun,
  kind: 'trades' | 'times',
  outcomes: ReadonlyMap<number, Outcome>,
): FreshRows {
  const isFresh = (place: number) => {
    const outcome = outcomes.size === 0 ? 'stored' : (outcomes.get(place) ?? 'stored');
    if (kind === 'trades') return outcome === 'stored';
    return timed[place] === 1 && (outcome === 'stored' || outcome === 'updated');
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

/** Newly stored rows of one batch's streams other than trades, by stream. */
function freshObservations(
  group: PreparedGroup,
  outcomes: GroupOutcomes,
  { claims = [] }: Batch,
  batch: number,
): Map<number, number[]> {
  const fresh = new Map<number, number[]>();
  const seen = new Set<number>();
  for (const { stream } of claims) {
    if (stream.kind === 'trades' || stream.kind === 'times' || seen.has(stream.streamId)) continue;
    seen.add(stream.streamId);
    const spans = claims.filter((one) => one.stream.streamId === stream.streamId);
    const moments = storedMoments(group, outcomes, stream, batch);
    // A row at the very end of its claim, or beside it, still came with that claim.
    fresh.set(
      stream.streamId,
      moments.map((ms) => placeIn(spans, ms)),
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
  const table = tableOfStream(kind);
  const shape = SHAPES.get(table);
  const results = outcomes.others.get(table);
  return (group.passes.get(table) ?? []).flatMap((pass, at) =>
    pass.flatMap(({ row, batch: of }, index) => {
      const isStored = of === batch && results?.[at]?.[index] === 'stored';
      const isOurs = marketId === ALL_MARKETS_ID || marketId === row.marketId;
      if (!isStored || !isOurs || shape?.variantOf(row) !== variant) return [];
      return [shape.momentMs(row)];
    }),
  );
}
