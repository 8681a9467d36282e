import { obtain } from '../../../kernel/bounded.js';
import { DAY_MS, MINUTE_MS } from '../../../kernel/durations.js';
import { ceilToMs } from '../../../kernel/span.js';
import { expectedUntilMs, sumBySteps } from '../../../model/day-conditions.js';
import type { Store, StreamName, StreamPiece } from '../../../store/index.js';
import type { Answer, Handlers, Input } from '../endpoints.js';

/** Needs of the list of markets. */
export interface MarketDeps {
  /** The archive. @throws TapekeepError while it is not open */
  readonly store: () => Store;
  /** Exchange time. */
  readonly nowMs: () => number;
  /** Says why coverage of a stream does not grow; null: it grows, or that is not known. */
  readonly troubleOf: (stream: Pick<StreamName, 'market' | 'kind' | 'variant'>) => string | null;
}

const STEP_MS = 30 * MINUTE_MS;
const STEPS = DAY_MS / STEP_MS;

/** Stream with what its pieces come to. */
interface Measured {
  readonly stream: StreamName;
  readonly pieces: readonly { readonly span: StreamPieceSpan; readonly state: CountedState }[];
  readonly coverageRatio: number | null;
  readonly lagMs: number | null;
  readonly openGaps: number;
  readonly coveredMs: number;
  readonly openMs: number;
  readonly unfillableMs: number;
}

type CountedState = Exclude<StreamPiece['state'], 'mismatch'>;
type StreamPieceSpan = Pick<StreamPiece, 'fromMs' | 'toMs'>;

/** Answers the list of markets. */
export function marketHandlers({
  store: open,
  nowMs: now,
  troubleOf,
}: MarketDeps): Pick<Handlers, 'markets'> {
  return {
    async markets({ search, kind: kinds, sort, limit, offset }, signal) {
      const { inspection } = open();
      const nowMs = now();
      const toMs = ceilToMs(nowMs, STEP_MS);
      const fromMs = toMs - DAY_MS;
      const text = search?.toLowerCase();
      const all = await inspection.streamNames(kinds);
      const streams =
        text === undefined ? all : all.filter((one) => one.market.toLowerCase().includes(text));
      signal.throwIfAborted();
      const measured = await measure(inspection, streams, { fromMs, toMs }, nowMs, kinds);
      signal.throwIfAborted();
      const sorted = measured.sort(ORDERS[sort]).slice(offset, offset + limit);
      return {
        ...{ fromMs, toMs, stepS: STEP_MS / 1000 },
        markets: new Set(streams.map(({ marketId }) => marketId)).size,
        total: streams.length,
        coverageRatio: ratioOfAll(measured),
        rows: sorted.map((one) => rowOf(one, fromMs, troubleOf)),
      };
    },
  };
}

async function measure(
  inspection: Store['inspection'],
  streams: readonly StreamName[],
  span: StreamPieceSpan,
  nowMs: number,
  kinds: Input<'markets'>['kind'],
): Promise<Measured[]> {
  if (streams.length === 0) return [];
  const marketIds = [...new Set(streams.map(({ marketId }) => marketId))];
  const [kind] = kinds?.length === 1 ? kinds : [];
  const pieces = await inspection.streamPieces({ marketIds, kind }, span, nowMs);
  const own = new Map<number, StreamPiece[]>();
  for (const one of pieces) {
    if (one.state !== 'mismatch') obtain(own, one.streamId, () => []).push(one);
  }
  const newest = new Map<number, number>();
  for (const { streamId, state, toMs } of pieces) {
    if (state === 'covered') newest.set(streamId, Math.max(toMs, newest.get(streamId) ?? 0));
  }
  const older = streams.flatMap(({ streamId }) => (newest.has(streamId) ? [] : [streamId]));
  const rest = older.length === 0 ? newest : await inspection.coveredUntil(older);
  return streams.map((stream) => {
    const { streamId } = stream;
    const newestMs = newest.get(streamId) ?? rest.get(streamId) ?? null;
    return measuredOf(stream, own.get(streamId) ?? [], newestMs, nowMs);
  });
}

function measuredOf(
  stream: StreamName,
  pieces: readonly StreamPiece[],
  newestMs: number | null,
  nowMs: number,
): Measured {
  const lagMs = newestMs === null || !stream.isListed ? null : Math.max(0, nowMs - newestMs);
  const untilMs = expectedUntilMs({ ...stream, newestCoveredMs: newestMs }, nowMs);
  const sums = { covered: 0, open: 0, unfillable: 0 };
  let openGaps = 0;
  const counted = pieces.flatMap(({ state, fromMs, toMs }) => {
    if (state === 'mismatch' || fromMs >= untilMs) return [];
    const span = { fromMs, toMs: Math.min(toMs, untilMs) };
    sums[state] += span.toMs - span.fromMs;
    if (state === 'open') openGaps += 1;
    return [{ state, span }];
  });
  const expectedMs = sums.covered + sums.open + sums.unfillable;
  return {
    ...{ stream, pieces: counted, lagMs, openGaps },
    ...{ coveredMs: sums.covered, openMs: sums.open, unfillableMs: sums.unfillable },
    coverageRatio: expectedMs === 0 ? null : sums.covered / expectedMs,
  };
}

function ratioOfAll(measured: readonly Measured[]): number | null {
  const sum = (of: 'coveredMs' | 'openMs' | 'unfillableMs') =>
    measured.reduce((all, one) => all + one[of], 0);
  const coveredMs = sum('coveredMs');
  const expectedMs = coveredMs + sum('openMs') + sum('unfillableMs');
  return expectedMs === 0 ? null : coveredMs / expectedMs;
}

const byName = (a: Measured, b: Measured) =>
  compare(a.stream.market, b.stream.market) ||
  compare(a.stream.kind, b.stream.kind) ||
  a.stream.variant - b.stream.variant;

const ORDERS: Readonly<Record<Input<'markets'>['sort'], (a: Measured, b: Measured) => number>> = {
  /** Those of which nothing is expected come last. */
  worst: (a, b) =>
    (a.coverageRatio ?? 2) - (b.coverageRatio ?? 2) ||
    (b.lagMs ?? -1) - (a.lagMs ?? -1) ||
    byName(a, b),
  name: byName,
  lag: (a, b) => (b.lagMs ?? -1) - (a.lagMs ?? -1) || byName(a, b),
};

const compare = (a: string, b: string) => (a < b ? -1 : a > b ? 1 : 0);

/** Milliseconds as seconds with one digit after the point. */
const tenths = (ms: number) => Math.round(ms / 100) / 10;

function rowOf(
  { stream, pieces, coverageRatio, lagMs, openGaps, openMs, unfillableMs }: Measured,
  fromMs: number,
  troubleOf: MarketDeps['troubleOf'],
): Answer<'markets'>['rows'][number] {
  const { market, kind, variant, isListed } = stream;
  const bar = sumBySteps(pieces, fromMs, STEP_MS, STEPS).map((sum) => {
    const expectedMs = sum.coveredMs + sum.openMs + sum.unfillableMs;
    // Cut: a step that lacks anything does not look whole.
    return expectedMs === 0 ? -1 : Math.floor((100 * sum.coveredMs) / expectedMs);
  });
  return {
    ...{ market, kind, variant, coverageRatio, bar, openGaps, isListed },
    lagS: lagMs === null ? null : tenths(lagMs),
    openS: tenths(openMs),
    lostS: tenths(unfillableMs),
    trouble: troubleOf(stream),
  };
}
