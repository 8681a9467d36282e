import { timestampTextMs } from '../../kernel/timestamp.js';
import { columnsOf, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import type { LedgerTable, TableSlice } from '../api-series.js';

/**
 * Statements that write rows for a reader who puts them into tables of its own and needs no order.
 * COPY takes no parameters; what is written into them here are names of this program and numbers.
 */

/** Rows of a series with the name of their market before them. */
export function copyTableSql({ kind, marketIds, span }: TableSlice): string {
  const table = tableOfKind(kind);
  const columns = columnsOf(table, false);
  const moment = timeColumnOf(table);
  const selected = columns.map(({ name, type }) =>
    type === 'decimals' ? `'[' || array_to_string(t.${name}, ',') || ']'` : `t.${name}`,
  );
  const ids = marketIds?.map((id) => Math.trunc(id)).join(', ');
  const conditions = [
    `t.${moment} >= timestamptz '${timestampTextMs(span.fromMs)}'`,
    `t.${moment} < timestamptz '${timestampTextMs(span.toMs)}'`,
    ...(ids === undefined ? [] : [`t.market_id IN (${ids === '' ? 'NULL' : ids})`]),
  ];
  return `COPY (SELECT m.name, ${selected.join(', ')} FROM ${table} t
    JOIN market m ON m.market_id = t.market_id WHERE ${conditions.join(' AND ')}) TO STDOUT (FORMAT csv)`;
}

const LEDGER: Readonly<Record<LedgerTable, string>> = {
  markets: `market, stock, money, stock_prec, money_prec, fee_prec, min_amount, first_seen_at,
    last_seen_at, delisted_at, market_id FROM analytics.markets`,
  coverage: `market, kind, variant, starts_at, ends_at, rows, first_id, last_id, updated_at
    FROM analytics.coverage`,
  gaps: `market, kind, variant, starts_at, ends_at, state, reason, is_lag, attempts, first_seen_at,
    next_attempt_at, note FROM analytics.gaps`,
};

/** A table of the ledger as analysts know it. */
export function copyLedgerSql(table: LedgerTable): string {
  return `COPY (SELECT ${LEDGER[table]}) TO STDOUT (FORMAT csv)`;
}
