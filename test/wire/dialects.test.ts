import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test, { type TestContext } from 'node:test';
import { ExchangeClient, type ExchangeClientSettings } from '../../src/client/index.js';
import { type DialectName, dialectNames } from '../../src/contract/dialects.js';
import type { EndpointName } from '../../src/contract/endpoints.js';
import { KNOWN_EXCHANGES } from '../../src/contract/variants.js';
import { STILL_MARKET, startTestLive } from '../support/exchanges/live-exchange.js';
import { startHttpStub } from '../support/exchanges/stub-server.js';
import { startTapeExchange, TEST_ORIGIN_MS } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';

/** Exchanges that are asked otherwise: what comes out of the client is the contract's. */

const market = 'BTC_USDT';
const OTHERS = dialectNames.filter((name) => name !== 'contract');

function makeClient(t: TestContext, settings: ExchangeClientSettings): ExchangeClient {
  const client = new ExchangeClient({ requestsPerS: 1000, burst: 100, ...settings });
  t.after(() => client.close());
  return client;
}

interface Sample {
  readonly source: string;
  readonly params: object;
  /** What is asked. */
  readonly url: string;
  readonly body: unknown;
  /** What is made of the answer. */
  readonly read: unknown;
}

const fixtures = new URL('../fixtures/', import.meta.url);

for (const dialect of OTHERS) {
  const folder = new URL(`${dialect}/`, fixtures);
  for (const file of readdirSync(folder)) {
    const sample = JSON.parse(readFileSync(new URL(file, folder), 'utf8')) as Sample;
    const name = file.replace('.json', '') as EndpointName;
    test(`${dialect} ${name}: as its document shows question and answer`, async (t) => {
      const stub = await startHttpStub(t, (_request, response) => {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify(sample.body));
      });
      const client = makeClient(t, { baseUrl: stub.baseUrl, dialect });
      const { data, rejected } = await client.call(name, sample.params as never);
      assert.deepEqual(rejected, []);
      assert.deepEqual(JSON.parse(JSON.stringify(data)), sample.read);
      assert.deepEqual(
        stub.seen.map(({ url }) => url),
        [sample.url],
      );
    });
  }
}

/** Answers of all public endpoints that a dialect has, as plain values. */
async function readAll(client: ExchangeClient, dialect: DialectName) {
  const endS = Math.floor((TEST_ORIGIN_MS + 3_500_000) / 60_000) * 60;
  const span = { market, start: endS - 1200, end: endS };
  await client.markets();
  const asked = {
    markets: client.markets(),
    tickers: client.tickers(),
    ticker: client.ticker(market),
    history: client.history({ market, limit: 100 }),
    depth: client.depth({ market }),
    kline: client.kline(span),
    ...(dialect === 'contract'
      ? { historyResult: client.historyResult({ market, since: 0, limit: 100 }) }
      : {}),
    ...(dialect === 'whitebit' ? {} : { book: client.book({ market, side: 'sell', limit: 100 }) }),
  };
  const replies = await Promise.all(Object.values(asked));
  for (const { rejected } of replies) assert.deepEqual(rejected, []);
  const data = replies.map((reply) => JSON.parse(JSON.stringify(reply.data)) as unknown);
  return Object.fromEntries(Object.keys(asked).map((name, at) => [name, data[at]]));
}

/** What an exchange of this dialect does not tell. */
function untold(dialect: DialectName, read: Record<string, unknown>): Record<string, unknown> {
  const { book, historyResult: _same, ...others } = read as Record<string, Record<string, object>>;
  const tickers = Object.entries(others.tickers as Record<string, { ticker: object }>).map(
    ([name, entry]) => [name, { ...entry, ticker: { ...entry.ticker, open: null } }] as const,
  );
  type Order = { takerFee?: string; makerFee?: string };
  const orders = ((book?.orders ?? []) as readonly Order[]).map(
    ({ takerFee: _taker, makerFee: _maker, ...order }) => order,
  );
  return {
    ...others,
    tickers: Object.fromEntries(tickers),
    ...(dialect === 'whitebit' ? {} : { book: { ...book, orders } }),
  };
}

