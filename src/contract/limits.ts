/** The contract's Limits table: bounds of `limit` and what holds when a parameter is left out. */
export const PAGE_LIMIT = { default: 50, min: 1, max: 1000 } as const;
export const SKIP_DEFAULT = 0;
export const ORDERS_LIMIT_DEFAULT = 50;
export const KLINE_INTERVAL_DEFAULT_S = 60;
/** Digits of a nonce: a UNIX time in milliseconds until the year 2286. */
export const NONCE_DIGITS = 13;
/** Candles that one reply carries at most; a client asks for no more (field notes, kline). */
export const KLINE_PAGE_MAX = 1000;
/** Largest accepted request body, bytes: orders of magnitude above any body of the contract. */
export const REQUEST_BODY_MAX_BYTES = 16 * 1024;
/** Largest accepted real-time frame from a client, bytes. */
export const REALTIME_FRAME_MAX_BYTES = 16 * 1024;
