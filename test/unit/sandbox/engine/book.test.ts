import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Side } from '../../../../src/contract/values.js';
import { seededRandom } from '../../../../src/kernel/random.js';
import { BookSide, type Order } from '../../../../src/sandbox/engine/book.js';
import fc from '../../../support/properties.js';

const HUGE = 2n ** 60n;

/** A side of a book beside a plain list of its orders. */
class Pair {
  readonly side: BookSide;
  readonly sign: bigint;
  orders: Order[] = [];

  constructor(side: Side) {
    this.side = new BookSide(side);
    this.sign = side === 'buy' ? -1n : 1n;
  }

  add(price: bigint): void {
    const order = { price, left: price + 1n } as Order;
    this.side.add(order);
    this.orders.push(order);
  }

  remove(at: number): void {
    const [order] = this.orders.splice(at % this.orders.length, 1);
    if (order !== undefined) this.side.remove(order);
  }

  compare(offset: number, limit: number): void {
    const sorted = this.orders.toSorted((a, b) => Number((a.price - b.price) * this.sign));
    assert.equal(this.side.orders, sorted.length);
    assert.equal(this.side.best?.price, sorted[0]?.price);
    assert.deepEqual(this.side.page(offset, limit), sorted.slice(offset, offset + limit));
    const sums = new Map<bigint, bigint>();
    for (const { price, left } of sorted) sums.set(price, (sums.get(price) ?? 0n) + left);
    assert.deepEqual(
      this.side.levels(limit).map(({ price, amount }) => [price, amount]),
      [...sums].slice(0, limit),
    );
  }
}

test('holds orders by price and age, whatever comes and goes', () => {
  const price = fc.oneof(
    fc.integer({ min: 1, max: 400 }).map(BigInt),
    fc.integer({ min: 0, max: 60 }).map((tick) => HUGE + BigInt(tick)),
  );
  const steps = fc.array(fc.oneof(price, fc.nat(900)), { maxLength: 900, size: 'max' });
  fc.assert(
    fc.property(
      fc.constantFrom<Side>('buy', 'sell'),
      steps,
      fc.nat(600),
      fc.nat(40),
      (side, all, offset, limit) => {
        const pair = new Pair(side);
        for (const step of all) {
          if (typeof step === 'bigint') pair.add(step);
          else pair.remove(step);
        }
        pair.compare(offset, limit);
        pair.compare(0, 5);
        while (pair.orders.length > 0) pair.remove(0);
        pair.compare(0, 5);
      },
    ),
    { numRuns: 60 },
  );
});

test('a price is found with as many comparisons as the logarithm says', () => {
  const counts = [1_000, 100_000].map((size) => {
    const random = seededRandom(7);
    const draw = () => Math.floor(random() * 2 ** 50);
    const side = new BookSide('sell');
    let comparisons = 0;
    const probe = () => {
      const value = HUGE + BigInt(draw());
      const price = {
        valueOf: () => {
          comparisons += 1;
          return value;
        },
      };
      return { price: price as unknown as bigint, left: 0n } as Order;
    };
    for (let index = 0; index < size; index += 1)
      side.add({ ...probe(), price: HUGE + BigInt(draw()) });
    const probes = 500;
    for (let index = 0; index < probes; index += 1) side.add(probe());
    return comparisons / probes;
  });
  const [small = 0, large = 0] = counts;
  assert.ok(large < 2 * Math.log2(100_000), `${large}`);
  assert.ok(large / small < 1.2 * (Math.log2(100_000) / Math.log2(1_000)), `${counts.join(', ')}`);
});
