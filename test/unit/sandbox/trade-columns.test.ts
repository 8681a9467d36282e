import assert from 'node:assert/strict';
import { test } from 'node:test';
import { equalDecimals, multiplyDecimals } from '../../../src/kernel/decimal.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { TradeColumns } from '../../../src/sandbox/trade-columns.js';
import fc from '../../support/properties.js';

function filled(count: number, seed: number): { columns: TradeColumns; values: bigint[][] } {
  const columns = new TradeColumns(2, 3);
  const random = seededRandom(seed);
  const values: bigint[][] = [];
  for (let index = 0; index < count; index += 1) {
    const price = BigInt(1 + Math.floor(random() * 10_000));
    const amount = BigInt(1 + Math.floor(random() * 1_000_000));
    columns.append(index + 1, index * 10, price, amount, random() < 0.5);
    values.push([price, amount]);
  }
  return { columns, values };
}

test('sums over any stretch equal the plain sums, also after old trades were dropped', () => {
  const { columns, values } = filled(13_000, 5);
  let dropped = 0;
  const stretch = fc.tuple(fc.nat(13_000), fc.nat(13_000));
  const check = () =>
    fc.assert(
      fc.property(stretch, ([a, b]) => {
        const from = Math.max(dropped, Math.min(a, b));
        const to = Math.max(from, Math.max(a, b));
        const sum = { count: to - from, amount: 0n, quoteVolume: 0n, high: 0n, low: 0n };
        for (const [index, [price = 0n, amount = 0n]] of values.slice(from, to).entries()) {
          sum.amount += amount;
          sum.quoteVolume += price * amount;
          if (index === 0 || price > sum.high) sum.high = price;
          if (index === 0 || price < sum.low) sum.low = price;
        }
        assert.deepEqual(columns.figures(from, to), sum);
      }),
      { numRuns: 60 },
    );
  check();
  dropped = 5_001;
  columns.dropBefore(dropped);
  assert.equal(columns.base, dropped);
  assert.equal(columns.idAt(dropped), dropped + 1);
  check();
  columns.dropBefore(10);
  assert.equal(columns.base, dropped, 'dropping goes forwards only');
});

test('totals are exact products', () => {
  const { columns } = filled(500, 9);
  for (let position = 0; position < columns.end; position += 1) {
    const { price, amount, total } = columns.tradeAt(position);
    assert.equal(total, multiplyDecimals(price, amount));
    assert.ok(equalDecimals(total, multiplyDecimals(amount, price)));
  }
});

test('positions are found by time', () => {
  const { columns } = filled(100, 1);
  assert.equal(columns.firstAtOrAfter(0), 0);
  assert.equal(columns.firstAtOrAfter(10), 1);
  assert.equal(columns.firstAfter(10), 2);
  assert.equal(columns.firstAtOrAfter(11), 2);
  assert.equal(columns.firstAtOrAfter(1e9), 100);
  columns.dropBefore(50);
  assert.equal(columns.firstAtOrAfter(0), 50);
});
