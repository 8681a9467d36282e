import assert from 'node:assert/strict';
import { request } from 'node:http';
import { test } from 'node:test';
import { encodePayload, sign } from '../../src/contract/signing.js';
import { signedHeaders } from '../support/exchanges/live-exchange.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';

const KEY = 'key-1';
const SECRET = 'secret-1';
const OPTIONS = { keys: { [KEY]: SECRET, other: 'secret-2' } };
const NONCE = 1_800_000_000_000;
const BALANCES = '/api/v1/account/balances';
const failure = { code: 400, success: false, message: 'authentication failure', result: [] };
const invalid = { ...failure, message: 'invalid input' };

interface Post {
  readonly path?: string;
  readonly body?: object | string;
  readonly headers?: Readonly<Record<string, string | undefined>>;
}

/** Sends a signed request, some of whose parts may be replaced by wrong ones. */
async function post(url: string, { path = BALANCES, body, headers = {} }: Post) {
  const text =
    typeof body === 'string' ? body : JSON.stringify({ request: path, nonce: NONCE, ...body });
  const all: Record<string, string | undefined> = {
    ...signedHeaders(KEY, SECRET, text),
    ...headers,
  };
  const sent = Object.entries(all).filter((entry): entry is [string, string] => {
    return entry[1] !== undefined;
  });
  const response = await fetch(url + path, { method: 'POST', body: text, headers: sent });
  return { status: response.status, body: (await response.json()) as Record<string, unknown> };
}

const unauthenticated: Readonly<Record<string, Post>> = {
  'no key header': { headers: { 'x-txc-apikey': undefined } },
  'no payload header': { headers: { 'x-txc-payload': undefined } },
  'no signature header': { headers: { 'x-txc-signature': undefined } },
  'an unknown key': { headers: { 'x-txc-apikey': 'nobody' } },
  'a key of the prototype': { headers: { 'x-txc-apikey': 'constructor' } },
  "another key's secret": { headers: { 'x-txc-apikey': 'other' } },
  'a foreign payload': { headers: { 'x-txc-payload': encodePayload('{}') } },
  'a wrong signature': { headers: { 'x-txc-signature': 'ab'.repeat(64) } },
  'the signature of the body': {
    body: `{"request":"${BALANCES}","nonce":${NONCE}}`,
    headers: {
      'x-txc-signature': sign(SECRET, `{"request":"${BALANCES}","nonce":${NONCE}}`, 'body'),
    },
  },
  'another content type': { headers: { 'content-type': 'text/plain' } },
  'no content type': { headers: { 'content-type': '' } },
  'a foreign path': { body: { request: '/api/v1/orders' } },
  'no path': { body: { request: undefined } },
  'no nonce': { body: { nonce: undefined } },
  'a nonce of 12 digits': { body: { nonce: 180_000_000_000 } },
  'a nonce of 14 digits': { body: { nonce: 18_000_000_000_000 } },
  'a fractional nonce': { body: { nonce: NONCE + 0.5 } },
  'a nonce in exponent form': { body: `{"request":"${BALANCES}","nonce":1.8e12}` },
  'a nonce with a point': { body: `{"request":"${BALANCES}","nonce":1800000000000.0}` },
  'a nonce text of 16 characters': { body: `{"request":"${BALANCES}","nonce":"0001800000000000"}` },
  'the last of two nonces in exponent form': {
    body: `{"nonce":${NONCE},"request":"${BALANCES}","no\\u006ece":1.8e12}`,
  },
  'a body that is said to be compressed': { headers: { 'content-encoding': 'gzip' } },
  'no JSON': { body: 'request=1' },
  'a JSON array': { body: '[]' },
  'JSON null': { body: 'null' },
  'deep JSON': { body: '['.repeat(8000) },
  'a body beyond the bound': {
    body: { filler: 'x'.repeat(16 * 1024) },
    // The true payload would not fit the headers either.
    headers: { 'x-txc-payload': encodePayload('x') },
  },
  'an empty body': { body: '' },
};

test('whatever keeps the sender unknown is an authentication failure', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  for (const [what, request] of Object.entries(unauthenticated)) {
    const { status, body } = await post(server.url, request);
    assert.equal(status, 400, what);
    assert.deepEqual(body, failure, what);
  }
  assert.equal((await post(server.url, {})).status, 200, 'none of them used up the nonce');
});

