import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EndpointName, ResultOf } from '../../src/contract/endpoints.js';
import { systemClock } from '../../src/kernel/clock.js';
import { ClientProbe } from '../conformance/client-probe.js';
import { blameFor, checkReading, readByClient } from '../conformance/client-reading.js';
import { type Answer, ExchangeProbe } from '../conformance/exchange-probe.js';
import { Findings, SideError } from '../conformance/outcome.js';
import { sendJson, startHttpStub } from '../support/exchanges/stub-server.js';

/** A failure is laid to the side that broke the contract. */

function answerOf(payload: unknown, contentType = 'application/json'): Answer {
  const text = JSON.stringify(payload);
  const shown = { target: 'GET /somewhere', status: 200, contentType, text };
  const headers = { 'content-type': contentType };
  return { ...shown, headers, body: Buffer.from(text), json: JSON.parse(text) as unknown };
}

const enveloped = (result: unknown) => ({ code: 200, success: true, message: '', result });
const product = { id: 'BTC_USDT', fromSymbol: 'BTC', toSymbol: 'USDT' };
const trade = { tid: 7, date: 1704070810, price: '1.50', type: 'buy', amount: '2', total: '3' };

const fromSide = (side: string) => (error: unknown) =>
  error instanceof SideError && error.side === side;

test("what is good by the tables and read as it was told is nobody's failure", () => {
  assert.deepEqual(readByClient('products', answerOf(enveloped([product]))), [product]);
  assert.deepEqual(readByClient('historyResult', answerOf([trade])), [trade]);
  const exponent = { ...trade, amount: '2e0', tid: '7', date: '1.70407081E9' };
  assert.deepEqual(readByClient('historyResult', answerOf([exponent])), [trade]);
  assert.deepEqual({ ...readByClient('balances', answerOf(enveloped([]))) }, {});
});

const wrong: ReadonlyArray<readonly [string, EndpointName, Answer]> = [
  ['a field that is missing', 'products', answerOf(enveloped([{ id: 'BTC_USDT' }]))],
  ['a number for a decimal', 'historyResult', answerOf([{ ...trade, price: 1.5 }])],
  ['an id of zero', 'historyResult', answerOf([{ ...trade, tid: 0 }])],
  ['an envelope where none is due', 'historyResult', answerOf(enveloped([trade]))],
  ['no envelope where one is due', 'products', answerOf([product])],
  ['a page', 'products', answerOf(enveloped([product]), 'text/html')],
  ['a refusal', 'products', { ...answerOf(enveloped([product])), status: 400 }],
];

for (const [what, name, answer] of wrong) {
  test(`${what} is the failure of the server`, () => {
    assert.throws(() => readByClient(name, answer), fromSide('server'));
    assert.equal(blameFor(name, answer, new Error('unreadable')).side, 'server');
  });
}

const misread: ReadonlyArray<readonly [string, ResultOf<'historyResult'>]> = [
  ['a row that was lost', []],
  ['a row too many', [trade, trade] as ResultOf<'historyResult'>],
  ['another price', [{ ...trade, price: '1.05', type: 'buy' }]],
  ['a price without its last digit', [{ ...trade, price: '1', type: 'buy' }]],
  ['another id', [{ ...trade, tid: 70, type: 'buy' }]],
  ['another side', [{ ...trade, type: 'sell' }]],
  ['a field that nobody told', [{ ...trade, type: 'buy', more: 1 } as never]],
];

for (const [what, data] of misread) {
  test(`${what} is the failure of the client`, () => {
    const answer = answerOf([trade]);
    const reading = { data, rejected: [] };
    assert.throws(() => checkReading('historyResult', answer, reading), fromSide('client'));
  });
}

test('a good row that was refused, and a good answer that was, are failures of the client', () => {
  const answer = answerOf([trade]);
  const rejected = [{ at: 0, reason: 'disliked', payload: trade }];
  const reading = { data: [], rejected };
  assert.throws(() => checkReading('historyResult', answer, reading), fromSide('client'));
  assert.equal(blameFor('historyResult', answer, new Error('disliked')).side, 'client');
});

test('the sides of a case are told with its remarks', () => {
  const findings = new Findings();
  findings.fail('one');
  findings.check(false, 'two', 'client');
  assert.deepEqual(findings.remarks, ['server: one', 'client: two']);
  assert.deepEqual(findings.sides, ['client', 'server']);
});

test('the typed client asks through the relay, and one request leaves for one call', async (t) => {
  const stub = await startHttpStub(t, (_request, response, index) =>
    sendJson(
      response,
      index === 0 ? [trade] : { success: false, code: 400, message: 'invalid input' },
      index === 0 ? 200 : 400,
    ),
  );
  const limits = { ratePerS: 1000, maxRequests: 2, timeoutMs: 10_000 };
  const probe = new ExchangeProbe({ url: `${stub.baseUrl}/base`, clock: systemClock, ...limits });
  const store = { load: () => Promise.resolve(undefined), save: () => Promise.resolve() };
  const signing = { signedContent: 'payload', nonceStore: store } as const;
  const client = await ClientProbe.open(probe, systemClock, signing, undefined);
  t.after(async () => {
    await client.close();
    await probe.close();
  });
  const params = { market: 'A&B_C', since: 0, limit: 5 };
  const { request, answer, data } = await client.ask('historyResult', params, 'get');
  assert.deepEqual(data, [trade]);
  assert.deepEqual(request.query, { market: 'A&B_C', since: '0', limit: '5' });
  assert.equal(answer.status, 200);
  assert.equal(
    stub.seen[0]?.url,
    '/base/api/v1/public/history/result?market=A%26B_C&since=0&limit=5',
  );
  await assert.rejects(client.ask('historyResult', params, 'get'), fromSide('server'));
  assert.equal(client.lastAnswer?.status, 400);
  await assert.rejects(client.ask('historyResult', params, 'get'), /used up its 2 requests/);
  const never = client.ask('historyResult', { ...params, limit: 0 }, 'get');
  await assert.rejects(never, fromSide('client'));
  assert.equal(stub.seen.length, 2);
});
