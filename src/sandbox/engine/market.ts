import type { Market } from '../../contract/resources.js';
import type { Side } from '../../contract/values.js';
import type { Currency, Holding } from './accounts.js';
import { MAX_PLACES, parseUnits, powerOfTen, unitBound } from './amounts.js';
import { BookSide } from './book-side.js';
import { EngineError } from './engine-error.js';
import { Seat } from './order.js';
import type { Rejection } from './rejection.js';

/** A market as it is listed. */
export interface MarketRules extends Market {
  /** Rates of orders that bring none of their own: from 0 to below 1, at most `feePrec` places. */
  readonly takerFee: string;
  readonly makerFee: string;
}

const ZERO = /^0+(\.0+)?$/;

/** Reads a fee rate in units of 10^−feePrec. */
export function parseRate(text: string, feePrec: number, what: string): bigint | Rejection {
  return ZERO.test(text) ? 0n : parseUnits(text, feePrec, what);
}

function required(value: bigint | Rejection, market: string): bigint {
  if (typeof value === 'bigint') return value;
  throw new EngineError(`market ${market}: ${value.message}`);
}

/**
 * A listed market: its rules as integers, its book, and the seats of those who trade in it.
 *
 * `feePrec` counts the places of fee *rates*, as in the engine that this family of exchanges comes
 * from. A fee is the exact product of a rate and what was traded; nothing is ever rounded.
 */
export class ListedMarket {
  readonly rules: MarketRules;
  readonly minAmount: bigint;
  readonly takerFee: bigint;
  readonly makerFee: bigint;
  /** Prices, amounts and rates stay below these. */
  readonly priceBound: bigint;
  readonly amountBound: bigint;
  readonly #rateBound: bigint;
  readonly buy = new BookSide('buy');
  readonly sell = new BookSide('sell');
  readonly stock: Currency;
  readonly money: Currency;
  isBlocked = false;
  /** Units of the stock currency in one unit of an amount. */
  stockFactor = 1n;
  /** Units of the money currency in one unit of price × amount. */
  moneyFactor = 1n;
  /** Units of the currency in one unit of amount × rate, and of price × amount × rate. */
  stockFeeFactor = 1n;
  moneyFeeFactor = 1n;
  readonly #seats = new Map<string, Seat>();

  /** @throws EngineError when the rules cannot be */
  constructor(rules: MarketRules, stock: Currency, money: Currency) {
    const { name, stockPrec, moneyPrec, feePrec } = rules;
    const isPrecision = (digits: number) => Number.isInteger(digits) && digits >= 0;
    const isPossible =
      [stockPrec, moneyPrec, feePrec].every(isPrecision) &&
      stockPrec + moneyPrec + feePrec <= MAX_PLACES &&
      stock !== money;
    if (!isPossible) {
      throw new EngineError(
        `market ${name}: needs two currencies and whole precisions of at most ${MAX_PLACES} together`,
      );
    }
    this.rules = rules;
    this.stock = stock;
    this.money = money;
    this.priceBound = unitBound(moneyPrec);
    this.amountBound = unitBound(stockPrec);
    this.#rateBound = powerOfTen(feePrec);
    this.minAmount = ZERO.test(rules.minAmount)
      ? 0n
      : required(parseUnits(rules.minAmount, stockPrec, 'minAmount'), name);
    this.takerFee = required(parseRate(rules.takerFee, feePrec, 'takerFee'), name);
    this.makerFee = required(parseRate(rules.makerFee, feePrec, 'makerFee'), name);
    if (!this.isRate(this.takerFee) || !this.isRate(this.makerFee)) {
      throw new EngineError(`market ${name}: fee rates go from 0 to below 1`);
    }
    stock.widen(stockPrec + feePrec);
    money.widen(stockPrec + moneyPrec + feePrec);
    this.rescale();
  }

  /** To be called when a currency has got more digits. */
  rescale(): void {
    const { stockPrec, moneyPrec, feePrec } = this.rules;
    this.stockFactor = powerOfTen(this.stock.digits - stockPrec);
    this.stockFeeFactor = powerOfTen(this.stock.digits - stockPrec - feePrec);
    this.moneyFactor = powerOfTen(this.money.digits - stockPrec - moneyPrec);
    this.moneyFeeFactor = powerOfTen(this.money.digits - stockPrec - moneyPrec - feePrec);
  }

  side(side: Side): BookSide {
    return side === 'buy' ? this.buy : this.sell;
  }

  /** True for a fee rate from 0 to below 1, in units of 10^−feePrec. */
  isRate(rate: bigint): boolean {
    return rate >= 0n && rate < this.#rateBound;
  }

  /** The holding that an order of this side is paid from. */
  payingOf(seat: Seat, side: Side): Holding {
    return side === 'buy' ? seat.money : seat.stock;
  }

  /** The seat of an account, made at its first order. */
  seat(account: string): Seat {
    const known = this.#seats.get(account);
    if (known !== undefined) return known;
    const made = new Seat(account, this.stock.holding(account), this.money.holding(account));
    this.#seats.set(account, made);
    return made;
  }

  /** The seat of an account that has ordered here. */
  findSeat(account: string): Seat | undefined {
    return this.#seats.get(account);
  }
}

/** What an order of this size takes at most, in units of the currency that it is paid in. */
export function needOf(market: ListedMarket, side: Side, price: bigint, amount: bigint): bigint {
  return side === 'buy' ? price * amount * market.moneyFactor : amount * market.stockFactor;
}
