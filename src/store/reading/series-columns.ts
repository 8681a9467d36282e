import type { ColumnType, MergedKind, SeriesColumn } from '../api-series.js';

/** What a series is read from. */
interface Series {
  readonly table: string;
  /** The columns of the primary key after market and variant: the order of the rows. */
  readonly order: readonly string[];
  /** The column that holds the variant, where there are several. */
  readonly variant?: string;
  readonly columns: readonly SeriesColumn[];
}

function column(name: string, type: ColumnType, about: string): SeriesColumn {
  return { name, type, isNullable: false, about };
}

function nullable(name: string, type: ColumnType, about: string): SeriesColumn {
  return { name, type, isNullable: true, about };
}

const RECEIVED = column(
  'received_at',
  'timestamp',
  'when it came, clock of the collecting machine',
);
const OBSERVED = column('observed_at', 'timestamp', 'when it was looked at, exchange time');
const prices = (...names: readonly string[]) =>
  names.map((name) => column(name, 'decimal', 'in the money currency'));

/** The series, the moment of a row first. */
export const SERIES_TABLES: Readonly<Record<MergedKind, Series>> = {
  trades: {
    table: 'trade',
    order: ['traded_at', 'tid'],
    columns: [
      column('traded_at', 'timestamp', 'whole second of the execution, exchange time'),
      column('tid', 'integer', 'id that the exchange gave'),
      nullable('executed_at', 'timestamp', 'exact time of the execution; null while unknown'),
      column('side', 'text', 'side of the taker'),
      ...prices('price'),
      column('amount', 'decimal', 'in the stock currency'),
      ...prices('total'),
      RECEIVED,
    ],
  },
  klines: {
    table: 'kline',
    order: ['open_at'],
    variant: 'interval_s',
    columns: [
      column('open_at', 'timestamp', 'begin of the candle'),
      column('interval_s', 'integer', 'length of the candle in seconds'),
      ...prices('open', 'high', 'low', 'close'),
      column('volume', 'decimal', 'in the stock currency'),
      column('amount', 'decimal', 'volume in the money currency'),
      column(
        'revision',
        'integer',
        'how often the exchange changed it; this is the newest version',
      ),
      RECEIVED,
    ],
  },
  kline_revisions: {
    table: 'kline_revision',
    order: ['open_at', 'revision'],
    variant: 'interval_s',
    columns: [
      column('open_at', 'timestamp', 'begin of the candle'),
      column('interval_s', 'integer', 'length of the candle in seconds'),
      column('revision', 'integer', 'how often the exchange had changed it by then'),
      column('known_from', 'timestamp', 'when this version came, clock of the collecting machine'),
      column('known_to', 'timestamp', 'when the next one came, same clock'),
      ...prices('open', 'high', 'low', 'close'),
      column('volume', 'decimal', 'in the stock currency'),
      column('amount', 'decimal', 'volume in the money currency'),
    ],
  },
  tickers: {
    table: 'ticker',
    order: ['observed_at'],
    columns: [
      OBSERVED,
      column('at', 'timestamp', 'the time that the exchange wrote into it'),
      ...prices('bid', 'ask', 'open', 'high', 'low', 'last'),
      column('volume', 'decimal', 'of 24 hours, in the stock currency'),
      column('deal', 'decimal', 'volume in the money currency'),
      column('change', 'decimal', 'per cent, from open to last'),
      RECEIVED,
    ],
  },
  depth: {
    table: 'depth',
    order: ['observed_at'],
    columns: [
      OBSERVED,
      column('bid_prices', 'decimals', 'best first'),
      column('bid_amounts', 'decimals', 'in the stock currency, in the order of their prices'),
      column('ask_prices', 'decimals', 'best first'),
      column('ask_amounts', 'decimals', 'in the stock currency, in the order of their prices'),
      RECEIVED,
    ],
  },
  states: {
    table: 'market_state',
    order: ['observed_at', 'seq'],
    variant: 'period_s',
    columns: [
      OBSERVED,
      column('seq', 'integer', 'orders records of the same millisecond'),
      column('period_s', 'integer', 'length of the time that it sums up, in seconds'),
      column('origin', 'text', 'pushed by the exchange (update), or its answer (query)'),
      ...prices('last', 'open', 'close', 'high', 'low'),
      column('deal', 'decimal', 'volume in the money currency'),
      column('volume', 'decimal', 'in the stock currency'),
      nullable('change', 'decimal', 'per cent; updates carry none'),
      column('session_id', 'integer', 'the connection that brought it'),
      RECEIVED,
    ],
  },
};

/** Total of a trade as the lean form has it. */
export const LEAN_TOTAL: SeriesColumn = nullable(
  'total',
  'decimal',
  'in the money currency; null where it is exactly price × amount',
);

/** The columns of a series as {@link ArchiveSnapshot.rows} writes them. */
export function seriesColumns(kind: MergedKind, isLean: boolean): readonly SeriesColumn[] {
  const { columns } = SERIES_TABLES[kind];
  if (!isLean || kind !== 'trades') return columns;
  return columns.map((one) => (one.name === LEAN_TOTAL.name ? LEAN_TOTAL : one));
}

/** The names of the columns by which the rows of a market are ordered. */
export function seriesOrder(kind: MergedKind): readonly string[] {
  return SERIES_TABLES[kind].order;
}

/** The table that holds a series. */
export function seriesTable(kind: MergedKind): string {
  return SERIES_TABLES[kind].table;
}

/** The column that holds interval or period, where a series has several. */
export function seriesVariant(kind: MergedKind): string | undefined {
  return SERIES_TABLES[kind].variant;
}
