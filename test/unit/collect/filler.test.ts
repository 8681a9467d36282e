import assert from 'node:assert/strict';
import test from 'node:test';
import { GapFiller } from '../../../src/collect/trades/filler.js';
import { resultSource } from '../../../src/collect/trades/source.js';
import { noTraits } from '../../../src/collect/trades/walk.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { CollectRecord } from '../../support/worlds/collect-record.js';
import { knownMode } from '../../support/worlds/trade-world.js';

const START_MS = Date.UTC(2026, 0, 1);
const { signal } = new AbortController();
const PAGE = 50;

/** Markets with one trade a second from the start on, and a filler over their walkers. */
class World {
  readonly clock = new FakeClock(START_MS);
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  readonly filler: GapFiller;
  isFailing = false;
  waiting: Array<() => void> = [];
  isHeld = false;
  readonly exchange = new ScriptedExchange(this.clock, {
    historyResult: async ({ since, limit }) => {
      if (this.isFailing) throw new Error('not today');
      const newest = (this.clock.wallMs() - START_MS) / 1000 - 1 - Number(since);
      const size = Math.max(0, Math.min(PAGE, Number(limit), newest));
      if (this.isHeld) await new Promise<void>((resolve) => this.waiting.push(resolve));
      return Array.from({ length: size }, (_, index) => ({
        tid: newest - index,
        date: START_MS / 1000 + newest - index,
        price: '1',
        amount: '1',
        total: '1',
        type: 'buy',
      }));
    },
  });

  /** Whether walks were busy, at the end of each step. */
  readonly stepped: boolean[] = [];
  readonly walkers: TradeWalker[] = [];

  constructor(concurrency = 1) {
    this.filler = new GapFiller({
      exchange: this.exchange,
      clock: this.clock,
      telemetry: this.record,
      concurrency,
      onStepped: () => this.stepped.push(this.walkers.some(({ isBusy }) => isBusy)),
    });
    this.clock.advance(1000_000);
  }

  walker(market: string, marketId: number): TradeWalker {
    const stream = {
      streamId: marketId,
      kind: 'trades',
      marketId,
      variant: 0,
      collectFromMs: null,
    } as const;
    return new TradeWalker(
      {
        market,
        marketId,
        stream,
        source: resultSource(this.exchange),
        archive: this.archive,
        time: { nowMs: () => this.clock.wallMs() },
        clock: this.clock,
        random: seededRandom(marketId),
        telemetry: this.record,
        cacheMarginMs: 0,
        keptAtLeastMs: 900_000,
        isAllWanted: true,
        traits: { ...noTraits(), historyResult: { largestPage: PAGE } },
        offsets: knownMode(() => 'skip'),
      },
      this.archive.allRanges(marketId),
      this.archive.trades.size > 0,
    );
  }

  marketsAsked(from = 0): string[] {
    return this.exchange.asked.slice(from).map(({ params }) => String(params.market));
  }
}

test('all gaps are filled, and then nothing is asked any more', async () => {
  const world = new World(4);
  const walkers = [world.walker('A', 1), world.walker('B', 2), world.walker('C', 3)];
  for (const walker of walkers) {
    await walker.pollHead(signal);
    world.filler.add(walker);
  }
  world.filler.start();
  world.filler.start();
  await world.clock.run(10_000);
  assert.deepEqual(
    walkers.map((walker) => walker.pendingGap()),
    [undefined, undefined, undefined],
  );
  assert.equal(world.archive.trades.size, 3 * 999);
  const asked = world.exchange.asked.length;
  await world.clock.run(60_000);
  assert.equal(world.exchange.asked.length, asked);
  await world.filler.stop();
});

test('the end of every step is told, when the walk is free again', async () => {
  const world = new World();
  const walker = world.walker('A', 1);
  await walker.pollHead(signal);
  world.walkers.push(walker);
  world.filler.add(walker);
  const before = world.exchange.asked.length;
  world.filler.start();
  await world.clock.run(0);
  world.isFailing = true;
  await world.clock.run(10_000);
  await world.filler.stop();
  assert.ok(world.exchange.asked.length > before + 3);
  assert.ok(world.stepped.length >= world.record.failures.length);
  assert.ok(world.stepped.length > 3);
  assert.ok(world.record.failures.length > 1, 'of failed steps, too');
  assert.ok(!world.stepped.includes(true));
});

