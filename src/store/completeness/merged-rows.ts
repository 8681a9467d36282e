import type { MergedKind, MergedSlice } from '../api-series.js';
import { timestampTextUs } from '../instants.js';

/** What the rows of several markets are read from. */
interface MergedTable {
  readonly table: string;
  readonly variant?: string;
  /** The columns of the primary key after market and variant. */
  readonly order: readonly string[];
  /** What becomes the fields of a line, after the place of the market. */
  readonly fields: readonly string[];
  /** When a row became known. */
  readonly received: string;
}

const CANDLE = ['open', 'high', 'low', 'close', 'volume', 'amount'];
const list = (name: string) => `array_to_string(${name}, ' ')`;

const TABLES: Readonly<Record<MergedKind, MergedTable>> = {
  trades: {
    ...{ table: 'trade', order: ['traded_at', 'tid'], received: 'received_at' },
    fields: ['traded_at', 'tid', 'executed_at', 'side', 'price', 'amount', 'total', 'received_at'],
  },
  klines: {
    ...{ table: 'kline', variant: 'interval_s', order: ['open_at'], received: 'received_at' },
    fields: ['open_at', 'revision', ...CANDLE, 'received_at'],
  },
  kline_revisions: {
    ...{ table: 'kline_revision', variant: 'interval_s', order: ['open_at', 'revision'] },
    ...{ fields: ['open_at', 'revision', ...CANDLE, 'known_from'], received: 'known_from' },
  },
  tickers: {
    ...{ table: 'ticker', order: ['observed_at'], received: 'received_at' },
    fields: [
      ...['observed_at', 'at', 'bid', 'ask', 'open', 'high', 'low', 'last', 'volume', 'deal'],
      ...['change', 'received_at'],
    ],
  },
  depth: {
    ...{ table: 'depth', order: ['observed_at'], received: 'received_at' },
    fields: [
      'observed_at',
      ...['bid_prices', 'bid_amounts', 'ask_prices', 'ask_amounts'].map(list),
      'received_at',
    ],
  },
  states: {
    ...{ table: 'market_state', variant: 'period_s', order: ['observed_at', 'seq'] },
    fields: [
      ...['observed_at', 'seq', 'origin', 'last', 'open', 'close', 'high', 'low', 'deal'],
      ...['volume', 'change', 'session_id', 'received_at'],
    ],
    received: 'received_at',
  },
};

/** What holds while it is read: sorting is of use only where there is no index to go by. */
export function mergedSettings({ isByReceipt }: MergedSlice): string {
  return isByReceipt
    ? `SET LOCAL enable_sort = on; SET LOCAL work_mem = '64MB'`
    : 'SET LOCAL enable_sort = off; SET LOCAL max_parallel_workers_per_gather = 0';
}

/**
 * The statement that reads rows of several markets in one order. In the order of time each market is
 * read by the order of its index and the database merges them, so that nothing is sorted and the
 * first row costs no more than the last; a flat list of conditions would be sorted whole. In the
 * order of receipt there is no index: the database sorts, on its disk what does not fit its memory.
 */
export function copyMergedSql(slice: MergedSlice): string {
  const { kind, marketIds, variantS, fromUs, toUs, isByReceipt } = slice;
  const { table, variant, order, fields, received } = TABLES[kind];
  const [time = ''] = order;
  const ids = marketIds.map((id) => Math.trunc(id));
  const conditions = [
    ...(variant === undefined ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    `${time} >= timestamptz '${timestampTextUs(fromUs)}'`,
    `${time} < timestamptz '${timestampTextUs(toUs)}'`,
  ].join(' AND ');
  const selected = fields.join(', ');
  if (isByReceipt) {
    const places = `'{${ids.join(',')}}'::int[]`;
    return `COPY (
      SELECT array_position(${places}, market_id) - 1 AS place, ${selected} FROM ${table}
      WHERE market_id = ANY (${places}) AND ${conditions}
      ORDER BY ${received}, place, ${order.join(', ')}) TO STDOUT`;
  }
  const names = fields.map((field, index) => `${field} AS f${index}`).join(', ');
  const branches = ids.map(
    (id, place) => `(SELECT ${place} AS place, ${names} FROM ${table}
      WHERE market_id = ${id} AND ${conditions} ORDER BY ${order.join(', ')})`,
  );
  // The first field is the time. One branch alone is in order, and may not be given another.
  const merged = branches.length === 1 ? '' : ' ORDER BY f0';
  return `COPY (${branches.join(' UNION ALL ')}${merged}) TO STDOUT`;
}
