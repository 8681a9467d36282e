import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { TradeEvidence } from '../../../src/collect/trades/evidence.js';
import { OffsetModes } from '../../../src/collect/trades/offset-mode.js';
import {
  historySource,
  type SourceTrade,
  type TradeSource,
  toPage,
} from '../../../src/collect/trades/source.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { describeGaps, readGaps } from '../../../src/contract/gap-notices.js';
import { seededRandom } from '../../../src/kernel/random.js';
import { normalizeSpans, type Span, subtractSpans } from '../../../src/kernel/span.js';
import { ScriptedExchange } from '../../support/exchanges/scripted-exchange.js';
import { FakeClock } from '../../support/fake-clock.js';
import { FakeTime } from '../../support/fake-time.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { noTelemetry } from '../../support/no-telemetry.js';
import { worlds } from '../../support/seeds.js';
import { every, fillAll, START_MS, TradeWorld } from '../../support/worlds/trade-world.js';

/**
 * The walk through the replay of an archive that has gaps: whatever the archive does not have, it
 * names in a header, and it may hold single trades of it all the same.
 */

const START_S = 1_700_000_000;
const LENGTH_S = 1500;
const { signal } = new AbortController();
const STREAM = {
  streamId: 1,
  kind: 'trades',
  marketId: 7,
  variant: 0,
  collectFromMs: null,
} as const;

const at = (seconds: number) => (START_S + seconds) * 1000;

interface GapWorld {
  readonly seed: number;
  readonly cap: number;
  readonly rate: number;
  /** Begin and length in seconds. */
  readonly gaps: readonly (readonly [number, number])[];
  readonly crashEvery: number;
}

const worldOf: fc.Arbitrary<GapWorld> = fc.record({
  seed: fc.integer({ min: 1, max: 2 ** 31 }),
  cap: fc.constantFrom(1000, 300, 60),
  rate: fc.constantFrom(0.02, 0.3, 1.5),
  gaps: fc.array(
    fc.tuple(fc.integer({ min: -50, max: LENGTH_S + 60 }), fc.integer({ min: 1, max: 500 })),
    { minLength: 1, maxLength: 5 },
  ),
  crashEvery: fc.integer({ min: 2, max: 40 }),
});

class GapRun {
  readonly archive = new ModelArchive();
  readonly clock = new FakeClock();
  readonly gaps: readonly Span[];
  readonly trades: SourceTrade[] = [];
  nowS = LENGTH_S;
  requests = 0;
  readonly #world: GapWorld;

  constructor(world: GapWorld) {
    this.#world = world;
    const random = seededRandom(world.seed);
    this.gaps = normalizeSpans(
      world.gaps.map(([fromS, lengthS]) => ({ fromMs: at(fromS), toMs: at(fromS + lengthS) })),
    );
    for (let second = 0; second < LENGTH_S + 200; second += 1) {
      if (random() > world.rate) continue;
      const inGap = this.gaps.some((one) => one.fromMs <= at(second) && at(second) < one.toMs);
      // Of a gap some trades are there: those of a second in which coverage ends, for one.
      if (inGap && random() < 0.9) continue;
      const tid = 10 + 3 * second;
      this.trades.push({
        ...{ tid, tradedAtS: START_S + second, executedAtUs: null },
        ...{ price: '10', amount: '1', total: '10', side: 'buy' },
      });
    }
    this.archive.onCommit = () => this.assertHonest();
  }

  get nowMs(): number {
    return at(this.nowS);
  }

