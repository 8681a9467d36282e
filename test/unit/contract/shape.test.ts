import assert from 'node:assert/strict';
import test from 'node:test';
import { z } from 'zod';
import { endpoints } from '../../../src/contract/endpoints.js';
import {
  describeIssues,
  holderShape,
  listShape,
  mapShape,
  wholeShape,
} from '../../../src/contract/shape.js';
import { decimalText, idNumber } from '../../../src/contract/values.js';
import fc from '../../support/properties.js';

const row = z.object({ id: idNumber, price: decimalText });
const good = (id: number) => ({ id, price: '1.5' });
const bad = { id: 2, price: 'NaN' };

const notLists: readonly unknown[] = [undefined, null, 1, 'text', true, {}, { 0: good(1) }];
const notMaps: readonly unknown[] = [undefined, null, 1, 'text', true, [1], [good(1)]];

test('a list keeps its good rows in order and reports each bad one with place and reason', () => {
  const { data, rejected } = listShape(row).parse([good(1), bad, good(3), null, good(5)]);
  assert.deepEqual(data, [good(1), good(3), good(5)]);
  assert.deepEqual(
    rejected.map(({ at, payload }) => [at, payload]),
    [
      [1, bad],
      [3, null],
    ],
  );
  assert.match(
    rejected[0]?.reason ?? '',
    /^price: not a decimal number such as 0\.5, of bounded length$/,
  );
  assert.match(rejected[1]?.reason ?? '', /^value: .*expected object/);
});

test('an empty list is good; what is no list is bad as a whole', () => {
  assert.deepEqual(listShape(row).parse([]), { data: [], rejected: [] });
  for (const payload of notLists) {
    assert.throws(() => listShape(row).parse(payload), z.ZodError);
  }
});

test('a map keeps its good values and reports each bad one under its name', () => {
  const { data, rejected } = mapShape(row).parse({ BTC_USDT: good(1), ETH_USDT: bad });
  assert.deepEqual({ ...data }, { BTC_USDT: good(1) });
  assert.deepEqual(
    rejected.map(({ at, payload }) => [at, payload]),
    [['ETH_USDT', bad]],
  );
  assert.match(rejected[0]?.reason ?? '', /^price: /);
});

test('a map that the server sends empty may come as an empty list', () => {
  for (const payload of [{}, []]) {
    const { data, rejected } = mapShape(row).parse(payload);
    assert.deepEqual([Object.keys(data), rejected], [[], []]);
  }
  for (const payload of notMaps) assert.throws(() => mapShape(row).parse(payload), z.ZodError);
});

test('a bad name costs its own value only', () => {
  const payload = { '': good(1), ['x'.repeat(65)]: good(2), BTC_USDT: good(3) };
  const { data, rejected } = mapShape(row).parse(payload);
  assert.deepEqual({ ...data }, { BTC_USDT: good(3) });
  assert.deepEqual(
    rejected.map(({ at }) => at),
    ['', 'x'.repeat(65)],
  );
  for (const { reason } of rejected) assert.match(reason, /^name: /);
});

test('names that mean something to JavaScript are names like any other', () => {
  const payload: unknown = JSON.parse(
    '{"__proto__":{"id":1,"price":"1"},"constructor":{"id":2,"price":"1"},"toString":7}',
  );
  const { data, rejected } = mapShape(row).parse(payload);
  assert.deepEqual(Object.keys(data), ['__proto__', 'constructor']);
  assert.equal(Object.getPrototypeOf(data), null);
  assert.equal(data.hasOwnProperty, undefined);
  assert.deepEqual(
    rejected.map(({ at }) => at),
    ['toString'],
  );
});

test('a holder keeps its header and its good rows, and reports the bad ones', () => {
  const shape = holderShape(z.object({ total: z.number() }), 'orders', row);
  const { data, rejected } = shape.parse({ total: 3, orders: [good(1), bad, good(3)], extra: 1 });
  assert.deepEqual(data, { total: 3, orders: [good(1), good(3)] });
  assert.deepEqual(
    rejected.map(({ at, payload }) => [at, payload]),
    [[1, bad]],
  );
});

test('a holder without its header or its rows is bad as a whole', () => {
  const shape = holderShape(z.object({ total: z.number() }), 'orders', row);
  for (const payload of [...notLists, [], { total: 1 }, { orders: [] }, { total: 1, orders: {} }]) {
    assert.throws(() => shape.parse(payload), z.ZodError);
  }
});

test('a whole is good or bad as one: a snapshot with a hole is none', () => {
  const shape = wholeShape(row);
  assert.deepEqual(shape.parse({ ...good(1), extra: 1 }), { data: good(1), rejected: [] });
  assert.throws(() => shape.parse(bad), z.ZodError);
});

test('every row is either kept or reported, whatever the rows are', () => {
  const anyRow = fc.oneof(
    fc.integer({ min: 1 }).map(good),
    fc.constant(bad),
    fc.anything({ withNullPrototype: true }),
  );
  fc.assert(
    fc.property(fc.array(anyRow), (rows) => {
      const list = listShape(row).parse(rows);
      const held = holderShape(z.object({}), 'rows', row).parse({ rows });
      for (const [kept, rejected] of [
        [list.data, list.rejected],
        [held.data.rows, held.rejected],
      ] as const) {
        assert.equal(kept.length + rejected.length, rows.length);
        for (const { at, payload } of rejected) assert.ok(Object.is(rows[Number(at)], payload));
      }
    }),
  );
  fc.assert(
    fc.property(fc.dictionary(fc.string(), anyRow), (values) => {
      const { data, rejected } = mapShape(row).parse(values);
      const names = [...Object.keys(data), ...rejected.map(({ at }) => at)];
      assert.deepEqual(names.sort(), Object.keys(values).sort());
    }),
  );
});

test('the reason is short: it names at most five faults', () => {
  const wide = z.object(
    Object.fromEntries(Array.from({ length: 20 }, (_, at) => [`f${at}`, idNumber])),
  );
  const { error } = wide.safeParse({});
  assert.ok(error);
  assert.equal(describeIssues(error).split('; ').length, 5);
});

const resultTrade = (tid: number) => {
  return { tid, date: 1704070810, price: '1', type: 'buy', amount: '2', total: '2' };
};

test('one trade of a page that cannot be stored does not cost the others', () => {
  const page = [4, 3, 2, 1].map(resultTrade);
  const hostile = [
    { ...resultTrade(5), tid: 2 ** 53 },
    { ...resultTrade(6), price: '-1' },
  ];
  const { data, rejected } = endpoints.historyResult.result.parse([...page, ...hostile]);
  assert.deepEqual(data, page);
  assert.deepEqual(
    rejected.map(({ at, reason }) => [at, reason.split(':')[0]]),
    [
      [4, 'tid'],
      [5, 'price'],
    ],
  );
});