test('the newest gap goes first', async () => {
  const world = new World();
  const old = world.walker('OLD', 1);
  await old.pollHead(signal);
  world.clock.advance(500_000);
  const deep = world.walker('DEEP', 2);
  await deep.pollHead(signal);
  world.clock.advance(2_000_000);
  // DEEP holds two covered ranges: its newest gap is newer than that of OLD, which touches the head.
  const again = world.walker('DEEP', 2);
  await again.pollHead(signal);
  const before = world.exchange.asked.length;
  for (const walker of [old, again]) world.filler.add(walker);
  world.isHeld = true;
  world.filler.start();
  await world.clock.run(0);
  assert.deepEqual(world.marketsAsked(before), ['DEEP'], 'both are at the top: the newest gap');
  for (const wake of world.waiting.splice(0)) wake();
  world.isHeld = false;
  await world.clock.run(20_000);
  await world.filler.stop();
  assert.deepEqual([old.pendingGap(), again.pendingGap()], [undefined, undefined]);
});

test('a walk that lost touch with the head goes before a newer gap deep in another history', async () => {
  const world = new World();
  const top = world.walker('TOP', 1);
  await top.pollHead(signal);
  world.clock.advance(1_000_000);
  await world.walker('DEEP', 2).pollHead(signal);
  world.clock.advance(2_000_000);
  const deep = world.walker('DEEP', 2);
  await deep.pollHead(signal);
  world.isFailing = true;
  await assert.rejects(deep.fillStep(signal), /not today/);
  world.isFailing = false;
  const [newer, older] = [deep.pendingGap(), top.pendingGap()];
  assert.deepEqual([newer?.isTop, older?.isTop], [false, true]);
  assert.ok((newer?.edgeMs ?? 0) > (older?.edgeMs ?? 0));
  const before = world.exchange.asked.length;
  for (const walker of [deep, top]) world.filler.add(walker);
  world.isHeld = true;
  world.filler.start();
  await world.clock.run(0);
  assert.deepEqual(world.marketsAsked(before), ['TOP']);
  world.isHeld = false;
  for (const wake of world.waiting.splice(0)) wake();
  await world.filler.stop();
});

test('while the exchange fails a gap is tried ever more rarely, and about once a minute at last', async () => {
  const world = new World(4);
  const walkers = ['A', 'B', 'C'].map((market, index) => world.walker(market, index + 1));
  for (const walker of walkers) {
    await walker.pollHead(signal);
    world.filler.add(walker);
  }
  const before = world.exchange.asked.length;
  world.isFailing = true;
  world.filler.start();
  await world.clock.run(600_000);
  const inTenMinutes = world.exchange.asked.length - before;
  assert.ok(inTenMinutes >= 27 && inTenMinutes <= 75, `${inTenMinutes} requests in 10 minutes`);
  assert.equal(world.record.failures.length, inTenMinutes, 'each failure is told');
  await world.clock.run(6_000_000);
  const later = world.exchange.asked.length - before - inTenMinutes;
  assert.ok(later >= 300 && later <= 600, `${later} requests in the next 100 minutes`);
  world.isFailing = false;
  for (const walker of walkers) await walker.pollHead(signal);
  await world.clock.run(1_300_000);
  assert.equal(world.archive.allRanges(1).length, 1);
  // The second of the oldest trade proves nothing.
  const span = world.archive.allRanges(1)[0]?.span;
  const [first] = await world.archive.storedTrades(1, span ?? { fromMs: 0, toMs: 0 }, 1);
  assert.equal(first?.tid, 2, 'afterwards they are filled');
  await world.filler.stop();
});

test('no more walkers are at work at the same time than allowed, each at most once', async () => {
  const world = new World(2);
  for (const [index, market] of ['A', 'B', 'C'].entries()) {
    const walker = world.walker(market, index + 1);
    await walker.pollHead(signal);
    world.filler.add(walker);
  }
  world.isHeld = true;
  world.filler.start();
  await world.clock.run(30_000);
  assert.equal(world.waiting.length, 2);
  assert.equal(new Set(world.marketsAsked(3)).size, 2);
  world.isHeld = false;
  for (const wake of world.waiting.splice(0)) wake();
  await world.filler.stop();
});

