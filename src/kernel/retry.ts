import { type Clock, sleep } from './clock.js';
import type { Random } from './random.js';

/** Limits of an exponential back-off. All times in milliseconds. */
export interface BackoffOptions {
  /** Longest wait after the first failure; it doubles with each further one. */
  readonly baseMs: number;
  /** Longest wait of all. */
  readonly capMs: number;
}

/**
 * Full-jitter exponential back-off: attempt `n` waits a random time in `[0, min(cap, base·2ⁿ))`,
 * so that many clients that failed together do not come back together.
 *
 * States: the attempt count grows with every {@link Backoff.nextMs} and falls to zero with
 * {@link Backoff.reset}, which owners call only after real success (data, not a mere connection).
 */
export class Backoff {
  readonly #options: BackoffOptions;
  readonly #random: Random;
  #attempts = 0;

  constructor(options: BackoffOptions, random: Random) {
    this.#options = options;
    this.#random = random;
  }

  /** How many times in a row the work has failed. */
  get attempts(): number {
    return this.#attempts;
  }

  /**
   * Counts one failure and returns how long to wait before the next attempt, in milliseconds.
   *
   * @param draw in [0, 1), for those that shall come back together
   */
  nextMs(draw = this.#random()): number {
    const { baseMs, capMs } = this.#options;
    const ceilingMs = Math.min(capMs, baseMs * 2 ** Math.min(this.#attempts, 30));
    this.#attempts += 1;
    return draw * ceilingMs;
  }

  reset(): void {
    this.#attempts = 0;
  }
}

/** Options of {@link retry}: how often, how long between, and which errors are worth it. */
export interface RetryOptions extends BackoffOptions {
  readonly clock: Clock;
  readonly random: Random;
  /** Total number of tries, at least 1. */
  readonly maxAttempts: number;
  readonly isRetryable: (error: unknown) => boolean;
  readonly onRetry?: (error: unknown, attempt: number, waitMs: number) => void;
  readonly signal?: AbortSignal;
}

/**
 * Runs `work` until it succeeds, fails with an error not worth repeating, or the tries are used up.
 *
 * @throws the last error of `work`, or the signal's reason.
 */
export async function retry<T>(options: RetryOptions, work: () => Promise<T>): Promise<T> {
  const backoff = new Backoff(options, options.random);
  for (;;) {
    try {
      return await work();
    } catch (error) {
      const isLast = backoff.attempts + 1 >= options.maxAttempts;
      if (isLast || options.signal?.aborted || !options.isRetryable(error)) throw error;
      const waitMs = backoff.nextMs();
      options.onRetry?.(error, backoff.attempts, waitMs);
      await sleep(options.clock, waitMs, options.signal);
    }
  }
}
