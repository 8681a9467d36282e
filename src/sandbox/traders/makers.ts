import type { Side } from '../../contract/values.js';
import { drawHeavy } from '../draws.js';
import { Rejection } from '../errors.js';
import { OTHER_SIDE, type TraderContext } from './trader-context.js';

/** The account of all makers in every market. No API key leads to it. */
export const MAKERS = 'makers';

/** Half the spread as a share of the price, in a market whose activity is 1. */
const HALF_SPREAD = 0.000_008;
/** Quotes that one look at the book adds to a side with too few of them. */
const REFILL_MAX = 3;
/** Stale quotes taken back on each side before new ones are placed. */
const FLEES_MAX = 6;
const SIDES = ['buy', 'sell'] as const;

/**
 * Those who keep a book around the reference price: many orders near it, fewer and fewer away from
 * it. They never take; what the reference has left behind they take back.
 */
export class Makers {
  readonly #context: TraderContext;
  readonly #halfSpread: number;
  readonly #ordersPerSide: number;
  /** Ids of their orders; those that were filled are noticed when they are looked at. */
  readonly #quotes: Record<Side, number[]> = { buy: [], sell: [] };

  constructor(context: TraderContext) {
    this.#context = context;
    const { activity, baseTicks } = context.shape;
    this.#halfSpread = (HALF_SPREAD / Math.sqrt(activity)) * baseTicks;
    this.#ordersPerSide = 20 + Math.floor(180 * Math.sqrt(Math.min(1, activity)));
  }

  /** Places orders until both sides are full. */
  fill(timeUs: number): void {
    for (let count = 0; count < this.#ordersPerSide; count += 1) {
      for (const side of SIDES) {
        if (this.#context.ordersOn(side) < this.#ordersPerSide) this.#quote(side, timeUs);
      }
    }
  }

  /** One look at the book: what is stale goes, and on each side something moves. */
  requote(timeUs: number): void {
    const reference = this.#context.referenceAt(timeUs);
    this.#flee('buy', (price) => price > reference);
    this.#flee('sell', (price) => price < reference);
    for (const side of SIDES) {
      const missing = this.#ordersPerSide - this.#context.ordersOn(side);
      // After a sweep a few more come, so that the book fills again within a while.
      const count = Math.max(1, Math.min(REFILL_MAX, missing));
      for (let index = 0; index < count; index += 1) this.#quote(side, timeUs);
      if (missing <= 0) this.#dropOne(side);
    }
  }

  /** Takes back everything. */
  leave(): void {
    for (const side of SIDES) {
      for (const id of this.#quotes[side].splice(0)) this.#context.engine.cancel(id);
    }
  }

  #flee(side: Side, isStale: (price: number) => boolean): void {
    const { engine, shape } = this.#context;
    for (let count = 0; count < FLEES_MAX; count += 1) {
      const order = engine.book(shape.name, side, 0, 1).rows[0];
      // Orders of others stay where they are, for takers.
      if (order === undefined || order.account !== MAKERS || !isStale(Number(order.price))) return;
      engine.cancel(order.id);
    }
  }

  #dropOne(side: Side): void {
    const { engine, random } = this.#context;
    if (this.#quotes[side].length > 2 * this.#ordersPerSide) {
      this.#quotes[side] = this.#quotes[side].filter((id) => engine.order(id) !== undefined);
    }
    const quotes = this.#quotes[side];
    while (quotes.length > 0) {
      const at = Math.floor(random() * quotes.length);
      const id = quotes[at];
      const last = quotes.pop();
      if (id === undefined || last === undefined) return;
      if (at < quotes.length) quotes[at] = last;
      if (!(engine.cancel(id) instanceof Rejection)) return;
    }
  }

  /** An order away from the reference, never one that would fill at once. */
  #quote(side: Side, timeUs: number): void {
    const context = this.#context;
    const half = this.#halfSpread * (0.6 + 0.8 * context.random());
    const away = Math.floor(half + context.reach * drawHeavy(context.random));
    const reference = Math.floor(context.referenceAt(timeUs));
    let price = this.#rounded(side === 'buy' ? reference - away : reference + 1 + away, side);
    const units = context.drawUnits(2);
    const opposite = context.best(OTHER_SIDE[side]);
    if (opposite !== undefined) {
      price = side === 'buy' ? Math.min(price, opposite - 1) : Math.max(price, opposite + 1);
    }
    if (price < 1) return;
    const order = context.place(MAKERS, side, price, units, timeUs);
    if (order !== undefined && order.left > 0n) this.#quotes[side].push(order.id);
  }

  /** People like round prices: some are moved outward to a multiple of ten or a hundred ticks. */
  #rounded(ticks: number, side: Side): number {
    const { random, reach } = this.#context;
    const draw = random();
    const step = draw < 0.1 ? 100 : draw < 0.4 ? 10 : 1;
    // A step that is wide compared to the book would leave nothing but round prices.
    if (step * 2 > reach) return ticks;
    return (side === 'buy' ? Math.floor(ticks / step) : Math.ceil(ticks / step)) * step;
  }
}