test('stopping waits for what is under way, then nothing runs; a removed walker is left alone', async () => {
  const world = new World();
  const [walker, removed] = [world.walker('A', 1), world.walker('B', 2)];
  for (const one of [walker, removed]) {
    await one.pollHead(signal);
    world.filler.add(one);
  }
  world.filler.remove(removed);
  world.isHeld = true;
  world.filler.start();
  await world.clock.run(1);
  assert.equal(world.waiting.length, 1);
  let isStopped = false;
  const stopping = world.filler.stop().then(() => {
    isStopped = true;
  });
  await world.clock.run(5000);
  assert.equal(isStopped, false);
  world.isHeld = false;
  for (const wake of world.waiting.splice(0)) wake();
  await stopping;
  const asked = world.exchange.asked.length;
  await world.clock.run(60_000);
  assert.equal(world.exchange.asked.length, asked);
  assert.equal(world.clock.pendingTimers, 0);
  assert.ok(!world.marketsAsked(2).includes('B'));
  await world.filler.stop();
});

test('a gap without end lets others have their turn, and a turn is not broken off', async () => {
  const world = new World();
  const walkers = [world.walker('A', 1), world.walker('B', 2)];
  world.clock.advance(9_000_000);
  for (const walker of walkers) {
    await walker.pollHead(signal);
    world.filler.add(walker);
  }
  const before = world.exchange.asked.length;
  world.filler.start();
  for (let turns = 0; turns < 50; turns += 1) await world.clock.run(1000);
  await world.filler.stop();
  const order = world.marketsAsked(before);
  const changes = order.filter((market, at) => at > 0 && market !== order[at - 1]).length;
  assert.ok(order.length > 300, `${order.length} requests`);
  assert.deepEqual(new Set(order.slice(0, 40)), new Set(['A', 'B']));
  assert.ok(changes >= 5 && changes < order.length / 10, `${changes} changes`);
});

test('a walk that lost touch with the head stands back after its turn for gaps deep in other histories', async () => {
  const world = new World();
  const top = world.walker('TOP', 1);
  await top.pollHead(signal);
  await world.walker('DEEP', 2).pollHead(signal);
  world.clock.advance(9_000_000);
  const deep = world.walker('DEEP', 2);
  await deep.pollHead(signal);
  await top.pollHead(signal);
  world.isFailing = true;
  await assert.rejects(deep.fillStep(signal), /not today/);
  world.isFailing = false;
  assert.deepEqual([deep.pendingGap()?.isTop, top.pendingGap()?.isTop], [false, true]);
  const before = world.exchange.asked.length;
  for (const walker of [deep, top]) world.filler.add(walker);
  world.filler.start();
  for (let turns = 0; turns < 30; turns += 1) await world.clock.run(0);
  await world.filler.stop();
  const order = world.marketsAsked(before);
  assert.ok(order.length > 100, `${order.length} requests`);
  // Of 20 steps the first one takes 12 requests, in search of its place.
  assert.equal(order.indexOf('DEEP'), 12 + 19, order.join(' '));
});

test('a step that a stop breaks off is told as no failure', async () => {
  const world = new World();
  const walker = world.walker('A', 1);
  await walker.pollHead(signal);
  world.filler.add(walker);
  let asked = 0;
  world.exchange.answers.historyResult = (_params, stopping) => {
    asked += 1;
    return new Promise((_resolve, reject) => {
      stopping?.addEventListener('abort', () => reject(new Error('the connection was closed')));
    });
  };
  world.filler.start();
  await world.clock.run(0);
  assert.equal(asked, 1);
  await world.filler.stop();
  assert.deepEqual(world.record.failures, []);
});

test('a turn that cannot be had is told as a failure, but not where a stop ends the wait for it', async () => {
  const world = new World();
  const walker = world.walker('A', 1);
  await walker.pollHead(signal);
  world.filler.add(walker);
  let asked = 0;
  world.exchange.reserve = (_name, _priority, stopping) => {
    asked += 1;
    if (asked === 1) return Promise.reject(new Error('no room in line'));
    return new Promise((_resolve, reject) => {
      stopping.addEventListener('abort', () => reject(new Error('the line was closed')));
    });
  };
  world.filler.start();
  await world.clock.run(2000);
  assert.equal(asked, 2);
  await world.filler.stop();
  assert.deepEqual(
    world.record.failures.map(({ market, message }) => [market, message]),
    [['*', 'no room in line']],
  );
});
