import type { SeriesTable } from '../../model/series.js';
import type { Runner } from '../connection.js';
import { describeHolder, HOLDER_COLUMNS, type LockHolder } from '../locks.js';

/** Sessions that keep a partition from changing its place. */

/** Readers that must see one archive hold it; see sql/0001. */
export const READER_LOCK = 'reader_lock';

const HOLDERS_MAX = 4;
/**
 * The sessions that have locks on tables or their indexes, except those that only read them if `$2` is
 * false, and those that began in the last `$3` seconds. The oldest transactions first: they are the least likely to have
 * come since.
 */
const FIND_HOLDERS = `
  WITH wanted AS (SELECT to_regclass(name) AS id FROM unnest($1::text[]) AS name)
  SELECT coalesce(l.pid, 0) AS pid, ${HOLDER_COLUMNS}, false AS is_waiting
  FROM (
    SELECT DISTINCT pid FROM pg_locks
    WHERE locktype = 'relation' AND granted AND pid IS DISTINCT FROM pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND ($2 OR mode <> 'AccessShareLock')
      AND relation IN (
        SELECT id FROM wanted
        UNION ALL
        SELECT indexrelid FROM pg_index JOIN wanted ON indrelid = id)) l
    LEFT JOIN pg_stat_activity a ON a.pid = l.pid
  WHERE a.xact_start IS NULL OR a.xact_start <= now() - $3::float8 * interval '1 s'
  ORDER BY a.xact_start NULLS LAST, l.pid LIMIT ${HOLDERS_MAX}`;

/** @param isOfReaders whether those count that only read the tables */
export async function findHolders(
  runner: Runner,
  tables: readonly string[],
  isOfReaders: boolean,
  sinceS = 0,
): Promise<LockHolder[]> {
  return await runner.rows<LockHolder>(FIND_HOLDERS, [tables, isOfReaders, sinceS]);
}

/** Tries to change the place of a partition go on between transactions that are shorter. */
const LONG_S = 2;

/** Describes who has used a series for long without a break, so that none of its partitions can change its place. */
export async function readLongHolders(runner: Runner, table: SeriesTable): Promise<string[]> {
  const holders = await findHolders(runner, [table, READER_LOCK], true, LONG_S);
  return holders.map(describeHolder);
}
