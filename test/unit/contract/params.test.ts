import assert from 'node:assert/strict';
import test from 'node:test';
import type { z } from 'zod';
import { endpoints } from '../../../src/contract/endpoints.js';
import { DOCUMENTED_INTERVALS_S } from '../../../src/contract/limits.js';
import { signedFields } from '../../../src/contract/params.js';

/** Reads one field of one endpoint, all others being good. */
type ReadField = (value: unknown) => { value?: unknown; code?: string };

function fieldOf(params: z.ZodObject, field: string): ReadField {
  const others = { market: 'BTC_USDT', start: 0, end: 60, since: 0, side: 'buy' };
  const money = { price: '1', amount: '1', request: '/api/v1/orders', nonce: 1704070810000 };
  return (value) => {
    const parsed = params.safeParse({ ...others, ...money, [field]: value });
    if (parsed.success) return { value: parsed.data[field] };
    const codes = parsed.error.issues
      .filter((issue) => issue.path[0] === field)
      .map((issue) => String(issue.code));
    // A value of the wrong kind may break bounds as well; its kind is what counts.
    return { code: codes.find((code) => code === 'invalid_type') ?? codes[0] ?? 'other field' };
  };
}

/** A number is taken from a JSON body as it is, and from a query (or a JSON text) by its digits. */
function assertTakes(read: ReadField, values: readonly number[]): void {
  for (const value of values) {
    assert.deepEqual(read(value), { value });
    assert.deepEqual(read(String(value)), { value }, `"${value}"`);
  }
}

/** Well-formed, but out of bounds: told apart from malformed by the code of its issue. */
function assertOutOfBounds(read: ReadField, values: readonly number[]): void {
  for (const value of values) {
    for (const form of [value, String(value)]) {
      const { code } = read(form);
      assert.match(code ?? 'taken', /^(too_small|too_big|custom)$/, JSON.stringify(form));
    }
  }
}

/** What no whole number can be read from. */
const notWholeNumbers: readonly unknown[] = [
  ...['', ' ', 'text', '1.5', '1.0', '1e2', '0x10', '+1', ' 1', '1 ', '1,000', '--1', 'NaN'],
  ...['Infinity', '9'.repeat(17), '9'.repeat(10_240), 'null', 'true'],
  ...[1.5, Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
  ...[null, true, false, [], [1], {}, { limit: 1 }, 1n],
];

function assertMalformed(read: ReadField, values: readonly unknown[]): void {
  for (const value of values) {
    const { code } = read(value);
    assert.equal(code, 'invalid_type', `${typeof value} ${String(value).slice(0, 30)}`);
  }
}

const limits = [
  ['history', endpoints.history.params],
  ['historyResult', endpoints.historyResult.params],
  ['depth', endpoints.depth.params],
  ['book', endpoints.book.params],
  ['orders', endpoints.orders.params],
] as const;

for (const [name, params] of limits) {
  const read = fieldOf(params, 'limit');

  test(`limit of ${name} is 50 unless given, and goes from 1 to 1000`, () => {
    assert.deepEqual(read(undefined), { value: 50 });
    assertTakes(read, [1, 2, 50, 999, 1000]);
    assertOutOfBounds(read, [0, -1, 1001, 2 ** 31, Number.MAX_SAFE_INTEGER]);
  });

  test(`limit of ${name} must be a whole number`, () => {
    assertMalformed(read, notWholeNumbers);
  });
}

const skips = [
  ['lastId', 'history', endpoints.history.params],
  ['since', 'historyResult', endpoints.historyResult.params],
  ['offset', 'book', endpoints.book.params],
  ['offset', 'orders', endpoints.orders.params],
] as const;

for (const [field, name, params] of skips) {
  test(`${field} of ${name} is any whole number from 0 up to 2^53`, () => {
    const read = fieldOf(params, field);
    assertTakes(read, [0, 1, 1000, 1001, 2 ** 31, Number.MAX_SAFE_INTEGER]);
    assertOutOfBounds(read, [-1, -1000]);
    assertMalformed(read, notWholeNumbers);
    assert.notEqual(read(2 ** 53).code, undefined);
    assert.notEqual(read(String(2 ** 53)).code, undefined);
  });
}

for (const field of ['start', 'end']) {
  test(`${field} of kline is a UNIX time in whole seconds, required`, () => {
    const read = fieldOf(endpoints.kline.params, field);
    assertTakes(read, [0, 1, 1000, 1001, 1704067200]);
    assertOutOfBounds(read, [-1]);
    assertMalformed(read, [undefined, ...notWholeNumbers]);
  });
}

test('interval of kline is 60 unless given, and one that candles come in', () => {
  const read = fieldOf(endpoints.kline.params, 'interval');
  assert.deepEqual(read(undefined), { value: 60 });
  assertTakes(read, [1, 30, ...DOCUMENTED_INTERVALS_S, 604_800]);
  assertOutOfBounds(read, [0, -1, -60, 7, 61, 1000, 1001, 604_801]);
  assertMalformed(read, notWholeNumbers);
});

test('a market is a name of 1 to 64 characters', () => {
  for (const { params } of [endpoints.ticker, endpoints.kline, endpoints.orderNew]) {
    const read = fieldOf(params, 'market');
    for (const value of ['BTC_USDT', 'X', "a');DROP--", 'x'.repeat(64)]) {
      assert.deepEqual(read(value), { value });
    }
    assert.equal(read('').code, 'custom');
    assert.equal(read('x'.repeat(65)).code, 'custom');
    assertMalformed(read, [undefined, null, 1, true, ['BTC_USDT'], { name: 'BTC_USDT' }]);
  }
});

test('a side is buy or sell, exactly', () => {
  for (const { params } of [endpoints.book, endpoints.orderNew]) {
    const read = fieldOf(params, 'side');
    assert.deepEqual([read('buy'), read('sell')], [{ value: 'buy' }, { value: 'sell' }]);
    for (const value of [undefined, null, '', 'BUY', 'Sell', 'bid', 'buy ', 1, ['buy']]) {
      assert.equal(read(value).code, 'invalid_value', String(value));
    }
  }
});

test('price and amount of a new order are decimal text, never numbers', () => {
  for (const field of ['price', 'amount']) {
    const read = fieldOf(endpoints.orderNew.params, field);
    assert.deepEqual(read('61837.63000000'), { value: '61837.63000000' });
    assert.deepEqual(read('1e-8'), { value: '0.00000001' });
    assertMalformed(read, [undefined, null, 1, 0.5, true, ['1']]);
    for (const value of ['', 'text', 'NaN', 'Infinity', '1e999', '1,5', '9'.repeat(10_240)]) {
      assert.equal(read(value).code, 'custom', value.slice(0, 20));
    }
  }
});

test('a nonce has 13 digits', () => {
  const read = fieldOf(signedFields, 'nonce');
  assertTakes(read, [1_000_000_000_000, 1_704_070_810_000, 9_999_999_999_999]);
  assertOutOfBounds(read, [0, 1, -1, 999_999_999_999, 10_000_000_000_000]);
  assertMalformed(read, [undefined, ...notWholeNumbers]);
});

test('request of a signed body is a short text', () => {
  const read = fieldOf(signedFields, 'request');
  assert.deepEqual(read('/api/v1/orders'), { value: '/api/v1/orders' });
  for (const value of ['', '/'.repeat(201), undefined, null, 1]) {
    assert.notEqual(read(value).code, undefined);
  }
});
