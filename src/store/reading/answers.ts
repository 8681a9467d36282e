import type { Answer } from '../api-inspection.js';
import type { Database } from '../database.js';
import { toMs } from '../instants.js';

/**
 * Which series this transaction has looked at so far, wherever they were named: in the statement, in
 * a view or in a function. Their tables stay locked until the transaction ends.
 */
const TOUCHED = `
  SELECT s.table_name AS "table", ${toMs('min(lower(s.span))')} AS "fromMs",
         ${toMs('max(upper(s.span))')} AS "toMs"
  FROM pg_locks l JOIN partition_state s ON s.table_name::regclass = l.relation
  WHERE l.pid = pg_backend_pid() AND l.locktype = 'relation' AND s.state = 'archived'
  GROUP BY s.table_name ORDER BY s.table_name`;

/** Runs one statement that comes from outside, reading only. @throws StoreError */
export async function readAnswer(database: Database, sql: string): Promise<Answer> {
  return await database.transaction(async (runner) => {
    const { names, rows } = await runner.table(sql);
    const cold = await runner.rows<{ table: string; fromMs: number; toMs: number }>(TOUCHED);
    return {
      ...{ names, rows },
      cold: cold.map(({ table, fromMs, toMs: endMs }) => ({
        ...{ table, span: { fromMs, toMs: endMs } },
      })),
    };
  }, 'READ ONLY');
}
