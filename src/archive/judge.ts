import { DAY_MS } from '../kernel/durations.js';
import type { Span } from '../kernel/span.js';
import type { StreamRef } from '../model/batch.js';
import { judgeSlot, type SlotVerdict } from '../model/verdict.js';
import { type CheckStore, type CheckTarget, FIGURE_SLOTS_MAX } from '../store/index.js';

/** Slots that are checked at once: no more than a day's trades are summed up by one statement. */
export function slotsAtOnce(stepMs: number): number {
  return Math.min(FIGURE_SLOTS_MAX, Math.max(1, Math.floor(DAY_MS / stepMs)));
}

/** Checks a span of whole slots that is short enough to be read at once. */
export async function checkAtOnce(
  checks: CheckStore,
  target: CheckTarget,
  kline: StreamRef,
  span: Span,
): Promise<SlotVerdict[]> {
  return (await checks.figures(target, kline, span)).map(judgeSlot);
}

/**
 * Checks every slot of a span by what the archive holds now, oldest first, some at a time; whoever
 * iterates sees the progress and may end at any point. Memory does not grow with the span.
 *
 * @param span whole slots of the interval
 */
export async function* checkSpanSlots(
  checks: CheckStore,
  target: CheckTarget,
  kline: StreamRef,
  span: Span,
): AsyncGenerator<SlotVerdict[], void, void> {
  const stepMs = kline.variant * 1000;
  const lengthMs = slotsAtOnce(stepMs) * stepMs;
  for (let fromMs = span.fromMs; fromMs < span.toMs; fromMs += lengthMs) {
    const toMs = Math.min(span.toMs, fromMs + lengthMs);
    yield await checkAtOnce(checks, target, kline, { fromMs, toMs });
  }
}
