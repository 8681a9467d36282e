import { obtain } from '../kernel/bounded.js';
import { firstNot } from '../kernel/sorted.js';
import type { BackendTrade } from '../server/backend.js';
import { formatScaled, formatTrimmed } from './amounts.js';

/** Sums of a stretch of trades, scaled: amount by `amountDigits`, prices by `priceDigits`. */
export interface Figures {
  count: number;
  amount: bigint;
  /** Sum of price × amount, scaled by both numbers of digits together. */
  quoteVolume: bigint;
  high: bigint;
  low: bigint;
}

const NO_FIGURES: Readonly<Figures> = { count: 0, amount: 0n, quoteVolume: 0n, high: 0n, low: 0n };
const BLOCK = 256;
const INITIAL_CAPACITY = 1024;

function addFigures(sum: Figures, part: Readonly<Figures>): void {
  if (part.count === 0) return;
  sum.high = sum.count === 0 || part.high > sum.high ? part.high : sum.high;
  sum.low = sum.count === 0 || part.low < sum.low ? part.low : sum.low;
  sum.count += part.count;
  sum.amount += part.amount;
  sum.quoteVolume += part.quoteVolume;
}

/**
 * The trades of one market in order of time, kept in parallel arrays (33 bytes a trade).
 *
 * A trade is named by its position, counted from the first one ever appended; the oldest can be
 * dropped and positions stay. Sums over any stretch come from blocks of trades that are added up once, so
 * a stretch of a hundred thousand costs some hundreds of steps.
 */
export class TradeColumns {
  readonly priceDigits: number;
  readonly amountDigits: number;
  #base = 0;
  #end = 0;
  #ids = new Float64Array(INITIAL_CAPACITY);
  #timesUs = new Float64Array(INITIAL_CAPACITY);
  #prices = new BigInt64Array(INITIAL_CAPACITY);
  #amounts = new BigInt64Array(INITIAL_CAPACITY);
  #isSell = new Uint8Array(INITIAL_CAPACITY);
  readonly #blocks = new Map<number, Figures>();

  constructor(priceDigits: number, amountDigits: number) {
    this.priceDigits = priceDigits;
    this.amountDigits = amountDigits;
  }

  /** Position of the oldest trade still held. */
  get base(): number {
    return this.#base;
  }

  /** Position after the newest trade. */
  get end(): number {
    return this.#end;
  }

