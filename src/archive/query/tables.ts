import { SERIES, WRITTEN_SERIES } from '../../model/series.js';

/** The series that a statement can ask, as analysts know them. */
const SERIES_KINDS = WRITTEN_SERIES.flatMap((table): SeriesKind[] => {
  const entry = SERIES[table];
  return entry.retention === 'account' ? [] : [entry.kind];
});
/** All tables that it can ask; `depth_levels` are the rows of `depth`, a row for each level. */
export const QUERY_TABLES = [
  ...SERIES_KINDS,
  ...(['depth_levels', 'markets', 'coverage', 'gaps'] as const),
] as const;
export type QueryTable = (typeof QUERY_TABLES)[number];

/** The series behind a table; undefined for what is of the ledger. */
export function seriesBehind(table: QueryTable): SeriesKind | undefined {
  return table === 'depth_levels' ? 'depth' : SERIES_KINDS.find((kind) => kind === table);
}

export function isQueryTable(name: string): name is QueryTable {
  return (QUERY_TABLES as readonly string[]).includes(name);
}

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

import type { SeriesKind } from '../../model/kinds.js';
