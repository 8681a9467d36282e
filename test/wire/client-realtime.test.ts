import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import {
  createExchangeClock,
  InvalidAddressError,
  openStateFeed,
  type StateEvent,
  type StateFeedOptions,
} from '../../src/client/index.js';
import {
  errorMessage,
  familyUpdateMessage,
  REALTIME_ERRORS,
  responseMessage,
  STATUS_SUCCESS,
  updateMessage,
} from '../../src/contract/realtime.js';
import type { StateRecord } from '../../src/contract/resources.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import {
  type StubCall,
  type StubConnection,
  startHttpStub,
  startRealtimeStub,
  startTcpStub,
} from '../support/exchanges/stub-server.js';
import { FakeClock } from '../support/fake-clock.js';
import { hearing, noTelemetry } from '../support/no-telemetry.js';

function state(last: string, volume = '10'): StateRecord {
  return {
    period: 60,
    last,
    open: '1',
    close: last,
    high: '9',
    low: '1',
    deal: '100',
    volume,
    change: '0.5',
  };
}

const update = ({ change: _change, ...record }: StateRecord) =>
  updateMessage({ ...record, change: null });

type Answer = (connection: StubConnection, call: StubCall) => void;

/** Acknowledges everything, and answers queries with a state. */
const acknowledging =
  (shown: () => StateRecord): Answer =>
  (connection, { method, id }) =>
    connection.send(responseMessage(id, [], method === 'state.query' ? shown() : STATUS_SUCCESS));

/** The same, and pushes the state at once. */
const pushing =
  (shown: () => StateRecord): Answer =>
  (connection, call) => {
    acknowledging(shown)(connection, call);
    if (call.method === 'state.subscribe') connection.send(update(shown()));
  };
const answerWell = pushing(() => state('2'));

/** A feed on a clock of its own, read one event at a time. */
class FeedReader {
  readonly clock = new FakeClock();
  readonly frames: string[] = [];
  readonly closes: string[] = [];
  readonly retries: number[] = [];
  readonly feed;
  readonly #events: AsyncIterator<StateEvent>;

  constructor(t: TestContext, url: string, overrides: Partial<StateFeedOptions> = {}) {
    this.feed = openStateFeed({
      url,
      market: 'BTC_USDT',
      periodS: 60,
      clock: this.clock,
      random: () => 0.5,
      telemetry: hearing(noTelemetry.client, {
        frameReceived: ({ outcome }) => this.frames.push(outcome),
        socketClosed: ({ reason }) => this.closes.push(reason),
        socketRetry: ({ waitMs }) => this.retries.push(waitMs),
      }),
      exchangeClock: createExchangeClock({ clock: this.clock }),
      ...overrides,
    });
    this.#events = this.feed[Symbol.asyncIterator]();
    t.after(() => this.feed.stop());
  }

  async next(): Promise<StateEvent | undefined> {
    const { value, done } = await this.#events.next();
    return done ? undefined : value;
  }

  /** The next event, which must be of this kind. */
  async expect<K extends StateEvent['kind']>(kind: K): Promise<Extract<StateEvent, { kind: K }>> {
    const event = await this.next();
    assert.equal(event?.kind, kind, JSON.stringify(event));
    return event as Extract<StateEvent, { kind: K }>;
  }

  /** Reads what a connection begins with: acknowledged, the first update, an answer that equals it. */
  async opened(): Promise<void> {
    await this.expect('opened');
    assert.equal((await this.expect('record')).origin, 'update');
    assert.equal((await this.expect('record')).origin, 'query');
    await this.expect('alive');
  }

  /** The connection ends for this reason, and the next one is tried after the announced wait. */
  async closed(reason: string): Promise<Extract<StateEvent, { kind: 'closed' }>> {
    const closed = await this.expect('closed');
    assert.equal(closed.reason, reason);
    assert.equal(this.closes.at(-1), reason);
    return closed;
  }
}

