import type { BackendTrade } from '../server/backend.js';
import type { TradeGenerator } from './generator.js';
import type { TradeSource } from './market-tape.js';
import { TradeColumns } from './trade-columns.js';

/** A recorded tape: everything is there from the start. */
export class RecordedSource implements TradeSource {
  readonly columns: TradeColumns;
  readonly canDrop = false;
  readonly originUs: number;

  constructor(columns: TradeColumns) {
    this.columns = columns;
    this.originUs = columns.timeUsAt(columns.base);
  }

  extendTo(): void {}

  nextAfter(timeUs: number): number | undefined {
    const next = this.columns.firstAfter(timeUs);
    return next < this.columns.end ? this.columns.timeUsAt(next) : undefined;
  }

  *issued(timeUs: number, fromUs: number): Iterable<BackendTrade> {
    const end = this.columns.firstAfter(timeUs);
    const first = this.columns.firstAtOrAfter(fromUs);
    for (let at = first; at < end; at += 1) yield this.columns.tradeAt(at);
  }
}

/** How far ahead the next trade of a quiet market is looked for. */
const LOOK_AHEAD_S = 30;

/** A tape that is made as its time comes. */
export class GeneratedSource implements TradeSource {
  readonly columns: TradeColumns;
  readonly canDrop = true;
  readonly originUs: number;
  readonly #generator: TradeGenerator;
  readonly #historyFromS: number;
  #nextSecond: number;

  /**
   * @param historyFromS first second of the history, as {@link GeneratedSource.issued} gives it
   * @param nowS the second of the first time to be served; of the trades before it only the
   *   newest `historyMax` are made
   */
  constructor(
    generator: TradeGenerator,
    digits: { readonly price: number; readonly amount: number },
    historyFromS: number,
    nowS: number,
    historyMax: number,
  ) {
    this.columns = new TradeColumns(digits.price, digits.amount);
    this.#generator = generator;
    this.#historyFromS = historyFromS;
    let fromS = Math.max(nowS, historyFromS);
    let count = 0;
    while (fromS > historyFromS && count <= historyMax) {
      fromS -= 1;
      count += generator.second(fromS).length;
    }
    this.originUs = fromS * 1_000_000;
    this.#nextSecond = fromS;
  }

  extendTo(timeUs: number): void {
    const lastSecond = Math.floor(timeUs / 1_000_000);
    while (this.#nextSecond <= lastSecond) {
      for (const { id, timeUs: atUs, ticks, units, isSell } of this.#generator.second(
        this.#nextSecond,
      )) {
        this.columns.append(id, atUs, BigInt(ticks), BigInt(units), isSell);
      }
      this.#nextSecond += 1;
    }
  }

  nextAfter(timeUs: number): number {
    const limitUs = timeUs + LOOK_AHEAD_S * 1_000_000;
    for (let aheadUs = timeUs; aheadUs <= limitUs; aheadUs += 1_000_000) {
      this.extendTo(aheadUs);
      const next = this.columns.firstAfter(timeUs);
      if (next < this.columns.end) return this.columns.timeUsAt(next);
    }
    return limitUs;
  }

  *issued(timeUs: number, fromUs: number): Iterable<BackendTrade> {
    const { priceDigits, amountDigits } = this.columns;
    const fromS = Math.max(this.#historyFromS, Math.floor(fromUs / 1_000_000));
    for (let second = fromS; second * 1_000_000 <= timeUs; second += 1) {
      const made = new TradeColumns(priceDigits, amountDigits);
      for (const { id, timeUs: atUs, ticks, units, isSell } of this.#generator.second(second)) {
        if (atUs >= fromUs && atUs <= timeUs)
          made.append(id, atUs, BigInt(ticks), BigInt(units), isSell);
      }
      for (let at = 0; at < made.end; at += 1) yield made.tradeAt(at);
    }
  }
}
