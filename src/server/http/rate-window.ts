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

/** State of one address after a request was counted. */
export interface RateStanding {
  readonly limit: number;
  readonly remaining: number;
  /** Whole seconds until the window ends, at least 1. */
  readonly resetS: number;
  readonly isExceeded: boolean;
}

/**
 * Counts requests in fixed windows, per remote address or whatever names it (field notes, HTTP).
 *
 * @returns counts one request of an address
 */
export function rateWindows(
  clock: Clock,
  { limit, windowMs }: Omit<RateLimitVariant, 'enforce'>,
): (address: string) => RateStanding {
  const windows = new BoundedMap<string, Window>(MAX_ADDRESSES);
  return (address) => {
    const nowMs = clock.monotonicMs();
    let window = windows.get(address);
    if (window === undefined || window.endsAtMs <= nowMs) {
      window = { endsAtMs: nowMs + windowMs, used: 0 };
      windows.set(address, window);
    }
    window.used += 1;
    return {
      limit,
      remaining: Math.max(0, limit - window.used),
      resetS: Math.max(1, Math.ceil((window.endsAtMs - nowMs) / 1000)),
      isExceeded: window.used > limit,
    };
  };
}

/** How long an address is refused at an endpoint whose limit it exceeded (P2B's document). */
const BLOCK_S = 60;

/**
 * Refuses an address at an endpoint for a minute once it has exceeded the limit that each endpoint has.
 *
 * @returns counts one request; tells the seconds until the next one is answered, 0: this one is
 */
export function endpointBlocks(
  clock: Clock,
  { perSecond, perMinute }: EndpointLimit,
): (address: string, path: string) => number {
  const windows = [
    rateWindows(clock, { limit: perSecond, windowMs: 1000 }),
    rateWindows(clock, { limit: perMinute, windowMs: 60_000 }),
  ];
  const endsAtMs = new BoundedMap<string, number>(MAX_ADDRESSES);
  return (address, path) => {
    const place = `${address} ${path}`;
    const nowMs = clock.monotonicMs();
    const leftMs = (endsAtMs.get(place) ?? nowMs) - nowMs;
    if (leftMs > 0) return Math.ceil(leftMs / 1000);
    const isExceeded = windows.map((count) => count(place).isExceeded).includes(true);
    if (!isExceeded) return 0;
    endsAtMs.set(place, nowMs + BLOCK_S * 1000);
    return BLOCK_S;
  };
}
