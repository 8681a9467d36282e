import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { KNOWN_EXCHANGES, type ServerVariants } from '../../src/contract/variants.js';
import type { FaultRuleInput } from '../../src/sandbox/faults/script.js';
import { startFaultyExchange } from '../support/exchanges/faulty-exchange.js';
import { writeTape } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';

type Test = Parameters<typeof startFaultyExchange>[0];

const START_MS = 1_780_000_000_000;
const SUBSCRIBE = ['BTC_USDT', 3600];

/** An exchange with one trade a second at prices 100, 101, …, which a test moves on by hand. */
const start = (t: Test, ...rules: FaultRuleInput[]) =>
  startAs(t, { tradeFeed: 'pushed' }, ...rules);

async function startAs(t: Test, variants: Partial<ServerVariants>, ...rules: FaultRuleInput[]) {
  const lines = Array.from(
    { length: 60 },
    (_, at) => `${at + 1},${START_MS + at * 1000},${100 + at}.0,1,buy`,
  );
  const path = await writeTape(t, lines);
  const clock = new FakeClock();
  const tape = { tapes: [{ market: 'BTC_USDT', path }] };
  return {
    clock,
    ...(await startFaultyExchange(t, { rules, tape, clock, variants })),
  };
}

const lastOf = ({ result }: Record<string, unknown>) => (result as { last?: string }).last;

test('dropSocket: cut as it opens, or as a frame was to be sent', async (t) => {
  const { server, fired } = await start(
    t,
    { id: 'open', kind: 'dropSocket', at: 'open', maxCount: 1 },
    { id: 'frame', kind: 'dropSocket', after: 1 },
  );
  const first = new WebSocket(server.realtimeUrl);
  first.on('error', () => {});
  const [code] = (await once(first, 'close')) as [number];
  assert.equal(code, 1006);
  const second = await TapeSocket.open(t, server.realtimeUrl);
  assert.equal((await second.ask('server.ping', [])).result, 'pong');
  second.socket.send(JSON.stringify({ method: 'server.ping', params: [], id: 9 }));
  assert.equal(await second.closed(), 1006);
  assert.equal(second.unread, 0);
  assert.deepEqual(fired(), { open: 1, frame: 1 });
});

test('halfOpen: stays, answers protocol pings, and sends nothing more', async (t) => {
  const { clock, server, fired, record } = await start(t, { kind: 'halfOpen', after: 2 });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('state.subscribe', SUBSCRIBE);
  assert.equal(lastOf(await socket.next()), '100.0');
  await clock.run(5000);
  socket.socket.send(JSON.stringify({ method: 'server.ping', params: [], id: 2 }));
  for (let turn = 0; turn < 3; turn += 1) {
    socket.socket.ping();
    await once(socket.socket, 'pong');
    await clock.run(2000);
  }
  assert.equal(socket.unread, 0);
  assert.deepEqual([record.open, fired()['rule-1']], [1, 1]);
});

test('halfOpen from the start, and one that still answers requests', async (t) => {
  const mute = await start(t, { kind: 'halfOpen', at: 'open' });
  const silent = await TapeSocket.open(t, mute.server.realtimeUrl);
  silent.socket.send(JSON.stringify({ method: 'server.ping', params: [], id: 1 }));
  silent.socket.ping();
  await once(silent.socket, 'pong');
  assert.equal(silent.unread, 0);

  const stalled = await start(t, { kind: 'halfOpen', at: 'open', answers: 'requests' });
  const socket = await TapeSocket.open(t, stalled.server.realtimeUrl);
  assert.equal((await socket.ask('state.subscribe', SUBSCRIBE)).error, null);
  await stalled.clock.run(3000);
  assert.equal(lastOf(await socket.ask('state.query', SUBSCRIBE)), '103.0', 'no update before it');
  assert.deepEqual(stalled.fired(), { 'rule-1': 1 });
});

