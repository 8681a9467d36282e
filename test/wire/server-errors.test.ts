import assert from 'node:assert/strict';
import { test } from 'node:test';
import { BAD_REQUEST_PAGE } from '../../src/contract/error-shapes.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';
import { sendRaw } from '../support/fuzz/fuzz-http.js';

const invalid = { code: 400, success: false, message: 'invalid input', result: [] };

function fields(...names: string[]) {
  const texts = names.map((name) => [
    name,
    [name === 'side' ? 'The side is required.' : `The ${name} field is required.`],
  ]);
  return { ...invalid, message: Object.fromEntries(texts) as Record<string, string[]> };
}

const M = 'market=BTC_USDT';
/** Path and query below /api/v1/public, and the JSON body of the 400 that it must get. */
const rows: ReadonlyArray<readonly [string, object]> = [
  ['ticker', fields('market')],
  ['ticker?market=', fields('market')],
  ['ticker?market=NO_SUCH', invalid],
  ['ticker?market=__proto__', invalid],
  [`ticker?market=${'A'.repeat(65)}`, invalid],
  [`ticker?${M}&${M}`, invalid],
  ['kline', fields('market', 'start', 'end')],
  [`kline?${M}&start=x&end=5`, fields('start')],
  [`kline?${M}&start=1.5&end=5`, fields('start')],
  [`kline?${M}&start=10&end=5`, invalid],
  [`kline?${M}&start=-1&end=5`, invalid],
  [`kline?${M}&start=0&end=60&interval=7`, invalid],
  [`kline?${M}&start=0&end=60&interval=x`, invalid],
  [`kline?${M}&start=0&end=600000&interval=60`, invalid],
  [`history?${M}&lastId=-1`, invalid],
  [`history?${M}&limit=0`, invalid],
  [`history?${M}&limit=-1`, invalid],
  [`history?${M}&limit=1001`, invalid],
  [`history?${M}&limit=ten`, invalid],
  [`history?${M}&limit=`, invalid],
  ['history/result', fields('market', 'since')],
  [`history/result?${M}&since=abc`, fields('since')],
  [`history/result?${M}&since=-1`, invalid],
  [`history/result?${M}&since=0&limit=1001`, invalid],
  ['depth/result?limit=5', fields('market')],
  [`depth/result?${M}&limit=0`, invalid],
  ['depth/result?market=NO_SUCH', invalid],
  [`book?${M}`, fields('side')],
  [`book?${M}&side=both`, invalid],
  [`book?${M}&side=buy&offset=-1`, invalid],
  [`book?${M}&side=buy&limit=1001`, invalid],
];

test('each row of the error table answers 400 with its message', async (t) => {
  const { server } = await startTapeExchange(t);
  for (const [target, expected] of rows) {
    const response = await fetch(`${server.url}/api/v1/public/${target}`);
    assert.equal(response.status, 400, target);
    assert.deepEqual(await response.json(), expected, target);
  }
});

test('10,000 candles may be asked for, one more may not', async (t) => {
  const { server } = await startTapeExchange(t);
  const path = `${server.url}/api/v1/public/kline?${M}&start=0&interval=60`;
  assert.equal((await fetch(`${path}&end=${9999 * 60}`)).status, 200);
  assert.equal((await fetch(`${path}&end=${10_000 * 60}`)).status, 400);
});

test('unknown paths and methods get the 404 object', async (t) => {
  const { backend, server, record } = await startTapeExchange(t);
  const calls = [
    ['GET', '/api/v1/public/nothing'],
    ['GET', '/api/v1/account/balances'],
    ['GET', '/api/v1/public/markets/'],
    ['DELETE', '/api/v1/public/markets'],
    ['PUT', '/api/v1/public/ticker'],
    ['OPTIONS', '/api/v1/public/ticker'],
    ['POST', '/api/v1/other'],
  ] as const;
  for (const [method, path] of calls) {
    const response = await fetch(`${server.url}${path}?a=1`, { method });
    assert.equal(response.status, 404, `${method} ${path}`);
    assert.deepEqual(await response.json(), {
      timestamp: Math.floor(backend.nowMs() / 1000),
      status: 404,
      error: 'Not Found',
      message: '',
      path,
    });
  }
  const head = (path: string) => fetch(`${server.url}${path}`, { method: 'HEAD' });
  assert.equal((await head('/api/v1/account/balances')).status, 404, 'there is no GET of it');
  assert.ok(record.requests.every(({ status }) => status === 404));
});

