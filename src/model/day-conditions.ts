import { DAY_MS, MINUTE_MS, shownDuration } from '../kernel/durations.js';
import { isEmptySpan, overlapOf, type Span, spanLengthMs } from '../kernel/span.js';
import { availableUntilMs, type KnownStream, type Piece } from './explain.js';
import { MOMENT_STREAMS } from './series.js';

/**
 * Condition of each day of a stream. `analytics.pieces` and `analytics.days` hold the same rules in SQL, for many streams
 * at once; a test holds both equal.
 */

export const CONDITIONS = ['available', 'degraded', 'pending', 'missing'] as const;
export type Condition = (typeof CONDITIONS)[number];

/** Expected time of a stream. What is open can be fetched, what is unfillable cannot. */
export interface CountedPiece {
  readonly span: Span;
  readonly state: 'covered' | 'open' | 'unfillable';
  /** Why it is missing. */
  readonly reason: string;
}

/** Expected time of a step of time, milliseconds. */
export interface StepSums {
  readonly coveredMs: number;
  readonly openMs: number;
  readonly unfillableMs: number;
}

/** Facts that decide which of its time a stream is expected to have. */
type CountedStream = Pick<KnownStream, 'kind' | 'variant' | 'newestCoveredMs'>;

/** Data may be so long on its way; older time that did not come is missing. */
const LAG_MAX_MS = 5 * MINUTE_MS;

/** End of the time of which data is expected to be there. */
export function expectedUntilMs(stream: CountedStream, nowMs: number): number {
  const untilMs = availableUntilMs(stream, nowMs);
  const newestMs = stream.newestCoveredMs ?? Number.NEGATIVE_INFINITY;
  return untilMs <= newestMs + LAG_MAX_MS ? Math.min(untilMs, newestMs) : untilMs;
}

/**
 * Returns the pieces that are expected: time before history, after delisting, expired, in the future, on its way, or of a
 * candle that is not closed is not.
 */
export function countedPieces(
  stream: CountedStream,
  pieces: readonly Piece[],
  nowMs: number,
): CountedPiece[] {
  // Data that exists only while it happens cannot be fetched later, whatever is remembered of it.
  const missing = MOMENT_STREAMS.has(stream.kind) ? 'unfillable' : 'open';
  const untilMs = expectedUntilMs(stream, nowMs);
  return pieces.flatMap(({ span, state, reason }): CountedPiece[] => {
    if (state === 'covered' || state === 'unfillable') return [{ span, state, reason }];
    if (state === 'open' || state === 'filling') return [{ span, state: missing, reason }];
    const late = { fromMs: span.fromMs, toMs: Math.min(span.toMs, untilMs) };
    return state === 'later' && !isEmptySpan(late) ? [{ span: late, state: missing, reason }] : [];
  });
}

const NONE: StepSums = { coveredMs: 0, openMs: 0, unfillableMs: 0 };
const SUM_OF = { covered: 'coveredMs', open: 'openMs', unfillable: 'unfillableMs' } as const;

/** Sums pieces by steps of equal length. @param fromMs start of the first step */
export function sumBySteps(
  pieces: Iterable<Pick<CountedPiece, 'span' | 'state'>>,
  fromMs: number,
  stepMs: number,
  count: number,
): StepSums[] {
  const sums = Array.from({ length: count }, () => ({ coveredMs: 0, openMs: 0, unfillableMs: 0 }));
  for (const { span, state } of pieces) {
    const name = SUM_OF[state];
    const [first, end] = reach(span, fromMs, stepMs, count);
    for (let at = first; at < end; at += 1) {
      const stepFromMs = fromMs + at * stepMs;
      const sum = sums[at];
      if (sum === undefined) continue;
      sum[name] += Math.min(span.toMs, stepFromMs + stepMs) - Math.max(span.fromMs, stepFromMs);
    }
  }
  return sums;
}