test('a nonce is what the body itself says, not what is deeper in it or in texts', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  for (const body of [
    `{ "a" : {"nonce":1e3}, "b":["nonce", 5e2, {"nonce":[7]}], "nonce" : ${NONCE}, "request":"${BALANCES}" }`,
    `{"c":"\\",\\"nonce\\":1.9e12","request":"${BALANCES}","nonce":"${NONCE + 1}","d":-1.5e-3}`,
    `{"nonce":1,"request":"${BALANCES}","nonce":${NONCE + 2},"e":"nonce","f":1.8e12}`,
  ]) {
    assert.equal((await post(server.url, { body })).status, 200, body);
  }
});

test('a body that is encoded as itself is taken', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  const { status } = await post(server.url, { headers: { 'content-encoding': 'identity' } });
  assert.equal(status, 200);
});

test('an exchange without keys refuses every signed request', async (t) => {
  const { server } = await startTapeExchange(t);
  assert.deepEqual((await post(server.url, {})).body, failure);
});

test('a nonce must exceed that of the last completed request of its key', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  const status = async (nonce: number | string) =>
    (await post(server.url, { body: { nonce } })).status;
  assert.equal(await status(NONCE), 200);
  assert.equal(await status(NONCE), 400);
  assert.equal(await status(NONCE - 1), 400);
  assert.equal(await status(`${NONCE + 1}`), 200, 'a nonce may come as text');
  const wrong = { nonce: NONCE + 5, market: 'NO_SUCH', side: 'buy', price: '1', amount: '1' };
  assert.deepEqual(
    (await post(server.url, { path: '/api/v1/order/new', body: wrong })).body,
    invalid,
  );
  assert.equal(await status(NONCE + 5), 400, 'a refused order was a completed request');
  assert.equal(await status(NONCE + 6), 200);
  const body = JSON.stringify({ request: BALANCES, nonce: NONCE });
  const headers = { 'x-txc-apikey': 'other', 'x-txc-signature': sign('secret-2', body) };
  assert.equal((await post(server.url, { body, headers })).status, 200, 'each key has its own');
});

test('of many requests with one nonce at once exactly one passes', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  const replies = await Promise.all(Array.from({ length: 20 }, () => post(server.url, {})));
  assert.equal(replies.filter(({ status }) => status === 200).length, 1);
});

test('a request on which the server failed has not used up its nonce', async (t) => {
  const { backend, server } = await startTapeExchange(t, OPTIONS);
  let fails = true;
  Object.assign(backend.accounts ?? {}, {
    balances() {
      if (fails) throw new Error('disk on fire');
      return {};
    },
  });
  const broken = await post(server.url, {});
  assert.equal(broken.status, 500);
  assert.ok(!JSON.stringify(broken.body).includes('fire'), 'the cause stays inside');
  fails = false;
  assert.equal((await post(server.url, {})).status, 200);
});

test('the signature over the body itself is a variant', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS, { signedContent: 'body' });
  const body = JSON.stringify({ request: BALANCES, nonce: NONCE });
  const headers = { 'x-txc-signature': sign(SECRET, body, 'body') };
  assert.equal((await post(server.url, { body, headers })).status, 200);
  assert.deepEqual((await post(server.url, { body: { nonce: NONCE + 1 } })).body, failure);
});

test('what accounts refuse or lack is answered as the contract says', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  const order = { market: 'BTC_USDT', side: 'buy', price: '1', amount: '1' };
  const blocked = await post(server.url, { path: '/api/v1/order/new', body: order });
  assert.deepEqual(blocked, { status: 400, body: { ...failure, message: 'operation blocked' } });
  const next = { market: 'BTC_USDT', nonce: NONCE + 1 };
  const orders = await post(server.url, { path: '/api/v1/orders', body: next });
  assert.deepEqual(orders.body.result, { limit: 50, offset: 0, total: 0, result: [] });
  const missing = await post(server.url, {
    path: '/api/v1/order/new',
    body: { nonce: NONCE + 2, market: { deep: [] }, side: 5 },
  });
  assert.deepEqual(Object.keys(missing.body.message as object).sort(), [
    'amount',
    'market',
    'price',
    'side',
  ]);
  const balances = await post(server.url, { body: { nonce: NONCE + 3 } });
  assert.deepEqual(balances.body.result, {});
});

test('a body that breaks off leaves the server well', async (t) => {
  const { server } = await startTapeExchange(t, OPTIONS);
  const half = request(`${server.url}${BALANCES}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': '500' },
  });
  const ended = new Promise((resolve) => half.once('close', resolve));
  half.on('error', () => {});
  half.once('socket', (socket) => socket.once('connect', () => half.destroy()));
  half.write('{"request"');
  await ended;
  assert.equal((await post(server.url, {})).status, 200);
});
