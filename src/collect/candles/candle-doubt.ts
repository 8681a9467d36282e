import { type Span, subtractSpans, totalLengthMs } from '../../kernel/span.js';

/** Slots in one run at an end of an answer that even a lively market may leave out. */
const QUIET_SLOTS_MAX = 5;

/** An end of an answer that holds nothing: the market was quiet, or the answer is not whole. */
export interface EmptyEnd {
  readonly span: Span;
  /**
   * What to ask so that a second answer shows which: the run and the candle beside it, which has to
   * show up again. Its bounds are never those of the first question, so that no cache answers it.
   */
  readonly question: Span;
}

/**
 * The long runs without a candle at either end of what was answered. A server that caps its replies,
 * and a page that was cut on its way, both leave such a run; a hole between two candles is neither.
 *
 * @param answered whole slots
 * @param heldMs open times that the answer speaks of
 */
export function emptyEnds(answered: Span, heldMs: readonly number[], stepMs: number): EmptyEnd[] {
  const { fromMs, toMs } = answered;
  const inside = heldMs.filter((ms) => fromMs <= ms && ms < toMs).sort((a, b) => a - b);
  const [oldestMs, newestMs] = [inside[0], inside.at(-1)];
  if (oldestMs === undefined || newestMs === undefined) {
    const whole = { span: answered, question: { fromMs, toMs: toMs - stepMs } };
    return isLong(answered, stepMs) ? [whole] : [];
  }
  const older = { fromMs, toMs: oldestMs };
  const newer = { fromMs: newestMs + stepMs, toMs };
  return [
    { span: newer, question: { fromMs: newestMs, toMs } },
    { span: older, question: { fromMs, toMs: oldestMs + stepMs } },
  ].filter(({ span }) => isLong(span, stepMs));
}

/** An end is worth a second question where more than a few slots of it are not known already. */
export function isWorthAsking({ span }: EmptyEnd, known: Iterable<Span>, stepMs: number): boolean {
  return totalLengthMs(subtractSpans(span, known)) > QUIET_SLOTS_MAX * stepMs;
}

/**
 * What may be believed of an empty end after it was asked for once more.
 *
 * Where the second answer shows the candle beside the run and nothing in it, both agree: all of it is
 * quiet. Where it brings candles, or misses the one that was seen, one of the two was cut: then what
 * lies between its candles is believed, and its own empty ends are not.
 *
 * @param heldMs open times that the second answer speaks of
 */
export function believedOf(
  { span, question }: EmptyEnd,
  heldMs: readonly number[],
  stepMs: number,
): Span[] {
  const isFound = heldMs.some((ms) => span.fromMs <= ms && ms < span.toMs);
  const hasNeighbour = question.fromMs < span.fromMs || question.toMs > span.toMs;
  const isSeenAgain = heldMs.some(
    (ms) => question.fromMs <= ms && ms < question.toMs && (ms < span.fromMs || ms >= span.toMs),
  );
  if (!isFound && isSeenAgain === hasNeighbour) return [span];
  const suspect = emptyEnds(question, heldMs, stepMs).map((end) => end.span);
  // The first answer alone has spoken of what the second was not asked for.
  const askedTwice = {
    fromMs: Math.max(span.fromMs, question.fromMs),
    toMs: Math.min(span.toMs, question.toMs),
  };
  return subtractSpans(askedTwice, suspect);
}

function isLong({ fromMs, toMs }: Span, stepMs: number): boolean {
  return toMs - fromMs > QUIET_SLOTS_MAX * stepMs;
}
