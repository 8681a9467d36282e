import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FaultRuleInput } from '../../src/sandbox/faults/script.js';
import { startFaultyExchange } from '../support/exchanges/faulty-exchange.js';
import { getRaw, type RawReply } from '../support/exchanges/raw-reply.js';
import { TEST_ORIGIN_MS } from '../support/exchanges/tape-exchange.js';
import { FakeClock } from '../support/fake-clock.js';

const HISTORY = '/api/v1/public/history/result?market=BTC_USDT&since=0&limit=20';
const OTHER = HISTORY.replace('BTC', 'ETH');
const TICKER = '/api/v1/public/ticker?market=BTC_USDT';

type Test = Parameters<typeof startFaultyExchange>[0];

/** The reply that a single rule makes of a history page, beside the true one. */
async function oneFault(t: Test, rule: FaultRuleInput, target = HISTORY) {
  const exchange = await startFaultyExchange(t, { rules: [{ id: 'it', maxCount: 1, ...rule }] });
  const url = exchange.server.url + target;
  const faulty = await getRaw(url);
  assert.deepEqual(exchange.fired(), { it: 1 });
  const honest = await getRaw(url);
  assert.deepEqual(exchange.fired(), { it: 1 }, 'the second reply is the true one');
  assert.equal(honest.status, 200);
  return { ...exchange, url, faulty, honest };
}

test('status: an error envelope, with or without Retry-After; 200 is a success that is none', async (t) => {
  const { faulty } = await oneFault(t, { kind: 'status', status: 502, retryAfterS: 3 });
  assert.equal(faulty.status, 502);
  assert.equal(faulty.headers['retry-after'], '3');
  assert.deepEqual(JSON.parse(faulty.body), {
    code: 502,
    success: false,
    message: 'service unavailable',
    result: [],
  });
  const hidden = await oneFault(t, { kind: 'status', status: 200 });
  assert.equal(hidden.faulty.status, 200);
  assert.equal((JSON.parse(hidden.faulty.body) as { success: boolean }).success, false);
  assert.equal(hidden.faulty.headers['retry-after'], undefined);
});

test('rateLimit: 429 with any Retry-After: seconds, huge, negative, a date, none', async (t) => {
  const atMs = TEST_ORIGIN_MS + 3_600_000;
  const rows = [
    [{ retryAfterS: 7 }, '7'],
    [{ retryAfterS: -5 }, '-5'],
    [{ retryAfterS: 999_999_999_999 }, '999999999999'],
    [{}, undefined],
    [{ retryAfterS: 90, retryAfterForm: 'date' }, new Date(atMs + 90_000).toUTCString()],
    [{ retryAfterS: -90, retryAfterForm: 'date' }, new Date(atMs - 90_000).toUTCString()],
    [{ retryAfterS: 1e12, retryAfterForm: 'date' }, 'Fri, 31 Dec 9999 00:00:00 GMT'],
  ] as const;
  for (const [parameters, header] of rows) {
    const { faulty } = await oneFault(t, { kind: 'rateLimit', ...parameters });
    assert.equal(faulty.status, 429);
    assert.equal(faulty.headers['retry-after'], header);
  }
});

test('html and emptyBody: a status of any kind with no JSON behind it', async (t) => {
  const page = await oneFault(t, { kind: 'html', status: 502 });
  assert.equal(page.faulty.status, 502);
  assert.match(String(page.faulty.headers['content-type']), /^text\/html/);
  assert.match(page.faulty.body, /^<!doctype html>/);
  const empty = await oneFault(t, { kind: 'emptyBody' });
  assert.deepEqual([empty.faulty.status, empty.faulty.body], [200, '']);
  assert.equal(empty.faulty.headers['content-length'], '0');
  assert.ok(empty.faulty.isComplete);
});

test('truncate: the headers promise the whole, so many bytes come, then the connection ends', async (t) => {
  for (const bytes of [0, 1, 777]) {
    const { faulty, honest } = await oneFault(t, { kind: 'truncate', bytes });
    assert.equal(faulty.status, 200);
    assert.equal(faulty.headers['content-length'], String(honest.body.length));
    assert.equal(faulty.body, honest.body.slice(0, bytes));
    assert.equal(faulty.isComplete, false);
  }
  const { faulty, honest } = await oneFault(t, { kind: 'truncate' });
  assert.ok(faulty.body.length < honest.body.length && !faulty.isComplete);
  assert.ok(honest.body.startsWith(faulty.body));
  const most = await oneFault(t, { kind: 'truncate', bytes: 1_000_000 });
  assert.equal(most.faulty.body.length, most.honest.body.length - 1);
});

