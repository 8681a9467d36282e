import { z } from 'zod';
import { isDecimalText, multiplyDecimals } from '../kernel/decimal.js';
import { isObject } from '../kernel/json.js';
import { bookOrder, market, ticker, tickerEntry } from './resources.js';
import type { Asked } from './shape.js';
import { wholeNumber } from './values.js';

/**
 * Forms that a reader accepts besides the contract's, because servers of the family send it and it can
 * mean one thing only. A server and the documents keep to the contract's schemas: nothing here is
 * theirs.
 */

/**
 * A trade with its total. Most servers leave it out of `history`: it is the product of price and
 * amount, exactly. A trade whose product cannot be computed stays as it came.
 */
export function withTotal(trade: unknown): unknown {
  if (!isObject(trade) || (trade.total !== undefined && trade.total !== null)) return trade;
  const { price, amount } = trade;
  if (typeof price !== 'string' || typeof amount !== 'string') return trade;
  if (!isDecimalText(price) || !isDecimalText(amount)) return trade;
  return { ...trade, total: multiplyDecimals(price, amount) };
}

/** A ticker with its market's name, taken from the question where the ticker has none. */
export function withName(ticker: unknown, { market }: Asked): unknown {
  const isNamed = !isObject(ticker) || (ticker.name !== undefined && ticker.name !== null);
  return isNamed || market === undefined ? ticker : { ...ticker, name: market };
}

/** An entry of the map of tickers, whose key is the name. */
export function withEntryName(entry: unknown, asked: Asked): unknown {
  if (!isObject(entry)) return entry;
  const ticker = withName(entry.ticker, asked);
  return ticker === entry.ticker ? entry : { ...entry, ticker };
}

const { open, deal, change } = ticker.shape;
const UNTOLD = {
  open: open.nullish().default(null),
  deal: deal.nullish().default(null),
  change: change.nullish().default(null),
};

/** A ticker that leaves figures out. They are null then, and never computed. */
export const tickerOfFewer = ticker.extend(UNTOLD);

/** Reads the map of tickers in the same way. */
export const tickerEntryOfFewer = tickerEntry.extend({
  ticker: tickerEntry.shape.ticker.extend(UNTOLD),
});

/** Digits after the point; below zero where only whole tens, hundreds and so on are traded. */
const anyPrecision = wholeNumber.pipe(z.number().min(-18).max(30));

/** A market of coins that are counted by the thousand, too. */
export const marketOfAnyPrecision = market.extend({
  stockPrec: anyPrecision,
  moneyPrec: anyPrecision,
  feePrec: anyPrecision,
});

/** An order of a book without fees. */
export const bookOrderWithoutFees = bookOrder.partial({ takerFee: true, makerFee: true });
