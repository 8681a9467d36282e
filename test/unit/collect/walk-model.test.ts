import assert from 'node:assert/strict';
import test from 'node:test';
import { fired, WalkRun, type WalkWorld } from '../../support/models/model-walk.js';
import { worldOf } from '../../support/models/model-walk-arb.js';
import fc from '../../support/properties.js';
import { isReplay, worlds } from '../../support/seeds.js';

/**
 * The walk in both modes against a model exchange, with everything that may befall it at once:
 * caches, replicas, caps, refused rows, failing commits, crashes that leave nothing but the ledger,
 * spans that are wanted besides, and spans that are doubted. What holds after every commit: nothing
 * is covered that is not stored, and the figures of covered ranges are exact.
 */

const UNTROUBLED = { brokenEvery: 0, shortShare: 0, forgetEvery: 0 } as const;
const QUIET = { mode: 'id', seed: 1, cap: 1000, floor: null, ...UNTROUBLED } as const;
/**
 * Worlds in which a lost gap grows by a doubt, twice, or a wanted span begins before all history; and one in which
 * the commit that lists a gap as lost fails.
 */
const LOST_AND_INVALIDATED: readonly WalkWorld[] = [
  {
    ...{ ...QUIET, history: 2, perRequest: 0, staleEvery: 36, replicaEvery: 4, wanted: [] },
    ...{ crashEvery: 39, failEvery: 4, invalidateEvery: 12 },
  },
  {
    ...{ ...QUIET, history: 1, perRequest: 2, staleEvery: 3, replicaEvery: 6 },
    ...{ crashEvery: 7, failEvery: 5, wanted: [[-0.01, 0.02]], invalidateEvery: 7 },
  },
  {
    ...{ ...QUIET, seed: 8, history: 2, perRequest: 0, staleEvery: 2, replicaEvery: 4, floor: 0 },
    ...{ crashEvery: 30, failEvery: 4, wanted: [], invalidateEvery: 7 },
  },
  {
    ...{ ...QUIET, seed: 8, history: 0, perRequest: 17, cap: 60, staleEvery: 2, replicaEvery: 15 },
    ...{ crashEvery: 31, failEvery: 4, floor: 0.02, wanted: [], invalidateEvery: 12 },
  },
];

for (const mode of ['skip', 'id'] as const) {
  test(`${mode} mode: nothing false is claimed, and all that was issued is stored or listed`, async () => {
    await fc.assert(
      fc.asyncProperty(worldOf(mode), async (world) => {
        const run = new WalkRun(world);
        await run.live();
        await run.settle();
        run.assertComplete();
      }),
      {
        numRuns: worlds(110),
        examples: mode === 'id' ? LOST_AND_INVALIDATED.map((one) => [one]) : [],
      },
    );
  });
}

test('all of it really happened', { skip: isReplay && 'fewer worlds than usual' }, () => {
  for (const [what, count] of Object.entries(fired)) assert.ok(count > 2, `${what}: ${count}`);
});
