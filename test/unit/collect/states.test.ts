import assert from 'node:assert/strict';
import test from 'node:test';
import type { CloseReason, StateEvent } from '../../../src/client/index.js';
import { StreamLedger } from '../../../src/collect/ledger.js';
import type { ArchivePort, StateFeedPort } from '../../../src/collect/ports.js';
import { StateCollector } from '../../../src/collect/states.js';
import { BoundedQueue } from '../../../src/kernel/queue.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const START_MS = Date.UTC(2026, 0, 1);

class ScriptedFeed implements StateFeedPort {
  readonly queue = new BoundedQueue<StateEvent>(10_000);
  stops = 0;
  failure: Error | undefined;

  async *[Symbol.asyncIterator](): AsyncGenerator<StateEvent> {
    yield* this.queue;
    if (this.failure !== undefined) throw this.failure;
  }

  async stop(): Promise<void> {
    this.stops += 1;
    this.queue.close();
  }
}

class World {
  readonly archive = new ModelArchive();
  readonly clock = new FakeClock(START_MS);
  readonly record = new CollectRecord();
  readonly feeds: ScriptedFeed[] = [];
  readonly time = new FakeTime(this.clock);
  readonly unproven: string[] = [];
  #gate: Promise<void> | undefined;
  #failing: { method: keyof ArchivePort; after: number } | undefined;

  collector(): StateCollector {
    const stream = {
      streamId: 1,
      kind: 'states',
      marketId: 1,
      variant: 60,
      collectFromMs: null,
    } as const;
    const ports = { archive: this.archive, time: this.time, clock: this.clock };
    const ledger = new StreamLedger({ ...ports, telemetry: this.record }, 'BTC_USDT', stream);
    ledger.covered.replace(this.archive.allRanges(1));
    ledger.unproven = (why) => this.unproven.push(why);
    return new StateCollector({
      market: 'BTC_USDT',
      marketId: 1,
      periodS: 60,
      ledger,
      time: this.time,
      openFeed: () => {
        const feed = new ScriptedFeed();
        this.feeds.push(feed);
        return feed;
      },
    });
  }

  constructor() {
    // What the feeds say is not ahead of the time.
    this.time.aheadMs = 3_600_000;
    this.archive.before = async (method) => {
      await this.#gate;
      if (method === this.#failing?.method) {
        this.#failing.after -= 1;
        if (this.#failing.after < 0) {
          this.#failing = undefined;
          throw new Error('no database');
        }
      }
    };
  }

  /**
   * Runs a collector over events, and stops it; it must take them all. The archive is held up while
   * the events of a run come in, so that all but the first are taken together.
   */
  async play(...runs: StateEvent[][]): Promise<void> {
    const collector = this.collector();
    collector.start();
    for (const events of runs) {
      let release: () => void = () => undefined;
      this.#gate = new Promise((resolve) => {
        release = resolve;
      });
      for (const event of events) await this.feeds.at(-1)?.queue.put(event);
      await settle();
      release();
      await settle();
    }
    await collector.stop();
    this.record.assertAccounted('states');
  }

  /** Hands events to a collector that runs, and lets it take them. */
  async take(...events: StateEvent[]): Promise<void> {
    for (const event of events) await this.feeds.at(-1)?.queue.put(event);
    await settle();
  }

  covered(): Array<[number, number]> {
    return this.archive
      .allRanges(1)
      .map(({ span }) => [span.fromMs - START_MS, span.toMs - START_MS]);
  }

  gaps(): Array<[number, number]> {
    return this.archive.gaps.map(({ span }) => [span.fromMs - START_MS, span.toMs - START_MS]);
  }

  /** Makes one call fail, after so many that go well. */
  failOnce(method: keyof ArchivePort, after = 0): void {
    this.#failing = { method, after };
  }
}

