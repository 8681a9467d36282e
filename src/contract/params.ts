import { z } from 'zod';
import { DOCUMENTED_INTERVALS_S, isKlineInterval, KLINE_INTERVALS_S } from './intervals.js';
import {
  KLINE_INTERVAL_DEFAULT_S,
  NONCE_DIGITS,
  ORDERS_LIMIT_DEFAULT,
  PAGE_LIMIT,
  SKIP_DEFAULT,
} from './limits.js';
import { decimalText, nameText, sideText } from './values.js';

/**
 * Request parameters. A value arrives as text in a query string and as a number or text in a JSON
 * body, so numbers are read from both. What a number can not be read from stays as it was and fails
 * with `invalid_type`, which is how a server tells *malformed* from *well-formed but invalid*.
 */

/** Ids stay below 2^53 and so have up to 16 digits; `int()` refuses what is beyond. */
const WHOLE_TEXT = /^-?\d{1,16}$/;

function wholeParam(schema: z.ZodNumber) {
  return z.preprocess(
    (value) => (typeof value === 'string' && WHOLE_TEXT.test(value) ? Number(value) : value),
    schema.int(),
  );
}

export const marketParam = nameText.meta({
  description: 'Name of a public pair, stock before money',
  examples: ['BTC_USDT'],
});
export const sideParam = sideText.describe('Side of the order book');

export const pageLimitParam = wholeParam(z.number().min(PAGE_LIMIT.min).max(PAGE_LIMIT.max))
  .default(PAGE_LIMIT.default)
  .describe('Most rows to return');

export function skipParam(description: string) {
  return wholeParam(z.number().min(0)).default(SKIP_DEFAULT).describe(description);
}

export const requiredSkipParam = wholeParam(z.number().min(0)).describe(
  'Number of most recent trades to skip',
);

export function unixTimeParam(description: string) {
  return wholeParam(z.number().min(0)).describe(description);
}

export const intervalParam = wholeParam(
  z.number().refine(isKlineInterval, { error: 'not an interval that candles come in' }),
)
  .default(KLINE_INTERVAL_DEFAULT_S)
  .meta({
    description: `Candle length in seconds, such as ${DOCUMENTED_INTERVALS_S.join(', ')}`,
    enum: [...KLINE_INTERVALS_S],
  });

export const ordersLimitParam = wholeParam(z.number().min(PAGE_LIMIT.min).max(PAGE_LIMIT.max))
  .default(ORDERS_LIMIT_DEFAULT)
  .describe('Most orders to return');

export const decimalParam = decimalText;

/** The two fields that every signed body carries beside its own (contract, Authentication). */
export const signedFields = z.object({
  request: z.string().min(1).max(200).describe('Path of the endpoint, without the domain'),
  nonce: wholeParam(
    z
      .number()
      .min(10 ** (NONCE_DIGITS - 1))
      .max(10 ** NONCE_DIGITS - 1),
  ).describe('13 digits, greater than the nonce of the last completed request'),
});
export type SignedFields = z.infer<typeof signedFields>;
