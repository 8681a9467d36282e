import { z } from 'zod';
import {
  decimalText,
  idNumber,
  nameText,
  nonNegativeDecimal,
  positiveDecimal,
  sideText,
  unixSeconds,
  wholeNumber,
  wholeUnixSeconds,
} from './values.js';

export type * from './resource-types.js';

/**
 * The contract's resources (section "Resources and their fields") as zod schemas. Fields keep the
 * wire's names. Unknown fields are tolerated and dropped; missing or malformed ones fail. Ids and
 * descriptions are what the generated documents call and say of them. The types that they give are
 * described in resource-types.ts.
 */

const precision = wholeNumber.pipe(z.number().min(0).max(30));
const pairName = nameText.describe('Name of the pair, stock before money');
const stockTicker = nameText.describe('Ticker of the base currency');
const moneyTicker = nameText.describe('Ticker of the quote currency');

/** A market (pair). Precisions are digits after the point; `minAmount` is in the base currency. */
export const market = z
  .object({
    name: pairName,
    stock: stockTicker,
    money: moneyTicker,
    stockPrec: precision.describe('Digits after the point of the base currency'),
    moneyPrec: precision.describe('Digits after the point of the quote currency'),
    feePrec: precision.describe('Digits after the point of a fee'),
    minAmount: nonNegativeDecimal.describe('Smallest amount of an order, in the base currency'),
  })
  .meta({ id: 'Market', description: 'A market (pair)' });

export const product = z
  .object({ id: pairName, fromSymbol: stockTicker, toSymbol: moneyTicker })
  .meta({ id: 'Product', description: 'A pair with its two currencies' });

const volume = nonNegativeDecimal.describe('Volume in the base currency');
const deal = nonNegativeDecimal.describe('Volume in the quote currency');
const change = decimalText.describe('Change from open to last, in percent');

/** Ticker of one pair (endpoint `ticker`): prices in the quote currency, `change` in percent over 24 hours. */
export const ticker = z
  .object({
    name: pairName,
    bid: nonNegativeDecimal.describe('Highest bid'),
    ask: nonNegativeDecimal.describe('Lowest ask'),
    open: nonNegativeDecimal.describe('Price 24 hours ago'),
    high: nonNegativeDecimal.describe('Highest price of the last 24 hours'),
    low: nonNegativeDecimal.describe('Lowest price of the last 24 hours'),
    last: nonNegativeDecimal.describe('Price of the last deal'),
    volume,
    deal,
    change,
  })
  .meta({ id: 'Ticker', description: '24-hour figures of one market' });

/** One value of the `tickers` map: `at` is the exchange's time in seconds; volume is named `vol`. */
export const tickerEntry = z
  .object({
    at: unixSeconds.describe("The exchange's time, UNIX seconds"),
    ticker: ticker.omit({ volume: true }).extend({ vol: volume }),
  })
  .meta({ id: 'TickerEntry', description: 'One market in the map of all tickers' });

/** A candle: `time` is its open time in seconds, `volume` in base, `amount` in quote. */
export const candle = z
  .object({
    time: wholeUnixSeconds.describe('Start of the candle, UNIX seconds'),
    open: nonNegativeDecimal.describe('Opening price'),
    close: nonNegativeDecimal.describe('Closing price'),
    highest: nonNegativeDecimal.describe('Highest price'),
    lowest: nonNegativeDecimal.describe('Lowest price'),
    volume,
    amount: deal,
    market: pairName,
  })
  .meta({ id: 'Candle', description: 'A candle of one market' });

export const klineHeader = z.object({
  market: pairName,
  start: wholeUnixSeconds.describe('Start as asked for, UNIX seconds'),
  end: wholeUnixSeconds.describe('End as asked for, UNIX seconds'),
  interval: wholeNumber.describe('Candle length, seconds'),
});

const tradeFields = {
  price: positiveDecimal.describe('Price in the quote currency'),
  type: sideText.describe('Side of the taker'),
  amount: positiveDecimal.describe('Amount in the base currency'),
  total: nonNegativeDecimal.describe('Amount in the quote currency'),
};
const tradeId = idNumber.describe('Id of the trade, growing with time');

