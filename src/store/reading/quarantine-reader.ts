import type { QuarantineCount, QuarantinedRow, QuarantineFilter } from '../api-inspection.js';
import type { Runner } from '../database.js';
import { toMs } from '../instants.js';

/** What was refused: the newest samples of it, and the counts of all. */

const COLUMNS = `
  quarantine_id::float8 AS "quarantineId", ${toMs('received_at')} AS "receivedAtMs", endpoint,
  market, reason, payload, count::float8 AS count`;

const NEWEST = `
  SELECT ${COLUMNS} FROM quarantine
  WHERE ($1::text IS NULL OR endpoint = $1) AND ($2::text IS NULL OR market = $2)
    AND ($3::text IS NULL OR position(lower($3) IN lower(reason)) > 0)
  ORDER BY quarantine_id DESC LIMIT $4`;

export async function readQuarantine(
  runner: Runner,
  { endpoint = null, market = null, reason = null, limit }: Nullable<QuarantineFilter>,
): Promise<QuarantinedRow[]> {
  return await runner.rows<QuarantinedRow>(NEWEST, [endpoint, market, reason, limit]);
}

type Nullable<T> = { readonly [K in keyof T]: T[K] extends number ? T[K] : T[K] | null };

const ONE = `SELECT ${COLUMNS} FROM quarantine WHERE quarantine_id = $1`;

export async function readQuarantinedRow(
  runner: Runner,
  quarantineId: number,
): Promise<QuarantinedRow | null> {
  const [row] = await runner.rows<QuarantinedRow>(ONE, [quarantineId]);
  return row ?? null;
}

const COUNTS = `
  SELECT c.endpoint, c.reason, c.count::float8 AS count, ${toMs('c.last_at')} AS "lastAtMs",
         coalesce(k.kept, 0)::float8 AS kept
  FROM quarantine_count c LEFT JOIN (
    SELECT endpoint, reason, count(*) AS kept FROM quarantine GROUP BY endpoint, reason) k
    USING (endpoint, reason)
  ORDER BY c.count DESC, c.endpoint, c.reason`;

export async function readQuarantineCounts(runner: Runner): Promise<QuarantineCount[]> {
  return await runner.rows<QuarantineCount>(COUNTS);
}
