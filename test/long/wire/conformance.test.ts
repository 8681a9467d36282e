import assert from 'node:assert/strict';
import { test } from 'node:test';
import { endpointNames, endpoints } from '../../../src/contract/endpoints.js';
import { realtimeMethods } from '../../../src/contract/realtime.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { ExchangeProbe, RequestsUsedUpError } from '../../conformance/exchange-probe.js';
import { caseLines, summaryLines } from '../../conformance/report.js';
import { CASES } from '../../conformance/suite.js';
import {
  idsWith,
  judge,
  judgeOpenly,
  startJudged,
  startJudgedLive,
} from '../../support/conformance/conformance.js';
import { sendJson, startHttpStub } from '../../support/exchanges/stub-server.js';
import {
  startTapeExchange,
  TEST_ORIGIN_MS,
  writeTape,
} from '../../support/exchanges/tape-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';

test('every case has a name of its own, and every endpoint and method has cases', () => {
  assert.equal(new Set(CASES.map(({ id }) => id)).size, CASES.length);
  for (const name of endpointNames) {
    const own = CASES.filter(({ id }) => id.startsWith(`${name}.`));
    assert.ok(own.length > 0, name);
    for (const field of Object.keys(endpoints[name].params.shape)) {
      assert.ok(
        own.some(({ id }) => id.startsWith(`${name}.${field}.`)),
        `${name} ${field}`,
      );
    }
  }
  for (const method of Object.keys(realtimeMethods)) {
    const word = method.split('.')[1] ?? '';
    assert.ok(
      CASES.some(({ id }) => id.startsWith(`realtime.${word}`)),
      method,
    );
  }
});

/** What can only be seen where trades are pushed, which the contract does not ask for. */
const NEED_PUSHES = ['feed', 'history', 'subscribe', 'update'].map(
  (name) => `realtime.trades.${name}`,
);

/** What can only be seen where accounts are. */
const NEED_ACCOUNTS = [
  'balances.signed',
  'orderNew.active',
  'orderNew.amount.least',
  'orderNew.amount.negative',
  'orderNew.amount.zero',
  'orderNew.freeze',
  'orderNew.funds.money',
  'orderNew.funds.stock',
  'orderNew.price.negative',
  'orderNew.price.zero',
  'orderNew.signed',
];

test('our server conforms to the contract as it is set by default', async (t) => {
  const { server, record } = await startJudged(t);
  const result = await judge(server.url, { realtimeUrl: server.realtimeUrl });
  const told = result.cases.filter(({ verdict }) => verdict !== 'pass').flatMap(caseLines);
  assert.deepEqual(idsWith('fail', result), [], told.join('\n'));
  assert.deepEqual(idsWith('differs', result), [], told.join('\n'));
  // A tape has no accounts, so there are no balances and active orders to look at, nor new ones.
  assert.deepEqual(idsWith('skipped', result), [...NEED_ACCOUNTS, ...NEED_PUSHES], told.join('\n'));
  assert.equal(result.cases.length, CASES.length);
  assert.equal(result.requests, record.requests.length);
  assert.ok(result.requests < 250, `${result.requests} requests`);
});

test('without keys and without an address nothing is signed and no socket is opened', async (t) => {
  const { server, record } = await startJudged(t);
  const result = await judgeOpenly(server.url);
  const skipped = result.cases.filter(({ verdict }) => verdict === 'skipped');
  assert.ok(skipped.every(({ id }) => /^(realtime|auth|orders|orderNew)\.|\.signed\b/.test(id)));
  const reasons = new Set(skipped.flatMap(({ remarks }) => remarks));
  assert.deepEqual([...reasons].sort(), ['no keys were given', 'no real-time address was given']);
  assert.ok(record.requests.every(({ endpoint }) => endpoint !== 'balances'));
});

const FAMILY = {
  errorShapes: 'family',
  bidsOrder: 'ascending',
  sinceMode: 'id',
  updateShape: 'family',
  unknownMethod: 'silent',
  pageCap: 100,
} as const;

test("the family's ways are told as known variations, and none of them fails", async (t) => {
  const { server } = await startJudged(t, FAMILY);
  const { realtimeUrl, url } = server;
  const result = await judge(url, { realtimeUrl, realtimeTimeoutMs: 1000 });
  const told = result.cases.filter(({ verdict }) => verdict === 'fail').flatMap(caseLines);
  assert.deepEqual(idsWith('fail', result), [], told.join('\n'));
  const seen = new Map(
    result.cases.flatMap(({ id, variations }) => variations.map((name) => [id, name] as const)),
  );
  const idsOf = (variation: string) =>
    [...seen].filter(([, name]) => name === variation).map(([id]) => id);
  assert.deepEqual(idsOf('bidsAscending'), ['depth.bids']);
  assert.deepEqual(idsOf('idMode'), ['history.lastId.meaning', 'historyResult.since.meaning']);
  assert.deepEqual(idsOf('familyUpdate'), ['realtime.update']);
  assert.deepEqual(idsOf('pageCap'), ['history.limit.1000', 'historyResult.limit.1000']);
  assert.deepEqual(idsOf('silence'), ['realtime.method']);
  assert.deepEqual(idsOf('errorShapes').sort(), [
    'book.limit.1001',
    'book.market.unknown',
    'depth.limit.1001',
    'depth.market.unknown',
    'history.limit.1001',
    'history.market.unknown',
    'historyResult.limit.1001',
    'historyResult.market.unknown',
    'kline.market.unknown',
    'orderNew.market.unknown',
    'orders.market.unknown',
    'path.unknown',
    'ticker.market.unknown',
  ]);
  const lines = summaryLines(result).join('\n');
  assert.match(lines, /known variation idMode: since and lastId are trade ids \(2 cases\)/);
});

