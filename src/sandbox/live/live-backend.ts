import type {
  ActiveOrder,
  Balance,
  BookOrder,
  CreatedOrder,
  Depth,
} from '../../contract/resources.js';
import { show } from '../../contract/shape.js';
import type { Side } from '../../contract/values.js';
import {
  type Accounts,
  type Backend,
  type MarketControl,
  type NewOrder,
  RefusedError,
  type Slice,
} from '../../server/backend.js';
import { formatScaled } from '../amounts.js';
import { readOrder } from '../engine/market.js';
import { createdOrderView, depthView, openOrderView } from '../engine/views.js';
import { LiveError, Rejection } from '../errors.js';
import { MarketData, type MarketDataParts, type Touch } from '../market-data.js';
import type { MarketTape } from '../market-tape.js';
import { type MarketDescription, readMarket, usualMarket } from '../markets.js';
import type { LiveExchange, LiveMarket } from './live-exchange.js';

/** An API key with the account behind it. */
export interface LiveKey {
  /** Name for people; deposits may go by it. */
  readonly name?: string;
  readonly key: string;
  readonly secret: string;
  /**
   * Balances at the start: plain decimal texts by currency; default: 10,000 of every
   * currency that is traded.
   */
  readonly balances?: Readonly<Record<string, string>> | undefined;
  /** True if it is activated; default true. What is signed with another fails to authenticate. */
  readonly isActive?: boolean | undefined;
}

/** Parts of a live backend. */
export interface LiveParts extends MarketDataParts {
  readonly exchange: LiveExchange;
  /** True if clients from outside may change anything. */
  readonly isOpen: boolean;
  readonly keys: readonly LiveKey[];
}

/** Largest value of a column of trades, in units of its market. */
const COLUMN_BOUND = 2n ** 63n;

/** Default balance of each currency. */
const STARTING_BALANCE = '10000';
const NOTHING = /^0+(\.0+)?$/;

/** Description of a market: all of it can be read and, but for its state, set. */
function shown({ description, rules, isBlocked }: LiveMarket, isListed: boolean): object {
  const { basePrice, usualAmount, activity } = description;
  return { ...rules, basePrice, usualAmount, activity, listed: isListed, blocked: isBlocked };
}

/** Keys cannot lead to the traders' accounts, whatever they are called. */
function accountOf(key: string): string {
  return `key:${key}`;
}

/**
 * A working exchange: a matching engine with simulated traders, and with clients that have an API key.
 *
 * Before anything is answered everything happens that is due by then, so that answers depend on the
 * time and never on how often it is read.
 */
export class LiveBackend extends MarketData implements Backend, Accounts {
  readonly accounts = this;
  readonly marketControl: MarketControl;
  readonly #exchange: LiveExchange;
  readonly #isOpen: boolean;
  /** By API key; keys that are not activated have none. */
  readonly #secrets = new Map<string, string | undefined>();
  readonly #keysByName = new Map<string, string>();

  /** @throws LiveError when the keys or their balances are not possible */
  constructor(parts: LiveParts) {
    super(parts);
    this.#exchange = parts.exchange;
    this.#isOpen = parts.isOpen;
    this.marketControl = this.#control();
    for (const [at, key] of parts.keys.entries()) this.#addKey(key, at);
  }

  hasMarket(market: string): boolean {
    return this.#exchange.listed.has(market);
  }

  depth(market: string, limit: number): Depth {
    const { rules } = this.#now(market);
    const side = (side: Side) =>
      this.#exchange.engine.depth(market, side, limit).map((level) => depthView(level, rules));
    return { asks: side('sell'), bids: side('buy') };
  }

  book(market: string, side: Side, offset: number, limit: number): Slice<BookOrder> {
    const { rules } = this.#now(market);
    const { total, rows } = this.#exchange.engine.book(market, side, offset, limit);
    return { total, rows: rows.map((order) => openOrderView(order, rules)) };
  }

  secretOf(apiKey: string): string | undefined {
    return this.#secrets.get(apiKey);
  }

  balances(apiKey: string): Record<string, Balance> {
    this.#advance();
    return this.#exchange.engine.balances(accountOf(apiKey));
  }

