import assert from 'node:assert/strict';
import test from 'node:test';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { z } from 'zod';
import { endpointNames, endpoints } from '../../src/contract/endpoints.js';
import { BAD_REQUEST_PAGE } from '../../src/contract/error-shapes.js';
import { readServerFrame } from '../../src/contract/realtime.js';
import { AUTH_HEADERS, encodePayload, sign } from '../../src/contract/signing.js';
import type { Random } from '../../src/kernel/random.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import {
  below,
  mutateBytes,
  mutateValue,
  ODD_VALUES,
  pick,
  startFuzzing,
} from '../support/fuzz/fuzz.js';
import {
  splitFrames,
  splitReplies,
  talkRaw,
  type WireReply,
  writeFrame,
} from '../support/fuzz/fuzz-http.js';

const CASES = 1000;
const FRAME_CASES = 300;
const BATCH = 100;
/** Garbage is collected before this is measured, so it is what is really kept. */
const MAX_GROWTH_BYTES = 16 * 1024 * 1024;

const KEY = 'fuzz-key';
const SECRET = 'fuzz-secret';
const OPTIONS = { keys: { [KEY]: SECRET } };
const GOOD_PATH = '/api/v1/public/ticker?market=BTC_USDT';
let nonce = 1_700_000_000_000;

const PARAMS: Readonly<Record<string, unknown>> = {
  ...{ market: 'BTC_USDT', start: 1_780_272_000, end: 1_780_273_000, interval: 60, side: 'buy' },
  ...{ lastId: 0, since: 0, offset: 0, limit: 3, price: '1', amount: '1' },
};
const ODD_TEXTS = [
  ...[
    '%',
    '%2',
    '%zz',
    '%C3%28',
    '%00',
    '%ff',
    '%E2%82',
    '+',
    '%2B',
    '%20',
    '%26',
    '&',
    '=',
    '&&&',
  ],
  ...['%F0%9F%98%80', '..%2f..', '#', '?', ';', '\\', '[]', 'a=1&a=2', 'market=BTC_USDT&market=X'],
  ...[`${'a=1&'.repeat(100)}`, 'x'.repeat(5000), `limit=${'9'.repeat(400)}`, '__proto__=1'],
];
const ODD_HEADERS = [
  ...['Host: two', 'Host:', 'Content-Length: 5', 'Content-Length: -1', 'Content-Length: 1, 2'],
  ...['Transfer-Encoding: chunked', 'Transfer-Encoding: gzip, chunked', 'Expect: 100-continue'],
  ...['Expect: wonders', 'Connection: upgrade', 'Upgrade: websocket', 'Upgrade: h2c'],
  ...['Connection: keep-alive, upgrade\r\nUpgrade: websocket', 'Connection: close', ': empty'],
  ...['Content-Type: application/json', 'Content-Type: text/plain', 'Content-Type: ;;;'],
  ...['Content-Type: multipart/form-data', 'Content-Encoding: gzip', 'Accept: image/png'],
  ...[
    `X-Long: ${'x'.repeat(17_000)}`,
    'Range: bytes=0-1',
    'If-None-Match: *',
    ' folded',
    'Bad Name: 1',
  ],
  ...[`${AUTH_HEADERS.apiKey}: ${KEY}`, `${AUTH_HEADERS.signature}: ff`, 'TE: trailers', 'A: \x01'],
];
const METHODS = [
  'GET',
  'POST',
  'PUT',
  'DELETE',
  'HEAD',
  'OPTIONS',
  'TRACE',
  'PATCH',
  'PROPFIND',
  'get',
];
const PATHS = [
  ...endpointNames.map((name) => endpoints[name].path),
  ...['/', '*', '//', '/ws', '/openapi.json', '/asyncapi.json', '/api/v1/public/ticker/'],
  ...['/api/v1/public/%74icker', '/api/v1/public/%zz', '/../etc', 'http://x/api/v1/public/markets'],
];

function oddBody(random: Random, path: string): string {
  nonce += 1;
  const fields = { ...PARAMS, request: path, nonce };
  const what = random();
  if (what < 0.3) return JSON.stringify(fields);
  if (what < 0.7) return JSON.stringify(mutateValue(random, fields));
  if (what < 0.8)
    return `{"a":${'['.repeat(5000)}${']'.repeat(5000)},${JSON.stringify(fields).slice(1)}`;
  if (what < 0.9) return 'x'.repeat(below(random, 40_000));
  return JSON.stringify(pick(random, ODD_VALUES)) ?? '';
}

