import assert from 'node:assert/strict';
import test from 'node:test';
import {
  type Departure,
  departuresOfAnswer,
  departuresOfPushedTrades,
  departuresOfResponse,
  departuresOfUpdate,
} from '../../../src/contract/departures.js';
import { dialectOf } from '../../../src/contract/dialects.js';
import { type EndpointName, endpoints } from '../../../src/contract/endpoints.js';
import { errorEnvelope, successEnvelope } from '../../../src/contract/error-shapes.js';
import { PAYLOADS } from '../../conformance/tables.js';
import { lookAtPayload } from '../../conformance/wire-form.js';
import { specimens } from './specimens.js';

/** Answers that a client reads, and that are not the contract's: each difference is told. */

const linesOf = (departures: readonly Departure[]) =>
  departures.map(({ what, fields }) => `${what}: ${fields.join(', ')}`);

const told = (name: EndpointName, body: unknown, asked = {}) =>
  linesOf(departuresOfAnswer(name, endpoints[name], body, asked));

const exampleOf = (name: string) => specimens[name]?.example ?? {};
const market = exampleOf('market');
const trade = exampleOf('trade of history');
const order = exampleOf('order of the book');

/** Good payloads, from the examples of the resources. */
const PAYLOAD_OF: Readonly<Partial<Record<EndpointName, unknown>>> = {
  markets: [market],
  products: [exampleOf('product')],
  tickers: { BTC_USDT: { at: 1_704_070_810, ticker: exampleOf('ticker of an entry') } },
  ticker: exampleOf('ticker'),
  kline: { ...exampleOf('kline header'), kline: [exampleOf('candle')] },
  history: [trade],
  historyResult: [exampleOf('trade of history/result')],
  depth: {
    asks: [
      ['2', '1'],
      ['3', '1'],
    ],
    bids: [['1', '1']],
  },
  book: { ...exampleOf('header of a list of orders'), orders: [order] },
};

const whole = (name: EndpointName, payload: unknown) =>
  endpoints[name].envelope ? successEnvelope(payload) : payload;

/** The payload with one row or holder changed, wherever it is. */
function changed(value: unknown, field: string, change: (row: object) => object): unknown {
  if (Array.isArray(value)) return value.map((one: unknown) => changed(one, field, change));
  if (typeof value !== 'object' || value === null) return value;
  if (Object.hasOwn(value, field)) return change(value);
  const entries = Object.entries(value).map(([name, own]) => [name, changed(own, field, change)]);
  return Object.fromEntries(entries) as object;
}

for (const [name, payload] of Object.entries(PAYLOAD_OF) as Array<[EndpointName, unknown]>) {
  test(`${name}: the contract's answer has no departures, and each field that is left out, null or new is told`, () => {
    assert.deepEqual(told(name, whole(name, payload)), []);
    const fields = new Set(JSON.stringify(payload).match(/(?<=")[a-zA-Z]+(?=":)/g));
    assert.ok(fields.size > 1);
    for (const field of fields) {
      const changes = {
        'left out': ({ [field]: _gone, ...row }: Record<string, unknown>) => row,
        null: (row: object) => ({ ...row, [field]: null }),
        'not in the contract': (row: object) => ({ ...row, besides: 1 }),
      };
      for (const [what, change] of Object.entries(changes)) {
        const body = changed(payload, field, change as (row: object) => object);
        const lines = told(name, whole(name, body));
        const place = what === 'not in the contract' ? 'besides' : field;
        const isTold = lines.some((line) => line.startsWith(what) && line.endsWith(place));
        assert.ok(isTold, `${field} ${what}: ${lines.join('; ')}`);
        // The tables that an exchange is judged by, which are written by hand, see it too.
        const { faults, more } = lookAtPayload(PAYLOADS[name], body);
        assert.ok(faults.length + more.length > 0, `${field} ${what}`);
      }
    }
  });
}

test('fields of another type or notation are told, once for all rows', () => {
  const precise = { ...market, stockPrec: '6', moneyPrec: '-3' };
  assert.deepEqual(told('markets', successEnvelope([precise, { ...precise, name: 'B_C' }])), [
    'text where a number is due: stockPrec',
    'text that is not due: Too small: expected number to be >=0: moneyPrec',
  ]);
  const lines = told('history', successEnvelope([{ ...trade, price: '1e5', amount: 2 }]));
  assert.deepEqual(lines, [
    'in another notation: price',
    'a number that is not due: expected a decimal number as text, such as "0.5": amount',
  ]);
});

