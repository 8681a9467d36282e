import type { TradePlace } from './past.js';

export { comparePlaces } from '../../ledger/order.js';

/** Before every trade of a second. */
export function beginOfSecond(second: number): TradePlace {
  return { tradedAtS: second, tid: 0 };
}