test('refuseSubscribe and ignoreSubscribe', async (t) => {
  const { clock, server, fired } = await start(
    t,
    { id: 'no', kind: 'refuseSubscribe', maxCount: 1 },
    { id: 'silence', kind: 'ignoreSubscribe', maxCount: 1, market: 'BTC_USDT' },
  );
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const refused = await socket.ask('state.subscribe', SUBSCRIBE);
  assert.deepEqual(
    [refused.result, refused.error],
    [null, { code: 3, message: 'service unavailable' }],
  );
  socket.socket.send(JSON.stringify({ method: 'state.subscribe', params: SUBSCRIBE, id: 7 }));
  await clock.run(3000);
  const { id, result } = await socket.ask('server.ping', []);
  assert.deepEqual([id, result], [2, 'pong'], 'neither an answer nor an update came');
  assert.deepEqual(fired(), { no: 1, silence: 1 });
  assert.deepEqual((await socket.ask('state.subscribe', SUBSCRIBE)).result, { status: 'success' });
  assert.equal(lastOf(await socket.next()), '103.0');
});

test('duplicateFrames and reorderFrames', async (t) => {
  const { clock, server, fired } = await start(
    t,
    { id: 'twice', kind: 'duplicateFrames', copies: 2, maxCount: 1 },
    { id: 'later', kind: 'reorderFrames', maxCount: 1 },
  );
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const acknowledgement = await socket.ask('state.subscribe', SUBSCRIBE);
  assert.deepEqual(await socket.next(), acknowledgement);
  assert.deepEqual(await socket.next(), acknowledgement);
  await clock.run(1000);
  const lasts = [lastOf(await socket.next()), lastOf(await socket.next())];
  assert.deepEqual(lasts, ['101.0', '100.0']);
  await clock.run(1000);
  assert.equal(lastOf(await socket.next()), '102.0');
  assert.deepEqual(fired(), { twice: 1, later: 1 });
});

/** Frames as they arrive, read by nobody. */
async function rawFrames(t: Test, url: string, count: number): Promise<Buffer[]> {
  const socket = new WebSocket(url, { skipUTF8Validation: true });
  t.after(() => socket.terminate());
  const frames: Buffer[] = [];
  const done = new Promise<void>((resolve) => {
    socket.on('message', (data: Buffer) => {
      frames.push(data);
      if (frames.length === count) resolve();
    });
  });
  await once(socket, 'open');
  socket.send(JSON.stringify({ method: 'server.ping', params: [], id: 1 }));
  await done;
  return frames;
}

test('garbageFrame and oversizeFrame come before the true frame', async (t) => {
  const forms = {
    text: (frame: Buffer) => assert.throws(() => JSON.parse(frame.toString()) as unknown),
    json: (frame: Buffer) => assert.equal(typeof JSON.parse(frame.toString()), 'object'),
    utf8: (frame: Buffer) =>
      assert.throws(() => new TextDecoder('utf-8', { fatal: true }).decode(frame)),
  };
  for (const form of ['text', 'json', 'utf8'] as const) {
    const check = forms[form];
    const { server, fired } = await start(t, { kind: 'garbageFrame', form });
    const [garbage, answer] = await rawFrames(t, server.realtimeUrl, 2);
    assert.ok(garbage && answer);
    check(garbage);
    assert.equal((JSON.parse(answer.toString()) as { result: string }).result, 'pong');
    assert.deepEqual(fired(), { 'rule-1': 1 });
  }
  const { server } = await start(t, { kind: 'oversizeFrame', bytes: 3_000_000 });
  const [huge, answer] = await rawFrames(t, server.realtimeUrl, 2);
  assert.equal(huge?.length, 3_000_000);
  assert.match(String(answer), /pong/);
});

test('garbageFrame stands in place of the true frame where that is wanted', async (t) => {
  const garbage = { kind: 'garbageFrame', form: 'json', place: 'instead', maxCount: 1 } as const;
  const { clock, server, fired } = await start(t, { ...garbage, after: 2 });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('deals.subscribe', ['BTC_USDT']);
  await clock.run(3000);
  const frames = await socket.untilAnswered('server.ping');
  const idsOf = (params: unknown) =>
    (params as [string, { id: number }[]] | undefined)?.[1].map(({ id }) => id);
  assert.deepEqual(
    frames.map(({ params }) => idsOf(params)),
    [[2], undefined, [4]],
  );
  assert.deepEqual(fired(), { 'rule-1': 1 });
});

