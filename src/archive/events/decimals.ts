import { multiplyDecimals } from '../../kernel/decimal.js';
import { shortest } from '../parquet/texts.js';

/** Products of whole numbers below this many digits together are exact as JavaScript numbers. */
const SMALL_DIGITS = 15;

/** `a × b`, exactly, in the shortest text. Takes plain decimals that are not negative. */
export function product(a: string, b: string): string {
  if (a.length + b.length > SMALL_DIGITS) return shortest(multiplyDecimals(a, b));
  const pointA = a.indexOf('.');
  const pointB = b.indexOf('.');
  const scaleA = pointA < 0 ? 0 : a.length - pointA - 1;
  const scaleB = pointB < 0 ? 0 : b.length - pointB - 1;
  const wholeA = pointA < 0 ? Number(a) : Number(a.slice(0, pointA) + a.slice(pointA + 1));
  const wholeB = pointB < 0 ? Number(b) : Number(b.slice(0, pointB) + b.slice(pointB + 1));
  const scale = scaleA + scaleB;
  const digits = String(wholeA * wholeB).padStart(scale + 1, '0');
  if (scale === 0) return digits;
  return shortest(`${digits.slice(0, -scale)}.${digits.slice(-scale)}`);
}

/** A side of a book: prices and amounts with spaces between, best first, none for an empty side. */
export function levels(prices: string, amounts: string): (readonly [string, string])[] {
  if (prices === '') return [];
  const ofPrices = prices.split(' ');
  const ofAmounts = amounts.split(' ');
  const count = ofPrices.length;
  const made: (readonly [string, string])[] = new Array(count);
  for (let at = 0; at < count; at += 1) {
    made[at] = [shortest(ofPrices[at] ?? ''), shortest(ofAmounts[at] ?? '')];
  }
  return made;
}
