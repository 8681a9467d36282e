import { z } from 'zod';
import { KLINE_PAGE_MAX } from './limits.js';
import {
  intervalParam,
  marketParam,
  pageLimitParam,
  requiredSkipParam,
  sideParam,
  skipParam,
  unixTimeParam,
} from './params.js';
import type {
  ActiveOrder,
  Balance,
  BookOrder,
  Candle,
  CreatedOrder,
  Depth,
  HistoryTrade,
  Market,
  Product,
  ResultTrade,
  Ticker,
  TickerEntry,
} from './resource-types.js';
import {
  activeOrder,
  balance,
  bookHeader,
  bookOrder,
  candle,
  createdOrder,
  depth,
  historyTrade,
  klineHeader,
  market,
  product,
  resultTrade,
  ticker,
  tickerEntry,
} from './resources.js';
import { holderShape, listShape, mapShape, type ResultShape, wholeShape } from './shape.js';
import {
  bookOrderWithoutFees,
  marketOfAnyPrecision,
  tickerEntryOfFewer,
  tickerOfFewer,
  withEntryName,
  withName,
  withTotal,
} from './tolerance.js';
import { decimalText } from './values.js';

/** One row of the contract's endpoint tables. */
export interface Endpoint<P extends z.ZodObject = z.ZodObject, R = unknown> {
  /** Path relative to the base URL; the `request` field of a signed body equals it. */
  readonly path: string;
  /** Public endpoints have a GET form and a signed POST form; private ones only the latter. */
  readonly access: 'public' | 'private';
  /** True if the result comes inside `{code, success, message, result}` or bare. */
  readonly envelope: boolean;
  /** Purpose, in a few words. */
  readonly summary: string;
  /** True if the exchange may answer `operation blocked` (contract, Errors). */
  readonly isBlockable?: true;
  /** Its parameters with their limits; the client checks them before it sends anything. */
  readonly params: P;
  /** How its answer is read. */
  readonly result: ResultShape<R>;
}

function endpoint<P extends z.ZodObject, R>(row: Endpoint<P, R>): Endpoint<P, R> {
  return row;
}

const noParams = z.object({});

/**
 * The whole HTTP interface as data (contract, Endpoints). Client, server, documents and tests
 * derive from this table; nothing else knows a path or a parameter.
 */
export const endpoints = {
  markets: endpoint({
    path: '/api/v1/public/markets',
    access: 'public',
    envelope: true,
    summary: 'All markets with their precisions and minimal amounts',
    params: noParams,
    result: listShape<Market>(market, { schema: marketOfAnyPrecision }),
  }),
  products: endpoint({
    path: '/api/v1/public/products',
    access: 'public',
    envelope: true,
    summary: 'All pairs with their two currencies',
    params: noParams,
    result: listShape<Product>(product),
  }),
  tickers: endpoint({
    path: '/api/v1/public/tickers',
    access: 'public',
    envelope: true,
    summary: '24-hour figures of every market at once',
    params: noParams,
    result: mapShape<TickerEntry>(tickerEntry, {
      complete: withEntryName,
      schema: tickerEntryOfFewer,
    }),
  }),
  ticker: endpoint({
    path: '/api/v1/public/ticker',
    access: 'public',
    envelope: true,
    summary: '24-hour figures of one market',
    params: z.object({ market: marketParam }),
    result: wholeShape<Ticker>(ticker, { complete: withName, schema: tickerOfFewer }),
  }),
  kline: endpoint({
    path: '/api/v1/public/kline',
    access: 'public',
    envelope: true,
    summary: 'Candles of one market between two times, both inclusive',
    params: z.object({
      market: marketParam,
      start: unixTimeParam('Start, UNIX seconds; candles from here on'),
      end: unixTimeParam(
        `End, UNIX seconds, inclusive and not before start; ask for ${KLINE_PAGE_MAX} candles at most`,
      ),
      interval: intervalParam,
    }),
    result: holderShape<typeof klineHeader, 'kline', Candle>(klineHeader, 'kline', candle),
  }),
  history: endpoint({
    path: '/api/v1/public/history',
    access: 'public',
    envelope: true,
    summary: 'Trades, newest first, with fractional times',
    params: z.object({
      market: marketParam,
      lastId: skipParam('Number of most recent trades to skip'),
      limit: pageLimitParam,
    }),
    result: listShape<HistoryTrade>(historyTrade, { complete: withTotal }),
  }),
  historyResult: endpoint({
    path: '/api/v1/public/history/result',
    access: 'public',
    envelope: false,
    summary: 'Trades, newest first, with whole-second times',
    params: z.object({ market: marketParam, since: requiredSkipParam, limit: pageLimitParam }),
    result: listShape<ResultTrade>(resultTrade, { complete: withTotal }),
  }),
  depth: endpoint({
    path: '/api/v1/public/depth/result',
    access: 'public',
    envelope: false,
    summary: 'Price levels of the order book, best first',
    params: z.object({ market: marketParam, limit: pageLimitParam }),
    result: wholeShape<Depth>(depth),
  }),
  book: endpoint({
    path: '/api/v1/public/book',
    access: 'public',
    envelope: true,
    summary: 'Single orders of one side of the order book, best first',
    params: z.object({
      market: marketParam,
      side: sideParam,
      offset: skipParam('Number of orders to skip'),
      limit: pageLimitParam,
    }),
    result: holderShape<typeof bookHeader, 'orders', BookOrder>(bookHeader, 'orders', bookOrder, {
      schema: bookOrderWithoutFees,
    }),
  }),
  balances: endpoint({
    path: '/api/v1/account/balances',
    access: 'private',
    envelope: true,
    summary: 'What the account holds, by currency',
    params: noParams,
    result: mapShape<Balance>(balance),
  }),
  orderNew: endpoint({
    path: '/api/v1/order/new',
    access: 'private',
    envelope: true,
    summary: 'Places a limit order',
    isBlockable: true,
    params: z.object({
      market: marketParam,
      price: decimalText.describe('Limit price in the quote currency'),
      amount: decimalText.describe('Amount in the base currency'),
      side: sideParam.describe('buy or sell'),
    }),
    result: wholeShape<CreatedOrder>(createdOrder, { repeats: ['market', 'side'] }),
  }),
  orders: endpoint({
    path: '/api/v1/orders',
    access: 'private',
    envelope: true,
    summary: "The caller's active orders in one market",
    params: z.object({
      market: marketParam,
      offset: skipParam('Number of orders to skip'),
      limit: pageLimitParam.describe('Most orders to return'),
    }),
    result: holderShape<typeof bookHeader, 'result', ActiveOrder>(
      bookHeader,
      'result',
      activeOrder,
      { repeats: ['market'] },
    ),
  }),
} as const;

/** The type of {@link endpoints}: a row for each endpoint of the contract, by its name. */
export type Endpoints = typeof endpoints;
/** Name of an endpoint, such as `depth` or `orderNew`. */
export type EndpointName = keyof Endpoints;
/** Parameters that a caller passes: defaults may be left out. */
export type ParamsOf<N extends EndpointName> = z.input<Endpoints[N]['params']>;
/** Parameters that a server works with: defaults filled in. */
export type FilledParamsOf<N extends EndpointName> = z.output<Endpoints[N]['params']>;
/** Result of an endpoint, once read and checked. */
export type ResultOf<N extends EndpointName> =
  Endpoints[N]['result'] extends ResultShape<infer R> ? R : never;

export const endpointNames = Object.keys(endpoints) as EndpointName[];
