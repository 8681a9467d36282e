import { addDecimals, compareDecimals } from '../kernel/decimal.js';
import type { RowOf } from '../model/series.js';

/** Candles made of trades. */

/** A candle as far as its trades have come. */
export interface BuiltCandle {
  readonly openAtS: number;
  readonly open: string;
  readonly close: string;
  readonly high: string;
  readonly low: string;
  readonly volume: string;
  readonly quoteVolume: string;
}

/** A sum of decimals in plain notation, exact. */
class ExactSum {
  #digits = 0n;
  #scale = 0;

  add(text: string): void {
    const point = text.indexOf('.');
    const scale = point < 0 ? 0 : text.length - point - 1;
    let digits = BigInt(point < 0 ? text : text.slice(0, point) + text.slice(point + 1));
    if (scale > this.#scale) {
      this.#digits *= 10n ** BigInt(scale - this.#scale);
      this.#scale = scale;
    } else if (scale < this.#scale) {
      digits *= 10n ** BigInt(this.#scale - scale);
    }
    this.#digits += digits;
  }

  toString(): string {
    const sign = this.#digits < 0n ? '-' : '';
    const digits = String(this.#digits)
      .replace('-', '')
      .padStart(this.#scale + 1, '0');
    if (this.#scale === 0) return sign + digits;
    const point = digits.length - this.#scale;
    return `${sign}${digits.slice(0, point)}.${digits.slice(point)}`;
  }
}

type Mutable<T> = { -readonly [Name in keyof T]: T[Name] };
type Traded = Pick<RowOf<'trade'>, 'tradedAtS' | 'price' | 'amount' | 'total'>;

/** Numbers show which is greater wherever they differ; the rest needs the digits. */
function isGreater(a: string, b: string): boolean {
  if (a === b) return false;
  const difference = Number(a) - Number(b);
  return difference === 0 ? compareDecimals(a, b) > 0 : difference > 0;
}

/**
 * Sums trades up to candles of one length: the first trade of a candle is its open, never the close
 * before. Candles begin at whole multiples of their length, as the exchange's do.
 */
export class CandleMaker {
  readonly #intervalS: number;
  #candle: Omit<Mutable<BuiltCandle>, 'volume' | 'quoteVolume'> | undefined;
  #volume = new ExactSum();
  #quoteVolume = new ExactSum();

  constructor(intervalS: number) {
    this.#intervalS = intervalS;
  }

  /** Trades in the order of second and id. @returns the candle that this one is behind */
  add({ tradedAtS, price, amount, total }: Traded): BuiltCandle | undefined {
    const openAtS = Math.floor(tradedAtS / this.#intervalS) * this.#intervalS;
    const done = this.#candle?.openAtS === openAtS ? undefined : this.end();
    this.#candle ??= { openAtS, open: price, high: price, low: price, close: price };
    const candle = this.#candle;
    if (isGreater(price, candle.high)) candle.high = price;
    if (isGreater(candle.low, price)) candle.low = price;
    candle.close = price;
    this.#volume.add(amount);
    this.#quoteVolume.add(total);
    return done;
  }

  /** The candle of the trades so far, if there were any. */
  end(): BuiltCandle | undefined {
    if (this.#candle === undefined) return undefined;
    const sums = { volume: String(this.#volume), quoteVolume: String(this.#quoteVolume) };
    const done = { ...this.#candle, ...sums };
    this.#candle = undefined;
    this.#volume = new ExactSum();
    this.#quoteVolume = new ExactSum();
    return done;
  }
}

/** Two parts of one candle, the earlier first, as one. */
export function joinCandles(earlier: BuiltCandle, later: BuiltCandle): BuiltCandle {
  return {
    openAtS: earlier.openAtS,
    open: earlier.open,
    close: later.close,
    high: isGreater(later.high, earlier.high) ? later.high : earlier.high,
    low: isGreater(earlier.low, later.low) ? later.low : earlier.low,
    volume: addDecimals(earlier.volume, later.volume),
    quoteVolume: addDecimals(earlier.quoteVolume, later.quoteVolume),
  };
}

/** Candles of pieces of time that follow each other: one that both hold a part of is one. */
export function appendCandles(candles: BuiltCandle[], later: readonly BuiltCandle[]): void {
  const [first, ...rest] = later;
  const last = candles.at(-1);
  if (first === undefined) return;
  if (last?.openAtS === first.openAtS) {
    candles[candles.length - 1] = joinCandles(last, first);
    candles.push(...rest);
  } else candles.push(...later);
}
