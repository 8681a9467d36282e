import type { ResultOf } from '../contract/endpoints.js';

/**
 * The newest `at` among tickers, UNIX milliseconds, or undefined when there is none: the exchange's
 * time where a server sends no Date header. It may lag on a quiet exchange, never lead.
 */
export function newestTickerMs(tickers: ResultOf<'tickers'>): number | undefined {
  let newestS = 0;
  for (const { at } of Object.values(tickers)) newestS = Math.max(newestS, at);
  return newestS > 0 ? Math.floor(newestS * 1000) : undefined;
}
