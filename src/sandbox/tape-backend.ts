import type {
  ActiveOrder,
  Balance,
  BookOrder,
  Candle,
  CreatedOrder,
  Depth,
  Market,
  StateRecord,
  Ticker,
  TickerEntry,
} from '../contract/resources.js';
import type { Side } from '../contract/values.js';
import type { Clock } from '../kernel/clock.js';
import {
  type Backend,
  type BackendTrade,
  type KlineQuery,
  RefusedError,
  type Slice,
} from '../server/backend.js';
import { type CandleRules, candlesOf } from './candles.js';
import { rollingFigures } from './figures.js';
import type { MarketTape } from './market-tape.js';
import { drawBook, EMPTY_BOOK, type TapeBook } from './tape-book.js';
import type { TapeClock } from './tape-clock.js';
import { TapeError } from './tape-error.js';
import { TradeWatchers } from './watchers.js';

const DAY_MS = 86_400_000;

/** What a tape backend is put together from. */
export interface TapeParts {
  readonly identity: string;
  readonly tapes: readonly MarketTape[];
  readonly clock: Clock;
  readonly time: TapeClock;
  /** Draws the order books. */
  readonly seed: number;
  readonly rules: CandleRules;
  /** Secrets by API key; a tape has no accounts, but signed requests can be answered. */
  readonly keys: ReadonlyMap<string, string>;
}

/**
 * An exchange that plays tapes. Nothing later than {@link TapeBackend.nowMs} is ever shown. There
 * is no engine behind it: orders are refused as blocked, balances and active orders are empty.
 */
export class TapeBackend implements Backend {
  readonly identity: string;
  readonly #time: TapeClock;
  readonly #tapes: ReadonlyMap<string, MarketTape>;
  readonly #seed: number;
  readonly #rules: CandleRules;
  readonly #keys: ReadonlyMap<string, string>;
  readonly #watchers: TradeWatchers;
  readonly #books = new Map<string, { readonly lastId: number; readonly book: TapeBook }>();

  constructor(parts: TapeParts) {
    this.identity = parts.identity;
    this.#time = parts.time;
    this.#tapes = new Map(parts.tapes.map((tape) => [tape.market.name, tape]));
    this.#seed = parts.seed;
    this.#rules = parts.rules;
    this.#keys = parts.keys;
    this.#watchers = new TradeWatchers(parts.clock, parts.time);
  }

  nowMs(): number {
    return this.#time.nowMs();
  }

  hasMarket(market: string): boolean {
    return this.#tapes.has(market);
  }

  markets(): Market[] {
    return [...this.#tapes.values()].map((tape) => tape.market);
  }

  tickers(): Record<string, TickerEntry> {
    const at = Math.floor(this.nowMs() / 1000);
    const entries = [...this.#tapes.keys()].map((name) => {
      const { volume: vol, ...rest } = this.ticker(name);
      return [name, { at, ticker: { ...rest, vol } }] as const;
    });
    return Object.fromEntries(entries);
  }

  ticker(market: string): Ticker {
    const tape = this.#tape(market);
    const { close: _close, ...figures } = rollingFigures(tape, this.nowMs(), DAY_MS);
    const { buy, sell } = this.#book(tape);
    return { name: market, bid: buy[0]?.price ?? '0', ask: sell[0]?.price ?? '0', ...figures };
  }

  kline({ market, ...span }: KlineQuery): Candle[] {
    return candlesOf(this.#tape(market), this.nowMs(), span, this.#rules);
  }

  trades(market: string, skip: number, limit: number): BackendTrade[] {
    const tape = this.#tape(market);
    const { first, end } = tape.visible(this.nowMs());
    const trades: BackendTrade[] = [];
    for (let at = end - 1 - skip; at >= first && trades.length < limit; at -= 1) {
      trades.push(tape.columns.tradeAt(at));
    }
    return trades;
  }

  depth(market: string, limit: number): Depth {
    const { buy, sell } = this.#book(this.#tape(market));
    const side = (levels: TapeBook[Side]) =>
      levels.slice(0, limit).map(({ price, amount }): [string, string] => [price, amount]);
    return { asks: side(sell), bids: side(buy) };
  }

  book(market: string, side: Side, offset: number, limit: number): Slice<BookOrder> {
    const orders = this.#book(this.#tape(market))[side].flatMap((level) => level.orders);
    return { total: orders.length, rows: orders.slice(offset, offset + limit) };
  }

  state(market: string, periodS: number): StateRecord {
    return { period: periodS, ...rollingFigures(this.#tape(market), this.nowMs(), periodS * 1000) };
  }

  /** Listeners are called when trades have become visible, at most 20 times a second. */
  watch(market: string, listener: () => void): () => void {
    return this.#watchers.add(this.#tape(market), listener);
  }

  secretOf(apiKey: string): string | undefined {
    return this.#keys.get(apiKey);
  }

  balances(): Record<string, Balance> {
    return {};
  }

  placeOrder(): CreatedOrder {
    throw new RefusedError('operationBlocked', 'a tape takes no orders');
  }

  activeOrders(): Slice<ActiveOrder> {
    return { total: 0, rows: [] };
  }

  /**
   * Every trade of a market that became visible by now, oldest first, also those that are beyond
   * the served history: what a collector is measured against.
   */
  truth(market: string): Iterable<BackendTrade> {
    return this.#tape(market).issued(this.nowMs());
  }

  /** Ends all watches and their timer. May be called more than once. */
  stop(): void {
    this.#watchers.stop();
  }

  #tape(market: string): MarketTape {
    const tape = this.#tapes.get(market);
    if (tape === undefined) throw new TapeError(`no tape is open for the market ${market}`);
    return tape;
  }

  #book(tape: MarketTape): TapeBook {
    const visible = tape.visible(this.nowMs());
    if (visible.first === visible.end) return EMPTY_BOOK;
    const lastId = tape.columns.idAt(visible.end - 1);
    const known = this.#books.get(tape.market.name);
    if (known?.lastId === lastId) return known.book;
    const book = drawBook(tape, this.#seed, visible);
    this.#books.set(tape.market.name, { lastId, book });
    return book;
  }
}
