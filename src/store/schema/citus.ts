import type pg from 'pg';
import { StoreError } from '../errors.js';
import { readSqlFiles } from './sql-files.js';

const FIND_CITUS = `SELECT EXISTS (SELECT FROM pg_available_extensions WHERE name = 'citus') AS exists`;

/**
 * Spreads the archive over the nodes of a Citus cluster. May be run again: what is spread stays.
 *
 * @param where the server, for messages
 * @throws {@link StoreError} `citus_missing` where the server has no such extension
 */
export async function distribute(client: pg.Client, where: string): Promise<void> {
  const { rows } = await client.query<{ exists: boolean }>(FIND_CITUS);
  if (rows[0]?.exists !== true) {
    throw new StoreError(
      'citus_missing',
      'fatal',
      `Postgres at ${where} has no Citus extension, so nothing was distributed; the archive works on one server without it. Install Citus on every node and add it to shared_preload_libraries, or leave --citus out`,
    );
  }
  for (const { sql } of await readSqlFiles('citus')) {
    await client.query(`BEGIN; ${sql}; COMMIT`).catch(async (error: unknown) => {
      await client.query('ROLLBACK').catch(() => undefined);
      throw error;
    });
  }
}
