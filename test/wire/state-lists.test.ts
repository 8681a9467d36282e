import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { createExchangeClock, type StateEvent, StateFeeds } from '../../src/client/index.js';
import {
  errorMessage,
  familyUpdateMessage,
  LIST_PERIOD_S,
  MARKETS_PER_CONNECTION,
  REALTIME_ERRORS,
  type RealtimeWords,
  responseMessage,
  STATUS_SUCCESS,
} from '../../src/contract/realtime.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import {
  type StubCall,
  type StubConnection,
  startRealtimeStub,
} from '../support/exchanges/stub-server.js';
import { FakeClock } from '../support/fake-clock.js';
import { hearing, noTelemetry } from '../support/no-telemetry.js';

/** Exchanges that take lists of markets: many states over few connections. */

const RECORD = {
  ...{ period: LIST_PERIOD_S, last: '2', open: '1', close: '2', high: '9', low: '1' },
  ...{ deal: '100', volume: '10', change: '1.13' },
};
const UNKNOWN_MARKET = REALTIME_ERRORS.unknownMarket;
/** Time in which no other market joins, twice: those of one moment count as having come one after another. */
const GATHER_MS = 1000;

const nameOf = (at: number) => `M${at}_USDT`;

/** The feeds of some markets at a stub, each read to its end as it comes. */
class Followed {
  readonly clock = new FakeClock();
  readonly events = new Map<string, StateEvent[]>();
  readonly sockets: string[] = [];
  readonly frames: string[] = [];
  readonly feeds;
  readonly opened;
  #wake = () => {};
  #draws = 0;

  constructor(
    t: TestContext,
    url: string,
    count: number,
    { connectBurst = 10, words = { isList: true } as RealtimeWords } = {},
  ) {
    const telemetry = hearing(noTelemetry.client, {
      socketOpened: ({ market }) => this.sockets.push(`opened ${market}`),
      socketClosed: ({ market, reason }) => this.sockets.push(`${reason} ${market}`),
      socketRetry: ({ market }) => this.sockets.push(`retry ${market}`),
      frameReceived: ({ outcome }) => this.frames.push(outcome),
    });
    this.feeds = new StateFeeds({
      ...{ url, clock: this.clock, telemetry, words },
      random: () => (++this.#draws * 0.37) % 1,
      ...{ exchangeClock: createExchangeClock({ clock: this.clock }) },
      connectBudget: new RequestBudget({
        ...{ clock: this.clock, ratePerS: 0.1, burst: connectBurst, maxWaiting: 10 },
      }),
    });
    this.opened = Array.from({ length: count }, (_, at) => this.open(nameOf(at)));
    t.after(() => Promise.all(this.opened.map((feed) => feed.stop())));
  }

  open(market: string) {
    const feed = this.feeds.open(market, LIST_PERIOD_S);
    const events = this.events.get(market) ?? [];
    this.events.set(market, events);
    void (async () => {
      for await (const event of feed) {
        events.push(event);
        this.#wake();
      }
    })();
    return feed;
  }

  /** Waits for events until this holds. */
  async until(isDone: () => boolean): Promise<void> {
    while (!isDone()) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }

  /** Markets of which this kind was reported so often. */
  having(kind: StateEvent['kind'], times = 1): string[] {
    return [...this.events].flatMap(([market, events]) =>
      events.filter((event) => event.kind === kind).length >= times ? [market] : [],
    );
  }

  reasons(market: string): string[] {
    return (this.events.get(market) ?? []).flatMap((event) =>
      event.kind === 'closed' ? [event.reason] : [],
    );
  }
}

/** Takes lists, pushes each state at once, and answers questions. */
function answer(connection: StubConnection, { method, params, id }: StubCall): void {
  if (method === 'state.query') {
    connection.send(responseMessage(id, params, RECORD));
    return;
  }
  connection.send(responseMessage(id, [], STATUS_SUCCESS));
  for (const market of params as string[]) connection.send(familyUpdateMessage(market, RECORD));
}

const lists = (calls: readonly StubCall[]) =>
  calls.flatMap(({ method, params }) => (method === 'state.subscribe' ? [params] : []));

test('120 markets take 3 connections; a cut one comes back whole, after one wait', async (t) => {
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: answer,
  });
  const followed = new Followed(t, stub.url, 120);
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 120);
  assert.deepEqual(
    lists(stub.calls)
      .map(({ length }) => length)
      .sort((a, b) => b - a),
    [MARKETS_PER_CONNECTION, MARKETS_PER_CONNECTION, 20],
  );
  assert.deepEqual(followed.sockets.toSorted(), [
    'opened list 1',
    'opened list 2',
    'opened list 3',
  ]);

  const cut = lists(stub.calls)[0] as string[];
  stub.calls.length = 0;
  connections[0]?.socket.terminate();
  await followed.until(() => followed.having('retrying').length === cut.length);
  assert.deepEqual(followed.having('retrying').toSorted(), cut.toSorted());
  const waits = cut.flatMap((market) =>
    (followed.events.get(market) ?? []).flatMap((event) =>
      event.kind === 'retrying' ? [event.waitMs] : [],
    ),
  );
  assert.equal(new Set(waits).size, 1);
  await followed.clock.run(500 + GATHER_MS);
  await followed.until(() => followed.having('alive', 2).length === cut.length);
  assert.deepEqual(
    lists(stub.calls).map((list) => list.toSorted()),
    [cut.toSorted()],
  );
  // What befell all of them is counted once.
  assert.equal(followed.sockets.filter((what) => /^(remote|retry)/.test(what)).length, 2);
});

