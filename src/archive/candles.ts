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
  readonly amount: string;
}

/** A sum of decimals in plain notation, exact. */
export class ExactSum {
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

type Traded = Pick<RowOf<'trade'>, 'tradedAtS' | 'price' | 'amount' | 'total'>;

/** The candle that trades are being summed up in. */
class Slot {
  readonly openAtS: number;
  readonly #open: string;
  #high: string;
  #low: string;
  #close: string;
  readonly #volume = new ExactSum();
  readonly #amount = new ExactSum();

  constructor(openAtS: number, { price }: Traded) {
    this.openAtS = openAtS;
    this.#open = price;
    this.#high = price;
    this.#low = price;
    this.#close = price;
  }

  add({ price, amount, total }: Traded): void {
    if (isGreater(price, this.#high)) this.#high = price;
    if (isGreater(this.#low, price)) this.#low = price;
    this.#close = price;
    this.#volume.add(amount);
    this.#amount.add(total);
  }

  candle(): BuiltCandle {
    return {
      ...{ openAtS: this.openAtS, open: this.#open, high: this.#high, low: this.#low },
      ...{ close: this.#close, volume: String(this.#volume), amount: String(this.#amount) },
    };
  }
}

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
  #slot: Slot | undefined;

  constructor(intervalS: number) {
    this.#intervalS = intervalS;
  }

  /** Trades in the order of second and id. @returns the candle that this one is behind */
  add(trade: Traded): BuiltCandle | undefined {
    const openAtS = Math.floor(trade.tradedAtS / this.#intervalS) * this.#intervalS;
    const done = this.#slot?.openAtS === openAtS ? undefined : this.end();
    this.#slot ??= new Slot(openAtS, trade);
    this.#slot.add(trade);
    return done;
  }

  /** The candle of the trades so far, if there were any. */
  end(): BuiltCandle | undefined {
    const done = this.#slot?.candle();
    this.#slot = undefined;
    return done;
  }
}

/** Two parts of one candle, the earlier first, as one. */
export function joinCandles(earlier: BuiltCandle, later: BuiltCandle): BuiltCandle {
  return {
    openAtS: earlier.openAtS,
    open: earlier.open,
    close: later.close,
    high: compareDecimals(later.high, earlier.high) > 0 ? later.high : earlier.high,
    low: compareDecimals(later.low, earlier.low) < 0 ? later.low : earlier.low,
    volume: addDecimals(earlier.volume, later.volume),
    amount: addDecimals(earlier.amount, later.amount),
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
