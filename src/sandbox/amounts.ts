import { Rejection } from './errors.js';

/*
 * Decimals as integers in units of 10^−digits: `61837.63` with 2 digits is `6183763n`. Every sum and
 * product is exact, and a column of them is compact. The bounds keep everything that is shown within
 * what the contract's decimal texts carry.
 */

/** Most digits before the point of a price, an amount or everything ever deposited of a currency. */
const MAX_WHOLE_DIGITS = 30;
/** Most places of anything that is worked out: `stockPrec + moneyPrec + feePrec` stays within. */
export const MAX_PLACES = 40;

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?$/;
/** Longer texts are not looked at. */
const MAX_TEXT_LENGTH = 120;
const CLOSING_ZEROS = /0+$/;
const LEADING_ZEROS = /^0+/;

/** 10^`digits`. */
export function powerOfTen(digits: number): bigint {
  return 10n ** BigInt(digits);
}

/** Every quantity with `digits` places stays below this. */
export function unitBound(digits: number): bigint {
  return powerOfTen(MAX_WHOLE_DIGITS + digits);
}

/**
 * Reads plain decimal text of a value above zero in units of 10^−`digits`. Zeros that close the
 * fraction do not count as places.
 *
 * @param what names the quantity in the message of a rejection
 */
export function parseUnits(text: string, digits: number, what: string): bigint | Rejection {
  const match = text.length > MAX_TEXT_LENGTH ? null : DECIMAL.exec(text);
  const shown = JSON.stringify(text.slice(0, MAX_TEXT_LENGTH));
  if (match === null) return new Rejection('notDecimal', `${what} ${shown} is not a decimal`);
  const whole = (match[2] ?? '').replace(LEADING_ZEROS, '');
  const fraction = (match[3] ?? '').replace(CLOSING_ZEROS, '');
  if (match[1] === '-' || (whole === '' && fraction === '')) {
    return new Rejection('notPositive', `${what} ${shown} is not above zero`);
  }
  if (whole.length > MAX_WHOLE_DIGITS) {
    const most = `${what} ${shown} has more than ${MAX_WHOLE_DIGITS} digits before the point`;
    return new Rejection('tooManyDigits', most);
  }
  if (fraction.length > digits) {
    return new Rejection('precisionExceeded', `${what} ${shown} has more than ${digits} places`);
  }
  return BigInt(whole + fraction.padEnd(digits, '0'));
}

/** `value` ÷ 10^`digits` as plain decimal text with exactly `digits` places. */
export function formatScaled(value: bigint, digits: number): string {
  if (digits === 0) return value.toString();
  const sign = value < 0n ? '-' : '';
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** Removes superfluous zeros: `1.500` is `1.5`, `2.00` is `2`. */
export function formatTrimmed(value: bigint, digits: number): string {
  const text = formatScaled(value, digits);
  return digits === 0 ? text : text.replace(/\.?0+$/, '');
}

/**
 * Reads plain decimal text as an integer scaled by 10^`digits`.
 *
 * @throws RangeError when the text has more places than `digits`.
 */
export function parseScaled(text: string, digits: number): bigint {
  const [whole = '0', fraction = ''] = text.split('.');
  if (fraction.length > digits) throw new RangeError(`${text} has more than ${digits} places`);
  return BigInt(whole + fraction.padEnd(digits, '0'));
}
