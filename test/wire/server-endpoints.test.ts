import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type EndpointName, endpointNames, endpoints } from '../../src/contract/endpoints.js';
import { startTestLive, Trader } from '../support/exchanges/live-exchange.js';
import { startTapeExchange, TEST_ORIGIN_MS } from '../support/exchanges/tape-exchange.js';

const KEY = 'key-1';
const SECRET = 'secret-1';
const START_S = TEST_ORIGIN_MS / 1000;

/** Valid parameters of every public endpoint. */
const examples: Partial<Record<EndpointName, Record<string, string | number>>> = {
  markets: {},
  products: {},
  tickers: {},
  ticker: { market: 'BTC_USDT' },
  kline: { market: 'BTC_USDT', start: START_S, end: START_S + 3600, interval: 60 },
  history: { market: 'BTC_USDT', lastId: 3, limit: 20 },
  historyResult: { market: 'BTC_USDT', since: 0, limit: 1000 },
  depth: { market: 'ETH_BTC', limit: 7 },
  book: { market: 'BTC_USDT', side: 'sell', offset: 2, limit: 9 },
};
const publicNames = endpointNames.filter((name) => endpoints[name].access === 'public');

function query(params: Record<string, string | number>): string {
  const search = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) search.set(key, String(value));
  return search.toString();
}

/** The result of a success body, with the envelope checked key by key. */
function resultOf(name: EndpointName, body: unknown): unknown {
  if (!endpoints[name].envelope) return body;
  const { result, ...rest } = body as Record<string, unknown>;
  assert.deepEqual(rest, { code: 200, success: true, message: '' });
  return result;
}

for (const name of publicNames) {
  const { path, result: shape } = endpoints[name];
  test(`${name}: GET and signed POST give the contract's shape, the same in both`, async (t) => {
    const { server } = await startTapeExchange(t, { keys: { [KEY]: SECRET } });
    const params = examples[name];
    assert.ok(params, `an example for ${name}`);
    const got = await fetch(`${server.url}${path}?${query(params)}`);
    assert.equal(got.status, 200);
    assert.match(got.headers.get('content-type') ?? '', /^application\/json/);
    const body: unknown = await got.json();
    const result = resultOf(name, body);
    const parsed = shape.schema.safeParse(result);
    assert.ok(parsed.success, parsed.error?.message);
    // Nothing beyond the contract's fields: parsing drops unknown ones, so the rest must be equal.
    assert.deepEqual(parsed.data, result);
    const rows = shape.parse(result);
    assert.equal(rows.rejected.length, 0);

    const posted = await new Trader(server.url, KEY, SECRET).post(path, params);
    assert.deepEqual(posted, { status: 200, body });
  });
}

async function get(url: string): Promise<unknown> {
  return (await fetch(url)).json();
}

test('both history endpoints are views of the same trades, newest first', async (t) => {
  // Times of a tape file have milliseconds only.
  const { backend, server } = await startTestLive(t, { startOffsetS: 3600 });
  const truth = [...backend.truth('BTC_USDT')].reverse();
  assert.ok(truth.length > 1000, 'the hour holds more than a page');
  const path = `${server.url}/api/v1/public/history`;
  const { result } = (await get(`${path}?market=BTC_USDT&limit=1000&lastId=5`)) as {
    result: unknown[];
  };
  const bare = await get(`${path}/result?market=BTC_USDT&limit=1000&since=5`);
  const page = truth.slice(5, 1005);
  assert.deepEqual(
    result,
    page.map(({ id, timeUs, price, side, amount, total }) => ({
      id,
      time: timeUs / 1e6,
      price,
      type: side,
      amount,
      total,
    })),
  );
  assert.deepEqual(
    bare,
    page.map(({ id, timeUs, price, side, amount, total }) => ({
      tid: id,
      date: Math.floor(timeUs / 1e6),
      price,
      type: side,
      amount,
      total,
    })),
  );
  assert.ok(
    (result as Array<{ time: number }>).some(({ time }) => /\.\d{6}$/.test(String(time))),
    'times have microseconds',
  );
});

test('depth is best first, uncrossed, and equals the sums of the book', async (t) => {
  const { server } = await startTapeExchange(t);
  const base = `${server.url}/api/v1/public`;
  const { asks, bids } = (await get(`${base}/depth/result?market=BTC_USDT&limit=100`)) as Record<
    'asks' | 'bids',
    Array<[string, string]>
  >;
  assert.equal(asks?.length, 100);
  assert.ok(Number(bids[0]?.[0]) < Number(asks[0]?.[0]));
  const prices = (levels: Array<[string, string]>) => levels.map(([price]) => Number(price));
  assert.deepEqual(
    prices(asks),
    prices(asks).toSorted((a, b) => a - b),
  );
  assert.deepEqual(
    prices(bids),
    prices(bids).toSorted((a, b) => b - a),
  );
  const { result } = (await get(`${base}/book?market=BTC_USDT&side=sell&limit=1000`)) as {
    result: { total: number; orders: Array<{ price: string; left: string; id: number }> };
  };
  assert.equal(result.orders.length, result.total);
  assert.equal(new Set(result.orders.map(({ id }) => id)).size, result.total);
  const [price, amount] = asks[0] ?? ['', ''];
  const units = result.orders
    .filter((order) => order.price === price)
    .reduce((sum, { left }) => sum + BigInt(left.replace('.', '')), 0n);
  assert.equal(units, BigInt(amount.replace('.', '')));
  const page = (await get(`${base}/book?market=BTC_USDT&side=sell&offset=3&limit=2`)) as {
    result: { offset: number; limit: number; orders: unknown[] };
  };
  assert.deepEqual(page.result.orders, result.orders.slice(3, 5));
  assert.deepEqual([page.result.offset, page.result.limit], [3, 2]);
});

test('every reply carries the exchange time, its identity and the rate standing', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  for (const [index, path] of ['/api/v1/public/markets', '/nowhere', '/%zz'].entries()) {
    const { headers } = await fetch(server.url + path);
    assert.equal(headers.get('date'), new Date(TEST_ORIGIN_MS + 3_600_000).toUTCString());
    assert.equal(headers.get('x-tapekeep-exchange'), backend.identity);
    if (index > 1) continue;
    assert.equal(headers.get('x-ratelimit-limit'), '500');
    assert.equal(headers.get('x-ratelimit-remaining'), `${499 - index}`);
    assert.equal(headers.get('x-ratelimit-reset'), '60');
  }
});
