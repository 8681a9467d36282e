import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import test, { type TestContext } from 'node:test';
import {
  createExchangeClock,
  ExchangeClient,
  type ExchangeClientSettings,
  openTradeFeed,
} from '../../../src/client/index.js';
import { type DialectName, dialectNames, dialectOf } from '../../../src/contract/dialects.js';
import type { EndpointName } from '../../../src/contract/endpoints.js';
import { KNOWN_EXCHANGES } from '../../../src/contract/variants.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { STILL_MARKET, startTestLive } from '../../support/exchanges/live-exchange.js';
import { startHttpStub, startRealtimeStub } from '../../support/exchanges/stub-server.js';
import { makeStubClient } from '../../support/exchanges/stub-server-client.js';
import { startTapeExchange, TEST_ORIGIN_MS } from '../../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../../support/exchanges/tape-socket.js';
import { FakeClock } from '../../support/fake-clock.js';
import { noTelemetry } from '../../support/no-telemetry.js';

/** Exchanges that are asked otherwise: what comes out of the client is the contract's. */

const market = 'BTC_USDT';
const REALTIME = 'realtime.json';
const OTHERS = dialectNames.filter((name) => name !== 'contract');

function makeClient(t: TestContext, settings: ExchangeClientSettings): ExchangeClient {
  const client = new ExchangeClient({ requestsPerS: 1000, burst: 100, ...settings });
  t.after(() => client.close());
  return client;
}

interface Sample {
  readonly source: string;
  /** The exchange's time, where the question depends on it. */
  readonly nowS?: number;
  readonly params: object;
  /** What is asked. */
  readonly url: string;
  /** The body of a signed question, without its nonce. */
  readonly sent?: object;
  readonly body: unknown;
  /** What is made of the answer. */
  readonly read: unknown;
}

const fixtures = new URL('../../fixtures/', import.meta.url);
const sampleOf = (dialect: DialectName, file: string): unknown =>
  JSON.parse(readFileSync(new URL(`${dialect}/${file}`, fixtures), 'utf8'));

for (const dialect of OTHERS) {
  for (const file of readdirSync(new URL(`${dialect}/`, fixtures))) {
    if (file === REALTIME) continue;
    const sample = sampleOf(dialect, file) as Sample;
    const name = file.replace('.json', '') as EndpointName;
    test(`${dialect} ${name}: as its document shows question and answer`, async (t) => {
      const stub = await startHttpStub(t, (_request, response) => {
        response.setHeader('content-type', 'application/json');
        response.end(JSON.stringify(sample.body));
      });
      const { nowS = TEST_ORIGIN_MS / 1000 } = sample;
      const { client } = makeStubClient(t, stub.baseUrl, {
        dialect,
        exchangeClock: createExchangeClock({ clock: new FakeClock(nowS * 1000) }),
        credentials: { apiKey: 'alice', secret: 'a-secret' },
        nonceStore: { load: async () => undefined, save: async () => undefined },
      });
      const { data, rejected } = await client.call(name, sample.params as never);
      assert.deepEqual(rejected, []);
      assert.deepEqual(JSON.parse(JSON.stringify(data)), sample.read);
      assert.deepEqual(
        stub.seen.map(({ url }) => url),
        [sample.url],
      );
      if (sample.sent === undefined) return;
      const { nonce, ...sent } = JSON.parse(stub.seen[0]?.body ?? '') as { nonce: unknown };
      assert.match(String(nonce), /^[0-9]+$/);
      assert.deepEqual(sent, sample.sent);
    });
  }
}

interface Talk {
  /** Method and params of what the client sends, in order. */
  readonly sent: readonly (readonly [string, unknown])[];
  /** By method; left out: none comes. */
  readonly answers: Readonly<Record<string, object>>;
  /** What comes once all that is expected was sent. */
  readonly pushed: object;
  /** What is made of it, by the origin that the event has. */
  readonly read: Readonly<Record<string, unknown>>;
}

interface RealtimeSample {
  readonly source: string;
  readonly market: string;
  readonly states: Talk;
  readonly trades?: Talk;
}

/** A server that talks as a sample shows. */
async function startTalk(t: TestContext, talk: Talk) {
  const sent: unknown[] = [];
  const stub = await startRealtimeStub(t, {
    call: (connection, { method, params, id }) => {
      sent.push([method, params]);
      const answer = talk.answers[method];
      if (answer !== undefined) connection.send({ ...answer, id });
      if (sent.length === talk.sent.length) connection.send(talk.pushed);
    },
  });
  return { url: stub.url, sent };
}

