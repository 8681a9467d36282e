import assert from 'node:assert/strict';
import type { ServerResponse } from 'node:http';
import test, { type TestContext } from 'node:test';
import * as errors from '../../src/client/index.js';
import { errorEnvelope, successEnvelope } from '../../src/contract/error-shapes.js';
import { AbortedError } from '../../src/kernel/errors.js';
import { sendJson, startHttpStub, startTcpStub } from '../support/exchanges/stub-server.js';
import { makeStubClient } from '../support/exchanges/stub-server-client.js';
import { FakeClock } from '../support/fake-clock.js';

/** After an order left, only a clear refusal lets anybody place it again. */

const credentials = { apiKey: 'test-key', secret: 'test-secret' };
const ORDER = { market: 'BTC_USDT', side: 'buy', price: '60000.10', amount: '0.3' } as const;
const PAGE = '<!doctype html><html><body>nothing here</body></html>';
const CREATED = JSON.stringify(
  successEnvelope({
    orderId: 7,
    market: 'BTC_USDT',
    price: '60000.10',
    side: 'buy',
    type: 'limit',
    timestamp: 1_704_070_810.25,
    dealMoney: '0',
    dealStock: '0',
    amount: '0.3',
    takerFee: '0.002',
    makerFee: '0.002',
    left: '0.3',
  }),
);

type ErrorClass = new (...args: never[]) => Error;
type Answer = (response: ServerResponse) => void;

const json =
  (body: unknown, status = 200): Answer =>
  (response) =>
    sendJson(response, body, status);
const text =
  (body: string, status = 200, type = 'application/json'): Answer =>
  (response) =>
    void response.writeHead(status, { 'content-type': type }).end(body);

/** Asserts that `call` fails as an order of which nobody knows, for the reason given. */
async function assertUnknown(call: Promise<unknown>, cause: ErrorClass): Promise<void> {
  await assert.rejects(call, (error) => {
    assert.ok(error instanceof errors.UnknownOutcomeError, String(error));
    assert.ok(error instanceof errors.ExchangeError);
    assert.equal(error.code, 'order_outcome_unknown');
    assert.notEqual(error.action, 'retry');
    assert.ok(error.cause instanceof cause, String(error.cause));
    assert.deepEqual({ ...error.order }, ORDER);
    assert.deepEqual(error.lookAt, ['orders', 'balances']);
    assert.match(error.message, /UNKNOWN.*activeOrders and balances of BTC_USDT/);
    assert.doesNotMatch(error.message, /test-key|test-secret/);
    return true;
  });
}

const unknowns: ReadonlyArray<readonly [string, Answer, ErrorClass]> = [
  ['500', json(errorEnvelope(500, 'oops'), 500), errors.ServerError],
  ['503 with a body that is not JSON', text('busy', 503), errors.ServerError],
  ['504 without a body', text('', 504), errors.ServerError],
  ['408', text('', 408), errors.ServerError],
  ['"unavailable" under 200', json(errorEnvelope(500, 'unavailable')), errors.UnavailableError],
  ['a page under 200', text(PAGE, 200, 'text/html'), errors.UnexpectedPageError],
  ['a page under 502', text(PAGE, 502, 'text/html'), errors.UnexpectedPageError],
  ['a page under 408', text(PAGE, 408, 'text/html'), errors.UnexpectedPageError],
  ['an empty body', text(''), errors.MalformedReplyError],
  ['JSON that is cut off', text(CREATED.slice(0, -20)), errors.MalformedReplyError],
  ['no order in the envelope', json(successEnvelope([])), errors.MalformedReplyError],
  ['no envelope', json([]), errors.MalformedReplyError],
  [
    'an order of another market',
    text(CREATED.replace('BTC_USDT', 'ETH_USDT')),
    errors.MalformedReplyError,
  ],
  ['an order of the other side', text(CREATED.replace('buy', 'sell')), errors.MalformedReplyError],
  ['too large an answer', text(CREATED.padEnd(5000)), errors.ReplyTooLargeError],
  ['a reset', (response) => void response.socket?.resetAndDestroy(), errors.NetworkError],
  ['a closed connection', (response) => void response.socket?.end(), errors.NetworkError],
  [
    'half an answer',
    (response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 999 });
      response.write(CREATED.slice(0, 50), () => response.socket?.end());
    },
    errors.NetworkError,
  ],
];
for (const [name, answer, cause] of unknowns) {
  test(`an order answered by ${name} is unknown, and was sent once`, async (t) => {
    const stub = await startHttpStub(t, (_request, response) => answer(response));
    const limits = { maxBodyBytes: 2000 };
    const { client, ended } = makeStubClient(t, stub.baseUrl, { credentials, ...limits });
    await assertUnknown(client.placeOrder(ORDER), cause);
    await assertUnknown(client.call('orderNew', ORDER), cause);
    assert.equal(stub.seen.length, 2, 'each call sent its order once');
    assert.ok(stub.seen.every(({ url }) => url === '/api/v1/order/new'));
    assert.equal(ended.length, 2);
  });
}

