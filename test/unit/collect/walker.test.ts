import assert from 'node:assert/strict';
import test from 'node:test';
import { noTraits } from '../../../src/collect/trades/walk.js';
import { WalkStalledError } from '../../../src/collect/trades/walk-errors.js';
import { TradeWalker } from '../../../src/collect/trades/walker.js';
import { seededRandom } from '../../../src/kernel/random.js';
import type { StreamRef } from '../../../src/model/batch.js';
import { FakeClock } from '../../support/fake-clock.js';
import { lowerBound } from '../../support/models/by-seconds.js';
import { ModelArchive } from '../../support/models/model-archive.js';
import { ModelHistory } from '../../support/models/model-history.js';
import { noTelemetry } from '../../support/no-telemetry.js';
import fc from '../../support/properties.js';
import { worlds } from '../../support/seeds.js';
import { knownMode } from '../../support/worlds/trade-world.js';

/**
 * The walk against a model exchange whose head moves with every request: bursts longer than a page
 * within one second, quiet stretches, page caps, stale caches, and crashes that leave nothing but
 * the ledger. The invariant is checked after every single commit, not only at the end.
 */

/** What does not vary here. */
const STEADY = { mode: 'skip', replicaEvery: Number.POSITIVE_INFINITY, brokenEvery: 0 } as const;

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

/**
 * A check that everything which happened in a covered span is stored, and nothing else. What was once found stored is not looked up again: nothing is ever taken out.
 */
function honestyOf(archive: ModelArchive, { issued }: ModelHistory, stream: StreamRef) {
  const found: boolean[] = [];
  return () => {
    for (const { span } of archive.allRanges(stream.streamId)) {
      const from = lowerBound(issued, span.fromMs / 1000);
      const to = lowerBound(issued, span.toMs / 1000);
      for (let at = from; at < to; at += 1) {
        if (found[at] === true) continue;
        const { tradedAtS, tid } = issued[at] ?? assert.fail('a trade that was issued');
        const key = `${stream.marketId} ${tradedAtS} ${tid}`;
        assert.ok(archive.trades.has(key), `trade ${tid} is covered but not stored`);
        found[at] = true;
      }
      assert.equal(archive.storedWithin(stream.marketId, span).length, to - from);
    }
  };
}

test('a walk claims only what it stored, over any history, and in the end has everything', async () => {
  let crashes = 0;
  let staleReplies = 0;
  await fc.assert(
    fc.asyncProperty(anyWorld, async (world) => {
      const exchange = new ModelHistory({ ...STEADY, ...world });
      const archive = new ModelArchive();
      const clock = new FakeClock();
      const key = { streamId: 1, kind: 'trades', marketId: 7, variant: 0 } as const;
      archive.onCommit = honestyOf(archive, exchange, { ...key, collectFromMs: null });
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
            keptAtLeastMs: 900_000,
            isAllWanted: archive.floorOf(1) === null,
            traits: noTraits(),
            offsets: knownMode(() => 'skip'),
          },
          archive.allRanges(1),
          archive.trades.size > 0,
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
      staleReplies += exchange.lies;
      clock.advance(3_600_000);
      await attempt(() => walker.pollHead(signal));
      for (let step = 0; step < 200 && walker.pendingGap() !== undefined; step += 1) {
        await attempt(() => walker.fillStep(signal));
        clock.advance(600_000);
      }
      assert.equal(walker.pendingGap(), undefined, 'the walk never ends');
      const ranges = archive.allRanges(1);
      const lastCovered = ranges[0]?.span.toMs ?? 0;
      // Of a market that was empty, a restart leaves a moment that nothing proves any more.
      if (world.history > 0) assert.ok(ranges.length <= 1, `${ranges.length} islands are left`);
      const missing = exchange.issued.filter(
        (trade) => !archive.trades.has(`7 ${trade.tradedAtS} ${trade.tid}`),
      );
      assert.deepEqual(missing, []);
      const newest = exchange.issued.at(-1);
      const first = exchange.issued[0];
      // The oldest second is not proven and the newest not over: between them there must be time.
      if (newest && first && newest.tradedAtS > first.tradedAtS + 1) {
        assert.ok(lastCovered >= newest.tradedAtS * 1000);
      }
    }),
    {
      numRuns: worlds(150),
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
        [{ history: 3, perRequest: 0, cap: 1000, crashEvery: 3, staleEvery: 2, seed: 15 }],
      ],
    },
  );
  assert.ok(
    Math.min(crashes, staleReplies) > worlds(100),
    'crashes and stale replies really happened',
  );
});
