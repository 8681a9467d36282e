import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { timesSource, tradesSource } from '../../../src/collect/trades/source.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { Island, StreamRef } from '../../../src/ledger/batch.js';
import { CollectRecord } from '../../support/collect-record.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/model-archive.js';
import { ScriptedExchange } from '../../support/scripted-exchange.js';

/** The walk over an exchange whose history is written down trade by trade, over both endpoints. */

const START_MS = Date.UTC(2026, 0, 1);
const START_S = START_MS / 1000;
const MARKET = 'BTC_USDT';
const { signal } = new AbortController();

interface Trade {
  readonly tid: number;
  /** Seconds after the start, may have a fraction. */
  readonly atS: number;
  /** Sent in a form that validation refuses. */
  isBroken?: boolean;
  price?: string;
}

const every = (count: number, stepS: number, fromS = 0): Trade[] =>
  Array.from({ length: count }, (_, index) => ({ tid: index + 1, atS: fromS + index * stepS }));

class World {
  readonly clock = new FakeClock(START_MS);
  readonly archive = new ModelArchive();
  readonly record = new CollectRecord();
  readonly exchange: ScriptedExchange;
  trades: Trade[];
  cap = 1000;
  readonly #traits = { trades: { largestPage: 0 }, times: { largestPage: 0 } };

  constructor(trades: Trade[], nowS: number) {
    this.trades = trades;
    this.clock.advance(nowS * 1000);
    this.exchange = new ScriptedExchange(this.clock, {
      historyResult: ({ since, limit }) =>
        this.#page(since, limit).map((trade) => ({
          tid: trade.tid,
          date: START_S + Math.floor(trade.atS),
          ...fieldsOf(trade),
        })),
      history: ({ lastId, limit }) =>
        this.#page(lastId, limit).map((trade) => ({
          id: trade.tid,
          time: START_S + trade.atS,
          ...fieldsOf(trade),
        })),
    });
  }

  #page(skip: unknown, limit: unknown): Trade[] {
    const size = Math.min(Number(limit), this.cap);
    return [...this.trades].reverse().slice(Number(skip), Number(skip) + size);
  }

  walker(kind: 'trades' | 'times' = 'trades', collectFromS?: number): TradeWalker {
    const streamId = kind === 'trades' ? 1 : 2;
    const collectFromMs =
      this.archive.floorOf(streamId) ??
      (collectFromS === undefined ? null : START_MS + collectFromS * 1000);
    const stream: StreamRef = { streamId, kind, marketId: 7, variant: 0, collectFromMs };
    const source = kind === 'trades' ? tradesSource(this.exchange) : timesSource(this.exchange);
    const options = {
      market: MARKET,
      marketId: 7,
      stream,
      source,
      archive: this.archive,
      time: { nowMs: () => this.clock.wallMs() },
      clock: this.clock,
      random: seededRandom(1),
      telemetry: this.record,
      cacheMarginMs: 0,
      traits: this.#traits[kind],
    };
    return new TradeWalker(options, this.archive.allIslands(streamId));
  }

  /** Covered spans in seconds after the start, newest first. */
  covered(streamId = 1): Array<[number, number]> {
    return this.archive
      .allIslands(streamId)
      .map(({ span }) => [afterStart(span.fromMs), afterStart(span.toMs)]);
  }

  gaps(): Array<[number, number, string]> {
    return this.archive.gaps.map(({ span, state }) => [
      afterStart(span.fromMs),
      afterStart(span.toMs),
      state,
    ]);
  }

  assertHonest(streamId = 1): void {
    for (const { span } of this.archive.allIslands(streamId)) {
      for (const { tid, atS } of this.trades) {
        const second = Math.floor(atS);
        if (START_MS + second * 1000 < span.fromMs || START_MS + second * 1000 >= span.toMs)
          continue;
        const stored = this.archive.trades.get(`7 ${START_S + second} ${tid}`);
        assert.ok(stored !== undefined, `trade ${tid} is covered but not stored`);
        if (streamId === 2) assert.notEqual(stored.executedAtUs, null);
      }
    }
  }
}

