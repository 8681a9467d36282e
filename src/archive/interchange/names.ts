import { DAY_S } from '../../kernel/durations.js';
import { OutputError } from '../export/errors.js';

/** A market as other tools name it. */
export interface NamedMarket {
  readonly name: string;
  readonly stock: string;
  readonly money: string;
}

const UNITS: readonly (readonly [seconds: number, letter: string])[] = [
  [7 * DAY_S, 'w'],
  [DAY_S, 'd'],
  [3600, 'h'],
  [60, 'm'],
  [1, 's'],
];

/** A length as freqtrade and ccxt write it: `1m`, `4h`, `1d`. */
export function timeframeOf(seconds: number): string {
  const [unit, letter] = UNITS.find(([one]) => seconds % one === 0) ?? [1, 's'];
  return `${seconds / unit}${letter}`;
}

/** Names come from outside and must not lead out of the folder, nor mean something else there. */
const PLAIN = /^[A-Za-z0-9_-]{1,80}$/;

/**
 * What stands for a market in the name of a file: `BTC_USDT`, from which freqtrade makes the pair
 * `BTC/USDT` again.
 *
 * @throws OutputError for currencies that no such name can hold
 */
export function pairName({ name, stock, money }: NamedMarket): string {
  return plain(`${stock}_${money}`, name);
}

function plain(text: string, market: string): string {
  if (PLAIN.test(text)) return text;
  throw new OutputError(
    text,
    `the currencies of ${market} make no name of a file that the tool would know; use another format`,
  );
}
