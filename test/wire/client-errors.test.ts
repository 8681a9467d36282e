import assert from 'node:assert/strict';
import test from 'node:test';
import * as errors from '../../src/client/index.js';
import { createExchangeClient, createExchangeClock } from '../../src/client/index.js';
import { BAD_REQUEST_PAGE } from '../../src/contract/error-shapes.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import { systemClock } from '../../src/kernel/clock.js';
import type { TapekeepError } from '../../src/kernel/errors.js';
import type { RequestEnded } from '../../src/observe/events.js';
import { rawJson, startHttpStub, startTcpStub } from '../support/exchanges/stub-server.js';
import { makeStubClient } from '../support/exchanges/stub-server-client.js';
import { noTelemetry } from '../support/no-telemetry.js';

const JSON_TYPE = { 'content-type': 'application/json; charset=utf-8' };
const HTML_TYPE = { 'content-type': 'text/html' };
const PAGE = '<!doctype html><html><body>nothing here</body></html>';
const envelope = (code: number, message: unknown) =>
  JSON.stringify({ code, success: false, message, result: [] });
/** Times of the contract are in seconds; whatever a server writes here, no clock is set by it. */
const notFound = (timestamp: unknown) =>
  JSON.stringify({
    timestamp,
    status: 404,
    error: 'Not Found',
    message: '',
    path: '/api/v1/public/depth/result',
  });

interface Case {
  readonly name: string;
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body: string | Buffer;
  readonly is: new (...args: never[]) => TapekeepError;
  readonly code: string;
  readonly action: 'retry' | 'skip' | 'fatal';
  readonly outcome: RequestEnded['outcome'];
}

const row = (
  name: string,
  status: number,
  body: string | Buffer,
  is: Case['is'],
  [code, action, outcome]: readonly [string, Case['action'], Case['outcome']],
  headers: Record<string, string> = JSON_TYPE,
): Case => ({ name, status, headers, body, is, code, action, outcome });

const invalidInput = ['invalid_input', 'skip', 'client_error'] as const;
const notFoundKind = ['not_found', 'skip', 'client_error'] as const;
const marketGone = ['market_unavailable', 'skip', 'client_error'] as const;
const fieldsKind = ['field_errors', 'skip', 'client_error'] as const;
const unavailable = ['service_unavailable', 'retry', 'server_error'] as const;
const page = ['unexpected_page', 'retry', 'malformed'] as const;
const refusedPage = ['unexpected_page', 'skip', 'client_error'] as const;
const serverPage = ['unexpected_page', 'retry', 'server_error'] as const;
const malformed = ['malformed_reply', 'retry', 'malformed'] as const;
const server = ['server_error', 'retry', 'server_error'] as const;
const refused = ['request_refused', 'skip', 'client_error'] as const;
const limited = ['rate_limited', 'retry', 'rate_limited'] as const;
const authentication = ['authentication_failed', 'fatal', 'client_error'] as const;

