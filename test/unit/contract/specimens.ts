import type { z } from 'zod';
import * as resources from '../../../src/contract/resources.js';

/** How each field of a resource is carried. */
export type Kind =
  | 'name'
  | 'side'
  | 'decimal'
  | 'positive'
  | 'signed'
  | 'id'
  | 'count'
  | 'precision'
  | 'period'
  | 'second'
  | 'time';

type Kinds = Readonly<Record<string, Kind>>;

interface Specimen {
  readonly schema: z.ZodType;
  readonly example: Readonly<Record<string, unknown>>;
  readonly kinds: Kinds;
  readonly optional?: readonly string[];
}

const tickerNumbers = {
  bid: '61837.62',
  ask: '61837.63',
  open: '61100',
  high: '62000.5',
  low: '60999.99',
  last: '61837.63000000',
  deal: '73912345.1234',
  change: '-1.13',
};
const tickerKinds: Kinds = {
  ...{ bid: 'decimal', ask: 'decimal', open: 'decimal', high: 'decimal', low: 'decimal' },
  ...{ last: 'decimal', deal: 'decimal', change: 'signed' },
};

const orderNumbers = {
  market: 'BTC_USDT',
  price: '61837.63',
  amount: '0.5',
  left: '0',
  type: 'limit',
  side: 'sell',
  timestamp: 1704070810.123456,
  takerFee: '0.002',
  makerFee: '0.001',
  dealStock: '0.5',
  dealMoney: '30918.815',
};
const orderKinds: Kinds = {
  ...{ market: 'name', type: 'name', side: 'side', timestamp: 'time' },
  ...{ price: 'decimal', amount: 'decimal', left: 'decimal', takerFee: 'decimal' },
  ...{ makerFee: 'decimal', dealStock: 'decimal', dealMoney: 'decimal' },
};

const trade = { price: '61837.63', type: 'buy', amount: '0.00012', total: '7.4205156' };
const tradeKinds: Kinds = {
  ...{ price: 'positive', type: 'side', amount: 'positive', total: 'decimal' },
};

/** One good example of each resource with independent fields. */
export const specimens: Readonly<Record<string, Specimen>> = {
  market: {
    schema: resources.market,
    example: {
      ...{ name: 'BTC_USDT', stock: 'BTC', money: 'USDT' },
      ...{ stockPrec: 8, moneyPrec: 2, feePrec: 4, minAmount: '0.0001' },
    },
    kinds: {
      ...{ name: 'name', stock: 'name', money: 'name', minAmount: 'decimal' },
      ...{ stockPrec: 'precision', moneyPrec: 'precision', feePrec: 'precision' },
    },
  },
  product: {
    schema: resources.product,
    example: { id: 'BTC_USDT', fromSymbol: 'BTC', toSymbol: 'USDT' },
    kinds: { id: 'name', fromSymbol: 'name', toSymbol: 'name' },
  },
  ticker: {
    schema: resources.ticker,
    example: { name: 'BTC_USDT', ...tickerNumbers, volume: '1195.2' },
    kinds: { name: 'name', ...tickerKinds, volume: 'decimal' },
  },
  'ticker of an entry': {
    schema: resources.tickerEntry.shape.ticker,
    example: { name: 'BTC_USDT', ...tickerNumbers, vol: '1195.2' },
    kinds: { name: 'name', ...tickerKinds, vol: 'decimal' },
  },
  candle: {
    schema: resources.candle,
    example: {
      ...{ time: 1704067200, open: '61100', close: '61837.63', highest: '62000.5' },
      ...{ lowest: '60999.99', volume: '0', amount: '0', market: 'BTC_USDT' },
    },
    kinds: {
      ...{ time: 'second', open: 'decimal', close: 'decimal', highest: 'decimal' },
      ...{ lowest: 'decimal', volume: 'decimal', amount: 'decimal', market: 'name' },
    },
  },
  'kline header': {
    schema: resources.klineHeader,
    example: { market: 'BTC_USDT', start: 1704067200, end: 1704070800, interval: 60 },
    kinds: { market: 'name', start: 'second', end: 'second', interval: 'count' },
  },
  'trade of history': {
    schema: resources.historyTrade,
    example: { id: 2_800_000_123, time: 1704070810.123456, ...trade },
    kinds: { id: 'id', time: 'time', ...tradeKinds },
  },
  'trade of history/result': {
    schema: resources.resultTrade,
    example: { tid: 2_800_000_123, date: 1704070810, ...trade },
    kinds: { tid: 'id', date: 'second', ...tradeKinds },
  },
  'order of the book': {
    schema: resources.bookOrder,
    example: { id: 9001, ...orderNumbers },
    kinds: { id: 'id', ...orderKinds },
  },
  'created order': {
    schema: resources.createdOrder,
    example: { orderId: 9001, ...orderNumbers },
    kinds: { orderId: 'id', ...orderKinds },
  },
  'active order': {
    schema: resources.activeOrder,
    example: { id: 9001, ...orderNumbers },
    kinds: { id: 'id', ...orderKinds },
  },
  'header of a list of orders': {
    schema: resources.bookHeader,
    example: { offset: 0, limit: 50, total: 1234 },
    kinds: { offset: 'count', limit: 'count', total: 'count' },
  },
  balance: {
    schema: resources.balance,
    example: { available: '12.5', freeze: '0' },
    kinds: { available: 'decimal', freeze: 'decimal' },
  },
  'state record': {
    schema: resources.stateRecord,
    example: {
      ...{ period: 86_400, last: '61837.63', open: '61100', close: '61837.63', high: '62000.5' },
      ...{ low: '60999.99', deal: '73912345.1', volume: '1195.2', change: '1.13' },
    },
    kinds: {
      ...{ period: 'period', last: 'decimal', open: 'decimal', close: 'decimal', high: 'decimal' },
      ...{ low: 'decimal', deal: 'decimal', volume: 'decimal', change: 'signed' },
    },
    optional: ['change'],
  },
};
