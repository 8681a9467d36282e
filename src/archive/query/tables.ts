import { type SeriesKind, seriesColumns } from '../../store/index.js';

/** The tables that a statement can ask, as analysts know them. */
export const QUERY_TABLES = [
  ...(['trades', 'klines', 'tickers', 'depth', 'depth_levels', 'states'] as const),
  ...(['markets', 'coverage', 'gaps'] as const),
] as const;
export type QueryTable = (typeof QUERY_TABLES)[number];

/** The series behind a table; undefined for what is of the ledger. */
export const SERIES_OF: Readonly<Partial<Record<QueryTable, SeriesKind>>> = {
  trades: 'trades',
  klines: 'klines',
  tickers: 'tickers',
  depth: 'depth',
  depth_levels: 'depth',
  states: 'states',
};

export function isQueryTable(name: string): name is QueryTable {
  return (QUERY_TABLES as readonly string[]).includes(name);
}

/** The column that tells when a row happened. */
export function momentColumn(kind: SeriesKind): string {
  return seriesColumns(kind, false)[0]?.name ?? '';
}

/** Columns in the order of the views in Postgres. */
export const COLUMN_ORDER: Readonly<Record<SeriesKind, readonly string[]>> = {
  trades: [
    ...['market', 'traded_at', 'tid', 'executed_at', 'side', 'price', 'amount', 'total'],
    'received_at',
  ],
  klines: [
    ...['market', 'interval_s', 'open_at', 'open', 'high', 'low', 'close', 'volume', 'amount'],
    ...['revision', 'received_at'],
  ],
  tickers: [
    ...['market', 'observed_at', 'bid', 'ask', 'open', 'high', 'low', 'last', 'volume', 'deal'],
    ...['change', 'at', 'received_at'],
  ],
  depth: [
    ...['market', 'observed_at', 'bid_prices', 'bid_amounts', 'ask_prices', 'ask_amounts'],
    'received_at',
  ],
  states: [
    ...[
      'market',
      'period_s',
      'observed_at',
      'seq',
      'origin',
      'last',
      'open',
      'close',
      'high',
      'low',
    ],
    ...['deal', 'volume', 'change', 'session_id', 'received_at'],
  ],
};

/** Levels of books, a row for each; the best is 1. */
export const DEPTH_LEVELS = `
  SELECT market, observed_at, 'bid' AS side, unnest(range(1, len(bid_prices) + 1))::INTEGER AS level,
         unnest(bid_prices) AS price, unnest(bid_amounts) AS amount, received_at FROM depth
  UNION ALL
  SELECT market, observed_at, 'ask', unnest(range(1, len(ask_prices) + 1))::INTEGER,
         unnest(ask_prices), unnest(ask_amounts), received_at FROM depth`;

/** Columns of the ledger's tables with their types, as the store writes them. */
export const LEDGER_COLUMNS = {
  markets: [
    ...([
      ['market', 'VARCHAR'],
      ['stock', 'VARCHAR'],
      ['money', 'VARCHAR'],
    ] as const),
    ...([
      ['stock_prec', 'INTEGER'],
      ['money_prec', 'INTEGER'],
      ['fee_prec', 'INTEGER'],
    ] as const),
    ...([
      ['min_amount', 'DECIMAL(38,18)'],
      ['first_seen_at', 'TIMESTAMPTZ'],
    ] as const),
    ...([
      ['last_seen_at', 'TIMESTAMPTZ'],
      ['delisted_at', 'TIMESTAMPTZ'],
    ] as const),
    ['market_id', 'INTEGER'],
  ],
  coverage: [
    ...([
      ['market', 'VARCHAR'],
      ['kind', 'VARCHAR'],
      ['variant', 'INTEGER'],
    ] as const),
    ...([
      ['starts_at', 'TIMESTAMPTZ'],
      ['ends_at', 'TIMESTAMPTZ'],
      ['rows', 'BIGINT'],
    ] as const),
    ...([
      ['first_id', 'BIGINT'],
      ['last_id', 'BIGINT'],
      ['updated_at', 'TIMESTAMPTZ'],
    ] as const),
  ],
  gaps: [
    ...([
      ['market', 'VARCHAR'],
      ['kind', 'VARCHAR'],
      ['variant', 'INTEGER'],
    ] as const),
    ...([
      ['starts_at', 'TIMESTAMPTZ'],
      ['ends_at', 'TIMESTAMPTZ'],
      ['state', 'VARCHAR'],
    ] as const),
    ...([
      ['reason', 'VARCHAR'],
      ['is_lag', 'BOOLEAN'],
      ['attempts', 'INTEGER'],
    ] as const),
    ...([
      ['first_seen_at', 'TIMESTAMPTZ'],
      ['next_attempt_at', 'TIMESTAMPTZ'],
    ] as const),
    ['note', 'VARCHAR'],
  ],
} as const;
