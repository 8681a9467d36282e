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

/** Answers may come at once (an engine in memory) or later (an archive in a database). */
export type Awaitable<T> = T | Promise<T>;

/** A trade as a backend knows it. Both history endpoints are views of it. */
export interface BackendTrade {
  readonly id: number;
  /** Execution time, UNIX microseconds. */
  readonly timeUs: number;
  readonly price: string;
  readonly amount: string;
  /** price × amount, exactly. */
  readonly total: string;
  /** The taker's side. */
  readonly side: Side;
}

/** The two history endpoints: they show the same trades with other names and times. */
export type TradeForm = 'history' | 'historyResult';

export interface KlineQuery {
  readonly market: string;
  /** Both ends inclusive, UNIX seconds. */
  readonly startS: number;
  readonly endS: number;
  readonly intervalS: number;
}

export interface NewOrder {
  readonly market: string;
  readonly price: string;
  readonly amount: string;
  readonly side: Side;
}

/** A page of something countable. */
export interface Slice<T> {
  readonly total: number;
  readonly rows: readonly T[];
}

/**
 * A backend refuses a well-formed request. The server turns it into the contract's error body.
 */
export type Refusal = 'invalidInput' | 'operationBlocked';

export class RefusedError extends Error {
  readonly refusal: Refusal;

  constructor(refusal: Refusal, message: string) {
    super(message);
    this.name = 'RefusedError';
    this.refusal = refusal;
  }
}

/**
 * What stands behind the served contract: a sandbox exchange or a replayed archive.
 *
 * Market names given to these methods are known ones: the server asks {@link Backend.hasMarket}
 * first. All times are the exchange's own.
 */
export interface Backend {
  /**
   * Names this exchange's history: the same text means the same trades. Sent as the header
   * `x-tapekeep-exchange`, so that an archive never mixes two sandboxes, or a sandbox with a real
   * exchange.
   */
  readonly identity: string;
  /** The exchange's time, UNIX milliseconds; shown in the Date header and in tickers' `at`. */
  nowMs(): number;
  hasMarket(market: string): boolean;
  markets(): Awaitable<Market[]>;
  tickers(): Awaitable<Record<string, TickerEntry>>;
  ticker(market: string): Awaitable<Ticker>;
  kline(query: KlineQuery): Awaitable<Candle[]>;
  /** Newest first, after skipping the `skip` most recent. */
  trades(market: string, skip: number, limit: number): Awaitable<readonly BackendTrade[]>;
  /**
   * The same page as the JSON text of the contract's array, to the byte what the server would write
   * of `trades`, from a backend that has the texts of its trades at hand; in parts, which nobody
   * may change. Left out by others.
   */
  tradesText?(form: TradeForm, market: string, skip: number, limit: number): readonly Uint8Array[];
  /** Best first on both sides, at most `limit` levels a side. */
  depth(market: string, limit: number): Awaitable<Depth>;
  book(market: string, side: Side, offset: number, limit: number): Awaitable<Slice<BookOrder>>;
  /** The state over the last `periodS` seconds, with `change`. */
  state(market: string, periodS: number): Awaitable<StateRecord>;
  /**
   * Calls `listener` whenever the state of the market may have changed, never within the call
   * itself. Returns a function that ends it.
   */
  watch(market: string, listener: () => void): () => void;
  /** The secret of an activated API key, or undefined. */
  secretOf(apiKey: string): string | undefined;
  balances(apiKey: string): Awaitable<Record<string, Balance>>;
  /** @throws RefusedError */
  placeOrder(apiKey: string, order: NewOrder): Awaitable<CreatedOrder>;
  activeOrders(
    apiKey: string,
    market: string,
    offset: number,
    limit: number,
  ): Awaitable<Slice<ActiveOrder>>;
}