for (const dialect of OTHERS) {
  const sample = sampleOf(dialect, REALTIME) as RealtimeSample;
  const { market: name, states, trades } = sample;

  test(`${dialect} states: as its document shows what is sent and what comes`, async (t) => {
    const { url, sent } = await startTalk(t, states);
    const client = makeClient(t, { baseUrl: 'http://127.0.0.1', realtimeUrl: url, dialect });
    const read: Record<string, unknown> = {};
    for await (const event of client.watch(name, 86_400)) {
      if (event.kind === 'closed') assert.fail(`closed: ${event.reason}`);
      if (event.kind === 'record') read[event.origin] = event.record;
      if (Object.keys(read).length === Object.keys(states.read).length) break;
    }
    assert.deepEqual(JSON.parse(JSON.stringify(read)), states.read);
    assert.deepEqual(sent, states.sent);
  });

  if (trades === undefined) continue;
  test(`${dialect} trades: as its document shows what is sent and what comes`, async (t) => {
    const { url, sent } = await startTalk(t, trades);
    const clock = new FakeClock(TEST_ORIGIN_MS);
    const feed = openTradeFeed({
      ...{ url, clock, random: () => 0.5, telemetry: noTelemetry.client },
      exchangeClock: createExchangeClock({ clock }),
      words: dialectOf(dialect).realtime,
      markets: () => [name],
    });
    t.after(() => feed.stop());
    const read: Record<string, unknown> = {};
    for await (const event of feed) {
      if (event.kind === 'closed') assert.fail(`closed: ${event.reason}`);
      if (event.kind === 'opened' && trades.sent.length > 1) feed.ask(name);
      if (event.kind === 'trades') read[event.origin] = event.trades;
      if (Object.keys(read).length === Object.keys(trades.read).length) break;
    }
    assert.deepEqual(JSON.parse(JSON.stringify(read)), trades.read);
    assert.deepEqual(sent, trades.sent);
  });
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
    // A path that it lacks shows P2B. WhiteBIT has the contract's, and no candles without a name of their length.
    if (dialect === 'p2b') await assert.rejects(client.markets(), wrong);
    else {
      const asked = client.kline({ market, start: 0, end: 600, interval: 60 });
      await assert.rejects(asked, { code: 'invalid_input' });
    }
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
        message: /exchange\.dialect is p2b; "tapekeep doctor"/,
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

test('whitebit: candles in its form show it, whoever is asked by the contract', async (t) => {
  const { body } = sampleOf('whitebit', 'kline.json') as Sample;
  const stub = await startHttpStub(t, (_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify(body));
  });
  const asked = makeClient(t, { baseUrl: stub.baseUrl }).kline({ market, start: 0, end: 600 });
  const message = /set the dialect .* to whitebit/;
  await assert.rejects(asked, { code: 'wrong_dialect', action: 'fatal', message });
});

test('whitebit, p2b: the newest page is asked for by an offset of 1, and the answer says so', async (t) => {
  for (const dialect of OTHERS) {
    // Where the offset counts trades, the newest one is left out.
    const { server } = await startTapeExchange(
      t,
      {},
      { ...KNOWN_EXCHANGES[dialect], sinceMode: 'skip' },
    );
    const client = makeClient(t, { baseUrl: server.url, dialect });
    const [newest, other] = await Promise.all([
      client.history({ market, lastId: 0, limit: 10 }),
      client.history({ market, lastId: 7, limit: 10 }),
    ]);
    assert.deepEqual([newest.isRaised, other.isRaised], [true, false]);
  }
});

test('whitebit, p2b: more levels than they are known to answer are refused, not left out', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => response.end('{}'));
  for (const dialect of OTHERS) {
    const client = makeClient(t, { baseUrl: stub.baseUrl, dialect });
    await assert.rejects(client.depth({ market, limit: 101 }), {
      code: 'invalid_parameter',
      message: new RegExp(`${dialect} is known to answer 100 levels at most`),
    });
  }
  assert.deepEqual(stub.seen, []);
});

/** Candles by their place before the open one, as P2B counts them; one is missing where no trade happened. */
async function startP2bCandles(t: TestContext, nowS: number, missing: (place: number) => boolean) {
  const places = Array.from({ length: 3000 }, (_, at) => at).filter((place) => !missing(place));
  return await startHttpStub(t, ({ url = '' }, response) => {
    const query = new URL(url, 'http://p2b').searchParams;
    const raised = (name: string) => Math.ceil(Number(query.get(name)) / 50) * 50;
    const page = places.slice(raised('offset'), raised('offset') + Math.min(500, raised('limit')));
    const rows = page.map((place) => {
      const openS = Math.floor(nowS / 60) * 60 - 60 * place;
      return [openS, '1', '1', '1', '1', '1', '1', market];
    });
    // Its time is the test's.
    response.sendDate = false;
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ success: true, errorCode: '', message: '', result: rows }));
  });
}

