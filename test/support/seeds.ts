import { env } from 'node:process';

/**
 * How many worlds the tests of random worlds live through, and from which seed on.
 *
 * - `TEST_WORLDS=n`: n times as many as usual, as `npm run test:long` asks for.
 * - `TEST_SEED=n`: the world of this seed alone, to replay it.
 */
export const factor = Number(env.TEST_WORLDS ?? 1);
const only = env.TEST_SEED;

/** Whether fewer worlds are lived through, which need not show everything that all of them show. */
export const isReplay = only !== undefined || factor < 1;

/** @param usual worlds of a usual run */
export function seedsOf(usual: number): number[] {
  if (only !== undefined) return [Number(only)];
  return Array.from({ length: Math.ceil(usual * factor) }, (_, at) => at + 1);
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