test('figures that are bare numbers are read by their digits, pushed or asked for', async (t) => {
  const bare = (frame: unknown) =>
    JSON.stringify(frame).replace(
      /("(?:last|open|close|high|low|deal|volume|change)"):"([^"]+)"/g,
      '$1:$2',
    );
  const shown = state('1E-7', '12345678901234567890.123');
  const stub = await startRealtimeStub(t, {
    call: ({ socket }, { method, id }) => {
      const isQuery = method === 'state.query';
      socket.send(bare(responseMessage(id, [], isQuery ? shown : STATUS_SUCCESS)));
      if (method !== 'state.subscribe') return;
      socket.send(bare(update(shown)));
      socket.send(bare(familyUpdateMessage('BTC_USDT', shown)));
    },
  });
  const reader = new FeedReader(t, stub.url);
  await reader.expect('opened');
  for (const origin of ['update', 'update', 'query']) {
    const { record, ...event } = await reader.expect('record');
    assert.equal(event.origin, origin);
    assert.deepEqual(
      [record.last, record.volume, record.high],
      ['0.0000001', '12345678901234567890.123', '9'],
    );
  }
});

test('a subscription is opened by its acknowledgement, then queried, then follows updates', async (t) => {
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      answerWell(connection, call);
      if (call.method === 'state.query') {
        connection.send(update(state('3', '11')));
        connection.send(familyUpdateMessage('BTC_USDT', state('4', '12')));
        connection.send(familyUpdateMessage('ETH_USDT', state('5', '13')));
        connection.send(update({ ...state('6', '14'), period: 900 }));
        connection.send(update(state('7', '15')));
      }
    },
  });
  const reader = new FeedReader(t, stub.url);
  const opened = await reader.expect('opened');
  assert.equal(opened.atMs, reader.clock.wallMs());
  assert.equal((await reader.expect('record')).origin, 'update');
  const full = await reader.expect('record');
  assert.deepEqual([full.origin, full.record.last, full.record.change], ['query', '2', '0.5']);
  await reader.expect('alive');
  const updates = [
    await reader.expect('record'),
    await reader.expect('record'),
    await reader.expect('record'),
  ];
  assert.deepEqual(
    updates.map(({ origin, record }) => [origin, record.last, record.period]),
    [
      ['update', '3', 60],
      ['update', '4', undefined],
      ['update', '7', 60],
    ],
  );
  assert.deepEqual(reader.frames, [
    'response',
    'update',
    'response',
    'update',
    'update',
    'dropped',
    'dropped',
    'update',
  ]);
  assert.deepEqual(
    stub.calls.map(({ method, params }) => [method, ...params]),
    [
      ['state.subscribe', 'BTC_USDT', 60],
      ['state.query', 'BTC_USDT', 60],
    ],
  );
});

test('a query every 20 s keeps the connection open and confirms the state so far', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerWell });
  const reader = new FeedReader(t, stub.url);
  await reader.opened();
  for (let round = 0; round < 4; round += 1) {
    reader.clock.advance(19_999);
    const sentMs = reader.clock.wallMs() + 1;
    reader.clock.advance(1);
    await stub.received(3 + round);
    assert.equal((await reader.expect('record')).origin, 'query');
    assert.equal((await reader.expect('alive')).exchangeMs, sentMs);
  }
  assert.equal(stub.connections, 1);
});

test('a refused subscription is closed, reported and tried again', async (t) => {
  const refusals = [
    (id: number) => errorMessage(id, [], REALTIME_ERRORS.invalidArgument),
    (id: number) => responseMessage(id, [], { status: 'fail' }),
    (id: number) => responseMessage(id, [], null),
  ];
  const stub = await startRealtimeStub(t, {
    call: (connection, call, index) => {
      const refuse = refusals[index];
      if (refuse) connection.send(refuse(call.id));
      else answerWell(connection, call);
    },
  });
  const reader = new FeedReader(t, stub.url);
  for (let attempt = 1; attempt <= refusals.length; attempt += 1) {
    const { lastAliveExchangeMs, code } = await reader.closed('subscribe_refused');
    // Nothing broke: the connection is closed because it is of no use.
    assert.deepEqual([lastAliveExchangeMs, code], [null, 1000]);
    const { waitMs, attempts } = await reader.expect('retrying');
    assert.equal(attempts, attempt);
    await reader.clock.run(waitMs);
  }
  await reader.opened();
});

