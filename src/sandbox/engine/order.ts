import type { Side } from '../../contract/values.js';
import type { Holding } from './accounts.js';
import { LevelEntry, type LevelKey } from './level-list.js';

/** What can be seen of an order. Quantities are in units of its market. */
export interface OrderState {
  readonly id: number;
  readonly account: string;
  readonly market: string;
  readonly side: Side;
  /** Creation time, UNIX microseconds. */
  readonly timeUs: number;
  /** Units of 10^−moneyPrec. */
  readonly price: bigint;
  /** Units of 10^−stockPrec; so are `left` and `dealStock`. */
  readonly amount: bigint;
  /** 0 means a finished order; a cancelled one keeps what was left. */
  readonly left: bigint;
  readonly dealStock: bigint;
  /** Units of 10^−(stockPrec + moneyPrec). */
  readonly dealMoney: bigint;
  /** Rates in units of 10^−feePrec. */
  readonly takerFee: bigint;
  readonly makerFee: bigint;
}

/** An account in one market: its holdings of the two currencies and its open orders. */
export class Participant {
  readonly account: string;
  readonly base: Holding;
  readonly quote: Holding;
  /** Number of open orders. */
  total = 0;
  newest: Order | undefined = undefined;

  constructor(account: string, base: Holding, quote: Holding) {
    this.account = account;
    this.base = base;
    this.quote = quote;
  }

  add(order: Order): void {
    order.older = this.newest;
    if (this.newest !== undefined) this.newest.newer = order;
    this.newest = order;
    this.total += 1;
  }

  remove(order: Order): void {
    const { newer, older } = order;
    if (newer === undefined) this.newest = older;
    else newer.older = older;
    if (older !== undefined) older.newer = newer;
    order.newer = undefined;
    order.older = undefined;
    this.total -= 1;
  }

  /** Open orders, newest first. Costs O(offset + limit). */
  page(offset: number, limit: number): Order[] {
    const rows: Order[] = [];
    let order = this.newest;
    for (let index = 0; order !== undefined && rows.length < limit; index += 1) {
      if (index >= offset) rows.push(order);
      order = order.older;
    }
    return rows;
  }
}

/**
 * A limit order. *Open* while it has something left and stands in a level; *finished* when nothing
 * is left; *cancelled* when it was taken out before that.
 *
 * It is a link of two lists: of its price level by age, and of its owner's open orders.
 */
export class Order implements OrderState {
  left: bigint;
  dealMoney = 0n;
  level: PriceLevel | undefined = undefined;
  /** Neighbours in the level: what is filled before and after this one. */
  ahead: Order | undefined = undefined;
  behind: Order | undefined = undefined;
  /** Neighbours among the open orders of the same participant. */
  newer: Order | undefined = undefined;
  older: Order | undefined = undefined;
  readonly id: number;
  readonly participant: Participant;
  readonly market: string;
  readonly side: Side;
  readonly timeUs: number;
  readonly price: bigint;
  readonly amount: bigint;
  readonly takerFee: bigint;
  readonly makerFee: bigint;

  constructor(
    id: number,
    participant: Participant,
    timeUs: number,
    { market, side, price, amount }: Pick<OrderState, 'market' | 'side' | 'price' | 'amount'>,
    { takerFee, makerFee }: Pick<OrderState, 'takerFee' | 'makerFee'>,
  ) {
    this.id = id;
    this.participant = participant;
    this.market = market;
    this.side = side;
    this.timeUs = timeUs;
    this.price = price;
    this.amount = amount;
    this.left = amount;
    this.takerFee = takerFee;
    this.makerFee = makerFee;
  }

  get account(): string {
    return this.participant.account;
  }

  get dealStock(): bigint {
    return this.amount - this.left;
  }
}

/** All open orders of one side at one price, oldest first. */
export class PriceLevel extends LevelEntry {
  readonly price: bigint;
  /** Sum of what is left of the orders. */
  amount = 0n;
  oldest: Order | undefined = undefined;
  newest: Order | undefined = undefined;

  constructor(key: LevelKey, price: bigint) {
    super(key);
    this.price = price;
  }

  append(order: Order): void {
    order.level = this;
    order.ahead = this.newest;
    if (this.newest === undefined) this.oldest = order;
    else this.newest.behind = order;
    this.newest = order;
    this.amount += order.left;
  }

  /** Takes an order out; what is left of it is no longer counted. */
  detach(order: Order): void {
    const { ahead, behind } = order;
    if (ahead === undefined) this.oldest = behind;
    else ahead.behind = behind;
    if (behind === undefined) this.newest = ahead;
    else behind.ahead = ahead;
    order.level = undefined;
    order.ahead = undefined;
    order.behind = undefined;
    this.amount -= order.left;
  }
}
