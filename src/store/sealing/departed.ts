/**
 * What the ledger covers and the database does not hold any more: rows in files, or gone. What is
 * judged by rows must leave it out, or it would find them missing.
 */

/** The spans of all partitions of these tables that have left, as a multirange (SQL). */
export const departedSql = (...tables: readonly string[]) => `
  (SELECT coalesce(range_agg(gone.span), '{}') FROM partition_state gone
   WHERE gone.state IN ('archived', 'expired')
     AND gone.table_name IN (${tables.map((table) => `'${table}'`).join(', ')}))`;