test('HEAD is answered as GET is, without the body', async (t) => {
  const { server } = await startTapeExchange(t);
  for (const path of [
    '/api/v1/public/markets',
    `/api/v1/public/ticker?${M}`,
    `/api/v1/public/history?${M}&limit=1000`,
    `/api/v1/public/depth/result?${M}&limit=0`,
  ]) {
    const [get, head] = await Promise.all(
      ['GET', 'HEAD'].map((method) => fetch(server.url + path, { method })),
    );
    assert.equal(head?.status, get?.status, path);
    for (const name of ['content-type', 'content-length', 'x-tapekeep-exchange']) {
      assert.equal(head?.headers.get(name), get?.headers.get(name), `${path} ${name}`);
    }
    assert.equal(await head?.text(), '');
  }
});

test('what is not HTTP, or has broken headers, gets the HTML page', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  const close = 'Connection: close\r\n';
  for (const bytes of [
    'garbage\r\n\r\n',
    `GET /api/v1/public/markets HTTP/1.1\r\nHost: a\r\nbad header\r\n\r\n`,
    `GET /api/v1/public/markets HTTP/1.1\r\nHost: a\r\nX-Long: ${'a'.repeat(20_000)}\r\n\r\n`,
    `GET /api/v1/public/markets HTTP/1.1\r\n${close}\r\n`,
    `GET /api/v1/public/markets HTTP/1.1\r\nHost: a\r\nHost: a\r\n${close}\r\n`,
    `GET /api/v1/public/markets HTTP/1.0\r\nHost: a\r\nhost: b\r\n${close}\r\n`,
    `GET /api/v1/public/markets HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\ncontent-type: c/d\r\n${close}\r\n`,
    `POST /api/v1/orders HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Type: application/json\r\nContent-Length: 2\r\n${close}\r\n{}`,
    `GET /api/v1/public/markets?market=%zz HTTP/1.1\r\nHost: a\r\n${close}\r\n`,
    `GET /api/v1/public/%zz HTTP/1.1\r\nHost: a\r\n${close}\r\n`,
  ]) {
    const reply = await sendRaw(server.port, bytes);
    const shown = bytes.slice(0, 80);
    assert.match(reply, /^HTTP\/1\.1 400 /, shown);
    assert.match(reply, /content-type: text\/html/i, shown);
    assert.ok(reply.endsWith(BAD_REQUEST_PAGE), shown);
    assert.ok(reply.toLowerCase().includes(`x-tapekeep-exchange: ${backend.identity}`), shown);
  }
  assert.equal((await fetch(`${server.url}/api/v1/public/markets`)).status, 200);
});

test('an upgrade that is refused tells time and exchange as every reply does', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  const upgrade = 'Connection: Upgrade\r\nUpgrade: websocket\r\n';
  const host = 'Host: a\r\n';
  for (const [bytes, status] of [
    [`GET /nowhere HTTP/1.1\r\n${host}${upgrade}\r\n`, '404 Not Found'],
    [`GET /ws HTTP/1.1\r\n${host}${upgrade}\r\n`, '400 Bad Request'],
    [`GET /ws HTTP/1.1\r\n${host}${host}${upgrade}\r\n`, '400 Bad Request'],
    [`GET /ws HTTP/1.1\r\n${upgrade}\r\n`, '400 Bad Request'],
    [`GET /ws HTTP/1.1\r\n${host}Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n`, '400 Bad Request'],
  ] as const) {
    const reply = await sendRaw(server.port, bytes);
    assert.ok(reply.startsWith(`HTTP/1.1 ${status}\r\n`), `${bytes} ${reply}`);
    const lines = reply.toLowerCase().split('\r\n');
    assert.ok(lines.includes(`x-tapekeep-exchange: ${backend.identity}`), reply);
    const date = new Date(backend.nowMs()).toUTCString().toLowerCase();
    assert.ok(lines.includes(`date: ${date}`), reply);
    if (status.startsWith('400')) assert.ok(reply.endsWith(BAD_REQUEST_PAGE), reply);
  }
});

