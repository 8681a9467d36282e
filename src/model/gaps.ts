import { normalizeSpans, type Span, subtractSpans } from '../kernel/span.js';

/** A piece of expected history that is not covered, as a walk works on it: from its upper edge down. */
export interface Gap {
  /** Start of the gap; minus infinity while the start of history is not known. */
  readonly fromMs: number;
  /** Its upper edge. */
  readonly edgeMs: number;
}

/**
 * Expected minus covered, newest first, below the newest covered instant (what is newer is not a
 * gap but the future of the head).
 *
 * @param cuts edges from which a walk can go on inside a gap: it is cut there
 */
export function findGaps(
  expected: readonly Span[],
  covered: readonly Span[],
  topMs: number,
  cuts: readonly number[] = [],
): Gap[] {
  const gaps: Gap[] = [];
  for (const { fromMs, toMs } of normalizeSpans(expected)) {
    const whole = { fromMs, toMs: Math.min(toMs, topMs) };
    for (const gap of subtractSpans(whole, covered)) {
      const inside = cuts.filter((cut) => gap.fromMs < cut && cut < gap.toMs);
      let lowerMs = gap.fromMs;
      for (const edgeMs of [...new Set(inside)].sort((a, b) => a - b)) {
        gaps.push({ fromMs: lowerMs, edgeMs });
        lowerMs = edgeMs;
      }
      gaps.push({ fromMs: lowerMs, edgeMs: gap.toMs });
    }
  }
  return gaps.reverse();
}
