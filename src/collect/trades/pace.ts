/** Rows of the longest page. */
export const PAGE_MAX = 1000;
/**
 * Some sizes only, so that what is asked repeats, and a cache in front of the exchange can help it. Of
 * less than the smallest the steps between ids would show nothing, see `isOddHead`.
 */
const PAGE_SIZES = [10, 15, 20, 30, 50, 75, 100, 150, 200, 300, 500, 750, PAGE_MAX];

/** @param least rows that a page should have room for */
export function pageSize(least: number): number {
  return PAGE_SIZES.find((size) => size >= least) ?? PAGE_MAX;
}

/** Time in which the weight of what was seen falls to a third, seconds. */
const MEMORY_S = 60;
/** Upper bound: keeps a quiet market's figure finite. */
const HEADROOM_MAX = 10_000;
/** Rows besides the new ones: of the second that both looks share, and one below it. */
const OVERLAP_ROWS = 4;
/** By how many mean errors more rows may be new than expected, and still have room. */
const ERRORS = 3;
/** Weight of the last error where it was less than the mean. */
const ERROR_FADING = 1 / 8;

interface Estimate {
  readonly atMs: number;
  readonly tradesPerS: number;
  /** Time between the last two polls; 0 after the first. */
  readonly intervalS: number;
  /** Mean error of the rows that were expected to be new. */
  readonly error: number;
}

/** Rows that are expected to be new. */
const expectedBy = (atMs: number, last: Estimate): number =>
  (last.tradesPerS * Math.max(0, atMs - last.atMs)) / 1000;

/** Trades a second, averaged with more weight on what was seen last, and how far that is off. Exchange times. */
export class Pace {
  #last: Estimate | undefined;

  /** Rows that a look should ask for, so that it seldom fails to reach what is known. */
  room(atMs: number): number {
    const last = this.#last;
    if (last === undefined) return PAGE_MAX;
    return Math.ceil(expectedBy(atMs, last) + ERRORS * last.error) + OVERLAP_ROWS;
  }

  /** @param pageSpanMs time that the page reaches back, which the first estimate rests on */
  polled(atMs: number, newRows: number, pageSpanMs: number): void {
    const last = this.#last;
    if (last === undefined) {
      const tradesPerS = newRows / Math.max(1, pageSpanMs / 1000);
      this.#last = { atMs, tradesPerS, intervalS: 0, error: 0 };
      return;
    }
    const off = Math.abs(newRows - expectedBy(atMs, last));
    // A burst widens the page at once: those that follow are often as large.
    const error = Math.max(off / 2, last.error + ERROR_FADING * (off - last.error));
    const intervalS = (atMs - last.atMs) / 1000;
    this.#last = { ...last, error };
    if (intervalS <= 0) return;
    const weight = 1 - Math.exp(-intervalS / MEMORY_S);
    const tradesPerS = last.tradesPerS + weight * (newRows / intervalS - last.tradesPerS);
    this.#last = { atMs, tradesPerS, intervalS, error };
  }

  /** How many intervals between polls a page holds; undefined before there was one. */
  headroom(pageRows: number): number | undefined {
    const { intervalS = 0, tradesPerS = 0 } = this.#last ?? {};
    if (intervalS === 0) return undefined;
    return Math.min(HEADROOM_MAX, pageRows / Math.max(tradesPerS * intervalS, Number.MIN_VALUE));
  }
}
