import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { proxyAt } from '../../src/client/http-proxy.js';
import { createExchangeClock, ExchangeClient, openStateFeed } from '../../src/client/index.js';
import { successEnvelope } from '../../src/contract/error-shapes.js';
import { systemClock } from '../../src/kernel/clock.js';
import { codeOf, messageOf } from '../../src/kernel/errors.js';
import {
  type ForwardProxy,
  type ProxyRules,
  startForwardProxy,
} from '../support/exchanges/forward-proxy.js';
import {
  sendJson,
  startHttpStub,
  startRealtimeStub,
  startTcpStub,
} from '../support/exchanges/stub-server.js';
import { makeStubClient } from '../support/exchanges/stub-server-client.js';
import { noTelemetry } from '../support/no-telemetry.js';
import { makeTempDir } from '../support/postgres/postgres-server.js';

/** Requests and real-time connections through a proxy: which way they take, and what is said where it fails. */

const SECRET = 'canary-p@ss:word%';
const LOGIN = `user:${SECRET}`;
const loginUrl = (url: string) => url.replace('://', `://user:${encodeURIComponent(SECRET)}@`);
const NOWHERE = 'api.nowhere.invalid';

const startExchange = (t: TestContext) =>
  startHttpStub(t, (_request, response) => sendJson(response, successEnvelope([])));

/** Answers each subscription. */
const startPushing = (t: TestContext) =>
  startRealtimeStub(t, {
    call: (connection, { id }) =>
      connection.send({ id, result: { status: 'success' }, error: null }),
  });

/** An address of this machine, by a name that only the proxy knows. */
const nameOnly = (address: string) => address.replace('127.0.0.1', NOWHERE);

function clientThrough(t: TestContext, baseUrl: string, proxyUrl: string, timeoutMs = 10_000) {
  const proxy = { url: proxyUrl, setting: 'HTTPS_PROXY' };
  return makeStubClient(t, baseUrl, { proxy, timeoutMs }).client;
}

function feedThrough(t: TestContext, url: string, proxyUrl: string, acknowledgeTimeoutMs = 10_000) {
  const feed = openStateFeed({
    ...{ url, market: 'BTC_USDT', periodS: 60, acknowledgeTimeoutMs },
    ...{ clock: systemClock, random: () => 0.5, telemetry: noTelemetry.client },
    exchangeClock: createExchangeClock({ clock: systemClock }),
    proxy: { url: proxyUrl, setting: 'HTTPS_PROXY' },
  });
  t.after(() => feed.stop());
  return feed[Symbol.asyncIterator]();
}

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => assert.fail('nothing failed'),
    (error: unknown) => error,
  );

const linesOf = ({ seen }: ForwardProxy) => seen.map(({ line }) => line);

test('a proxy forwards requests, with its login, which the exchange does not see', async (t) => {
  const exchange = await startExchange(t);
  const proxy = await startForwardProxy(t, { login: LOGIN });
  const baseUrl = nameOnly(exchange.baseUrl);
  const client = clientThrough(t, `${baseUrl}/spot`, loginUrl(proxy.url));
  await client.markets();
  await client.depth({ market: 'BTC_USDT' }).catch(() => undefined);
  assert.deepEqual(linesOf(proxy), [
    `GET ${baseUrl}/spot/api/v1/public/markets`,
    `GET ${baseUrl}/spot/api/v1/public/depth/result?market=BTC_USDT&limit=50`,
  ]);
  assert.equal(exchange.seen[0]?.headers.host, new URL(baseUrl).host);
  assert.equal(exchange.seen[0]?.headers['proxy-authorization'], undefined);
});

test('a real-time connection takes a tunnel, with the login', async (t) => {
  const exchange = await startPushing(t);
  const proxy = await startForwardProxy(t, { login: LOGIN });
  const events = feedThrough(t, nameOnly(exchange.url), loginUrl(proxy.url));
  const { value } = await events.next();
  assert.equal(value?.kind, 'opened');
  assert.deepEqual(linesOf(proxy), [`CONNECT ${NOWHERE}:${new URL(exchange.url).port}`]);
});