  /** As a replay answers: newest first, with the gaps that the page touches. */
  source(): TradeSource {
    return {
      kind: 'trades',
      endpoint: 'historyResult',
      fetch: async (_market, skip, limit) => {
        this.requests += 1;
        const { nowMs } = this;
        const visible = this.trades.filter(({ tradedAtS }) => tradedAtS * 1000 < nowMs);
        const size = Math.min(limit, this.#world.cap);
        const end = Math.max(0, visible.length - skip);
        const data = visible.slice(Math.max(0, end - size), end).reverse();
        const [newest, oldest] = [data[0], data.at(-1)];
        const isShort = data.length < limit;
        const oldestMs = oldest === undefined ? nowMs : oldest.tradedAtS * 1000;
        const fromMs = isShort ? Math.min(at(-50), oldestMs) : oldestMs;
        const toMs = skip === 0 || newest === undefined ? nowMs : (newest.tradedAtS + 1) * 1000;
        const touched = this.gaps
          .filter((one) => one.fromMs < toMs && fromMs < one.toMs)
          .map((span) => ({ kind: 'trades', reason: 'not collected', span }));
        const gaps = touched.length === 0 ? [] : readGaps([describeGaps(touched)]);
        const times = { sentAtMs: nowMs, dateMs: nowMs, receivedAtMs: nowMs };
        return toPage({ data, rejected: [], ...times, gaps }, (row) => row);
      },
    };
  }

  begin(): TradeWalker {
    const { archive, clock } = this;
    const telemetry = noTelemetry.collect;
    return new TradeWalker(
      {
        ...{ market: 'BTC_USDT', marketId: 7, source: this.source(), archive, clock, telemetry },
        stream: { ...STREAM, collectFromMs: archive.floorOf(1) ?? null },
        time: { nowMs: () => this.nowMs },
        random: seededRandom(this.#world.seed),
        isAllWanted: archive.floorOf(1) === null,
        ...{ cacheMarginMs: 1000, keptAtLeastMs: 900_000, traits: { largestPage: 0 } },
        offsets: new OffsetModes({ archive, clock, telemetry }),
      },
      archive.allRanges(1),
    );
  }

  assertHonest(): void {
    for (const { span } of this.archive.allRanges(1)) {
      assert.deepEqual(subtractSpans(span, this.gaps), [span], 'a gap of the source is covered');
    }
  }

  async walk(): Promise<void> {
    let walker = this.begin();
    for (let turn = 1; turn <= 120; turn += 1) {
      await walker.pollHead(signal);
      for (let step = 0; step < 4 && walker.pendingGap() !== undefined; step += 1) {
        await walker.fillStep(signal);
      }
      this.clock.advance(1000);
      this.nowS += 1;
      if (turn % this.#world.crashEvery === 0 && turn < 60) walker = this.begin();
    }
    const before = this.requests;
    for (let turn = 0; turn < 60; turn += 1) {
      await walker.pollHead(signal);
      if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
      this.clock.advance(1000);
      this.nowS += 1;
    }
    const asked = this.requests - before;
    assert.ok(asked <= 60 + 15, `what cannot be had is asked for again and again: ${asked}`);
  }

  assertComplete(): void {
    const { archive, nowMs } = this;
    const first = this.trades[0];
    const [top] = archive.allRanges(1);
    const stream = { ...STREAM, collectFromMs: archive.floorOf(1) ?? null };
    assert.ok(first !== undefined);
    for (const gap of archive.gapsOf(stream, top?.span.toMs ?? nowMs)) {
      const inGaps = subtractSpans(gap.span, this.gaps);
      assert.deepEqual(inGaps, [], `${JSON.stringify(gap)} could have been covered`);
      assert.ok(['missing at source', 'beyond history'].includes(gap.reason), gap.reason);
    }
    const seen = this.trades.filter(({ tradedAtS }) => tradedAtS * 1000 < nowMs - 5000);
    for (const { tid, tradedAtS } of seen) {
      assert.ok(archive.trades.has(`7 ${tradedAtS} ${tid}`), `trade ${tid} is not stored`);
    }
  }
}

test('of what a replay does not know nothing is covered; the rest is, and nothing is asked for ever', async () => {
  let reached = 0;
  await fc.assert(
    fc.asyncProperty(worldOf, async (world) => {
      const run = new GapRun(world);
      if (run.trades.length < 3) return;
      await run.walk();
      run.assertComplete();
      if (run.archive.allRanges(1).length > 1) reached += 1;
    }),
    { numRuns: worlds(40) },
  );
  assert.ok(reached > worlds(10), `gaps within coverage: ${reached}`);
});

test('an exact time that a replay does not know is not the whole second that it tells', async () => {
  const exchange = new ScriptedExchange(new FakeClock(at(100)), {
    history: () =>
      [60, 30.25, 30, 10].map((second, id) => {
        const time = START_S + second;
        return { id: 9 - id, time, price: '1', type: 'buy', amount: '1', total: '1' };
      }),
  });
  exchange.told = {
    gaps: [
      { kind: 'times', span: { fromMs: at(29), toMs: at(31) }, reason: 'not collected' },
      { kind: 'trades', span: { fromMs: at(9), toMs: at(11) }, reason: 'not collected' },
    ],
  };
  const page = await historySource(exchange, 'times').fetch('BTC_USDT', 0, 100, { signal });
  const exact = page.trades.map(({ executedAtUs }) => executedAtUs !== null);
  assert.deepEqual(exact, [true, true, false, true]);
});

test('what a server does not know of the newest time is listed at once, and what it knows above is covered', async () => {
  const world = new TradeWorld(every(20, 1), 30);
  const walker = world.walker();
  await walker.pollHead(signal);
  await fillAll(walker);
  const span = { fromMs: START_MS + 30_000, toMs: START_MS + 31_000 };
  world.exchange.told = { gaps: [{ kind: 'trades', span, reason: 'not collected' }] };
  world.clock.advance(1000);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[1, 30]]);
  const gaps = world.archive.gaps.map(({ reason, span: { fromMs, toMs } }) => [
    reason,
    fromMs,
    toMs,
  ]);
  assert.deepEqual(gaps, [['missing at source', span.fromMs, span.toMs]]);
  world.clock.advance(1000);
  await walker.pollHead(signal);
  const below = [1, 30];
  assert.deepEqual(world.covered(), [[31, 32], below]);
  world.clock.advance(4000);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[31, 32], below], 'its growth waits for the next rows');
  world.clock.advance(1000);
  await walker.pollHead(signal);
  assert.deepEqual(world.covered(), [[31, 37], below], 'for five seconds');
});

