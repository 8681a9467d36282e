import {
  type AsOfReader,
  startOfSecond,
  type TradePlace,
  type TradeRow,
} from '../archive/past/past.js';
import type { Clock } from '../kernel/clock.js';
import { RefusedError } from '../server/backend.js';
import { FreshCache } from './fresh-cache.js';
import { TradeOffsets } from './trade-ranks.js';

const US_PER_S = 1_000_000;
const US_PER_MS = 1000;
/** Trades below the newest that are found by reading all of them. */
const NEAR = 1000;
/** How deep pages of what was known at a time reach: what is known changes all the way down. */
const KNOWN_DEPTH_MAX = 100_000;
/** Seconds of trades that are remembered; the present one is asked for again and again. */
const SECONDS_MAX = 2000;
/** Pages that are remembered: both endpoints show the same one, and many clients the newest. */
const PAGES_MAX = 48;

/** Trades as they could be seen at some times. */
export class TradeView {
  readonly #asOf: AsOfReader;
  readonly #clock: Clock;
  readonly #toMs: number;
  readonly #isKnownOnly: boolean;
  readonly #seconds: FreshCache<TradeRow[]>;
  readonly #pages: FreshCache<TradeRow[]>;
  readonly #ranks = new Map<number, TradeOffsets>();

  /** @param toMs no trade of this instant or later is ever seen */
  constructor(asOf: AsOfReader, clock: Clock, toMs: number, isKnownOnly: boolean) {
    this.#asOf = asOf;
    this.#clock = clock;
    this.#toMs = toMs;
    this.#isKnownOnly = isKnownOnly;
    this.#seconds = new FreshCache(clock, SECONDS_MAX);
    this.#pages = new FreshCache(clock, PAGES_MAX);
  }

  /**
   * The place below which all trades are visible at an instant, and above which none is.
   *
   * A trade is visible from its exact time on, or where that is not known from the end of its
   * second; and never before one that comes before it in the order of ids. Without that last rule a
   * trade could appear below others that were shown already, where no client would look for it again.
   */
  async top(marketId: number, nowMs: number): Promise<TradePlace> {
    const nowUs = Math.min(nowMs * US_PER_MS, this.#toMs * US_PER_MS - 1);
    const second = Math.floor(nowUs / US_PER_S);
    const key = `${marketId} ${second}`;
    const all = await this.#seconds.get(key, () => this.#asOf.tradesOfSecond(marketId, second));
    const rows = this.#isKnownOnly ? all.filter((row) => row.receivedAtMs <= nowMs) : all;
    const hidden = rows.find(({ executedAtUs }) => executedAtUs === null || executedAtUs > nowUs);
    return hidden === undefined
      ? startOfSecond(second + 1)
      : { tradedAtS: second, tid: hidden.tid };
  }

  /**
   * A page of the trades that are visible at an instant, newest first, after leaving out the newest.
   *
   * @throws RefusedError `unavailable` for a page that lies too deep
   */
  async page(marketId: number, nowMs: number, skip: number, limit: number): Promise<TradeRow[]> {
    const top = await this.top(marketId, nowMs);
    const knownAt = this.#isKnownOnly ? nowMs : null;
    const read = async (before: TradePlace, drop: number) => {
      const count = drop + limit;
      const key = `${marketId} ${before.tradedAtS} ${before.tid} ${count} ${knownAt}`;
      const rows = await this.#pages.get(key, () =>
        this.#asOf.tradesBefore(marketId, before, count, knownAt),
      );
      return drop === 0 ? rows : rows.slice(drop);
    };
    if (skip <= NEAR) return read(top, skip);
    if (this.#isKnownOnly) {
      if (skip + limit <= KNOWN_DEPTH_MAX) return read(top, skip);
      throw new RefusedError(
        'unavailable',
        `with --as known pages end ${KNOWN_DEPTH_MAX} trades back; begin at an earlier time instead`,
      );
    }
    const start = await this.#ranksOf(marketId).find(top, skip);
    return start === undefined ? [] : read(start.before, start.drop);
  }

  #ranksOf(marketId: number): TradeOffsets {
    const known = this.#ranks.get(marketId);
    if (known !== undefined) return known;
    // Markets that are no longer paged through are dropped.
    for (const [id, one] of this.#ranks) if (one.isStale) this.#ranks.delete(id);
    const offsets = new TradeOffsets(this.#asOf, marketId, this.#clock);
    this.#ranks.set(marketId, offsets);
    return offsets;
  }
}
