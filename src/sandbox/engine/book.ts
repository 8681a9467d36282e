import type { Side } from '../../contract/values.js';
import { obtain } from '../../kernel/bounded.js';
import { firstNot } from '../../kernel/sorted.js';

/** Balance of one account in one currency, in units of 10^−MAX_PLACES. */
export class Holding {
  /** Not bound in orders. */
  available = 0n;
  /** Bound in open orders. */
  freeze = 0n;
}

/** A currency and everything that exists of it. */
export class Currency {
  readonly name: string;
  readonly holdings = new Map<string, Holding>();
  /** The exchange's own account: all fees ever paid. */
  readonly fees = new Holding();
  /** All that was ever deposited. */
  deposited = 0n;

  constructor(name: string) {
    this.name = name;
  }

  holding(account: string): Holding {
    return obtain(this.holdings, account, () => new Holding());
  }
}

/** An account in one market: its holdings of the two currencies and its open orders. */
export interface Participant {
  readonly base: Holding;
  readonly quote: Holding;
  /** The newest last. */
  readonly orders: Set<Order>;
}

/**
 * A limit order. *Open* while it has something left and stands in a book; *finished* when nothing
 * is left; *cancelled* when it was taken out before that. Quantities are in units of its market.
 */
export interface Order {
  readonly id: number;
  readonly account: string;
  readonly participant: Participant;
  readonly market: string;
  readonly side: Side;
  /** Creation time, UNIX microseconds. */
  readonly timeUs: number;
  /** Units of 10^−moneyPrec. */
  readonly price: bigint;
  /** Units of 10^−stockPrec; so is `left`. */
  readonly amount: bigint;
  /** 0 means a finished order; a cancelled one keeps what was left. */
  left: bigint;
  /** Units of 10^−(stockPrec + moneyPrec). */
  dealMoney: bigint;
  /** Rates in units of 10^−feePrec. */
  readonly takerFee: bigint;
  readonly makerFee: bigint;
}

/** Visible part of an order. */
export type OrderState = Readonly<Omit<Order, 'participant'>>;

/** All open orders of one side at one price. */
export interface PriceLevel {
  readonly price: bigint;
  /** The price as a number where that is exact: numbers compare several times faster. */
  readonly key: number | bigint;
  /** Sum of what is left of the orders. */
  amount: bigint;
  /** The oldest first. */
  readonly orders: Order[];
}

/** Most levels of a chunk: moving half of them is cheap, and 100,000 levels stand in some 600. */
const CHUNK_MAX = 256;

const LAST_EXACT_NUMBER = BigInt(Number.MAX_SAFE_INTEGER);

interface Chunk {
  /** Never empty, but in a side without orders. */
  readonly levels: PriceLevel[];
  /** Orders in all of them. */
  orders: number;
}

/**
 * One side of a market's book: its price levels, in each the oldest order first. Levels stand in chunks
 * that know how many orders they hold: one that comes or goes moves few others, and what is skipped is
 * skipped quickly.
 */
export class BookSide {
  readonly #isBuy: boolean;
  /** The best first. */
  readonly #chunks: Chunk[] = [{ levels: [], orders: 0 }];
  #orders = 0;

  constructor(side: Side) {
    this.#isBuy = side === 'buy';
  }

  /** Number of open orders. */
  get orders(): number {
    return this.#orders;
  }

  /** The level that is matched first. */
  get best(): PriceLevel | undefined {
    return this.#chunks[0]?.levels[0];
  }

  add(order: Order): void {
    const { price } = order;
    const { key, chunk, index, at } = this.#placeOf(price);
    const { levels } = chunk;
    let level = levels[at];
    if (level?.key !== key) {
      level = { price, key, amount: 0n, orders: [] };
      levels.splice(at, 0, level);
    }
    level.orders.push(order);
    level.amount += order.left;
    chunk.orders += 1;
    this.#orders += 1;
    if (levels.length <= CHUNK_MAX) return;
    const behind = levels.splice(CHUNK_MAX / 2);
    const orders = behind.reduce((sum, one) => sum + one.orders.length, 0);
    chunk.orders -= orders;
    this.#chunks.splice(index + 1, 0, { levels: behind, orders });
  }

  /** Takes out an order of this side, whatever is left of it; the level goes with its last order. */
  remove(order: Order): void {
    const { chunk, index, at } = this.#placeOf(order.price);
    const level = chunk.levels[at];
    const place = level?.orders.indexOf(order) ?? -1;
    if (level === undefined || place < 0) return;
    level.orders.splice(place, 1);
    level.amount -= order.left;
    chunk.orders -= 1;
    this.#orders -= 1;
    if (level.orders.length === 0) chunk.levels.splice(at, 1);
    if (chunk.orders === 0 && this.#chunks.length > 1) this.#chunks.splice(index, 1);
  }

  /** The best `limit` levels, best first. */
  levels(limit: number): PriceLevel[] {
    const found: PriceLevel[] = [];
    for (const { levels } of this.#chunks) {
      if (found.length >= limit) break;
      found.push(...levels.slice(0, limit - found.length));
    }
    return found;
  }

  /** Up to `limit` orders after the best `offset`, best first. Costs O(chunks + limit). */
  page(offset: number, limit: number): Order[] {
    const rows: Order[] = [];
    let skip = offset;
    for (const chunk of this.#chunks) {
      if (skip >= chunk.orders) {
        skip -= chunk.orders;
        continue;
      }
      for (const { orders } of chunk.levels) {
        if (rows.length >= limit) return rows;
        for (const order of orders.slice(skip, skip + limit - rows.length)) rows.push(order);
        skip = Math.max(0, skip - orders.length);
      }
    }
    return rows;
  }

  /** Index at which the level of a price is, or belongs. Costs O(log levels). */
  #placeOf(price: bigint) {
    const chunks = this.#chunks;
    const key = price <= LAST_EXACT_NUMBER ? Number(price) : price;
    // The first chunk that does not end before the price; what is behind all belongs to the last.
    const index = firstNot(chunks.length - 1, (one) =>
      this.#isBefore(chunks[one]?.levels.at(-1), key),
    );
    const chunk = chunks[index] ?? { levels: [], orders: 0 };
    const { levels } = chunk;
    const at = firstNot(levels.length, (one) => this.#isBefore(levels[one], key));
    return { key, chunk, index, at };
  }

  #isBefore(level: PriceLevel | undefined, key: PriceLevel['key']): boolean {
    if (level === undefined) return false;
    return this.#isBuy ? level.key > key : level.key < key;
  }
}
