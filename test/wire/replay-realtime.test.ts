import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type TestContext, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { createExchangeClock, ExchangeClient, openStateFeed } from '../../src/client/index.js';
import { systemClock } from '../../src/kernel/clock.js';
import { openSocket, TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';
import { hearing, noTelemetry } from '../support/no-telemetry.js';
import {
  control,
  covered,
  depth,
  exactTrade,
  noonMs,
  openWorld,
  type Replayed,
  startReplay,
  state,
  type World,
} from '../support/worlds/replayed-archive.js';

/** Recorded states over real WebSockets, at the pace at which they were recorded. */

interface Frame {
  readonly id: number | null;
  readonly result: { readonly last?: string; readonly status?: string; readonly change?: string };
  readonly error: { readonly code: number } | null;
  readonly method?: string;
  readonly params: readonly [string, readonly { readonly id: number }[]];
}

/** A client of a replay, and what it was told. */
class Client extends TapeSocket {
  declare readonly frames: (Frame & Record<string, unknown>)[];

  static follow(t: TestContext, { server }: Replayed, query = ''): Promise<Client> {
    return openSocket(t, server.realtimeUrl + query, (socket) => new Client(socket));
  }

  /** The answer is not waited for. */
  send(method: string, market = 'BTC_USDT', period = 60, id = 1): void {
    this.socket.send(JSON.stringify({ method, params: [market, period], id }));
  }

  /** What the updates said, in order. */
  get updates(): string[] {
    return this.frames.filter(({ id }) => id === null).map(({ result }) => result.last ?? '');
  }

  /** Ids of the trades that were pushed, in order. */
  get pushed(): number[] {
    return this.frames.flatMap(({ method, params }) =>
      method === 'deals.update' ? params[1].map(({ id }) => id).toReversed() : [],
    );
  }

  async subscribe(market = 'BTC_USDT', period = 60): Promise<void> {
    await this.untilAnswered('state.subscribe', [market, period]);
  }
}

async function fillStates({ store, stream }: World, atS: readonly number[]): Promise<void> {
  const states = await stream('states', 60);
  await store.commit({
    states: atS.map((at, index) => state(index + 1, at)),
    claims: [covered(states, 0, 600)],
  });
}

test('updates come at their recorded spacing, and never early', async (t) => {
  const world = await openWorld();
  await fillStates(world, [1, 2, 2, 5.5, 11]);
  const clock = new FakeClock();
  const replay = await startReplay(t, world.store, { clock, speed: 10 });
  const client = await Client.follow(t, replay);
  await client.subscribe();
  for (const [moveMs, count] of [
    [99, 0],
    [1, 1],
    [99, 1],
    [1, 3],
    [349, 3],
    [1, 4],
    [10_000, 5],
  ] as const) {
    await clock.timersPending();
    await clock.run(moveMs);
    if (count > client.updates.length) await client.until(() => client.updates.length >= count);
    // Lets what is due be told: a question behind it is answered after it.
    await client.untilAnswered('server.ping');
    assert.equal(client.updates.length, count, `${moveMs} ms later`);
  }
  assert.deepEqual(client.updates, ['1', '2', '3', '4', '5']);
  assert.deepEqual(Object.keys(client.frames.find(({ id }) => id === null)?.result ?? {}), [
    ...['period', 'last', 'open', 'close', 'high', 'low', 'deal', 'volume'],
  ]);
  const late = await Client.follow(t, replay);
  await late.subscribe();
  await late.until(() => late.updates.length === 1);
  assert.deepEqual(late.updates, ['5'], 'the last one at once');
  late.send('state.query', 'BTC_USDT', 60, 3);
  await late.until(() => late.frames.some(({ id }) => id === 3));
  assert.equal(late.frames.find(({ id }) => id === 3)?.result.change, '-95.00');
  const errors = await Client.follow(t, replay);
  errors.send('state.subscribe', 'BTC_USDT', 900, 5);
  errors.send('state.query', 'NOSUCH', 60, 6);
  errors.send('state.query', 'ETH_USDT', 60, 7);
  await errors.until(() => errors.frames.length === 3);
  assert.deepEqual(
    errors.frames.map(({ id, error }) => [id, error?.code]),
    [
      [5, 1],
      [6, 1],
      [7, 1],
    ],
  );
  assert.deepEqual(replay.failures, []);
});

test('recorded trades are pushed as their time comes, each once', async (t) => {
  const world = await openWorld();
  const trades = await world.stream('trades');
  const tids = Array.from({ length: 300 }, (_, at) => at + 1);
  await world.store.commit({
    trades: [
      ...tids.map((tid) => exactTrade(tid, tid <= 2 ? 0 : 2 + tid / 100)),
      exactTrade(400, 90),
    ],
    claims: [covered(trades, 0, 600)],
  });
  const clock = new FakeClock();
  const replay = await startReplay(t, world.store, { clock, speed: 10 });
  const client = await Client.follow(t, replay);
  await clock.run(100);
  await client.untilAnswered('deals.subscribe', ['BTC_USDT', 'NO_SUCH']);
  // News are read once a second, from the database: what comes is waited for, and time goes on meanwhile.
  const pushed = async (count: number) => {
    for (let passedMs = 0; passedMs < 60_000 && client.pushed.length < count; passedMs += 200) {
      await clock.run(200);
      // Time must not run out while the database is slow.
      await world.store.query('SELECT 1');
      await client.untilAnswered('server.ping');
    }
    return client.pushed;
  };
  // Where the database is slow, the last one has come as well.
  assert.deepEqual((await pushed(298)).slice(0, 298), tids.slice(2));
  assert.deepEqual(await pushed(299), [...tids.slice(2), 400]);
});

test('a jump of time begins pushed trades anew, forward and back', async (t) => {
  const world = await openWorld();
  const trades = await world.stream('trades');
  const tids = Array.from({ length: 30 }, (_, at) => at + 1);
  await world.store.commit({
    trades: tids.map((tid) => exactTrade(tid, tid * 10)),
    claims: [covered(trades, 0, 600)],
  });
  const clock = new FakeClock();
  const replay = await startReplay(t, world.store, { clock, speed: 10 });
  const client = await Client.follow(t, replay);
  await clock.run(100);
  await client.untilAnswered('deals.subscribe', ['BTC_USDT']);
  // News are read from the database, and time goes on meanwhile: so many come at once as there are by then.
  const next = async () => {
    const known = client.pushed.length;
    for (let passedMs = 0; passedMs < 60_000 && client.pushed.length === known; passedMs += 100) {
      await clock.run(100);
      await client.untilAnswered('server.ping');
    }
    return client.pushed[known];
  };
  const jump = async (toS: number) => {
    await control(replay, 'seek', { to: new Date(noonMs(toS)).toISOString() });
    await client.untilAnswered('server.ping');
  };
  assert.equal(await next(), 1);
  await jump(205);
  assert.equal(await next(), 21, 'nothing of what was passed over');
  await jump(80);
  assert.equal(await next(), 8, 'the same trades once more');
  const { pushed } = client;
  assert.ok(pushed.every((tid, at) => [1, 8, 21, (pushed[at - 1] ?? 0) + 1].includes(tid)));
});

test('at full speed every update is told once, in order, of all markets together', async (t) => {
  const world = await openWorld();
  await fillStates(
    world,
    Array.from({ length: 5000 }, (_, at) => at / 10),
  );
  const eth = await world.stream('states', 60, 2);
  await world.store.commit({
    states: [1, 100, 499].map((at, index) => state(index + 1, at, { marketId: 2 })),
    claims: [covered(eth, 0, 600)],
  });
  const replay = await startReplay(t, world.store, { speed: 'max' });
  await control(replay, 'pause');
  const clients = await Promise.all([Client.follow(t, replay), Client.follow(t, replay)]);
  const other = await Client.follow(t, replay);
  for (const client of clients) await client.subscribe();
  await other.subscribe('ETH_USDT');
  await control(replay, 'resume');
  for (const client of clients) {
    await client.until(() => client.updates.at(-1) === '5000');
    // The first one lies at the very begin: it is the last one then.
    assert.deepEqual(
      client.updates,
      Array.from({ length: 5000 }, (_, at) => String(at + 1)),
    );
  }
  await other.until(() => other.updates.length === 3);
  const reading = async () => (await control(replay, 'clock')).result;
  while ((await reading()).state !== 'ended') await setImmediate();
  assert.equal((await reading()).nowMs, noonMs(600));
  assert.deepEqual(replay.failures, []);
});

test('the typed client asks and follows in the time of the session that it names', async (t) => {
  const world = await openWorld();
  const [states, depths] = [await world.stream('states', 60), await world.stream('depth')];
  const book = (atS: number, bid: string) =>
    depth(atS, { bidPrices: [bid], bidAmounts: ['1'], askPrices: ['500'], askAmounts: ['1'] });
  await world.store.commit({
    states: [state(1, 1, { last: '101' }), state(2, 50, { last: '150' })],
    depths: [book(1, '1'), book(50, '50')],
    claims: [covered(states, 0, 600), covered(depths, 0, 600)],
  });
  const replay = await startReplay(t, world.store);
  const { url: baseUrl, realtimeUrl } = replay.server;
  const open = (session: object) => {
    const client = new ExchangeClient({ baseUrl, realtimeUrl, ...session });
    t.after(() => client.close());
    return client;
  };
  const [mine, shared] = [open({ session: 'mine' }), open({})];
  // The base address can carry it, for both.
  const named = open({ baseUrl: `${baseUrl}/?session=mine` });
  await mine.markets();
  await control(replay, 'seek', { to: noonMs(60) }, 'mine');
  await control(replay, 'seek', { to: noonMs(10) });
  const bidOf = async (client: ExchangeClient) =>
    (await client.depth({ market: 'BTC_USDT' })).data.bids[0]?.[0];
  const bids = await Promise.all([mine, shared, named].map(bidOf));
  assert.deepEqual(bids, ['50', '1', '50']);
  const lastOf = async (client: ExchangeClient) => {
    for await (const event of client.watch('BTC_USDT', 60))
      if (event.kind === 'record') return event.record.last;
    return undefined;
  };
  const lasts = await Promise.all([mine, shared, named].map(lastOf));
  assert.deepEqual(lasts, ['150', '101', '150']);
});

test('each session has a time of its own; unused ones end, and there are only so many', async (t) => {
  const world = await openWorld();
  await fillStates(world, [1, 2, 3]);
  const clock = new FakeClock();
  const limits = { clock, speed: 1, maxSessions: 2, sessionIdleMs: 30_000 };
  const replay = await startReplay(t, world.store, limits);
  const nowOf = async (session?: string) =>
    Number((await control(replay, 'clock', undefined, session)).result.nowMs) - noonMs(0);
  const ask = async (query = '', headers: Record<string, string> = {}) => {
    const reply = await fetch(`${replay.server.url}/api/v1/public/markets${query}`, { headers });
    const body = (await reply.json()) as { message: string };
    return { status: reply.status, message: body.message, date: reply.headers.get('date') };
  };
  clock.advance(5000);
  assert.equal(await nowOf(), 0, 'time begins with the first client');
  await ask();
  clock.advance(10_000);
  await ask('?session=one');
  clock.advance(10_000);
  assert.deepEqual([await nowOf(), await nowOf('one')], [20_000, 10_000]);
  assert.equal(
    (await ask('', { 'x-tapekeep-session': 'one' })).date,
    new Date(noonMs(10)).toUTCString(),
  );
  const client = await Client.follow(t, replay, '?session=two');
  const both = await ask('?session=one', { 'x-tapekeep-session': 'two' });
  assert.deepEqual([both.status, /name one/.test(both.message)], [400, true]);
  for (const [name, status, told] of [
    ['three', 503, /there are 2 sessions/],
    ['a%20b', 400, /1 to 64 letters/],
    ['', 400, /1 to 64 letters/],
  ] as const) {
    const refused = await ask(`?session=${name}`);
    assert.equal(refused.status, status);
    assert.match(refused.message, told);
    const socket = new WebSocket(`${replay.server.realtimeUrl}?session=${name}`);
    const [, response] = (await once(socket, 'unexpected-response')) as [
      unknown,
      { statusCode: number },
    ];
    assert.equal(response.statusCode, status);
    socket.on('error', () => undefined).terminate();
  }
  await clock.run(50_000);
  const sessions = async () => {
    const { result } = await control(replay, 'sessions');
    return (result as unknown as Array<{ session: string | null; connections: number }>).map(
      ({ session, connections }) => [session, connections],
    );
  };
  assert.deepEqual(await sessions(), [
    [null, 0],
    ['two', 1],
  ]);
  replay.backend.clockControl.end('two');
  client.send('state.subscribe');
  await client.until(() => client.end !== undefined);
  assert.deepEqual(
    client.end,
    { code: 1001, reason: 'the session has ended' },
    'it never waits in vain',
  );
});

test('time is paused, resumed, stepped and sped up; what cannot be is told', async (t) => {
  const world = await openWorld();
  await fillStates(world, [1, 2, 3.5]);
  const replay = await startReplay(t, world.store);
  const client = await Client.follow(t, replay);
  await client.subscribe();
  const now = async () => Number((await control(replay, 'clock')).result.nowMs) - noonMs(0);
  for (const [body, atMs, count] of [
    [undefined, 1000, 1],
    [{ ms: 500 }, 1500, 1],
    [{}, 2000, 2],
    [{ ms: 1500 }, 3500, 3],
  ] as const) {
    assert.equal((await control(replay, 'step', body)).status, 200);
    await client.until(() => client.updates.length >= count);
    assert.equal(await now(), atMs);
    assert.equal(client.updates.length, count);
  }
  await control(replay, 'step');
  assert.equal(await now(), 600_000, 'nothing more is recorded');
  await control(replay, 'seek', { to: new Date(noonMs(2)).toISOString() });
  await client.until(() => client.updates.length === 4);
  assert.deepEqual(client.updates, ['1', '2', '3', '2'], 'back again');
  for (const [path, body, told] of [
    ['seek', { to: noonMs(601) }, /this replay goes from 2026-01-15T12:00:00.000Z to/],
    ['seek', {}, /to is missing; expected a time such as/],
    ['seek', { to: 'noon' }, /to "noon"/],
    ['step', { ms: 0 }, /ms 0 is not allowed/],
    ['speed', { speed: 0 }, /speed 0 is not allowed/],
    ['speed', { speed: 'fast' }, /"max" or "step"/],
    ['pause', { now: true }, /now true is not allowed; expected no keys/],
  ] as const) {
    const refused = await control(replay, path, body);
    assert.equal(refused.status, 400, path);
    assert.match(refused.message, told);
  }
  assert.deepEqual((await control(replay, 'speed', { speed: 7 })).result.speed, 7);
  const page = await fetch(`${replay.server.url}/replay/pause`, {
    method: 'POST',
    headers: { origin: 'https://example.com' },
  });
  assert.equal(page.status, 403);
  const closed = await startReplay(t, world.store, { isSteered: false });
  for (const path of ['clock', 'sessions', 'pause', 'seek', 'step', 'speed']) {
    const refused = await control(closed, path, path === 'seek' ? { to: 1 } : undefined);
    assert.equal(refused.status, 403);
    assert.match(refused.message, /start it with --control/);
  }
});

test('recorded disconnects end connections, and keep them away until the next', async (t) => {
  const world = await openWorld();
  // The last comes in the millisecond in which its connection ends.
  await fillStates(world, [1, 2, 25, 26, 590]);
  const stream = await world.stream('states', 60);
  const first = await world.store.openSession(stream, noonMs(0));
  await world.store.closeSession(first, { atMs: noonMs(10), code: 1012, reason: 'remote' });
  const second = await world.store.openSession(stream, noonMs(20));
  await world.store.closeSession(second, { atMs: noonMs(590), code: 1001, reason: 'remote' });
  const replay = await startReplay(t, world.store, { hasDisconnects: true });
  const client = await Client.follow(t, replay);
  await client.subscribe();
  await control(replay, 'step', { ms: 9_999 });
  await client.until(() => client.updates.length === 2);
  assert.equal(client.end, undefined);
  await control(replay, 'step', { ms: 1 });
  await client.until(() => client.end !== undefined);
  assert.equal(await client.closed(), 1006, 'cut: no frame may carry its code');
  await control(replay, 'seek', { to: noonMs(15) });
  const early = await Client.follow(t, replay);
  early.send('state.subscribe');
  await early.until(() => early.end !== undefined);
  await control(replay, 'seek', { to: noonMs(20) });
  const next = await Client.follow(t, replay);
  await next.subscribe();
  await control(replay, 'step', { ms: 569_000 });
  await next.until(() => next.updates.at(-1) === '4');
  await control(replay, 'step', { ms: 1_000 });
  await next.until(() => next.end !== undefined);
  assert.deepEqual(next.end, { code: 1001, reason: 'recorded: remote' });
  assert.equal(next.updates.at(-1), '5');
  const between = await Client.follow(t, replay);
  between.send('state.subscribe');
  await between.until(() => between.end !== undefined);
  // At the end of time no next one is to be waited for.
  await control(replay, 'step', { ms: 10_000 });
  const last = await Client.follow(t, replay);
  await last.subscribe();
  await last.until(() => last.updates.length > 0 || last.end !== undefined);
  assert.deepEqual([last.updates, last.end], [['5'], undefined]);
});

test('however fast time passes, a recorded end comes after the updates before it', async (t) => {
  const world = await openWorld();
  const atS = Array.from({ length: 50 }, (_, index) => index / 10);
  await fillStates(world, atS);
  const stream = await world.stream('states', 60);
  const session = await world.store.openSession(stream, noonMs(0));
  // No frame may carry this code: the connection is cut.
  await world.store.closeSession(session, { atMs: noonMs(5), code: 1006, reason: 'remote' });
  const replay = await startReplay(t, world.store, { hasDisconnects: true, speed: 'max' });
  const client = await Client.follow(t, replay);
  await client.subscribe();
  await client.until(() => client.end !== undefined);
  assert.equal(client.end?.code, 1006);
  assert.deepEqual(
    client.updates,
    atS.map((_, index) => String(index + 1)),
  );
});

test('a connection whose end was not recorded lasts as long as what it proved', async (t) => {
  const world = await openWorld();
  const stream = await world.stream('states', 60);
  const session = await world.store.openSession(stream, noonMs(0));
  const claim = { ...covered(stream, 0, 30), evidence: { session } };
  await world.store.commit({
    states: [1, 2, 25].map((at, i) => state(i + 1, at)),
    claims: [claim],
  });
  await world.store.touchSession(session, noonMs(5));
  const replay = await startReplay(t, world.store, { hasDisconnects: true });
  const client = await Client.follow(t, replay);
  await client.subscribe();
  await control(replay, 'step', { ms: 29_999 });
  await client.until(() => client.updates.at(-1) === '3' || client.end !== undefined);
  assert.equal(client.end, undefined);
  await control(replay, 'step', { ms: 1 });
  await client.until(() => client.end !== undefined);
});

test('a connection goes on though a replay has no state to answer with yet', async (t) => {
  const world = await openWorld();
  const states = await world.stream('states', 60);
  await world.store.commit({ states: [state(1, 20)], claims: [covered(states, 0, 600)] });
  const replay = await startReplay(t, world.store);
  const clock = systemClock;
  const closed: string[] = [];
  let answers = 0;
  const telemetry = hearing(noTelemetry.client, {
    socketClosed: ({ reason }) => closed.push(reason),
    frameReceived: ({ outcome }) => {
      answers += outcome === 'response' ? 1 : 0;
      // That of the subscription and of the time, and five refusals: three in a row end other connections.
      if (answers === 7) void replay.backend.clockControl.step(undefined, 30_000);
    },
  });
  const feed = openStateFeed({
    ...{ url: replay.server.realtimeUrl, market: 'BTC_USDT', periodS: 60, clock, telemetry },
    ...{ random: () => 0.5, exchangeClock: createExchangeClock({ clock }), queryEveryMs: 1 },
  });
  t.after(() => feed.stop());
  for await (const event of feed) if (event.kind === 'record') break;
  assert.deepEqual(closed, ['stopped']);
});

test('states have the time of the replay, however that is steered, though nothing else is asked', async (t) => {
  const world = await openWorld();
  await fillStates(
    world,
    Array.from({ length: 600 }, (_, atS) => atS),
  );
  const replay = await startReplay(t, world.store, { speed: 5 });
  const time = replay.backend.clockControl;
  const clock = systemClock;
  const exchangeClock = createExchangeClock({ clock });
  const feed = openStateFeed({
    ...{ url: replay.server.realtimeUrl, market: 'BTC_USDT', periodS: 60, clock, exchangeClock },
    ...{ random: () => 0.5, telemetry: noTelemetry.client },
  });
  t.after(() => feed.stop());
  const steer = [
    () => time.seek(undefined, noonMs(300)),
    () => {
      time.pause(undefined);
      time.seek(undefined, noonMs(100));
      time.resume(undefined);
    },
    () => time.setSpeed(undefined, 2),
    () => time.seek(undefined, noonMs(90)),
    () => time.setSpeed(undefined, 10),
  ];
  let records = 0;
  for await (const event of feed) {
    if (event.kind !== 'record' || event.origin === 'query') continue;
    const recordedMs = noonMs(Number(event.record.last) - 1);
    const lateMs = event.exchangeMs - recordedMs;
    records += 1;
    assert.ok(lateMs > -1000 && lateMs < 5000, `${event.record.last}: ${lateMs} ms`);
    if (records % 6 !== 0) continue;
    const next = steer.shift();
    if (next === undefined) break;
    next();
  }
});
