import assert from 'node:assert/strict';
import test from 'node:test';
import { type EndpointName, endpointNames, endpoints } from '../../../src/contract/endpoints.js';

/** The contract's two endpoint tables, written out once more by hand. */
interface Row {
  readonly path: string;
  readonly access: 'public' | 'private';
  readonly envelope: boolean;
  readonly required: readonly string[];
  /** What an optional parameter is when it is left out. */
  readonly defaults: Readonly<Record<string, number>>;
}

const everyRow: Record<EndpointName, Row> = {
  markets: {
    path: '/api/v1/public/markets',
    access: 'public',
    envelope: true,
    required: [],
    defaults: {},
  },
  products: {
    path: '/api/v1/public/products',
    access: 'public',
    envelope: true,
    required: [],
    defaults: {},
  },
  tickers: {
    path: '/api/v1/public/tickers',
    access: 'public',
    envelope: true,
    required: [],
    defaults: {},
  },
  ticker: {
    path: '/api/v1/public/ticker',
    access: 'public',
    envelope: true,
    required: ['market'],
    defaults: {},
  },
  kline: {
    path: '/api/v1/public/kline',
    access: 'public',
    envelope: true,
    required: ['market', 'start', 'end'],
    defaults: { interval: 60 },
  },
  history: {
    path: '/api/v1/public/history',
    access: 'public',
    envelope: true,
    required: ['market'],
    defaults: { lastId: 0, limit: 50 },
  },
  historyResult: {
    path: '/api/v1/public/history/result',
    access: 'public',
    envelope: false,
    required: ['market', 'since'],
    defaults: { limit: 50 },
  },
  depth: {
    path: '/api/v1/public/depth/result',
    access: 'public',
    envelope: false,
    required: ['market'],
    defaults: { limit: 50 },
  },
  book: {
    path: '/api/v1/public/book',
    access: 'public',
    envelope: true,
    required: ['market', 'side'],
    defaults: { offset: 0, limit: 50 },
  },
  balances: {
    path: '/api/v1/account/balances',
    access: 'private',
    envelope: true,
    required: [],
    defaults: {},
  },
  orderNew: {
    path: '/api/v1/order/new',
    access: 'private',
    envelope: true,
    required: ['market', 'price', 'amount', 'side'],
    defaults: {},
  },
  orders: {
    path: '/api/v1/orders',
    access: 'private',
    envelope: true,
    required: ['market'],
    defaults: { offset: 0, limit: 50 },
  },
};

/** A good value for every parameter that has no default. */
const goodValues: Readonly<Record<string, unknown>> = {
  market: 'BTC_USDT',
  start: 1704067200,
  end: 1704070800,
  since: 0,
  side: 'sell',
  price: '61837.63',
  amount: '0.001',
};

const pick = (fields: readonly string[]) =>
  Object.fromEntries(fields.map((field) => [field, goodValues[field]]));

test('the table has the twelve endpoints of the contract, each path once', () => {
  assert.deepEqual([...endpointNames].sort(), Object.keys(everyRow).sort());
  const paths = endpointNames.map((name) => endpoints[name].path);
  assert.equal(new Set(paths).size, 12);
});

for (const name of endpointNames) {
  const row = everyRow[name];
  const { path, access, envelope, params, summary } = endpoints[name];
  const defaults = JSON.stringify(row.defaults);

  test(`${name}: ${row.access} ${row.path}, ${row.envelope ? 'enveloped' : 'bare'}`, () => {
    assert.deepEqual(
      { path, access, envelope },
      { path: row.path, access: row.access, envelope: row.envelope },
    );
    assert.ok(summary.length > 0);
  });

  test(`${name} takes [${row.required.join(', ')}] and has the defaults ${defaults}`, () => {
    const fields = Object.keys(params.shape).sort();
    assert.deepEqual(fields, [...row.required, ...Object.keys(row.defaults)].sort());
    assert.deepEqual(params.parse(pick(row.required)), { ...pick(row.required), ...row.defaults });
  });

  test(`${name} is refused when a required parameter is missing, and names each of them`, () => {
    const complaints = params.safeParse({}).error?.issues.map((issue) => issue.path[0]) ?? [];
    assert.deepEqual(complaints.sort(), [...row.required].sort());
    for (const missing of row.required) {
      const rest = pick(row.required.filter((field) => field !== missing));
      const issues = params.safeParse(rest).error?.issues.map((issue) => issue.path[0]);
      assert.deepEqual(issues, [missing]);
    }
  });

  test(`${name} passes over parameters that it does not know`, () => {
    const filled = params.parse({ ...pick(row.required), request: path, nonce: 1, other: [] });
    assert.deepEqual(filled, { ...pick(row.required), ...row.defaults });
  });
}