test('connections that were cut together are made anew at the rate allowed', async (t) => {
  const connections: StubConnection[] = [];
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: answer,
  });
  const followed = new Followed(t, stub.url, 120, { connectBurst: 3 });
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 120);
  for (const { socket } of connections.splice(0)) socket.terminate();
  await followed.until(() => followed.having('retrying').length === 120);
  await followed.clock.run(500 + GATHER_MS);
  for (const [at, markets] of [50, 100, 120].entries()) {
    await followed.clock.run(10_000);
    await followed.until(() => followed.having('alive', 2).length === markets);
    assert.equal(connections.length, at + 1);
  }
});

test('a list that is refused for one name is followed without it', async (t) => {
  const bad = nameOf(7);
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      const isRefused = call.method === 'state.subscribe' && call.params.includes(bad);
      if (isRefused) connection.send(errorMessage(call.id, call.params, UNKNOWN_MARKET as never));
      else answer(connection, call);
    },
  });
  const followed = new Followed(t, stub.url, 20);
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 19);
  assert.deepEqual(followed.reasons(bad), ['subscribe_refused']);
  assert.deepEqual(
    followed.having('opened').toSorted(),
    Array.from({ length: 20 }, (_, at) => nameOf(at))
      .filter((name) => name !== bad)
      .toSorted(),
  );
  assert.equal(stub.connections, 1);
  assert.ok(!lists(stub.calls).at(-1)?.includes(bad));
});

test('the last of a list refused: the others are asked for once more', async (t) => {
  const bad = nameOf(1);
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      if (call.method === 'state.subscribe' && call.params.includes(bad)) {
        connection.send(errorMessage(call.id, call.params, UNKNOWN_MARKET as never));
      } else answer(connection, call);
    },
  });
  const followed = new Followed(t, stub.url, 2);
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 1);
  const good = nameOf(0);
  assert.deepEqual(lists(stub.calls), [[good, bad], [good], [good, bad], [good]]);
});

test('an exchange that refuses every list is not asked for ever', async (t) => {
  for (const [error, most] of [
    [REALTIME_ERRORS.unavailable, 1],
    [UNKNOWN_MARKET, 12],
  ] as const) {
    const stub = await startRealtimeStub(t, {
      call: (connection, { id, params }) =>
        connection.send(errorMessage(id, params, error as never)),
    });
    const followed = new Followed(t, stub.url, 50);
    await followed.clock.run(GATHER_MS);
    await followed.until(() => followed.having('closed').length === 50);
    assert.equal(stub.calls.length, most);
    assert.deepEqual(
      new Set([...followed.events.keys()].flatMap((market) => followed.reasons(market))),
      new Set(['subscribe_refused']),
    );
  }
});

