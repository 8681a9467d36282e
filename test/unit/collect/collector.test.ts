import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import type { StateEvent } from '../../../src/client/index.js';
import { Collector, type CollectorOptions } from '../../../src/collect/collector.js';
import type { StateFeedPort } from '../../../src/collect/ports.js';
import { Schedules } from '../../../src/collect/schedule.js';
import { TapekeepError } from '../../../src/kernel/errors.js';
import { BoundedQueue } from '../../../src/kernel/queue.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { Share } from '../../../src/model/share.js';
import type { Gap } from '../../../src/store/index.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { gate } from '../../support/gate.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';

const START_MS = Date.UTC(2026, 0, 1, 12);

class QuietFeed implements StateFeedPort {
  readonly #queue = new BoundedQueue<StateEvent>(10);
  isStopped = false;

  async push(event: StateEvent): Promise<void> {
    await this.#queue.put(event);
  }

  [Symbol.asyncIterator]() {
    return this.#queue[Symbol.asyncIterator]();
  }

  async stop(): Promise<void> {
    this.isStopped = true;
    this.#queue.close();
  }
}

/** Cron expressions by which the test tells the schedules apart; none of them comes to pass here. */
const SCHEDULES = {
  markets: '0 1 1 1 *',
  trades: '0 2 1 1 *',
  depth: '0 3 1 1 *',
  tickers: '0 4 1 1 *',
  candles: '0 5 1 1 *',
} as const;

const marketEntry = (name: string) => ({
  name,
  stock: 'S',
  money: 'M',
  stockPrec: 8,
  moneyPrec: 2,
  feePrec: 4,
  minAmount: '0.1',
});

const tickerEntry = (name: string) => ({
  at: START_MS / 1000,
  ticker: {
    ...{ name, bid: '1', ask: '2', open: '1', high: '2', low: '1', last: '1' },
    ...{ vol: '5', deal: '5', change: '0' },
  },
});

class World {
  readonly clock = new FakeClock(START_MS);
  readonly time = new FakeTime(this.clock);
  readonly record = new CollectRecord();
  readonly feeds: Array<{ market: string; feed: QuietFeed }> = [];
  readonly schedules = new Map<string, { run: () => void; isStopped: boolean }>();
  names = ['A', 'B'];
  readonly exchange = new ScriptedExchange(this.clock, {
    markets: () => this.names.map(marketEntry),
    historyResult: () => [],
    history: () => [],
    tickers: () => Object.fromEntries(this.names.map((name) => [name, tickerEntry(name)])),
    depth: () => ({ asks: [], bids: [] }),
    kline: ({ market, start, end, interval }) => ({ market, start, end, interval, kline: [] }),
  });

  readonly collector: Collector;

  constructor(
    t: TestContext,
    wanted: readonly string[] = [],
    tradesSchedule: string = SCHEDULES.trades,
    readonly archive = new ModelArchive(),
    public requestsPerS = 100,
    exactTimes = true,
    only?: CollectorOptions['only'],
    share?: Share,
  ) {
    const isLive = only === undefined;
    const { schedules } = this;
    const { start, stop } = Schedules.prototype;
    t.mock.method(
      Schedules.prototype,
      'start',
      function (this: Schedules, key: string, expression: string, run: () => void) {
        schedules.set(expression, { run, isStopped: false });
        return start.call(this, key, expression, run);
      },
    );
    t.mock.method(Schedules.prototype, 'stop', function (this: Schedules) {
      for (const entry of schedules.values()) entry.isStopped = true;
      stop.call(this);
    });
    this.collector = new Collector({
      requestsPerS: () => this.requestsPerS,
      settings: {
        markets: wanted,
        streams: {
          markets: { schedule: SCHEDULES.markets, max: 1_000 },
          trades: {
            enabled: true,
            schedule: tradesSchedule,
            exactTimes,
            history: 'all',
          },
          depth: { enabled: isLive, schedule: SCHEDULES.depth, levels: 5 },
          tickers: { enabled: isLive, schedule: SCHEDULES.tickers },
          candles: {
            enabled: true,
            schedule: SCHEDULES.candles,
            intervalsS: [3600, 60],
            history: 7_200_000,
            grace: 1000,
          },
          states: { enabled: isLive, periodsS: [60] },
        },
      },
      ...{ only, share },
      exchange: this.exchange,
      archive: this.archive,
      openStateFeed: (market) => {
        const feed = new QuietFeed();
        this.feeds.push({ market, feed });
        return feed;
      },
      time: this.time,
      clock: this.clock,
      random: seededRandom(1),
      telemetry: this.record,
    });
  }

  /** Lets a schedule come due, and what it starts run to its end. */
  async tick(stream: keyof typeof SCHEDULES): Promise<void> {
    this.schedules.get(SCHEDULES[stream])?.run();
    await this.clock.run(0);
    await this.clock.run(0);
  }

