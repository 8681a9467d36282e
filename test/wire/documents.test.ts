import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { Ajv, type ValidateFunction } from 'ajv';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { endpointNames, endpoints } from '../../src/contract/endpoints.js';
import { type ServerVariants, variantsLike } from '../../src/contract/variants.js';
import { signedHeaders } from '../support/exchanges/live-exchange.js';
import { startTapeExchange, TEST_ORIGIN_MS } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';

const KEY = 'key-1';
const SECRET = 'secret-1';
const START_S = TEST_ORIGIN_MS / 1000;

interface Described {
  readonly components: { readonly schemas: object; readonly messages: Record<string, object> };
  readonly paths: Record<string, Record<string, Operation>>;
  readonly [key: string]: unknown;
}
interface Operation {
  readonly responses: Record<string, { content: Record<string, { schema: object }> }>;
}

async function documentAt(url: string): Promise<Described> {
  const response = await fetch(url);
  assert.equal(response.status, 200);
  assert.match(response.headers.get('content-type') ?? '', /^application\/json/);
  return (await response.json()) as Described;
}

const NOTHING = { content: {} as Record<string, { schema: object }> };

/** Checks replies against what the served document says of them. */
class Checker {
  readonly #document: Described;
  readonly #ajv = new Ajv2020({ strict: false });

  constructor(document: Described) {
    this.#document = document;
  }

  async check(path: string, form: string, response: Response): Promise<void> {
    const { status, headers } = response;
    const responses = this.#document.paths[path]?.[form]?.responses ?? {};
    const { content } = responses[status] ?? responses[`${Math.floor(status / 100)}XX`] ?? NOTHING;
    const type = headers.get('content-type')?.split(';')[0] ?? '';
    const described = content[type];
    assert.ok(described, `${form} ${path} ${status} ${type} is described`);
    const { components } = this.#document;
    const validate = this.#ajv.compile({ ...described.schema, components });
    const body: unknown = type === 'text/html' ? await response.text() : await response.json();
    assert.ok(validate(body), `${form} ${path} ${status}: ${JSON.stringify(validate.errors)}`);
  }
}

const M = 'market=BTC_USDT';
/** Requests that draw every kind of reply from each public endpoint. */
const queries: Readonly<Record<string, readonly string[]>> = {
  markets: ['', 'a=1&a=2', 'a=%zz'],
  products: [''],
  tickers: [''],
  ticker: [M, '', 'market=NO_SUCH', 'market=%zz'],
  kline: [`${M}&start=${START_S}&end=${START_S + 3600}`, M, `${M}&start=0&end=60&interval=7`],
  history: [M, `${M}&limit=1000`, `${M}&limit=0`, ''],
  historyResult: [`${M}&since=0`, `${M}&since=x`, `${M}&since=-1`],
  depth: [M, `${M}&limit=1001`],
  book: [`${M}&side=buy`, `${M}&side=both`, M],
};

test('every reply to GET is one that the served document describes', async (t) => {
  const { server } = await startTapeExchange(t);
  const checker = new Checker(await documentAt(`${server.url}/openapi.json`));
  for (const name of endpointNames) {
    const { path, access } = endpoints[name];
    const targets = queries[name] ?? [];
    assert.equal(targets.length > 0, access === 'public', name);
    for (const query of targets) {
      await checker.check(path, 'get', await fetch(`${server.url}${path}?${query}`));
    }
  }
});

test('every reply to POST is one that the served document describes', async (t) => {
  const { server } = await startTapeExchange(t, { keys: { [KEY]: SECRET } });
  const checker = new Checker(await documentAt(`${server.url}/openapi.json`));
  const order = { market: 'BTC_USDT', side: 'buy', price: '1', amount: '1' };
  const good = { ...order, start: START_S, end: START_S + 60, since: 0 };
  let nonce = 1_800_000_000_000;
  const post = (path: string, params: object, secret = SECRET) => {
    nonce += 1;
    const body = JSON.stringify({ ...params, request: path, nonce });
    const headers = signedHeaders(KEY, secret, body);
    return fetch(`${server.url}${path}`, { method: 'POST', body, headers });
  };
  for (const name of endpointNames) {
    const { path } = endpoints[name];
    for (const params of [good, {}, { ...good, market: 'NO_SUCH' }]) {
      await checker.check(path, 'post', await post(path, params));
    }
    await checker.check(path, 'post', await post(path, good, 'wrong'));
  }
});

test('a refusal for haste, and a failure of the exchange, are described', async (t) => {
  const rateLimit = { limit: 2, windowMs: 10_000, enforce: true };
  const { backend, server } = await startTapeExchange(t, {}, { rateLimit });
  const checker = new Checker(await documentAt(`${server.url}/openapi.json`));
  t.mock.method(backend, 'tickers', () => {
    throw new Error('disk on fire');
  });
  const { path } = endpoints.tickers;
  const failed = await fetch(server.url + path);
  assert.equal(failed.status, 500);
  await checker.check(path, 'get', failed);
  const hasty = await fetch(server.url + path);
  assert.equal(hasty.status, 429);
  await checker.check(path, 'get', hasty);
});