  /** Adds a trade that is not older than the newest one. */
  append(id: number, timeUs: number, price: bigint, amount: bigint, isSell: boolean): void {
    const slot = this.#end - this.#base;
    if (slot === this.#ids.length) this.#grow();
    this.#ids[slot] = id;
    this.#timesUs[slot] = timeUs;
    this.#prices[slot] = price;
    this.#amounts[slot] = amount;
    this.#isSell[slot] = isSell ? 1 : 0;
    this.#end += 1;
  }

  idAt(position: number): number {
    return this.#ids[position - this.#base] ?? 0;
  }

  timeUsAt(position: number): number {
    return this.#timesUs[position - this.#base] ?? 0;
  }

  /** Price, scaled by `priceDigits`. */
  priceAt(position: number): bigint {
    return this.#prices[position - this.#base] ?? 0n;
  }

  /** Amount, scaled by `amountDigits`. */
  amountAt(position: number): bigint {
    return this.#amounts[position - this.#base] ?? 0n;
  }

  isSellAt(position: number): boolean {
    return this.#isSell[position - this.#base] === 1;
  }

  tradeAt(position: number): BackendTrade {
    const price = this.priceAt(position);
    const amount = this.amountAt(position);
    return {
      id: this.idAt(position),
      timeUs: this.timeUsAt(position),
      price: formatScaled(price, this.priceDigits),
      amount: formatScaled(amount, this.amountDigits),
      total: formatTrimmed(price * amount, this.priceDigits + this.amountDigits),
      side: this.isSellAt(position) ? 'sell' : 'buy',
    };
  }

  /** Position of the first held trade at or after `timeUs`; `end` when there is none. */
  firstAtOrAfter(timeUs: number): number {
    const times = this.#timesUs;
    const held = this.#end - this.#base;
    return this.#base + firstNot(held, (slot) => (times[slot] ?? 0) < timeUs);
  }

  /** Position of the first held trade after `timeUs`. Times are whole microseconds. */
  firstAfter(timeUs: number): number {
    return this.firstAtOrAfter(timeUs + 1);
  }

  /** The held trades in `[fromUs, toUs]`, oldest first. */
  *between(fromUs: number, toUs: number): Iterable<BackendTrade> {
    const end = this.firstAfter(toUs);
    for (let at = this.firstAtOrAfter(fromUs); at < end; at += 1) yield this.tradeAt(at);
  }

  /** Sums over the positions `[from, to)`, all of which must be held. */
  figures(from: number, to: number): Figures {
    const sum: Figures = { ...NO_FIGURES };
    let position = from;
    while (position < to) {
      if (position % BLOCK === 0 && position + BLOCK <= to) {
        addFigures(sum, this.#block(position));
        position += BLOCK;
      } else {
        this.#addTrade(sum, position);
        position += 1;
      }
    }
    return sum;
  }

  /** Returns the trades with at least these places: this object itself when it has them. */
  withDigits(priceDigits: number, amountDigits: number): TradeColumns {
    const price = Math.max(this.priceDigits, priceDigits);
    const amount = Math.max(this.amountDigits, amountDigits);
    if (price === this.priceDigits && amount === this.amountDigits) return this;
    const widened = new TradeColumns(price, amount);
    const priceFactor = 10n ** BigInt(price - this.priceDigits);
    const amountFactor = 10n ** BigInt(amount - this.amountDigits);
    for (let at = this.#base; at < this.#end; at += 1) {
      widened.append(
        this.idAt(at),
        this.timeUsAt(at),
        this.priceAt(at) * priceFactor,
        this.amountAt(at) * amountFactor,
        this.isSellAt(at),
      );
    }
    return widened;
  }

  /** Moves all times by a whole number of microseconds. */
  shiftTimes(byUs: number): void {
    for (let slot = 0; slot < this.#end - this.#base; slot += 1) {
      this.#timesUs[slot] = (this.#timesUs[slot] ?? 0) + byUs;
    }
  }

  /** Forgets the trades before `position`. */
  dropBefore(position: number): void {
    const count = Math.min(position, this.#end) - this.#base;
    if (count <= 0) return;
    const held = this.#end - this.#base;
    const columns = [this.#ids, this.#timesUs, this.#prices, this.#amounts, this.#isSell];
    for (const column of columns) column.copyWithin(0, count, held);
    this.#base += count;
    for (const at of this.#blocks.keys()) if (at < this.#base) this.#blocks.delete(at);
  }

  #addTrade(sum: Figures, position: number): void {
    const price = this.priceAt(position);
    const amount = this.amountAt(position);
    sum.high = sum.count === 0 || price > sum.high ? price : sum.high;
    sum.low = sum.count === 0 || price < sum.low ? price : sum.low;
    sum.count += 1;
    sum.amount += amount;
    sum.quoteVolume += price * amount;
  }

  #block(from: number): Figures {
    return obtain(this.#blocks, from, () => {
      const sum: Figures = { ...NO_FIGURES };
      for (let at = from; at < from + BLOCK; at += 1) this.#addTrade(sum, at);
      return sum;
    });
  }

  #grow(): void {
    const capacity = this.#ids.length * 2;
    this.#ids = grown(this.#ids, new Float64Array(capacity));
    this.#timesUs = grown(this.#timesUs, new Float64Array(capacity));
    this.#prices = grown(this.#prices, new BigInt64Array(capacity));
    this.#amounts = grown(this.#amounts, new BigInt64Array(capacity));
    this.#isSell = grown(this.#isSell, new Uint8Array(capacity));
  }
}

/** The longer of two columns, filled with what the other one holds. */
function grown<C extends { set(held: C): void }>(column: C, longer: C): C {
  longer.set(column);
  return longer;
}
