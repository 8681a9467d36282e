import assert from 'node:assert/strict';
import test from 'node:test';
import {
  decimal,
  int4,
  int8,
  levels,
  micros,
  millis,
  nullable,
  oneOf,
  positiveInt4,
  positiveInt8,
  seconds,
} from '../../../src/model/columns.js';

/** What of each column type can be stored, and which texts of it mean the same. */

const faultsOf = <Value>(type: { faultOf(value: Value): string | undefined }, values: Value[]) =>
  values.map((value) => type.faultOf(value) ?? 'fine');
const [FINE, NOT] = ['fine', 'not storable'];

test('numbers are stored within the bounds of their columns', () => {
  const big = 2 ** 31;
  assert.deepEqual(faultsOf(int4, [-1, 0, big - 1, big, 1.5]), [NOT, FINE, FINE, NOT, NOT]);
  assert.deepEqual(faultsOf(positiveInt4, [0, 1, big - 1, big]), [NOT, FINE, FINE, NOT]);
  assert.deepEqual(faultsOf(positiveInt8, [0, 1, 2 ** 53 - 1, 2 ** 53]), [NOT, FINE, FINE, NOT]);
  assert.deepEqual(faultsOf(int8, [-1, 2 ** 53, 0.5]), [FINE, NOT, NOT]);
});

test('times are stored from 1970 to the end of the year 9999, each in its own unit', () => {
  const endMs = Date.UTC(10_000, 0, 1);
  assert.deepEqual(faultsOf(millis, [-1, 0, endMs - 1, endMs]), [NOT, FINE, FINE, NOT]);
  assert.deepEqual(faultsOf(micros, [-1, 0, 1.5]), [NOT, FINE, NOT]);
  const whole = 'not a whole second';
  const found = faultsOf(seconds, [-1, 0, endMs / 1000 - 1, endMs / 1000, 0.5]);
  assert.deepEqual(found, [NOT, FINE, FINE, NOT, whole]);
  const atMs = [seconds.encode(7), millis.encode(7000), micros.encode(7_000_000)].map(Date.parse);
  assert.deepEqual(atMs, [7000, 7000, 7000]);
  assert.equal(micros.encode(7_000_001), '1970-01-01T00:00:07.000001Z');
  assert.deepEqual([seconds.toMs?.(7), millis.toMs?.(7), micros.toMs?.(7999)], [7000, 7, 7]);
});

test('a word is stored if it is one of those that its column names', () => {
  assert.deepEqual(faultsOf(oneOf('buy', 'sell'), ['buy', 'Buy' as 'buy']), [FINE, 'not known']);
});

test('a fault of a decimal says what is wrong with it', () => {
  const [price, amount, change] = [decimal('price', 1), decimal('amount'), decimal('price', -1)];
  const texts = ['1.5', '0.00', '-1', 'x'];
  const none = 'is not a decimal number';
  assert.deepEqual(faultsOf(price, texts), [FINE, 'is not above zero', 'is not above zero', none]);
  assert.deepEqual(faultsOf(amount, texts), [FINE, FINE, 'is negative', none]);
  assert.deepEqual(faultsOf(change, texts), [FINE, FINE, FINE, none]);
});

test('a side of a book has at most 10,000 levels, each above zero', () => {
  const side = levels('price');
  const many = (length: number) => Array.from({ length }, () => '1');
  assert.deepEqual(faultsOf(side, [[], many(10_000)]), [FINE, FINE]);
  assert.deepEqual(faultsOf(side, [many(10_001)]), ['has too many levels']);
  assert.deepEqual(faultsOf(side, [['1', '0']]), ['has a level that is not above zero']);
});

test('what may be unknown is stored as it is, or as nothing', () => {
  const type = nullable(int4);
  assert.deepEqual(faultsOf(type, [null, 1, -1]), [FINE, FINE, NOT]);
  assert.deepEqual([type.encode(null), type.encode(7)], ['', '7']);
  assert.deepEqual([type.decode(null), type.decode(undefined), type.decode(7)], [null, null, 7]);
});

test('decimals are the same by value, in lists place by place, all else by its text', () => {
  for (const type of [int4, millis, oneOf('a', 'b')]) {
    assert.equal(type.isSame('a', 'a'), true);
    assert.equal(type.isSame('1.0', '1'), false);
  }
  const [one, side] = [decimal('price'), levels('price')];
  assert.deepEqual([one.isSame('1.50', '1.5'), one.isSame('1.5', '1.6')], [true, false]);
  assert.equal(one.isSame('x', '1'), false);
  assert.equal(side.isSame('{1,2.0}', '{1.0,2}'), true);
  assert.equal(side.isSame('{1,2}', '{2,1}'), false);
  assert.deepEqual([side.isSame('{1,2}', '{1}'), side.isSame('{1}', '{1,2}')], [false, false]);
  assert.deepEqual([side.isSame('{}', '{}'), side.isSame('{}', '{1}')], [true, false]);
});
