import assert from 'node:assert/strict';
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import test from 'node:test';
import {
  InvalidParameterError,
  MissingCredentialsError,
  NetworkError,
  RateLimitedError,
  TimeoutError,
  UnknownOutcomeError,
} from '../../src/client/index.js';
import { endpoints } from '../../src/contract/endpoints.js';
import { successEnvelope } from '../../src/contract/error-shapes.js';
import { AUTH_HEADERS, sign } from '../../src/contract/signing.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import { isAborted } from '../../src/kernel/errors.js';
import {
  rawJson,
  type SeenRequest,
  sendJson,
  startHttpStub,
  startTcpStub,
} from '../support/exchanges/stub-server.js';
import { makeStubClient } from '../support/exchanges/stub-server-client.js';
import { FakeClock } from '../support/fake-clock.js';

const trade = (tid: number) => ({
  tid,
  date: 1_704_070_810,
  price: '42000.10',
  type: 'buy',
  amount: '0.5',
  total: '21000.05',
});
const credentials = { apiKey: 'test-key', secret: 'test-secret' };
const balances = successEnvelope({ BTC: { available: '1', freeze: '0' } });
const answerBalances = (_request: SeenRequest, response: ServerResponse) =>
  sendJson(response, balances);
const MARKETS_REPLY = rawJson(JSON.stringify(successEnvelope([])));
const answerMarkets = (_request: SeenRequest, response: ServerResponse) =>
  sendJson(response, successEnvelope([]));

test('every public endpoint is asked at its path of the table, under a path prefix too', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => sendJson(response, null));
  const { client } = makeStubClient(t, `${stub.baseUrl}/spot/`);
  const market = 'BTC_USDT';
  const calls = [
    client.markets(),
    client.products(),
    client.tickers(),
    client.ticker(market),
    client.kline({ market, start: 60, end: 120 }),
    client.history({ market, lastId: 5 }),
    client.historyResult({ market, since: 0, limit: 1000 }),
    client.depth({ market }),
    client.book({ market, side: 'buy' }),
  ];
  for (const result of await Promise.allSettled(calls)) assert.equal(result.status, 'rejected');
  assert.deepEqual(stub.seen.map((request) => request.url).sort(), [
    '/spot/api/v1/public/book?market=BTC_USDT&side=buy&offset=0&limit=50',
    '/spot/api/v1/public/depth/result?market=BTC_USDT&limit=50',
    '/spot/api/v1/public/history/result?market=BTC_USDT&since=0&limit=1000',
    '/spot/api/v1/public/history?market=BTC_USDT&lastId=5&limit=50',
    '/spot/api/v1/public/kline?market=BTC_USDT&start=60&end=120&interval=60',
    '/spot/api/v1/public/markets',
    '/spot/api/v1/public/products',
    '/spot/api/v1/public/ticker?market=BTC_USDT',
    '/spot/api/v1/public/tickers',
  ]);
  assert.ok(stub.seen.every((request) => request.method === 'GET'));
  assert.ok(stub.seen.every((request) => request.headers['accept-encoding'] === 'identity'));
});

test('a reply tells its rows, its times and who sent it', async (t) => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1));
  const dateMs = Date.UTC(2024, 0, 1, 1, 0, 10);
  const stub = await startHttpStub(t, (_request, response) => {
    clock.advance(40);
    response.setHeader('date', new Date(dateMs).toUTCString());
    response.setHeader('x-tapekeep-exchange', 'sandbox-7');
    sendJson(response, [trade(2), { ...trade(1), price: '-1' }]);
  });
  const budget = new RequestBudget({ clock, ratePerS: 1000, burst: 1000, maxWaiting: 100 });
  const { client, ended, exchangeClock } = makeStubClient(t, stub.baseUrl, { clock, budget });
  // Reading an answer takes time, which is no part of its way.
  const readMs = 30;
  const served = budget.served.bind(budget);
  budget.served = () => {
    clock.advance(readMs);
    served();
  };
  const reply = await client.historyResult({ market: 'BTC_USDT', since: 0 });
  assert.deepEqual(reply.data, [trade(2)]);
  assert.deepEqual(
    reply.rejected.map(({ at, reason }) => ({ at, reason })),
    [{ at: 1, reason: 'price: negative' }],
  );
  assert.equal(reply.dateMs, dateMs);
  assert.equal(reply.identity, 'sandbox-7');
  assert.equal(reply.receivedAtMs, clock.wallMs() - readMs);
  assert.equal(reply.durationMs, 40 + readMs);
  // Answered at this date at the earliest, so asked 40 ms before: the exchange lives in 2024.
  assert.equal(reply.sentAtMs, dateMs - 40);
  assert.equal(reply.answeredAtMs, dateMs);
  assert.equal(exchangeClock.nowMs(), dateMs + readMs);
  const { durationMs, bytes } = reply;
  assert.deepEqual(ended, [
    { endpoint: 'historyResult', outcome: 'rejected_rows', durationMs, bytes },
  ]);
});