const settle = () => new Promise<void>((resolve) => setImmediate(() => setImmediate(resolve)));
const at = (ms: number) => START_MS + ms;
const opened = (ms: number, identity: string | null = null): StateEvent => ({
  kind: 'opened',
  identity,
  atMs: at(ms),
  exchangeMs: at(ms),
});
const alive = (ms: number): StateEvent => ({ kind: 'alive', exchangeMs: at(ms) });
const closed = (
  ms: number | null,
  reason: CloseReason = 'remote',
  endMs = ms ?? 0,
): StateEvent => ({
  kind: 'closed',
  code: 1006,
  reason,
  lastAliveExchangeMs: ms === null ? null : at(ms),
  exchangeMs: at(endMs),
  livedMs: endMs,
});
const state = (ms: number, last = '1', origin: 'query' | 'update' = 'update'): StateEvent => ({
  kind: 'record',
  origin,
  record: {
    ...{ period: 60, last, open: '1', close: last, high: '1', low: '1', deal: '1', volume: '1' },
  },
  receivedAtMs: at(ms),
  exchangeMs: at(ms) + 0.5,
});

test('a session that was ended from here closes then, one that others ended where it was last proven', async () => {
  const world = new World();
  await world.play([opened(0), state(100), closed(100, 'stopped', 19_000)]);
  await world.play([opened(20_000), state(20_100), closed(20_100, 'silent', 50_000)]);
  assert.deepEqual(
    world.archive.sessions.map((one) => one.closed?.atMs),
    [at(19_000), at(20_101)],
  );
});

test('why no connection could be made is passed on, and nothing else of one that ends', async () => {
  const world = new World();
  const refused = { ...closed(null, 'connect_failed'), detail: 'Unexpected server response: 404' };
  await world.play([refused, opened(0), state(100), closed(100)]);
  assert.deepEqual(world.unproven, ['no connection was made: Unexpected server response: 404']);
});

test('a session is covered from its first record to its last sign of life', async () => {
  const world = new World();
  await world.play([opened(0), alive(50), state(100), state(200), alive(300), closed(300)]);
  assert.deepEqual(world.covered(), [[100, 301]]);
  assert.deepEqual(world.archive.sessions, [
    { sessionId: 1, openedMs: at(0), closed: { atMs: at(301), code: 1006, reason: 'remote' } },
  ]);
  assert.deepEqual(
    world.archive.states.map(({ seq, observedAtMs, origin, change }) => [
      seq,
      observedAtMs - START_MS,
      origin,
      change,
    ]),
    [
      [1, 100, 'update', null],
      [2, 200, 'update', null],
    ],
  );
});

test('the same holds when every event is committed by itself', async () => {
  const world = new World();
  await world.play(
    [opened(0)],
    [alive(50)],
    [state(100)],
    [state(200)],
    [alive(300)],
    [closed(300)],
  );
  assert.deepEqual(world.covered(), [[100, 301]]);
});

test('after a jump back of the time the same session goes on from there', async () => {
  const world = new World();
  const collector = world.collector();
  collector.start();
  await world.take(opened(0), state(60_100), state(60_200));
  world.time.jumps = 1;
  await world.take(state(1000), state(1500), alive(2000));
  await collector.stop();
  assert.deepEqual(
    world.archive.states.map(({ observedAtMs }) => observedAtMs - START_MS),
    [60_100, 60_200, 1000, 1500],
  );
  // What was covered before the jump is revoked by the collector.
  assert.deepEqual(world.covered().at(-1), [1000, 2001]);
});

test('after a jump back without a connection, what is missed again is listed again', async () => {
  const world = new World();
  const collector = world.collector();
  collector.start();
  await world.take(opened(0), state(100), closed(100));
  await world.take(opened(500), closed(null, 'stalled', 41_000));
  world.time.jumps += 1;
  await world.take(opened(30_000), closed(null, 'stalled', 35_000));
  await collector.stop();
  assert.deepEqual(world.gaps().at(-1), [30_000, 35_000]);
});