  openFeeds(): string[] {
    return this.feeds.filter(({ feed }) => !feed.isStopped).map(({ market }) => market);
  }

  async assertNothingRuns(): Promise<void> {
    const asked = this.exchange.asked.length;
    for (const { run } of this.schedules.values()) run();
    await this.clock.run(3_600_000);
    assert.equal(this.exchange.asked.length, asked);
    assert.deepEqual(this.openFeeds(), []);
    assert.equal(this.clock.pendingTimers, 0);
    assert.ok([...this.schedules.values()].every(({ isStopped }) => isStopped));
  }
}

test('a share collects its markets, and the first one the tickers of all', async (t) => {
  const archive = new ModelArchive();
  // A is of share 1, B of share 2.
  for (const [text, market] of [
    ['1/2', 'A'],
    ['2/2', 'B'],
  ] as const) {
    const share = Share.parse(text);
    const world = new World(t, [], SCHEDULES.trades, archive, 100, true, undefined, share);
    await world.collector.start();
    await world.clock.run(0);
    const { asked } = world.exchange;
    const markets = asked.flatMap(({ params }) => params.market ?? []);
    assert.deepEqual([...new Set(markets)], [market]);
    assert.deepEqual(
      (['markets', 'tickers', 'depth', 'kline'] as const).map((one) => world.exchange.countOf(one)),
      [share?.isFirst ? 1 : 0, 1, 1, 3],
    );
    assert.deepEqual(world.collector.markets, [market]);
    assert.deepEqual(world.collector.wantedMarkets, [market]);
    assert.deepEqual(world.openFeeds(), [market]);
    await world.collector.stop();
    t.mock.restoreAll();
  }
  const tickers = archive.streams.filter(({ kind }) => kind === 'tickers');
  assert.equal(tickers.length, 2, 'one of each market');
});

