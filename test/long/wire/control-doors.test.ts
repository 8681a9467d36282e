import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { test } from 'node:test';
import { STILL_MARKET, startTestLive } from '../../support/exchanges/live-exchange.js';
import { sendRaw } from '../../support/fuzz/fuzz-http.js';
import {
  control,
  covered,
  noonMs,
  openWorld,
  startReplay,
} from '../../support/worlds/replayed-archive.js';

/** Who may read and change what steers an exchange: nobody from a web page. */

interface Answer {
  readonly status: number;
  readonly text: string;
}

/** Sends a request as it is written; clients would put its headers right. */
async function send(port: number, lines: readonly string[], body = ''): Promise<Answer> {
  const length = body === '' ? [] : [`Content-Length: ${Buffer.byteLength(body)}`];
  const head = [...lines, ...length, 'Connection: close', '', body];
  const text = await sendRaw(port, head.join('\r\n'));
  return { status: Number(text.split(' ')[1]), text };
}

const LOCAL = ['127.0.0.1', 'localhost:8080', '[::1]:80', 'sandbox:8080', 'a.localhost'];
const FOREIGN = ['evil.example', 'evil.example:8080', '127.0.0.1.evil.example', '.', ''];

/** Paths that tell and paths that change, each as a page would have it asked. */
async function assertDoors(port: number, paths: readonly string[]): Promise<void> {
  for (const path of paths) {
    const [method = ''] = path.split(' ');
    const ask = (host: string, ...more: string[]) =>
      send(port, [`${path} HTTP/1.1`, `Host: ${host}`, ...more], method === 'POST' ? '{}' : '');
    for (const host of LOCAL) assert.notEqual((await ask(host)).status, 403, `${path} ${host}`);
    for (const host of FOREIGN) {
      const { status, text } = await ask(host);
      assert.equal(status, 403, `${path} ${host}`);
      assert.match(text, /the host .* is not known here/);
    }
    for (const header of [
      'Origin: null',
      'Origin: http://127.0.0.1:1',
      'Sec-Fetch-Site: cross-site',
      'Sec-Fetch-Site: same-site',
    ]) {
      assert.equal((await ask('127.0.0.1', header)).status, 403, `${path} ${header}`);
    }
    const browser = await ask('127.0.0.1', 'Sec-Fetch-Site: none');
    assert.notEqual(browser.status, 403, path);
    assert.equal((await ask('127.0.0.1', 'Host: evil.example')).status, 400, `${path}: two hosts`);
  }
}

test('what steers a sandbox, or tells its secrets, is for no web page', async (t) => {
  const { server } = await startTestLive(t, { markets: [STILL_MARKET] }, {}, true);
  await assertDoors(server.port, [
    `GET /sandbox/truth?market=${STILL_MARKET.name}`,
    `GET /%73andbox/truth?market=${STILL_MARKET.name}`,
    'GET /sandbox/markets',
    'POST /sandbox/markets/block',
    'POST /sandbox/deposits',
  ]);
  // What any exchange tells is not guarded, but for a request that has two hosts.
  const open = await send(server.port, [
    'GET /api/v1/public/markets HTTP/1.1',
    'Host: any.example',
  ]);
  assert.equal(open.status, 200);
});

test('what steers a replay is for no web page', async (t) => {
  const world = await openWorld();
  const stream = await world.stream('states', 60);
  await world.store.commit({ claims: [covered(stream, 0, 600)] });
  const { server } = await startReplay(t, world.store);
  await assertDoors(server.port, [
    'GET /replay/clock',
    'GET /replay/sessions',
    'POST /replay/sessions',
    'POST /replay/pause',
    'POST /replay/seek',
    'DELETE /replay/sessions',
  ]);
});

