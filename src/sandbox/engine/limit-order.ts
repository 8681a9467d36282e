import type { Side } from '../../contract/values.js';
import { parseUnits } from '../amounts.js';
import { Rejection } from '../errors.js';
import { fundsShort } from './accounts.js';
import { type ListedMarket, type MarketRules, needOf, parseRate } from './market.js';

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
  /** Rates in units of 10^−feePrec, for this order only; default: the market's. */
  readonly takerFee?: bigint;
  readonly makerFee?: bigint;
}

/** A limit order with plain decimal texts, as it comes from a client. */
export interface LimitOrderText {
  readonly account: string;
  readonly market: string;
  readonly side: Side;
  readonly price: string;
  readonly amount: string;
  readonly timeUs: number;
  readonly takerFee?: string;
  readonly makerFee?: string;
}

/** Reads the texts of an order as integers; refuses what is no decimal or has too many digits. */
export function readOrder(text: LimitOrderText, rules: MarketRules): LimitOrder | Rejection {
  const price = parseUnits(text.price, rules.moneyPrec, 'price');
  if (price instanceof Rejection) return price;
  const amount = parseUnits(text.amount, rules.stockPrec, 'amount');
  if (amount instanceof Rejection) return amount;
  const { account, market, side, timeUs } = text;
  const plain = { account, market, side, timeUs, price, amount };
  if (text.takerFee === undefined && text.makerFee === undefined) return plain;
  const takerFee = parseRate(text.takerFee ?? rules.takerFee, rules.feePrec, 'takerFee');
  if (takerFee instanceof Rejection) return takerFee;
  const makerFee = parseRate(text.makerFee ?? rules.makerFee, rules.feePrec, 'makerFee');
  if (makerFee instanceof Rejection) return makerFee;
  return { ...plain, takerFee, makerFee };
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
  const { account, side, price, amount, takerFee, makerFee } = order;
  const { rules } = market;
  if (market.isBlocked) return new Rejection('blocked', `${rules.name} takes no orders now`);
  if (price <= 0n || amount <= 0n) {
    return new Rejection('notPositive', 'price and amount must be above zero');
  }
  if (price >= market.priceBound || amount >= market.amountBound) {
    return new Rejection('tooManyDigits', 'price or amount has too many digits');
  }
  if (!market.isRate(takerFee ?? market.takerFee) || !market.isRate(makerFee ?? market.makerFee)) {
    return new Rejection('badFee', 'fee rates go from 0 to below 1');
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
  if (participant !== undefined && participant.total >= maxOpenOrders) {
    const most = `${account} has ${maxOpenOrders} open orders in ${rules.name}, the most allowed`;
    return new Rejection('tooManyOrders', most);
  }
  return undefined;
}
