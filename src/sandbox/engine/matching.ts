import type { Side } from '../../contract/values.js';
import type { Order } from './book.js';
import { type ListedMarket, needOf } from './market.js';

/** A trade as the engine made it. Quantities are in units of its market. */
export interface Trade {
  /** From one counter over all markets. */
  readonly id: number;
  readonly market: string;
  /** Execution time, UNIX microseconds. */
  readonly timeUs: number;
  /** The maker's price, units of 10^−moneyPrec. */
  readonly price: bigint;
  /** Units of 10^−stockPrec. */
  readonly amount: bigint;
  /** price × amount, units of 10^−(stockPrec + moneyPrec). */
  readonly total: bigint;
  readonly takerSide: Side;
  readonly makerOrderId: number;
  readonly takerOrderId: number;
}

/** Called for every fill, after it was settled. */
type OnFilled = (maker: Order, taker: Order, amount: bigint, total: bigint) => void;

/**
 * Fills an order that stands in no book from the other side of its market, best price first and
 * oldest order first, each fill at the maker's price (field notes, Matching). The taker's funds are
 * taken from what is available; what is left of the order afterwards is not frozen yet.
 */
export function matchOrder(market: ListedMarket, taker: Order, onFilled: OnFilled): void {
  const isBuy = taker.side === 'buy';
  const book = isBuy ? market.sell : market.buy;
  while (taker.left > 0n) {
    const level = book.best;
    const maker = level?.orders[0];
    if (level === undefined || maker === undefined) break;
    if (isBuy ? level.price > taker.price : level.price < taker.price) break;
    const amount = maker.left < taker.left ? maker.left : taker.left;
    const total = level.price * amount;
    settle(market, maker, taker, amount, total);
    level.amount -= amount;
    if (maker.left === 0n) book.remove(maker);
    onFilled(maker, taker, amount, total);
  }
}

/**
 * Moves base and quote of one fill. Each side pays its fee out of what it gets: the buyer
 * amount × rate in base, the seller total × rate in quote, both exactly.
 */
function settle(
  market: ListedMarket,
  maker: Order,
  taker: Order,
  amount: bigint,
  total: bigint,
): void {
  maker.left -= amount;
  taker.left -= amount;
  maker.dealMoney += total;
  taker.dealMoney += total;
  const base = amount * market.baseFactor;
  const quote = total * market.quoteFactor;
  const isBuy = taker.side === 'buy';
  const buyer = isBuy ? taker : maker;
  const seller = isBuy ? maker : taker;
  const baseFee = amount * (isBuy ? taker.takerFee : maker.makerFee) * market.baseFeeFactor;
  const quoteFee = total * (isBuy ? maker.makerFee : taker.takerFee) * market.quoteFeeFactor;
  // The maker pays from what it had frozen at the same price; the taker has frozen nothing.
  if (isBuy) {
    buyer.participant.quote.available -= quote;
    seller.participant.base.freeze -= base;
  } else {
    buyer.participant.quote.freeze -= quote;
    seller.participant.base.available -= base;
  }
  buyer.participant.base.available += base - baseFee;
  seller.participant.quote.available += quote - quoteFee;
  market.base.fees.available += baseFee;
  market.quote.fees.available += quoteFee;
}

/**
 * Freezes what an order needs as long as it is open, its base amount or its price × what is left; or sets
 * free what of that fills have not used.
 *
 * @param sign 1 freezes, −1 sets free
 */
export function bind(market: ListedMarket, order: Order, sign: 1n | -1n): void {
  const { participant, side, price, left } = order;
  const holding = side === 'buy' ? participant.quote : participant.base;
  const units = sign * needOf(market, side, price, left);
  holding.available -= units;
  holding.freeze += units;
}
