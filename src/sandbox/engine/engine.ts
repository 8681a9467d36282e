import type { Balance } from '../../contract/resources.js';
import type { Side } from '../../contract/values.js';
import { obtain } from '../../kernel/bounded.js';
import type { Slice } from '../../server/backend.js';
import { formatTrimmed, MAX_PLACES, parseUnits, unitBound } from '../amounts.js';
import { EngineError, Rejection } from '../errors.js';
import { Currency, type Order, type OrderState, type PriceLevel } from './book.js';
import { faultOf, type LimitOrder, ListedMarket, type MarketRules } from './market.js';
import { bind, matchOrder, type Trade } from './matching.js';

export interface EngineOptions {
  /** Called once for every trade, in order of ids, when its operation is done. It must not change the engine. */
  readonly onTrade?: (trade: Trade) => void;
  /** Most open orders of one account in one market; default 10,000. */
  readonly maxOpenOrders?: number;
}

/** One price of a book, in units of its market. */
export type DepthLevel = Readonly<Pick<PriceLevel, 'price' | 'amount'>>;

const MAX_OPEN_ORDERS = 10_000;

/**
 * The matching engine of an exchange: markets, books, accounts. It has no clock, no randomness and
 * no I/O; the same calls give the same ids, trades and balances.
 *
 * An operation is done wholly or, with a {@link Rejection}, not at all. Orders of one account may
 * fill each other.
 */
export class MatchingEngine {
  readonly #onTrade: EngineOptions['onTrade'];
  readonly #maxOpenOrders: number;
  /** An account begins with its first deposit. */
  readonly #currencies = new Map<string, Currency>();
  readonly #markets = new Map<string, ListedMarket>();
  readonly #orders = new Map<number, Order>();
  #nextOrderId = 1;
  #nextTradeId = 1;
  #timeUs = 0;
  /** Trades of the running operation, not reported yet. */
  #trades: Trade[] = [];
  #isNotifying = false;

  constructor(options: EngineOptions = {}) {
    this.#onTrade = options.onTrade;
    this.#maxOpenOrders = options.maxOpenOrders ?? MAX_OPEN_ORDERS;
  }