test('an ignored subscription is noticed at the deadline', async (t) => {
  const stub = await startRealtimeStub(t, { call: () => {} });
  const reader = new FeedReader(t, stub.url);
  await stub.received(1);
  reader.clock.advance(9999);
  assert.deepEqual(reader.closes, []);
  reader.clock.advance(1);
  assert.equal((await reader.closed('subscribe_ignored')).livedMs, 10_000);
  await reader.expect('retrying');
  await stub.abandoned();
});

test('a server that never finishes the handshake is given up at the deadline', async (t) => {
  const stub = await startTcpStub(t, () => {});
  const reader = new FeedReader(t, `ws://127.0.0.1:${stub.port}`);
  await stub.asked();
  reader.clock.advance(10_000);
  await reader.closed('connect_timeout');
  await reader.expect('retrying');
});

test('a page, a redirect and a closed port are failed connections; a redirect is not followed', async (t) => {
  const target = await startRealtimeStub(t, { call: answerWell });
  const stub = await startHttpStub(t, (_request, response, index) => {
    if (index === 0) response.writeHead(200, { 'content-type': 'text/html' }).end('<html>');
    else response.writeHead(302, { location: target.url }).end();
  });
  const reader = new FeedReader(t, stub.baseUrl.replace('http', 'ws'));
  for (let attempt = 0; attempt < 2; attempt += 1) {
    await reader.closed('connect_failed');
    await reader.clock.run((await reader.expect('retrying')).waitMs);
  }
  assert.equal(stub.seen.length >= 2, true);
  assert.equal(target.connections, 0);
});

test('accept-then-close: waits grow to the cap, and only data resets them', async (t) => {
  const barren = 13;
  const stub = await startRealtimeStub(t, {
    call: (connection, call, index) => {
      if (index < barren) connection.socket.close();
      else {
        answerWell(connection, call);
        if (call.method === 'state.query') connection.socket.close();
      }
    },
  });
  const reader = new FeedReader(t, stub.url, { backoff: { baseMs: 500, capMs: 60_000 } });
  const waits: number[] = [];
  for (let attempt = 0; attempt < barren; attempt += 1) {
    await reader.closed('remote');
    const { waitMs } = await reader.expect('retrying');
    waits.push(waitMs);
    await reader.clock.run(waitMs);
  }
  // Half of 0.5 s doubled each time, capped at half of 60 s.
  assert.deepEqual(waits.slice(0, 4), [250, 500, 1000, 2000]);
  assert.deepEqual(waits.slice(-3), [30_000, 30_000, 30_000]);
  assert.deepEqual(reader.retries, waits);
  await reader.opened();
  assert.notEqual((await reader.closed('remote')).lastAliveExchangeMs, null);
  assert.equal((await reader.expect('retrying')).waitMs, 250);
});

test('acknowledged but without data, the waits go on growing', async (t) => {
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      if (call.method === 'state.subscribe') {
        connection.send(responseMessage(call.id, [], STATUS_SUCCESS));
      } else connection.socket.close();
    },
  });
  const reader = new FeedReader(t, stub.url);
  for (const expectedMs of [250, 500, 1000]) {
    await reader.expect('opened');
    assert.equal((await reader.closed('remote')).lastAliveExchangeMs, null);
    const { waitMs } = await reader.expect('retrying');
    assert.equal(waitMs, expectedMs);
    await reader.clock.run(waitMs);
  }
});

