import type { ActiveOrderRow, BalanceRow } from '../../ledger/batch.js';
import { timestampTextMs, timestampTextUs } from '../instants.js';
import type { SeriesShape } from './series.js';

/** How the rows of an account cross into SQL. */

export const BALANCE: SeriesShape<BalanceRow> = {
  table: 'balance',
  columns: ['observed_at', 'received_at', 'market_id', 'currency', 'available', 'frozen'],
  key: ['market_id', 'currency', 'observed_at'],
  timeColumn: 'observed_at',
  content: ['available', 'frozen'],
  fields: (row) => [
    timestampTextMs(row.observedAtMs),
    timestampTextMs(row.receivedAtMs),
    `${row.marketId}`,
    row.currency,
    row.available,
    row.freeze,
  ],
  identity: (row) => `${row.observedAtMs}:${row.currency}`,
  compare: (a, b) => compareText(a.currency, b.currency) || a.observedAtMs - b.observedAtMs,
  momentMs: (row) => row.observedAtMs,
};

export const ACTIVE_ORDER: SeriesShape<ActiveOrderRow> = {
  table: 'active_order',
  columns: [
    'observed_at',
    'received_at',
    'created_at',
    'order_id',
    'market_id',
    'is_gone',
    'side',
    'order_type',
    'price',
    'amount',
    'left_amount',
    'deal_stock',
    'deal_money',
    'taker_fee',
    'maker_fee',
  ],
  key: ['market_id', 'order_id', 'observed_at'],
  timeColumn: 'observed_at',
  content: [
    'is_gone',
    'side',
    'order_type',
    'price',
    'amount',
    'left_amount',
    'deal_stock',
    'deal_money',
    'taker_fee',
    'maker_fee',
  ],
  fields: (row) => [
    timestampTextMs(row.observedAtMs),
    timestampTextMs(row.receivedAtMs),
    timestampTextUs(row.createdAtUs),
    `${row.orderId}`,
    `${row.marketId}`,
    row.isGone ? 't' : 'f',
    row.side,
    row.type,
    row.price,
    row.amount,
    row.left,
    row.dealStock,
    row.dealMoney,
    row.takerFee,
    row.makerFee,
  ],
  identity: (row) => `${row.marketId}:${row.orderId}:${row.observedAtMs}`,
  compare: (a, b) =>
    a.marketId - b.marketId || a.orderId - b.orderId || a.observedAtMs - b.observedAtMs,
  momentMs: (row) => row.observedAtMs,
};

/** Any order will do as long as all writers have the same. */
function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