test('pushed trades and lists of markets are judged where an exchange has them', async (t) => {
  const variants = {
    tradeFeed: 'pushed',
    subscribeForm: 'markets',
    updateShape: 'family',
  } as const;
  const lines = Array.from(
    { length: 3000 },
    (_, at) => `${at + 1},${TEST_ORIGIN_MS + at * 100},100.5,0.25,buy`,
  );
  const path = await writeTape(t, lines);
  const tapes = ['BTC_USDT', 'ETH_USDT'].map((market) => ({ market, path }));
  const { server } = await startTapeExchange(t, { tapes, startOffsetS: 10 }, variants, systemClock);
  const { url, realtimeUrl } = server;
  const result = await judgeOpenly(url, { realtimeUrl, market: 'BTC_USDT', only: 'realtime.' });
  const told = result.cases.flatMap(caseLines).join('\n');
  assert.deepEqual(idsWith('fail', result), [], told);
  const lists = result.cases.filter(({ variations }) => variations.includes('lists'));
  assert.deepEqual(
    lists.map(({ id }) => id),
    ['subscribe', 'update', 'unsubscribe', 'feed', 'list'].map((name) => `realtime.${name}`),
  );
  const passed = idsWith('pass', result).filter((id) => id.startsWith('realtime.trades.'));
  assert.deepEqual(passed, NEED_PUSHES, told);
});

test('capped pages are a known variation', async (t) => {
  const { server } = await startJudged(t, { pageCap: 100 });
  const result = await judge(server.url);
  assert.deepEqual(idsWith('fail', result), []);
  assert.deepEqual(idsWith('differs', result), ['history.limit.1000', 'historyResult.limit.1000']);
});

test('the live exchange conforms to the contract, without exception', async (t) => {
  const server = await startJudgedLive(t);
  const result = await judge(server.url, { realtimeUrl: server.realtimeUrl });
  const told = result.cases.filter(({ verdict }) => verdict !== 'pass');
  assert.deepEqual(
    told.map(({ id }) => id).sort(),
    NEED_PUSHES,
    told.flatMap(caseLines).join('\n'),
  );
});

test('filled candles, and opens at the close before, are known variations', async (t) => {
  const server = await startJudgedLive(t, { emptyCandles: 'filled', candleOpen: 'previous' });
  const busy = await judge(server.url, { only: 'kline.', market: 'BTC_USDT' });
  assert.deepEqual(idsWith('differs', busy), ['kline.opens']);
  const quiet = await judge(server.url, { only: 'kline.', market: 'LTC_USDT' });
  assert.deepEqual(idsWith('differs', quiet), ['kline.empty']);
  assert.deepEqual([...idsWith('fail', busy), ...idsWith('fail', quiet)], []);
});

test('haste is waited out: nothing is sent before Retry-After has passed', async (t) => {
  const clock = new FakeClock();
  const stub = await startHttpStub(t, (_request, response, index) => {
    if (index > 0) return sendJson(response, { code: 200, success: true, message: '', result: [] });
    response.writeHead(429, { 'retry-after': '7' });
    return response.end('{}');
  });
  const limits = { ratePerS: 2, maxRequests: 3, timeoutMs: 60_000 };
  const probe = new ExchangeProbe({ url: stub.baseUrl, clock, ...limits });
  t.after(() => probe.close());
  const asked = probe.get('markets');
  await stub.requests(1);
  while (clock.nextTimerMs === undefined || clock.nextTimerMs > 7000) await clock.run(0);
  await clock.run(6_999);
  assert.equal(stub.seen.length, 1);
  await clock.run(1_001);
  assert.equal((await asked).status, 200);
  assert.equal(stub.seen.length, 2);
  await clock.run(10_000);
  await probe.fresh('markets');
  await assert.rejects(probe.fresh('markets'), RequestsUsedUpError);
  assert.equal(stub.seen.length, 3);
});

test('requests go out at the rate that was set, never in a burst', async (t) => {
  const clock = new FakeClock();
  const stub = await startHttpStub(t, (_request, response) => sendJson(response, []));
  const limits = { ratePerS: 2, maxRequests: 10, timeoutMs: 60_000 };
  const probe = new ExchangeProbe({ url: stub.baseUrl, clock, ...limits });
  t.after(() => probe.close());
  await probe.fresh('markets');
  const more = Promise.all([probe.fresh('markets'), probe.fresh('markets')]);
  await clock.run(499);
  assert.equal(stub.seen.length, 1);
  await clock.run(1);
  await stub.requests(2);
  await clock.run(499);
  assert.equal(stub.seen.length, 2);
  await clock.run(1);
  await more;
  assert.equal(stub.seen.length, 3);
});

test('what the client reads besides the contract is no excuse for the server', async (t) => {
  const strict = [
    [{ historyTotal: 'omitted' }, 'history.', /has no total/],
    [{ tickerName: 'omitted' }, 'ticker', /has no name/],
    [{ bookFees: 'omitted' }, 'book.', /has no takerFee/],
    [{ envelopes: 'swapped' }, 'historyResult.', /is no array/],
  ] as const;
  for (const [variants, only, reason] of strict) {
    const { server } = await startJudged(t, variants);
    const result = await judgeOpenly(server.url, { only });
    const failed = result.cases.filter(({ verdict }) => verdict === 'fail');
    assert.ok(failed.length > 0, only);
    const told = failed.flatMap(({ remarks }) => remarks);
    assert.ok(
      told.some((remark) => reason.test(remark)),
      told.join('\n'),
    );
    assert.deepEqual([...new Set(failed.flatMap(({ failed: sides }) => sides))], ['server']);
  }
});