/** First step that a time range reaches into, and the step after the last. */
function reach(
  span: Span,
  fromMs: number,
  stepMs: number,
  count: number,
): readonly [number, number] {
  const first = Math.max(0, Math.floor((span.fromMs - fromMs) / stepMs));
  return [first, Math.min(count, Math.ceil((span.toMs - fromMs) / stepMs))];
}

/** Piece of the store: expected time, or a candle that contradicts the trades. */
interface FoundPiece extends Span {
  readonly state: CountedPiece['state'] | 'mismatch';
}

/** Sums pieces by steps, and counts in each the candles that contradict the trades. */
export function sumPieces(
  pieces: readonly FoundPiece[],
  fromMs: number,
  stepMs: number,
  count: number,
): { readonly sums: readonly StepSums[]; readonly mismatches: readonly number[] } {
  const mismatches = Array.from({ length: count }, () => 0);
  const expected = pieces.flatMap((span) => {
    if (span.state !== 'mismatch') return [{ span, state: span.state }];
    const [first, end] = reach(span, fromMs, stepMs, count);
    for (let at = first; at < end; at += 1) mismatches[at] = (mismatches[at] ?? 0) + 1;
    return [];
  });
  return { sums: sumBySteps(expected, fromMs, stepMs, count), mismatches };
}

/**
 * Decides the condition of a day; null: nothing of it is expected.
 *
 * @param mismatches candles that contradict the trades
 */
export function conditionOf(
  sums: StepSums,
  mismatches: number,
  hasEnded: boolean,
): Condition | null {
  const { coveredMs, openMs, unfillableMs } = sums;
  if (coveredMs + openMs + unfillableMs === 0) return null;
  if (openMs > 0 || !hasEnded) return 'pending';
  if (coveredMs === 0) return 'missing';
  return unfillableMs > 0 || mismatches > 0 ? 'degraded' : 'available';
}

/** Condition of a day, with what it comes from. */
export interface DayCondition extends StepSums {
  readonly condition: Condition | null;
  /** Sentences; none of a day that is available. */
  readonly reasons: readonly string[];
}

/**
 * Decides the condition of one day and says why.
 *
 * @param pieces of {@link explain}, at least of that day
 * @param mismatches candles of that day that contradict the trades
 * @param nowMs exchange time
 */
export function dayCondition(
  stream: CountedStream,
  pieces: readonly Piece[],
  mismatches: number,
  dayMs: number,
  nowMs: number,
): DayCondition {
  const counted = countedPieces(stream, pieces, nowMs);
  const sums = sumBySteps(counted, dayMs, DAY_MS, 1)[0] ?? NONE;
  const hasEnded = dayMs + DAY_MS <= nowMs;
  const condition = conditionOf(sums, mismatches, hasEnded);
  if (condition === null) return { ...sums, condition, reasons: [] };
  const day = { fromMs: dayMs, toMs: dayMs + DAY_MS };
  return {
    ...{ ...sums, condition },
    reasons: [
      ...(hasEnded ? [] : ['The day has not ended.']),
      ...missingTexts(counted, day, 'open', 'can still be fetched'),
      ...missingTexts(counted, day, 'unfillable', 'cannot be fetched any more'),
      ...(mismatches === 0 ? [] : [mismatchText(mismatches)]),
    ],
  };
}

const mismatchText = (count: number) =>
  count === 1 ? '1 candle contradicts the trades.' : `${count} candles contradict the trades.`;

/** A sentence for each reason, the longest first. */
function missingTexts(
  pieces: readonly CountedPiece[],
  day: Span,
  state: CountedPiece['state'],
  what: string,
): string[] {
  const lengths = new Map<string, number>();
  for (const one of pieces) {
    const lengthMs = spanLengthMs(overlapOf(one.span, day));
    if (one.state !== state || lengthMs === 0) continue;
    lengths.set(one.reason, (lengths.get(one.reason) ?? 0) + lengthMs);
  }
  return [...lengths]
    .sort(([, a], [, b]) => b - a)
    .map(([reason, lengthMs]) => `${shownDuration(lengthMs)} ${what}: ${reason}.`);
}
