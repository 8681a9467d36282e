import type { StreamKind } from '../../ledger/batch.js';
import type { ColumnType, SeriesColumn, SeriesKind } from '../api-series.js';
import { seriesColumns } from '../reading/series-columns.js';
import type { PartitionedTable } from '../schema/partitioned-tables.js';

/** What the life of a partition needs to know of its table. */
export interface LifeTable {
  readonly table: PartitionedTable;
  /** By which partitions are cut; the first of the columns. */
  readonly timeColumn: string;
  /** The primary key after the market: the order of the rows of a day. */
  readonly key: readonly string[];
  /** What a cold file holds of a row; the market is in its path. */
  readonly columns: readonly SeriesColumn[];
  /** The streams whose coverage these rows prove. */
  readonly streams: readonly StreamKind[];
  /** Whether what is missing can be asked for again, so that it is worth waiting for. */
  readonly isFetchable: boolean;
}

const column = (name: string, type: ColumnType, isNullable = false): SeriesColumn => ({
  ...{ name, type, isNullable, about: '' },
});
const decimals = (...names: readonly string[]) => names.map((name) => column(name, 'decimal'));
const lean = (kind: SeriesKind) => seriesColumns(kind, true);

const KLINE_REVISION: readonly SeriesColumn[] = [
  column('open_at', 'timestamp'),
  column('interval_s', 'integer'),
  column('revision', 'integer'),
  column('known_from', 'timestamp'),
  column('known_to', 'timestamp'),
  ...decimals('open', 'high', 'low', 'close', 'volume', 'amount'),
];
const BALANCE: readonly SeriesColumn[] = [
  column('observed_at', 'timestamp'),
  column('currency', 'text'),
  column('available', 'decimal', true),
  column('frozen', 'decimal', true),
  column('received_at', 'timestamp'),
];
const ACTIVE_ORDER: readonly SeriesColumn[] = [
  column('observed_at', 'timestamp'),
  column('order_id', 'integer'),
  column('created_at', 'timestamp'),
  column('is_gone', 'text'),
  column('side', 'text'),
  column('order_type', 'text'),
  ...decimals('price', 'amount', 'left_amount', 'deal_stock', 'deal_money'),
  ...decimals('taker_fee', 'maker_fee'),
  column('received_at', 'timestamp'),
];

function life(
  table: PartitionedTable,
  key: readonly string[],
  columns: readonly SeriesColumn[],
  streams: readonly StreamKind[],
  isFetchable: boolean,
): LifeTable {
  return { table, timeColumn: columns[0]?.name ?? '', key, columns, streams, isFetchable };
}

/** The tables in the order in which their partitions are worked on: what hangs on others later. */
export const LIFE_TABLES: Readonly<Record<PartitionedTable, LifeTable>> = {
  trade: life('trade', ['traded_at', 'tid'], lean('trades'), ['trades', 'times'], true),
  kline: life('kline', ['interval_s', 'open_at'], lean('klines'), ['kline'], true),
  kline_revision: life(
    'kline_revision',
    ['interval_s', 'open_at', 'revision'],
    KLINE_REVISION,
    ['kline'],
    true,
  ),
  ticker: life('ticker', ['observed_at'], lean('tickers'), ['ticker'], false),
  depth: life('depth', ['observed_at'], lean('depth'), ['depth'], false),
  market_state: life(
    'market_state',
    ['period_s', 'observed_at', 'seq'],
    lean('states'),
    ['state'],
    false,
  ),
  balance: life('balance', ['currency', 'observed_at'], BALANCE, ['balance'], false),
  active_order: life('active_order', ['order_id', 'observed_at'], ACTIVE_ORDER, ['orders'], false),
};

/**
 * A column in the one form that its value has, whatever digits it was sent with: without zeros at the
 * end of decimals, which no file keeps.
 */
function canonical(table: PartitionedTable, { name, type }: SeriesColumn): string {
  if (table === 'trade' && name === 'total') {
    return 'CASE WHEN total <> price * amount THEN trim_scale(total) END';
  }
  if (type === 'decimal') return `trim_scale(${name})`;
  if (type === 'decimals') {
    return `'[' || array_to_string(ARRAY(SELECT trim_scale(v) FROM unnest(${name}) AS v), ',') || ']'`;
  }
  return name;
}

/**
 * The rows of one market in a partition: day by day, within a day by the primary key, a line each as
 * in the forms of the series, decimals shortened to their value. By these lines rows are summed up,
 * and of these lines files are made.
 */
export function marketRowsSql(
  table: PartitionedTable,
  partition: string,
  marketId: number,
): string {
  const { key, columns, timeColumn } = LIFE_TABLES[table];
  const selected = columns.map((one) => canonical(table, one)).join(', ');
  const isInOrder = key[0] === timeColumn;
  const order = [...(isInOrder ? [] : [`date_trunc('day', ${timeColumn})`]), ...key].join(', ');
  return `COPY (SELECT ${selected} FROM ${partition} WHERE market_id = ${Math.trunc(marketId)}
    ORDER BY ${order}) TO STDOUT (FORMAT csv)`;
}
