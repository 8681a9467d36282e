import assert from 'node:assert/strict';
import { test } from 'node:test';
import { WebSocket } from 'ws';
import { REALTIME_FRAME_MAX_BYTES } from '../../src/contract/limits.js';
import { stateRecord } from '../../src/contract/resources.js';
import { startTapeExchange, writeTape } from '../support/exchanges/tape-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';
import { FakeClock } from '../support/fake-clock.js';

const success = { params: [], result: { status: 'success' }, error: null };
const START_MS = 1_780_000_000_000;

/** One trade now, then trades 300 ms, 600 ms and 5 s later. */
async function pacedTape(t: Parameters<typeof writeTape>[0]) {
  const path = await writeTape(
    t,
    [0, 300, 600, 5000].map((ms, index) => `${index + 1},${START_MS + ms},${100 + index}.0,1,buy`),
  );
  return { tapes: [{ market: 'BTC_USDT', path }] };
}

test('state.query answers with the whole record and echoes the request', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const answer = await socket.ask('state.query', ['BTC_USDT', 3600]);
  assert.deepEqual(answer, {
    id: 1,
    params: ['BTC_USDT', 3600],
    result: backend.state('BTC_USDT', 3600),
    error: null,
  });
  assert.ok(stateRecord.safeParse(answer.result).success);
  assert.match(String(backend.state('BTC_USDT', 3600).change), /^-?\d+\.\d\d$/);
  assert.equal((await socket.ask('server.ping', [])).result, 'pong');
});

test('bad requests get the error codes of the family', async (t) => {
  const { server } = await startTapeExchange(t);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const codes = [
    ['state.query', ['NO_SUCH', 60], 1],
    ['state.query', ['BTC_USDT'], 1],
    ['state.query', ['BTC_USDT', 0], 1],
    ['state.query', ['BTC_USDT', 1.5], 1],
    ['state.query', ['BTC_USDT', 604_801], 1],
    ['state.query', 'BTC_USDT', 1],
    ['state.subscribe', ['__proto__', 60], 1],
    ['state.unsubscribe', ['BTC_USDT'], 1],
    ['state.nothing', [], 4],
    ['constructor', [], 4],
  ] as const;
  for (const [method, params, code] of codes) {
    const { result, error } = await socket.ask(method, params);
    assert.equal(result, null, `${method} ${JSON.stringify(params)}`);
    assert.equal((error as { code: number }).code, code, `${method} ${JSON.stringify(params)}`);
  }
  assert.equal((await socket.ask('state.query', ['BTC_USDT', 604_800])).error, null);
});

test('updates: first at once, then on change, at most one per interval', async (t) => {
  const clock = new FakeClock();
  const { backend, server } = await startTapeExchange(t, await pacedTape(t), {}, clock);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  assert.deepEqual(await socket.ask('state.subscribe', ['BTC_USDT', 60]), { id: 1, ...success });
  const first = await socket.next();
  const { change: _change, ...record } = backend.state('BTC_USDT', 60);
  assert.deepEqual(first, { result: record, error: null, id: null });
  assert.equal(record.last, '100.0');

  await clock.run(999);
  assert.equal((await socket.ask('server.ping', [])).result, 'pong', 'no update within the second');
  await clock.run(1);
  const second = (await socket.next()).result as Record<string, string>;
  assert.deepEqual([second.last, second.volume], ['102.0', '3'], 'both trades in one update');

  await clock.run(3000);
  assert.equal((await socket.ask('server.ping', [])).result, 'pong', 'no change, no update');
  await clock.run(1000);
  const third = (await socket.next()).result as Record<string, string>;
  assert.deepEqual([third.last, third.volume], ['103.0', '4']);
});

test('a record that changes because trades grow old is an update too', async (t) => {
  const clock = new FakeClock();
  const { server } = await startTapeExchange(t, await pacedTape(t), {}, clock);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('state.subscribe', ['BTC_USDT', 2]);
  const volumes: unknown[] = [];
  const take = async () =>
    volumes.push(((await socket.next()).result as { volume: string }).volume);
  await take();
  for (const seconds of [1, 1, 1, 2]) {
    await clock.run(seconds * 1000);
    await take();
  }
  assert.deepEqual(volumes, ['1', '3', '2', '0', '1']);
});

test('a second subscribe replaces the first, and unsubscribe ends updates', async (t) => {
  const clock = new FakeClock();
  const { server } = await startTapeExchange(t, await pacedTape(t), {}, clock);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('state.subscribe', ['BTC_USDT', 60]);
  assert.equal(((await socket.next()).result as { period: number }).period, 60);
  await socket.ask('state.subscribe', ['BTC_USDT', 900]);
  assert.equal(((await socket.next()).result as { period: number }).period, 900);
  await clock.run(2000);
  assert.equal(((await socket.next()).result as { period: number }).period, 900);
  assert.equal((await socket.ask('server.ping', [])).result, 'pong', 'one subscription only');
  assert.deepEqual(await socket.ask('state.unsubscribe', []), { id: 5 - 1, ...success });
  await clock.run(10_000);
  assert.equal((await socket.ask('server.ping', [])).result, 'pong', 'nothing after the end');
  assert.equal(socket.unread, 0);
});

test("the family's update names the market and carries the change", async (t) => {
  const { backend, server } = await startTapeExchange(t, {}, { updateShape: 'family' });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('state.subscribe', ['ETH_BTC', 900]);
  const { period: _period, ...record } = backend.state('ETH_BTC', 900);
  assert.deepEqual(await socket.next(), {
    method: 'state.update',
    params: ['ETH_BTC', record],
    id: null,
  });
});

