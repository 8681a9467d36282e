import type { Side } from '../../../../src/contract/values.js';
import type { LimitOrderText, MarketRules } from '../../../../src/sandbox/engine/market.js';
import type { RejectionReason } from '../../../../src/sandbox/errors.js';

/*
 * An exchange so plain that it can be seen to be right: all orders in one array, sorted anew for
 * every fill; every quantity a fraction over 10^60. It shares no code with the engine.
 */

const PLACES = 60;
const ONE = 10n ** BigInt(PLACES);

/** The value of plain decimal text, times 10^60. */
export function exact(text: string): bigint {
  const isNegative = text.startsWith('-');
  const [whole = '', fraction = ''] = (isNegative ? text.slice(1) : text).split('.');
  const value = BigInt(whole + fraction.padEnd(PLACES, '0'));
  return isNegative ? -value : value;
}

/** Shortest decimal text of a value times 10^60. */
export function shown(value: bigint): string {
  const digits = value.toString().padStart(PLACES + 1, '0');
  const fraction = digits.slice(-PLACES).replace(/0+$/, '');
  return digits.slice(0, -PLACES) + (fraction === '' ? '' : `.${fraction}`);
}

function times(a: bigint, b: bigint): bigint {
  const product = a * b;
  if (product % ONE !== 0n) throw new Error('a product needs more than 60 places');
  return product / ONE;
}

export interface ModelOrder {
  readonly id: number;
  readonly account: string;
  readonly market: string;
  readonly side: Side;
  readonly timeUs: number;
  readonly price: bigint;
  readonly amount: bigint;
  readonly takerFee: bigint;
  readonly makerFee: bigint;
  left: bigint;
  dealStock: bigint;
  dealMoney: bigint;
}

interface Purse {
  available: bigint;
  freeze: bigint;
}

export class ModelExchange {
  readonly events: string[] = [];
  readonly markets = new Map<string, MarketRules>();
  readonly blocked = new Set<string>();
  readonly purses = new Map<string, Purse>();
  open: ModelOrder[] = [];
  #orderId = 0;
  #tradeId = 0;
  #timeUs = 0;

  purse(account: string, currency: string): Purse {
    const key = `${account}/${currency}`;
    const purse = this.purses.get(key) ?? { available: 0n, freeze: 0n };
    this.purses.set(key, purse);
    return purse;
  }

  deposit(account: string, currency: string, amount: string): void {
    this.purse(account, currency).available += exact(amount);
  }

  delist(name: string): RejectionReason | number {
    if (!this.markets.delete(name)) return 'unknownMarket';
    this.blocked.delete(name);
    const mine = this.open.filter((order) => order.market === name);
    for (const order of mine) this.#unfreeze(order);
    this.open = this.open.filter((order) => order.market !== name);
    return mine.length;
  }

  place(text: LimitOrderText): RejectionReason | ModelOrder {
    const rules = this.markets.get(text.market);
    if (rules === undefined) return 'unknownMarket';
    const fault = this.#fault(text, rules);
    if (fault !== undefined) return fault;
    this.#orderId += 1;
    this.#timeUs = text.timeUs > this.#timeUs ? text.timeUs : this.#timeUs;
    const order: ModelOrder = {
      id: this.#orderId,
      account: text.account,
      market: text.market,
      side: text.side,
      timeUs: this.#timeUs,
      price: exact(text.price),
      amount: exact(text.amount),
      takerFee: exact(rules.takerFee),
      makerFee: exact(rules.makerFee),
      left: exact(text.amount),
      dealStock: 0n,
      dealMoney: 0n,
    };
    // Everything is frozen first, and what turns out cheaper is given back with each fill.
    const [paying, need] = this.#bound(order);
    paying.available -= need;
    paying.freeze += need;
    for (;;) {
      const [maker] = this.book(text.market, text.side === 'buy' ? 'sell' : 'buy');
      if (maker === undefined || order.left === 0n) break;
      if (text.side === 'buy' ? maker.price > order.price : maker.price < order.price) break;
      this.#fill(maker, order, rules);
    }
    if (order.left > 0n) this.open.push(order);
    return order;
  }

