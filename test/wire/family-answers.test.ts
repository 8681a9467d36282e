import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { ExchangeClient } from '../../src/client/index.js';
import type { EndpointName } from '../../src/contract/endpoints.js';
import { codeOf, TapekeepError } from '../../src/kernel/errors.js';
import { sendJson, startHttpStub } from '../support/exchanges/stub-server.js';

/** Answers of servers of the family as they were recorded, through the whole client. */

async function open(t: TestContext, answer: Parameters<typeof startHttpStub>[1]) {
  const stub = await startHttpStub(t, answer);
  const client = new ExchangeClient({ baseUrl: stub.baseUrl, requestsPerS: 1000, burst: 100 });
  t.after(() => client.close());
  return { stub, client };
}

const trade = { tid: 265, date: 1533292963, price: '2', type: 'sell', amount: '1', total: '2' };
const level = ['87178.7', '0.007689'];
const depth = { asks: [level], bids: [level] };
const page = { offset: 0, limit: 50, total: 0, orders: [] };
const kline = { market: 'BTC_USDT', start: 0, end: 0, interval: 60, kline: [] };
const asked = { market: 'BTC_USDT', since: 0, start: 0, end: 0, side: 'buy' } as const;
const PARAMS: Readonly<Partial<Record<EndpointName, readonly string[]>>> = {
  history: ['market'],
  historyResult: ['market', 'since'],
  depth: ['market'],
  book: ['market', 'side'],
  kline: ['market', 'start', 'end'],
  ticker: ['market'],
};

function call(client: ExchangeClient, name: EndpointName) {
  const entries = Object.entries(asked).filter(([key]) => PARAMS[name]?.includes(key) === true);
  return client.call(name, Object.fromEntries(entries) as never);
}

/** Who answers what to which question: the error that it means, by code and action. */
const errors: ReadonlyArray<
  readonly [who: string, name: EndpointName, status: number, body: unknown, error: string]
> = [
  [
    'EarnBIT, unknown market, depth',
    'depth',
    200,
    { code: 500, success: false, message: 'service unavailable', result: [] },
    'service_unavailable retry',
  ],
  [
    'EarnBIT, unknown market, ticker',
    'ticker',
    400,
    { market: ['Market is not available'] },
    'market_unavailable skip',
  ],
  [
    'EarnBIT, bad value',
    'history',
    400,
    { limit: ['The limit may not be greater than 1000.'] },
    'field_errors skip',
  ],
  [
    'EarnBIT, unknown path',
    'history',
    404,
    { status: 'error', message: 'Cannot GET /api/v1/public/histor', result: null },
    'not_found skip',
  ],
  [
    'P2B, unknown market',
    'depth',
    400,
    { success: false, errorCode: 2021, message: 'Unknown market.', result: [] },
    'market_unavailable skip',
  ],
  [
    'P2B, market in lower case',
    'kline',
    400,
    { success: false, errorCode: 2022, message: 'Unknown market.', result: [] },
    'market_unavailable skip',
  ],
  ...[3060, 3100, 3110].map(
    (errorCode) =>
      [
        `P2B, bad value ${errorCode}`,
        'history',
        422,
        { success: false, errorCode, message: 'Bad.', result: [] },
        'invalid_input skip',
      ] as const,
  ),
  [
    'P2B, unknown path',
    'history',
    400,
    { success: false, errorCode: 1019, message: 'Route not found.', result: [] },
    'wrong_dialect fatal',
  ],
  [
    'WhiteBIT, candles as arrays',
    'kline',
    200,
    { success: true, message: null, result: [[1631440800, '1', '1', '1', '1', '1', '1']] },
    'wrong_dialect fatal',
  ],
  [
    'WhiteBIT, unknown market',
    'ticker',
    200,
    { success: false, message: { market: ['Market is not available.'] }, result: null },
    'market_unavailable skip',
  ],
  [
    'WhiteBIT, bad value',
    'kline',
    200,
    { success: false, message: { end: ['End is wrong.'] }, result: null },
    'field_errors skip',
  ],
  [
    'an error without code or text',
    'depth',
    200,
    { success: false, message: null },
    'service_unavailable retry',
  ],
  ['an empty list where an envelope is due', 'history', 200, [], 'malformed_reply retry'],
  ['a list of nothing readable', 'history', 200, [{ error: 1 }], 'malformed_reply retry'],
  ['an object of nothing readable', 'tickers', 200, { error: 'x' }, 'malformed_reply retry'],
];

