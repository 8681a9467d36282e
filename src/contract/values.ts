import { z } from 'zod';
import {
  DECIMAL_PATTERN,
  isDecimalText,
  MAX_DECIMAL_LENGTH,
  toPlainDecimal,
} from '../kernel/decimal.js';
import { withExactForm } from './exact-form.js';

/**
 * The scalar types of the contract. Decimals stay text. Servers of this family sometimes send a
 * NUMERIC as numeric text and a decimal in exponent form; both are accepted and normalised. What is
 * attached by `meta` says to documents what a refinement cannot say: the form on the wire.
 */

const MINUS = 0x2d;
const DIGIT_0 = 0x30;
/** The point, counted from the digit zero. */
const POINT_FROM_0 = 0x2e - DIGIT_0;
/** Any plain text of this length keeps to the bounds of decimals before and after the point. */
const QUICK_LENGTH = 40;

/**
 * Reads plain decimal text from position `at` on: a zero, a number above zero, or undefined for
 * any other text and for numbers of unusual length. Half of a page's reading is this loop.
 */
function plainSign(text: string, at: number): 0 | 1 | undefined {
  const { length } = text;
  if (length - at > QUICK_LENGTH) return undefined;
  let seen = 0;
  let pointAt = at - 1;
  for (let index = at; index < length; index += 1) {
    const digit = text.charCodeAt(index) - DIGIT_0;
    if (digit >= 0 && digit <= 9) {
      seen |= digit;
    } else {
      // A second point, or one without a digit before it, is none of a number.
      if (digit !== POINT_FROM_0 || pointAt >= at || index === at) return undefined;
      pointAt = index;
    }
  }
  if (pointAt === length - 1) return undefined;
  return seen === 0 ? 0 : 1;
}

function isPlain(value: unknown): boolean {
  return typeof value === 'string' && plainSign(value, 0) !== undefined;
}

function isPlainAboveZero(value: unknown): boolean {
  return typeof value === 'string' && plainSign(value, 0) === 1;
}

/** A negative zero is not among them: it loses its sign. */
function isPlainSigned(value: unknown): boolean {
  if (typeof value !== 'string') return false;
  return value.charCodeAt(0) === MINUS ? plainSign(value, 1) === 1 : isPlain(value);
}

const UNSIGNED_FORM = DECIMAL_PATTERN.source.replace('(-?)', '');

const DECIMAL_FORM = 'not a decimal number such as 0.5, of bounded length';

/** Refusal of an amount that is a bare number, among others. */
export const DECIMAL_EXPECTED = 'expected a decimal number as text, such as "0.5"';

/** A decimal number as text, any sign, in plain notation. */
export const decimalText = withExactForm(
  z
    .string({ error: DECIMAL_EXPECTED })
    .refine(isDecimalText, { error: DECIMAL_FORM })
    .transform(toPlainDecimal)
    .meta({ pattern: DECIMAL_PATTERN.source, maxLength: MAX_DECIMAL_LENGTH }),
  isPlainSigned,
);

const hasSign = (text: string) => text.startsWith('-');

/** A decimal of at least zero. */
export const nonNegativeDecimal = withExactForm(
  decimalText
    .refine((text) => !hasSign(text), { error: 'negative' })
    .meta({ pattern: UNSIGNED_FORM }),
  isPlain,
);

/** A decimal above zero: prices and amounts of trades. */
export const positiveDecimal = withExactForm(
  nonNegativeDecimal
    .refine((text) => /[1-9]/.test(text), { error: 'not above zero' })
    .meta({ pattern: UNSIGNED_FORM.replace('^', '^(?![0.]+(?:[eE]|$))') }),
  isPlainAboveZero,
);

const NUMERIC_TEXT = /^-?\d{1,16}(\.\d{1,12})?([eE][+-]?\d{1,2})?$/;

/** A JSON number, or its text form, as a JavaScript number. For times, counts and ids only. */
const numeric = z.preprocess(
  (value) => (typeof value === 'string' && NUMERIC_TEXT.test(value) ? Number(value) : value),
  z.number().refine(Number.isFinite, { error: 'not finite' }),
);

/** A whole number that JavaScript holds exactly (below 2^53): ids and counts. */
export const wholeNumber = withExactForm(
  numeric.pipe(
    z
      .number()
      .refine(Number.isSafeInteger, { error: 'not a whole number below 2^53' })
      .meta({ type: 'integer' }),
  ),
  Number.isSafeInteger,
);

/** A trade or order id: above zero and below 2^53. */
export const idNumber = withExactForm(
  wholeNumber.pipe(z.number().min(1)),
  (value) => Number.isSafeInteger(value) && (value as number) >= 1,
);

/** A UNIX time in seconds, fractional part allowed. The sane window is checked where it is stored. */
export const unixSeconds = withExactForm(
  numeric.pipe(z.number().min(0)),
  (value) => Number.isFinite(value) && (value as number) >= 0,
);

/** A whole UNIX second. */
export const wholeUnixSeconds = withExactForm(
  wholeNumber.pipe(z.number().min(0)),
  (value) => Number.isSafeInteger(value) && (value as number) >= 0,
);

/** Longest market name taken from outside. */
const MAX_NAME_LENGTH = 64;
const NAME_FORM = `expected a name of 1 to ${MAX_NAME_LENGTH} characters`;

/**
 * Text of `min` to `max` characters. zod's own bounds also ask what is no text for its length, and throw over JSON such
 * as `{"length": {"valueOf": 1, "toString": 1}}`; so do those of {@link boundedList}.
 *
 * @param error text of a refusal
 */
export function boundedText(min: number, max: number, error: string) {
  return z
    .string({ error })
    .refine(({ length }) => length >= min && length <= max, { error })
    .meta({ minLength: min, maxLength: max });
}

/** A list of `min` to `max` items, see {@link boundedText}. */
export function boundedList<S extends z.ZodType>(item: S, min: number, max: number) {
  const error = `expected a list of ${min} to ${max}`;
  return z
    .array(item, { error })
    .refine(({ length }) => length >= min && length <= max, { error })
    .meta({ minItems: min, maxItems: max });
}

/** A short text: names of markets and currencies. */
export const nameText = withExactForm(
  boundedText(1, MAX_NAME_LENGTH, NAME_FORM),
  (value) => typeof value === 'string' && value !== '' && value.length <= MAX_NAME_LENGTH,
);

export type { Side } from './resource-types.js';

/** Taker's side of a trade, or the side of an order. */
export const sideText = withExactForm(
  z.enum(['buy', 'sell'], { error: 'expected buy or sell' }),
  (value) => value === 'buy' || value === 'sell',
);
