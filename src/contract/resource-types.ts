/**
 * The contract's resources (section "Resources and their fields") as types for people: what the schemas
 * of resources.ts give, with the meaning of each field where an editor shows it. The schemas are what is
 * checked; that both say the same is tested by the compiler.
 *
 * Decimals are text, because a floating-point number would round them; times are UNIX seconds, numbers.
 */

/** Side of an order, or of the taker of a trade. */
export type Side = 'buy' | 'sell';

/** A market, which is a pair of currencies (endpoint `markets`). */
export type Market = {
  /** Name of the pair, base before quote, such as `BTC_USDT`. */
  name: string;
  /** Ticker of the base currency, which is bought and sold. */
  stock: string;
  /** Ticker of the quote currency, which prices are in. */
  money: string;
  /**
   * Digits after the point of amounts in the base currency; below zero where only whole tens, hundreds
   * and so on are traded.
   */
  stockPrec: number;
  /** Digits after the point of amounts and prices in the quote currency. */
  moneyPrec: number;
  /** Digits after the point of a fee. */
  feePrec: number;
  /** Smallest amount of an order, decimal text, in the base currency. */
  minAmount: string;
};

/** A pair with its two currencies (endpoint `products`). */
export type Product = {
  /** Name of the pair, base before quote. */
  id: string;
  /** Ticker of the base currency. */
  fromSymbol: string;
  /** Ticker of the quote currency. */
  toSymbol: string;
};

/** Figures of the last 24 hours of one market (endpoint `ticker`). Decimals are text. */
export type Ticker = {
  /** Name of the pair. */
  name: string;
  /** Highest bid, in the quote currency. */
  bid: string;
  /** Lowest ask, in the quote currency. */
  ask: string;
  /** Price 24 hours ago; null where the exchange does not tell it. */
  open: string | null;
  /** Highest price of the last 24 hours. */
  high: string;
  /** Lowest price of the last 24 hours. */
  low: string;
  /** Price of the last trade. */
  last: string;
  /** Volume of 24 hours in the base currency. */
  volume: string;
  /** Volume of 24 hours in the quote currency; null where the exchange does not tell it. */
  deal: string | null;
  /** Change from `open` to `last`, in percent; null where the exchange does not tell it. */
  change: string | null;
};

/** One value of the map that endpoint `tickers` answers with, keyed by the market's name. */
export type TickerEntry = {
  /** The exchange's time of the figures, UNIX seconds, with or without a fraction. */
  at: number;
  /** As {@link Ticker}, with the volume in the base currency named `vol`. */
  ticker: Omit<Ticker, 'volume'> & {
    /** Volume of 24 hours in the base currency. */
    vol: string;
  };
};

/** A candle of one market (endpoint `kline`). Prices are in the quote currency; decimals are text. */
export type Candle = {
  /** When the candle opens, whole UNIX seconds. */
  time: number;
  /** Opening price. */
  open: string;
  /** Closing price. */
  close: string;
  /** Highest price. */
  highest: string;
  /** Lowest price. */
  lowest: string;
  /** Volume in the base currency. */
  volume: string;
  /** Volume in the quote currency, whatever its name. */
  amount: string;
  /** Name of the pair. */
  market: string;
};

/** Fields of a trade in both endpoints. */
export type TradeFields = {
  /** Price in the quote currency, decimal text. */
  price: string;
  /** Side of the taker. */
  type: Side;
  /** Amount in the base currency, decimal text. */
  amount: string;
  /** Amount in the quote currency, decimal text. */
  total: string;
};

/** A trade with its exact time (endpoint `history`). */
export type HistoryTrade = TradeFields & {
  /** Id of the trade, growing with time. */
  id: number;
  /** Time of execution, UNIX seconds with a fractional part. */
  time: number;
};

/** A trade with the whole second of its execution (endpoint `history/result`). */
export type ResultTrade = TradeFields & {
  /** Id of the trade, growing with time. */
  tid: number;
  /** Time of execution, whole UNIX seconds. */
  date: number;
};

/**
 * The order book by price levels (endpoint `depth/result`): each is `[price, amount]`, decimal text, the
 * price in the quote and the amount in the base currency. Some servers send bids ascending: sort them
 * before use.
 */
export type Depth = {
  /** Sell side, lowest price first. */
  asks: [price: string, amount: string][];
  /** Buy side, highest price first. */
  bids: [price: string, amount: string][];
};

/** Progress of an order, in all endpoints for orders. */
export type OrderProgress = {
  /** Type of the order, such as `limit`. */
  type: string;
  /** Name of the pair. */
  market: string;
  /** Limit price in the quote currency, decimal text. */
  price: string;
  /** Amount in the base currency, decimal text. */
  amount: string;
  /** Amount not executed yet, in the base currency; `0` when the order is finished. */
  left: string;
  /** Side of the order. */
  side: Side;
  /** Time of creation, UNIX seconds with a fractional part. */
  timestamp: number;
  /** Fee rate as taker, decimal text: 0.001 is a tenth of a percent. */
  takerFee: string;
  /** Fee rate as maker, decimal text. */
  makerFee: string;
  /** Executed amount in the base currency, decimal text. */
  dealStock: string;
  /** Executed amount in the quote currency, decimal text. */
  dealMoney: string;
};

/** An order that rests in the public book (endpoint `book`). */
export type BookOrder = Omit<OrderProgress, 'takerFee' | 'makerFee'> & {
  /** Id of the order. */
  id: number;
  /** Fee rate as taker, decimal text; some exchanges keep it to themselves. */
  takerFee?: string | undefined;
  /** Fee rate as maker, decimal text; some exchanges keep it to themselves. */
  makerFee?: string | undefined;
};

/** The order that `order/new` created, as it stands after immediate matching. */
export type CreatedOrder = OrderProgress & {
  /** Id of the order. */
  orderId: number;
};

/** An active order of the caller's (endpoint `orders`). */
export type ActiveOrder = OrderProgress & {
  /** Id of the order. */
  id: number;
};

/** Balance of an account in one currency (endpoint `balances`). Decimals are text. */
export type Balance = {
  /** Amount that is free. */
  available: string;
  /** Amount bound in active orders. */
  freeze: string;
};

/** The status of one market over a period, from the real-time interface. Decimals are text. */
export type StateRecord = {
  /** Length of the period, seconds. */
  period: number;
  /** Price of the last trade. */
  last: string;
  /** First price of the period. */
  open: string;
  /** Last price of the period. */
  close: string;
  /** Highest price of the period. */
  high: string;
  /** Lowest price of the period. */
  low: string;
  /** Volume in the quote currency. */
  deal: string;
  /** Volume in the base currency. */
  volume: string;
  /** Change from `open` to `last`, in percent; updates carry none. */
  change?: string | null | undefined;
};
