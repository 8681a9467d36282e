import type { Market } from '../../contract/resources.js';
import type { Side } from '../../contract/values.js';
import { obtain } from '../../kernel/bounded.js';
import { MAX_PLACES, parseUnits, powerOfTen, unitBound } from '../amounts.js';
import { EngineError, type Rejection } from '../errors.js';
import type { Currency, Holding } from './accounts.js';
import { BookSide, type Participant } from './book.js';

/** A market as it is listed. */
export interface MarketRules extends Market {
  /** Fee rates of its orders: from 0 to below 1, at most `feePrec` places. */
  readonly takerFee: string;
  readonly makerFee: string;
}

const ZERO = /^0+(\.0+)?$/;

/** Reads a fee rate in units of 10^−feePrec. */
function parseRate(text: string, feePrec: number, what: string): bigint | Rejection {
  return ZERO.test(text) ? 0n : parseUnits(text, feePrec, what);
}

function required(value: bigint | Rejection, market: string): bigint {
  if (typeof value === 'bigint') return value;
  throw new EngineError(`market ${market}: ${value.message}`);
}

/**
 * A listed market: its rules as integers, its book, and its participants.
 *
 * `feePrec` counts the places of fee *rates*, as in the engine that this family of exchanges comes
 * from. A fee is the exact product of a rate and what was traded; nothing is ever rounded.
 */
export class ListedMarket {
  readonly rules: MarketRules;
  readonly minAmount: bigint;
  readonly takerFee: bigint;
  readonly makerFee: bigint;
  /** Prices and amounts stay below these. */
  readonly priceBound: bigint;
  readonly amountBound: bigint;
  readonly buy = new BookSide('buy');
  readonly sell = new BookSide('sell');
  readonly base: Currency;
  readonly quote: Currency;
  isBlocked = false;
  /** Units of the base currency in one unit of an amount. */
  readonly baseFactor: bigint;
  /** Units of the quote currency in one unit of price × amount. */
  readonly quoteFactor: bigint;
  /** Units of the currency in one unit of amount × rate, and of price × amount × rate. */
  readonly baseFeeFactor: bigint;
  readonly quoteFeeFactor: bigint;
  readonly #participants = new Map<string, Participant>();

  /** @throws EngineError when the rules cannot be */
  constructor(rules: MarketRules, base: Currency, quote: Currency) {
    const { name, stockPrec, moneyPrec, feePrec } = rules;
    const isPrecision = (digits: number) => Number.isInteger(digits) && digits >= 0;
    const isPossible =
      [stockPrec, moneyPrec, feePrec].every(isPrecision) &&
      stockPrec + moneyPrec + feePrec <= MAX_PLACES &&
      base !== quote;
    if (!isPossible) {
      throw new EngineError(
        `market ${name}: needs two currencies and whole precisions of at most ${MAX_PLACES} together`,
      );
    }
    this.rules = rules;
    this.base = base;
    this.quote = quote;
    this.priceBound = unitBound(moneyPrec);
    this.amountBound = unitBound(stockPrec);
    this.minAmount = ZERO.test(rules.minAmount)
      ? 0n
      : required(parseUnits(rules.minAmount, stockPrec, 'minAmount'), name);
    this.takerFee = required(parseRate(rules.takerFee, feePrec, 'takerFee'), name);
    this.makerFee = required(parseRate(rules.makerFee, feePrec, 'makerFee'), name);
    const rateBound = powerOfTen(feePrec);
    if (this.takerFee >= rateBound || this.makerFee >= rateBound) {
      throw new EngineError(`market ${name}: fee rates go from 0 to below 1`);
    }
    this.baseFactor = powerOfTen(MAX_PLACES - stockPrec);
    this.baseFeeFactor = powerOfTen(MAX_PLACES - stockPrec - feePrec);
    this.quoteFactor = powerOfTen(MAX_PLACES - stockPrec - moneyPrec);
    this.quoteFeeFactor = powerOfTen(MAX_PLACES - stockPrec - moneyPrec - feePrec);
  }

  side(side: Side): BookSide {
    return side === 'buy' ? this.buy : this.sell;
  }

  /** The holding that an order of this side is paid from. */
  payingOf(participant: Participant, side: Side): Holding {
    return side === 'buy' ? participant.quote : participant.base;
  }

  /** The participant of an account, made at its first order. */
  participant(account: string): Participant {
    return obtain(this.#participants, account, () => ({
      base: this.base.holding(account),
      quote: this.quote.holding(account),
      orders: new Set(),
    }));
  }

  /** The participant of an account that has ordered here. */
  findParticipant(account: string): Participant | undefined {
    return this.#participants.get(account);
  }
}

/** What an order of this size takes at most, in units of the currency that it is paid in. */
export function needOf(market: ListedMarket, side: Side, price: bigint, amount: bigint): bigint {
  return side === 'buy' ? price * amount * market.quoteFactor : amount * market.baseFactor;
}
