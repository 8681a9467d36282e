import type { TradePlace } from './past.js';

/** Negative, zero or positive as `a` comes before, at or after `b` in the order of time and id. */
export function comparePlaces(a: TradePlace, b: TradePlace): number {
  return a.tradedAtS - b.tradedAtS || a.tid - b.tid;
}

/** Before every trade of a second. */
export function beginOfSecond(second: number): TradePlace {
  return { tradedAtS: second, tid: 0 };
}