test('half-open: no answer to the query closes the feed, confirmed up to the last answer', async (t) => {
  let isSilent = false;
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      if (!isSilent) answerWell(connection, call);
    },
  });
  const reader = new FeedReader(t, stub.url);
  const confirmedMs = reader.clock.wallMs();
  await reader.opened();
  isSilent = true;
  reader.clock.advance(20_000);
  await stub.received(3);
  reader.clock.advance(10_000);
  const closed = await reader.closed('silent');
  assert.equal(closed.lastAliveExchangeMs, confirmedMs);
  assert.equal(closed.livedMs, 30_000);
});

test('stalled: two answers that show untold deals close the feed, an update between saves it', async (t) => {
  let shown = state('2');
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: pushing(() => shown),
  });
  const reader = new FeedReader(t, stub.url);
  await reader.opened();
  reader.clock.advance(20_000);
  await reader.expect('record');
  const { exchangeMs: agreedMs } = await reader.expect('alive');
  // A volume that only shrinks is no deal that was missed, and proves nothing either.
  shown = state('2', '9');
  reader.clock.advance(20_000);
  await reader.expect('record');
  // One that differs, then the update comes after all.
  shown = state('3', '11');
  reader.clock.advance(20_000);
  await reader.expect('record');
  connections[0]?.send(update(shown));
  assert.equal((await reader.expect('record')).origin, 'update');
  // Again one, and again the update.
  shown = state('3', '11.5');
  reader.clock.advance(20_000);
  await reader.expect('record');
  connections[0]?.send(update(shown));
  assert.equal((await reader.expect('record')).origin, 'update');
  reader.clock.advance(20_000);
  await reader.expect('record');
  const { exchangeMs } = await reader.expect('alive');
  assert.equal(exchangeMs - agreedMs, 80_000);
  // Two that differ, and nothing between: the second ends it.
  shown = state('3', '12');
  reader.clock.advance(20_000);
  await reader.expect('record');
  shown = state('3', '13');
  reader.clock.advance(20_000);
  await reader.expect('record');
  assert.equal((await reader.closed('stalled')).lastAliveExchangeMs, exchangeMs);
});

test('what waited while the process stood still is no update of when it is read', async (t) => {
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: answerWell,
  });
  const reader = new FeedReader(t, stub.url);
  await reader.opened();
  const [first] = connections;
  reader.clock.standStill(4000);
  first?.send(update(state('3', '11')));
  assert.equal((await reader.expect('record')).record.last, '3');
  reader.clock.advance(1000);
  const aliveMs = reader.clock.wallMs() - 1000;
  reader.clock.standStill(6000);
  first?.send(update(state('4', '12')));
  const closed = await reader.closed('stood_still');
  assert.deepEqual([closed.lastAliveExchangeMs, closed.exchangeMs], [aliveMs, aliveMs + 7000]);
  // Without anything to read it is noticed as well.
  reader.clock.advance((await reader.expect('retrying')).waitMs);
  await reader.opened();
  reader.clock.standStill(6000);
  reader.clock.advance(0);
  await reader.closed('stood_still');
});

test('queries refused three times in a row close the feed', async (t) => {
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      if (call.method === 'state.subscribe') {
        connection.send(responseMessage(call.id, [], STATUS_SUCCESS));
      } else connection.send(errorMessage(call.id, call.params, REALTIME_ERRORS.timeout));
    },
  });
  const reader = new FeedReader(t, stub.url);
  await reader.expect('opened');
  for (const answered of [2, 3]) {
    await stub.received(answered);
    // The next query is due 20 s after the answer: it has come when that is the next timer.
    while (reader.clock.nextForegroundTimerMs !== 20_000) await reader.clock.run(0);
    reader.clock.advance(20_000);
  }
  await reader.closed('query_refused');
});

