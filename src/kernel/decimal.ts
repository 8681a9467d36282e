import { Big } from 'big.js';

/**
 * Exact arithmetic on decimal *text*. Prices and amounts never become JavaScript numbers: they are
 * read as text, calculated exactly here, and written as text.
 */

/** Longest decimal text taken from outside; bounds the work before anything is parsed. */
export const MAX_DECIMAL_LENGTH = 80;
/** Largest exponent taken from outside (`1e-8` is real, `1e999` is an attack on storage). */
const MAX_EXPONENT = 40;

/** The form of decimal text; group 1 is the sign. */
export const DECIMAL_PATTERN = /^(-?)(\d{1,60})(?:\.(\d{1,40}))?(?:[eE]([+-]?\d{1,3}))?$/;

/** True for text that is a bounded decimal number: digits, one optional point, small exponent. */
export function isDecimalText(text: string): boolean {
  if (text.length > MAX_DECIMAL_LENGTH) return false;
  const match = DECIMAL_PATTERN.exec(text);
  return match !== null && Math.abs(Number(match[4] ?? 0)) <= MAX_EXPONENT;
}

/**
 * Plain notation without exponent; digits as sent are kept (`61837.63000000` stays so, `1e-8`
 * becomes `0.00000001`), and a negative zero loses its sign.
 */
export function toPlainDecimal(text: string): string {
  const isPlain = !/[eE]/.test(text);
  const plain = isPlain ? text : Big(text).toFixed();
  return plain.startsWith('-') && !/[1-9]/.test(plain) ? plain.slice(1) : plain;
}

/** Products of whole numbers of fewer digits together are exact as JavaScript numbers. */
const SMALL_DIGITS = 15;
const UNSIGNED = /^\d*\.?\d*$/;

/** `a × b`, exactly, in plain notation without superfluous zeros. */
export function multiplyDecimals(a: string, b: string): string {
  const isSmall = a.length + b.length <= SMALL_DIGITS && UNSIGNED.test(a) && UNSIGNED.test(b);
  if (!isSmall) return Big(a).times(b).toFixed();
  const [pointA, pointB] = [a.indexOf('.'), b.indexOf('.')];
  const scaleA = pointA < 0 ? 0 : a.length - pointA - 1;
  const scaleB = pointB < 0 ? 0 : b.length - pointB - 1;
  const wholeA = pointA < 0 ? Number(a) : Number(a.slice(0, pointA) + a.slice(pointA + 1));
  const wholeB = pointB < 0 ? Number(b) : Number(b.slice(0, pointB) + b.slice(pointB + 1));
  const scale = scaleA + scaleB;
  const digits = String(wholeA * wholeB).padStart(scale + 1, '0');
  if (scale === 0) return digits;
  return `${digits.slice(0, -scale)}.${digits.slice(-scale)}`.replace(/\.?0+$/, '');
}

/** `a + b`, exactly. */
export function addDecimals(a: string, b: string): string {
  return Big(a).plus(b).toFixed();
}

/** `a − b`, exactly. */
export function subtractDecimals(a: string, b: string): string {
  return Big(a).minus(b).toFixed();
}

/** Negative, zero or positive as `a` is less than, equal to or greater than `b`, by value. */
export function compareDecimals(a: string, b: string): number {
  return Big(a).cmp(b);
}

/** True when both texts mean the same number (`1.50` and `1.5`). */
export function equalDecimals(a: string, b: string): boolean {
  return a === b || Big(a).eq(b);
}

/** Minus one, zero or one. */
export function decimalSign(text: string): -1 | 0 | 1 {
  if (!/[1-9]/.test(text.split(/[eE]/)[0] ?? '')) return 0;
  return text.startsWith('-') ? -1 : 1;
}

/**
 * `part ÷ whole`, rounded half-up to `digits` places after the point.
 *
 * @throws RangeError when `whole` is zero.
 */
export function divideDecimals(part: string, whole: string, digits: number): string {
  if (decimalSign(whole) === 0) throw new RangeError('division of a decimal by zero');
  const Division = Big();
  Division.DP = digits;
  return new Division(part).div(whole).toFixed(digits);
}

/** Rounds to `digits` places after the point, half away from zero. */
export function roundDecimal(text: string, digits: number): string {
  return Big(text).round(digits, Big.roundHalfUp).toFixed(digits);
}

/** Change from `open` to `last` in percent, with two places; 0 from nothing. */
export function percentChange(open: string, last: string): string {
  if (decimalSign(open) === 0) return '0';
  const percent = multiplyDecimals(subtractDecimals(last, open), '100');
  return toPlainDecimal(divideDecimals(percent, open, 2));
}
