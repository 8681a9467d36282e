import type { RateLimitVariant } from '../../contract/variants.js';
import { BoundedMap } from '../../kernel/bounded.js';
import type { Clock } from '../../kernel/clock.js';

/** Addresses that are remembered; the longest-unseen window gives way beyond it. */
const MAX_ADDRESSES = 10_000;

interface Window {
  readonly endsAtMs: number;
  used: number;
}

/** Where one address stands after a request was counted. */
export interface RateStanding {
  readonly limit: number;
  readonly remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  readonly resetS: number;
  readonly isExceeded: boolean;
}

/** Counts requests per remote address in fixed windows (field notes, HTTP). */
export class RateWindows {
  readonly #clock: Clock;
  readonly #rule: RateLimitVariant;
  readonly #windows = new BoundedMap<string, Window>(MAX_ADDRESSES);

  constructor(clock: Clock, rule: RateLimitVariant) {
    this.#clock = clock;
    this.#rule = rule;
  }

  /** Counts one request of `address`. */
  count(address: string): RateStanding {
    const nowMs = this.#clock.monotonicMs();
    let window = this.#windows.get(address);
    if (window === undefined || window.endsAtMs <= nowMs) {
      window = { endsAtMs: nowMs + this.#rule.windowMs, used: 0 };
      this.#windows.set(address, window);
    }
    window.used += 1;
    return {
      limit: this.#rule.limit,
      remaining: Math.max(0, this.#rule.limit - window.used),
      resetS: Math.max(1, Math.ceil((window.endsAtMs - nowMs) / 1000)),
      isExceeded: window.used > this.#rule.limit,
    };
  }
}