test('malformed: a complete reply whose JSON ends too early', async (t) => {
  for (const bytes of [undefined, 1, 500, 1_000_000]) {
    const parameters = bytes === undefined ? {} : { bytes };
    const { faulty, honest } = await oneFault(t, { kind: 'malformed', ...parameters });
    assert.ok(faulty.isComplete && honest.body.startsWith(faulty.body));
    if (bytes === 500) assert.equal(faulty.body.length, 500);
    assert.throws(() => JSON.parse(faulty.body) as unknown, SyntaxError);
  }
});

test('reset: the connection ends with an error before a byte has come', async (t) => {
  const exchange = await startFaultyExchange(t, { rules: [{ kind: 'reset', maxCount: 1 }] });
  const url = exchange.server.url + HISTORY;
  await assert.rejects(getRaw(url), { code: 'ECONNRESET' });
  assert.deepEqual(exchange.fired(), { 'rule-1': 1 });
  assert.equal((await getRaw(url)).status, 200);
});

test('hang: nothing comes until the client leaves, or until the time is over', async (t) => {
  const clock = new FakeClock();
  const rules = [
    { kind: 'hang', where: 'historyResult', market: 'BTC_USDT' },
    { kind: 'hang', ms: 60_000, where: 'ticker' },
  ] as const;
  const { server, fired } = await startFaultyExchange(t, { rules, clock });
  const controller = new AbortController();
  const waiting = getRaw(server.url + HISTORY, controller.signal);
  // Asked meanwhile and answered: the first one is not waiting for its turn.
  do assert.equal((await getRaw(server.url + OTHER)).status, 200);
  while (fired()['rule-1'] === 0);
  assert.deepEqual(fired(), { 'rule-1': 1, 'rule-2': 0 });
  controller.abort();
  await assert.rejects(waiting, { name: 'AbortError' });

  const cut = getRaw(server.url + TICKER);
  const ended = assert.rejects(cut, { code: 'ECONNRESET' });
  await clock.timersPending(1);
  await clock.run(60_000);
  await ended;
  assert.equal(clock.pendingTimers, 0);
});

test('hang: stopping the server ends it', async (t) => {
  const rules = [{ kind: 'hang', where: 'ticker' }] as const;
  const { server, fired } = await startFaultyExchange(t, { rules });
  const waiting = assert.rejects(getRaw(server.url + TICKER), { code: 'ECONNRESET' });
  while (fired()['rule-1'] === 0) await getRaw(server.url + OTHER);
  await server.stop();
  await waiting;
});

test('latency: the true reply, so much later; a fault behind it is late too', async (t) => {
  const clock = new FakeClock();
  const rules = [
    { kind: 'latency', ms: 400, jitterMs: 100 },
    { kind: 'status', every: 2 },
  ] as const;
  const { server, fired } = await startFaultyExchange(t, { rules, clock });
  const statuses: number[] = [];
  for (let turn = 0; turn < 2; turn += 1) {
    const reply = getRaw(server.url + HISTORY);
    await clock.timersPending(1);
    const waitMs = clock.nextTimerMs ?? 0;
    assert.ok(waitMs >= 400 && waitMs <= 500, `${waitMs} ms`);
    await clock.run(waitMs);
    statuses.push((await reply).status);
  }
  assert.deepEqual(statuses, [200, 503]);
  assert.deepEqual(fired(), { 'rule-1': 2, 'rule-2': 1 });
});

test('drip: the whole body, a few bytes at a time', async (t) => {
  const clock = new FakeClock();
  const rules = [{ kind: 'drip', bytes: 1000, ms: 250, after: 1 }] as const;
  const { server } = await startFaultyExchange(t, { rules, clock });
  const honest = await getRaw(server.url + HISTORY);
  const reply = getRaw(server.url + HISTORY);
  let pauses = 0;
  let isDone = false;
  const done = reply.then(() => {
    isDone = true;
  });
  while (!isDone) {
    await Promise.race([clock.timersPending(1), done]);
    if (isDone) break;
    assert.equal(clock.nextTimerMs, 250);
    pauses += 1;
    await clock.run(250);
  }
  const dripped = await reply;
  assert.equal(dripped.body, honest.body);
  assert.ok(dripped.isComplete);
  assert.equal(pauses, Math.ceil(honest.body.length / 1000) - 1);
});

