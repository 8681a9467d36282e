/** How fast a market trades, as far as its walk has seen. All times are the exchange's. */
export interface WalkPace {
  readonly tradesPerS: number;
  /** When the last look at the head was sent, milliseconds; undefined before the first. */
  readonly polledAtMs: number | undefined;
  /** The longest page that the server ever returned, over all markets. */
  readonly largestPage: number;
}

/** Time in which the weight of what was seen falls to a third, seconds. */
const MEMORY_S = 60;
/** Upper bound: keeps a quiet market's figure finite. */
const HEADROOM_MAX = 10_000;

/** Trades a second, averaged with more weight on what was seen last. */
export class Pace {
  #tradesPerS = 0;
  #polledAtMs: number | undefined;
  #intervalS = 0;

  get now(): Pick<WalkPace, 'tradesPerS' | 'polledAtMs'> {
    return { tradesPerS: this.#tradesPerS, polledAtMs: this.#polledAtMs };
  }

  /** @param pageSpanMs time that the page reaches back, which the first look judges by */
  polled(atMs: number, newRows: number, pageSpanMs: number): void {
    const lastMs = this.#polledAtMs;
    if (lastMs === undefined) {
      this.#tradesPerS = newRows / Math.max(1, pageSpanMs / 1000);
      this.#polledAtMs = atMs;
      return;
    }
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
