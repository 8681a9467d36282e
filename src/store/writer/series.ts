import type {
  DepthRow,
  KlineRow,
  Series,
  StateRow,
  TickerRow,
  TradeRow,
} from '../../ledger/batch.js';
import { timestampTextMs, timestampTextUs } from '../instants.js';

/** How the rows of one table cross into SQL. Column order is that of COPY. */
export interface SeriesShape<Row> {
  readonly table: Series;
  readonly columns: readonly string[];
  /** The primary key; the last but `seq` and `tid` is the time. */
  readonly key: readonly string[];
  readonly timeColumn: string;
  /** What two rows of one key must have in common to be the same row. Compared by value. */
  readonly content: readonly string[];
  fields(row: Row): (string | null)[];
  /** Identity within a batch: rows of one market with the same identity compete. */
  identity(row: Row): string | number;
  /** Order of the primary key: writers that sort alike do not deadlock. */
  compare(a: Row, b: Row): number;
  momentMs(row: Row): number;
}

const array = (values: readonly string[]) => `{${values.join(',')}}`;

export const TRADE: SeriesShape<TradeRow> = {
  table: 'trade',
  columns: [
    'traded_at',
    'tid',
    'executed_at',
    'received_at',
    'market_id',
    'side',
    'price',
    'amount',
    'total',
  ],
  key: ['market_id', 'traded_at', 'tid'],
  timeColumn: 'traded_at',
  content: ['side', 'price', 'amount', 'total'],
  fields: (row) => [
    timestampTextMs(row.tradedAtS * 1_000),
    `${row.tid}`,
    row.executedAtUs === null ? null : timestampTextUs(row.executedAtUs),
    timestampTextMs(row.receivedAtMs),
    `${row.marketId}`,
    row.side,
    row.price,
    row.amount,
    row.total,
  ],
  // Not the second: one id at two seconds is one trade told twice in different ways.
  identity: (row) => row.tid,
  compare: (a, b) => a.marketId - b.marketId || a.tradedAtS - b.tradedAtS || a.tid - b.tid,
  momentMs: (row) => row.tradedAtS * 1_000,
};

export const KLINE: SeriesShape<KlineRow> = {
  table: 'kline',
  columns: [
    'open_at',
    'received_at',
    'market_id',
    'interval_s',
    'open',
    'close',
    'high',
    'low',
    'volume',
    'amount',
  ],
  key: ['market_id', 'interval_s', 'open_at'],
  timeColumn: 'open_at',
  content: ['open', 'close', 'high', 'low', 'volume', 'amount'],
  fields: (row) => [
    timestampTextMs(row.openAtS * 1_000),
    timestampTextMs(row.receivedAtMs),
    `${row.marketId}`,
    `${row.intervalS}`,
    row.open,
    row.close,
    row.high,
    row.low,
    row.volume,
    row.amount,
  ],
  identity: (row) => `${row.intervalS}:${row.openAtS}`,
  compare: (a, b) => a.marketId - b.marketId || a.intervalS - b.intervalS || a.openAtS - b.openAtS,
  momentMs: (row) => row.openAtS * 1_000,
};

export const TICKER: SeriesShape<TickerRow> = {
  table: 'ticker',
  columns: [
    'observed_at',
    'at',
    'received_at',
    'market_id',
    'bid',
    'ask',
    'open',
    'high',
    'low',
    'last',
    'volume',
    'deal',
    'change',
  ],
  key: ['market_id', 'observed_at'],
  timeColumn: 'observed_at',
  content: ['at', 'bid', 'ask', 'open', 'high', 'low', 'last', 'volume', 'deal', 'change'],
  fields: (row) => [
    timestampTextMs(row.observedAtMs),
    timestampTextMs(row.atMs),
    timestampTextMs(row.receivedAtMs),
    `${row.marketId}`,
    row.bid,
    row.ask,
    row.open,
    row.high,
    row.low,
    row.last,
    row.volume,
    row.deal,
    row.change,
  ],
  identity: (row) => row.observedAtMs,
  compare: (a, b) => a.marketId - b.marketId || a.observedAtMs - b.observedAtMs,
  momentMs: (row) => row.observedAtMs,
};

export const DEPTH: SeriesShape<DepthRow> = {
  table: 'depth',
  columns: [
    'observed_at',
    'received_at',
    'market_id',
    'bid_prices',
    'bid_amounts',
    'ask_prices',
    'ask_amounts',
  ],
  key: ['market_id', 'observed_at'],
  timeColumn: 'observed_at',
  content: ['bid_prices', 'bid_amounts', 'ask_prices', 'ask_amounts'],
  fields: (row) => [
    timestampTextMs(row.observedAtMs),
    timestampTextMs(row.receivedAtMs),
    `${row.marketId}`,
    array(row.bidPrices),
    array(row.bidAmounts),
    array(row.askPrices),
    array(row.askAmounts),
  ],
  identity: (row) => row.observedAtMs,
  compare: (a, b) => a.marketId - b.marketId || a.observedAtMs - b.observedAtMs,
  momentMs: (row) => row.observedAtMs,
};

export const STATE: SeriesShape<StateRow> = {
  table: 'market_state',
  columns: [
    'observed_at',
    'received_at',
    'session_id',
    'market_id',
    'period_s',
    'seq',
    'origin',
    'last',
    'open',
    'close',
    'high',
    'low',
    'deal',
    'volume',
    'change',
  ],
  key: ['market_id', 'period_s', 'observed_at', 'seq'],
  timeColumn: 'observed_at',
  content: ['origin', 'last', 'open', 'close', 'high', 'low', 'deal', 'volume', 'change'],
  fields: (row) => [
    timestampTextMs(row.observedAtMs),
    timestampTextMs(row.receivedAtMs),
    `${row.sessionId}`,
    `${row.marketId}`,
    `${row.periodS}`,
    `${row.seq}`,
    row.origin,
    row.last,
    row.open,
    row.close,
    row.high,
    row.low,
    row.deal,
    row.volume,
    row.change,
  ],
  identity: (row) => `${row.periodS}:${row.observedAtMs}:${row.seq}`,
  compare: (a, b) =>
    a.marketId - b.marketId ||
    a.periodS - b.periodS ||
    a.observedAtMs - b.observedAtMs ||
    a.seq - b.seq,
  momentMs: (row) => row.observedAtMs,
};
