import type { Side } from '../../contract/values.js';
import type { NewOrder } from '../../server/backend.js';
import { parseUnits } from '../amounts.js';
import { Rejection } from '../errors.js';
import { fundsShort } from './accounts.js';
import { type ListedMarket, type MarketRules, needOf } from './market.js';

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
  const participant = market.findParticipant(account);
  const held =
    participant === undefined ? currency.holdings.get(account) : market.payingOf(participant, side);
  if (held === undefined || held.available < needOf(market, side, price, amount)) {
    return fundsShort(account, currency.name);
  }
  if (participant !== undefined && participant.orders.size >= maxOpenOrders) {
    const most = `${account} has ${maxOpenOrders} open orders in ${rules.name}, the most allowed`;
    return new Rejection('tooManyOrders', most);
  }
  return undefined;
}
