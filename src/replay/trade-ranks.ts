import { comparePlaces, type PastArchive, type TradePlace } from '../archive/past/past.js';
import type { Clock } from '../kernel/clock.js';
import { Mutex } from '../kernel/mutex.js';
import { RefusedError } from '../server/backend.js';

/** Between two marks lie this many trades: about what finding a page reads too much. */
const STEP = 1000;
const COUNTED_AT_ONCE = 200 * STEP;
/** Trades that one request may have counted; what was counted is remembered for the next. */
const COUNTED_MAX = 5_000_000;
/**
 * Marks that are kept of a market. Where there would be more they lie further apart: a page of a hundred
 * million trades costs reading some ten thousand too many, and the marks of all markets have room.
 */
const MARKS_MAX = 10_000;
/** Marks are believed this long: a daemon may fill gaps beside the replay. */
const FRESH_MS = 600_000;

interface Mark {
  readonly place: TradePlace;
  /** Trades below this place, counted from an arbitrary one. */
  readonly rank: number;
}

/** Where a page begins: below `before`, after leaving out `drop` trades. */
export interface PageStart {
  readonly before: TradePlace;
  readonly drop: number;
}

/**
 * Finds the trade that is so many trades below another one, without reading those between: along
 * marks a thousand trades apart, which are counted once, from where they are first needed down to
 * where a page was asked for.
 */
export class TradeRanks {
  readonly #past: PastArchive;
  readonly #marketId: number;
  readonly #clock: Clock;
  readonly #marksMax: number;
  readonly #turns = new Mutex();
  /** Lowest first. */
  #marks: Mark[] = [];
  /** How far apart marks are kept. */
  #spacing = STEP;
  /** Rank of the very first trade, once it was reached. */
  #bottom: number | undefined;
  #madeAtMs = Number.NEGATIVE_INFINITY;

  /** @param marksMax how many marks are kept; fewer for tests */
  constructor(past: PastArchive, marketId: number, clock: Clock, marksMax = MARKS_MAX) {
    this.#marksMax = marksMax;
    this.#past = past;
    this.#marketId = marketId;
    this.#clock = clock;
  }

  get markCount(): number {
    return this.#marks.length;
  }

  /** Whether what is remembered would not be believed any more. */
  get isStale(): boolean {
    return this.#clock.monotonicMs() - this.#madeAtMs > FRESH_MS;
  }

  /**
   * Where to begin after `skip` trades below `top`; undefined when there are no more than that.
   *
   * @throws RefusedError `unavailable` when too much had to be counted; asked again it goes on
   */
  find(top: TradePlace, skip: number): Promise<PageStart | undefined> {
    return this.#turns.run(async () => {
      if (this.isStale) {
        this.#marks = [];
        this.#spacing = STEP;
        this.#bottom = undefined;
        this.#madeAtMs = this.#clock.monotonicMs();
      }
      const budget = { left: COUNTED_MAX };
      const rank = (await this.#rankOf(top, budget)) - skip;
      let [lowest] = this.#marks;
      while (lowest !== undefined && lowest.rank > rank && this.#bottom === undefined) {
        await this.#goDown(lowest, undefined, budget);
        [lowest] = this.#marks;
      }
      if (this.#bottom !== undefined && rank <= this.#bottom) return undefined;
      const above = this.#marks.find((mark) => mark.rank >= rank);
      return above === undefined
        ? { before: top, drop: skip }
        : { before: above.place, drop: above.rank - rank };
    });
  }

  async #rankOf(place: TradePlace, budget: { left: number }): Promise<number> {
    const [lowest] = this.#marks;
    if (lowest === undefined) {
      this.#marks = [{ place, rank: 0 }];
      return 0;
    }
    const below = this.#marks.findLast((mark) => comparePlaces(mark.place, place) <= 0);
    if (below === undefined) return this.#goDown(lowest, place, budget);
    // Counted from the new place down, so its marks get their ranks when the sum is known.
    const { count, places } = await this.#count(place, below.place, budget);
    const rank = below.rank + count;
    const marks = places.map((one, at) => ({ place: one, rank: rank - (at + 1) * STEP }));
    if (count >= STEP) this.#add([...marks.reverse(), { place, rank }]);
    return rank;
  }

  /** Counts below the lowest mark, to a place or for one turn; answers with the rank reached. */
  async #goDown(
    lowest: Mark,
    downTo: TradePlace | undefined,
    budget: { left: number },
  ): Promise<number> {
    const { count, places, isWhole } = await this.#count(lowest.place, downTo, budget);
    const rank = lowest.rank - count;
    const marks = places.map((place, at) => ({ place, rank: lowest.rank - (at + 1) * STEP }));
    if (downTo !== undefined) marks.push({ place: downTo, rank });
    else if (isWhole) this.#bottom = rank;
    this.#add(marks.reverse());
    return rank;
  }

  /** To the place below, or without one for a single turn. */
  async #count(top: TradePlace, downTo: TradePlace | undefined, budget: { left: number }) {
    const places: TradePlace[] = [];
    let before = top;
    let count = 0;
    for (;;) {
      if (budget.left <= 0) {
        throw new RefusedError(
          'unavailable',
          'that many trades back is still being counted; ask again',
        );
      }
      const limits = { step: STEP, maxCount: COUNTED_AT_ONCE };
      const found = await this.#past.tradeMarks(this.#marketId, before, downTo, limits);
      budget.left -= Math.max(STEP, found.count);
      count += found.count;
      for (const mark of found.marks) places.push(mark);
      const last = found.marks.at(-1);
      if (found.isWhole || downTo === undefined || last === undefined) {
        return { count, places, isWhole: found.isWhole };
      }
      before = last;
    }
  }

  #add(marks: readonly Mark[]): void {
    const known = new Set(this.#marks.map(({ rank }) => rank));
    const added = marks.filter(({ rank }) => !known.has(rank));
    this.#marks = [...this.#marks, ...added].sort((a, b) => a.rank - b.rank);
    if (this.#spacing > STEP) this.#marks = thinned(this.#marks, this.#spacing);
    while (this.#marks.length > this.#marksMax) {
      this.#spacing *= 2;
      this.#marks = thinned(this.#marks, this.#spacing);
    }
  }
}

/**
 * Marks that lie so far apart at least. The ends stay: below the lowest nothing is counted yet, and at
 * the highest the next page is looked for.
 */
function thinned(marks: readonly Mark[], spacing: number): Mark[] {
  const kept: Mark[] = [];
  for (const mark of marks) {
    const last = kept.at(-1);
    if (last === undefined || mark.rank - last.rank >= spacing) kept.push(mark);
  }
  const highest = marks.at(-1);
  if (highest !== undefined && kept.at(-1) !== highest) kept.push(highest);
  return kept;
}