test('a page that ends in time that the server does not know has reached what is covered right below that', async () => {
  for (const [fromS, toS, isReached] of [
    [480, 490, false],
    [440, 455, false],
    [30, 455, true],
  ] as const) {
    const world = new TradeWorld(every(20, 1), 30);
    const first = world.walker();
    await first.pollHead(signal);
    await fillAll(first);
    world.trades = every(500, 1);
    world.cap = 50;
    world.clock.advance(470_000);
    const span = { fromMs: START_MS + fromS * 1000, toMs: START_MS + toS * 1000 };
    world.exchange.told = { gaps: [{ kind: 'trades', span, reason: 'not collected' }] };
    const { isConnected } = await world.walker().pollHead(signal);
    assert.equal(isConnected, isReached, `[${fromS}, ${toS})`);
  }
});

test('a step that changes nothing is laid to what the server does not know only within its gap', async () => {
  for (const [unknownS, reason] of [
    [26, 'missing at source'],
    [5, 'walk stalled'],
  ] as const) {
    const world = new TradeWorld(every(20, 1), 30);
    const { clock, record: telemetry } = world;
    const time = new FakeTime(clock);
    const evidence = new TradeEvidence({ market: 'BTC_USDT', time, clock, telemetry });
    world.extras = { evidence };
    const walker = world.walker();
    await walker.pollHead(signal);
    await fillAll(walker);
    await walker.invalidate({ fromMs: START_MS + 25_000, toMs: START_MS + 28_000 }, 'a test');
    // A trade that no page shows: none of them proves anything above its own rows.
    evidence.pushed({ tid: 21, tradedAtS: START_MS / 1000 + 25 });
    clock.advance(5000);
    const fromMs = START_MS + unknownS * 1000;
    const span = { fromMs, toMs: fromMs + 1000 };
    world.exchange.told = { gaps: [{ kind: 'trades', span, reason: 'not collected' }] };
    await walker.fillStep(signal);
    const last = world.archive.gaps.at(-1);
    assert.deepEqual([last?.reason, last?.span.fromMs], [reason, START_MS + 25_000]);
  }
});

