import type { Clock } from '../kernel/clock.js';

/** Different troubles that are remembered at once; the one untold for longest makes room. */
const MAX_KEYS = 500;

interface Told {
  readonly atMs: number;
  /** Occurrences kept back since then. */
  heldBack: number;
}

/**
 * Keeps a repeating trouble from flooding the log: the first occurrence is told, then at most one
 * in each period, together with how many were kept back in between. Metrics count all of them.
 */
export class Repeats {
  readonly #clock: Clock;
  readonly #periodMs: number;
  readonly #told = new Map<string, Told>();

  constructor(clock: Clock, periodMs: number) {
    this.#clock = clock;
    this.#periodMs = periodMs;
  }

  /**
   * Notes one occurrence of `key`.
   *
   * @returns how many were kept back since the last telling if this one is to be told, else
   *   undefined.
   */
  note(key: string): number | undefined {
    const nowMs = this.#clock.monotonicMs();
    const told = this.#told.get(key);
    if (told !== undefined && nowMs - told.atMs < this.#periodMs) {
      told.heldBack += 1;
      return undefined;
    }
    this.#told.delete(key);
    this.#told.set(key, { atMs: nowMs, heldBack: 0 });
    if (this.#told.size > MAX_KEYS) {
      const [oldest] = this.#told.keys();
      if (oldest !== undefined) this.#told.delete(oldest);
    }
    return told?.heldBack ?? 0;
  }
}