test('stale: the kept reply with its old date, until its time is over', async (t) => {
  const clock = new FakeClock();
  const rules = [{ kind: 'stale', ms: 5000, where: 'historyResult' }] as const;
  const { server, fired } = await startFaultyExchange(t, { rules, clock });
  const read = () => getRaw(server.url + HISTORY);
  const first = await read();
  clock.advance(4999);
  const second = await read();
  assert.deepEqual([second.body, second.headers.date], [first.body, first.headers.date]);
  assert.deepEqual(fired(), { 'rule-1': 1 });
  clock.advance(1);
  const third = await read();
  assert.notEqual(third.body, first.body);
  assert.deepEqual(fired(), { 'rule-1': 1 }, 'a fresh reply is no fault');
  const deeper = await getRaw(server.url + HISTORY.replace('since=0', 'since=9'));
  assert.notEqual(deeper.body, first.body, 'each request has its own kept reply');
});

test('stale with a true date: only the body is old', async (t) => {
  const clock = new FakeClock();
  const rules = [{ kind: 'stale', oldDate: false }] as const;
  const { server } = await startFaultyExchange(t, { rules, clock });
  const first = await getRaw(server.url + HISTORY);
  clock.advance(3000);
  const second = await getRaw(server.url + HISTORY);
  assert.equal(second.body, first.body);
  assert.equal(
    Date.parse(String(second.headers.date)) - Date.parse(String(first.headers.date)),
    3000,
  );
});

test('rows: what a page holds is spoilt, its envelope is not', async (t) => {
  const target = '/api/v1/public/history?market=BTC_USDT&limit=10';
  const ids = ({ body }: RawReply) =>
    (JSON.parse(body) as { result: { id: number }[] }).result.map(({ id }) => id);
  const twice = await oneFault(t, { kind: 'duplicateRows', rows: 3 }, target);
  assert.equal(ids(twice.faulty).length, 13);
  assert.deepEqual([...new Set(ids(twice.faulty))], ids(twice.honest));
  const mixed = await oneFault(t, { kind: 'reorderRows' }, target);
  assert.notDeepEqual(ids(mixed.faulty), ids(mixed.honest));
  assert.deepEqual(
    ids(mixed.faulty).sort((left, right) => right - left),
    ids(mixed.honest),
  );
  const other = await oneFault(t, { kind: 'conflictRows' }, target);
  assert.equal(ids(other.faulty).length, 11);
  const bad = await oneFault(t, { kind: 'badRows', defect: 'hugeId' }, target);
  assert.equal(ids(bad.faulty).filter((id) => id >= 2 ** 53).length, 1);
});

test('a rule is about its endpoint and its market only, and headers stay', async (t) => {
  const rules = [
    { id: 'one', kind: 'html', where: 'ticker', market: 'ETH_USDT' },
    { id: 'all', kind: 'emptyBody', where: 'depth' },
  ] as const;
  const { server, fired, backend } = await startFaultyExchange(t, { rules });
  const read = (path: string) => getRaw(`${server.url}/api/v1/public/${path}`);
  assert.equal(
    (await read('ticker?market=BTC_USDT')).headers['content-type']?.slice(0, 16),
    'application/json',
  );
  const page = await read('ticker?market=ETH_USDT');
  assert.match(page.body, /^<!doctype/);
  assert.equal(page.headers['x-tapekeep-exchange'], backend.identity);
  assert.equal(page.headers['x-ratelimit-limit'], '500');
  assert.equal((await read('depth/result?market=LTC_USDT')).body, '');
  assert.equal((await read('nowhere')).status, 404);
  assert.deepEqual(fired(), { one: 1, all: 1 });
});

