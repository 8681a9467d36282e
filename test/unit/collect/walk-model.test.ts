import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { WalkStalledError } from '../../../src/collect/trades/errors.js';
import { SinceModes } from '../../../src/collect/trades/since-mode.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { Span } from '../../../src/kernel/span.js';
import type { StreamRef } from '../../../src/ledger/batch.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/model-archive.js';
import { HISTORY_START_S, type HistoryTraits, ModelHistory } from '../../support/model-history.js';
import { noTelemetry } from '../../support/no-telemetry.js';

/**
 * The walk in both modes against a model exchange, with everything that may befall it at once:
 * caches, replicas, caps, refused rows, failing commits, crashes that leave nothing but the ledger,
 * spans that are wanted besides, and spans that are doubted. What holds after every commit: nothing
 * is covered that is not stored, and the figures of islands are exact.
 */

const { signal } = new AbortController();

interface World extends HistoryTraits {
  readonly crashEvery: number;
  /** Every so many commits one fails. */
  readonly failEvery: number;
  /** Where expected coverage begins, as a share of the time of the first history; null: open. */
  readonly floor: number | null;
  /** Wanted spans as shares of that time; below 0 there is no history. */
  readonly wanted: readonly (readonly [number, number])[];
  readonly doubtEvery: number;
}

const share = fc.integer({ min: -20, max: 100 }).map((percent) => percent / 100);

const worldOf = (mode: 'skip' | 'id'): fc.Arbitrary<World> =>
  fc.record({
    mode: fc.constant(mode),
    seed: fc.integer({ min: 1, max: 2 ** 31 }),
    history: fc.integer({ min: 0, max: 1200 }),
    perRequest: fc.integer({ min: 0, max: 30 }),
    cap: fc.constantFrom(1000, 300, 100, 60),
    staleEvery: fc.integer({ min: 2, max: 40 }),
    replicaEvery: fc.integer({ min: 3, max: 40 }),
    brokenEvery: fc.constantFrom(0, 0, 150, 37),
    crashEvery: fc.integer({ min: 3, max: 60 }),
    failEvery: fc.integer({ min: 4, max: 60 }),
    floor: fc.option(fc.integer({ min: -50, max: 90 }).map((percent) => percent / 100)),
    wanted: fc.array(fc.tuple(share, share), { maxLength: 3 }),
    doubtEvery: fc.integer({ min: 7, max: 60 }),
  });

const fired = { crashes: 0, lies: 0, refused: 0, doubts: 0, failed: 0, horizons: 0, beyond: 0 };

class Run {
  readonly exchange: ModelHistory;
  readonly archive = new ModelArchive();
  readonly clock = new FakeClock();
  readonly #world: World;
  readonly #random: () => number;
  readonly #key = { streamId: 1, kind: 'trades', marketId: 7, variant: 0 } as const;
  readonly #firstFloorMs: number | null;
  readonly wanted: Span[];
  walker: TradeWalker;

  constructor(world: World) {
    this.#world = world;
    this.#random = seededRandom(world.seed + 1);
    this.exchange = new ModelHistory(world);
    const lengthMs = Math.max(60_000, this.exchange.nowMs - HISTORY_START_S * 1000);
    const at = (part: number) => HISTORY_START_S * 1000 + Math.round(part * lengthMs);
    this.#firstFloorMs = world.floor === null ? null : at(world.floor);
    this.wanted = world.wanted
      .map(([a, b]) => ({ fromMs: at(Math.min(a, b)), toMs: at(Math.max(a, b)) }))
      .filter(({ fromMs, toMs }) => fromMs < toMs);
    for (const span of this.wanted) this.archive.want(1, span);
    this.archive.modes = {};
    let commits = 0;
    this.archive.before = (method) => {
      if (method !== 'commit' || !this.exchange.isMoving) return;
      commits += 1;
      if (commits % world.failEvery !== 0) return;
      fired.failed += 1;
      throw new Error('no database');
    };
    this.archive.onCommit = () => this.assertHonest();
    this.walker = this.begin();
  }

