import type { ActiveOrder, BookOrder, CreatedOrder } from '../../contract/resources.js';
import { formatScaled, formatTrimmed } from '../amounts.js';
import type { OrderState } from './book.js';
import type { DepthLevel } from './engine.js';
import type { MarketRules } from './market.js';

/*
 * What the engine holds, as the contract shows it. Prices and amounts have all places of their
 * market; sums, rates and what is left have no superfluous zeros, so that a finished order's `left`
 * is exactly `0`.
 */

function progress(order: OrderState, { stockPrec, moneyPrec, feePrec }: MarketRules) {
  return {
    market: order.market,
    price: formatScaled(order.price, moneyPrec),
    amount: formatScaled(order.amount, stockPrec),
    left: formatTrimmed(order.left, stockPrec),
    type: 'limit',
    side: order.side,
    timestamp: order.timeUs / 1_000_000,
    takerFee: formatTrimmed(order.takerFee, feePrec),
    makerFee: formatTrimmed(order.makerFee, feePrec),
    dealStock: formatTrimmed(order.amount - order.left, stockPrec),
    dealMoney: formatTrimmed(order.dealMoney, stockPrec + moneyPrec),
  };
}

/** An order in the book, or one of the caller's active orders: both have the same fields. */
export function openOrderView(order: OrderState, rules: MarketRules): BookOrder & ActiveOrder {
  return { id: order.id, ...progress(order, rules) };
}

export function createdOrderView(order: OrderState, rules: MarketRules): CreatedOrder {
  return { orderId: order.id, ...progress(order, rules) };
}

/** A level of the contract's Depth: price and amount. */
export function depthView(level: DepthLevel, rules: MarketRules): [string, string] {
  return [formatScaled(level.price, rules.moneyPrec), formatScaled(level.amount, rules.stockPrec)];
}