test('each refusal of the family becomes its typed error', async (t) => {
  const { client } = await open(t, (_request, response, index) => {
    const [, , status = 500, body] = errors[index] ?? [];
    sendJson(response, body, status);
  });
  for (const [who, name, , , expected] of errors) {
    await assert.rejects(
      () => call(client, name),
      (error: unknown) => {
        assert.ok(error instanceof TapekeepError);
        assert.equal(`${codeOf(error)} ${error.action}`, expected, who);
        return true;
      },
    );
  }
});

const success = (result: unknown) => ({ success: true, message: null, result, more: 1 });

test('a payload is read whichever way it is wrapped', async (t) => {
  const answers: ReadonlyArray<readonly [EndpointName, unknown, unknown]> = [
    ['historyResult', success([trade]), [trade]],
    ['historyResult', success([]), []],
    ['depth', success(depth), depth],
    ['history', [{ id: 1, time: 1.5, price: '2', type: 'buy', amount: '3' }], undefined],
    ['kline', kline, kline],
    ['book', page, page],
    ['products', [{ id: 'A_B', fromSymbol: 'A', toSymbol: 'B' }], undefined],
  ];
  const { client } = await open(t, (_request, response, index) => {
    sendJson(response, answers[index]?.[1]);
  });
  for (const [name, told, expected] of answers) {
    const { data, rejected } = await call(client, name);
    assert.deepEqual(rejected, [], name);
    if (expected !== undefined) assert.deepEqual(data, expected);
    else assert.equal((data as unknown[]).length, (told as unknown[]).length);
  }
});

test('an offset of 0 that is refused by name is asked for as 1, from then on at once', async (t) => {
  const { stub, client } = await open(t, ({ url }, response) => {
    const { searchParams } = new URL(url, 'http://x');
    const field = searchParams.has('since') ? 'since' : 'lastId';
    if (searchParams.get(field) === '0') {
      sendJson(response, { success: false, message: { [field]: ['Min 1.'] }, result: [] }, 400);
    } else if (field === 'since') sendJson(response, [trade]);
    else sendJson(response, success([{ ...trade, id: 1, time: 1.5 }]));
  });
  for (const isRaised of [true, true]) {
    assert.equal((await client.historyResult({ market: 'BTC_USDT', since: 0 })).isRaised, isRaised);
    assert.equal((await client.history({ market: 'BTC_USDT' })).isRaised, isRaised);
  }
  assert.equal((await client.historyResult({ market: 'BTC_USDT', since: 5 })).isRaised, false);
  const offsets = stub.seen.map(({ url }) => /(since|lastId)=\d+/.exec(url)?.[0]);
  assert.deepEqual(offsets, [
    ...['since=0', 'since=1', 'lastId=0', 'lastId=1'],
    ...['since=1', 'lastId=1', 'since=5'],
  ]);
});

test('an offset that is refused for another reason is not asked for again', async (t) => {
  const { stub, client } = await open(t, (_request, response) => {
    sendJson(response, { success: false, message: { limit: ['Max 100.'] }, result: [] }, 400);
  });
  await assert.rejects(() => client.historyResult({ market: 'BTC_USDT', since: 0 }));
  assert.equal(stub.seen.length, 1);
});

test('cache_time is the moment that an answer shows', async (t) => {
  const nowS = Date.now() / 1000;
  const times: ReadonlyArray<readonly [unknown, number | null]> = [
    [nowS - 11.2, (nowS - 11.2) * 1000],
    [String(Math.floor(nowS) - 60), (Math.floor(nowS) - 60) * 1000],
    // Of a time that has not come nothing can be shown yet: the moment of the request stays.
    [nowS + 3600, (nowS + 3600) * 1000],
    ['soon', null],
    [undefined, null],
  ];
  const { client } = await open(t, (_request, response, index) => {
    const cache_time = times[Math.floor(index / 2)]?.[0];
    const isDepth = index % 2 === 0;
    sendJson(response, isDepth ? { ...depth, cache_time } : { ...success([trade]), cache_time });
  });
  for (const [, cachedAtMs] of times) {
    const replies = [await call(client, 'depth'), await call(client, 'historyResult')];
    for (const reply of replies) {
      assert.equal(reply.cachedAtMs, cachedAtMs);
      const shownMs = cachedAtMs ?? Number.POSITIVE_INFINITY;
      assert.ok(reply.sentAtMs <= shownMs, `${reply.sentAtMs} is later than ${shownMs}`);
      if (shownMs > client.time.nowMs()) assert.ok(reply.sentAtMs > (nowS - 5) * 1000);
    }
  }
});