test('the headers that the document names are on the replies', async (t) => {
  const { server } = await startTapeExchange(t);
  const response = await fetch(`${server.url}/openapi.json`);
  const { components } = (await response.json()) as { components: { headers: object } };
  const named = Object.keys(components.headers).filter((name) => name !== 'retry-after');
  assert.equal(named.length, 3);
  for (const name of [...named, 'date', 'x-tapekeep-exchange']) {
    assert.ok(response.headers.has(name), name);
  }
});

test('the documents are answered to GET and HEAD alone, and nothing else is beside them', async (t) => {
  const { server, record } = await startTapeExchange(t);
  for (const path of ['/openapi.json', '/asyncapi.json']) {
    for (const method of ['POST', 'PUT', 'OPTIONS', 'DELETE']) {
      assert.equal((await fetch(server.url + path, { method })).status, 404, `${method} ${path}`);
    }
    assert.equal((await fetch(`${server.url + path}?a=1`)).status, 200);
    assert.equal((await fetch(server.url + path, { method: 'HEAD' })).status, 200);
  }
  for (const path of ['/', '/openapi', '/openapi.json/', '/openapi.yaml', '/api/v1/openapi.json']) {
    const response = await fetch(server.url + path);
    assert.equal(response.status, 404, path);
    assert.equal(((await response.json()) as { path: string }).path, path);
  }
  const labels = record.requests.filter(({ status }) => status === 200);
  assert.deepEqual(
    labels.map(({ endpoint }) => endpoint),
    ['documents', 'documents', 'documents', 'documents'],
  );
});

/** Compiles the payload of one message of the served AsyncAPI document. */
function messageCheckers({ components }: Described): (name: string) => ValidateFunction {
  const ajv = new Ajv({ strict: false });
  return (name) => {
    const { payload } = components.messages[name] as { payload: object };
    return ajv.compile({ ...payload, components: { schemas: components.schemas } });
  };
}

async function openRealtime(
  t: TestContext,
  variants: Partial<ServerVariants> = {},
  clock = new FakeClock(),
) {
  const { server } = await startTapeExchange(t, {}, variants, clock);
  const document = await documentAt(`${server.url}/asyncapi.json`);
  return { server, document, socket: await TapeSocket.open(t, server.realtimeUrl) };
}

/** Holds a frame against the message of this name. */
function judgeBy(document: Described) {
  const checkerOf = messageCheckers(document);
  return (name: string, frame: unknown) => {
    const validate = checkerOf(name);
    assert.ok(validate(frame), `${name}: ${JSON.stringify(validate.errors)}`);
  };
}

test('every frame of the server is a message that the served document describes', async (t) => {
  const { document, socket } = await openRealtime(t);
  const checkerOf = messageCheckers(document);
  const is = judgeBy(document);
  is('stateQueryResponse', await socket.ask('state.query', ['BTC_USDT', 3600]));
  is('stateSubscribeResponse', await socket.ask('state.subscribe', ['BTC_USDT', 60]));
  const update = await socket.next();
  is('stateUpdate', update);
  is('serverPingResponse', await socket.ask('server.ping', []));
  is('stateUnsubscribeResponse', await socket.ask('state.unsubscribe', []));
  is('error', await socket.ask('state.query', ['NO_SUCH', 60]));
  is('error', await socket.ask('no.such', []));
  assert.equal(checkerOf('stateQueryResponse')(update), false, 'an update is no answer');
});

test('lists, pushed trades and the words of a dialect are described where they are served', async (t) => {
  for (const name of ['whitebit', 'earnbit', 'p2b'] as const) {
    const clock = new FakeClock();
    const { document, socket } = await openRealtime(t, variantsLike(name, {}), clock);
    const is = judgeBy(document);
    const [query, subscribe, unsubscribe, trades] = (
      {
        whitebit: ['market_request', 'market_subscribe', 'market_unsubscribe', 'trades_subscribe'],
        earnbit: ['state.query', 'state.subscribe', 'state.unsubscribe', 'deals.subscribe'],
        p2b: ['state.query', 'state.subscribe', 'state.unsubscribe', undefined],
      } as const
    )[name];
    is('stateQueryResponse', await socket.ask(query, ['BTC_USDT', 3600]));
    const asked = { method: subscribe, params: ['BTC_USDT', 'ETH_USDT'], id: 1 };
    is('stateSubscribeRequest', asked);
    is('stateSubscribeResponse', await socket.ask(asked.method, asked.params));
    is('stateUpdate', await socket.next());
    is('stateUpdate', await socket.next());
    is('stateUnsubscribeResponse', await socket.ask(unsubscribe, []));
    assert.equal('tradesUpdate' in document.components.messages, trades !== undefined, name);
    if (trades === undefined) continue;
    is('tradesSubscribeRequest', { method: trades, params: ['BTC_USDT'], id: 1 });
    is('tradesSubscribeResponse', await socket.ask(trades, ['BTC_USDT']));
    await clock.run(30_000);
    is('tradesUpdate', await socket.next());
    if (name !== 'whitebit') continue;
    await socket.untilAnswered(unsubscribe);
    is('tradesRequestResponse', await socket.ask('trades_request', ['BTC_USDT', 100, 0]));
  }
});

test('the AsyncAPI document names the WebSocket as the caller can reach it', async (t) => {
  const { server, document } = await openRealtime(t);
  const { host, pathname } = new URL(server.realtimeUrl);
  assert.deepEqual(document.servers, { exchange: { host, pathname, protocol: 'ws' } });
});