test('where no Date header comes, the newest ticker tells the time', async (t) => {
  const clock = new FakeClock(Date.UTC(2026, 0, 1));
  const entry = (at: number) => ({
    at,
    ticker: {
      name: 'A_B',
      bid: '1',
      ask: '2',
      open: '1',
      high: '1',
      low: '1',
      last: '1',
      vol: '1',
      deal: '1',
      change: '0',
    },
  });
  const stub = await startHttpStub(t, (_request, response) => {
    response.sendDate = false;
    sendJson(response, successEnvelope({ A_B: entry(1_704_070_800), C_D: entry(1_704_070_810) }));
  });
  const { client, exchangeClock } = makeStubClient(t, stub.baseUrl, { clock });
  const reply = await client.tickers();
  assert.equal(reply.dateMs, null);
  assert.equal(reply.sentAtMs, 1_704_070_810_000);
  assert.equal(reply.answeredAtMs, 1_704_070_810_000);
  assert.equal(exchangeClock.nowMs(), 1_704_070_810_000);
});

test('parameters outside the limits are refused before anything is sent', async (t) => {
  const stub = await startHttpStub(t, answerMarkets);
  const { client } = makeStubClient(t, stub.baseUrl);
  const refuse = async (call: Promise<unknown>, pattern: RegExp) => {
    await assert.rejects(call, (error) => {
      assert.ok(error instanceof InvalidParameterError);
      assert.match(error.message, pattern);
      return true;
    });
  };
  await refuse(client.historyResult({ market: 'A_B', since: 0, limit: 1001 }), /limit = 1001/);
  await refuse(client.history({ market: '' }), /market = ""/);
  await refuse(client.kline({ market: 'A_B', start: 0, end: 1, interval: 7 }), /interval = 7/);
  await refuse(
    client.call('depth', { market: 'A_B', depth: 5 } as never),
    /^depth: not sent: there is no parameter depth; it takes market, limit$/,
  );
  // From programs without types.
  await refuse(
    client.depth('A_B' as never),
    /^depth: not sent: "A_B" was given; expected an object with market, limit$/,
  );
  await refuse(
    client.depth(undefined as never),
    /: nothing was given; expected an object with mar/,
  );
  await refuse(client.depth({} as never), /: market: expected a name .* \(market is missing\)$/);
  assert.deepEqual(stub.seen, []);
});

const drips: Array<readonly [string, (response: ServerResponse) => void]> = [
  ['no byte', () => {}],
  [
    'the head only',
    (response) => response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders(),
  ],
  [
    'part of the body',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      response.write('{"code":200,"succ');
    },
  ],
];
for (const [name, drip] of drips) {
  test(`the total deadline ends an answer of which came ${name}, and frees its slot`, async (t) => {
    const clock = new FakeClock();
    const stub = await startHttpStub(t, (_request, response, index) => {
      if (index === 0) drip(response);
      else sendJson(response, successEnvelope([]));
    });
    const { client, ended } = makeStubClient(t, stub.baseUrl, { clock, connections: 1 });
    const slow = client.markets();
    const next = client.markets();
    await stub.requests(1);
    clock.advance(9999);
    assert.equal(ended.length, 0);
    clock.advance(1);
    await assert.rejects(slow, TimeoutError);
    await next;
    assert.deepEqual(
      ended.map((event) => event.outcome),
      ['timeout', 'ok'],
    );
    assert.equal(clock.pendingTimers, 0, 'no deadline is left behind');
  });
}