const refusals: ReadonlyArray<readonly [string, Answer, ErrorClass]> = [
  ['invalid input', json(errorEnvelope(400, 'invalid input'), 400), errors.InvalidInputError],
  ['invalid input under 200', json(errorEnvelope(400, 'invalid input')), errors.InvalidInputError],
  [
    'authentication failure',
    json(errorEnvelope(400, 'authentication failure'), 400),
    errors.AuthenticationError,
  ],
  [
    'operation blocked',
    json(errorEnvelope(400, 'operation blocked'), 400),
    errors.OperationBlockedError,
  ],
  ['field errors', json(errorEnvelope(400, { side: ['bad'] }), 400), errors.FieldErrorsError],
  [
    'field errors on the market',
    json(errorEnvelope(400, { market: ['closed'] }), 400),
    errors.MarketUnavailableError,
  ],
  ['429', text('', 429), errors.RateLimitedError],
  ['429 under 200', json(errorEnvelope(429, 'slow down')), errors.RateLimitedError],
  ['404', text('', 404), errors.NotFoundError],
  ['a page under 400', text(PAGE, 400, 'text/html'), errors.UnexpectedPageError],
  ['418', json({ teapot: true }, 418), errors.RequestRefusedError],
  [
    'a redirect',
    (response) => void response.writeHead(307, { location: 'http://127.0.0.1:1/' }).end(),
    errors.RedirectError,
  ],
];
for (const [name, answer, is] of refusals) {
  test(`an order refused by ${name} is refused, and was sent once`, async (t) => {
    const stub = await startHttpStub(t, (_request, response) => answer(response));
    const { client } = makeStubClient(t, stub.baseUrl, { credentials });
    await assert.rejects(client.placeOrder(ORDER), is);
    assert.equal(stub.seen.length, 1);
  });
}

test('the answer to an order counts however late it is read, that to a signed question does not', async (t) => {
  const clock = new FakeClock();
  const stub = await startHttpStub(t, ({ url }, response) => {
    clock.standStill(10_001);
    const isOrder = url?.endsWith('/order/new') === true;
    if (isOrder) json(errorEnvelope(400, 'operation blocked'), 400)(response);
    else json(successEnvelope({}))(response);
  });
  const { client } = makeStubClient(t, stub.baseUrl, { credentials, clock });
  await assert.rejects(client.placeOrder(ORDER), errors.OperationBlockedError);
  await assert.rejects(client.balances(), errors.TimeoutError);
});

/** A stub that never answers, and a client whose time stands still. */
async function startSilent(t: TestContext) {
  const clock = new FakeClock();
  const stub = await startHttpStub(t, () => {});
  const options = { credentials, clock, timeoutMs: 600_000, connections: 1 };
  return { clock, stub, ...makeStubClient(t, stub.baseUrl, options) };
}

test('an order without an answer in time is unknown, and was sent once', async (t) => {
  const { clock, stub, client } = await startSilent(t);
  const call = client.placeOrder(ORDER);
  await stub.requests(1);
  clock.advance(600_000);
  await assertUnknown(call, errors.TimeoutError);
  assert.equal(stub.seen.length, 1);
});