/** Bodies that no control call takes, some of them as large as it can be. */
function hostileBodies(): string[] {
  return [
    '',
    'null',
    '[]',
    '"x"',
    '{',
    '{"to":null}',
    '{"to":1e400}',
    '{"to":-1e15}',
    '{"to":"9999-12-31T00:00:00Z"}',
    '{"to":{}}',
    '{"ms":-1}',
    '{"ms":0.5}',
    '{"ms":1e18}',
    '{"speed":0}',
    '{"speed":"NaN"}',
    '{"speed":1e99}',
    '{"__proto__":{"to":1}}',
    '{"constructor":1}',
    '['.repeat(4_000),
    `{"to":"${'x'.repeat(4_000)}"}`,
    `{"to":"${'x'.repeat(100_000)}"}`,
  ];
}

test('hostile control calls are refused, and time goes on as if they had not been sent', async (t) => {
  const world = await openWorld();
  const stream = await world.stream('states', 60);
  await world.store.commit({ claims: [covered(stream, 0, 600)] });
  const { server } = await startReplay(t, world.store);
  const clock = async () => (await control({ server }, 'clock')).result;
  await control({ server }, 'pause');
  const before = await clock();
  const statuses = new Set<number>();
  for (const path of ['seek', 'step', 'speed', 'pause', 'nothing', 'sessions']) {
    for (const body of hostileBodies()) {
      // A step without a body is a step.
      if (body === '' && path === 'step') continue;
      const { status } = await send(
        server.port,
        [`POST /replay/${path} HTTP/1.1`, 'Host: localhost'],
        body,
      );
      if (path !== 'pause' || body !== '') statuses.add(status);
    }
  }
  assert.deepEqual(await clock(), before);
  assert.ok(
    [...statuses].every((status) => status >= 400 && status < 500),
    `${[...statuses]}`,
  );
});

const AT_ONCE = 50;

/** Does it so often, some at a time. */
async function inTurns<T>(count: number, work: (at: number) => Promise<T>): Promise<T[]> {
  const all: T[] = [];
  while (all.length < count) {
    const some = Array.from({ length: Math.min(AT_ONCE, count - all.length) }, (_, at) => at);
    all.push(...(await Promise.all(some.map((at) => work(all.length + at)))));
  }
  return all;
}

test('sessions without end, bodies that drip and steering at once leave the replay answering', async (t) => {
  const world = await openWorld();
  const stream = await world.stream('states', 60);
  await world.store.commit({ claims: [covered(stream, 0, 600)] });
  const { server } = await startReplay(t, world.store);
  // Bodies that do not come.
  const begun = 'POST /replay/seek HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000\r\n\r\n{';
  for (let at = 0; at < 200; at += 1) {
    const socket = connect(server.port, '127.0.0.1');
    socket.on('error', () => undefined);
    t.after(() => socket.destroy());
    await once(socket, 'connect');
    socket.write(begun);
  }
  const call = (path: string, body: object, session?: string) =>
    control({ server }, path, body, session);
  // Names without end: there are so many sessions, and no more.
  const named = await inTurns(
    1_500,
    async (at) => (await call('sessions', {}, `name-${at}`)).status,
  );
  assert.deepEqual(new Set(named), new Set([200, 400]));
  const made = named.filter((status) => status === 200).length;
  const { result } = await control({ server }, 'sessions');
  assert.equal(result.length, made + 1);
  t.diagnostic(`${made} sessions of 1500 names`);
  // All steer one session at once.
  const steered = await inTurns(200, async (at) => {
    const work = [
      call('seek', { to: noonMs(at) }, 'name-1'),
      call('step', { ms: 1_000 }, 'name-1'),
      call('speed', { speed: at % 2 === 0 ? 'max' : 'step' }, 'name-1'),
    ];
    return (await Promise.all(work)).map(({ status }) => status);
  });
  assert.ok(steered.flat().every((status) => status === 200 || status === 400));
  const markets = await fetch(`${server.url}/api/v1/public/markets`);
  assert.equal(markets.status, 200);
});