const afterStart = (ms: number) => (ms - START_MS) / 1000;
const fieldsOf = ({ price, isBroken }: Trade) => ({
  price: isBroken === true ? 'NaN' : (price ?? '10'),
  amount: '1',
  total: '10',
  type: 'buy',
});

async function fillAll(walker: TradeWalker, limit = 50): Promise<number> {
  let steps = 0;
  while (walker.pendingGap() !== undefined) {
    steps += 1;
    assert.ok(steps < limit, 'the walk does not end');
    await walker.fillStep(signal);
  }
  return steps;
}

test('a refused row in the middle of a page leaves its seconds open, listed, and the rest covered', async () => {
  const trades = every(10, 2);
  trades[5] = { tid: 6, atS: 10, isBroken: true };
  const world = new World(trades, 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [
    [13, 30],
    [0, 8],
  ]);
  assert.deepEqual(world.gaps(), [[8, 13, 'open']]);
  assert.equal(world.archive.quarantine.length, 1);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a refused newest row leaves everything above the readable one open', async () => {
  const trades = every(5, 2);
  trades[4] = { tid: 5, atS: 8, isBroken: true };
  const world = new World(trades, 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[0, 6]]);
  assert.deepEqual(world.gaps(), [[6, 30, 'open']]);
  for (let poll = 0; poll < 5; poll += 1) {
    world.clock.advance(6000);
    await walker.pollHead(signal);
  }
  assert.equal(world.archive.quarantine.length, 1, 'the same refused row is kept once');
  assert.equal(world.record.gaps.length, 1, 'a gap that grows is told once');
  assert.deepEqual(world.gaps().at(-1), [6, 60, 'open']);
  world.record.assertAccounted('trades');
  world.trades.push({ tid: 6, atS: 61 });
  world.clock.advance(6000);
  await walker.pollHead(signal);
  world.trades[4] = { tid: 5, atS: 8 };
  world.clock.advance(1_200_000);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.equal(world.covered().length, 1, 'a row that can be read later closes the gap');
  world.assertHonest();
});

test('refused rows at the bottom of history leave its begin open, without asking again and again', async () => {
  const trades = every(6, 2);
  trades[0] = { tid: 1, atS: 0, isBroken: true };
  trades[1] = { tid: 2, atS: 2, isBroken: true };
  const world = new World(trades, 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[5, 30]]);
  assert.equal(world.archive.floorOf(1), null, 'the begin of history is not known');
  assert.deepEqual(world.gaps(), [[4, 5, 'open']]);
  const before = world.exchange.asked.length;
  world.clock.advance(60_000);
  await fillAll(walker);
  assert.equal(world.exchange.asked.length, before);
  world.trades = every(6, 2);
  world.clock.advance(600_000);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[0, 30]]);
  assert.equal(world.archive.floorOf(1), START_MS);
});

test('refused rows across the end of a page do not stop the walk below them', async () => {
  const trades = every(400, 1);
  for (const index of [298, 299, 300, 301, 302]) {
    trades[index] = { tid: index + 1, atS: index, isBroken: true };
  }
  const world = new World(trades, 450);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  const steps = await fillAll(walker);
  assert.ok(steps < 12, `${steps} steps for 400 trades in pages of 100`);
  assert.deepEqual(world.covered(), [
    [304, 450],
    [0, 297],
  ]);
  assert.ok(world.archive.gaps.length > 0);
  assert.ok(
    world.gaps().every(([fromS, toS, state]) => fromS >= 297 && toS <= 304 && state === 'open'),
  );
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('a page full of refused rows is no end of history', async () => {
  const trades = every(400, 1).map((trade) =>
    trade.tid > 100 && trade.tid < 300 ? { ...trade, isBroken: true } : trade,
  );
  const world = new World(trades, 450);
  world.cap = 100;
  const walker = world.walker();
  await walker.pollHead(signal);
  await assert.rejects(fillAll(walker), { code: 'walk_stalled' });
  assert.equal(walker.pendingGap(), undefined, 'it is put off');
  assert.equal(world.archive.floorOf(1), null);
  assert.ok(world.archive.gaps.every(({ state }) => state === 'open'));
  assert.ok(world.archive.quarantine.length > 90, 'refused rows are kept');
  world.record.assertAccounted('trades');
});

test('a market without trades is covered as empty, and so is the time before its first trade', async () => {
  const world = new World([], 100);
  const walker = world.walker();
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[99, 100]]);
  world.clock.advance(6500);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[99, 106]]);
  world.trades = [{ tid: 1, atS: 106.7 }];
  world.clock.advance(10_000);
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[99, 116]]);
  assert.deepEqual(world.gaps(), []);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

