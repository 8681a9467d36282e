import type { Span } from '../../kernel/span.js';
import { type SeriesTable, STREAM_KINDS, tableOfStream } from '../../model/series.js';
import type { Runner } from '../connection.js';
import { boundsSql, type Flat, withSpan } from '../sql.js';

/**
 * What the ledger covers and the database does not hold any more: rows in files, or gone. What is
 * checked by rows must leave it out, or it would find them missing.
 */

/** The spans of all partitions of these tables that have left, as a multirange (SQL). */
export const removedSql = (...tables: readonly string[]) => `
  (SELECT coalesce(range_agg(gone.span), '{}') FROM partition_state gone
   WHERE gone.state IN ('archived', 'expired')
     AND gone.table_name IN (${tables.map((table) => `'${table}'`).join(', ')}))`;

/** What is known in the database of the rows of a market that have left it. */
export interface RemovedRows {
  readonly span: Span;
  readonly state: 'archived' | 'expired';
  /**
   * Of trades: rows, lowest and highest id, and the same three of those whose exact time is known; of
   * others the rows alone. Null when the market has none.
   */
  readonly counts: readonly (number | null)[] | null;
}

const REMOVED_ROWS = `
  SELECT ${boundsSql('span')}, state,
         CASE state WHEN 'archived' THEN market_rows -> $2::text END AS counts
  FROM partition_state WHERE table_name = $1 AND state IN ('archived', 'expired') ORDER BY lower(span)`;

/** The partitions of a table that have left, oldest first, with what they hold of a market. */
export async function removedRows(
  runner: Runner,
  table: SeriesTable,
  marketId: number,
): Promise<RemovedRows[]> {
  const values = [table, `${marketId}`];
  return (await runner.rows<Flat<RemovedRows>>(REMOVED_ROWS, values)).map(withSpan);
}

/** The table that holds what a kind of stream covers (SQL). */
const TABLES = STREAM_KINDS.map((kind) => `WHEN '${kind}' THEN '${tableOfStream(kind)}'`).join(' ');

/** Where what is kept of a stream begins; null where nothing was ever given up (SQL). */
export const keptFromSql = (kind: string) => `
  (SELECT max(upper(p.span)) FROM partition_state p
   WHERE p.state = 'expired' AND p.table_name = CASE ${kind} ${TABLES} END)`;
