import assert from 'node:assert/strict';
import test from 'node:test';
import { seededRandom } from '../../../src/kernel/random.js';
import fc from '../../support/properties.js';
import { worlds } from '../../support/seeds.js';
import { START_MS, signal, type Trade, TradeWorld } from '../../support/worlds/trade-world.js';

/** The walk in random worlds with refused rows, failing commits and restarts. */

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
      const world = new TradeWorld(future.slice(0, count), 1 + (future[count]?.atS ?? 0));
      world.cap = cap;
      let commits = 0;
      world.archive.before = (method) => {
        if (method !== 'commit') return;
        commits += 1;
        if (commits % failEvery !== 0) return;
        failed += 1;
        throw new Error('no database');
      };
      world.archive.onCommit = () => world.assertHonest();
      let walker = world.walkerWithTimes();
      const attempt = (work: Promise<unknown> | undefined) => work?.catch(() => undefined);
      for (let turn = 1; turn <= 30; turn += 1) {
        const nowS = (world.clock.wallMs() - START_MS) / 1000;
        world.trades = future.filter((trade, index) => index < count || trade.atS <= nowS);
        await attempt(walker.times?.pollHead(signal));
        await attempt(walker.pollHead(signal));
        await attempt(walker.fillStep(signal));
        if (walker.times?.isDue) await attempt(walker.times.fillStep(signal));
        world.clock.advance(6000);
        if (turn % 11 === 0) walker = world.walkerWithTimes();
      }
      world.archive.before = () => undefined;
      for (let step = 0; step < 200 && walker.pendingGap() !== undefined; step += 1) {
        await attempt(walker.fillStep(signal));
      }
      assert.equal(walker.pendingGap(), undefined, 'what cannot be filled is put off');
      refused += world.record.outcomesOf('trades').rejected ?? 0;
      world.record.assertAccounted('trades');
    }),
    { numRuns: worlds(60) },
  );
  assert.ok(Math.min(failed, refused) > worlds(100), 'commits failed and rows were refused');
});