test('coverage ends with a whole second: what happens later in it was never called covered', async () => {
  const world = new World(every(3, 2), 10.5);
  await world.walker().pollHead(signal);
  world.trades.push({ tid: 4, atS: 10.9 });
  world.assertHonest();
});

test('history bounded by a duration is walked to there and no further', async () => {
  const world = new World(every(1000, 1), 1000);
  world.cap = 100;
  const walker = world.walker('trades', 450);
  await walker.pollHead(signal);
  await fillAll(walker);
  const [[fromS, toS] = [0, 0]] = world.covered();
  assert.ok(fromS <= 450 && fromS > 300, `covered from ${fromS}`);
  assert.equal(toS, 1000);
  assert.equal(world.covered().length, 1);
  assert.deepEqual(world.gaps(), []);
});

test('a quiet market of a bounded history is asked for small pages', async () => {
  const world = new World(every(500, 1), 10_000);
  const walker = world.walker('trades', 9000);
  for (let poll = 0; poll < 12; poll += 1) {
    await walker.pollHead(signal);
    world.clock.advance(6000);
  }
  assert.ok(Number(world.exchange.asked.at(-1)?.params.limit) < 100);
});

test('what the exchange has forgotten between two islands is unfillable, and asked for rarely', async () => {
  const world = new World(every(50, 1), 60);
  const first = world.walker();
  await first.pollHead(signal);
  await fillAll(first);
  world.trades = every(100, 1, 200).map(({ tid, atS }) => ({ tid: tid + 1000, atS }));
  world.clock.advance(340_000);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [
    [201, 400],
    [0, 60],
  ]);
  assert.deepEqual(world.gaps(), [[60, 201, 'unfillable']]);
  const before = world.exchange.asked.length;
  world.clock.advance(1_800_000);
  await fillAll(walker);
  assert.equal(world.exchange.asked.length, before);
  world.record.assertAccounted('trades');
});