test('a sign of life that tells nothing new does not cover the time after it', async () => {
  const world = new World();
  await world.play([opened(0), state(100)], [alive(90)], [alive(90)], [alive(90)], [closed(100)]);
  assert.deepEqual(world.covered(), [[100, 101]]);
});

test('between sessions lies a gap that nothing fills, also over a restart', async () => {
  const world = new World();
  await world.play([
    opened(0),
    state(100),
    closed(100),
    opened(500),
    alive(550),
    state(600),
    closed(700),
  ]);
  assert.deepEqual(world.gaps(), [[101, 600]]);
  await world.play([opened(1000), state(1100)]);
  assert.deepEqual(world.gaps(), [
    [101, 600],
    [601, 1100],
  ]);
  assert.deepEqual(world.covered(), [
    [1100, 1101],
    [600, 601],
    [100, 101],
  ]);
  assert.ok(world.archive.gaps.every(({ state }) => state === 'unfillable'));
});

test('records without a session are lost and counted', async () => {
  const world = new World();
  await world.play([state(100), opened(200), state(300)]);
  assert.deepEqual(world.record.outcomesOf('states'), { lost: 1, stored: 1 });
  assert.deepEqual(world.covered(), [[300, 301]]);
});

test('records whose commit failed are counted as lost and never covered', async () => {
  const world = new World();
  await world.play([opened(0), state(100)], [], []);
  world.failOnce('commit');
  await world.play(
    [opened(1000), state(1100), state(1200)],
    [alive(1300)],
    [state(1400)],
    [alive(1500)],
  );
  assert.deepEqual(world.record.outcomesOf('states'), { stored: 2, lost: 2 });
  assert.deepEqual(world.covered(), [
    [1400, 1501],
    [100, 101],
  ]);
  assert.deepEqual(world.gaps().at(-1), [101, 1400]);
  assert.equal(world.record.failures.length, 1);
});

test('a session that lost records is covered again only from its next record on', async () => {
  const world = new World();
  world.failOnce('commit', 1);
  await world.play(
    [opened(0)],
    [state(100)],
    [state(200)],
    [alive(300)],
    [state(400)],
    [alive(500)],
  );
  assert.deepEqual(world.record.outcomesOf('states'), { stored: 2, lost: 1 });
  assert.deepEqual(world.covered(), [
    [400, 501],
    [100, 101],
  ]);
  assert.deepEqual(world.gaps(), [[101, 400]]);
});

test('records whose gap could not be written are counted as lost and never covered', async () => {
  const world = new World();
  await world.play([opened(0), state(100)]);
  world.failOnce('commit');
  await world.play([opened(1000), state(1100)], [state(1200)], [alive(1300)]);
  assert.deepEqual(world.record.outcomesOf('states'), { stored: 2, lost: 1 });
  assert.deepEqual(world.covered(), [
    [1200, 1301],
    [100, 101],
  ]);
  assert.deepEqual(world.gaps(), [[101, 1200]]);
});

test('a failure takes no other event of the same run with it', async () => {
  const world = new World();
  world.failOnce('commit');
  await world.play([
    opened(0),
    state(100),
    closed(100),
    opened(200),
    state(300),
    state(400),
    closed(400),
  ]);
  assert.deepEqual(world.record.outcomesOf('states'), { stored: 2, lost: 1 });
  assert.deepEqual(world.covered(), [[300, 401]]);
  assert.ok(world.archive.sessions.every((session) => session.closed !== undefined));
});

test('a session that could not be opened loses its records, counted; the next one is kept', async () => {
  const world = new World();
  world.failOnce('openSession');
  await world.play([
    opened(0),
    state(100),
    state(150),
    closed(150),
    opened(200),
    state(300),
    closed(300),
  ]);
  assert.deepEqual(world.record.outcomesOf('states'), { lost: 2, stored: 1 });
  assert.deepEqual(world.covered(), [[300, 301]]);
});

