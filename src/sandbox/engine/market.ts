import type { Market } from '../../contract/resources.js';
import type { Side } from '../../contract/values.js';
import { obtain } from '../../kernel/bounded.js';
import type { NewOrder } from '../../server/backend.js';
import { MAX_PLACES, parseUnits, powerOfTen, unitBound } from '../amounts.js';
import { EngineError, Rejection } from '../errors.js';
import { BookSide, type Currency, type Participant } from './book.js';

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

/** Returns the most that an order of this size takes, in units of the currency that it is paid in. */
export function needOf(market: ListedMarket, side: Side, price: bigint, amount: bigint): bigint {
  return side === 'buy' ? price * amount * market.quoteFactor : amount * market.baseFactor;
}

/** A limit order in units of its market. */
export interface LimitOrder {
  readonly account: string;
  readonly market: string;
  readonly side: Side;
  /** Units of 10^−moneyPrec. */
  readonly price: bigint;
  /** Units of 10^−stockPrec. */
  readonly amount: bigint;
  /** UNIX microseconds. The engine's time never goes back: an earlier one counts as the latest. */
  readonly timeUs: number;
}

/** A limit order with plain decimal texts, as it comes from a client. */
export type LimitOrderText = NewOrder & Pick<LimitOrder, 'account' | 'timeUs'>;

/** Reads the texts of an order as integers; refuses what is no decimal or has too many digits. */
export function readOrder(text: LimitOrderText, rules: MarketRules): LimitOrder | Rejection {
  const price = parseUnits(text.price, rules.moneyPrec, 'price');
  if (price instanceof Rejection) return price;
  const amount = parseUnits(text.amount, rules.stockPrec, 'amount');
  return amount instanceof Rejection ? amount : { ...text, price, amount };
}

/**
 * Why an order cannot be taken, or undefined.
 *
 * @param maxOpenOrders most open orders of one account in one market
 */
export function faultOf(
  market: ListedMarket,
  order: LimitOrder,
  maxOpenOrders: number,
): Rejection | undefined {
  const { account, side, price, amount } = order;
  const { rules } = market;
  if (market.isBlocked) return new Rejection('blocked', `${rules.name} takes no orders now`);
  if (price <= 0n || amount <= 0n) {
    return new Rejection('notPositive', 'price and amount must be above zero');
  }
  if (price >= market.priceBound || amount >= market.amountBound) {
    return new Rejection('tooManyDigits', 'price or amount has too many digits');
  }
  if (amount < market.minAmount) {
    return new Rejection('belowMinAmount', `${rules.name} trades at least ${rules.minAmount}`);
  }
  const currency = side === 'buy' ? market.quote : market.base;
  const held = currency.holdings.get(account);
  if (held === undefined || held.available < needOf(market, side, price, amount)) {
    return new Rejection('fundsShort', `${account} has not enough ${currency.name} available`);
  }
  if ((market.findParticipant(account)?.orders.size ?? 0) >= maxOpenOrders) {
    const most = `${account} has ${maxOpenOrders} open orders in ${rules.name}, the most allowed`;
    return new Rejection('tooManyOrders', most);
  }
  return undefined;
}
