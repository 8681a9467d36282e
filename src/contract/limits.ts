import { DAY_S } from '../kernel/durations.js';

/** The contract's Limits table: bounds of `limit` and what holds when a parameter is left out. */
export const PAGE_LIMIT = { default: 50, min: 1, max: 1000 } as const;
export const KLINE_INTERVAL_DEFAULT_S = 60;
/** Digits of a nonce: a UNIX time in milliseconds until the year 2286. */
export const NONCE_DIGITS = 13;
/** Candles that one reply carries at most; a client asks for no more (field notes, kline). */
export const KLINE_PAGE_MAX = 1000;
/** Largest accepted request body, bytes: orders of magnitude above any body of the contract. */
export const REQUEST_BODY_MAX_BYTES = 16 * 1024;
/** Largest accepted real-time frame from a client, bytes: as many markets as a subscription may name. */
export const REALTIME_FRAME_MAX_BYTES = 64 * 1024;

/** Seconds of a week, the longest candle. */
const WEEK_S = 604_800;

/** The values that the contract lists for kline intervals and state periods, in seconds. */
export const DOCUMENTED_INTERVALS_S = [60, 900, 1800, 3600, 14_400, 86_400] as const;

/**
 * Returns true if an exchange of this family offers candles of `seconds` (field notes, kline): a divisor of
 * the next larger unit below a minute, an hour or a day; whole days up to a week; or one week.
 */
export function isKlineInterval(seconds: number): boolean {
  if (!Number.isInteger(seconds) || seconds < 1) return false;
  if (seconds < 60) return 60 % seconds === 0;
  if (seconds < 3600) return seconds % 60 === 0 && 3600 % seconds === 0;
  if (seconds < DAY_S) return seconds % 3600 === 0 && DAY_S % seconds === 0;
  return seconds === WEEK_S || (seconds % DAY_S === 0 && seconds < WEEK_S);
}

/** Whole multiples of `unitS` below `endS`, as far as candles come in them. */
function intervalsOf(unitS: number, endS: number): number[] {
  const multiples = Array.from({ length: endS / unitS - 1 }, (_, index) => (index + 1) * unitS);
  return multiples.filter(isKlineInterval);
}

/** Every interval that {@link isKlineInterval} admits, ascending, in seconds. */
export const KLINE_INTERVALS_S: readonly number[] = [
  ...intervalsOf(1, 60),
  ...intervalsOf(60, 3600),
  ...intervalsOf(3600, DAY_S),
  ...intervalsOf(DAY_S, WEEK_S),
  WEEK_S,
];
