import {
  type AsOfReader,
  comparePlaces,
  startOfSecond,
  type TradePlace,
  type TradeRow,
} from '../archive/as-of/reader.js';
import type { Clock } from '../kernel/clock.js';
import { SECOND_US } from '../kernel/durations.js';
import { Mutex } from '../kernel/mutex.js';
import { RefusedError } from '../server/backend.js';
import { FreshCache } from './caches.js';
import type { Sight } from './catalog.js';

/** Between two checkpoints lie this many trades: about what finding a page reads too much. */
const STEP = 1000;
const COUNTED_AT_ONCE = 200 * STEP;
/** Trades that one request may have counted; what was counted is remembered for the next. */
const COUNTED_MAX = 5_000_000;
/**
 * Checkpoints that are kept of a market. Where there would be more they lie further apart: a page of a hundred
 * million trades costs reading some ten thousand too many, and those of all markets have room.
 */
const CHECKPOINTS_MAX = 10_000;
/** Checkpoints are believed this long: a daemon may fill gaps beside the replay. */
const FRESH_MS = 600_000;

interface Checkpoint {
  readonly place: TradePlace;
  /** Trades below this place, counted from an arbitrary one. */
  readonly offset: number;
}

/** Start of a page: below `before`, after leaving out `drop` trades. */
export interface PageStart {
  readonly before: TradePlace;
  readonly drop: number;
}

/**
 * Sparse offset index of one market. Finds the trade n positions below another one from checkpoints a
 * thousand trades apart. They are counted on demand, once, down to where a page was asked for.
 */
export class TradeOffsets {
  readonly #asOf: AsOfReader;
  readonly #marketId: number;
  readonly #clock: Clock;
  readonly #checkpointsMax: number;
  readonly #turns = new Mutex();
  /** Lowest first. */
  #checkpoints: Checkpoint[] = [];
  /** How far apart checkpoints are kept. */
  #spacing = STEP;
  /** Offset of the very first trade, once it was reached. */
  #bottom: number | undefined;
  #madeAtMs = Number.NEGATIVE_INFINITY;

  /** @param checkpointsMax how many are kept; fewer for tests */
  constructor(asOf: AsOfReader, marketId: number, clock: Clock, checkpointsMax = CHECKPOINTS_MAX) {
    this.#checkpointsMax = checkpointsMax;
    this.#asOf = asOf;
    this.#marketId = marketId;
    this.#clock = clock;
  }

  get checkpointCount(): number {
    return this.#checkpoints.length;
  }

  /** Returns true if what is remembered would not be believed any more. */
  get isStale(): boolean {
    return this.#clock.monotonicMs() - this.#madeAtMs > FRESH_MS;
  }

  /**
   * Finds the place after `skip` trades below `top`; undefined when there are no more than that.
   *
   * @throws RefusedError `unavailable` when too much had to be counted; asked again it goes on
   */
  find(top: TradePlace, skip: number): Promise<PageStart | undefined> {
    return this.#turns.run(async () => {
      if (this.isStale) {
        this.#checkpoints = [];
        this.#spacing = STEP;
        this.#bottom = undefined;
        this.#madeAtMs = this.#clock.monotonicMs();
      }
      const budget = { left: COUNTED_MAX };
      const offset = (await this.#offsetOf(top, budget)) - skip;
      let [lowest] = this.#checkpoints;
      while (lowest !== undefined && lowest.offset > offset && this.#bottom === undefined) {
        await this.#goDown(lowest, undefined, budget);
        [lowest] = this.#checkpoints;
      }
      if (this.#bottom !== undefined && offset <= this.#bottom) return undefined;
      const above = this.#checkpoints.find((checkpoint) => checkpoint.offset >= offset);
      return above === undefined
        ? { before: top, drop: skip }
        : { before: above.place, drop: above.offset - offset };
    });
  }