test('the library takes a proxy for both of its addresses', async (t) => {
  const [exchange, pushing] = [await startExchange(t), await startPushing(t)];
  const proxy = await startForwardProxy(t);
  const client = new ExchangeClient({
    baseUrl: nameOnly(exchange.baseUrl),
    realtimeUrl: nameOnly(pushing.url),
    proxy: proxy.url,
  });
  t.after(() => client.close());
  await client.markets();
  for await (const { kind } of client.watch('BTC_USDT', 60)) if (kind === 'opened') break;
  assert.equal(proxy.seen.length, 2);
});

/** An address that asks for a tunnel; nothing is reached there. */
const TUNNELLED = `https://${NOWHERE}`;
const PUSHED = `wss://${NOWHERE}/ws`;

const REFUSALS: ReadonlyArray<
  readonly [what: string, rules: ProxyRules, code: string, said: RegExp]
> = [
  [
    'asks for a login',
    { login: LOGIN },
    'proxy_refused',
    /asks for user and password \(407\): write them into HTTPS_PROXY/,
  ],
  [
    'forbids it',
    { refuses: 403 },
    'proxy_refused',
    /does not allow a connection to api\.nowhere\.invalid:443 \(403\)/,
  ],
  [
    'does not reach it',
    { refuses: 502 },
    'network',
    /could not make a connection to api\.nowhere\.invalid:443 \(502\)/,
  ],
];

for (const [what, rules, code, said] of REFUSALS) {
  test(`a proxy that ${what} is named with what to do, for either kind of connection`, async (t) => {
    const proxy = await startForwardProxy(t, rules);
    const error = await failureOf(clientThrough(t, TUNNELLED, proxy.url).markets());
    assert.equal(codeOf(error), code);
    const { value } = await feedThrough(t, PUSHED, proxy.url).next();
    assert.ok(value?.kind === 'closed' && value.reason === 'connect_failed', JSON.stringify(value));
    for (const text of [messageOf(error), value.detail ?? '']) {
      assert.match(text, said);
      assert.ok(text.includes(`the proxy ${proxy.url} (HTTPS_PROXY)`), text);
    }
  });
}

test('a wrong login is not shown, neither in a tunnel nor where requests are forwarded', async (t) => {
  const proxy = await startForwardProxy(t, { login: 'other:login' });
  for (const address of [TUNNELLED, `http://${NOWHERE}`]) {
    const error = await failureOf(clientThrough(t, address, loginUrl(proxy.url)).markets());
    assert.equal(codeOf(error), 'proxy_refused');
    assert.match(messageOf(error), /refuses its user and password \(407\)/);
    assert.doesNotMatch(messageOf(error), /canary/);
  }
});

test('a proxy that nothing listens at is named with what to do', async (t) => {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const address = free.address();
  const url = `http://127.0.0.1:${typeof address === 'object' ? address?.port : ''}`;
  await once(free.close(), 'close');
  for (const target of [TUNNELLED, `http://${NOWHERE}`]) {
    const error = await failureOf(clientThrough(t, target, url).markets());
    assert.equal(codeOf(error), 'network');
    assert.match(
      messageOf(error),
      /the proxy http:\S+ \(HTTPS_PROXY\) does not answer: .*ECONNREFUSED.*; start it, correct HTTPS_PROXY/,
    );
  }
  const { value } = await feedThrough(t, PUSHED, url).next();
  assert.match(JSON.stringify(value), /the proxy http:\S+ \(HTTPS_PROXY\) does not answer/);
});

test('a tunnel that is never made ends at the deadline, which names the proxy', async (t) => {
  const proxy = await startForwardProxy(t, { refuses: 'none' });
  const error = await failureOf(clientThrough(t, TUNNELLED, proxy.url, 200).markets());
  assert.match(
    messageOf(error),
    /through the proxy http:\S+ \(HTTPS_PROXY\)|the proxy http:\S+ \(HTTPS_PROXY\) does not answer/,
  );
  const { value } = await feedThrough(t, PUSHED, proxy.url, 200).next();
  assert.match(JSON.stringify(value), /the proxy http:\S+ \(HTTPS_PROXY\)/);
});

