import { compareDecimals } from '../../kernel/decimal.js';
import { floorToMs } from '../../kernel/span.js';
import type { Candle } from './candles.js';
import type { CoveredWalk } from './covered-walk.js';
import type { TradeLine } from './text-rows.js';

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

/** The slot that trades are being summed up in. */
class Slot {
  readonly openMs: number;
  readonly #open: string;
  #high: string;
  #low: string;
  #close: string;
  readonly #volume = new ExactSum();

  constructor(openMs: number, { price }: TradeLine) {
    this.openMs = openMs;
    this.#open = price;
    this.#high = price;
    this.#low = price;
    this.#close = price;
  }

  add({ price, amount }: TradeLine): void {
    if (isGreater(price, this.#high)) this.#high = price;
    if (isGreater(this.#low, price)) this.#low = price;
    this.#close = price;
    this.#volume.add(amount);
  }

  candle(): Candle {
    return {
      ...{ openMs: this.openMs, open: this.#open, high: this.#high, low: this.#low },
      ...{ close: this.#close, volume: String(this.#volume) },
    };
  }
}

/** Numbers tell which is greater wherever they differ; the rest needs the digits. */
function isGreater(a: string, b: string): boolean {
  if (a === b) return false;
  const difference = Number(a) - Number(b);
  return difference === 0 ? compareDecimals(a, b) > 0 : difference > 0;
}

export interface ComputedOptions {
  readonly intervalMs: number;
  readonly covered: CoveredWalk;
  /** A slot of which not all trades are proven to be here is left out, and told. */
  readonly onPartial: () => void;
}

/**
 * Candles of trades: the first trade of a slot is its open, never the close before. Slots begin at
 * whole multiples of their length, as the exchange's candles do.
 *
 * @param trades in the order of second and id
 */
export async function* computeCandles(
  trades: AsyncIterable<readonly TradeLine[]>,
  { intervalMs, covered, onPartial }: ComputedOptions,
): AsyncGenerator<Candle[]> {
  let slot: Slot | undefined;
  const finish = (one: Slot): Candle[] => {
    if (covered.covers(one.openMs, one.openMs + intervalMs)) return [one.candle()];
    onPartial();
    return [];
  };
  for await (const batch of trades) {
    const done: Candle[] = [];
    for (const trade of batch) {
      const openMs = floorToMs(trade.secondUs / 1000, intervalMs);
      if (slot?.openMs !== openMs) {
        if (slot !== undefined) done.push(...finish(slot));
        slot = new Slot(openMs, trade);
      }
      slot.add(trade);
    }
    if (done.length > 0) yield done;
  }
  if (slot !== undefined) yield finish(slot);
}