/** A request that is right, or wrong in its parts, or in its bytes. */
function drawRequest(random: Random): Buffer {
  const path = pick(random, PATHS);
  const method = random() < 0.8 ? (random() < 0.6 ? 'GET' : 'POST') : pick(random, METHODS);
  const query = Object.entries(PARAMS)
    .filter(() => random() < 0.7)
    .map(([name, value]) => {
      const shown = random() < 0.15 ? pick(random, ODD_VALUES) : value;
      return `${name}=${random() < 0.1 ? pick(random, ODD_TEXTS) : encodeURIComponent(wellFormed(shown))}`;
    });
  if (random() < 0.15) query.push(pick(random, ODD_TEXTS));
  const target = method === 'GET' && query.length > 0 ? `${path}?${query.join('&')}` : path;
  const headers = ['Host: here'];
  let body = '';
  if (method === 'POST') {
    body = oddBody(random, path);
    const isSigned = random() < 0.8;
    const payload = encodePayload(body);
    if (isSigned) {
      headers.push(`${AUTH_HEADERS.apiKey}: ${KEY}`, `${AUTH_HEADERS.payload}: ${payload}`);
      headers.push(`${AUTH_HEADERS.signature}: ${sign(SECRET, body)}`);
    }
    headers.push('Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`);
  }
  while (random() < 0.25) headers.push(pick(random, ODD_HEADERS));
  while (random() < 0.05) headers.splice(below(random, headers.length), 1);
  const head = [`${method} ${target} HTTP/1.1`, ...headers, '', ''].join('\r\n');
  const bytes = Buffer.concat([Buffer.from(head, 'latin1'), Buffer.from(body)]);
  return random() < 0.35 ? mutateBytes(random, bytes) : bytes;
}

function wellFormed(value: unknown): string {
  const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? '');
  return text.replaceAll('\ud800', '');
}

const errorEnvelope = z.strictObject({
  code: z.literal(400),
  success: z.literal(false),
  message: z.union([
    z.enum(['invalid input', 'authentication failure', 'operation blocked']),
    z.record(z.string(), z.array(z.string())),
  ]),
  result: z.tuple([]),
});
const notFoundBody = z.strictObject({
  ...{ timestamp: z.number(), status: z.literal(404), error: z.literal('Not Found') },
  ...{ message: z.literal(''), path: z.string() },
});
const successes = z.union([
  z.strictObject({
    ...{ code: z.literal(200), success: z.literal(true), message: z.literal('') },
    result: z.union(
      endpointNames.flatMap((name) => {
        const { envelope, result } = endpoints[name];
        return envelope ? [result.schema as z.ZodType] : [];
      }),
    ),
  }),
  endpoints.depth.result.schema,
  endpoints.historyResult.result.schema,
  z.object({ openapi: z.string() }),
  z.object({ asyncapi: z.string() }),
]);

/** What is wrong with a reply by the contract; undefined when nothing is. */
function complaintOf({ status, headers, body }: WireReply): string | undefined {
  if (status === 100 || status === 101) return undefined;
  const text = body.toString('utf8');
  const isPage = headers.get('content-type')?.startsWith('text/html') === true;
  const isToHead = text === '' && Number(headers.get('content-length')) > 0;
  if (isToHead) return [200, 400, 404].includes(status) ? undefined : 'no status of it';
  if (isPage) return status === 400 && text === BAD_REQUEST_PAGE ? undefined : 'another page';
  if (status !== 200 && status !== 400 && status !== 404) return 'a status beyond the contract';
  if (headers.get('content-type')?.startsWith('application/json') !== true)
    return 'no content type';
  const shape = status === 200 ? successes : status === 400 ? errorEnvelope : notFoundBody;
  const parsed = shape.safeParse(JSON.parse(text));
  return parsed.success ? undefined : `not its shape: ${JSON.stringify(parsed.error.issues[0])}`;
}

/** Bytes of the heap that are really in use. */
function keptBytes(): number {
  setFlagsFromString('--expose-gc');
  (runInNewContext('gc') as () => void)();
  return process.memoryUsage().heapUsed;
}

