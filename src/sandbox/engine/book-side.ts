import type { Side } from '../../contract/values.js';
import { type LevelKey, LevelList } from './level-list.js';
import { type Order, PriceLevel } from './order.js';

const LAST_EXACT_NUMBER = BigInt(Number.MAX_SAFE_INTEGER);

/** One side of a market's book: price levels best first, in each the oldest order first. */
export class BookSide {
  readonly #isBuy: boolean;
  readonly #levels: LevelList<PriceLevel>;

  constructor(side: Side) {
    this.#isBuy = side === 'buy';
    this.#levels = new LevelList((key) => new PriceLevel(key, BigInt(key < 0 ? -key : key)));
  }

  /** Number of open orders. */
  get orders(): number {
    return this.#levels.orders;
  }

  /** The level that is matched first. */
  get best(): PriceLevel | undefined {
    return this.#levels.first;
  }

  add(order: Order): void {
    const { price } = order;
    const magnitude: LevelKey = price <= LAST_EXACT_NUMBER ? Number(price) : price;
    // The best price comes first: the lowest of the sells, the highest of the buys.
    const level = this.#levels.obtain(this.#isBuy ? -magnitude : magnitude);
    level.append(order);
    this.#levels.count(level, 1);
  }

  /** Takes out an order of this side, whatever is left of it; the level goes with its last order. */
  remove(order: Order): void {
    const { level } = order;
    if (level === undefined) return;
    level.detach(order);
    this.#levels.count(level, -1);
    if (level.oldest === undefined) this.#levels.remove(level);
  }

  /** The best `limit` levels. */
  levels(limit: number): PriceLevel[] {
    return this.#levels.head(limit);
  }

  /** Up to `limit` orders after the best `offset`, best first. Costs O(log levels + limit + skipped orders of one level). */
  page(offset: number, limit: number): Order[] {
    const rows: Order[] = [];
    const { entries, skip } = this.#levels.seek(offset, limit);
    let skipped = 0;
    for (const level of entries) {
      let order = level.oldest;
      while (order !== undefined && rows.length < limit) {
        if (skipped < skip) skipped += 1;
        else rows.push(order);
        order = order.behind;
      }
    }
    return rows;
  }
}