/** A trade of endpoint `history`: `time` has a fractional part; `type` is the taker's side. */
export const historyTrade = z
  .object({
    id: tradeId,
    time: unixSeconds.describe('Time of execution, UNIX seconds with a fractional part'),
    ...tradeFields,
  })
  .meta({ id: 'HistoryTrade', description: 'A trade with its exact time' });

/** A trade of endpoint `history/result`: `date` is the whole second of the execution. */
export const resultTrade = z
  .object({
    tid: tradeId,
    date: wholeUnixSeconds.describe('Time of execution, whole UNIX seconds'),
    ...tradeFields,
  })
  .meta({ id: 'ResultTrade', description: 'A trade with the whole second of its execution' });

const depthLevel = z
  .tuple([
    positiveDecimal.describe('Price in the quote currency'),
    positiveDecimal.describe('Amount in the base currency'),
  ])
  .meta({ id: 'DepthLevel', description: 'Price, then amount' });

/** Price levels `[price, amount]`. Some servers send bids ascending: sort before use. */
export const depth = z
  .object({
    asks: z.array(depthLevel).describe('Sell side, lowest price first'),
    bids: z.array(depthLevel).describe('Buy side, highest price first'),
  })
  .meta({ id: 'Depth', description: 'The order book by price levels' });

const orderProgress = {
  market: pairName,
  price: nonNegativeDecimal.describe('Price in the quote currency'),
  amount: nonNegativeDecimal.describe('Amount in the base currency'),
  left: nonNegativeDecimal.describe('Amount not executed yet; 0 when the order is finished'),
  side: sideText.describe('Side of the order'),
  timestamp: unixSeconds.describe('Time of creation, UNIX seconds with a fractional part'),
  takerFee: nonNegativeDecimal.describe('Fee rate as taker'),
  makerFee: nonNegativeDecimal.describe('Fee rate as maker'),
  dealStock: nonNegativeDecimal.describe('Executed amount in the base currency'),
  dealMoney: nonNegativeDecimal.describe('Executed amount in the quote currency'),
};
const orderId = idNumber.describe('Id of the order');
const orderType = nameText.describe('Type of the order, such as limit');

/** A resting order in the public book. */
export const bookOrder = z
  .object({ id: orderId, type: orderType, ...orderProgress })
  .meta({ id: 'BookOrder', description: 'An order that rests in the public book' });

export const bookHeader = z.object({
  offset: wholeNumber.describe('Orders skipped'),
  limit: wholeNumber.describe('Most orders in this page'),
  total: wholeNumber.describe('Orders in all'),
});

/** The order that `order/new` created; `left` equal to 0 means a finished order. */
export const createdOrder = z
  .object({ orderId, type: orderType, ...orderProgress })
  .meta({ id: 'CreatedOrder', description: 'The order after immediate matching' });

/** An order of the caller that is still active. */
export const activeOrder = z
  .object({ id: orderId, type: orderType, ...orderProgress })
  .meta({ id: 'ActiveOrder', description: "An active order of the caller's" });

/** Balance of an account in one currency: `freeze` is bound in active orders. */
export const balance = z
  .object({
    available: nonNegativeDecimal.describe('Amount that is free'),
    freeze: nonNegativeDecimal.describe('Amount bound in active orders'),
  })
  .meta({ id: 'Balance', description: 'What an account holds of one currency' });

/** A market status record of the real-time interface; updates carry no `change`. */
export const stateRecord = z
  .object({
    period: wholeNumber.pipe(z.number().min(1)).describe('Length of the window, seconds'),
    last: nonNegativeDecimal.describe('Price of the last deal'),
    open: nonNegativeDecimal.describe('First price of the window'),
    close: nonNegativeDecimal.describe('Last price of the window'),
    high: nonNegativeDecimal.describe('Highest price of the window'),
    low: nonNegativeDecimal.describe('Lowest price of the window'),
    deal,
    volume,
    change: change.nullish(),
  })
  .meta({ id: 'MarketStatus', description: 'The status of one market over a period' });