const cases: Case[] = [
  row('invalid input', 400, envelope(400, 'invalid input'), errors.InvalidInputError, invalidInput),
  row(
    'authentication failure',
    400,
    envelope(400, 'authentication failure'),
    errors.AuthenticationError,
    authentication,
  ),
  row('operation blocked', 400, envelope(400, 'operation blocked'), errors.OperationBlockedError, [
    'operation_blocked',
    'skip',
    'client_error',
  ]),
  row(
    'field errors in the envelope',
    400,
    envelope(400, { since: ['The since field is required.'] }),
    errors.FieldErrorsError,
    fieldsKind,
  ),
  row(
    'field errors that name the market, in other words',
    400,
    envelope(400, { market: ['Der Markt ist geschlossen'] }),
    errors.MarketUnavailableError,
    marketGone,
  ),
  row(
    'bare field errors under a good status',
    200,
    JSON.stringify({ market: ['Market is not available'] }),
    errors.MarketUnavailableError,
    marketGone,
  ),
  row(
    'bare limit error',
    422,
    JSON.stringify({ limit: ['The limit may not be greater than 1000.'] }),
    errors.FieldErrorsError,
    fieldsKind,
  ),
  row('404 object', 404, notFound(1_704_070_810), errors.NotFoundError, notFoundKind),
  row('404 object in ms', 404, notFound(1_704_070_810_000), errors.NotFoundError, notFoundKind),
  row('404 object in text', 404, notFound('2024'), errors.NotFoundError, notFoundKind),
  row('404 object under 200', 200, notFound(0), errors.NotFoundError, notFoundKind),
  row(
    "404 of a cousin: 'Cannot GET'",
    404,
    JSON.stringify({ status: 'error', message: 'Cannot GET /api/v1/x', result: null }),
    errors.NotFoundError,
    notFoundKind,
  ),
  row('404 without a body', 404, '', errors.NotFoundError, notFoundKind),
  row(
    'success:false code 500 under 200',
    200,
    envelope(500, 'service unavailable'),
    errors.UnavailableError,
    unavailable,
  ),
  row(
    'success:false without a known text under 200',
    200,
    JSON.stringify({ success: false, message: 'whatever' }),
    errors.UnavailableError,
    unavailable,
  ),
  row(
    'success:false code 403 under 200',
    200,
    envelope(403, 'go away'),
    errors.RequestRefusedError,
    refused,
  ),
  row('429 under 200', 200, envelope(429, 'slow down'), errors.RateLimitedError, limited),
  row('429 with a page', 429, PAGE, errors.RateLimitedError, limited, HTML_TYPE),
  row('500 envelope', 500, envelope(500, 'oops'), errors.ServerError, server),
  row('503 that is not JSON', 503, 'busy', errors.ServerError, server),
  row('502 without a body', 502, '', errors.ServerError, server),
  row('a page under 200', 200, PAGE, errors.UnexpectedPageError, page, HTML_TYPE),
  row('a page under 400', 400, PAGE, errors.UnexpectedPageError, refusedPage, HTML_TYPE),
  row('a page of the contract', 400, BAD_REQUEST_PAGE, errors.UnexpectedPageError, refusedPage),
  row('a page under 403', 403, PAGE, errors.UnexpectedPageError, refusedPage, HTML_TYPE),
  row('a page under 404', 404, PAGE, errors.UnexpectedPageError, refusedPage, HTML_TYPE),
  row('a page under 408', 408, PAGE, errors.UnexpectedPageError, page, HTML_TYPE),
  row('a page under 502', 502, PAGE, errors.UnexpectedPageError, serverPage, HTML_TYPE),
  row('a page that claims to be JSON', 200, PAGE, errors.UnexpectedPageError, page),
  row('a page without a type', 200, PAGE, errors.UnexpectedPageError, page, {}),
  row('another content type', 200, '{"asks":[],"bids":[]}', errors.UnexpectedPageError, page, {
    'content-type': 'image/png',
  }),
  row('empty body', 200, '', errors.MalformedReplyError, malformed),
  row('bad JSON', 200, '{"asks":[],}', errors.MalformedReplyError, malformed),
  row(
    'invalid UTF-8',
    200,
    Buffer.concat([
      Buffer.from('{"asks":[],"bids":[],"x":"'),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ]),
    errors.MalformedReplyError,
    malformed,
  ),
  row('another shape', 200, '{"asks":3}', errors.MalformedReplyError, malformed),
  row('null', 200, 'null', errors.MalformedReplyError, malformed),
  row('unasked compression', 200, 'x', errors.MalformedReplyError, malformed, {
    ...JSON_TYPE,
    'content-encoding': 'gzip',
  }),
  row('418 with JSON', 418, '{"teapot":true}', errors.RequestRefusedError, refused),
];

for (const { name, status, headers, body, is, code, action, outcome } of cases) {
  test(`an answer means its error: ${name}`, async (t) => {
    const stub = await startHttpStub(t, (_request, response) => {
      response.writeHead(status, headers);
      response.end(body);
    });
    const { client, ended, exchangeClock } = makeStubClient(t, stub.baseUrl);
    await assert.rejects(client.depth({ market: 'BTC_USDT' }), (error) => {
      assert.ok(error instanceof is, String(error));
      assert.equal(error.code, code);
      assert.equal(error.action, action);
      assert.match(error.message, new RegExp(`^depth \\(HTTP ${status}\\): .`));
      return true;
    });
    assert.deepEqual(
      ended.map((event) => event.outcome),
      [outcome],
    );
    assert.equal(exchangeClock.offsetMs, 0, 'an error body sets no clock');
    assert.equal(stub.seen.length, 1, 'nothing is repeated by the client');
  });
}

test('a message shows a bounded, printable excerpt and never the credentials', async (t) => {
  const credentials = { apiKey: 'key-canary-1', secret: 'secret-canary-2' };
  const stub = await startHttpStub(t, (_request, response) => {
    response.writeHead(400, JSON_TYPE);
    response.end(`you sent key-canary-1 and secret-canary-2\u0007\n${'x'.repeat(5000)}`);
  });
  const { client, ended } = makeStubClient(t, stub.baseUrl, { credentials });
  await assert.rejects(client.balances(), errors.RequestRefusedError);
  const message = ended[0]?.error?.message ?? '';
  assert.match(message, /you sent \[redacted\] and \[redacted\] x/);
  assert.ok(message.length < 400, message);
  assert.doesNotMatch(JSON.stringify(ended), /canary/);
});