test('whatever is sent, every reply is one of the contract, and the server goes on', async (t) => {
  const { random, count } = startFuzzing(t, CASES);
  const { server } = await startTapeExchange(t, OPTIONS);
  const good = await (await fetch(server.url + GOOD_PATH)).text();
  const statuses: Record<string, number> = {};
  let keptBefore = 0;
  for (let index = 0; index < count; index += 1) {
    const requests = Array.from({ length: 1 + below(random, 3) }, () => drawRequest(random));
    const bytes = await talkRaw(server.port, requests);
    const shown = () => Buffer.concat(requests).subarray(0, 600).toString('latin1');
    for (const reply of splitReplies(bytes)) {
      statuses[reply.status] = (statuses[reply.status] ?? 0) + 1;
      const complaint = complaintOf(reply);
      const head = JSON.stringify([...reply.headers]);
      const told = `${complaint}: ${reply.status} ${head} ${reply.body.toString()} to ${shown()}`;
      assert.equal(complaint, undefined, told);
    }
    if (index % BATCH !== BATCH - 1) continue;
    assert.equal(await (await fetch(server.url + GOOD_PATH)).text(), good);
    // The first batch fills caches and compiles code.
    if (keptBefore === 0) keptBefore = keptBytes();
  }
  t.diagnostic(JSON.stringify(statuses));
  assert.ok(keptBytes() - keptBefore < MAX_GROWTH_BYTES, 'memory is given back');
});

const HANDSHAKE = [
  ...['GET /ws HTTP/1.1', 'Host: here', 'Connection: Upgrade', 'Upgrade: websocket'],
  ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==', '', ''],
].join('\r\n');
const CALLS = [
  { method: 'state.query', params: ['BTC_USDT', 60], id: 1 },
  { method: 'state.subscribe', params: ['BTC_USDT', 60], id: 'two' },
  { method: 'state.unsubscribe', params: [], id: 3 },
  { method: 'server.ping', params: [], id: 4 },
];

/** Frames of one client, right or wrong. */
function drawFrames(random: Random): Buffer[] {
  return Array.from({ length: 1 + below(random, 6) }, () => {
    const call = pick(random, CALLS);
    const shown = random() < 0.5 ? call : mutateValue(random, call);
    let payload: Buffer = Buffer.from(JSON.stringify(shown));
    if (random() < 0.2) payload = mutateBytes(random, payload);
    if (random() < 0.05) payload = Buffer.alloc(below(random, 70_000), '[');
    const isOdd = random() < 0.3;
    if (!isOdd) return writeFrame(payload);
    const isTold = random() < 0.2;
    return writeFrame(payload, {
      opcode: below(random, 16),
      isFinal: random() < 0.7,
      isMasked: random() < 0.9,
      reserved: random() < 0.9 ? 0 : below(random, 8),
      ...(isTold ? { toldLength: pick(random, [0, 125, 126, 65_536, 2 ** 31, 2 ** 52]) } : {}),
    });
  });
}

test('whatever frames come, each answer is a response or an update, and the server goes on', async (t) => {
  const { random, count } = startFuzzing(t, FRAME_CASES);
  const { server, record } = await startTapeExchange(t, OPTIONS);
  const handshake = Buffer.from(HANDSHAKE);
  const [good] = CALLS;
  const ask = async (frames: readonly Buffer[]) => {
    const [reply] = splitReplies(await talkRaw(server.port, [handshake, ...frames]));
    return splitFrames(reply?.body ?? Buffer.alloc(0));
  };
  const expected = await ask([writeFrame(Buffer.from(JSON.stringify(good)))]);
  assert.equal(readServerFrame(JSON.parse(String(expected[0]?.payload))).kind, 'response');
  const kinds: Record<string, number> = {};
  let keptBefore = 0;
  for (let index = 0; index < count; index += 1) {
    const spoilt = random() < 0.1 ? mutateBytes(random, handshake) : undefined;
    const frames = drawFrames(random);
    if (spoilt !== undefined) {
      for (const reply of splitReplies(await talkRaw(server.port, [spoilt, ...frames]))) {
        assert.equal(
          complaintOf(reply),
          undefined,
          `${reply.status} to ${spoilt.toString('latin1')}`,
        );
      }
      continue;
    }
    for (const { opcode, payload } of await ask(frames)) {
      let kind = `opcode ${opcode}`;
      if (opcode === 1) kind = readServerFrame(JSON.parse(payload.toString('utf8'))).kind;
      kinds[kind] = (kinds[kind] ?? 0) + 1;
      assert.ok(['response', 'update', 'opcode 8', 'opcode 10'].includes(kind), kind);
    }
    if (index % BATCH !== BATCH - 1) continue;
    assert.deepEqual(await ask([writeFrame(Buffer.from(JSON.stringify(good)))]), expected);
    if (keptBefore === 0) keptBefore = keptBytes();
  }
  t.diagnostic(JSON.stringify(kinds));
  assert.equal(record.open, 0, 'no connection is left');
  assert.ok(keptBytes() - keptBefore < MAX_GROWTH_BYTES, 'memory is given back');
});
