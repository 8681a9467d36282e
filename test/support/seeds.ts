import { env } from 'node:process';

/**
 * How many worlds the tests of random worlds live through, and from which seed on.
 *
 * - `TEST_WORLDS=n`: n times as many as it takes to show everything. By default a quarter, so that
 *   `npm test` stays a habit; `.ci/run` takes all, and `npm run test:long` ten times as many.
 * - `TEST_SEED=n`: the world of this seed alone, to replay it.
 */
export const factor = Number(env.TEST_WORLDS ?? 0.25);
const only = env.TEST_SEED;

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
