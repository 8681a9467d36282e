import type { BackendTrade } from '../../server/backend.js';
import type { Trade } from '../engine/matching.js';
import type { TradeSource } from '../market-tape.js';
import { TradeColumns } from '../trade-columns.js';
import { LiveError } from './live-error.js';

/** The exchange's time, as far as a source of trades is concerned. */
export interface LiveTime {
  /** Lets everything happen up to and including a moment, UNIX microseconds. */
  advanceTo(timeUs: number): void;
  /** The next moment at which anything may happen, UNIX microseconds. */
  readonly nextUs: number;
}

/** The trades of one market, as the engine makes them. */
export class LiveSource implements TradeSource {
  readonly columns: TradeColumns;
  readonly canDrop: boolean;
  readonly #time: LiveTime;
  #originUs: number;

  /**
   * @param originUs trades before it are not part of the history
   * @param keepAll whether nothing is ever dropped
   */
  constructor(
    time: LiveTime,
    digits: { readonly price: number; readonly amount: number },
    originUs: number,
    keepAll: boolean,
  ) {
    this.#time = time;
    this.columns = new TradeColumns(digits.price, digits.amount);
    this.#originUs = originUs;
    this.canDrop = !keepAll;
  }

  get originUs(): number {
    return this.#originUs;
  }

  add({ id, timeUs, price, amount, takerSide }: Trade): void {
    if (timeUs < this.#originUs) return;
    this.columns.append(id, timeUs, price, amount, takerSide === 'sell');
  }

  /** Forgets the trades before a moment, unless all are kept. */
  forgetBefore(timeUs: number): void {
    if (!this.canDrop || timeUs <= this.#originUs) return;
    this.columns.dropBefore(this.columns.firstAtOrAfter(timeUs));
    this.#originUs = timeUs;
  }

  extendTo(timeUs: number): void {
    this.#time.advanceTo(timeUs);
  }

  nextAfter(timeUs: number): number {
    return Math.max(timeUs + 1, this.#time.nextUs);
  }

  *issued(timeUs: number): Iterable<BackendTrade> {
    this.extendTo(timeUs);
    const { base } = this.columns;
    if (base > 0) {
      throw new LiveError(
        `the first ${base} trades are forgotten; open the exchange with keepAll to know all`,
      );
    }
    const end = this.columns.firstAfter(timeUs);
    for (let at = base; at < end; at += 1) yield this.columns.tradeAt(at);
  }
}