  /**
   * Lists a market from now on.
   *
   * @throws EngineError when it is listed already or its rules cannot be
   */
  addMarket(rules: MarketRules): void {
    this.#guard();
    if (this.#markets.has(rules.name)) throw new EngineError(`${rules.name} is listed already`);
    const base = this.#currency(rules.stock);
    const quote = this.#currency(rules.money);
    this.#markets.set(rules.name, new ListedMarket(rules, base, quote));
  }

  /**
   * Ends a market: all its open orders are cancelled and their funds released.
   *
   * @returns how many orders were cancelled
   */
  delistMarket(name: string): number | Rejection {
    this.#guard();
    const market = this.#markets.get(name);
    if (market === undefined) return unknownMarket(name);
    const open = [market.buy, market.sell].flatMap((side) => side.page(0, side.orders));
    for (const order of open) this.#takeOut(market, order);
    this.#markets.delete(name);
    this.#notify();
    return open.length;
  }

  /** Lets the ids of orders and trades go on from `next`, if that is ahead of them. */
  advanceIds(next: number): void {
    this.#guard();
    this.#nextOrderId = Math.max(this.#nextOrderId, next);
    this.#nextTradeId = Math.max(this.#nextTradeId, next);
  }

  /** While a market is blocked its new orders are refused; cancels are not. */
  setBlocked(name: string, isBlocked: boolean): Rejection | undefined {
    const market = this.#markets.get(name);
    if (market === undefined) return unknownMarket(name);
    market.isBlocked = isBlocked;
    return undefined;
  }

  /** The rules of a listed market. */
  rulesOf(name: string): MarketRules | undefined {
    return this.#markets.get(name)?.rules;
  }

  /** The rules of all listed markets, in the order of listing. */
  markets(): MarketRules[] {
    return Array.from(this.#markets.values(), ({ rules }) => rules);
  }

  /** Adds funds from outside; `amount` is plain decimal text above zero. */
  deposit(account: string, name: string, amount: string): Rejection | undefined {
    this.#guard();
    const currency = this.#currency(name);
    const units = parseUnits(amount, MAX_PLACES, 'amount');
    if (units instanceof Rejection) return units;
    if (currency.deposited + units >= unitBound(MAX_PLACES)) {
      return new Rejection('tooManyDigits', `deposit of ${amount} ${name}: more than can be held`);
    }
    currency.holding(account).available += units;
    currency.deposited += units;
    return undefined;
  }

  /**
   * Places a limit order: fills what crosses, then freezes and rests what is left.
   *
   * @returns the order after its immediate fills; it goes on changing as long as it is open
   */
  place(order: LimitOrder): OrderState | Rejection {
    this.#guard();
    const market = this.#markets.get(order.market);
    if (market === undefined) return unknownMarket(order.market);
    const fault = faultOf(market, order, this.#maxOpenOrders);
    if (fault !== undefined) return fault;
    this.#timeUs = Math.max(this.#timeUs, order.timeUs);
    const participant = market.participant(order.account);
    const { account, side, price, amount } = order;
    const { takerFee, makerFee } = market;
    const taker: Order = {
      id: this.#nextOrderId,
      account,
      participant,
      market: order.market,
      side,
      timeUs: this.#timeUs,
      price,
      amount,
      left: amount,
      dealMoney: 0n,
      takerFee,
      makerFee,
    };
    this.#nextOrderId += 1;
    matchOrder(market, taker, this.#filled);
    if (taker.left > 0n) {
      bind(market, taker, 1n);
      market.side(taker.side).add(taker);
      participant.orders.add(taker);
      this.#orders.set(taker.id, taker);
    }
    this.#notify();
    return taker;
  }

  /** Takes out an open order and releases its funds. Whose order it is, the caller checks. */
  cancel(orderId: number): OrderState | Rejection {
    this.#guard();
    const order = this.#orders.get(orderId);
    const market = order === undefined ? undefined : this.#markets.get(order.market);
    if (order === undefined || market === undefined) {
      return new Rejection('unknownOrder', `order ${orderId} is not open`);
    }
    this.#takeOut(market, order);
    this.#notify();
    return order;
  }

  /** An open order. */
  order(orderId: number): OrderState | undefined {
    return this.#orders.get(orderId);
  }

  /** Returns the balances of an account, as decimal texts. */
  balances(account: string): Record<string, Balance> {
    const entries = Array.from(this.#currencies.values(), ({ name, holdings }) => {
      const { available = 0n, freeze = 0n } = holdings.get(account) ?? {};
      const text = (units: bigint) => formatTrimmed(units, MAX_PLACES);
      return [name, { available: text(available), freeze: text(freeze) }] as const;
    });
    return Object.fromEntries(entries);
  }

  /** All currencies with all that is held of them, to look at only. */
  currencies(): Iterable<Currency> {
    return this.#currencies.values();
  }

  /** The open orders of an account in a market, newest first. */
  activeOrders(account: string, market: string, offset: number, limit: number): Slice<OrderState> {
    const orders = [...(this.#markets.get(market)?.findParticipant(account)?.orders ?? [])];
    return { total: orders.length, rows: orders.reverse().slice(offset, offset + limit) };
  }

  /** The open orders of one side, best price first and oldest first within a price. */
  book(market: string, side: Side, offset: number, limit: number): Slice<OrderState> {
    const book = this.#markets.get(market)?.side(side);
    return { total: book?.orders ?? 0, rows: book?.page(offset, limit) ?? [] };
  }

  /** The best `limit` price levels of one side, best first. */
  depth(market: string, side: Side, limit: number): readonly DepthLevel[] {
    return this.#markets.get(market)?.side(side).levels(limit) ?? [];
  }

  /** The currency of this name, made if there is none. */
  #currency(name: string): Currency {
    return obtain(this.#currencies, name, () => new Currency(name));
  }

  #takeOut(market: ListedMarket, order: Order): void {
    market.side(order.side).remove(order);
    bind(market, order, -1n);
    this.#forget(order);
  }

  #forget(order: Order): void {
    order.participant.orders.delete(order);
    this.#orders.delete(order.id);
  }

  readonly #filled = (maker: Order, taker: Order, amount: bigint, total: bigint): void => {
    if (maker.left === 0n) this.#forget(maker);
    const id = this.#nextTradeId;
    this.#nextTradeId += 1;
    if (this.#onTrade === undefined) return;
    this.#trades.push({
      id,
      market: taker.market,
      timeUs: taker.timeUs,
      price: maker.price,
      amount,
      total,
      takerSide: taker.side,
      makerOrderId: maker.id,
      takerOrderId: taker.id,
    });
  };

  /** Reports the trades of an operation, once the state is consistent again. */
  #notify(): void {
    const trades = this.#trades;
    if (trades.length === 0) return;
    this.#trades = [];
    this.#isNotifying = true;
    try {
      for (const trade of trades) this.#onTrade?.(trade);
    } finally {
      this.#isNotifying = false;
    }
  }

  #guard(): void {
    if (this.#isNotifying) throw new EngineError('a listener of the engine must not change it');
  }
}

function unknownMarket(name: string): Rejection {
  return new Rejection('unknownMarket', `no market ${name}`);
}
