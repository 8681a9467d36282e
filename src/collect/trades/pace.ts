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

/** Trades a second, averaged with more weight on what was seen last, and how far that is off. Exchange times. */
export class Pace {
  #tradesPerS = 0;
  #polledAtMs: number | undefined;
  #intervalS = 0;
  /** Mean error of what was expected to be new, rows. */
  #error = 0;

  /** Rows that a look should ask for, so that it seldom fails to reach what is known. */
  room(atMs: number): number {
    if (this.#polledAtMs === undefined) return PAGE_MAX;
    return Math.ceil(this.#expected(atMs) + ERRORS * this.#error) + OVERLAP_ROWS;
  }

  #expected(atMs: number): number {
    return (this.#tradesPerS * Math.max(0, atMs - (this.#polledAtMs ?? atMs))) / 1000;
  }

  /** @param pageSpanMs time that the page reaches back, which the first estimate rests on */
  polled(atMs: number, newRows: number, pageSpanMs: number): void {
    const lastMs = this.#polledAtMs;
    if (lastMs === undefined) {
      this.#tradesPerS = newRows / Math.max(1, pageSpanMs / 1000);
      this.#polledAtMs = atMs;
      return;
    }
    const error = Math.abs(newRows - this.#expected(atMs));
    // A burst widens the page at once: those that follow are often as large.
    this.#error = Math.max(error / 2, this.#error + ERROR_FADING * (error - this.#error));
    const passedS = (atMs - lastMs) / 1000;
    if (passedS <= 0) return;
    const weight = 1 - Math.exp(-passedS / MEMORY_S);
    this.#tradesPerS += weight * (newRows / passedS - this.#tradesPerS);
    this.#intervalS = passedS;
    this.#polledAtMs = atMs;
  }

  /** How many intervals between polls a page holds; undefined before there was one. */
  headroom(pageRows: number): number | undefined {
    if (this.#intervalS === 0) return undefined;
    const perInterval = this.#tradesPerS * this.#intervalS;
    return Math.min(HEADROOM_MAX, pageRows / Math.max(perInterval, Number.MIN_VALUE));
  }
}
