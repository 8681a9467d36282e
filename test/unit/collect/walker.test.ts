import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import { WalkStalledError } from '../../../src/collect/trades/errors.js';
import type { SourceTrade, TradePage, TradeSource } from '../../../src/collect/trades/source.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { StreamRef } from '../../../src/ledger/batch.js';
import { FakeClock } from '../../support/fake-clock.js';
import { ModelArchive } from '../../support/model-archive.js';
import { noTelemetry } from '../../support/no-telemetry.js';
import { knownMode } from '../../support/trade-world.js';

/**
 * The walk against a model exchange whose head moves with every request: bursts longer than a page
 * within one second, quiet stretches, page caps, stale caches, and crashes that leave nothing but
 * the ledger. The invariant is checked after every single commit, not only at the end.
 */

const START_S = 1_700_000_000;

interface World {
  readonly history: number;
  readonly perRequest: number;
  readonly cap: number;
  readonly crashEvery: number;
  readonly staleEvery: number;
  readonly seed: number;
}

const anyWorld: fc.Arbitrary<World> = fc.record({
  history: fc.integer({ min: 0, max: 1500 }),
  perRequest: fc.integer({ min: 0, max: 30 }),
  cap: fc.constantFrom(1000, 300, 100, 60),
  crashEvery: fc.integer({ min: 3, max: 60 }),
  staleEvery: fc.integer({ min: 2, max: 40 }),
  seed: fc.integer({ min: 1, max: 2 ** 31 }),
});

class ModelExchange implements TradeSource {
  readonly kind = 'trades';
  readonly endpoint = 'historyResult';
  readonly issued: SourceTrade[] = [];
  isMoving = true;
  requests = 0;
  stale = 0;
  readonly #world: World;
  readonly #random: () => number;
  #nowS = START_S;
  #nextTid = 5_000_000_000;
  #before = 0;

  constructor(world: World) {
    this.#world = world;
    this.#random = seededRandom(world.seed);
    this.#trade(world.history);
  }

  get nowMs(): number {
    return this.#nowS * 1000;
  }

  #trade(count: number): void {
    let left = count;
    while (left > 0) {
      // A burst: many trades in one second, now and then more than a page holds.
      const burst = Math.min(left, Math.ceil(this.#random() ** 4 * 500));
      for (let one = 0; one < burst; one += 1) {
        this.#nextTid += 1 + Math.floor(this.#random() * 5);
        this.issued.push({
          tid: this.#nextTid,
          tradedAtS: this.#nowS,
          executedAtUs: null,
          price: '10',
          amount: '1',
          total: '10',
          side: 'buy',
        });
      }
      left -= burst;
      if (this.#random() < 0.7) this.#nowS += Math.ceil(this.#random() * 4);
    }
  }

  async fetch(_market: string, skip: number, limit: number): Promise<TradePage> {
    this.requests += 1;
    const isStale = this.isMoving && this.requests % this.#world.staleEvery === 0;
    const visible = isStale ? this.#before : this.issued.length;
    if (isStale) this.stale += 1;
    const size = Math.min(limit, this.#world.cap);
    const end = Math.max(0, visible - skip);
    const trades = this.issued.slice(Math.max(0, end - size), end).reverse();
    const sentAtMs = this.nowMs;
    this.#before = visible;
    if (this.isMoving) {
      this.#trade(Math.floor(this.#random() * this.#world.perRequest));
      if (this.#random() < 0.5) this.#nowS += 1;
    }
    return {
      trades,
      rejected: [],
      doubts: [],
      rowCount: trades.length,
      sentAtMs,
      dateMs: sentAtMs,
      receivedAtMs: sentAtMs,
    };
  }
}

/** Everything that happened in a covered span is stored, and the island's figures are exact. */
function assertHonest(archive: ModelArchive, exchange: ModelExchange, stream: StreamRef): void {
  for (const island of archive.allIslands(stream.streamId)) {
    const happened = exchange.issued.filter(
      (trade) =>
        trade.tradedAtS * 1000 >= island.span.fromMs && trade.tradedAtS * 1000 < island.span.toMs,
    );
    for (const trade of happened) {
      const key = `${stream.marketId} ${trade.tradedAtS} ${trade.tid}`;
      assert.ok(archive.trades.has(key), `trade ${trade.tid} is covered but not stored`);
    }
    assert.equal(island.rowCount, happened.length);
  }
}

test('a walk claims only what it stored, over any history, and in the end has everything', async () => {
  let crashes = 0;
  let staleReplies = 0;
  await fc.assert(
    fc.asyncProperty(anyWorld, async (world) => {
      const exchange = new ModelExchange(world);
      const archive = new ModelArchive();
      const clock = new FakeClock();
      const key = { streamId: 1, kind: 'trades', marketId: 7, variant: 0 } as const;
      archive.onCommit = () => assertHonest(archive, exchange, { ...key, collectFromMs: null });
      const begin = () =>
        new TradeWalker(
          {
            market: 'BTC_USDT',
            marketId: 7,
            stream: { ...key, collectFromMs: archive.floorOf(1) },
            source: exchange,
            archive,
            time: { nowMs: () => exchange.nowMs },
            clock,
            random: seededRandom(world.seed),
            telemetry: noTelemetry.collect,
            cacheMarginMs: 60_000,
            traits: { largestPage: 0 },
            since: knownMode(() => 'skip'),
          },
          archive.allIslands(1),
        );
      let walker = begin();
      const { signal } = new AbortController();
      const attempt = async (work: () => Promise<unknown>) => {
        await work().catch((error: unknown) => {
          if (!(error instanceof WalkStalledError)) throw error;
        });
      };
      for (let turn = 1; turn <= 60; turn += 1) {
        if (turn === 40) exchange.isMoving = false;
        await attempt(() => walker.pollHead(signal));
        for (let step = 0; step < 3; step += 1) await attempt(() => walker.fillStep(signal));
        clock.advance(6000);
        if (turn % world.crashEvery === 0) {
          walker = begin();
          crashes += 1;
        }
      }
      staleReplies += exchange.stale;
      clock.advance(3_600_000);
      await attempt(() => walker.pollHead(signal));
      for (let step = 0; step < 200 && walker.pendingGap() !== undefined; step += 1) {
        await attempt(() => walker.fillStep(signal));
        clock.advance(600_000);
      }
      assert.equal(walker.pendingGap(), undefined, 'the walk never ends');
      const islands = archive.allIslands(1);
      const lastCovered = islands[0]?.span.toMs ?? 0;
      assert.ok(islands.length <= 1, `${islands.length} islands are left`);
      const missing = exchange.issued.filter(
        (trade) => !archive.trades.has(`7 ${trade.tradedAtS} ${trade.tid}`),
      );
      assert.deepEqual(missing, []);
      const newest = exchange.issued.at(-1);
      const first = exchange.issued[0];
      if (newest !== undefined && newest.tradedAtS !== first?.tradedAtS) {
        assert.ok(lastCovered >= newest.tradedAtS * 1000);
      }
    }),
    {
      numRuns: 150,
      examples: [
        [
          {
            history: 681,
            perRequest: 2,
            cap: 60,
            crashEvery: 31,
            staleEvery: 2,
            seed: 1_510_791_838,
          },
        ],
      ],
    },
  );
  assert.ok(crashes > 100 && staleReplies > 100, 'crashes and stale replies really happened');
});
