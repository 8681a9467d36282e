import type { BackendTrade } from '../../server/backend.js';
import type { Trade } from '../engine/matching.js';
import type { TradeSource } from '../market-tape.js';
import { TradeColumns } from '../trade-columns.js';
import { LiveError } from './live-error.js';

/** The exchange's time, as far as a source of trades is concerned. */
export interface LiveTime {
  /** Lets everything happen up to and including a time, UNIX microseconds. */
  advanceTo(timeUs: number): void;
  /** The next time at which anything may happen, UNIX microseconds. */
  readonly nextUs: number;
}

/** Places of a market's prices and amounts. */
export interface Digits {
  readonly price: number;
  readonly amount: number;
}

export interface LiveSourceOptions {
  readonly time: LiveTime;
  readonly digits: Digits;
  /** Trades before it are not part of the history, UNIX microseconds. */
  readonly originUs: number;
  /** Whether there were trades before the origin, which are unknown here. */
  readonly isCut: boolean;
  /** Whether nothing is ever dropped. */
  readonly keepAll: boolean;
  /** The market as it was listed before: its trades come first. */
  readonly former?: LiveSource;
}

/**
 * Columns that can hold the trades of a former listing and those to come, each with its exact value.
 * With other precisions that is the finer one of both, for prices and amounts alike.
 */
function continuedColumns(former: TradeColumns, digits: Digits): TradeColumns {
  const price = Math.max(former.priceDigits, digits.price);
  const amount = Math.max(former.amountDigits, digits.amount);
  if (price === former.priceDigits && amount === former.amountDigits) return former;
  const columns = new TradeColumns(price, amount);
  const priceFactor = 10n ** BigInt(price - former.priceDigits);
  const amountFactor = 10n ** BigInt(amount - former.amountDigits);
  for (let at = former.base; at < former.end; at += 1) {
    const sum = former.figures(at, at + 1);
    columns.append(
      former.idAt(at),
      former.timeUsAt(at),
      former.priceAt(at) * priceFactor,
      sum.amount * amountFactor,
      former.isSellAt(at),
    );
  }
  return columns;
}

/** The trades of one market, as the engine makes them. */
export class LiveSource implements TradeSource {
  readonly columns: TradeColumns;
  readonly canDrop: boolean;
  readonly #time: LiveTime;
  readonly #priceFactor: bigint;
  readonly #amountFactor: bigint;
  #originUs: number;
  #isCut: boolean;
  /** First position of the trades since the origin. */
  #originAt: number;

  constructor({ time, digits, originUs, isCut, keepAll, former }: LiveSourceOptions) {
    this.#time = time;
    this.canDrop = !keepAll;
    const { columns, heldFromUs } = former ?? {};
    this.columns =
      columns === undefined
        ? new TradeColumns(digits.price, digits.amount)
        : continuedColumns(columns, digits);
    this.#priceFactor = 10n ** BigInt(this.columns.priceDigits - digits.price);
    this.#amountFactor = 10n ** BigInt(this.columns.amountDigits - digits.amount);
    this.#isCut = former === undefined ? isCut : heldFromUs !== undefined;
    this.#originUs = heldFromUs ?? former?.originUs ?? originUs;
    this.#originAt = this.columns.base;
  }

  get originUs(): number {
    return this.#originUs;
  }

  /** All trades from this time on are known; undefined when all there ever were are. */
  get heldFromUs(): number | undefined {
    const { base, end } = this.columns;
    if (base === this.#originAt) return this.#isCut ? this.#originUs : undefined;
    // Of the trades of one microsecond some may be dropped.
    return base < end ? Math.max(this.#originUs, this.columns.timeUsAt(base) + 1) : this.#originUs;
  }

  add({ id, timeUs, price, amount, takerSide }: Trade): void {
    if (timeUs < this.#originUs) return;
    const scaledPrice = price * this.#priceFactor;
    const scaledAmount = amount * this.#amountFactor;
    this.columns.append(id, timeUs, scaledPrice, scaledAmount, takerSide === 'sell');
  }

  /** Forgets the trades before a time, unless all are kept. */
  forgetBefore(timeUs: number): void {
    if (!this.canDrop || timeUs <= this.#originUs) return;
    this.columns.dropBefore(this.columns.firstAtOrAfter(timeUs));
    this.#originUs = timeUs;
    this.#originAt = this.columns.base;
    this.#isCut = true;
  }

  extendTo(timeUs: number): void {
    this.#time.advanceTo(timeUs);
  }

  nextAfter(timeUs: number): number {
    return Math.max(timeUs + 1, this.#time.nextUs);
  }

  *issued(timeUs: number, fromUs: number): Iterable<BackendTrade> {
    this.extendTo(timeUs);
    const { heldFromUs = fromUs } = this;
    if (fromUs < heldFromUs) {
      const held = (heldFromUs / 1e6).toFixed(6);
      throw new LiveError(
        `from ${Number.isFinite(fromUs) ? (fromUs / 1e6).toFixed(6) : '(the beginning)'}: trades before ${held} (${new Date(heldFromUs / 1000).toISOString()}) are forgotten; ask with from=${held} or later, or start the exchange with --keep-all (keepAll)`,
      );
    }
    const end = this.columns.firstAfter(timeUs);
    const first = this.columns.firstAtOrAfter(fromUs);
    for (let at = first; at < end; at += 1) yield this.columns.tradeAt(at);
  }
}