  get stream(): StreamRef {
    return { ...this.#key, collectFromMs: this.archive.floorOf(1) ?? this.#firstFloorMs };
  }

  /** A daemon that knows nothing but the archive. */
  begin(): TradeWalker {
    const { archive, clock } = this;
    const telemetry = noTelemetry.collect;
    const walker = new TradeWalker(
      {
        market: 'BTC_USDT',
        marketId: 7,
        stream: this.stream,
        source: this.exchange,
        archive,
        time: { nowMs: () => this.exchange.nowMs },
        clock,
        random: seededRandom(this.#world.seed),
        telemetry,
        cacheMarginMs: 60_000,
        traits: { largestPage: 0 },
        since: new SinceModes({ archive, clock, telemetry }),
      },
      archive.allIslands(1),
    );
    for (const span of this.wanted) walker.want(span);
    return walker;
  }

  async attempt(work: () => Promise<unknown>): Promise<void> {
    await work().catch((error: unknown) => {
      const isKnown = error instanceof WalkStalledError || /no database/.test(String(error));
      if (!isKnown) throw error;
    });
  }

  async doubt(): Promise<void> {
    const { span } = this.archive.allIslands(1)[0] ?? {};
    if (span === undefined) return;
    const fromMs =
      span.fromMs + Math.floor((this.#random() * (span.toMs - span.fromMs)) / 2000) * 1000;
    const toMs = fromMs + Math.ceil(this.#random() * 20) * 1000;
    await this.walker.doubt({ fromMs, toMs }, 'a test');
    this.assertHonest();
    fired.doubts += 1;
  }

  async live(): Promise<void> {
    const { crashEvery, doubtEvery } = this.#world;
    for (let turn = 1; turn <= 60; turn += 1) {
      await this.attempt(() => this.walker.pollHead(signal));
      for (let step = 0; step < 3; step += 1)
        await this.attempt(() => this.walker.fillStep(signal));
      if (turn % doubtEvery === 0) await this.doubt();
      this.clock.advance(6000);
      if (turn % crashEvery !== 0) continue;
      this.walker = this.begin();
      fired.crashes += 1;
    }
  }

  /** The exchange stands still and tells the truth; what is put off is tried again, several times. */
  async settle(): Promise<void> {
    this.exchange.isMoving = false;
    this.exchange.rest(200);
    fired.lies += this.exchange.lies;
    fired.refused += this.exchange.broken.size;
    for (let round = 0; round < 16; round += 1) {
      // By turns beyond every pause, and soon enough for the second sign of an end to count.
      const waitS = round % 2 === 0 ? 7200 : 700;
      this.clock.advance(waitS * 1000);
      this.exchange.rest(waitS);
      await this.attempt(() => this.walker.pollHead(signal));
      let steps = 0;
      while (this.walker.pendingGap() !== undefined) {
        steps += 1;
        assert.ok(steps < 400, 'the walk never ends');
        await this.attempt(() => this.walker.fillStep(signal));
      }
    }
  }

  assertHonest(): void {
    for (const island of this.archive.allIslands(1)) {
      const { fromMs, toMs } = island.span;
      const happened = this.exchange.issued.filter(
        ({ tradedAtS }) => tradedAtS * 1000 >= fromMs && tradedAtS * 1000 < toMs,
      );
      for (const trade of happened) {
        assert.ok(this.isStored(trade), `trade ${trade.tid} is covered but not stored`);
      }
      assert.equal(island.rowCount, happened.length);
    }
  }

  isStored({ tradedAtS, tid }: { tradedAtS: number; tid: number }): boolean {
    return this.archive.trades.has(`7 ${tradedAtS} ${tid}`);
  }

  /** Everything that was issued is stored, or lies in a gap that is listed with a true reason. */
  assertComplete(): void {
    const { exchange, archive } = this;
    const { mode } = this.#world;
    const hasTrades = exchange.issued.length - exchange.broken.size > 1;
    if (hasTrades) assert.equal(archive.modes.historyResult, mode);
    const gaps = archive.gapsOf(this.stream, exchange.nowMs - 120_000);
    const floorMs = this.stream.collectFromMs;
    for (const trade of exchange.issued) {
      if (this.isStored(trade)) continue;
      const ms = trade.tradedAtS * 1000;
      const isExpected =
        (floorMs !== null ? ms >= floorMs : mode === 'skip') ||
        this.wanted.some(({ fromMs, toMs }) => fromMs <= ms && ms < toMs);
      if (!isExpected || (exchange.broken.has(trade.tid) && floorMs === null)) continue;
      const gap = gaps.find(({ span }) => span.fromMs <= ms && ms < span.toMs);
      assert.ok(gap !== undefined, `trade ${trade.tid} is neither stored nor in a listed gap`);
      if (mode === 'skip') assert.ok(exchange.broken.size > 0, 'it could have been had');
    }
    if (!hasTrades || exchange.broken.size > 0) return;
    for (const gap of gaps) {
      const { span, state, reason } = gap;
      const text = `[${span.fromMs}, ${span.toMs}) ${state}: ${reason}, after ${gap.attempts} tries`;
      const last = exchange.issued.at(-1);
      // The last second has no later trade that would prove its end.
      if (last !== undefined && span.fromMs >= last.tradedAtS * 1000) continue;
      assert.equal(state, 'unfillable', text);
      if (reason === 'history horizon') fired.horizons += 1;
      if (reason === 'beyond history') fired.beyond += 1;
      const isBefore = span.toMs <= (exchange.issued[0]?.tradedAtS ?? 0) * 1000;
      const expected = mode === 'id' ? ['history horizon', 'beyond history'] : ['beyond history'];
      assert.ok(expected.includes(reason), text);
      if (reason === 'beyond history') assert.ok(isBefore, `history begins later: ${text}`);
    }
  }
}

const QUIET = { mode: 'id', seed: 1, cap: 1000, brokenEvery: 0, floor: null } as const;
/** Worlds in which a lost hole grows by a doubt, or a wanted span begins before all history. */
const LOST_AND_DOUBTED: readonly World[] = [
  {
    ...{ ...QUIET, history: 2, perRequest: 0, staleEvery: 36, replicaEvery: 4, wanted: [] },
    ...{ crashEvery: 39, failEvery: 4, doubtEvery: 12 },
  },
  {
    ...{ ...QUIET, history: 1, perRequest: 2, staleEvery: 3, replicaEvery: 6 },
    ...{ crashEvery: 7, failEvery: 5, wanted: [[-0.01, 0.02]], doubtEvery: 7 },
  },
];

for (const mode of ['skip', 'id'] as const) {
  test(`${mode} mode: nothing false is claimed, and all that was issued is stored or listed`, async () => {
    await fc.assert(
      fc.asyncProperty(worldOf(mode), async (world) => {
        const run = new Run(world);
        await run.live();
        await run.settle();
        run.assertComplete();
      }),
      { numRuns: 20, examples: mode === 'id' ? LOST_AND_DOUBTED.map((one) => [one]) : [] },
    );
  });
}

test('all of it really happened', () => {
  for (const [what, count] of Object.entries(fired)) assert.ok(count > 2, `${what}: ${count}`);
});
