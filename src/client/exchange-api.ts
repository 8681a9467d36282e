import type { ResultOf } from '../contract/endpoints.js';
import type { Side } from '../contract/values.js';
import type { OrderRequest } from './errors.js';
import type { CallOptions, ExchangeClientOptions, Reply } from './exchange-client.js';
import { EndpointCaller } from './rest-client.js';

/** Which candles: both times are inclusive and UNIX seconds, and best multiples of `interval`. */
export interface KlineQuery {
  /** Name of a pair, `<STOCK>_<MONEY>`, at most 64 characters. */
  readonly market: string;
  /** First open time, UNIX seconds, 0 or later. */
  readonly start: number;
  /** Last open time, UNIX seconds. Ask for 1000 candles at most: some servers cap a reply. */
  readonly end: number;
  /** Candle length in seconds, default 60: such as 60, 900, 1800, 3600, 14400, 86400. */
  readonly interval?: number;
}

/** Which page of trades with exact times. */
export interface HistoryQuery {
  /** Name of a pair. */
  readonly market: string;
  /** Most recent trades to skip, 0 or more, default 0; some servers read it as a trade id. */
  readonly lastId?: number;
  /** Most trades to return, 1 to 1000, default 50. */
  readonly limit?: number;
}

/** Which page of trades with whole-second times. */
export interface HistoryResultQuery {
  /** Name of a pair. */
  readonly market: string;
  /** Most recent trades to skip, 0 or more; some servers read it as a trade id. */
  readonly since: number;
  /** Most trades to return, 1 to 1000, default 50. */
  readonly limit?: number;
}

/** How much of the price levels. */
export interface DepthQuery {
  /** Name of a pair. */
  readonly market: string;
  /** Most levels of each side, 1 to 1000, default 50. */
  readonly limit?: number;
}

/** Which orders of the public book. */
export interface BookQuery {
  /** Name of a pair. */
  readonly market: string;
  /** `buy` or `sell`. */
  readonly side: Side;
  /** Orders to skip from the best price on, 0 or more, default 0. */
  readonly offset?: number;
  /** Most orders to return, 1 to 1000, default 50. */
  readonly limit?: number;
}

/** Which of the caller's orders. */
export interface ActiveOrdersQuery {
  /** Name of a pair. */
  readonly market: string;
  /** Orders to skip, 0 or more, default 0. */
  readonly offset?: number;
  /** Most orders to return, 1 to 1000, default 50. */
  readonly limit?: number;
}

/**
 * The exchange over HTTP. Every method waits for the request budget, sends one request and returns
 * the checked answer, or throws a typed error whose `action` says what to do next. It repeats
 * nothing by itself, with one exception: a GET whose kept-alive connection turns out to be closed by
 * the server is sent once more.
 *
 * Times in parameters are UNIX seconds, as in the contract; prices and amounts are decimal text. A
 * row that does not fit the contract is not in a reply's `data` but in its `rejected`.
 *
 * What every method may throw, said once; each method names what it adds:
 *
 * | error | action | when |
 * |---|---|---|
 * | InvalidParameterError | skip | a parameter is outside the limits; nothing was sent |
 * | InvalidInputError, FieldErrorsError | skip | the exchange calls the input invalid (contract, Errors) |
 * | MarketUnavailableError | skip | it does not offer this market (now) |
 * | NotFoundError, RequestRefusedError | skip | no such path or data; refused for another reason |
 * | WrongDialectError | fatal | the answer has the form of another dialect |
 * | RateLimitedError | retry | HTTP 429; the shared budget waits already |
 * | ServerError, UnavailableError | retry | a status of the 500s, or failure under a good status |
 * | UnexpectedPageError | skip, else retry | a web page: under a status of the 400s our request could not be read, any other may pass |
 * | MalformedReplyError, ReplyTooLargeError | retry | not JSON, cut off, of another shape; above `maxBodyBytes` |
 * | TimeoutError, NetworkError | retry | no whole answer in time; the connection failed or broke |
 * | RedirectError | fatal | the base URL points elsewhere |
 * | BudgetOverrunError | retry | too many calls wait for the request budget |
 * | AbortedError, or the signal's reason | skip | {@link ExchangeApi.close} was called, or the caller's signal aborted |
 *
 * Signed calls (all private ones, and public ones with `form: 'post'`) also throw:
 *
 * | error | action | when |
 * |---|---|---|
 * | MissingCredentialsError | fatal | the client was made without credentials |
 * | AuthenticationError | fatal | key, secret, signature or nonce are wrong (contract, Authentication) |
 * | NonceError, NonceFileError | fatal | no nonce is left, or it cannot be kept; nothing was sent |
 * | NonceLockedError | retry | another program signs with the key and does not end; nothing was sent |
 */
export class ExchangeApi extends EndpointCaller {
  /**
   * All markets with their precisions (digits after the point) and minimal amounts of an order (in
   * base currency). Contract: Market (pair).
   *
   * @returns one entry a market, in the exchange's order
   */
  markets(options?: CallOptions): Promise<Reply<ResultOf<'markets'>>> {
    return this.call('markets', {}, options);
  }

  /**
   * All pairs with their two currencies. Contract: Product.
   *
   * @returns one entry a pair, in the exchange's order
   */
  products(options?: CallOptions): Promise<Reply<ResultOf<'products'>>> {
    return this.call('products', {}, options);
  }