test('a head older than what is stored is an error and claims nothing, over a restart as well', async () => {
  const world = new World(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  const all = world.trades;
  const covered = world.covered();
  world.trades = all.slice(0, 15);
  world.clock.advance(60_000);
  await assert.rejects(walker.pollHead(signal), { code: 'walk_stalled' });
  await assert.rejects(world.walker().pollHead(signal), { code: 'walk_stalled' });
  assert.deepEqual(world.covered(), covered);
  world.trades = [];
  await assert.rejects(walker.pollHead(signal), { code: 'walk_stalled' });
  assert.deepEqual(world.covered(), covered);
  world.record.assertAccounted('trades');
});

test('a stale head is seen after a restart although the newest island holds no trade', async () => {
  const trades = every(20, 1);
  trades[18] = { tid: 19, atS: 18, isBroken: true };
  const world = new World(trades, 30);
  await world.walker().pollHead(signal);
  assert.deepEqual(world.covered()[0], [20, 30]);
  assert.equal(world.archive.allIslands(1)[0]?.lastId, null);
  world.trades = trades.slice(0, 10);
  world.clock.advance(60_000);
  const before = world.covered();
  await assert.rejects(world.walker().pollHead(signal), { code: 'walk_stalled' });
  assert.deepEqual(world.covered(), before);
});

test('a trade that is dated into the future does not cover the time until then', async () => {
  const world = new World([...every(20, 1), { tid: 21, atS: 40_000 }], 30);
  await world.walker().pollHead(signal);
  assert.deepEqual(world.covered(), [[1, 30]]);
});

test('exact times are walked over their own endpoint; both walks end with the same trades', async () => {
  const trades = every(300, 0.25);
  const world = new World(trades, 100);
  world.cap = 60;
  const [result, times] = [world.walker('trades'), world.walker('times')];
  await Promise.all([result.pollHead(signal), times.pollHead(signal)]);
  await Promise.all([fillAll(result), fillAll(times)]);
  assert.equal(world.archive.trades.size, 300);
  assert.deepEqual(world.covered(1), [[0, 100]]);
  assert.deepEqual(world.covered(2), [[0, 100]]);
  for (const { tid, atS } of trades) {
    const stored = world.archive.trades.get(`7 ${START_S + Math.floor(atS)} ${tid}`);
    assert.equal(stored?.executedAtUs, (START_S + atS) * 1e6);
  }
  world.assertHonest(1);
  world.assertHonest(2);
  world.record.assertAccounted('trades');
  world.record.assertAccounted('times');
});

test('an exact time just below a second does not move the trade into the next one', async () => {
  const world = new World([{ tid: 1, atS: 0.9999998 }], 100);
  await world.walker('times').pollHead(signal);
  const stored = world.archive.trades.get(`7 ${START_S} 1`);
  assert.equal(stored?.executedAtUs, START_S * 1e6 + 999_999);
});

test('losing one endpoint does not stop the other', async () => {
  const world = new World(every(20, 1), 30);
  world.exchange.answers.history = () => {
    throw new Error('not today');
  };
  const [result, times] = [world.walker('trades'), world.walker('times')];
  await assert.rejects(times.pollHead(signal), /not today/);
  await result.pollHead(signal);
  await fillAll(result);
  assert.deepEqual(world.covered(1), [[0, 30]]);
  assert.deepEqual(world.covered(2), []);
});

test('a known trade with other fields is let through, counted as a conflict, and the first stays', async () => {
  const world = new World(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades[19] = { tid: 20, atS: 19, price: '11' };
  world.clock.advance(6000);
  await walker.pollHead(signal);
  assert.equal(world.record.outcomesOf('trades').conflict, 1);
  assert.equal(world.archive.trades.get(`7 ${START_S + 19} 20`)?.price, '10');
  world.record.assertAccounted('trades');
});

test('a page that could not be committed is counted as lost, claims nothing, and comes again', async () => {
  const world = new World(every(20, 1), 30);
  const walker = world.walker();
  world.archive.before = () => {
    throw new Error('no database');
  };
  await assert.rejects(walker.pollHead(signal), /no database/);
  assert.equal(world.record.outcomesOf('trades').lost, 20);
  world.archive.before = () => undefined;
  await walker.pollHead(signal);
  await fillAll(walker);
  assert.deepEqual(world.covered(), [[0, 30]]);
  world.record.assertAccounted('trades');
});

test('a row that is refused after it was stored opens no gap in what is covered', async () => {
  const world = new World(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  world.trades[10] = { tid: 11, atS: 10, isBroken: true };
  world.clock.advance(6000);
  await walker.pollHead(signal);
  assert.deepEqual(world.gaps(), []);
  assert.deepEqual(world.covered(), [[0, 36]]);
});

test('the islands that an earlier run left are gone on with, not begun anew', async () => {
  const world = new World(every(500, 1), 600);
  world.cap = 100;
  const first = world.walker();
  await first.pollHead(signal);
  await first.fillStep(signal);
  await first.fillStep(signal);
  const asked = world.exchange.asked.length;
  const second = world.walker();
  assert.deepEqual(second.pendingGap(), {
    edgeMs: (world.archive.allIslands(1)[0] as Island).span.fromMs,
    isTop: true,
  });
  await fillAll(second);
  assert.ok(world.exchange.asked.length - asked <= 5, 'only what is left is asked for');
  assert.deepEqual(world.covered(), [[0, 600]]);
});

test('a head that moved on by more than one try can go down is caught up with over several', async () => {
  const world = new World(every(200, 1), 200);
  world.cap = 20;
  const walker = world.walker();
  await walker.pollHead(signal);
  world.trades = every(1200, 1);
  world.clock.advance(1_000_000);
  let stalls = 0;
  while (world.covered().length === 1 && world.covered()[0]?.[0] === 181 && stalls < 20) {
    await walker.fillStep(signal).catch(() => {
      stalls += 1;
    });
    world.clock.advance(600_000);
  }
  assert.ok(stalls > 1 && stalls < 10, `${stalls} tries`);
  assert.notEqual(world.covered()[0]?.[0], 181);
  world.assertHonest();
  world.record.assertAccounted('trades');
});

interface AnyWorld {
  readonly count: number;
  readonly cap: number;
  readonly brokenEvery: number;
  readonly failEvery: number;
  readonly seed: number;
}

const anyWorld: fc.Arbitrary<AnyWorld> = fc.record({
  count: fc.integer({ min: 0, max: 400 }),
  cap: fc.constantFrom(1000, 150, 70),
  brokenEvery: fc.integer({ min: 7, max: 200 }),
  failEvery: fc.integer({ min: 3, max: 30 }),
  seed: fc.integer({ min: 1, max: 2 ** 31 }),
});

test('in any world every row is accounted for, nothing is covered that is not stored, and the walk ends', async () => {
  let [failed, refused] = [0, 0];
  await fc.assert(
    fc.asyncProperty(anyWorld, async ({ count, cap, brokenEvery, failEvery, seed }) => {
      const random = seededRandom(seed);
      const future: Trade[] = [];
      let atS = 0;
      for (let tid = 1; tid <= count + 200; tid += 1) {
        const isBroken = tid % brokenEvery === 0;
        future.push({ tid, atS, isBroken });
        if (random() < 0.4) atS += Math.ceil(random() * 30) / 10;
      }
      const world = new World(future.slice(0, count), 1 + (future[count]?.atS ?? 0));
      world.cap = cap;
      let commits = 0;
      world.archive.before = (method) => {
        if (method !== 'commit') return;
        commits += 1;
        if (commits % failEvery !== 0) return;
        failed += 1;
        throw new Error('no database');
      };
      world.archive.onCommit = () => {
        world.assertHonest(1);
        world.assertHonest(2);
      };
      let walkers = [world.walker('trades'), world.walker('times')];
      const attempt = (work: Promise<void>) => work.catch(() => undefined);
      for (let turn = 1; turn <= 30; turn += 1) {
        const nowS = (world.clock.wallMs() - START_MS) / 1000;
        world.trades = future.filter((trade, index) => index < count || trade.atS <= nowS);
        for (const walker of walkers) {
          await attempt(walker.pollHead(signal));
          await attempt(walker.fillStep(signal));
        }
        world.clock.advance(6000);
        if (turn % 11 === 0) walkers = [world.walker('trades'), world.walker('times')];
      }
      world.archive.before = () => undefined;
      for (const walker of walkers) {
        for (let step = 0; step < 200 && walker.pendingGap() !== undefined; step += 1) {
          await attempt(walker.fillStep(signal));
        }
        assert.equal(walker.pendingGap(), undefined, 'what can not be filled is put off');
      }
      refused += world.record.outcomesOf('trades').rejected ?? 0;
      world.record.assertAccounted('trades');
      world.record.assertAccounted('times');
    }),
    { numRuns: 60 },
  );
  assert.ok(failed > 100 && refused > 100, 'commits failed and rows were refused');
});
