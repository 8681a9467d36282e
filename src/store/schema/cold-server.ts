import { isTrue, type Runner } from '../connection.js';
import { isState, sqlstateOf } from '../errors.js';

/**
 * Archived rows are read through postgres_fdw (sql/0001, make_cold_server). The extension comes with every Postgres; to make
 * it, and to use it, takes an administrator on most servers. Without it nothing is archived, and all else works.
 */

/** True if the owner of the archive's functions may make foreign servers. */
const MAY_SERVE = `
  SELECT EXISTS (
    SELECT FROM pg_foreign_data_wrapper w, pg_proc p
    WHERE w.fdwname = 'postgres_fdw' AND p.proname = 'make_cold_server' AND p.pronamespace = current_schema()::regnamespace
      AND has_foreign_data_wrapper_privilege(p.proowner, w.oid, 'USAGE'))`;
const OWNER = `
  SELECT quote_ident(proowner::regrole::text) AS name FROM pg_proc
  WHERE proname = 'make_cold_server' AND pronamespace = current_schema()::regnamespace`;
const EXTENSION = 'CREATE EXTENSION IF NOT EXISTS postgres_fdw';
/** The files of the extension are not installed: its codes before and since Postgres 16. */
const NOT_THERE: readonly (string | undefined)[] = ['58P01', '0A000'];

/** Reason why nothing can be archived in a database. */
export interface ColdLack {
  readonly found: string;
  /** Advice to an administrator. */
  readonly advice: string;
}

const grantTo = async (runner: Runner) => {
  const [owner] = await runner.rows<{ name: string }>(OWNER);
  return `GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO ${owner?.name ?? 'tapekeep_owner'}`;
};

/** Returns why nothing can be archived here; null when it can. */
export async function readColdLack(runner: Runner): Promise<ColdLack | null> {
  if (await isTrue(runner, MAY_SERVE)) return null;
  const grant = await grantTo(runner);
  return {
    found:
      'nothing can be archived here, because archived rows are read through the extension postgres_fdw',
    advice: `ask an administrator to connect to this database, run "${EXTENSION}; ${grant};" and migrate again, or set cold.enabled to false`,
  };
}

/**
 * Makes what archived rows are read through, where this user may.
 *
 * @returns what an administrator has to do before anything can be archived; null when all is there
 */
export async function settleColdWrapper(connection: Runner): Promise<string | null> {
  if (await isTrue(connection, MAY_SERVE)) return null;
  for (const sql of [EXTENSION, await grantTo(connection)]) {
    await connection.rows(sql).catch((error: unknown) => {
      const isExpected = isState(error, 'not allowed') || isState(error, 'made meanwhile');
      const isAbsent = NOT_THERE.includes(sqlstateOf(error)) || sqlstateOf(error) === '42704';
      if (!isExpected && !isAbsent) throw error;
    });
  }
  const lack = await readColdLack(connection);
  return lack && `${lack.found}: ${lack.advice}`;
}

/** A server that answers for archived rows in Postgres' protocol. */
export interface ColdServer {
  /** Name or address as the database's machine reaches it; a folder with a slash is that of a socket. */
  readonly host: string;
  readonly port: number;
  readonly user: string;
  /**
   * Drawn anew by each process that serves, and written nowhere but into the user mapping of the database: who may read that
   * may read the rows. So there is no file to leak, with a server of our own as with any other.
   */
  readonly password: string;
  /** Identity of the database, so that a copy of it does not read the original's files. */
  readonly dbname: string;
}

/** Returns why this database cannot reach the server of its archived rows; null when it does. */
export async function readColdServerTrouble(runner: Runner): Promise<string | null> {
  const [row] = await runner.rows<{ trouble: string | null }>(
    'SELECT cold_server_trouble() AS trouble',
  );
  return row?.trouble ?? null;
}

const POINT_COLD_SERVER = 'SELECT point_cold_server($1, $2, $3, $4, $5)';

/** Points this database at the server of its archived rows. @throws {@link StoreError} */
export async function pointColdServer(runner: Runner, server: ColdServer): Promise<void> {
  const { host, port, user, password, dbname } = server;
  await runner.rows(POINT_COLD_SERVER, [host, port, user, password, dbname]);
}

/** A standby's backends are seen on the standby alone: there the name has to do. */
const IS_OWN_BACKEND = `
  SELECT EXISTS (
      SELECT FROM pg_stat_activity a JOIN pg_database d ON d.oid = a.datid
      WHERE a.pid = $1 AND d.datname = current_database())
    OR current_database() = $2 AND EXISTS (SELECT FROM pg_stat_replication)`;

/** Returns whether a process of Postgres works for this database, or for a standby of it. */
export async function isOwnBackend(
  runner: Runner,
  pid: number,
  database: string,
): Promise<boolean> {
  return await isTrue(runner, IS_OWN_BACKEND, [pid, database]);
}