const retryAfters: Array<readonly [string | undefined, number]> = [
  ['7', 7000],
  ['Mon, 01 Jan 2024 01:00:25 GMT', 15_000],
  ['-30', 0],
  ['Mon, 01 Jan 2024 00:00:00 GMT', 0],
  // Of one answer a minute is believed, and nothing of what cannot be meant.
  ['3600', 60_000],
  ['99999999999', 1000],
  ['Fri, 01 Jan 2100 00:00:00 GMT', 1000],
  ['soon', 1000],
  [undefined, 1000],
];
for (const [retryAfter, waitMs] of retryAfters) {
  test(`429 with Retry-After ${retryAfter}: no request for ${waitMs} ms`, async (t) => {
    const clock = new FakeClock();
    const stub = await startHttpStub(t, ({ url }, response, index) => {
      response.setHeader('date', 'Mon, 01 Jan 2024 01:00:10 GMT');
      if (index > 0)
        return sendJson(
          response,
          url.includes('depth') ? { asks: [], bids: [] } : successEnvelope([]),
        );
      if (retryAfter !== undefined) response.setHeader('retry-after', retryAfter);
      return sendJson(response, {}, 429);
    });
    const { client, budget } = makeStubClient(t, stub.baseUrl, { clock });
    const { client: other } = makeStubClient(t, stub.baseUrl);
    await assert.rejects(client.markets(), (error) => {
      assert.ok(error instanceof RateLimitedError);
      return true;
    });
    assert.ok(budget.state().ratePerS < 1000);
    const second = client.markets();
    if (waitMs > 0) {
      await clock.run(waitMs - 1);
      // A request of somebody else comes and goes: ours would have been seen before it.
      await other.depth({ market: 'A_B' });
      assert.equal(stub.seen.filter(({ url }) => url.endsWith('markets')).length, 1);
      clock.advance(1);
    }
    await second;
    assert.equal(stub.seen.filter(({ url }) => url.endsWith('markets')).length, 2);
  });
}

test('a request that waited for a free connection does not start inside a pause', async (t) => {
  const clock = new FakeClock();
  const held: ServerResponse[] = [];
  const stub = await startHttpStub(t, (_request, response, index) => {
    if (index === 0) held.push(response);
    else sendJson(response, successEnvelope([]));
  });
  const { client } = makeStubClient(t, stub.baseUrl, { clock, connections: 1 });
  const { client: other } = makeStubClient(t, stub.baseUrl);
  const first = client.markets();
  const second = client.markets();
  await stub.requests(1);
  held[0]?.writeHead(429, { 'retry-after': '5' }).end();
  await assert.rejects(first, RateLimitedError);
  await other.markets();
  assert.equal(stub.seen.length, 2, 'only the first and the one of somebody else');
  await clock.run(5000);
  await second;
});

test('rate-limit headers reach the budget, also when the reset is a moment', async (t) => {
  const clock = new FakeClock();
  const dateMs = Date.UTC(2024, 0, 1);
  const resets = ['10', String(dateMs / 1000 + 20)];
  const stub = await startHttpStub(t, (_request, response, index) => {
    response.setHeader('date', new Date(dateMs).toUTCString());
    response.setHeader('x-ratelimit-limit', '500');
    response.setHeader('x-ratelimit-remaining', '20');
    response.setHeader('x-ratelimit-reset', resets[index] ?? '');
    sendJson(response, successEnvelope([]));
  });
  const { client, budget } = makeStubClient(t, stub.baseUrl, { clock });
  await client.markets();
  assert.equal(budget.state().ratePerS, 2);
  await client.markets();
  assert.ok(Math.abs(budget.state().ratePerS - 1) < 0.06);
});

test('the budget lets urgent calls go first', async (t) => {
  const clock = new FakeClock();
  const stub = await startHttpStub(t, (_request, response) => sendJson(response, null));
  const budget = new RequestBudget({ clock, ratePerS: 1, burst: 1, maxWaiting: 10 });
  const { client } = makeStubClient(t, stub.baseUrl, { clock, budget });
  const calls = [
    client.markets({ priority: 5 }),
    client.products({ priority: 9 }),
    client.tickers({ priority: 1 }),
  ].map((call) => call.catch(() => {}));
  for (const [count, call] of [calls[0], calls[2], calls[1]].entries()) {
    await stub.requests(count + 1);
    await call;
    await clock.run(1000);
  }
  assert.deepEqual(
    stub.seen.map(({ url }) => url.split('/').at(-1)),
    ['markets', 'tickers', 'products'],
  );
});

