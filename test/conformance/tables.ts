import type { EndpointName } from '../../src/contract/endpoints.js';

/**
 * The contract's tables written out by hand. Client and server share one set of schemas, so an
 * error there would be shared too: what is judged here does not come from them.
 */

/** How a value is carried: the JSON type of the tables, and what its text or number must be. */
export type Carried =
  /** STRING: a name, never empty. */
  | 'STRING'
  /** STRING: `buy` or `sell`. */
  | 'SIDE'
  /** STRING: a decimal of at least zero. */
  | 'DECIMAL'
  /** STRING: a decimal above zero. */
  | 'POSITIVE'
  /** STRING: a decimal of any sign. */
  | 'SIGNED'
  /** NUMERIC: at least zero, fractions allowed. */
  | 'NUMERIC'
  /** NUMERIC: whole, at least zero. */
  | 'WHOLE'
  /** NUMERIC: whole, above zero. */
  | 'ID';

export type Fields = Readonly<Record<string, Carried>>;

/** What a payload is made of. */
export type Payload =
  | { readonly kind: 'fields'; readonly fields: Readonly<Record<string, Payload | Carried>> }
  | { readonly kind: 'rows'; readonly of: Payload }
  | { readonly kind: 'byName'; readonly of: Payload }
  | { readonly kind: 'tuple'; readonly of: readonly Carried[] };

/** Everything that all orders tell, except their id (contract: order book, order/new, orders). */
const orderFields = {
  market: 'STRING',
  price: 'DECIMAL',
  amount: 'DECIMAL',
  left: 'DECIMAL',
  type: 'STRING',
  side: 'SIDE',
  timestamp: 'NUMERIC',
  takerFee: 'DECIMAL',
  makerFee: 'DECIMAL',
  dealStock: 'DECIMAL',
  dealMoney: 'DECIMAL',
} as const satisfies Fields;

/** The 24-hour figures that both ticker endpoints tell; the volume has two names. */
const tickerFields = {
  name: 'STRING',
  bid: 'DECIMAL',
  ask: 'DECIMAL',
  open: 'DECIMAL',
  high: 'DECIMAL',
  low: 'DECIMAL',
  last: 'DECIMAL',
  deal: 'DECIMAL',
  change: 'SIGNED',
} as const satisfies Fields;

const tradeFields = {
  price: 'POSITIVE',
  type: 'SIDE',
  amount: 'POSITIVE',
  total: 'DECIMAL',
} as const satisfies Fields;

/** Resources and their fields, by the contract's headings. */
export const RESOURCES = {
  market: {
    name: 'STRING',
    stock: 'STRING',
    money: 'STRING',
    stockPrec: 'WHOLE',
    moneyPrec: 'WHOLE',
    feePrec: 'WHOLE',
    // NUMERIC in the table, carried as a decimal string.
    minAmount: 'DECIMAL',
  },
  product: { id: 'STRING', fromSymbol: 'STRING', toSymbol: 'STRING' },
  ticker: { ...tickerFields, volume: 'DECIMAL' },
  // NUMERIC in the table, carried as decimal strings.
  'ticker of an entry': { ...tickerFields, vol: 'DECIMAL' },
  'kline header': { market: 'STRING', start: 'WHOLE', end: 'WHOLE', interval: 'WHOLE' },
  candle: {
    time: 'WHOLE',
    open: 'DECIMAL',
    close: 'DECIMAL',
    highest: 'DECIMAL',
    lowest: 'DECIMAL',
    volume: 'DECIMAL',
    amount: 'DECIMAL',
    market: 'STRING',
  },
  'trade of history': { id: 'ID', time: 'NUMERIC', ...tradeFields },
  'trade of history/result': { tid: 'ID', date: 'WHOLE', ...tradeFields },
  'header of a list of orders': { offset: 'WHOLE', limit: 'WHOLE', total: 'WHOLE' },
  'order of the book': { id: 'ID', ...orderFields },
  'created order': { orderId: 'ID', ...orderFields },
  // The id is STRING in the table, carried as a number.
  'active order': { id: 'ID', ...orderFields },
  balance: { available: 'DECIMAL', freeze: 'DECIMAL' },
  'state record': {
    period: 'WHOLE',
    last: 'DECIMAL',
    open: 'DECIMAL',
    close: 'DECIMAL',
    high: 'DECIMAL',
    low: 'DECIMAL',
    deal: 'DECIMAL',
    volume: 'DECIMAL',
    change: 'SIGNED',
  },
} as const satisfies Readonly<Record<string, Fields>>;

const fields = (own: Readonly<Record<string, Payload | Carried>>): Payload => {
  return { kind: 'fields', fields: own };
};
const rows = (own: Fields): Payload => ({ kind: 'rows', of: fields(own) });
const levels: Payload = { kind: 'rows', of: { kind: 'tuple', of: ['POSITIVE', 'POSITIVE'] } };
const header = RESOURCES['header of a list of orders'];

/** The success payload of each endpoint (contract, Endpoints). */
export const PAYLOADS: Readonly<Record<EndpointName, Payload>> = {
  markets: rows(RESOURCES.market),
  products: rows(RESOURCES.product),
  tickers: {
    kind: 'byName',
    of: fields({ at: 'NUMERIC', ticker: fields(RESOURCES['ticker of an entry']) }),
  },
  ticker: fields(RESOURCES.ticker),
  kline: fields({ ...RESOURCES['kline header'], kline: rows(RESOURCES.candle) }),
  history: rows(RESOURCES['trade of history']),
  historyResult: rows(RESOURCES['trade of history/result']),
  depth: fields({ asks: levels, bids: levels }),
  book: fields({ ...header, orders: rows(RESOURCES['order of the book']) }),
  balances: { kind: 'byName', of: fields(RESOURCES.balance) },
  orderNew: fields(RESOURCES['created order']),
  orders: fields({ ...header, result: rows(RESOURCES['active order']) }),
};

/** The two endpoints whose payload comes without the envelope. */
export const BARE: readonly EndpointName[] = ['historyResult', 'depth'];

/** Paths (contract, Endpoints). */
export const PATHS: Readonly<Record<EndpointName, string>> = {
  markets: '/api/v1/public/markets',
  products: '/api/v1/public/products',
  tickers: '/api/v1/public/tickers',
  ticker: '/api/v1/public/ticker',
  kline: '/api/v1/public/kline',
  history: '/api/v1/public/history',
  historyResult: '/api/v1/public/history/result',
  depth: '/api/v1/public/depth/result',
  book: '/api/v1/public/book',
  balances: '/api/v1/account/balances',
  orderNew: '/api/v1/order/new',
  orders: '/api/v1/orders',
};

/** Headers of a signed request (contract, Authentication), in lower case. */
export const SIGNED_HEADERS = ['x-txc-apikey', 'x-txc-payload', 'x-txc-signature'] as const;

/** What the client makes of each text of the contract's error table. */
export const ERROR_CODES = {
  'invalid input': 'invalid_input',
  'authentication failure': 'authentication_failed',
  'operation blocked': 'operation_blocked',
} as const;
