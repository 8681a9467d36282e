import { createHmac } from 'node:crypto';
import { readFile, writeFile } from 'node:fs/promises';
import pg from 'pg';
import { settleQueryRole } from '../schema/query-role.js';
import { makeRoles, passOwnership } from '../schema/roles.js';

/** The superuser that initdb makes. The program uses it to set the server up, and for nothing else. */
export const EMBEDDED_SUPERUSER = 'tapekeep';
/** The program's own login: it owns the database, and has no right on the server. */
const PROGRAM_LOGIN = 'tapekeep_program';
const DATABASE = 'tapekeep';
/** The database that every cluster has. */
const MAINTENANCE = 'postgres';

const CONNECT_TIMEOUT_MS = 5_000;
/** Tables that change their owner may be in use by a program of the version before. */
const LOCK_TIMEOUT_MS = 10_000;

const LOOK = `
  SELECT to_regrole('${PROGRAM_LOGIN}') IS NOT NULL AS "hasLogin", d.oid IS NOT NULL AS "hasDatabase",
    coalesce(d.datdba = to_regrole('${PROGRAM_LOGIN}'), false) AS "isOwner"
  FROM (SELECT 1) one LEFT JOIN pg_database d ON d.datname = '${DATABASE}'`;

/** Any login may write to the journal otherwise, also in a transaction that only reads. */
const CLOSE_JOURNAL = `
  DO $$
  DECLARE one regprocedure;
  BEGIN
    FOR one IN SELECT oid::regprocedure FROM pg_proc WHERE proname = 'pg_logical_emit_message' LOOP
      EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', one);
    END LOOP;
  END $$`;

interface Look {
  readonly hasLogin: boolean;
  readonly hasDatabase: boolean;
  readonly isOwner: boolean;
}

/** Connects as the superuser; to the maintenance database by default. */
export function superuserUrl(port: number, password: string, database = MAINTENANCE): string {
  return urlOf(EMBEDDED_SUPERUSER, password, port, database);
}

/** Connects as the program to its archive. @param password that of the superuser */
export function programUrl(port: number, password: string): string {
  return urlOf(PROGRAM_LOGIN, programPassword(password), port, DATABASE);
}

function urlOf(user: string, password: string, port: number, database: string): string {
  return `postgres://${user}:${password}@127.0.0.1:${port}/${database}`;
}

/** Follows from the superuser's, which does not follow from it. */
function programPassword(password: string): string {
  return createHmac('sha256', password).update(PROGRAM_LOGIN).digest('hex');
}

/**
 * Makes the database of the archive and the program's login, on a server that serves. An archive of a
 * version that worked as the superuser is made over: its tables to the owners' role, then the database,
 * whose owner shows that all is done.
 *
 * @throws the driver's errors
 */
export async function settleLogins(port: number, password: string): Promise<void> {
  await withClient(superuserUrl(port, password), async (client) => {
    const { rows } = await client.query<Look>(LOOK);
    const [found] = rows;
    if (found?.isOwner === true) return;
    await makeRoles(client);
    if (found?.hasLogin !== true) {
      await client.query(
        `CREATE ROLE ${PROGRAM_LOGIN} LOGIN PASSWORD '${programPassword(password)}';
         COMMENT ON ROLE ${PROGRAM_LOGIN} IS 'The programs of this archive log in as this role.';
         GRANT tapekeep_owner TO ${PROGRAM_LOGIN}`,
      );
    }
    if (found?.hasDatabase !== true) await client.query(`CREATE DATABASE ${DATABASE}`);
    await withClient(superuserUrl(port, password, DATABASE), async (archive) => {
      await archive.query(`BEGIN; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; ${CLOSE_JOURNAL}`);
      await passOwnership(archive);
      await settleQueryRole(archive);
      await archive.query('COMMIT');
    });
    await client.query(`ALTER DATABASE ${DATABASE} OWNER TO ${PROGRAM_LOGIN}`);
  });
}

/** Writes the program's password down for people, where that can be written. */
export async function writeProgramPassword(path: string, password: string): Promise<void> {
  const text = `${programPassword(password)}\n`;
  if ((await readFile(path, 'utf8').catch(() => '')) === text) return;
  await writeFile(path, text, { mode: 0o600 }).catch(() => undefined);
}

async function withClient(url: string, work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on('error', () => undefined);
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}