test('the same seed and requests make the same faults; every fault that fires is seen', async (t) => {
  const rules: FaultRuleInput[] = [
    { id: 'a', kind: 'status', status: 500, probability: 0.2 },
    { id: 'b', kind: 'html', status: 502, probability: 0.2 },
    { id: 'c', kind: 'rateLimit', every: 7 },
    { id: 'd', kind: 'truncate', probability: 0.1, where: 'historyResult' },
  ];
  const play = async (seed: number) => {
    const { server, fired } = await startFaultyExchange(t, { rules, seed });
    const seen: string[] = [];
    for (let turn = 0; turn < 120; turn += 1) {
      const reply = await getRaw(server.url + (turn % 3 === 0 ? TICKER : HISTORY));
      seen.push(reply.isComplete ? String(reply.status) : `cut ${reply.body.length}`);
    }
    const count = (text: string) => seen.filter((one) => one.startsWith(text)).length;
    assert.deepEqual(fired(), {
      a: count('500'),
      b: count('502'),
      c: count('429'),
      d: count('cut'),
    });
    assert.ok(Object.values(fired()).every((fires) => fires > 0));
    return seen;
  };
  const first = await play(41);
  assert.deepEqual(await play(41), first);
  assert.notDeepEqual(await play(42), first);
});

test('stuckPage: every page of a list is the one that was first asked for, until its time is over', async (t) => {
  const clock = new FakeClock();
  const rules = [{ id: 'it', kind: 'stuckPage', where: 'historyResult', ms: 3000 }] as const;
  const { server, fired } = await startFaultyExchange(t, { rules, clock });
  const page = async (since: number, limit = 20) => {
    const query = `market=BTC_USDT&since=${since}&limit=${limit}`;
    return (await getRaw(`${server.url}/api/v1/public/history/result?${query}`)).body;
  };
  const first = await page(0);
  assert.deepEqual([await page(20), await page(40), await page(0)], [first, first, first]);
  assert.deepEqual(fired(), { it: 2 }, 'the first page itself is no fault');
  assert.notEqual(await page(20, 30), first, 'another limit is another list');
  clock.advance(3000);
  assert.notEqual(await page(20), first);
});

test('wrongDate: shifted, frozen or missing, with a true body', async (t) => {
  const shifted = await oneFault(t, { kind: 'wrongDate', byS: 7200 });
  assert.equal(shifted.faulty.body, shifted.honest.body);
  const dates = [shifted.faulty, shifted.honest].map(({ headers }) =>
    Date.parse(String(headers.date)),
  );
  assert.equal((dates[0] ?? 0) - (dates[1] ?? 0), 7_200_000);
  const missing = await oneFault(t, { kind: 'wrongDate', form: 'missing' });
  assert.equal(missing.faulty.headers.date, undefined);
  const clock = new FakeClock();
  const rules = [{ kind: 'wrongDate', form: 'frozen' }] as const;
  const { server, backend } = await startFaultyExchange(t, { rules, clock });
  const date = async () => (await getRaw(server.url + TICKER)).headers.date;
  const first = await date();
  clock.advance(60_000);
  assert.equal(await date(), first);
  assert.notEqual(first, new Date(backend.nowMs()).toUTCString());
});

test('drip, part=head: status and headers come slowly, then the whole body', async (t) => {
  const clock = new FakeClock();
  const rules = [
    { kind: 'drip', part: 'head', bytes: 40, ms: 1000, after: 1, maxCount: 1 },
  ] as const;
  const { server, fired } = await startFaultyExchange(t, { rules, clock });
  const honest = await getRaw(server.url + HISTORY);
  let isHere = false;
  const dripping = getRaw(server.url + HISTORY).finally(() => {
    isHere = true;
  });
  let waits = 0;
  await clock.timersPending(1);
  while (clock.pendingTimers > 0) {
    assert.equal(isHere, false);
    waits += 1;
    clock.advance(1000);
    // A reply over another connection: by then the next piece is on its way.
    await getRaw(server.url + OTHER);
  }
  const reply = await dripping;
  assert.ok(waits >= 4, `${waits} waits`);
  assert.deepEqual([reply.status, reply.isComplete, reply.body], [200, true, honest.body]);
  const { connection: _one, 'keep-alive': _alive, ...headers } = honest.headers;
  const { connection, ...sent } = reply.headers;
  assert.equal(connection, 'close');
  assert.deepEqual(
    { ...sent, 'x-ratelimit-remaining': '' },
    { ...headers, 'x-ratelimit-remaining': '' },
  );
  assert.deepEqual(fired(), { 'rule-1': 1 });
});
