import { z } from 'zod';
import {
  DECIMAL_PATTERN,
  isDecimalText,
  MAX_DECIMAL_LENGTH,
  toPlainDecimal,
} from '../kernel/decimal.js';

/**
 * The scalar types of the contract. Decimals stay text. Servers of this family sometimes send a
 * NUMERIC as numeric text and a decimal in exponent form; both are accepted and normalised. What is
 * attached by `meta` says to documents what a refinement can not say: the form on the wire.
 */

const UNSIGNED_FORM = DECIMAL_PATTERN.source.replace('(-?)', '');

/** A decimal number as text, any sign, in plain notation. */
export const decimalText = z
  .string()
  .refine(isDecimalText, { error: 'not a bounded decimal number' })
  .transform(toPlainDecimal)
  .meta({ pattern: DECIMAL_PATTERN.source, maxLength: MAX_DECIMAL_LENGTH });

const hasSign = (text: string) => text.startsWith('-');

/** A decimal of at least zero. */
export const nonNegativeDecimal = decimalText
  .refine((text) => !hasSign(text), { error: 'negative' })
  .meta({ pattern: UNSIGNED_FORM });

/** A decimal above zero: prices and amounts of trades. */
export const positiveDecimal = nonNegativeDecimal
  .refine((text) => /[1-9]/.test(text), { error: 'not above zero' })
  .meta({ pattern: UNSIGNED_FORM.replace('^', '^(?![0.]+(?:[eE]|$))') });

const NUMERIC_TEXT = /^-?\d{1,16}(\.\d{1,12})?([eE][+-]?\d{1,2})?$/;

/** A JSON number, or its text form, as a JavaScript number. For times, counts and ids only. */
const numeric = z.preprocess(
  (value) => (typeof value === 'string' && NUMERIC_TEXT.test(value) ? Number(value) : value),
  z.number().refine(Number.isFinite, { error: 'not finite' }),
);

/** A whole number that JavaScript holds exactly (below 2^53): ids and counts. */
export const wholeNumber = numeric.pipe(
  z
    .number()
    .refine(Number.isSafeInteger, { error: 'not a whole number below 2^53' })
    .meta({ type: 'integer' }),
);

/** A trade or order id: above zero and below 2^53. */
export const idNumber = wholeNumber.pipe(z.number().min(1));

/** A UNIX time in seconds, fractional part allowed. The sane window is checked where it is stored. */
export const unixSeconds = numeric.pipe(z.number().min(0));

/** A whole UNIX second. */
export const wholeUnixSeconds = wholeNumber.pipe(z.number().min(0));

/** Longest market name taken from outside. */
const MAX_NAME_LENGTH = 64;

/** A short text: names of markets and currencies. */
export const nameText = z.string().min(1).max(MAX_NAME_LENGTH);

/** Taker's side of a trade, or the side of an order. */
export const sideText = z.enum(['buy', 'sell']);
export type Side = z.infer<typeof sideText>;
