import type { EndpointLimit } from '../../contract/dialects.js';
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

/** Counts requests in fixed windows, per remote address or whatever names it (field notes, HTTP). */
export class RateWindows {
  readonly #clock: Clock;
  readonly #rule: Omit<RateLimitVariant, 'enforce'>;
  readonly #windows = new BoundedMap<string, Window>(MAX_ADDRESSES);

  constructor(clock: Clock, rule: Omit<RateLimitVariant, 'enforce'>) {
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

/** How long an address is refused at an endpoint whose limit it exceeded (P2B's document). */
const BLOCK_S = 60;

/** Refuses an address at an endpoint for a minute once it has exceeded the limit that each endpoint has. */
export class EndpointBlocks {
  readonly #clock: Clock;
  readonly #windows: readonly RateWindows[];
  readonly #endsAtMs = new BoundedMap<string, number>(MAX_ADDRESSES);

  constructor(clock: Clock, { perSecond, perMinute }: EndpointLimit) {
    this.#clock = clock;
    this.#windows = [
      new RateWindows(clock, { limit: perSecond, windowMs: 1000 }),
      new RateWindows(clock, { limit: perMinute, windowMs: 60_000 }),
    ];
  }

  /** Counts one request. @returns seconds until the next one is answered; 0: this one is */
  count(address: string, path: string): number {
    const place = `${address} ${path}`;
    const nowMs = this.#clock.monotonicMs();
    const leftMs = (this.#endsAtMs.get(place) ?? nowMs) - nowMs;
    if (leftMs > 0) return Math.ceil(leftMs / 1000);
    const isExceeded = this.#windows.map((window) => window.count(place).isExceeded).includes(true);
    if (!isExceeded) return 0;
    this.#endsAtMs.set(place, nowMs + BLOCK_S * 1000);
    return BLOCK_S;
  }
}
