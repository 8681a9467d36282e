import fc from '../properties.js';
import type { WalkWorld } from './model-walk.js';

const share = fc.integer({ min: -20, max: 100 }).map((percent) => percent / 100);

/** Every kind of world that a walk may have to live in. */
export const worldOf = (mode: 'skip' | 'id'): fc.Arbitrary<WalkWorld> =>
  fc.record({
    mode: fc.constant(mode),
    seed: fc.integer({ min: 1, max: 2 ** 31 }),
    history: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1200 })),
    perRequest: fc.integer({ min: 0, max: 20 }),
    cap: fc.constantFrom(1000, 300, 100, 60),
    staleEvery: fc.integer({ min: 2, max: 40 }),
    replicaEvery: fc.integer({ min: 3, max: 40 }),
    brokenEvery: fc.constantFrom(0, 0, 0, 150, 37),
    crashEvery: fc.integer({ min: 3, max: 60 }),
    shortShare: fc.constantFrom(0, 0.1, 0.3),
    forgetEvery: fc.constantFrom(0, 0, 0, 13, 29),
    failEvery: fc.integer({ min: 4, max: 60 }),
    floor: fc.option(fc.integer({ min: -50, max: 90 }).map((percent) => percent / 100)),
    wanted: fc.array(fc.tuple(share, share), { maxLength: 3 }),
    invalidateEvery: fc.integer({ min: 7, max: 60 }),
  });