test('p2b: any span of candles comes whole, though it raises what is no multiple of 50', async (t) => {
  const nowS = TEST_ORIGIN_MS / 1000 + 30;
  const stub = await startP2bCandles(t, nowS, () => false);
  const exchangeClock = createExchangeClock({ clock: new FakeClock(nowS * 1000) });
  const { client } = makeStubClient(t, stub.baseUrl, { dialect: 'p2b', exchangeClock });
  const { candlesMax } = dialectOf('p2b');
  for (const back of [0, 1, 2, 3, 5, 47, 48, 51, 52, 53, 99, 102, 150, 1111]) {
    for (const count of [1, 10, 50, candlesMax]) {
      const end = Math.floor(nowS / 60) * 60 - 60 * back;
      const span = { start: end - 60 * (count - 1), end };
      const { data } = await client.call('kline', { market, ...span, interval: 60 });
      const what = `${count} candles, ${back} back`;
      assert.equal(data.kline.length, count, what);
      assert.deepEqual({ start: data.start, end: data.end }, span, what);
    }
  }
});

test('p2b: where offsets count candles and some are missing, an answer speaks of no more than it shows', async (t) => {
  const nowS = TEST_ORIGIN_MS / 1000 + 30;
  const openS = Math.floor(nowS / 60) * 60;
  // Nobody traded in three of four minutes.
  const stub = await startP2bCandles(t, nowS, (place) => place % 4 !== 0);
  const exchangeClock = createExchangeClock({ clock: new FakeClock(nowS * 1000) });
  const { client } = makeStubClient(t, stub.baseUrl, { dialect: 'p2b', exchangeClock });
  const ask = async (fromPlace: number, toPlace: number) => {
    const span = { start: openS - 60 * fromPlace, end: openS - 60 * toPlace };
    const { data } = await client.call('kline', { market, ...span, interval: 60 });
    return { from: (openS - data.start) / 60, to: (openS - data.end) / 60, kline: data.kline };
  };
  // Counted from the present it is sure where a page begins.
  const head = await ask(40, 1);
  assert.deepEqual([head.from, head.to, head.kline.length], [40, 1, 10]);
  // The page that is fifty candles back is two hundred minutes back.
  const deep = await ask(300, 100);
  assert.deepEqual([deep.from, deep.to], [300, 200]);
});

test('p2b: candles are counted back from when the question leaves, not from when it began to wait', async (t) => {
  const nowS = TEST_ORIGIN_MS / 1000;
  const stub = await startP2bCandles(t, nowS, () => false);
  const clock = new FakeClock(nowS * 1000);
  const exchangeClock = createExchangeClock({ clock });
  const { client } = makeStubClient(t, stub.baseUrl, { dialect: 'p2b', clock, exchangeClock });
  const span = { start: nowS - 540, end: nowS };
  const ask = () => client.call('kline', { market, ...span, interval: 60 });
  await Promise.all([ask(), ask()]);
  const waiting = ask();
  // So long that another fifty candles lie between.
  clock.advance(6_000_000);
  await waiting;
  const asked = stub.seen.map(({ url }) => /offset=.*/.exec(url)?.[0]);
  const early = 'offset=0&limit=50';
  assert.deepEqual(asked, [early, early, 'offset=50&limit=100']);
});

test('p2b: candles of other lengths than it has are refused by name', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => response.end('{}'));
  const client = makeClient(t, { baseUrl: stub.baseUrl, dialect: 'p2b' });
  const query = { market, start: 0, end: 900, interval: 900 };
  await assert.rejects(client.kline(query), {
    code: 'invalid_parameter',
    message: /p2b has candles of 1m, 1h, 1d, not of 15m/,
  });
});

test('p2b: what asks one endpoint too often is blocked there, and the client is not', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.p2b, systemClock);
  const client = makeClient(t, { baseUrl: server.url, dialect: 'p2b' });
  const asked = Array.from({ length: 6 }, () => client.depth({ market }));
  assert.equal((await Promise.all([...asked, client.tickers()])).length, 7);
  const url = `${server.url}/api/v2/public/ticker?market=${market}`;
  const statuses = await Promise.all(
    Array.from({ length: 7 }, async () => {
      const response = await fetch(url);
      await response.arrayBuffer();
      return [response.status, response.headers.get('retry-after')];
    }),
  );
  assert.deepEqual(statuses.slice(-2), Array(2).fill([429, '60']));
  await assert.rejects(client.ticker(market), { code: 'rate_limited' });
});

test('whitebit: a list with an unknown market is refused', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.whitebit);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  for (const method of ['market_subscribe', 'trades_subscribe']) {
    const { error } = await socket.ask(method, [market, 'NO_SUCH']);
    assert.deepEqual(error, { code: 9, message: 'unknown market' });
  }
});

test('whitebit: a connection that sends too much is closed', async (t) => {
  const { server } = await startTapeExchange(t, {}, KNOWN_EXCHANGES.whitebit);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  for (let at = 0; at < 200; at += 1) assert.equal((await socket.ask('ping', [])).result, 'pong');
  void socket.ask('ping', []).catch(() => undefined);
  assert.equal(await socket.closed(), 1008);
});
