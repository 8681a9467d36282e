import { env } from 'node:process';
import type { TestContext } from 'node:test';
import { type Random, seededRandom } from '../../src/kernel/random.js';

/**
 * How many worlds the tests of random worlds live through, and from which seeds. CONTRIBUTING.md names the variables:
 * `TEST_WORLDS`, `TEST_SEED` and `TEST_RUN_SEED`.
 */
export const factor = Number(env.TEST_WORLDS ?? 0.25);
const only = env.TEST_SEED;

/** A usual run repeats the one before it: what it refuses, a change has broken. */
const USUAL_SEED = 20_260_115;
const SEED_END = 2 ** 31;

/** Whether the run looks for what no run has shown yet: more worlds than it takes to show everything. */
export const isExploring = factor > 1;

/** Seed of all that a run draws at random, except worlds that have a number. Processes that it starts inherit it. */
export const runSeed = Number(
  env.TEST_RUN_SEED ?? (isExploring ? Math.floor(Math.random() * SEED_END) : USUAL_SEED),
);
env.TEST_RUN_SEED = String(runSeed);
/** What a failure prints: with this in the environment the run draws the same again. */
export const runSeedText = `TEST_RUN_SEED=${runSeed}`;

/** Random numbers of one test, by the seed of the run. @param salt other numbers for another part of it */
export function drawsOfRun(t: TestContext, salt = 0): Random {
  t.diagnostic(runSeedText);
  return seededRandom(runSeed ^ salt);
}

/** Whether fewer worlds are lived through, which need not show everything that all of them show. */
export const isReplay = only !== undefined || factor < 1;

/** How many worlds to live through. @param all as many as it takes to show everything */
export function worlds(all: number): number {
  return Math.ceil(all * factor);
}

/** @param all as many as it takes to show everything */
export function seedsOf(all: number): number[] {
  if (only !== undefined) return [Number(only)];
  return Array.from({ length: worlds(all) }, (_, at) => at + 1);
}

/** Lives through the world of each seed; an error names the one that it came from. */
export async function inEachWorld(
  seeds: readonly number[],
  live: (seed: number) => Promise<void>,
): Promise<void> {
  for (const seed of seeds) {
    await live(seed).catch((error: unknown) => {
      throw new Error(`world ${seed} (replay with TEST_SEED=${seed})`, { cause: error });
    });
  }
}
