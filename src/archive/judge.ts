import { DAY_MS } from '../kernel/durations.js';
import type { Span } from '../kernel/span.js';
import type { StreamRef } from '../model/batch.js';
import { judgeSlot, type SlotVerdict } from '../model/verdict.js';
import { FIGURE_SLOTS_MAX, type VerdictStore, type VerdictTarget } from '../store/index.js';

/** Slots that are judged at once: no more than a day's trades are summed up by one statement. */
export function slotsAtOnce(stepMs: number): number {
  return Math.min(FIGURE_SLOTS_MAX, Math.max(1, Math.floor(DAY_MS / stepMs)));
}

/** Judges a span of whole slots that is short enough to be read at once. */
export async function judgeAtOnce(
  verdicts: VerdictStore,
  target: VerdictTarget,
  kline: StreamRef,
  span: Span,
): Promise<SlotVerdict[]> {
  return (await verdicts.figures(target, kline, span)).map(judgeSlot);
}

/**
 * Judges every slot of a span by what the archive holds now, oldest first, some at a time; whoever
 * iterates sees the progress and may end at any point. Memory does not grow with the span.
 *
 * @param span whole slots of the interval
 */
export async function* judgeSpan(
  verdicts: VerdictStore,
  target: VerdictTarget,
  kline: StreamRef,
  span: Span,
): AsyncGenerator<SlotVerdict[], void, void> {
  const stepMs = kline.variant * 1000;
  const lengthMs = slotsAtOnce(stepMs) * stepMs;
  for (let fromMs = span.fromMs; fromMs < span.toMs; fromMs += lengthMs) {
    const toMs = Math.min(span.toMs, fromMs + lengthMs);
    yield await judgeAtOnce(verdicts, target, kline, { fromMs, toMs });
  }
}
