import { test } from 'node:test';
import { CASES } from '../../conformance/suite.js';
import { at, type Lie, listOf, tellLies } from '../../support/conformance/conformance-liar.js';

/** The cases about authentication ask for balances, save those that go through all endpoints. */
function isAboutBalances(id: string): boolean {
  return id.startsWith('auth.') && !/^auth\.required\.(?!balances)/.test(id);
}

const lies: readonly Lie[] = [
  {
    name: 'another default limit',
    where: /history\?market=\w+&lastId=0$/,
    bend: ({ rows }) => {
      rows.splice(40);
    },
    found: ['history.limit.default'],
  },
  {
    name: 'a limit of 1 that is not obeyed',
    where: /book\?.*limit=1$/,
    bend: ({ rows }) => {
      listOf(rows.orders).push({ ...listOf(rows.orders)[0] });
    },
    found: ['book.limit.1'],
  },
  {
    name: 'a limit of 0 that is obeyed',
    where: /depth\/result\?.*limit=0$/,
    bend: (told) => {
      told.status = 200;
      told.body = { asks: [], bids: [] };
    },
    found: ['depth.limit.0'],
  },
  {
    name: 'data for an unknown market',
    where: /ticker\?market=NOSUCH/,
    bend: (told) => {
      told.status = 200;
      told.body = { code: 200, success: true, message: '', result: {} };
    },
    found: ['ticker.market.unknown'],
  },
  {
    name: 'a failure of the server instead of a refusal',
    where: /kline\?.*start=abc/,
    bend: (told) => {
      told.status = 500;
    },
    found: ['kline.start.text'],
  },
  {
    name: 'a page where nothing is',
    where: /nosuchpath/,
    bend: (told) => {
      told.status = 200;
    },
    found: ['path.unknown'],
  },
  {
    name: 'a code that is not the status',
    where: /products/,
    bend: ({ body }) => {
      body.code = 201;
    },
    found: ['products.reply', 'products.signed'],
  },
  {
    name: 'no message in the envelope',
    where: /tickers/,
    bend: ({ body }) => {
      body.message = null;
    },
    found: ['tickers.reply', 'tickers.signed'],
  },
  {
    name: 'a product that is missing',
    where: /products/,
    bend: ({ rows }) => {
      rows.pop();
    },
    found: ['products.markets'],
  },
  {
    name: 'a field that is missing',
    where: /GET.*history\?.*limit=1000/,
    bend: ({ rows }) => {
      delete at(rows, 3).type;
    },
    found: [
      ...['history.fields', 'history.limit.1', 'history.limit.1000', 'history.limit.default'],
      ...['history.order', 'history.reply', 'history.totals', 'trades.views'],
    ],
  },
  {
    name: 'another text where nobody is established',
    where: /POST.*balances/,
    bend: (told) => {
      told.status = 200;
      told.body = { code: 200, success: true, message: '', result: {} };
    },
    found: CASES.map(({ id }) => id).filter(isAboutBalances),
  },
];

test('lies about envelopes, limits, refusals and keys are found by the cases that look there', (t) =>
  tellLies(t, lies));