test('one market leaves without the others: stopped, or silent about what it has', async (t) => {
  const connections: StubConnection[] = [];
  let last = '2';
  const stub = await startRealtimeStub(t, {
    connection: (connection) => connections.push(connection),
    call: (connection, call) => {
      const isStale = call.method === 'state.query' && call.params[0] === nameOf(1);
      if (isStale) connection.send(responseMessage(call.id, [], { ...RECORD, last }));
      else answer(connection, call);
    },
  });
  const followed = new Followed(t, stub.url, 3);
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 3);
  await followed.opened[2]?.stop();
  await followed.until(() => followed.reasons(nameOf(2)).length === 1);
  assert.deepEqual(followed.reasons(nameOf(2)), ['stopped']);
  const [connection] = connections;
  const dropped = () => followed.frames.filter((frame) => frame === 'dropped').length;
  // Of the one that left, and of one that was never asked for.
  connection?.send(familyUpdateMessage(nameOf(2), { ...RECORD, last: '4' }));
  connection?.send(familyUpdateMessage('NEVER_ASKED', RECORD));
  connection?.send(familyUpdateMessage(nameOf(0), { ...RECORD, volume: '11' }));
  await followed.until(() => (followed.events.get(nameOf(0))?.length ?? 0) === 5);
  assert.equal(dropped(), 2);
  last = '5';
  followed.clock.advance(20_000);
  await followed.until(() => (followed.events.get(nameOf(1))?.length ?? 0) === 5);
  followed.clock.advance(20_000);
  await followed.until(() => followed.reasons(nameOf(1)).length === 1);
  assert.deepEqual(followed.reasons(nameOf(1)), ['stalled']);
  connection?.send(familyUpdateMessage(nameOf(0), { ...RECORD, volume: '12' }));
  const lastOf = () => followed.events.get(nameOf(0))?.at(-1);
  await followed.until(() => {
    const event = lastOf();
    return event?.kind === 'record' && event.record.volume === '12';
  });
  assert.deepEqual(followed.reasons(nameOf(0)), []);
  await followed.clock.run(500 + GATHER_MS);
  await followed.until(() => followed.having('opened', 2).length === 1);
  // The first of them lives on: what counts the open ones must tell them apart.
  assert.deepEqual(
    followed.sockets.filter((what) => what.startsWith('opened')),
    ['opened list 1', 'opened list 2'],
  );
});

test('a market that comes later has a connection of its own; stopped while gathering, none is made', async (t) => {
  const stub = await startRealtimeStub(t, { call: answer });
  const followed = new Followed(t, stub.url, 2);
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 2);
  followed.opened.push(followed.open('LATE_USDT'));
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 3);
  assert.equal(stub.connections, 2);
  await followed.feeds.open('NEVER_USDT', LIST_PERIOD_S).stop();
  await followed.clock.run(GATHER_MS);
  followed.opened.push(followed.open('LATER_USDT'));
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 4);
  assert.deepEqual(lists(stub.calls).slice(1), [['LATE_USDT'], ['LATER_USDT']]);
});

test('markets that come one after another are waited for, until a connection is full or for 10 s', async (t) => {
  const stub = await startRealtimeStub(t, { call: answer });
  const followed = new Followed(t, stub.url, 0);
  const join = (at: number) => followed.opened.push(followed.open(nameOf(at)));
  for (let at = 0; at < 30; at += 1) {
    join(at);
    await followed.clock.run(400);
  }
  await followed.until(() => followed.having('alive').length >= 26);
  const [first = []] = lists(stub.calls);
  assert.deepEqual([first.length, stub.connections], [26, 1]);
  await followed.clock.run(GATHER_MS);
  await followed.until(() => followed.having('alive').length === 30);
  assert.equal(stub.connections, 2);
});

test('questions of a full list keep the limit that an exchange has for a connection', async (t) => {
  let asked = 0;
  const stub = await startRealtimeStub(t, {
    call: (connection, call) => {
      if (call.method === 'state.query') asked += 1;
      answer(connection, call);
    },
  });
  const words = { isList: true, requestsPerMinute: 200 };
  const followed = new Followed(t, stub.url, MARKETS_PER_CONNECTION, { words });
  await followed.clock.run(GATHER_MS);
  for (let round = 1; round <= 3; round += 1) {
    // After the update at the beginning each answer brings a record.
    await followed.until(
      () => followed.having('record', 1 + round).length === MARKETS_PER_CONNECTION,
    );
    assert.equal(asked, round * MARKETS_PER_CONNECTION);
    // More than 20 s, so that no minute has more than three rounds and what else is asked.
    assert.equal(followed.clock.nextForegroundTimerMs, 25_000);
    await followed.clock.run(25_000);
  }
});