for (const dialect of OTHERS) {
  test(`${dialect}: the sandbox speaks it, and the client reads the same as of the contract`, async (t) => {
    const plain = await startTapeExchange(t);
    const spoken = await startTapeExchange(t, {}, KNOWN_EXCHANGES[dialect]);
    const contract = await readAll(makeClient(t, { baseUrl: plain.server.url }), 'contract');
    const client = makeClient(t, { baseUrl: spoken.server.url, dialect });
    assert.deepEqual(await readAll(client, dialect), untold(dialect, contract));
    const { kline } = contract as { kline: { kline: unknown[] } };
    assert.equal(kline.kline.length, 21);
    const unknown = { code: 'market_unavailable' };
    await assert.rejects(client.depth({ market: 'NO_SUCH' }), unknown);
    await assert.rejects(client.history({ market: 'NO_SUCH' }), unknown);
  });

  test(`${dialect}: asked by the contract, it is refused and nothing of it is read`, async (t) => {
    const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[dialect]);
    const client = makeClient(t, { baseUrl: server.url });
    const message = new RegExp(`set the dialect .* to ${dialect}`);
    const wrong = { code: 'wrong_dialect', action: 'fatal', message };
    // A path that it lacks shows P2B; where it has the contract's, the form of candles shows WhiteBIT.
    if (dialect === 'p2b') await assert.rejects(client.markets(), wrong);
    else await assert.rejects(client.kline({ market, start: 0, end: 600, interval: 60 }), wrong);
  });

  test(`${dialect}: a server of the contract asked by it is no such one`, async (t) => {
    const { server } = await startTapeExchange(t);
    const client = makeClient(t, { baseUrl: server.url, dialect });
    const asked =
      dialect === 'p2b'
        ? client.markets()
        : client.kline({ market, start: 0, end: 600, interval: 60 });
    await assert.rejects(asked, (error: Error) =>
      /not_found|field_errors|invalid_input/.test((error as Error & { code: string }).code),
    );
    if (dialect === 'p2b') {
      await assert.rejects(client.markets(), {
        message: /exchange\.dialect is p2b; "tapekeep api probe"/,
      });
    }
  });

  test(`${dialect}: what it does not have is refused before anything is sent`, async (t) => {
    const stub = await startHttpStub(t, (_request, response) => response.end('{}'));
    const client = makeClient(t, { baseUrl: stub.baseUrl, dialect });
    const refusal = { code: 'not_offered', action: 'skip' };
    await assert.rejects(client.products(), refusal);
    await assert.rejects(client.historyResult({ market, since: 0 }), refusal);
    const tooLong = { market, start: 0, end: 60 * 5000 };
    await assert.rejects(client.kline(tooLong), { code: 'invalid_parameter' });
    assert.deepEqual(stub.seen, []);
  });

  test(`${dialect}: states of a day come over its own words`, async (t) => {
    const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES[dialect]);
    const client = makeClient(t, {
      baseUrl: server.url,
      realtimeUrl: server.realtimeUrl,
      dialect,
    });
    const origins: string[] = [];
    for await (const event of client.watch(market, 86_400)) {
      if (event.kind === 'closed') assert.fail(`closed: ${event.reason}`);
      if (event.kind === 'record') origins.push(event.origin);
      if (new Set(origins).size === 2) break;
    }
  });
}

test('p2b: balances and orders of an account, signed for its own paths', async (t) => {
  const keys = [{ key: 'alice', secret: 'a-secret', balances: { ZZZ: '1000' } }];
  const live = { runId: 'test', keys, markets: [STILL_MARKET] };
  const { server } = await startTestLive(t, live, KNOWN_EXCHANGES.p2b);
  const client = makeClient(t, {
    ...{ baseUrl: server.url, dialect: 'p2b' },
    credentials: { apiKey: 'alice', secret: 'a-secret' },
  });
  const asked = { market: STILL_MARKET.name, side: 'buy', price: '100', amount: '2' } as const;
  const { data: order } = await client.placeOrder(asked);
  assert.deepEqual([order.market, order.left, order.side], [STILL_MARKET.name, '2', 'buy']);
  const { data: balances } = await client.balances();
  assert.deepEqual(balances.ZZZ, { available: '800', freeze: '200' });
  const tooMuch = client.placeOrder({ ...asked, amount: '200' });
  await assert.rejects(tooMuch, { code: 'invalid_input' });
  const unsupported = client.activeOrders({ market: STILL_MARKET.name });
  await assert.rejects(unsupported, { code: 'not_offered', message: /p2b/ });
});

test('whitebit: the words of the contract mean nothing to its socket', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.whitebit);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const refused = await socket.ask('state.subscribe', [market]);
  assert.deepEqual((refused.error as { code: number }).code, 4);
  assert.deepEqual((await socket.ask('ping', [])).result, 'pong');
  const taken = await socket.ask('market_subscribe', [market]);
  assert.deepEqual(taken.result, { status: 'success' });
});

test('p2b: candles of other lengths than it has are refused by name', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => response.end('{}'));
  const client = makeClient(t, { baseUrl: stub.baseUrl, dialect: 'p2b' });
  const query = { market, start: 0, end: 900, interval: 900 };
  await assert.rejects(client.kline(query), {
    code: 'invalid_parameter',
    message: /p2b has candles of 60, 3600, 86400 s, not of 900 s/,
  });
});