  async #offsetOf(place: TradePlace, budget: { left: number }): Promise<number> {
    const [lowest] = this.#checkpoints;
    if (lowest === undefined) {
      this.#checkpoints = [{ place, offset: 0 }];
      return 0;
    }
    const below = this.#checkpoints.findLast(
      (checkpoint) => comparePlaces(checkpoint.place, place) <= 0,
    );
    if (below === undefined) return this.#goDown(lowest, place, budget);
    // Counted from the new place down, so its checkpoints get their offsets when the sum is known.
    const { count, places } = await this.#count(place, below.place, budget);
    const offset = below.offset + count;
    const checkpoints = places.map((one, at) => ({ place: one, offset: offset - (at + 1) * STEP }));
    if (count >= STEP) this.#add([...checkpoints.reverse(), { place, offset }]);
    return offset;
  }

  /** Counts below the lowest checkpoint, to a place or for one turn. @returns the offset reached */
  async #goDown(
    lowest: Checkpoint,
    downTo: TradePlace | undefined,
    budget: { left: number },
  ): Promise<number> {
    const { count, places, isWhole } = await this.#count(lowest.place, downTo, budget);
    const offset = lowest.offset - count;
    const checkpoints = places.map((place, at) => ({
      place,
      offset: lowest.offset - (at + 1) * STEP,
    }));
    if (downTo !== undefined) checkpoints.push({ place: downTo, offset });
    else if (isWhole) this.#bottom = offset;
    this.#add(checkpoints.reverse());
    return offset;
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
      const found = await this.#asOf.runs.count(this.#marketId, before, downTo, limits);
      budget.left -= Math.max(STEP, found.count);
      count += found.count;
      for (const checkpoint of found.checkpoints) places.push(checkpoint);
      const last = found.checkpoints.at(-1);
      if (found.isWhole || downTo === undefined || last === undefined) {
        return { count, places, isWhole: found.isWhole };
      }
      before = last;
    }
  }

  #add(checkpoints: readonly Checkpoint[]): void {
    const known = new Set(this.#checkpoints.map(({ offset }) => offset));
    const added = checkpoints.filter(({ offset }) => !known.has(offset));
    this.#checkpoints = [...this.#checkpoints, ...added].sort((a, b) => a.offset - b.offset);
    if (this.#spacing > STEP) this.#checkpoints = thinned(this.#checkpoints, this.#spacing);
    while (this.#checkpoints.length > this.#checkpointsMax) {
      this.#spacing *= 2;
      this.#checkpoints = thinned(this.#checkpoints, this.#spacing);
    }
  }
}

/**
 * Checkpoints that lie so far apart at least. The ends stay: below the lowest nothing is counted yet, and at
 * the highest the next page is looked for.
 */
function thinned(checkpoints: readonly Checkpoint[], spacing: number): Checkpoint[] {
  const kept: Checkpoint[] = [];
  for (const checkpoint of checkpoints) {
    const last = kept.at(-1);
    if (last === undefined || checkpoint.offset - last.offset >= spacing) kept.push(checkpoint);
  }
  const highest = checkpoints.at(-1);
  if (highest !== undefined && kept.at(-1) !== highest) kept.push(highest);
  return kept;
}

const US_PER_MS = 1000;
/** Trades below the newest that are found by reading all of them. */
const NEAR = 1000;
/** Seconds of trades that are remembered; the present one is asked for again and again. */
const SECONDS_MAX = 2000;
/** Pages that are remembered: both endpoints show the same one, and many clients the newest. */
const PAGES_MAX = 48;

/** Trades as they could be seen at some times. */
export class TradeView {
  readonly #sight: Sight;
  readonly #seconds: FreshCache<TradeRow[]>;
  readonly #pages: FreshCache<TradeRow[]>;
  readonly #offsets = new Map<number, TradeOffsets>();

  constructor(sight: Sight) {
    this.#sight = sight;
    this.#seconds = new FreshCache(sight.clock, SECONDS_MAX);
    this.#pages = new FreshCache(sight.clock, PAGES_MAX);
  }

  /**
   * The place below which all trades are visible at an instant, and above which none is.
   *
   * A trade is visible from its exact time on, or where that is not known from the end of its
   * second; and never before one that comes before it in the order of ids. Without that last rule a
   * trade could appear below others that were shown already, where no client would look for it again.
   */
  async top(marketId: number, nowMs: number): Promise<TradePlace> {
    const { asOf, toMs } = this.#sight;
    const nowUs = Math.min(nowMs * US_PER_MS, toMs * US_PER_MS - 1);
    const second = Math.floor(nowUs / SECOND_US);
    const key = `${marketId} ${second}`;
    const rows = await this.#seconds.get(key, () => asOf.tradesOfSecond(marketId, second));
    const hidden = rows.find(({ executedAtUs }) => executedAtUs === null || executedAtUs > nowUs);
    return hidden === undefined
      ? startOfSecond(second + 1)
      : { tradedAtS: second, tid: hidden.tid };
  }

  /** A page of the trades that are visible at an instant, newest first, after leaving out the newest. */
  async page(marketId: number, nowMs: number, skip: number, limit: number): Promise<TradeRow[]> {
    const top = await this.top(marketId, nowMs);
    const read = async (before: TradePlace, drop: number) => {
      const count = drop + limit;
      const key = `${marketId} ${before.tradedAtS} ${before.tid} ${count}`;
      const rows = await this.#pages.get(key, () =>
        this.#sight.asOf.tradesBefore(marketId, before, count),
      );
      return drop === 0 ? rows : rows.slice(drop);
    };
    if (skip <= NEAR) return read(top, skip);
    const start = await this.#offsetsOf(marketId).find(top, skip);
    return start === undefined ? [] : read(start.before, start.drop);
  }

  #offsetsOf(marketId: number): TradeOffsets {
    const known = this.#offsets.get(marketId);
    if (known !== undefined) return known;
    // Markets that are no longer paged through are dropped.
    for (const [id, one] of this.#offsets) if (one.isStale) this.#offsets.delete(id);
    const offsets = new TradeOffsets(this.#sight.asOf, marketId, this.#sight.clock);
    this.#offsets.set(marketId, offsets);
    return offsets;
  }
}