test('a server that failed is quoted in its words, without their envelope or the credentials', async (t) => {
  const stub = await startHttpStub(t, (_request, response) => {
    response.writeHead(503, JSON_TYPE);
    response.end(envelope(503, 'gap in the archive: "depth" of key-canary-1'));
  });
  const credentials = { apiKey: 'key-canary-1', secret: 'secret-canary-2' };
  const { client } = makeStubClient(t, stub.baseUrl, { credentials });
  await assert.rejects(client.balances(), {
    message: 'balances (HTTP 503): the exchange failed: gap in the archive: "depth" of [redacted]',
  });
});

test('a redirect is not followed: the other address sees no request', async (t) => {
  const target = await startHttpStub(t, (_request, response) => response.end('{}'));
  for (const status of [301, 302, 303, 307, 308]) {
    const stub = await startHttpStub(t, (_request, response) => {
      response.writeHead(status, { location: `${target.baseUrl}/latest/meta-data` });
      response.end();
    });
    const { client } = makeStubClient(t, stub.baseUrl);
    await assert.rejects(client.markets(), (error) => {
      assert.ok(error instanceof errors.RedirectError);
      assert.equal(error.action, 'fatal');
      assert.match(error.message, /meta-data/);
      return true;
    });
    assert.equal(stub.seen.length, 1, 'the redirect really came');
  }
  assert.deepEqual(target.seen, []);
});

const DEPTH = '{"asks":[["2","1"]],"bids":[["1","3.50"]]}';

test('JSON cut off at every byte is refused, whole it is read', async (t) => {
  const stub = await startHttpStub(t, (_request, response, index) => {
    response.writeHead(200, JSON_TYPE);
    response.end(DEPTH.slice(0, index));
  });
  const { client } = makeStubClient(t, stub.baseUrl);
  for (let length = 0; length < DEPTH.length; length += 1) {
    await assert.rejects(client.depth({ market: 'BTC_USDT' }), errors.MalformedReplyError);
  }
  const whole = await client.depth({ market: 'BTC_USDT' });
  assert.deepEqual(whole.data, { asks: [['2', '1']], bids: [['1', '3.50']] });
  assert.equal(whole.bytes, DEPTH.length);
});

test('a connection that breaks at any byte of the answer is a network error', async (t) => {
  const wire = rawJson(DEPTH);
  const stub = await startTcpStub(t, (socket, index) => {
    socket.end(wire.slice(0, index));
  });
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`);
  for (let length = 0; length < wire.length; length += 1) {
    await assert.rejects(client.depth({ market: 'BTC_USDT' }), errors.NetworkError);
  }
  assert.equal((await client.depth({ market: 'BTC_USDT' })).data.asks.length, 1);
  assert.equal(stub.sockets.length, wire.length + 1);
});

test('a body beyond the limit is refused, with and without a declared length', async (t) => {
  const stub = await startHttpStub(t, (_request, response, index) => {
    const body = `{"asks":[],"bids":[],"x":"${'y'.repeat(5000)}"}`;
    response.writeHead(
      200,
      index === 0 ? { ...JSON_TYPE, 'content-length': body.length } : JSON_TYPE,
    );
    response.write(body.slice(0, 2000));
    response.end(body.slice(2000));
  });
  const { client } = makeStubClient(t, stub.baseUrl, { maxBodyBytes: 1000 });
  await assert.rejects(client.depth({ market: 'BTC_USDT' }), errors.ReplyTooLargeError);
  await assert.rejects(client.depth({ market: 'BTC_USDT' }), errors.ReplyTooLargeError);
});

test('an unreachable server is a network error', async (t) => {
  const stub = await startTcpStub(t, (socket) => socket.destroy());
  const { client } = makeStubClient(t, `http://127.0.0.1:${stub.port}`);
  await assert.rejects(client.markets(), (error) => {
    assert.ok(error instanceof errors.NetworkError);
    assert.equal(error.action, 'retry');
    return true;
  });
  assert.equal(stub.sockets.length, 1, 'a new connection that breaks is not tried again');
  await stub.close();
  const { client: late } = makeStubClient(t, `http://127.0.0.1:${stub.port}`);
  await assert.rejects(late.markets(), (error) => {
    assert.ok(error instanceof errors.NetworkError);
    assert.match(error.message, /ECONNREFUSED/);
    return true;
  });
});

test('addresses that cannot be used are refused at once', () => {
  const clock = systemClock;
  for (const baseUrl of [
    'ftp://x',
    'file:///etc/passwd',
    'nonsense',
    'http://u:p@x',
    'http://x?a=1',
    'http://x/?session=a&a=1',
  ]) {
    assert.throws(
      () =>
        createExchangeClient({
          baseUrl,
          clock,
          random: () => 0,
          telemetry: noTelemetry.client,
          budget: new RequestBudget({ clock, ratePerS: 1, burst: 1, maxWaiting: 1 }),
          exchangeClock: createExchangeClock({ clock }),
        }),
      (error) => {
        assert.ok(error instanceof errors.InvalidAddressError);
        assert.doesNotMatch(error.message, /u:p/);
        return true;
      },
    );
  }
});
