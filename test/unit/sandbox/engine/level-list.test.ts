import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { seededRandom } from '../../../../src/kernel/random.js';
import { LevelEntry, type LevelKey, LevelList } from '../../../../src/sandbox/engine/level-list.js';

class Entry extends LevelEntry {}

const HUGE = 2n ** 60n;

function newList(): LevelList<Entry> {
  return new LevelList((key) => new Entry(key));
}

/** a list beside a plain map of orders by key. */
class Twin {
  readonly list = newList();
  readonly orders = new Map<LevelKey, number>();

  add(key: LevelKey, count: number): void {
    const entry = this.list.obtain(key);
    assert.equal(entry.key, key);
    this.list.count(entry, count);
    this.orders.set(key, (this.orders.get(key) ?? 0) + count);
  }

  drop(key: LevelKey): void {
    const count = this.orders.get(key);
    if (count === undefined) return;
    const entry = this.list.obtain(key);
    this.list.count(entry, -count);
    this.list.remove(entry);
    this.orders.delete(key);
  }

  sorted(): Array<[LevelKey, number]> {
    return [...this.orders].sort(([a], [b]) => (a < b ? -1 : 1));
  }

  compare(offset: number, limit: number): void {
    const sorted = this.sorted();
    assert.equal(this.list.first?.key, sorted[0]?.[0]);
    assert.deepEqual(
      Array.from(this.list, ({ key, orders }) => [key, orders]),
      sorted,
    );
    assert.deepEqual(
      this.list.head(limit).map(({ key }) => key),
      sorted.slice(0, limit).map(([key]) => key),
    );
    const all = sorted.flatMap(([key, count]) => Array.from({ length: count }, () => key));
    assert.equal(this.list.orders, all.length);
    const { entries, skip } = this.list.seek(offset, limit);
    const found = entries.flatMap(({ key, orders }) => Array.from({ length: orders }, () => key));
    assert.deepEqual(found.slice(skip, skip + limit), all.slice(offset, offset + limit));
    const last = entries.at(-1);
    const isNeeded = last === undefined || found.length - last.orders < skip + limit;
    assert.ok(isNeeded, 'no entry beyond the page');
  }
}

test('holds entries in order, counts and finds their orders, whatever comes and goes', () => {
  const key = fc.oneof(
    fc.integer({ min: -400, max: 400 }),
    fc.integer({ min: 0, max: 60 }).map((tick) => HUGE + BigInt(tick)),
    fc.integer({ min: 0, max: 60 }).map((tick) => -HUGE - BigInt(tick)),
  );
  const step = fc.record({ key, count: fc.integer({ min: -3, max: 3 }) });
  fc.assert(
    fc.property(
      fc.array(step, { maxLength: 900, size: 'max' }),
      fc.nat(1500),
      fc.nat(40),
      (steps, offset, limit) => {
        const twin = new Twin();
        for (const { key: at, count } of steps) {
          if (count > 0) twin.add(at, count);
          else twin.drop(at);
        }
        twin.compare(offset, limit);
        for (const [at] of twin.sorted()) twin.drop(at);
        twin.compare(0, 5);
      },
    ),
    { numRuns: 60 },
  );
});

test('three levels of nodes grow and go, from either end and from within', () => {
  const random = seededRandom(3);
  const twin = new Twin();
  for (let count = 0; count < 20_000; count += 1) twin.add(Math.floor(random() * 1e9), 1);
  for (const offset of [0, 63, 64, 9_999, 19_990, 30_000]) twin.compare(offset, 20);
  const keys = twin.sorted().map(([key]) => key);
  for (const key of keys.slice(0, 7_000)) twin.drop(key);
  twin.compare(100, 10);
  for (const key of keys.slice(14_000).reverse()) twin.drop(key);
  twin.compare(6_990, 20);
  for (const key of keys) if (random() < 0.97) twin.drop(key);
  twin.compare(3, 1_000);
  for (const key of keys) twin.drop(key);
  twin.compare(0, 1);
  twin.add(1, 2);
  twin.compare(1, 1);
});

/** A key that counts how often it is compared. */
function countedKey(value: number, told: () => void): LevelKey {
  const key = {
    valueOf: () => {
      told();
      return value;
    },
  };
  return key as unknown as LevelKey;
}

test('a key is found with as many comparisons as the logarithm says', () => {
  const counts: number[] = [];
  for (const size of [1_000, 100_000]) {
    const random = seededRandom(7);
    const tree = newList();
    for (let index = 0; index < size; index += 1) tree.obtain(Math.floor(random() * 2 ** 50));
    let comparisons = 0;
    const probes = 500;
    for (let index = 0; index < probes; index += 1) {
      tree.obtain(
        countedKey(Math.floor(random() * 2 ** 50), () => {
          comparisons += 1;
        }),
      );
    }
    counts.push(comparisons / probes);
    assert.ok(comparisons / probes < 2 * Math.log2(size), `${comparisons / probes} at ${size}`);
  }
  const [small = 0, large = 0] = counts;
  assert.ok(large / small < 1.2 * (Math.log2(100_000) / Math.log2(1_000)), `${counts.join(', ')}`);
});