test('an order given up, or cut by close, after it left is unknown', async (t) => {
  const { stub, client } = await startSilent(t);
  const stopping = new AbortController();
  const given = client.placeOrder(ORDER, { signal: stopping.signal });
  await stub.requests(1);
  stopping.abort(new AbortedError('enough'));
  await assertUnknown(given, AbortedError);
  const cut = client.placeOrder(ORDER);
  await stub.requests(2);
  await Promise.all([assertUnknown(cut, AbortedError), client.close()]);
  assert.equal(stub.seen.length, 2);
});

test('an order given up while it waited was never sent, and is not unknown', async (t) => {
  const { stub, client } = await startSilent(t);
  const first = client.balances();
  await stub.requests(1);
  const stopping = new AbortController();
  const waiting = client.placeOrder(ORDER, { signal: stopping.signal });
  stopping.abort(new AbortedError('enough'));
  await assert.rejects(waiting, AbortedError);
  await Promise.all([assert.rejects(first, AbortedError), client.close()]);
  assert.equal(stub.seen.length, 1, 'only the balances');
});

test('an order whose connection did not come about was never sent', async (t) => {
  const closed = await startTcpStub(t, () => {});
  await closed.close();
  const { client: refused } = makeStubClient(t, `http://127.0.0.1:${closed.port}`, { credentials });
  await assert.rejects(refused.placeOrder(ORDER), errors.NetworkError);
  await assert.rejects(refused.placeOrder({ ...ORDER, price: 'much' }), {
    code: 'invalid_parameter',
  });

  // A server that never answers the TLS greeting; then one that answers with nonsense.
  const clock = new FakeClock();
  const mute = await startTcpStub(t, () => {});
  const options = { credentials, clock, timeoutMs: 600_000 };
  const { client: late } = makeStubClient(t, `https://127.0.0.1:${mute.port}`, options);
  const call = late.placeOrder(ORDER);
  await mute.asked();
  clock.advance(600_000);
  await assert.rejects(call, errors.TimeoutError);
  const garbled = await startTcpStub(t, (socket) => socket.end('HTTP/1.1 200 OK\r\n\r\n'));
  const { client: untrusted } = makeStubClient(t, `https://127.0.0.1:${garbled.port}`, {
    credentials,
  });
  await assert.rejects(untrusted.placeOrder(ORDER), errors.TlsRefusedError);
});

test('other signed calls that fail under way stay what they are', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => json({}, 503)(response));
  const { client } = makeStubClient(t, stub.baseUrl, { credentials });
  await assert.rejects(client.balances(), errors.ServerError);
  await assert.rejects(client.activeOrders({ market: 'BTC_USDT' }), errors.ServerError);
});

test('active orders of another market are refused row by row', async (t) => {
  const { orderId: id, ...order } = (JSON.parse(CREATED) as { result: { orderId: number } }).result;
  const result = [
    { id, ...order },
    { ...order, id: 8, market: 'ETH_USDT' },
  ];
  const page = successEnvelope({ limit: 50, offset: 0, total: 2, result });
  const stub = await startHttpStub(t, (_request, response) => json(page)(response));
  const { client } = makeStubClient(t, stub.baseUrl, { credentials });
  const { data, rejected } = await client.activeOrders({ market: 'BTC_USDT' });
  assert.deepEqual(
    data.result.map((row) => row.id),
    [7],
  );
  const reason = 'market: the answer is about "ETH_USDT", the request about "BTC_USDT"';
  assert.deepEqual(
    rejected.map((row) => [row.at, row.reason]),
    [[1, reason]],
  );
});

test('an order that is answered comes back as it stands', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => text(CREATED)(response));
  const { client } = makeStubClient(t, stub.baseUrl, { credentials });
  const { data } = await client.placeOrder(ORDER);
  assert.deepEqual([data.orderId, data.left, data.price], [7, '0.3', '60000.10']);
  assert.equal(stub.seen.length, 1);
});
