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

/**
 * The contract's resources (section "Resources and their fields") as zod schemas. Fields keep the
 * wire's names. Unknown fields are tolerated and dropped; missing or malformed ones fail.
 */

const precision = wholeNumber.pipe(z.number().min(0).max(30));

/** A market (pair). Precisions are digits after the point; `minAmount` is in the stock currency. */
export const market = z.object({
  name: nameText,
  stock: nameText,
  money: nameText,
  stockPrec: precision,
  moneyPrec: precision,
  feePrec: precision,
  minAmount: nonNegativeDecimal,
});
export type Market = z.infer<typeof market>;

export const product = z.object({ id: nameText, fromSymbol: nameText, toSymbol: nameText });
export type Product = z.infer<typeof product>;

/** Ticker of one pair (endpoint `ticker`): prices in money, `change` in percent over 24 hours. */
export const ticker = z.object({
  name: nameText,
  bid: nonNegativeDecimal,
  ask: nonNegativeDecimal,
  open: nonNegativeDecimal,
  high: nonNegativeDecimal,
  low: nonNegativeDecimal,
  last: nonNegativeDecimal,
  volume: nonNegativeDecimal,
  deal: nonNegativeDecimal,
  change: decimalText,
});
export type Ticker = z.infer<typeof ticker>;

/** One value of the `tickers` map: `at` is the exchange's time in seconds; volume is named `vol`. */
export const tickerEntry = z.object({
  at: unixSeconds,
  ticker: ticker.omit({ volume: true }).extend({ vol: nonNegativeDecimal }),
});
export type TickerEntry = z.infer<typeof tickerEntry>;

/** A candle: `time` is its open time in seconds, `volume` in stock, `amount` in money. */
export const candle = z.object({
  time: wholeUnixSeconds,
  open: nonNegativeDecimal,
  close: nonNegativeDecimal,
  highest: nonNegativeDecimal,
  lowest: nonNegativeDecimal,
  volume: nonNegativeDecimal,
  amount: nonNegativeDecimal,
  market: nameText,
});
export type Candle = z.infer<typeof candle>;

export const klineHeader = z.object({
  market: nameText,
  start: wholeUnixSeconds,
  end: wholeUnixSeconds,
  interval: wholeNumber,
});

const tradeFields = {
  price: positiveDecimal,
  type: sideText,
  amount: positiveDecimal,
  total: nonNegativeDecimal,
};

/** A trade of endpoint `history`: `time` has a fractional part; `type` is the taker's side. */
export const historyTrade = z.object({ id: idNumber, time: unixSeconds, ...tradeFields });
export type HistoryTrade = z.infer<typeof historyTrade>;

/** A trade of endpoint `history/result`: `date` is the whole second of the execution. */
export const resultTrade = z.object({ tid: idNumber, date: wholeUnixSeconds, ...tradeFields });
export type ResultTrade = z.infer<typeof resultTrade>;

const depthLevel = z.tuple([positiveDecimal, positiveDecimal]);

/** Price levels `[price, amount]`. Some servers send bids ascending: sort before use. */
export const depth = z.object({ asks: z.array(depthLevel), bids: z.array(depthLevel) });
export type Depth = z.infer<typeof depth>;

const orderProgress = {
  market: nameText,
  price: nonNegativeDecimal,
  amount: nonNegativeDecimal,
  left: nonNegativeDecimal,
  side: sideText,
  timestamp: unixSeconds,
  takerFee: nonNegativeDecimal,
  makerFee: nonNegativeDecimal,
  dealStock: nonNegativeDecimal,
  dealMoney: nonNegativeDecimal,
};

/** A resting order in the public book. */
export const bookOrder = z.object({ id: idNumber, type: nameText, ...orderProgress });
export type BookOrder = z.infer<typeof bookOrder>;

export const bookHeader = z.object({ offset: wholeNumber, limit: wholeNumber, total: wholeNumber });

/** The order that `order/new` created; `left` equal to 0 marks a finished order. */
export const createdOrder = z.object({ orderId: idNumber, type: nameText, ...orderProgress });
export type CreatedOrder = z.infer<typeof createdOrder>;

/** An order of the caller that is still active. */
export const activeOrder = z.object({ id: idNumber, type: nameText, ...orderProgress });
export type ActiveOrder = z.infer<typeof activeOrder>;

/** What an account holds of one currency: `freeze` is bound in active orders. */
export const balance = z.object({ available: nonNegativeDecimal, freeze: nonNegativeDecimal });
export type Balance = z.infer<typeof balance>;

/** A market status record of the real-time interface; updates carry no `change`. */
export const stateRecord = z.object({
  period: wholeNumber.pipe(z.number().min(1)),
  last: nonNegativeDecimal,
  open: nonNegativeDecimal,
  close: nonNegativeDecimal,
  high: nonNegativeDecimal,
  low: nonNegativeDecimal,
  deal: nonNegativeDecimal,
  volume: nonNegativeDecimal,
  change: decimalText.nullish(),
});
export type StateRecord = z.infer<typeof stateRecord>;
