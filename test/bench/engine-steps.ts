import { LevelEntry, type LevelKey, LevelList } from '../../src/sandbox/engine/level-list.js';
import { apply, newEngine, type Operation, type Place, type Stream } from './engine-stream.js';

/** A price level of which only the key and the number of its orders matter. */
class Level extends LevelEntry {
  held = 0;
}

/**
 * One side of a book whose prices count how often they are compared. The engine's own list of levels
 * is asked the same as in the engine, so the count is what the engine does, whatever machine it is.
 */
class CountingSide {
  readonly #sign: 1 | -1;
  readonly #keys = new Map<number, LevelKey>();
  readonly #list = new LevelList<Level>((key) => new Level(key));
  readonly #levels = new Map<number, Level>();
  #reads = 0;

  constructor(side: 'buy' | 'sell') {
    this.#sign = side === 'buy' ? -1 : 1;
  }

  /** Each comparison reads two prices. */
  get comparisons(): number {
    return this.#reads / 2;
  }

  /** An order begins to rest at a price. */
  add(ticks: number): void {
    const level = this.#list.obtain(this.#keyOf(ticks));
    level.held += 1;
    this.#levels.set(ticks, level);
  }

  /** An order at a price is finished or cancelled. */
  remove(ticks: number): void {
    const level = this.#levels.get(ticks);
    if (level === undefined) throw new Error(`no level at ${ticks}`);
    level.held -= 1;
    if (level.held > 0) return;
    this.#list.remove(level);
    this.#levels.delete(ticks);
  }

  /** The list compares keys by `<` and `===` only, which an object with a value does as well. */
  #keyOf(ticks: number): LevelKey {
    const known = this.#keys.get(ticks);
    if (known !== undefined) return known;
    const value = this.#sign * ticks;
    const counted = {
      valueOf: () => {
        this.#reads += 1;
        return value;
      },
    };
    const key = counted as unknown as LevelKey;
    this.#keys.set(ticks, key);
    return key;
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
    if (order !== undefined && open.delete(id)) sides[order.side].remove(order.ticks);
  };
  const step = (operation: Operation) => {
    apply(engine, operation);
    if (operation.kind === 'cancel') return close(operation.id);
    for (const maker of filled) if (engine.order(maker) === undefined) close(maker);
    filled = [];
    if (engine.order(operation.id) === undefined) return;
    sides[operation.side].add(operation.ticks);
    open.set(operation.id, operation);
  };
  for (const order of resting) step(order);
  const before = sides.buy.comparisons + sides.sell.comparisons;
  for (const operation of operations) step(operation);
  return (sides.buy.comparisons + sides.sell.comparisons - before) / operations.length;
}