  /**
   * 24-hour figures of one market. Contract: Ticker of one pair (endpoint ticker).
   *
   * @param market name of a pair, `<STOCK>_<MONEY>`, at most 64 characters
   * @returns prices in money, `volume` in stock, `deal` in money, `change` in percent
   * @throws MarketUnavailableError or InvalidInputError when there is no such market
   */
  ticker(market: string, options?: CallOptions): Promise<Reply<ResultOf<'ticker'>>> {
    return this.call('ticker', { market }, options);
  }

  /**
   * Candles of one market from `start` to `end`, both inclusive. Contract: Kline result.
   *
   * Minutes without trades may be missing or come with volume 0, and a candle's open may be the
   * close before it (field notes, kline). The newest candle may still grow.
   *
   * @returns the question as the exchange understood it, and the candles, oldest first: `time` in UNIX
   *   seconds, `volume` in stock, `amount` in money
   * @throws InvalidParameterError for an interval that candles do not come in
   * @throws MarketUnavailableError or InvalidInputError when there is no such market
   */
  kline(query: KlineQuery, options?: CallOptions): Promise<Reply<ResultOf<'kline'>>> {
    return this.call('kline', query, options);
  }

  /**
   * Trades of one market, newest first, with exact times. Contract: Trade, endpoint history.
   *
   * A page may be shorter than asked for, and some seconds old (field notes, HTTP).
   *
   * @returns trades: `time` in UNIX seconds with a fraction, `price` and `total` in money, `amount` in
   *   stock, `type` the taker's side
   * @throws MarketUnavailableError or InvalidInputError when there is no such market
   */
  history(query: HistoryQuery, options?: CallOptions): Promise<Reply<ResultOf<'history'>>> {
    return this.call('history', query, options);
  }

  /**
   * Trades of one market, newest first, with whole seconds. Contract: Trade, endpoint history/result.
   *
   * `since` skips the newest trades; some servers read it as a trade id (field notes, since /
   * lastId). `tid` here and `id` of {@link history} are one space.
   *
   * @returns trades: `date` in whole UNIX seconds, else as {@link history}
   * @throws MarketUnavailableError or InvalidInputError when there is no such market
   */
  historyResult(
    query: HistoryResultQuery,
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'historyResult'>>> {
    return this.call('historyResult', query, options);
  }

  /**
   * Price levels of one market. Contract: Depth.
   *
   * Levels come as the server ordered them: some send bids ascending, so sort before use (field
   * notes, HTTP).
   *
   * @returns `asks` and `bids`, each level `[price in money, amount in stock]`; good as a whole or not
   *   at all
   * @throws MarketUnavailableError, InvalidInputError or UnavailableError when there is no such market
   */
  depth(query: DepthQuery, options?: CallOptions): Promise<Reply<ResultOf<'depth'>>> {
    return this.call('depth', query, options);
  }

  /**
   * Single orders of one side of the public book, best price first. Contract: Order book entry.
   *
   * @returns offset, limit and total as the exchange counts them, and the orders: `timestamp` in UNIX
   *   seconds with a fraction, `amount`, `left` and `dealStock` in stock, `price` and `dealMoney` in
   *   money, fees as rates
   * @throws MarketUnavailableError or InvalidInputError when there is no such market
   */
  book(query: BookQuery, options?: CallOptions): Promise<Reply<ResultOf<'book'>>> {
    return this.call('book', query, options);
  }

  /**
   * Balances of the account. Signed. Contract: Balances.
   *
   * @returns by currency: `available`, and `freeze`, which is bound in active orders
   */
  balances(options?: CallOptions): Promise<Reply<ResultOf<'balances'>>> {
    return this.call('balances', {}, options);
  }

  /**
   * Places a limit order. Signed, sent once and never repeated. Contract: Order (created order), and
   * Errors for what refuses one.
   *
   * @param order `price` in money and `amount` in stock, both decimal text above zero; the amount at
   *   least the market's `minAmount`
   * @returns the order as it stands after immediate matching; `left` equal to 0 means that it is
   *   finished
   * @throws UnknownOutcomeError (action fatal) for everything that goes wrong once the order left and
   *   is no refusal: timeout, broken connection, a status of the 500s, a page, an unreadable answer,
   *   an abort. It may exist: look at {@link activeOrders} and {@link balances} before placing it anew
   * @throws OperationBlockedError when the exchange takes no orders for the pair now
   * @throws InvalidInputError when funds or the minimal amount are short, too
   * @throws TimeoutError or NetworkError only as long as no connection stood: nothing was sent
   */
  placeOrder(order: OrderRequest, options?: CallOptions): Promise<Reply<ResultOf<'orderNew'>>> {
    return this.call('orderNew', order, options);
  }

  /**
   * The caller's active orders in one market. Signed. Contract: Active order.
   *
   * @returns limit, offset and total as the exchange counts them, and the orders in `result`, with the
   *   units of {@link book}
   * @throws MarketUnavailableError or InvalidInputError when there is no such market
   */
  activeOrders(
    query: ActiveOrdersQuery,
    options?: CallOptions,
  ): Promise<Reply<ResultOf<'orders'>>> {
    return this.call('orders', query, options);
  }
}

/**
 * A client for one exchange, see {@link ExchangeApi}.
 *
 * @throws InvalidAddressError when `baseUrl` is not a plain http or https address
 */
export function createExchangeClient(options: ExchangeClientOptions): ExchangeApi {
  return new ExchangeApi(options);
}