const garbage: Array<readonly [string, string, (connection: StubConnection) => void]> = [
  ['an oversized frame', 'oversized', ({ socket }) => socket.send('x'.repeat(70_000))],
  [
    'an oversized frame in small pieces',
    'oversized',
    ({ socket }) => {
      for (let piece = 0; piece < 20; piece += 1) socket.send('x'.repeat(5000), { fin: false });
    },
  ],
  [
    'invalid UTF-8',
    'protocol_error',
    ({ socket }) => socket.send(Buffer.from([0x22, 0xff, 0x22]), { binary: false }),
  ],
  [
    'garbage JSON, ten times',
    'garbage',
    ({ socket }) => {
      for (let frame = 0; frame < 10; frame += 1) socket.send('{"id":null,');
    },
  ],
  [
    'binary and unknown frames, ten times',
    'garbage',
    ({ socket, send }) => {
      for (let frame = 0; frame < 5; frame += 1) {
        socket.send(Buffer.from('{}'));
        send({ method: 'state.update', params: ['BTC_USDT', { last: 'NaN' }], id: null });
      }
    },
  ],
];
for (const [name, reason, misbehave] of garbage) {
  test(`${name}: closed, counted and connected again`, async (t) => {
    const stub = await startRealtimeStub(t, {
      call: (connection, call, index) => {
        answerWell(connection, call);
        if (index === 0 && call.method === 'state.query') misbehave(connection);
      },
    });
    const reader = new FeedReader(t, stub.url);
    await reader.opened();
    await reader.closed(reason);
    assert.ok(reader.frames.includes('unrecognised'));
    await reader.clock.run((await reader.expect('retrying')).waitMs);
    await reader.opened();
  });
}

test('the connection offers no compression, so nothing can inflate', async (t) => {
  const extensions: unknown[] = [];
  const stub = await startRealtimeStub(t, {
    connection: ({ socket }) => extensions.push(socket.extensions),
    call: answerWell,
  });
  await new FeedReader(t, stub.url).opened();
  assert.deepEqual(extensions, ['']);
});

test('a consumer that is too slow loses the connection, never single events', async (t) => {
  const sent = 30;
  const stub = await startRealtimeStub(t, {
    call: (connection, call, index) => {
      answerWell(connection, call);
      if (index > 0 || call.method === 'state.subscribe') return;
      for (let deal = 1; deal <= sent; deal += 1) {
        connection.send(update(state(String(deal), String(deal))));
      }
    },
  });
  const reader = new FeedReader(t, stub.url, { queueLimit: 10 });
  while (reader.closes.length === 0) await reader.clock.run(0);
  await reader.opened();
  for (let deal = 1; deal <= 6; deal += 1) {
    assert.equal((await reader.expect('record')).record.last, String(deal));
  }
  await reader.closed('overflow');
  await reader.clock.run((await reader.expect('retrying')).waitMs);
  await reader.opened();
});

test('stop ends the iteration after a last closed event, at once and idempotently', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerWell });
  const reader = new FeedReader(t, stub.url);
  await reader.opened();
  await Promise.all([reader.feed.stop(), reader.feed.stop()]);
  assert.notEqual((await reader.closed('stopped')).lastAliveExchangeMs, null);
  assert.equal(await reader.next(), undefined);
  assert.equal(reader.clock.pendingTimers, 0);
  await stub.abandoned();
});

test('the last closed event finds room even in a full queue', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerWell });
  const reader = new FeedReader(t, stub.url, { queueLimit: 4 });
  while (reader.frames.length < 3) await reader.clock.run(0);
  await reader.feed.stop();
  await reader.opened();
  assert.notEqual((await reader.closed('stopped')).lastAliveExchangeMs, null);
  assert.equal(await reader.next(), undefined);
});

test('stop works in every other state: connecting, waiting, with a full queue, by signal', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerWell });
  const connecting = new FeedReader(t, stub.url);
  await connecting.feed.stop();
  assert.equal(connecting.clock.pendingTimers, 0);

  const refusing = await startRealtimeStub(t, { call: ({ socket }) => socket.close() });
  const waiting = new FeedReader(t, refusing.url);
  await waiting.closed('remote');
  await waiting.expect('retrying');
  await waiting.feed.stop();
  assert.equal(await waiting.next(), undefined);
  assert.equal(waiting.clock.pendingTimers, 0);

  const full = new FeedReader(t, refusing.url, { queueLimit: 1 });
  while (full.closes.length === 0) await full.clock.run(60_000);
  await full.clock.run(60_000);
  await full.feed.stop();

  const controller = new AbortController();
  const aborted = new FeedReader(t, stub.url, { signal: controller.signal });
  await aborted.opened();
  controller.abort();
  await aborted.closed('stopped');
  assert.equal(await aborted.next(), undefined);
});