  /** @throws RefusedError */
  placeOrder(apiKey: string, order: NewOrder): CreatedOrder {
    if (!this.#isOpen)
      throw new RefusedError('operationBlocked', 'this exchange takes no orders from outside');
    const { rules } = this.#now(order.market);
    const timeUs = this.nowMs() * 1000;
    const read = readOrder({ ...order, account: accountOf(apiKey), timeUs }, rules);
    if (read instanceof Rejection) throw read.toError();
    if (read.price >= COLUMN_BOUND || read.amount >= COLUMN_BOUND) {
      throw new RefusedError('invalidInput', 'price or amount has too many digits');
    }
    const placed = this.#exchange.engine.place(read);
    if (placed instanceof Rejection) throw placed.toError();
    this.recheck();
    return createdOrderView(placed, rules);
  }

  /** Newest first. */
  activeOrders(apiKey: string, market: string, offset: number, limit: number): Slice<ActiveOrder> {
    const { rules } = this.#now(market);
    const account = accountOf(apiKey);
    const { total, rows } = this.#exchange.engine.activeOrders(account, market, offset, limit);
    return { total, rows: rows.map((order) => openOrderView(order, rules)) };
  }

  protected override tapes(): Iterable<MarketTape> {
    return Array.from(this.#exchange.listed.values(), ({ tape }) => tape);
  }

  /** Delisted markets too: their trades do not become untrue. */
  protected override tapeOf(market: string): MarketTape {
    const found = this.#exchange.anyMarket(market);
    if (found === undefined) {
      const names = [...this.#exchange.listed.keys()];
      throw new LiveError(
        `market ${show(market)} is not one of this exchange and never was; there are ${names.slice(0, 20).join(', ')}`,
      );
    }
    return found.tape;
  }

  protected override touchOf(market: string): Touch {
    const { rules } = this.#now(market);
    const best = (side: Side) => {
      const level = this.#exchange.engine.depth(market, side, 1)[0];
      return level === undefined ? '0' : formatScaled(level.price, rules.moneyPrec);
    };
    return { bid: best('buy'), ask: best('sell') };
  }

  /** The exchange as it is changed from outside. @throws LiveError when it cannot be, or not so */
  #control(): MarketControl {
    const exchange = this.#exchange;
    const known = (market: string) => {
      const found = exchange.anyMarket(market);
      return found === undefined ? {} : shown(found, exchange.listed.has(market));
    };
    return {
      isOpen: this.#isOpen,
      describe: () => [
        ...Array.from(exchange.listed.values(), (market) => shown(market, true)),
        ...Array.from(exchange.delisted.values(), (market) => shown(market, false)),
      ],
      create: (description) => {
        this.#prepareChange();
        const described = readMarket(description, (name) => this.#usualMarket(name));
        return shown(exchange.list(described, this.nowMs() * 1000), true);
      },
      delist: (market) => {
        this.#prepareChange();
        exchange.delist(market);
        return known(market);
      },
      // The simulated traders rest too.
      block: (market, isBlocked) => {
        this.#prepareChange();
        exchange.block(market, isBlocked);
        return known(market);
      },
      deposit: (account, currency, amount) => {
        // Any text but a name that was given to a key is a key itself.
        const key = this.#keysByName.get(account) ?? account;
        this.#deposit(key, currency, amount);
        return { account, balances: this.balances(key) };
      },
    };
  }

  /** Gives an account funds from outside; `amount` is plain decimal text above zero. @throws LiveError */
  #deposit(apiKey: string, currency: string, amount: string): void {
    this.#prepareChange();
    if (!this.#secrets.has(apiKey))
      throw new LiveError(`account: there is no API key or name of one ${show(apiKey)}`);
    const names = this.#currencies();
    if (!names.includes(currency)) {
      throw new LiveError(
        `currency: no market trades ${show(currency)}; there are ${names.join(', ')}`,
      );
    }
    const refused = this.#exchange.engine.deposit(accountOf(apiKey), currency, amount);
    if (refused !== undefined) throw new LiveError(refused.message);
  }

  #currencies(): string[] {
    return Array.from(this.#exchange.engine.currencies(), ({ name }) => name);
  }

  /** A market of this name as it was listed before, or else as it follows from the name. */
  #usualMarket(name: string): MarketDescription {
    return this.#exchange.anyMarket(name)?.description ?? usualMarket(name);
  }

  /** @throws LiveError when its text or name is another one's, or its balances are not possible */
  #addKey({ key, secret, balances, name, isActive = true }: LiveKey, at: number): void {
    const option = `keys.${at}` as const;
    if (this.#secrets.has(key)) throw new LiveError(`the API key ${key} is given twice`, option);
    if (name !== undefined && this.#keysByName.has(name)) {
      throw new LiveError(`the name ${name} is given to two API keys`, option);
    }
    if (name !== undefined) this.#keysByName.set(name, key);
    this.#secrets.set(key, isActive ? secret : undefined);
    try {
      for (const [currency, amount] of Object.entries(balances ?? this.#startingBalances())) {
        if (!NOTHING.test(amount)) this.#deposit(key, currency, amount);
      }
    } catch (error) {
      if (!(error instanceof LiveError)) throw error;
      throw new LiveError(`${name ?? key}: ${error.message}`, option, error);
    }
  }

  #startingBalances(): Record<string, string> {
    return Object.fromEntries(this.#currencies().map((name) => [name, STARTING_BALANCE]));
  }

  #advance(): void {
    this.#exchange.advanceTo(this.nowMs() * 1000);
  }

  /** A listed market, with everything that is due by now. */
  #now(market: string): LiveMarket {
    this.#advance();
    const found = this.#exchange.listed.get(market);
    if (found === undefined) throw new RefusedError('invalidInput', `no market ${market}`);
    return found;
  }

  #prepareChange(): void {
    if (!this.#isOpen) {
      throw new LiveError(
        'this exchange repeats itself at every start and cannot be changed; give its run a name (--run, or --key, which gives it one; runId in the library), which becomes part of its identity',
      );
    }
    this.#advance();
  }
}
