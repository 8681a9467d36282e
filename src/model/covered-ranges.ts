import { type Span, subtractSpans } from '../kernel/span.js';
import type { CoveredRange } from './batch.js';

/** Covered ranges of a stream that are asked for and remembered at most; gaps below them wait for a later start. */
export const RANGES_MAX = 1000;

/**
 * Coverage of a stream as the walk remembers it: its covered ranges, newest first, as the archive
 * last reported them. Bounded: beyond the limit the oldest are forgotten, which only makes the walk
 * repeat work.
 */
export class CoveredRangeList {
  readonly #limit: number;
  #ranges: readonly CoveredRange[];
  #isCut = false;

  constructor(ranges: readonly CoveredRange[], limit = RANGES_MAX) {
    this.#limit = limit;
    this.#ranges = [];
    this.replace(ranges);
  }

  /** Returns true if the archive may hold older covered ranges than these. */
  get isCut(): boolean {
    return this.#isCut;
  }

  get top(): CoveredRange | undefined {
    return this.#ranges[0];
  }

  get all(): readonly CoveredRange[] {
    return this.#ranges;
  }

  get spans(): Span[] {
    return this.#ranges.map((range) => range.span);
  }

  /** Adds a covered range as the archive now has it, in place of those that it swallowed. */
  absorb(range: CoveredRange): void {
    const apart = this.#ranges.filter(
      (known) => known.span.toMs < range.span.fromMs || known.span.fromMs > range.span.toMs,
    );
    const all = [...apart, range].sort(newestFirst);
    if (all.length > this.#limit) this.#isCut = true;
    this.#ranges = all.slice(0, this.#limit);
  }

  /** Takes a span out: its coverage is being revoked. */
  cut(span: Span): void {
    this.#ranges = this.#ranges.flatMap(({ streamId, span: one }) =>
      subtractSpans(one, [span])
        .reverse()
        .map((rest) => ({ streamId, span: rest })),
    );
  }

  /** Forgets what was known: the archive was read anew. */
  replace(ranges: readonly CoveredRange[]): void {
    // The archive was asked for no more than the limit: so many may be all, or not.
    this.#isCut = ranges.length >= this.#limit;
    this.#ranges = [...ranges].sort(newestFirst).slice(0, this.#limit);
  }
}

function newestFirst(a: CoveredRange, b: CoveredRange): number {
  return b.span.fromMs - a.span.fromMs;
}