  cancel(id: number): RejectionReason | ModelOrder {
    const order = this.open.find((each) => each.id === id);
    if (order === undefined) return 'unknownOrder';
    this.open = this.open.filter((each) => each !== order);
    this.#unfreeze(order);
    return order;
  }

  /** Best first: price, then age. */
  book(market: string, side: Side): ModelOrder[] {
    return this.open
      .filter((order) => order.market === market && order.side === side)
      .sort((a, b) => {
        if (a.price === b.price) return a.id - b.id;
        return a.price < b.price === (side === 'sell') ? -1 : 1;
      });
  }

  #fault(text: LimitOrderText, rules: MarketRules): RejectionReason | undefined {
    const places = (value: string) => (value.split('.')[1] ?? '').replace(/0+$/, '').length;
    if (!/[1-9]/.test(text.price) || text.price.startsWith('-')) return 'notPositive';
    if (places(text.price) > rules.moneyPrec) return 'precisionExceeded';
    if (!/[1-9]/.test(text.amount) || text.amount.startsWith('-')) return 'notPositive';
    if (places(text.amount) > rules.stockPrec) return 'precisionExceeded';
    if (this.blocked.has(text.market)) return 'blocked';
    if (exact(text.amount) < exact(rules.minAmount)) return 'belowMinAmount';
    const price = exact(text.price);
    const isBuy = text.side === 'buy';
    const need = isBuy ? times(price, exact(text.amount)) : exact(text.amount);
    const { available } = this.purse(text.account, isBuy ? rules.money : rules.stock);
    return available < need ? 'fundsShort' : undefined;
  }

  #fill(maker: ModelOrder, taker: ModelOrder, rules: MarketRules): void {
    const amount = maker.left < taker.left ? maker.left : taker.left;
    const total = times(maker.price, amount);
    for (const order of [maker, taker]) {
      order.left -= amount;
      order.dealStock += amount;
      order.dealMoney += total;
    }
    const [buyer, seller] = taker.side === 'buy' ? [taker, maker] : [maker, taker];
    const rate = (order: ModelOrder) => (order === taker ? order.takerFee : order.makerFee);
    const money = this.purse(buyer.account, rules.money);
    const stockFee = times(amount, rate(buyer));
    const moneyFee = times(total, rate(seller));
    money.freeze -= times(buyer.price, amount);
    money.available += times(buyer.price, amount) - total;
    this.purse(buyer.account, rules.stock).available += amount - stockFee;
    this.purse(seller.account, rules.stock).freeze -= amount;
    this.purse(seller.account, rules.money).available += total - moneyFee;
    this.purse(FEE_ACCOUNT, rules.stock).available += stockFee;
    this.purse(FEE_ACCOUNT, rules.money).available += moneyFee;
    if (maker.left === 0n) this.open = this.open.filter((order) => order !== maker);
    this.#tradeId += 1;
    const { id, market, side, timeUs } = taker;
    const sizes = `${shown(maker.price)} ${shown(amount)} ${shown(total)}`;
    this.events.push(
      `trade ${this.#tradeId} ${market} ${timeUs} ${sizes} ${side} ${maker.id} ${id}`,
    );
  }

  #bound(order: ModelOrder): [Purse, bigint] {
    const rules = this.markets.get(order.market);
    const [stock = '', money = ''] = rules ? [rules.stock, rules.money] : order.market.split('_');
    if (order.side === 'sell') return [this.purse(order.account, stock), order.left];
    return [this.purse(order.account, money), times(order.price, order.left)];
  }

  #unfreeze(order: ModelOrder): void {
    const [purse, amount] = this.#bound(order);
    purse.freeze -= amount;
    purse.available += amount;
  }
}

/** No client can be named so. */
export const FEE_ACCOUNT = '(fees)';