test('records of the same millisecond keep their order, and none goes back into what is covered', async () => {
  const world = new World();
  await world.play([opened(0), state(100, '1', 'query'), state(100, '2')], [state(100, '3')]);
  const { states } = world.archive;
  assert.deepEqual(
    states.map(({ seq, last }) => [seq, last]),
    [
      [1, '1'],
      [2, '2'],
      [3, '3'],
    ],
  );
  assert.deepEqual(
    states.map(({ observedAtMs }) => observedAtMs - START_MS),
    [100, 100, 101],
  );
});

test('stopping stores what has arrived, and is safe to repeat; the collector can start again', async () => {
  const world = new World();
  const collector = world.collector();
  collector.start();
  collector.start();
  assert.equal(world.feeds.length, 1);
  await world.feeds[0]?.queue.put(opened(0));
  for (let ms = 0; ms < 600; ms += 1) await world.feeds[0]?.queue.put(state(ms));
  await Promise.all([collector.stop(), collector.stop()]);
  assert.equal(world.archive.states.length, 600);
  assert.deepEqual(world.covered(), [[0, 600]]);
  collector.start();
  assert.equal(world.feeds.length, 2);
  await collector.stop();
  world.record.assertAccounted('states');
});

test('a feed that breaks for good is told as fatal, and what it brought is stored', async () => {
  const world = new World();
  const collector = world.collector();
  collector.start();
  const [feed] = world.feeds;
  assert.ok(feed !== undefined);
  feed.failure = new Error('no such address');
  const told = new Promise<void>((resolve) => {
    world.record.onFailure = resolve;
  });
  for (const event of [opened(0), state(100)]) await feed.queue.put(event);
  feed.queue.close();
  await told;
  await collector.stop();
  assert.equal(world.record.failures[0]?.action, 'fatal');
  assert.equal(world.archive.states.length, 1);
});

const query = (ms: number, last = '1') => state(ms, last, 'query');
const reasons = (world: World) =>
  world.archive.gaps.map(({ span, reason }) => [
    span.fromMs - START_MS,
    span.toMs - START_MS,
    reason,
  ]);

test('answers to queries are stored and cover nothing; the gap says that no update came', async () => {
  const world = new World();
  await world.play([opened(0), state(100), closed(100)]);
  await world.play(
    [opened(500), query(510)],
    [query(20_510)],
    [query(40_510)],
    [closed(null, 'stalled', 41_000)],
    [opened(60_000), query(60_010), state(60_020), alive(60_030)],
  );
  assert.deepEqual(world.covered(), [
    [60_020, 60_031],
    [100, 101],
  ]);
  assert.deepEqual(reasons(world), [
    [101, 500, 'no connection'],
    [500, 20_510, 'no updates'],
    [500, 40_510, 'no updates'],
    [500, 41_000, 'no updates'],
    [500, 60_020, 'no updates'],
  ]);
  assert.equal(world.archive.states.length, 6);
});

test('the first answer of a connection that is told something soon after is no silence', async () => {
  const world = new World();
  await world.play([opened(0), state(100), closed(100)], [opened(500), query(510)], [state(520)]);
  assert.deepEqual(reasons(world), [[101, 520, 'no connection']]);
});

test('an answer that is not what was pushed extends nothing, an update after it does', async () => {
  const world = new World();
  await world.play([opened(0), state(100)], [query(20_000)], [state(20_100), alive(20_200)]);
  assert.deepEqual(world.covered(), [[100, 20_201]]);
  await world.play([opened(30_000), state(30_100)], [query(50_000)], [closed(30_100)]);
  assert.deepEqual(world.covered()[0], [30_100, 30_101]);
});

test('a subscription that went silent is a gap from its last update on', async () => {
  const world = new World();
  await world.play(
    [opened(0), state(100)],
    [query(20_000, '2')],
    [query(40_000, '3')],
    [closed(100, 'stalled', 40_001), opened(45_000), state(45_010)],
  );
  assert.deepEqual(world.covered(), [
    [45_010, 45_011],
    [100, 101],
  ]);
  assert.deepEqual(reasons(world).at(-1), [101, 45_010, 'no updates']);
});
