import assert from 'node:assert/strict';
import test from 'node:test';
import { type EndpointName, endpoints } from '../../../src/contract/endpoints.js';

/**
 * Rows as servers of the family send them, beside the contract's form: what a reader makes of each. The
 * schemas, which the server and the documents follow, take none of them.
 */

const trade = { id: 265, time: 1533292963.202649, price: '2', type: 'sell', amount: '1' };
const result = { tid: 265, date: 1533292963, price: '2', type: 'sell', amount: '1' };
const figures = {
  ...{ bid: '1', ask: '2', open: '1', high: '2', low: '1', last: '2', deal: '3', change: '-1' },
};
const market = {
  ...{ name: 'SHIB_USDT', stock: 'SHIB', money: 'USDT' },
  ...{ stockPrec: 0, moneyPrec: 8, feePrec: 4, minAmount: '1' },
};
const order = {
  ...{ id: 1, market: 'BTC_USDT', price: '1', amount: '1', left: '1', type: 'limit', side: 'sell' },
  ...{ timestamp: 1.790138674365e9, dealStock: '0', dealMoney: '0' },
};
const page = { offset: 0, limit: 50, total: 1 };

interface Row {
  readonly what: string;
  readonly name: EndpointName;
  readonly told: unknown;
  readonly read: unknown;
}

const rows: readonly Row[] = [
  {
    what: 'a trade without its total: the exact product',
    name: 'history',
    told: [{ ...trade, price: '0.05065949', amount: '0.01854886' }],
    read: [{ ...trade, price: '0.05065949', amount: '0.01854886', total: '0.0009396757876814' }],
  },
  {
    what: 'a total of 36 digits after the point',
    name: 'history',
    told: [{ ...trade, price: '0.000000000000000001', amount: '3e-18' }],
    read: [
      {
        ...trade,
        price: '0.000000000000000001',
        amount: '0.000000000000000003',
        total: '0.000000000000000000000000000000000003',
      },
    ],
  },
  {
    what: 'a total that is null, fields in another order, more of them',
    name: 'historyResult',
    told: [
      { amount: '1', date: 1533292963, price: '2', type: 'sell', tid: 265, total: null, x: 1 },
    ],
    read: [{ ...result, total: '2' }],
  },
  {
    what: 'a time in exponent form, as a number and as text',
    name: 'history',
    told: JSON.parse(
      '[{"id":1,"time":1.790138674365E9,"price":"1","type":"buy","amount":"1","total":"1"},{"id":2,"time":"1.790138674365E9","price":"1","type":"buy","amount":"1","total":"1"}]',
    ) as unknown,
    read: [1, 2].map((id) => ({
      ...{ id, time: 1790138674.365, price: '1', type: 'buy', amount: '1', total: '1' },
    })),
  },
  {
    what: 'precisions as text, and below zero',
    name: 'markets',
    told: [{ ...market, stockPrec: '-3', moneyPrec: '9', feePrec: -18, message: null }],
    read: [{ ...market, stockPrec: -3, moneyPrec: 9, feePrec: -18 }],
  },
  {
    what: 'entries of tickers without a name: the key',
    name: 'tickers',
    told: { BTC_USDT: { at: 1, ticker: { ...figures, vol: '1' } } },
    read: { BTC_USDT: { at: 1, ticker: { name: 'BTC_USDT', ...figures, vol: '1' } } },
  },
  {
    what: 'a ticker without a name: the market that was asked for',
    name: 'ticker',
    told: { ...figures, volume: '1' },
    read: { name: 'BTC_USDT', ...figures, volume: '1' },
  },
  {
    what: 'an order of the book without fees',
    name: 'book',
    told: { ...page, orders: [{ ...order, dealFee: '0' }] },
    read: { ...page, orders: [order] },
  },
];

for (const { what, name, told, read } of rows) {
  test(`${name}: ${what}`, () => {
    const { result: shape } = endpoints[name];
    const { data, rejected } = shape.parse(told, { market: 'BTC_USDT' });
    assert.deepEqual(rejected, []);
    assert.deepEqual(JSON.parse(JSON.stringify(data)), read);
    const isStrict = name === 'history' && what.includes('exponent');
    assert.equal(shape.schema.safeParse(told).success, isStrict);
  });
}

test('what cannot be completed is refused with its reason, and costs no other row', () => {
  const bad = [
    { ...trade, price: 'NaN' },
    { ...trade, amount: 1 },
    { ...trade, price: '9'.repeat(70) },
    // Each is a decimal of bounded length, and their product is not.
    { ...trade, price: `0.${'1'.repeat(30)}`, amount: `0.${'1'.repeat(30)}` },
    { ...trade, total: 'x' },
    7,
    null,
  ];
  const { data, rejected } = endpoints.history.result.parse([...bad, trade]);
  assert.deepEqual(data, [{ ...trade, total: '2' }]);
  assert.deepEqual(
    rejected.map(({ at }) => at),
    bad.map((_, at) => at),
  );
  for (const stockPrec of [-19, 31, '1.5', 'x', null]) {
    assert.equal(endpoints.markets.result.parse([{ ...market, stockPrec }]).rejected.length, 1);
  }
  assert.equal(
    endpoints.ticker.result.parse({ name: 'A', ...figures, volume: '1' }).rejected.length,
    0,
  );
  assert.throws(() => endpoints.ticker.result.parse({ ...figures, volume: '1' }));
});