test('an envelope that is not due, lacks something or has more is told', () => {
  assert.deepEqual(told('markets', [market]), ['without the envelope that is due: result']);
  const depth = PAYLOAD_OF.depth;
  assert.deepEqual(told('depth', successEnvelope(depth)), ['in an envelope, none is due: result']);
  const body = { success: true, message: null, result: [market], cache_time: 1.5 };
  assert.deepEqual(told('markets', body), [
    'left out of the envelope: code',
    'null in the envelope where "" is due: message',
    'not in the contract, in the envelope: cache_time',
  ]);
  assert.deepEqual(told('tickers', successEnvelope([])), [
    'an array where an object is due: result',
  ]);
  assert.deepEqual(told('markets', errorEnvelope(500, 'x')), [], 'a refusal is no answer');
});

test('rows in another order than the contract has are told', () => {
  const levels = (...prices: readonly string[]) => prices.map((price) => [price, '1']);
  const of = (asks: unknown, bids: unknown) => told('depth', { asks, bids });
  assert.deepEqual(of(levels('9', '10'), levels('8', '7')), []);
  assert.deepEqual(of(levels('9', '10'), levels('7', '8')), [
    'in the opposite order, descending is due: bids',
  ]);
  assert.deepEqual(of(levels('9', '11', '10'), []), ['not in order, ascending is due: asks']);
  const later = { ...trade, id: Number(trade.id) + 1 };
  assert.deepEqual(told('history', successEnvelope([trade, later])), [
    'in the opposite order, descending is due: result',
  ]);
  const book = (...prices: readonly string[]) => {
    const orders = prices.map((price) => ({ ...order, price }));
    return successEnvelope({ offset: 0, limit: 10, total: 2, orders });
  };
  assert.deepEqual(told('book', book('1', '2'), { side: 'sell' }), []);
  assert.equal(told('book', book('1', '2'), { side: 'buy' }).length, 1);
});

test('what a dialect tells otherwise is told as it came, and what is left once it is read', () => {
  const { kline } = dialectOf('whitebit').endpoints;
  assert.ok(kline !== undefined);
  const asked = { market: 'A_B', start: 0, end: 60, interval: 60 };
  const body = successEnvelope([[60, '1', '1', '1', '1', 5, '1']]);
  assert.deepEqual(linesOf(departuresOfAnswer('kline', kline, body, asked)), [
    'an array of arrays where an object is due: result',
    'once in the contract\'s form, a number that is not due: expected a decimal number as text, such as "0.5": kline.volume',
  ]);
});

test('names and ways that the other side chooses are bounded', () => {
  const more = Object.fromEntries(
    Array.from({ length: 500 }, (_, at) => [`${at}`.padEnd(200, 'x'), at]),
  );
  const departures = departuresOfAnswer(
    'markets',
    endpoints.markets,
    successEnvelope([{ ...market, ...more }]),
    {},
  );
  const [{ fields } = { fields: [] }] = departures;
  assert.equal(fields.length, 31);
  assert.ok(fields.every((field) => field.length <= 60));
});

const record = exampleOf('state record');
const { change: _change, ...updated } = record;

test('updates and answers of the real-time interface are compared, too', () => {
  const params = ['BTC_USDT', 86_400];
  const answer = { id: 1, params, result: record, error: null };
  assert.deepEqual(departuresOfResponse('state.query', params, answer), []);
  const { period: _period, ...shorter } = record;
  const bare = { id: 1, params: [], result: shorter, method: 'x' };
  assert.deepEqual(linesOf(departuresOfResponse('state.query', params, bare)), [
    'left out: result.period, error',
    'not in the contract: method',
    'not those of the request: params',
  ]);
  const success = { id: 1, params, result: { status: 'success' }, error: null };
  assert.deepEqual(linesOf(departuresOfResponse('state.subscribe', params, success)), [
    'sent where [] is due: params',
  ]);
  assert.deepEqual(departuresOfUpdate({ result: updated, error: null, id: null }), []);
  const family = { method: 'state.update', params: ['BTC_USDT', record], id: null };
  assert.deepEqual(linesOf(departuresOfUpdate(family)), [
    'beside the record, which alone is due: method',
    'not in the contract: change',
  ]);
  const { total: _total, ...pushed } = trade;
  assert.deepEqual(linesOf(departuresOfPushedTrades([pushed])), ['left out: total']);
});
