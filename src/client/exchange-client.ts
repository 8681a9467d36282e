import type { EndpointName, ParamsOf, ResultOf } from '../contract/endpoints.js';
import type { RejectedRow } from '../contract/shape.js';
import type { SignedContent } from '../contract/signing.js';
import type { Side } from '../contract/values.js';
import type { RequestBudget } from '../kernel/budget.js';
import type { Clock } from '../kernel/clock.js';
import type { Random } from '../kernel/random.js';
import type { ClientEvents } from '../observe/events.js';
import type { ExchangeClock } from './exchange-clock.js';

/** An answer of the exchange, with everything needed to judge how old and how complete it is. */
export interface Reply<T> {
  readonly data: T;
  /** Rows that did not fit the contract. They are not in `data`; put them into quarantine. */
  readonly rejected: readonly RejectedRow[];
  /**
   * Exchange time when the request left, UNIX milliseconds, estimated with the knowledge of this
   * very answer. What the answer shows is at least as new as this.
   */
  readonly sentAtMs: number;
  /** The answer's Date header, UNIX milliseconds (whole seconds); null when it has none. */
  readonly dateMs: number | null;
  /** The header `x-tapekeep-exchange`: names the history that this server tells; null elsewhere. */
  readonly identity: string | null;
  /** This machine's wall clock when the answer was complete. */
  readonly receivedAtMs: number;
  readonly durationMs: number;
  /** Size of the body. */
  readonly bytes: number;
}

export interface CallOptions {
  /** Place in the request budget's line: lower goes first. Default {@link DEFAULT_PRIORITY}. */
  readonly priority?: number;
  readonly signal?: AbortSignal;
  /**
   * `get` (default for public endpoints) needs no credentials; `post` is the signed form. Private
   * endpoints are always `post`.
   */
  readonly form?: 'get' | 'post';
  /** A turn of {@link ExchangeApi.reserve}: the call waits for nothing, and uses the turn up. */
  readonly turn?: RequestTurn;
}

/** The right to send one request now: for a call's options, or to be given back. */
export interface RequestTurn {
  /** Lets others have it; does nothing once the turn is used. */
  giveBack(): void;
}

/** Priority of calls that name none. */
export const DEFAULT_PRIORITY = 10;

export interface Credentials {
  readonly apiKey: string;
  readonly secret: string;
}

/** Keeps the last nonce over restarts, so that a wall clock set back does not lock the key out. */
export interface NonceStore {
  /**
   * Waits until nobody else signs with this key, and keeps it so until the function returned is
   * called, which never fails. Held from before the nonce is taken until the answer is there. Left
   * out where this client is the only one that uses the key.
   */
  lock?(signal?: AbortSignal): Promise<() => Promise<void>>;
  /** The last saved nonce, or undefined. Asked before every request: others may have moved it. */
  load(): Promise<number | undefined>;
  /** Called before the request with this nonce leaves. */
  save(nonce: number): Promise<void>;
}

export interface ExchangeClientOptions {
  /** `http:` or `https:`, a path prefix is allowed. */
  readonly baseUrl: string;
  readonly clock: Clock;
  /** Spreads the waits that the exchange asks for. */
  readonly random: Random;
  readonly telemetry: ClientEvents;
  /** Shared by everything that speaks HTTP to this exchange. */
  readonly budget: RequestBudget;
  /** Fed with the Date header of every answer. */
  readonly exchangeClock: ExchangeClock;
  readonly credentials?: Credentials;
  readonly signedContent?: SignedContent;
  readonly nonceStore?: NonceStore;
  /** Deadline of a whole exchange, from the first byte sent to the last received. Default 10 s. */
  readonly timeoutMs?: number;
  /** Largest accepted body. Default 16 MiB. */
  readonly maxBodyBytes?: number;
  /** Kept-alive connections, and so requests under way at the same time. Default 8. */
  readonly connections?: number;
}

/**
 * The exchange over HTTP. Every method waits for the request budget, sends one request and returns
 * the checked answer, or throws a typed error (errors.ts) whose `action` says what to do next. It
 * repeats nothing by itself, with one exception: a GET whose kept-alive connection turns out to be
 * closed by the server is sent once more.
 *
 * Times in parameters are UNIX seconds, as in the contract; decimals are text.
 *
 * @throws InvalidParameterError before sending, for a parameter outside the contract's limits
 * @throws ExchangeError and its subclasses for everything that goes wrong afterwards
 */
export interface ExchangeApi {
  /**
   * Waits until one request may be sent, so that what to ask for can be chosen then. Use the turn or
   * give it back at once: it holds a connection.
   *
   * @param priority as {@link CallOptions.priority}
   */
  reserve(priority: number, signal?: AbortSignal): Promise<RequestTurn>;

  /** Calls any endpoint of the table by its name. The named methods below are this, typed. */
  call<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    options?: CallOptions,
  ): Promise<Reply<ResultOf<N>>>;

  /** All markets with precisions and minimal amounts (contract, Market). */
  markets(options?: CallOptions): Promise<Reply<ResultOf<'markets'>>>;
  /** All pairs with their two currencies (contract, Product). */
  products(options?: CallOptions): Promise<Reply<ResultOf<'products'>>>;
  /** 24-hour figures of all markets, keyed by name; `at` in seconds (contract, Ticker entry). */
  tickers(options?: CallOptions): Promise<Reply<ResultOf<'tickers'>>>;
  /** 24-hour figures of one market (contract, Ticker). */
  ticker(market: string, options?: CallOptions): Promise<Reply<ResultOf<'ticker'>>>;
  /** Candles from `start` to `end`, both inclusive, `interval` in seconds (contract, Kline). */
  kline(
    query: {
      readonly market: string;
      readonly start: number;
      readonly end: number;
      readonly interval?: number;
    },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'kline'>>>;
  /** Trades newest first, fractional `time` in seconds (contract, endpoint history). */
  history(
    query: { readonly market: string; readonly lastId?: number; readonly limit?: number },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'history'>>>;
  /**
   * Trades newest first, whole-second `date` (contract, endpoint history/result). `since` skips the
   * newest trades; some servers read it as a trade id (field notes, since / lastId).
   */
  historyResult(
    query: { readonly market: string; readonly since: number; readonly limit?: number },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'historyResult'>>>;
  /** Price levels as the server ordered them: some send bids ascending (field notes, HTTP). */
  depth(
    query: { readonly market: string; readonly limit?: number },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'depth'>>>;
  /** Single orders of one side, best first (contract, Order book entry). */
  book(
    query: {
      readonly market: string;
      readonly side: Side;
      readonly offset?: number;
      readonly limit?: number;
    },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'book'>>>;
  /** What the account holds, by currency. Signed. */
  balances(options?: CallOptions): Promise<Reply<ResultOf<'balances'>>>;
  /**
   * Places a limit order; price in money, amount in stock, both decimal text. Signed, sent once and
   * never repeated. After a TimeoutError or NetworkError the order may exist: ask
   * {@link ExchangeApi.activeOrders} before trying again.
   */
  placeOrder(
    order: {
      readonly market: string;
      readonly price: string;
      readonly amount: string;
      readonly side: Side;
    },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'orderNew'>>>;
  /** The caller's active orders in one market. Signed. */
  activeOrders(
    query: { readonly market: string; readonly offset?: number; readonly limit?: number },
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'orders'>>>;

  /** Ends all requests under way with an AbortedError and closes the connections. Idempotent. */
  close(): Promise<void>;
}
