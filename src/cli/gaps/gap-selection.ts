import { floorToMs, type Span } from '../../kernel/span.js';
import type { StreamKind } from '../../model/series.js';
import type { Gap, GapFilter, KnownStream, Store } from '../../store/index.js';
import type { Moment } from '../options/moments.js';
import { selectMarkets, selectSpan } from '../options/selection.js';

/** The options by which several commands select gaps. */
export interface GapOptions {
  readonly market?: readonly string[];
  readonly kinds?: readonly StreamKind[];
  readonly from?: Moment;
  readonly to?: Moment;
  readonly state?: readonly Gap['state'][];
  readonly reason?: readonly string[];
}

/** One entry for every market that the archive has streams of. */
export function marketsOf(streams: readonly KnownStream[]) {
  const markets = new Map<string, { readonly market: string; readonly marketId: number }>();
  for (const { market, marketId } of streams) markets.set(market, { market, marketId });
  return [...markets.values()];
}

/**
 * What the options select, for the archive.
 *
 * @throws UsageError for an unknown market, or a span that ends before it begins
 */
export function gapFilterOf(
  options: GapOptions,
  streams: readonly KnownStream[],
  nowMs: number,
  limit: number,
): GapFilter {
  const { market, kinds, state, reason } = options;
  const chosen = selectMarkets(market, marketsOf(streams));
  const bounds: Partial<Span> = selectSpan(options, nowMs);
  const isBounded = bounds.fromMs !== undefined || bounds.toMs !== undefined;
  const span = { fromMs: bounds.fromMs ?? 0, toMs: Math.min(nowMs, bounds.toMs ?? nowMs) };
  return {
    ...(market === undefined ? {} : { marketIds: chosen.map(({ marketId }) => marketId) }),
    ...(kinds === undefined ? {} : { kinds }),
    ...(isBounded ? { span } : {}),
    ...(state === undefined ? {} : { states: state }),
    ...(reason === undefined ? {} : { reasons: reason }),
    limit,
  };
}

/** The newest candle is final, and asked for, only some time after its end. */
const SETTLING_MS = 60_000;

/** Whether a gap is only what a stream has not come to yet, and no hole. */
export function isLag(
  { gapId, kind, variant, span }: Gap,
  coveredMs: number | null,
  nowMs: number,
) {
  if (gapId !== null) return false;
  if (coveredMs !== null) return span.fromMs >= coveredMs;
  return kind === 'kline' && span.fromMs >= floorToMs(nowMs - SETTLING_MS, variant * 1000);
}

/**
 * The newest gaps without those that are only lag: what is newer than all that is covered of a stream
 * has not been asked for yet, and is no hole.
 *
 * @returns no more than `filter.limit`; `isAll` tells whether there are no others
 */
export async function readGaps(
  store: Store,
  filter: GapFilter,
  streams: readonly KnownStream[],
  nowMs: number,
): Promise<{ readonly gaps: readonly Gap[]; readonly isAll: boolean }> {
  const newestMs = new Map(streams.map((one) => [one.streamId, one.newestCoveredMs]));
  // Each stream has at most one lag.
  const asked = filter.limit + streams.length + 1;
  const found = await store.listGaps({ ...filter, limit: asked }, nowMs);
  const gaps = found.filter((gap) => !isLag(gap, newestMs.get(gap.streamId) ?? null, nowMs));
  const isAll = found.length < asked && gaps.length <= filter.limit;
  return { gaps: gaps.slice(0, filter.limit), isAll };
}
