import { runSql } from '../postgres/postgres-server.js';

/** Copies of all partitions that are in the database, under the names by which archived ones are asked for. */
const COPY_PARTITIONS = `
  CREATE SCHEMA IF NOT EXISTS cold;
  DO $$
  DECLARE
    one text;
  BEGIN
    FOR one IN
      SELECT c.relname FROM pg_class c
      WHERE c.relispartition AND c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace
    LOOP
      EXECUTE format('DROP TABLE IF EXISTS cold.%1$I; CREATE TABLE cold.%1$I AS TABLE public.%1$I', one);
    END LOOP;
  END
  $$`;

/**
 * Answers for archived partitions in place of the files' own server: from copies of the partitions as they are now, in a
 * schema of the same database, over real connections of postgres_fdw.
 *
 * @param url of a login that may do anything
 */
export async function standInForCold(url: string): Promise<void> {
  await runSql(url, COPY_PARTITIONS);
  await pointCold(url, url);
}

/** Points the server of archived partitions at a database. */
export async function pointCold(url: string, target: string): Promise<void> {
  const { hostname, port, username, password, pathname } = new URL(target);
  const server = [
    hostname,
    Number(port),
    username,
    decodeURIComponent(password),
    pathname.slice(1),
  ];
  await runSql(url, 'SELECT point_cold_server($1, $2, $3, $4, $5)', server);
}