test('a connection without data frames is closed; pings do not count, requests do', async (t) => {
  const clock = new FakeClock();
  const variants = { idleTimeoutMs: 10_000 };
  const { server, record } = await startTapeExchange(t, {}, variants, clock);
  const quiet = await TapeSocket.open(t, server.realtimeUrl);
  const lively = await TapeSocket.open(t, server.realtimeUrl);
  await quiet.ask('server.ping', []);
  await clock.run(9_000);
  await lively.ask('server.ping', []);
  const ponged = new Promise((resolve) => quiet.socket.once('pong', resolve));
  quiet.socket.ping();
  await ponged;
  await clock.run(1_000);
  assert.equal(await quiet.closed(), 1001);
  assert.equal((await lively.ask('server.ping', [])).result, 'pong');
  assert.deepEqual(record.closings, ['idle']);
});

test('unreadable frames are ignored, or end the connection', async (t) => {
  const { server } = await startTapeExchange(t);
  const closing = await startTapeExchange(t, {}, { badJson: 'close' });
  const garbage = ['{', '[]', 'null', '{"method":"server.ping"}', Buffer.from([1, 2, 3])];
  const patient = await TapeSocket.open(t, server.realtimeUrl);
  for (const frame of garbage) patient.socket.send(frame);
  patient.socket.send(Buffer.from([0xff, 0xfe]), { binary: false });
  assert.equal((await patient.ask('server.ping', [])).result, 'pong');
  for (const frame of garbage) {
    const strict = await TapeSocket.open(t, closing.server.realtimeUrl);
    strict.socket.send(frame);
    assert.equal(await strict.closed(), 1007);
  }
});

test('an unknown method may stay unanswered', async (t) => {
  const { server } = await startTapeExchange(t, {}, { unknownMethod: 'silent' });
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  socket.socket.send(JSON.stringify({ method: 'no.such', params: [], id: 90 }));
  assert.deepEqual(await socket.ask('server.ping', []), {
    id: 1,
    params: [],
    result: 'pong',
    error: null,
  });
});

test('an oversized frame ends its connection and no other', async (t) => {
  const { server, record } = await startTapeExchange(t);
  const large = await TapeSocket.open(t, server.realtimeUrl);
  const other = await TapeSocket.open(t, server.realtimeUrl);
  large.socket.send('x'.repeat(REALTIME_FRAME_MAX_BYTES + 1));
  assert.equal(await large.closed(), 1009);
  assert.equal((await other.ask('server.ping', [])).result, 'pong');
  assert.deepEqual(record.closings, ['protocol']);
});

test('a flood of frames that nobody can answer in time cuts the connection', async (t) => {
  const { backend, server, record } = await startTapeExchange(t);
  const never = new Promise<never>(() => {});
  t.mock.method(backend, 'state', () => never);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  for (let id = 0; id < 300; id += 1) {
    socket.socket.send(JSON.stringify({ method: 'state.query', params: ['BTC_USDT', 60], id }));
  }
  await socket.closed();
  assert.deepEqual(record.closings, ['flood']);
});

test('a client that sends and never reads is cut, not buffered for', async (t) => {
  const { server, record } = await startTapeExchange(t);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const other = await TapeSocket.open(t, server.realtimeUrl);
  socket.socket.pause();
  // A refusal echoes the params, so what is sent comes back.
  const frame = JSON.stringify({ method: 'no.such', params: ['x'.repeat(15_000)], id: 1 });
  let isCut = false;
  for (let sent = 0; sent < 4000 && !isCut && record.closings.length === 0; sent += 1) {
    isCut = await new Promise<boolean>((resolve) =>
      socket.socket.send(frame, (error) => resolve(error != null)),
    );
  }
  // The end may show here first; the answer comes after the server has noted it.
  assert.equal((await other.ask('server.ping', [])).result, 'pong');
  assert.deepEqual(record.closings, ['slow reader']);
});

test('a failing backend is an internal error, and the connection lives on', async (t) => {
  const { backend, server } = await startTapeExchange(t);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const { mock } = t.mock.method(backend, 'state', () => {
    throw new Error('disk on fire');
  });
  const { error } = await socket.ask('state.query', ['BTC_USDT', 60]);
  assert.deepEqual(error, { code: 2, message: 'internal error' });
  mock.restore();
  assert.equal((await socket.ask('state.query', ['BTC_USDT', 60])).error, null);
});

test('only the real-time path can be upgraded', async (t) => {
  const { server } = await startTapeExchange(t);
  const status = await new Promise((resolve) => {
    const socket = new WebSocket(`ws://127.0.0.1:${server.port}/other`);
    socket.once('unexpected-response', (_request, response) => {
      resolve(response.statusCode);
      response.resume();
      socket.terminate();
    });
    socket.on('error', () => {});
  });
  assert.equal(status, 404);
});

test('stop ends connections and leaves no timer', async (t) => {
  const clock = new FakeClock();
  const { backend, server, record } = await startTapeExchange(t, {}, {}, clock);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  await socket.ask('state.subscribe', ['BTC_USDT', 60]);
  await socket.next();
  assert.equal(record.open, 1);
  assert.ok(clock.pendingTimers > 0);
  assert.equal(clock.pendingForegroundTimers, 0);
  await server.stop();
  await socket.closed();
  backend.stop();
  assert.equal(record.open, 0);
  assert.equal(clock.pendingTimers, 0);
});