test('stale: newest trades come from a cache that all connections share, until its time is over', async (t) => {
  const stale = { kind: 'stale', where: 'realtime', ms: 2500 } as const;
  const { clock, server, fired } = await startAs(t, KNOWN_EXCHANGES.whitebit, stale);
  const newest = async () => {
    const socket = await TapeSocket.open(t, server.realtimeUrl);
    await socket.ask('ping', []);
    const { id, result } = await socket.ask('trades_request', ['BTC_USDT', 100, 0]);
    return [id, (result as { id: number }[])[0]?.id];
  };
  const seen = [await newest()];
  for (let turn = 0; turn < 3; turn += 1) {
    await clock.run(1000);
    seen.push(await newest());
  }
  assert.deepEqual(seen, [
    [2, 1],
    [2, 1],
    [2, 1],
    [2, 4],
  ]);
  assert.deepEqual(fired(), { 'rule-1': 2 });
});

test('staleState: updates and queries show a record of before, until its time is over', async (t) => {
  const { clock, server, fired } = await start(t, { kind: 'staleState', ms: 2500 });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('state.subscribe', SUBSCRIBE);
  const lasts = [lastOf(await socket.next())];
  for (let turn = 0; turn < 4; turn += 1) {
    await clock.run(1000);
    lasts.push(lastOf(await socket.next()));
  }
  assert.deepEqual(lasts, ['100.0', '100.0', '100.0', '103.0', '103.0']);
  assert.equal(lastOf(await socket.ask('state.query', SUBSCRIBE)), '104.0', 'its first is kept');
  await clock.run(1000);
  await socket.next();
  const query = await socket.ask('state.query', SUBSCRIBE);
  assert.equal(lastOf(query), '104.0');
  assert.equal(query.id, 3, 'under the id of this request');
  assert.deepEqual(fired(), { 'rule-1': 5 });
});

test('staleState leaves pushed trades of the same market alone', async (t) => {
  const { clock, server } = await start(t, { kind: 'staleState', ms: 60_000 });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('deals.subscribe', ['BTC_USDT']);
  await socket.ask('state.subscribe', SUBSCRIBE);
  const ids: unknown[] = [];
  for (let turn = 0; turn < 4; turn += 1) {
    await clock.run(1000);
    for (const { method, params } of await socket.untilAnswered('server.ping')) {
      if (method === 'deals.update') ids.push((params as [string, { id: number }[]])[1][0]?.id);
    }
  }
  assert.deepEqual(ids, [2, 3, 4, 5]);
});

test('faults of rows befall pushed trades, and no other frame', async (t) => {
  const { clock, server, fired } = await start(
    t,
    { id: 'head', kind: 'wrongHead', idBy: 1000, where: 'realtime', maxCount: 1 },
    { id: 'type', kind: 'badRows', defect: 'otherType', where: 'realtime', maxCount: 1 },
    { id: 'twice', kind: 'duplicateRows', maxCount: 1 },
    { id: 'other', kind: 'conflictRows', place: 'instead', where: 'realtime', maxCount: 1 },
    { id: 'pages', kind: 'badRows', where: 'history' },
    { id: 'order', kind: 'reorderRows', where: 'realtime' },
  );
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('deals.subscribe', ['BTC_USDT']);
  await socket.ask('state.subscribe', SUBSCRIBE);
  const seen: unknown[] = [];
  for (let turn = 0; turn < 5; turn += 1) {
    await clock.run(1000);
    for (const { method, params } of await socket.untilAnswered('server.ping')) {
      if (method !== 'deals.update') continue;
      const [, rows] = params as [string, { id: number; amount: unknown }[]];
      seen.push(rows.map(({ id, amount }) => [id, amount]));
    }
  }
  const first = [[1002, '1']];
  const repeated = [
    [4, '1'],
    [4, '1'],
  ];
  assert.deepEqual(seen, [first, [[3, ['1']]], repeated, [[5, '2']], [[6, '1']]]);
  assert.deepEqual(fired(), { head: 1, type: 1, twice: 1, other: 1, pages: 0, order: 0 });
});

test('latency delays a frame, and those behind it keep their order', async (t) => {
  const { clock, server, fired } = await start(t, { kind: 'latency', ms: 700, maxCount: 1 });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const first = socket.ask('server.ping', ['a']);
  await clock.timersPending(2);
  const second = socket.ask('server.ping', ['b']);
  await clock.run(699);
  assert.equal(socket.unread, 0);
  await clock.run(1);
  assert.deepEqual([(await first).id, (await second).id], [1, 2]);
  assert.deepEqual(fired(), { 'rule-1': 1 });
});