test('starting polls every stream of every market at once', async (t) => {
  const world = new World(t);
  await Promise.all([world.collector.start(), world.collector.start()]);
  await world.clock.run(0);
  const counts = ['markets', 'tickers', 'historyResult', 'history', 'depth', 'kline'] as const;
  assert.deepEqual(
    counts.map((endpoint) => world.exchange.countOf(endpoint)),
    [1, 1, 2, 2, 2, 6],
  );
  assert.deepEqual(world.collector.markets, ['A', 'B']);
  assert.deepEqual(world.openFeeds(), ['A', 'B']);
  assert.deepEqual(world.record.failures, []);
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('trades of an open market are asked for while others are still being opened', async (t) => {
  const archive = new ModelArchive();
  const { ensureStream } = archive;
  const { opened: slow, open } = gate();
  archive.ensureStream = async (key) => {
    if (key.marketId === 2) await slow;
    return await ensureStream.call(archive, key);
  };
  const world = new World(t, [], SCHEDULES.trades, archive);
  const started = world.collector.start();
  await world.clock.run(1000);
  assert.deepEqual(world.collector.markets, ['A']);
  assert.equal(world.exchange.countOf('historyResult'), 1);
  open();
  await started;
  await world.clock.run(0);
  assert.deepEqual(world.collector.markets, ['A', 'B']);
  assert.equal(world.exchange.countOf('historyResult'), 2);
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('what the budget lets be polled less often than scheduled is reported once', async (t) => {
  const world = new World(t, [], '*/5 * * * * *', new ModelArchive(), 1);
  const started = world.collector.start();
  await world.collector.review();
  assert.deepEqual(world.record.paces, [], 'not while markets are being opened');
  await started;
  await world.collector.review();
  await world.collector.review();
  assert.deepEqual(
    world.record.paces,
    [],
    'four walks every five seconds, and one request a second',
  );
  world.requestsPerS = 0.2;
  await world.collector.review();
  await world.collector.review();
  const streams = [{ stream: 'trades', scheduleMs: 5000, paceMs: 10_000 }];
  assert.deepEqual(world.record.paces, [{ streams }]);
  assert.deepEqual(world.collector.stretched, streams);
  world.requestsPerS = 0.15;
  await world.collector.review();
  assert.equal(world.record.paces.length, 1, 'about the same pace is no news');
  world.requestsPerS = 100;
  await world.collector.review();
  assert.deepEqual(world.record.paces.at(-1), { streams: [] });
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('of every stream a call whose answer is broken is made again at once', async (t) => {
  const world = new World(t);
  const broken = new Set<string>();
  for (const [endpoint, answer] of Object.entries(world.exchange.answers)) {
    const breakOnce = (params: never) => {
      const key = `${endpoint} ${JSON.stringify(params)}`;
      if (broken.has(key)) return answer(params);
      broken.add(key);
      throw new TapekeepError('server_error', 'broken');
    };
    Object.assign(world.exchange.answers, { [endpoint]: breakOnce });
  }
  const started = world.collector.start();
  await world.clock.run(500);
  await started;
  await world.clock.run(500);
  await world.collector.stop();
  assert.deepEqual(world.record.failures, [], 'nothing was left to the next schedule');
  const endpoints = new Set([...broken].map((key) => key.split(' ')[0]));
  assert.equal(endpoints.size, 6);
  assert.equal(world.exchange.asked.length, 2 * broken.size);
  await world.assertNothingRuns();
});

test('a new market is picked up when the list is refreshed, a delisted one is closed', async (t) => {
  const world = new World(t);
  await world.collector.start();
  await world.clock.run(0);
  world.names = ['B', 'C'];
  await world.tick('markets');
  assert.deepEqual(world.collector.markets, ['B', 'C']);
  assert.deepEqual(world.openFeeds(), ['B', 'C']);
  const before = world.exchange.asked.length;
  for (const stream of ['trades', 'depth', 'candles'] as const) await world.tick(stream);
  const markets = new Set(world.exchange.asked.slice(before).map(({ params }) => params.market));
  assert.deepEqual([...markets].sort(), ['B', 'C']);
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('only wanted markets are opened', async (t) => {
  const world = new World(t, ['B', 'Z']);
  await world.collector.start();
  assert.deepEqual(world.collector.markets, ['B']);
  assert.deepEqual(
    world.record.missing.map(({ names }) => names),
    [['Z']],
  );
  assert.deepEqual(world.collector.missingMarkets, ['Z']);
  await world.collector.stop();
});

test('when nothing that is wanted is listed, the start is refused', async (t) => {
  const world = new World(t, ['Y', 'Z']);
  await assert.rejects(world.collector.start(), { code: 'markets_not_listed', action: 'fatal' });
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('polls of one market and stream never overlap, and hold up no other', async (t) => {
  const world = new World(t);
  const waiting: Array<() => void> = [];
  const running = new Map<string, number>();
  let most = 0;
  world.exchange.answers.historyResult = async ({ market }) => {
    running.set(market, (running.get(market) ?? 0) + 1);
    most = Math.max(most, running.get(market) ?? 0);
    if (market === 'A') await new Promise<void>((resolve) => waiting.push(resolve));
    running.set(market, (running.get(market) ?? 0) - 1);
    return [];
  };
  await world.collector.start();
  await world.clock.run(0);
  for (let tick = 0; tick < 5; tick += 1) {
    await world.tick('trades');
    await world.clock.run(2000);
  }
  assert.equal(most, 1);
  const asked = (name: string) =>
    world.exchange.asked.filter(
      ({ endpoint, params }) => endpoint === 'historyResult' && params.market === name,
    ).length;
  assert.equal(asked('A'), 1);
  assert.equal(asked('B'), 5, 'at the start, and at every run after the first that follows it');
  assert.equal(world.record.skips.filter(({ stream }) => stream === 'trades').length, 4);
  const wakeAll = async () => {
    while (waiting.length > 0) {
      for (const wake of waiting.splice(0)) wake();
      await world.clock.run(0);
    }
  };
  await wakeAll();
  assert.equal(asked('A'), 1);
  await world.tick('depth');
  await world.tick('trades');
  assert.equal(asked('A'), 2);
  await wakeAll();
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('candles that are requested while their run is under way are asked for right behind it', async (t) => {
  const world = new World(t, ['A']);
  const waiting: Array<() => void> = [];
  const { kline } = world.exchange.answers;
  world.exchange.answers.kline = async (params) => {
    await new Promise<void>((resolve) => waiting.push(resolve));
    return await kline?.(params);
  };
  await world.collector.start();
  await world.clock.run(0);
  const asked = () => world.exchange.asked.filter(({ endpoint }) => endpoint === 'kline');
  const release = async () => {
    while (waiting.length > 0) {
      for (const wake of waiting.splice(0)) wake();
      await world.clock.run(0);
    }
  };
  const key = { kind: 'candles', variant: 60, marketId: 1, collectFromMs: null } as const;
  const stream = await world.archive.ensureStream(key);
  // The first look at this length has been asked for; its answer comes after the request.
  assert.equal(asked().at(-1)?.params.interval, 60);
  const span = { fromMs: START_MS - 86_400_000, toMs: START_MS - 86_340_000 };
  await world.archive.want(stream, span);
  while (asked().at(-1)?.params.interval !== 3600) {
    waiting.shift()?.();
    await world.clock.run(0);
  }
  await world.collector.review();
  await release();
  const wanted = asked().filter(({ params }) => Number(params.end) * 1000 <= span.toMs);
  assert.equal(wanted.length, 1, JSON.stringify(asked()));
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('newer candles are asked for while older ones wait for a request that no other work needs', async (t) => {
  const world = new World(t, ['A']);
  await world.collector.start();
  await world.clock.run(0);
  world.exchange.answers.kline = ({ market, start, end, interval }) => {
    const figures = { open: '1', close: '1', highest: '1', lowest: '1', volume: '1', amount: '1' };
    return { market, start, end, interval, kline: [{ time: end, market, ...figures }] };
  };
  const spare: Array<() => void> = [];
  world.exchange.reserve = (name, _priority, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const admit = () => resolve({ giveBack: () => undefined });
      if (name !== 'kline') return admit();
      spare.push(admit);
      signal.addEventListener('abort', () => reject(signal.reason as Error));
    });
  const key = { kind: 'candles', variant: 60, marketId: 1, collectFromMs: null } as const;
  const span = { fromMs: START_MS - 86_400_000, toMs: START_MS - 86_340_000 };
  await world.archive.want(await world.archive.ensureStream(key), span);
  await world.collector.review();
  await world.clock.run(0);
  const asked = (toMs: number) =>
    world.exchange.asked.filter(
      ({ endpoint, params }) => endpoint === 'kline' && Number(params.end) * 1000 < toMs,
    ).length;
  const before = world.exchange.countOf('kline');
  assert.deepEqual([asked(span.toMs), spare.length], [0, 1]);
  await world.clock.run(61_000);
  await world.tick('candles');
  assert.deepEqual([asked(span.toMs), spare.length], [0, 2]);
  assert.ok(world.exchange.countOf('kline') > before, 'the newest candle');
  // A minute of a moment ago may come first.
  while (asked(span.toMs) === 0) {
    const admit = spare.pop() ?? assert.fail('nothing waits');
    admit();
    await world.clock.run(0);
  }
  assert.deepEqual([world.record.failures, world.record.skips], [[], []]);
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('of markets that wait for older candles the one that had none for longest goes first', async (t) => {
  const world = new World(t);
  await world.collector.start();
  await world.clock.run(0);
  world.exchange.answers.kline = ({ market, start, end, interval }) => {
    const figures = { open: '1', close: '1', highest: '1', lowest: '1', volume: '1', amount: '1' };
    return { market, start, end, interval, kline: [{ time: end, market, ...figures }] };
  };
  let waiting: Array<() => void> = [];
  world.exchange.reserve = (name, _priority, signal) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const admit = () => resolve({ giveBack: () => undefined });
      if (name !== 'kline') return admit();
      waiting.push(admit);
      signal.addEventListener('abort', () => {
        waiting = waiting.filter((one) => one !== admit);
        reject(signal.reason as Error);
      });
    });
  for (const { streamId, kind, marketId, variant } of world.archive.streams) {
    if (kind !== 'candles' || variant !== 60) continue;
    for (const days of [2, 4, 6]) {
      const fromMs = START_MS - days * 86_400_000;
      const stream = { streamId, kind, marketId, variant, collectFromMs: null };
      await world.archive.want(stream, { fromMs, toMs: fromMs + 60_000 });
    }
  }
  await world.collector.review();
  const isOld = ({ endpoint, params }: (typeof world.exchange.asked)[number]) =>
    endpoint === 'kline' && Number(params.end) * 1000 < START_MS - 86_400_000;
  const served = () => world.exchange.asked.filter(isOld).map(({ params }) => params.market);
  for (let minute = 0; minute < 20 && served().length < 4; minute += 1) {
    await world.clock.run(61_000);
    await world.tick('candles');
    waiting.shift()?.();
    await world.clock.run(0);
  }
  assert.deepEqual(served(), ['A', 'B', 'A', 'B']);
  await world.collector.stop();
});

test('answers that contradict the time hold up claims, and the noted present goes on all the same', async (t) => {
  const world = new World(t, ['A']);
  await world.collector.start();
  await world.clock.run(0);
  world.time.heldBackMs = 3_600_000;
  const nowMs = world.time.nowMs();
  await world.collector.review();
  await world.collector.stop();
  await world.assertNothingRuns();
  assert.equal(world.archive.presentMs, nowMs + 1);
});

test('why a stream stands is known, be it a feed that is refused or a page that lacks trades', async (t) => {
  const world = new World(t, ['A']);
  const rest = { price: '1', amount: '1', total: '1', type: 'buy' } as const;
  const atS = START_MS / 1000 - 60;
  world.exchange.answers.historyResult = () => [{ tid: 1, date: atS + 1, ...rest }];
  world.exchange.answers.history = () => [{ id: 9, time: atS + 9, ...rest }];
  await world.collector.start();
  await world.clock.run(0);
  // What was polled at the start satisfies the first run.
  for (let run = 0; run < 2; run += 1) await world.tick('trades');
  await world.feeds[0]?.feed.push({
    ...{ kind: 'closed', code: 1006, reason: 'connect_failed', detail: '404' },
    ...{ lastAliveExchangeMs: null, exchangeMs: START_MS, livedMs: 0 },
  });
  await world.clock.run(0);
  // By their schedules they are looked at once a year.
  world.clock.standStill(400 * 86_400_000);
  const notes = new Map(world.collector.standing.map(({ kind, note }) => [kind, note]));
  assert.match(notes.get('trades') ?? '', /lacks trades that another source shows \(history\)/);
  assert.equal(notes.get('states'), 'no connection was made: 404');
  await world.collector.stop();
});

test('without exact times the endpoint that has them is not asked', async (t) => {
  for (const exactTimes of [true, false]) {
    const world = new World(t, ['A'], SCHEDULES.trades, new ModelArchive(), 100, exactTimes);
    await world.collector.start();
    await world.clock.run(60_000);
    for (let run = 0; run < 2; run += 1) await world.tick('trades');
    assert.ok(world.exchange.countOf('historyResult') > 0);
    assert.equal(world.exchange.countOf('history') > 0, exactTimes);
    await world.collector.stop();
  }
});

test('only what its own streams are asked for is read of the requests', async (t) => {
  const world = new World(t, ['A']);
  await world.collector.start();
  const key = { kind: 'trades', marketId: 99, variant: 0 } as const;
  const other = await world.archive.ensureStream(key);
  const asked: (readonly number[])[] = [];
  const { fillRequests } = world.archive;
  world.archive.fillRequests = (nowMs, streamIds) => {
    asked.push(streamIds ?? []);
    return fillRequests.call(world.archive, nowMs, streamIds);
  };
  await world.collector.review();
  const fetched = world.archive.streams.filter(
    ({ streamId, kind }) => streamId !== other.streamId && ['trades', 'candles'].includes(kind),
  );
  assert.deepEqual(
    asked.map((ids) => ids.toSorted((a, b) => a - b)),
    [fetched.map(({ streamId }) => streamId).sort((a, b) => a - b)],
  );
  await world.collector.stop();
});

test('a start looks for no start of history in what retention gave up', async (t) => {
  const keptFromMs = START_MS - 2_000_000;
  const trade = (ageS: number) => {
    const tradedAtS = START_MS / 1000 - ageS;
    const terms = { price: '10', amount: '1', total: '10' };
    return { ...{ tid: 10_000 - ageS, tradedAtS }, ...terms };
  };
  const ages = Array.from({ length: 3000 }, (_, index) => index + 1);
  const archive = new ModelArchive();
  const world = new World(t, ['A'], SCHEDULES.trades, archive);
  const page = (skip: unknown, limit: unknown) =>
    ages.slice(Number(skip), Number(skip) + Number(limit)).map(trade);
  world.exchange.answers.historyResult = ({ since, limit }) =>
    page(since, limit).map(({ tradedAtS, ...row }) => ({ ...row, date: tradedAtS, type: 'buy' }));
  world.exchange.answers.history = ({ lastId, limit }) =>
    page(lastId, limit).map(({ tid, tradedAtS, ...row }) => ({
      ...{ ...row, id: tid, time: tradedAtS, type: 'buy' },
    }));
  const { ids } = await archive.ensureMarkets([marketEntry('A')], 0, { isComplete: true });
  const marketId = ids.get('A') ?? 0;
  const key = { kind: 'trades' as const, marketId, variant: 0 };
  const stream = await archive.ensureStream({ ...key, collectFromMs: keptFromMs });
  const rows = ages.slice(0, 2000).map((ageS) => {
    const { tradedAtS, ...row } = trade(ageS);
    const times = { tradedAtS, executedAtUs: tradedAtS * 1e6, receivedAtMs: START_MS };
    return { ...row, ...times, marketId, side: 'buy' as const };
  });
  const span = { fromMs: keptFromMs, toMs: START_MS };
  await archive.commit({ trades: rows, claims: [{ stream, span, evidence: {} }] });
  const { fillRequests } = archive;
  archive.fillRequests = async (nowMs, streamIds) => ({
    ...(await fillRequests.call(archive, nowMs, streamIds)),
    expired: { trades: keptFromMs, candles: null },
  });
  await world.collector.start();
  await world.clock.run(10_000);
  const asked = world.exchange.asked.flatMap(({ endpoint, params: { since, lastId } }) =>
    endpoint === 'historyResult' || endpoint === 'history' ? Number(since ?? lastId) : [],
  );
  assert.deepEqual([...new Set(asked)], [0], 'the head alone is asked for');
  assert.equal(archive.trades.size, 2000);
  await world.collector.stop();
});

test('a poll that failed is told, and the next one is made all the same', async (t) => {
  const world = new World(t);
  world.exchange.answers.depth = () => {
    throw new Error('not today');
  };
  await world.collector.start();
  await world.clock.run(0);
  assert.deepEqual(
    world.record.failures.map(({ stream, market, message, action }) => [
      stream,
      market,
      message,
      action,
    ]),
    [
      ['depth', 'A', 'not today', 'retry'],
      ['depth', 'B', 'not today', 'retry'],
    ],
  );
  await world.tick('depth');
  assert.equal(world.record.failures.length, 4);
  await world.collector.stop();
});

test('the first list of markets is waited for, without a hot loop', async (t) => {
  const world = new World(t);
  world.names = [];
  const started = world.collector.start();
  await world.clock.run(600_000);
  const asked = world.exchange.countOf('markets');
  assert.ok(asked > 10 && asked < 200, `${asked} requests in 10 minutes`);
  assert.equal(world.record.failures.length, asked);
  world.names = ['A'];
  await world.clock.run(15_000);
  await started;
  assert.deepEqual(world.collector.markets, ['A']);
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('a refresh while the first list is awaited opens no market twice', async (t) => {
  const world = new World(t);
  const { opened: held, open: release } = gate();
  world.archive.before = (method) => (method === 'ensureStream' ? held : undefined);
  const started = world.collector.start();
  await world.tick('markets');
  release();
  await started;
  await world.clock.run(0);
  assert.deepEqual(world.openFeeds(), ['A', 'B']);
  await world.collector.stop();
  await world.assertNothingRuns();
});

for (const method of ['ensureMarkets', 'ensureStream', 'coveredRanges'] as const) {
  test(`stopping while ${method} of the start is under way leaves nothing running`, async (t) => {
    const world = new World(t);
    const { opened: held, open: release } = gate();
    world.archive.before = (called) => (called === method ? held : undefined);
    const started = assert.rejects(world.collector.start(), { code: 'aborted' });
    await world.clock.run(0);
    let isStopped = false;
    const stopped = world.collector.stop().then(() => {
      isStopped = true;
    });
    await world.clock.run(1000);
    assert.equal(isStopped, false, 'it waits for the start to end');
    release();
    await Promise.all([stopped, started]);
    await world.assertNothingRuns();
  });
}

test('stopping while the tickers are being opened leaves nothing running', async (t) => {
  const world = new World(t);
  const { opened: held, open: release } = gate();
  const { ensureStream } = world.archive;
  let hasReached = false;
  world.archive.ensureStream = async (key) => {
    if (key.kind === 'tickers') {
      hasReached = true;
      await held;
    }
    return ensureStream.call(world.archive, key);
  };
  const started = assert.rejects(world.collector.start(), { code: 'aborted' });
  await world.clock.run(0);
  await world.clock.run(0);
  assert.ok(hasReached);
  const stopped = world.collector.stop();
  release();
  await Promise.all([stopped, started]);
  await world.assertNothingRuns();
});

test('stopping waits for a commit under way; a second stop waits for the first', async (t) => {
  const world = new World(t);
  const { opened: held, open: release } = gate();
  await world.collector.start();
  world.archive.before = (method) => (method === 'commit' ? held : undefined);
  await world.tick('trades');
  const done: string[] = [];
  const stops = [1, 2].map((count) =>
    world.collector.stop().then(() => done.push(`stop ${count}`)),
  );
  await world.clock.run(1000);
  assert.deepEqual(done, []);
  release();
  await Promise.all(stops);
  assert.equal(done.length, 2);
  await assert.doesNotReject(world.collector.stop());
  await world.assertNothingRuns();
});

/** No answer before the caller ends it. */
const hanging = (_: unknown, signal?: AbortSignal) =>
  new Promise<never>((_resolve, reject) => {
    signal?.addEventListener('abort', () => reject(signal.reason as Error));
  });

test('a stop while the exchange does not answer leaves a gap that says so, also after the next start', async (t) => {
  const archive = new ModelArchive();
  const world = new World(t, ['A'], SCHEDULES.trades, archive);
  await world.collector.start();
  await world.clock.run(2000);
  // The same again: covered, and not written yet.
  await world.tick('depth');
  await world.tick('tickers');
  Object.assign(world.exchange.answers, { depth: hanging, tickers: hanging });
  await world.clock.run(2000);
  await world.tick('depth');
  await world.tick('tickers');
  await world.clock.run(7000);
  await world.collector.stop();

  const later = new World(t, ['A'], SCHEDULES.trades, archive);
  later.clock.advance(60_000);
  await later.collector.start();
  await later.clock.run(0);
  await later.collector.stop();
  for (const kind of ['depth', 'tickers']) {
    const [stream] = archive.streams.filter((one) => one.kind === kind);
    const gaps = stream === undefined ? [] : archive.gapsOf(stream, later.time.nowMs());
    assert.deepEqual(
      gaps.map(({ span, reason, note }) => [
        span.fromMs - START_MS,
        span.toMs - START_MS,
        reason,
        note,
      ]),
      [
        [
          ...[2001, 60_000, 'not observed'],
          'a request waited 7.0s for its turn or its answer; the program stopped at 2026-01-01 12:00:11',
        ],
      ],
      kind,
    );
  }
});

test('a stop while a request is under way, as requests are, leaves no gap of what is seen live', async (t) => {
  const world = new World(t, ['A']);
  const { archive, clock, collector, exchange } = world;
  await collector.start();
  await clock.run(2000);
  exchange.answers.depth = hanging;
  await world.tick('depth');
  await clock.run(1000);
  await collector.stop();
  const [depth] = archive.streams.filter(({ kind }) => kind === 'depth');
  assert.deepEqual(archive.memories.get(depth?.streamId ?? 0) ?? [], []);
});

test('a schedule that is none is fatal and names the setting', async (t) => {
  const world = new World(t, [], 'now and then');
  await assert.rejects(world.collector.start(), {
    code: 'bad_schedule',
    action: 'fatal',
    message: /^streams\.trades\.schedule: "now and then"/,
  });
  await world.collector.stop();
  await world.assertNothingRuns();
});

test('what cannot be fetched later is expected from the moment its stream is made', async (t) => {
  const world = new World(t, ['A']);
  await world.collector.start();
  const floors = world.archive.streams
    .filter(({ kind }) => ['depth', 'tickers', 'states'].includes(kind))
    .map(({ kind, collectFromMs }) => [kind, collectFromMs]);
  assert.deepEqual(floors.sort(), [
    ['depth', START_MS],
    ['states', START_MS],
    ['tickers', START_MS],
  ]);
  await world.collector.stop();
});

test('a traded minute whose candle an earlier run gave up is given up at the first look', async (t) => {
  const lostMs = START_MS - 5_400_000;
  const hourMs = Math.floor(lostMs / 3_600_000) * 3_600_000;
  const prices = { open: '5', close: '5', highest: '5', lowest: '5', volume: '1', amount: '5' };
  const start = async (archive: ModelArchive) => {
    const world = new World(t, ['A'], SCHEDULES.trades, archive);
    world.exchange.answers.kline = ({ market, start, end, interval }) => {
      const [fromS, toS, stepS] = [start, end, interval].map(Number) as [number, number, number];
      const opens = Array.from({ length: (toS - fromS) / stepS }, (_, n) => fromS + n * stepS);
      const shown = opens.filter((openS) => openS * 1000 !== (stepS === 60 ? lostMs : hourMs));
      const kline = shown.map((time) => ({ ...prices, time, market }));
      return { market, start, end, interval, kline };
    };
    await world.collector.start();
    await world.clock.run(0);
    await world.tick('candles');
    await world.collector.stop();
    const gaps = await archive.listGaps({ reasons: ['walk stalled'], limit: 10 }, START_MS);
    const ofMinutes = gaps.filter(({ variant }) => variant === 60);
    return ofMinutes.map(({ span, state, reason }) => [span.fromMs, state, reason]);
  };
  const archive = new ModelArchive();
  const { ids } = await archive.ensureMarkets([marketEntry('A')] as never, START_MS);
  const marketId = ids.get('A') ?? 0;
  await archive.commit({
    trades: [
      {
        ...{ marketId, tid: 1, side: 'buy', price: '5', amount: '1', total: '5' },
        ...{ tradedAtS: lostMs / 1000, executedAtUs: null, receivedAtMs: START_MS },
      },
    ],
  });
  const gapOf = async (intervalS: number) => {
    const gaps = await archive.listGaps({ limit: 20 }, START_MS);
    const found = gaps.find(({ variant, span }) => variant === intervalS && span.fromMs <= lostMs);
    return found ?? assert.fail(`no gap of ${intervalS} s`);
  };
  const giveUp = async ({ streamId, span }: Gap) => {
    const stream = archive.streams.find((one) => one.streamId === streamId) ?? assert.fail();
    const given = { state: 'unfillable', reason: 'walk stalled', isAttempt: true } as const;
    await archive.commit({ findings: [{ ...given, stream, span, atMs: START_MS }] });
  };
  const opened = [[lostMs, 'open', 'walk stalled']];
  assert.deepEqual(await start(archive), opened);
  await giveUp(await gapOf(3600));
  assert.deepEqual(await start(archive), opened, 'neither one look nor longer candles speak of it');
  await giveUp(await gapOf(60));
  assert.deepEqual(await start(archive), [[lostMs, 'unfillable', 'walk stalled']]);
});

test('a market that only the tickers show to be away ends what its depth covers, once', async (t) => {
  const world = new World(t, ['B']);
  const { archive, clock } = world;
  await world.collector.start();
  await world.tick('depth');
  const [depth] = archive.streams.filter(({ kind }) => kind === 'depth');
  const look = async () => {
    await clock.run(1000);
    await world.tick('depth');
    await world.tick('tickers');
  };
  await look();
  world.names = ['A'];
  await clock.run(500);
  await world.tick('tickers');
  const awayMs = world.time.nowMs();
  // One that has no ticker for longer, and answers all the same, is there.
  await look();
  await look();
  world.names = ['A', 'B'];
  await look();
  await world.collector.stop();
  const gaps = depth === undefined ? [] : archive.gapsOf(depth, world.time.nowMs());
  assert.deepEqual(
    gaps.map(({ span: { fromMs, toMs }, note }) => [fromMs < awayMs, toMs > awayMs, note]),
    [[true, true, 'the ticker of B is not in the answer']],
  );
});

test('tickers are taken, and covered, of the markets that are collected and of no others', async (t) => {
  const archive = new ModelArchive();
  const { ids } = await archive.ensureMarkets(['A', 'B'].map(marketEntry), START_MS);
  const world = new World(t, ['B'], SCHEDULES.trades, archive);
  world.names = ['A', 'B', 'C'];
  await world.collector.start();
  await world.clock.run(0);
  assert.deepEqual(world.collector.markets, ['B']);
  const tickers = archive.streams.filter(({ kind }) => kind === 'tickers');
  assert.deepEqual(
    tickers.map(({ marketId, streamId }) => [marketId, archive.allRanges(streamId).length]),
    [[ids.get('B'), 1]],
  );
  assert.deepEqual(
    archive.tickers.map(({ marketId }) => marketId),
    [ids.get('B')],
  );
  await world.collector.stop();
});

type Three = [number, number, number];

test('restricted to requests, it fills them and nothing else, and leaves the head alone', async (t) => {
  const isChosen: CollectorOptions['only'] = (market, kind, variant) =>
    market === 'A' ? kind === 'trades' : kind === 'candles' && variant === 60;
  const every = '*/2 * * * * *';
  const world = new World(t, ['A', 'B'], every, new ModelArchive(), 100, false, isChosen);
  const { archive, clock, collector, exchange } = world;
  const trades = Array.from({ length: 200 }, (_, at) => {
    const tid = 200 - at;
    return {
      tid,
      date: START_MS / 1000 - 1 - at,
      price: '1',
      amount: '1',
      total: '1',
      type: 'buy',
    };
  });
  exchange.answers.historyResult = ({ since, limit }) => {
    return trades.slice(Number(since), Number(since) + Number(limit));
  };
  exchange.answers.kline = ({ market, ...asked }) => {
    const [start, end, interval] = [asked.start, asked.end, asked.interval].map(Number) as Three;
    const figures = { open: '1', close: '1', highest: '1', lowest: '1', volume: '1', amount: '1' };
    const rows = Array.from({ length: (end - start) / interval + 1 }, (_, at) => at);
    const kline = rows.map((at) => ({ time: start + at * interval, market, ...figures }));
    return { market, start, end, interval, kline };
  };
  await collector.start();
  await collector.review();
  await clock.run(60_000);
  assert.deepEqual([...new Set(exchange.asked.map(({ endpoint }) => endpoint))], ['markets']);
  assert.deepEqual(
    archive.streams.map(({ marketId, kind, variant }) => [marketId, kind, variant]),
    [
      [1, 'trades', 0],
      [2, 'candles', 60],
    ],
  );
  const span = { fromMs: START_MS - 150_000, toMs: START_MS - 120_000 };
  const day = { fromMs: START_MS - 86_400_000, toMs: START_MS - 86_280_000 };
  const [ofA = assert.fail(), ofB = assert.fail()] = archive.streams;
  await archive.want(ofA, span);
  await archive.want(ofB, day);
  const isFilled = ({ streamId }: { streamId: number }, { fromMs, toMs }: typeof span) =>
    archive.allRanges(streamId).some((range) => {
      return range.span.fromMs <= fromMs && toMs <= range.span.toMs;
    });
  for (let look = 0; look < 20 && !(isFilled(ofA, span) && isFilled(ofB, day)); look += 1) {
    await collector.review();
    await clock.run(3000);
  }
  assert.ok(isFilled(ofA, span) && isFilled(ofB, day));
  const asked = (endpoint: 'historyResult' | 'history' | 'kline') => exchange.countOf(endpoint);
  assert.deepEqual([asked('history'), asked('kline')], [0, 1]);
  const before = asked('historyResult');
  await clock.run(600_000);
  await collector.review();
  assert.equal(asked('historyResult'), before);
  assert.equal(asked('kline'), 1);
  assert.deepEqual([...archive.memories.values()].flat(), [], 'nothing is expected of the present');
  await collector.stop();
  await world.assertNothingRuns();
});
