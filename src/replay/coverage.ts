import type { Past } from '../archive/past.js';
import type { Clock } from '../kernel/clock.js';
import { SECOND_MS } from '../kernel/durations.js';
import { isEmptySpan, overlapOf, type Span, spanLengthMs } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import { type KnownStream, missingOf, type Piece } from '../model/explain.js';
import type { GapReason } from '../model/gap-reasons.js';
import { MOMENT_STREAMS, type StreamKind, streamName } from '../model/series.js';
import { Catalog } from './catalog.js';

/** Kinds that a replay demands without gaps. */
const DEMANDED: readonly StreamKind[] = ['trades', 'candles'];
/** All kinds that are replayed. */
const REPLAYED: readonly StreamKind[] = [...DEMANDED, 'depth', 'tickers', 'states'];

const DELISTED: GapReason = 'delisted';

/** A gap of a stream within the time range of a replay. */
interface RangeGap {
  readonly stream: KnownStream;
  readonly span: Span;
  readonly reason: string;
}

/** Contents of an archive in the time range of a replay. */
export interface RangeCoverage {
  /** Gaps in trades and candles. */
  readonly gaps: readonly RangeGap[];
  /** Kinds that were collected, without a gap in the range. */
  readonly whole: readonly StreamKind[];
  /** By stream of trades or candles: since when it is covered without a break up to the range. */
  readonly sinceMs: ReadonlyMap<number, number>;
}

/** From where on trades or candles of a stream are shown: what lies before a gap is not. */
export type ShownFrom = (stream: KnownStream | undefined) => number;

/** Reads what an archive has of a time range. */
export async function readCoverage(
  past: Pick<Past, 'pieces'>,
  catalog: Catalog,
  range: Span,
): Promise<RangeCoverage> {
  const all: RangeGap[] = [];
  const sinceMs = new Map<number, number>();
  const streams = replayedOf(catalog);
  for (const stream of streams) {
    const pieces = await past.pieces(stream, { fromMs: 0, toMs: range.toMs });
    const missing = missingOf(pieces).filter(({ span }) => isPiece(stream, span));
    for (const one of missing) {
      const span = overlapOf(one.span, range);
      if (!isPiece(stream, span) || !isExpected(catalog, stream, { ...one, span })) continue;
      all.push({ stream, span, reason: one.reason });
    }
    const before = missing.filter(({ span }) => span.fromMs < range.fromMs);
    sinceMs.set(stream.streamId, Math.max(0, ...before.map(({ span }) => span.toMs)));
  }
  const isWhole = (kind: StreamKind) =>
    streams.some((one) => one.kind === kind) && all.every(({ stream }) => stream.kind !== kind);
  return {
    gaps: all.filter(({ stream }) => DEMANDED.includes(stream.kind)),
    whole: REPLAYED.filter(isWhole),
    sinceMs,
  };
}

/**
 * The newest time range within some bounds in which trades and candles have no gap: up to where all of them
 * are covered. Undefined where there is none.
 */
export async function newestWholeRange(
  past: Past,
  clock: Clock,
  markets: readonly string[],
  bounds: Partial<Span>,
): Promise<Span | undefined> {
  const sight = { past, clock, markets, toMs: Number.POSITIVE_INFINITY };
  const catalog = new Catalog(sight);
  await catalog.refresh();
  const { fromMs, toMs } = catalog.covered;
  const ends = replayedOf(catalog).flatMap((stream) => {
    const { kind, marketId, newestCoveredMs } = stream;
    const market = [...catalog.markets].find((one) => one.marketId === marketId);
    const isOver = market === undefined || !catalog.isListed(market, toMs - 1);
    if (newestCoveredMs === null || isOver || !DEMANDED.includes(kind)) return [];
    // A candle that has not closed yet is not missing.
    return [newestCoveredMs + stepOf(stream) - 1];
  });
  const within = { fromMs: -Infinity, toMs: Infinity, ...bounds };
  const range = overlapOf({ fromMs, toMs: Math.min(toMs, ...ends) }, within);
  if (!Number.isFinite(fromMs) || isEmptySpan(range)) return undefined;
  const { gaps } = await readCoverage(past, catalog, range);
  const whole = { ...range, fromMs: Math.max(range.fromMs, ...gaps.map(({ span }) => span.toMs)) };
  return isEmptySpan(whole) ? undefined : whole;
}

/** The first of some gaps in words, and how many more there are. */
export function describeGaps(gaps: readonly RangeGap[]): string {
  const [first] = [...gaps].sort((a, b) => a.span.fromMs - b.span.fromMs);
  if (first === undefined) return '';
  const { stream, span, reason } = first;
  const more = gaps.length === 1 ? '' : ` and ${gaps.length - 1} more`;
  return `${streamName(stream)} of ${stream.market} from ${isoMs(span.fromMs)} to ${isoMs(span.toMs)} (${reason})${more}`;
}

function replayedOf(catalog: Catalog): KnownStream[] {
  return [...catalog.streams].filter(({ kind }) => REPLAYED.includes(kind));
}

function stepOf({ kind, variant }: KnownStream): number {
  return kind === 'candles' ? variant * SECOND_MS : 1;
}

/** Returns true if a whole row may be missing in it: a candle counts as a whole. */
function isPiece(stream: KnownStream, span: Span): boolean {
  return spanLengthMs(span) >= stepOf(stream);
}

/** Returns true if something was there to be collected: nothing is of a market that is not listed. */
function isExpected(
  catalog: Catalog,
  { kind, marketId }: KnownStream,
  { span, state, reason }: Pick<Piece, 'span' | 'reason' | 'state'>,
): boolean {
  if (state === 'not listed' || reason === DELISTED) return false;
  // Before the first look at depth, tickers or states a replay has nothing to show.
  if (state === 'before collecting' && MOMENT_STREAMS.has(kind)) return false;
  if (state !== 'before collecting' && state !== 'before history') return true;
  const market = [...catalog.markets].find((one) => one.marketId === marketId);
  return market === undefined || catalog.isListed(market, span.fromMs);
}