test('the signed body and its headers equal the known vector', async (t) => {
  const stub = await startHttpStub(t, answerBalances);
  const clock = new FakeClock(1_704_070_810_000);
  const { client } = makeStubClient(t, stub.baseUrl, { clock, credentials });
  const reply = await client.balances();
  assert.deepEqual({ ...reply.data }, { BTC: { available: '1', freeze: '0' } });
  const [request] = stub.seen;
  assert.equal(request?.method, 'POST');
  assert.equal(request.body, '{"request":"/api/v1/account/balances","nonce":1704070810000}');
  assert.equal(request.headers['content-type'], 'application/json');
  assert.equal(request.headers[AUTH_HEADERS.apiKey], 'test-key');
  assert.equal(
    request.headers[AUTH_HEADERS.payload],
    'eyJyZXF1ZXN0IjoiL2FwaS92MS9hY2NvdW50L2JhbGFuY2VzIiwibm9uY2UiOjE3MDQwNzA4MTAwMDB9',
  );
  assert.equal(
    request.headers[AUTH_HEADERS.signature],
    '19aaecd5067e5849855421740ceb3be92cc4c9d4c57480d9bf90e3b5bd88f39c2799e8cb036bb6a6ca72adca3893749e239c07132beb330ab238f9342763677b',
  );
});

test('a public endpoint has a signed form, and the signed content can be the body', async (t) => {
  const stub = await startHttpStub(t, (_request, response) =>
    sendJson(response, { asks: [], bids: [] }),
  );
  const clock = new FakeClock(1_704_070_810_000);
  const { client } = makeStubClient(t, stub.baseUrl, { clock, credentials, signedContent: 'body' });
  await client.depth({ market: 'BTC_USDT', limit: 3 }, { form: 'post' });
  const { body = '', headers } = stub.seen[0] ?? {};
  assert.deepEqual(JSON.parse(body), {
    market: 'BTC_USDT',
    limit: 3,
    request: endpoints.depth.path,
    nonce: 1_704_070_810_000,
  });
  assert.equal(headers?.[AUTH_HEADERS.signature], sign('test-secret', body, 'body'));
});

test('without credentials a signed call fails at once', async (t) => {
  const stub = await startHttpStub(t, answerBalances);
  const { client } = makeStubClient(t, stub.baseUrl);
  await assert.rejects(client.balances(), MissingCredentialsError);
  assert.deepEqual(stub.seen, []);
});

const nonceOf = (request: SeenRequest) => (JSON.parse(request.body) as { nonce: number }).nonce;

test('nonces rise strictly, one request at a time, though the wall clock goes back', async (t) => {
  const clock = new FakeClock();
  let underWay = 0;
  let most = 0;
  const stub = await startHttpStub(t, (_request, response) => {
    underWay += 1;
    most = Math.max(most, underWay);
    setImmediate(() => {
      underWay -= 1;
      sendJson(response, balances);
    });
  });
  const saved: number[] = [];
  const nonceStore = {
    load: () => Promise.resolve(saved.at(-1)),
    save: (nonce: number) => Promise.resolve(void saved.push(nonce)),
  };
  const { client } = makeStubClient(t, stub.baseUrl, { clock, credentials, nonceStore });
  const calls = Array.from({ length: 20 }, () => client.balances());
  clock.stepWall(-3_600_000);
  await Promise.all(calls);
  const { client: restarted } = makeStubClient(t, stub.baseUrl, { clock, credentials, nonceStore });
  await restarted.balances();
  const nonces = stub.seen.map(nonceOf);
  assert.equal(nonces.length, 21);
  for (const [index, nonce] of nonces.entries()) {
    assert.ok(index === 0 || nonce > (nonces[index - 1] ?? nonce), 'in the order of arrival');
    assert.equal(String(nonce).length, 13);
  }
  assert.deepEqual(saved, nonces);
  assert.equal(most, 1);
});