test('the looks below a gap that is closed end where history does', async () => {
  const world = new TradeWorld(every(3, 1), 3);
  const first = world.walker();
  await first.pollHead(signal);
  await fillAll(first);
  world.trades = [
    ...world.trades,
    ...every(90, 1, 100).map(({ tid, atS }) => ({ tid: tid + 3, atS })),
  ];
  world.cap = 60;
  world.clock.advance(187_000);
  const walker = world.walker();
  await walker.pollHead(signal);
  const before = world.exchange.asked.length;
  await walker.fillStep(signal);
  assert.deepEqual(world.covered(), [[1, 190]]);
  // The page that closes it, one that shows the oldest trade as well, and one that shows nothing older.
  assert.equal(world.exchange.asked.length - before, 3);
});

test('where a replay lacks what came before its oldest trade, no start of history is found there', async () => {
  const told = (fromMs: number, toMs: number, reason: string, kind = 'trades') => ({
    gaps: [{ kind, span: { fromMs, toMs }, reason }],
  });
  const oldest = START_MS + 1000;
  for (const [gaps, start, tried] of [
    // Of the oldest trade's second it is not known whether there was more; before it there was nothing.
    [told(START_MS, oldest, 'beyond history'), 'history begins', undefined],
    [told(0, START_MS, 'given up by retention'), 'history horizon', undefined],
    [told(0, oldest, 'beyond history'), 'history horizon', undefined],
    [told(0, START_MS, 'before collecting'), 'history horizon', undefined],
    [told(0, oldest, 'not collected'), undefined, 'missing at source'],
    // The exact times that it lacks are no trades.
    [told(0, oldest, 'not collected', 'times'), 'history begins', undefined],
  ] as const) {
    const what = JSON.stringify(gaps);
    const rows = every(20, 1).map(({ tid, atS }) => ({ tid: tid + 100, atS }));
    const world = new TradeWorld(rows, 30);
    world.exchange.told = gaps;
    let walker = world.walker();
    const walkOn = async (minutes: number) => {
      const before = world.exchange.asked.length;
      for (let second = 0; second < minutes * 60; second += 1) {
        if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
        world.clock.advance(1000);
      }
      return world.exchange.asked.length - before;
    };
    await walker.pollHead(signal);
    await walkOn(60);
    // The next run knows the place from the ledger alone, and what that does not count is not there any more.
    world.trades = rows.slice(1);
    walker = world.walker();
    await walkOn(30);
    const asked = await walkOn(60);
    assert.ok(asked <= 15, `${what}: asked for again now and then only: ${asked}`);
    assert.equal(world.archive.startReasons.get(1), start, what);
    assert.equal(world.archive.tries.get(1)?.reason, tried, what);
    assert.deepEqual(world.covered(), [[1, 30]], what);
    if (tried === undefined) continue;
    // Found there meanwhile, down to where history begins.
    world.trades = [...every(5, 1, -5), ...rows];
    world.exchange.told = {};
    await walkOn(15);
    assert.deepEqual(world.covered(), [[-4, 30]]);
    assert.equal(world.archive.startReasons.get(1), 'history begins');
  }
});

test('of a market without trades, what a replay lacks is asked for again, and not beyond history', async () => {
  for (const [reason, listed] of [
    ['not collected', 'missing at source'],
    ['given up by retention', 'beyond history'],
    ['before collecting', 'beyond history'],
  ] as const) {
    const world = new TradeWorld([], 30);
    const walker = world.walker('trades', 29);
    for (let look = 0; look < 3; look += 1) {
      await walker.pollHead(signal);
      world.clock.advance(2000);
    }
    assert.equal(world.covered().length, 1, 'it was seen empty');
    const span = { fromMs: START_MS, toMs: START_MS + 20_000 };
    world.exchange.told = { gaps: [{ kind: 'trades', span, reason }] };
    walker.backfill(span);
    for (let second = 0; second < 60; second += 1) {
      if (walker.pendingGap() !== undefined) await walker.fillStep(signal);
      world.clock.advance(1000);
    }
    assert.deepEqual([...new Set(world.archive.gaps.map((gap) => gap.reason))], [listed]);
  }
});
