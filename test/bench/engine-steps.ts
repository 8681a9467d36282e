import { BookSide, type Order } from '../../src/sandbox/engine/book.js';
import { apply, newEngine, type Operation, type Place, type Stream } from './engine-stream.js';

const HUGE = 2n ** 60n;

/**
 * One side of a book whose prices count how often they are compared. The engine's own side is asked the
 * same as in the engine, so the count is what the engine does, whatever machine it is.
 */
class CountingSide {
  readonly #prices = new Map<number, bigint>();
  readonly #side: BookSide;
  readonly #orders = new Map<number, Order>();
  #reads = 0;

  constructor(side: 'buy' | 'sell') {
    this.#side = new BookSide(side);
  }

  /** Each comparison reads two prices. */
  get comparisons(): number {
    return this.#reads / 2;
  }

  /** An order begins to rest. */
  add({ id, ticks }: Place): void {
    const order = { price: this.#priceOf(ticks), left: 0n } as Order;
    this.#side.add(order);
    this.#orders.set(id, order);
  }

  /** An order is finished or cancelled. */
  remove({ id }: Place): void {
    const order = this.#orders.get(id);
    if (order === undefined) throw new Error(`no order ${id}`);
    this.#side.remove(order);
    this.#orders.delete(id);
  }

  /** Prices beyond all exact numbers are compared as they are, which one object for each does as well. */
  #priceOf(ticks: number): bigint {
    const known = this.#prices.get(ticks);
    if (known !== undefined) return known;
    const counted = {
      valueOf: () => {
        this.#reads += 1;
        return HUGE + BigInt(ticks);
      },
    };
    const price = counted as unknown as bigint;
    this.#prices.set(ticks, price);
    return price;
  }
}

/** Comparisons of prices that a step costs: the engine does the stream, counting sides what it does to levels. */
export function comparisonsAStep({ resting, operations }: Stream): number {
  const sides = { buy: new CountingSide('buy'), sell: new CountingSide('sell') };
  const open = new Map<number, Place>();
  let filled: number[] = [];
  const engine = newEngine(({ makerOrderId }) => {
    filled.push(makerOrderId);
  });
  const close = (id: number) => {
    const order = open.get(id);
    if (order !== undefined && open.delete(id)) sides[order.side].remove(order);
  };
  const step = (operation: Operation) => {
    apply(engine, operation);
    if (operation.kind === 'cancel') return close(operation.id);
    for (const maker of filled) if (engine.order(maker) === undefined) close(maker);
    filled = [];
    if (engine.order(operation.id) === undefined) return;
    sides[operation.side].add(operation);
    open.set(operation.id, operation);
  };
  for (const order of resting) step(order);
  const before = sides.buy.comparisons + sides.sell.comparisons;
  for (const operation of operations) step(operation);
  return (sides.buy.comparisons + sides.sell.comparisons - before) / operations.length;
}