test('what fails inside is a 500 that tells nothing, and its cause is told to the operator', async (t) => {
  const { backend, server, record } = await startTapeExchange(t);
  backend.kline = () => {
    throw new TypeError('the cause');
  };
  backend.state = () => {
    throw new RangeError('another cause');
  };
  const reply = await fetch(`${server.url}/api/v1/public/kline?${M}&start=0&end=60`);
  assert.equal(reply.status, 500);
  assert.deepEqual(await reply.json(), { ...invalid, code: 500, message: 'internal error' });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const { error } = await socket.ask('state.query', ['BTC_USDT', 60]);
  assert.match(JSON.stringify(error), /internal error/);
  assert.deepEqual(
    record.failures.map(({ endpoint, code, message }) => [endpoint, code, message]),
    [
      ['kline', 'TypeError', 'the cause'],
      ['state.query', 'RangeError', 'another cause'],
    ],
  );
});

test('family error shapes: a success status that is none, and other words', async (t) => {
  const { server } = await startTapeExchange(t, {}, { errorShapes: 'family' });
  const get = async (path: string) => {
    const response = await fetch(`${server.url}${path}`);
    return [response.status, await response.json()] as const;
  };
  assert.deepEqual(await get('/api/v1/public/depth/result?market=NO_SUCH'), [
    200,
    { code: 500, success: false, message: 'service unavailable', result: [] },
  ]);
  assert.deepEqual(await get('/api/v1/public/ticker?market=NO_SUCH'), [
    400,
    { ...invalid, message: { market: ['Market is not available'] } },
  ]);
  assert.deepEqual(await get(`/api/v1/public/history?${M}&limit=1001`), [
    400,
    { ...invalid, message: { limit: ['The limit may not be greater than 1000.'] } },
  ]);
  assert.deepEqual(await get('/nowhere'), [
    404,
    { status: 'error', message: 'Cannot GET /nowhere', result: null },
  ]);
});

test('an enforced rate limit refuses with 429 and lets go when its window ends', async (t) => {
  const clock = new FakeClock();
  const rateLimit = { limit: 2, windowMs: 10_000, enforce: true };
  const { server } = await startTapeExchange(t, {}, { rateLimit }, clock);
  const status = async () => (await fetch(`${server.url}/api/v1/public/markets`)).status;
  assert.deepEqual([await status(), await status()], [200, 200]);
  clock.advance(4_500);
  const refused = await fetch(`${server.url}/api/v1/public/markets`);
  assert.equal(refused.status, 429);
  assert.equal(refused.headers.get('retry-after'), '6');
  assert.equal(refused.headers.get('x-ratelimit-remaining'), '0');
  assert.equal(((await refused.json()) as { success: boolean }).success, false);
  clock.advance(5_500);
  assert.equal(await status(), 200);
});

test('without the rate-limit variant no such header is sent', async (t) => {
  const { server } = await startTapeExchange(t, {}, { rateLimit: false });
  const { headers } = await fetch(`${server.url}/api/v1/public/markets`);
  assert.equal(headers.get('x-ratelimit-limit'), null);
});

test('stop may be called twice and frees the port', async (t) => {
  const { server } = await startTapeExchange(t);
  await Promise.all([server.stop(), server.stop()]);
  await assert.rejects(fetch(`${server.url}/api/v1/public/markets`));
});