test('closing gives up a tunnel that is being made', async (t) => {
  const silent = await startTcpStub(t, () => undefined);
  const client = clientThrough(t, TUNNELLED, `http://127.0.0.1:${silent.port}`);
  const failed = failureOf(client.markets());
  await silent.asked();
  const [socket] = silent.sockets;
  assert.ok(socket);
  const closed = once(socket.resume(), 'close');
  await client.close();
  assert.equal(codeOf(await failed), 'aborted');
  await closed;
});

test('an address of no proxy is refused, and shows no password', () => {
  for (const [url, said] of [
    [
      `socks5://user:${SECRET}@proxy:1080`,
      /HTTPS_PROXY socks5:\/\/proxy:1080: it must begin with http/,
    ],
    [`http://user:canary/@proxy`, /HTTPS_PROXY \*\*\*: it is not an address/],
    [`http://user:canary%zz@proxy`, /HTTPS_PROXY http:\/\/proxy: a % in user name or password/],
  ] as const) {
    assert.throws(
      () => proxyAt({ url, setting: 'HTTPS_PROXY' }),
      (error: unknown) => {
        assert.equal(codeOf(error), 'invalid_address');
        assert.match(messageOf(error), said);
        assert.doesNotMatch(messageOf(error), /canary/);
        return true;
      },
    );
  }
});

/** Starts tinyproxy, where it is installed. */
async function startTinyproxy(t: TestContext): Promise<string | undefined> {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const address = free.address();
  const port = typeof address === 'object' ? (address?.port ?? 0) : 0;
  await once(free.close(), 'close');
  const folder = await makeTempDir();
  t.after(() => rm(folder, { recursive: true, force: true }));
  const settings = [
    'Listen 127.0.0.1',
    `Port ${port}`,
    'BasicAuth user long-enough',
    'LogLevel Info',
  ];
  const file = join(folder, 'tinyproxy.conf');
  await writeFile(file, `${settings.join('\n')}\n`);
  const child: ChildProcess = spawn('tinyproxy', ['-d', '-c', file]);
  const isStarted = await new Promise<boolean>((resolve, reject) => {
    child.once('error', () => resolve(false));
    child.once('exit', (code) => reject(new Error(`tinyproxy ended with ${code}`)));
    child.stdout?.on('data', (data: Buffer) => {
      if (String(data).includes('Accepting connections')) resolve(true);
    });
  });
  if (!isStarted) return undefined;
  child.removeAllListeners('exit');
  t.after(async () => {
    child.kill();
    await once(child, 'exit');
  });
  return `http://user:long-enough@127.0.0.1:${port}`;
}

test('tinyproxy forwards requests and makes tunnels', async (t) => {
  const proxyUrl = await startTinyproxy(t);
  if (proxyUrl === undefined) {
    t.diagnostic('not checked by tinyproxy itself: it is not installed');
    return;
  }
  const [exchange, pushing] = [await startExchange(t), await startPushing(t)];
  await clientThrough(t, exchange.baseUrl, proxyUrl).markets();
  assert.match(String(exchange.seen[0]?.headers.via), /tinyproxy/);
  const { value } = await feedThrough(t, pushing.url, proxyUrl).next();
  assert.equal(value?.kind, 'opened');
  const wrong = proxyUrl.replace('long-enough', 'canary');
  // It has a page of its own for that, under a status that an exchange may have, too.
  const error = await failureOf(clientThrough(t, exchange.baseUrl, wrong).markets());
  assert.match(messageOf(error), /\(through the proxy http:\/\/127\.0\.0\.1:\d+ \(HTTPS_PROXY\)\)/);
  const refused = await failureOf(clientThrough(t, TUNNELLED, wrong).markets());
  assert.equal(codeOf(refused), 'proxy_refused', messageOf(refused));
});