test('leaving the loop stops the feed', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerWell });
  const { feed, clock } = new FeedReader(t, stub.url);
  for await (const event of feed) {
    if (event.kind === 'record') break;
  }
  assert.equal(clock.pendingTimers, 0);
  await stub.abandoned();
});

test('the connect budget holds back a storm of connections', async (t) => {
  const stub = await startRealtimeStub(t, { call: answerWell });
  const clock = new FakeClock();
  const connectBudget = new RequestBudget({ clock, ratePerS: 1, burst: 2, maxWaiting: 10 });
  const readers = Array.from(
    { length: 4 },
    () => new FeedReader(t, stub.url, { clock, connectBudget }),
  );
  await Promise.all(readers.slice(0, 2).map((reader) => reader.opened()));
  assert.equal(stub.connections, 2);
  clock.advance(1000);
  await readers[2]?.opened();
  assert.equal(stub.connections, 3);
  clock.advance(1000);
  await readers[3]?.opened();
});

test('only plain ws and wss addresses are taken', () => {
  for (const url of ['http://x', 'nonsense', 'ws://user:word@x', 'ws://x#fragment']) {
    assert.throws(() => {
      openStateFeed({
        url,
        market: 'BTC_USDT',
        periodS: 60,
        clock: new FakeClock(),
        random: () => 0,
        telemetry: noTelemetry.client,
        exchangeClock: createExchangeClock({ clock: new FakeClock() }),
      });
    }, InvalidAddressError);
  }
});

test('acknowledged and answered, but nothing pushed: nothing is confirmed, and the waits grow', async (t) => {
  let shown = state('2');
  const stub = await startRealtimeStub(t, {
    call: acknowledging(() => shown),
  });
  const reader = new FeedReader(t, stub.url);
  for (const expectedMs of [250, 500, 1000]) {
    await reader.expect('opened');
    for (const deal of ['2', '3', '4']) {
      assert.equal((await reader.expect('record')).origin, 'query');
      shown = state(deal === '4' ? '2' : String(Number(deal) + 1), deal);
      if (deal !== '4') reader.clock.advance(20_000);
    }
    assert.equal((await reader.closed('stalled')).lastAliveExchangeMs, null);
    const { waitMs } = await reader.expect('retrying');
    assert.equal(waitMs, expectedMs);
    shown = state('2');
    await reader.clock.run(waitMs);
  }
});

test('an answer of the same figures confirms nothing before the first update', async (t) => {
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: acknowledging(() => state('2')),
  });
  const reader = new FeedReader(t, stub.url);
  await reader.expect('opened');
  await reader.expect('record');
  reader.clock.advance(20_000);
  assert.equal((await reader.expect('record')).origin, 'query');
  connections[0]?.send(update(state('2')));
  assert.equal((await reader.expect('record')).origin, 'update');
  reader.clock.advance(20_000);
  assert.equal((await reader.expect('record')).origin, 'query');
  await reader.expect('alive');
});

test('an update long after an answer that showed more: others are lost, the feed begins anew', async (t) => {
  let shown = state('2');
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: pushing(() => shown),
  });
  const reader = new FeedReader(t, stub.url);
  await reader.opened();
  shown = state('3', '11');
  reader.clock.advance(20_000);
  await reader.expect('record');
  reader.clock.advance(10_001);
  connections[0]?.send(update(state('4', '12')));
  const { lastAliveExchangeMs, exchangeMs } = await reader.closed('stalled');
  assert.equal(exchangeMs - (lastAliveExchangeMs ?? 0), 30_001);
});