test('a GET on a kept-alive connection that the server closed is sent once more', async (t) => {
  const stub = await startTcpStub(t, (socket, index) => {
    socket.write(MARKETS_REPLY);
    // The second request finds the door shut: reset on the first connection, a FIN on the second.
    socket.once('data', () => (index === 0 ? socket.resetAndDestroy() : socket.end()));
  });
  const { client, ended } = makeStubClient(t, `http://127.0.0.1:${stub.port}`, { connections: 1 });
  for (let calls = 0; calls < 3; calls += 1) await client.markets();
  assert.deepEqual(
    ended.map((event) => event.outcome),
    ['ok', 'network', 'ok', 'network', 'ok'],
  );
  assert.equal(stub.sockets.length, 3);
});

test('an answer that broke off on a kept-alive connection is not asked for again', async (t) => {
  const stub = await startTcpStub(t, (socket) => {
    socket.write(MARKETS_REPLY);
    socket.once('data', () => socket.end(MARKETS_REPLY.slice(0, 40)));
  });
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`, { connections: 1 });
  await client.markets();
  await assert.rejects(client.markets(), NetworkError);
  assert.equal(stub.sockets.length, 1);
});

test('the deadline also ends a connection that does not come about', async (t) => {
  const clock = new FakeClock();
  // A server that never answers the TLS greeting.
  const stub = await startTcpStub(t, () => {});
  // So long that the real timers of the connection do not end the call in the clock's place.
  const timeoutMs = 600_000;
  const { client, ended } = makeStubClient(t, `https://127.0.0.1:${stub.port}`, {
    clock,
    timeoutMs,
  });
  const call = client.markets();
  await stub.asked();
  clock.advance(timeoutMs);
  await assert.rejects(call, TimeoutError);
  assert.equal(ended[0]?.durationMs, timeoutMs);
});

test('an answer that waited while the process stood still comes too late', async (t) => {
  const clock = new FakeClock();
  const stub = await startHttpStub(t, (_request, response) => {
    clock.standStill(10_001);
    sendJson(response, successEnvelope([]));
  });
  const { client } = makeStubClient(t, stub.baseUrl, { clock });
  await assert.rejects(client.markets(), TimeoutError);
});

test('an order is never sent twice, whatever happens to its connection', async (t) => {
  const stub = await startTcpStub(t, (socket) => {
    socket.write(rawJson(JSON.stringify(balances)));
    socket.once('data', () => socket.resetAndDestroy());
  });
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`, {
    credentials,
    connections: 1,
  });
  await client.balances();
  const order = { market: 'BTC_USDT', price: '1', amount: '1', side: 'buy' } as const;
  await assert.rejects(client.placeOrder(order), UnknownOutcomeError);
  assert.equal(stub.sockets.length, 1);
});

test('an abort ends the call where it stands, and is counted as such', async (t) => {
  const stub = await startHttpStub(t, () => {});
  const { client, ended } = makeStubClient(t, stub.baseUrl, { connections: 1 });
  const controller = new AbortController();
  const sent = client.markets({ signal: controller.signal });
  const waiting = client.markets({ signal: controller.signal });
  await stub.requests(1);
  controller.abort();
  await assert.rejects(sent, isAborted);
  await assert.rejects(waiting, isAborted);
  assert.deepEqual(
    ended.map((event) => event.outcome),
    ['aborted'],
  );
});

test('close ends what is under way, may be called twice, and nothing goes out after it', async (t) => {
  const stub = await startHttpStub(t, () => {});
  const { client } = makeStubClient(t, stub.baseUrl);
  const sent = client.markets();
  await stub.requests(1);
  await Promise.all([assert.rejects(sent, isAborted), client.close(), client.close()]);
  await assert.rejects(client.markets(), isAborted);
  assert.equal(stub.seen.length, 1);
});

test('connections are kept alive, and no more than allowed are opened', async (t) => {
  const stub = await startTcpStub(t, (socket) => {
    socket.write(MARKETS_REPLY);
    socket.on('data', () => socket.write(MARKETS_REPLY));
  });
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`, { connections: 2 });
  await Promise.all(Array.from({ length: 12 }, () => client.markets()));
  assert.equal(stub.sockets.length, 2);
  const closed = Promise.all(stub.sockets.map((socket) => once(socket, 'close')));
  await client.close();
  await closed;
});
