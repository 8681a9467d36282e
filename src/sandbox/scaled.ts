/**
 * Decimals as scaled integers: `61837.63` with 2 digits is `6183763n`. A column of them is compact
 * and exact, which texts and floats are not.
 */

/** `value` ÷ 10^`digits` as plain decimal text with exactly `digits` places. */
export function formatScaled(value: bigint, digits: number): string {
  if (digits === 0) return value.toString();
  const sign = value < 0n ? '-' : '';
  const text = (value < 0n ? -value : value).toString().padStart(digits + 1, '0');
  return `${sign}${text.slice(0, -digits)}.${text.slice(-digits)}`;
}

/** The same without superfluous zeros: `1.500` is `1.5`, `2.00` is `2`. */
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
