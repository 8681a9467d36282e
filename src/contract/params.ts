import { z } from 'zod';
import {
  DOCUMENTED_INTERVALS_S,
  isKlineInterval,
  KLINE_INTERVAL_DEFAULT_S,
  KLINE_INTERVALS_S,
  NONCE_DIGITS,
  PAGE_LIMIT,
} from './limits.js';
import { boundedText, nameText, sideText } from './values.js';

/**
 * Request parameters. A value arrives as text in a query string and as a number or text in a JSON
 * body, so numbers are read from both. What a number cannot be read from stays as it was and fails
 * with `invalid_type`, which distinguishes *malformed* from *well-formed but invalid*.
 */

/** Ids stay below 2^53 and so have up to 16 digits; `int()` refuses what is beyond. */
const WHOLE_TEXT = /^-?\d{1,16}$/;

/** @param error text of a refusal, for any reason */
function wholeParam(error: string, narrow: (whole: z.ZodNumber) => z.ZodNumber) {
  return z.preprocess(
    (value) => (typeof value === 'string' && WHOLE_TEXT.test(value) ? Number(value) : value),
    narrow(z.number({ error })).int({ error }),
  );
}

function between(min: number, max: number) {
  const error = `expected a whole number from ${min} to ${max}`;
  return wholeParam(error, (whole) => whole.min(min, { error }).max(max, { error }));
}

function atLeast(min: number, what = 'a whole number') {
  const error = `expected ${what} of at least ${min}`;
  return wholeParam(error, (whole) => whole.min(min, { error }));
}

export const marketParam = nameText.meta({
  description: 'Name of a public pair, stock before money',
  examples: ['BTC_USDT'],
});
export const sideParam = sideText.describe('Side of the order book');

export const pageLimitParam = between(PAGE_LIMIT.min, PAGE_LIMIT.max)
  .default(PAGE_LIMIT.default)
  .describe('Most rows to return');

export function skipParam(description: string) {
  return atLeast(0).default(0).describe(description);
}

export const requiredSkipParam = atLeast(0).describe('Number of most recent trades to skip');

export function unixTimeParam(description: string) {
  return atLeast(0, 'UNIX seconds, a whole number').describe(description);
}

const INTERVAL_FORM = `expected seconds that candles come in, such as ${DOCUMENTED_INTERVALS_S.join(', ')}`;

export const intervalParam = wholeParam(INTERVAL_FORM, (whole) =>
  whole.refine(isKlineInterval, { error: INTERVAL_FORM }),
)
  .default(KLINE_INTERVAL_DEFAULT_S)
  .meta({
    description: `Candle length in seconds, such as ${DOCUMENTED_INTERVALS_S.join(', ')}`,
    enum: [...KLINE_INTERVALS_S],
  });

/** The two fields that every signed body carries beside its own (contract, Authentication). */
export const signedFields = z.object({
  request: boundedText(1, 200, 'expected the path of the endpoint').describe(
    'Path of the endpoint, without the domain',
  ),
  nonce: between(10 ** (NONCE_DIGITS - 1), 10 ** NONCE_DIGITS - 1).describe(
    '13 digits, greater than the nonce of the last completed request',
  ),
});
