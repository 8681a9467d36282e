import { createHmac } from 'node:crypto';
import { readFile, realpath, rename, writeFile } from 'node:fs/promises';
import type { Clock } from '../../kernel/clock.js';
import { parentOf } from '../../kernel/processes.js';
import { Connection, isTrue } from '../connection.js';
import { COPY_SETTING } from '../identity.js';
import { makeRoles } from '../schema/roles.js';
import { whose } from './processes.js';

/** The superuser that initdb makes. The program uses it to set the server up, and for nothing else. */
export const EMBEDDED_SUPERUSER = 'tapekeep';
/** The program's own login: it owns the database, and has no right on the server. */
const PROGRAM_LOGIN = 'tapekeep_program';
const DATABASE = 'tapekeep';
/** The login that only reads, where no other name was ever given. */
const STANDARD_READER = 'analyst';
/** The database that every cluster has. */
const MAINTENANCE = 'postgres';

const CONNECT_TIMEOUT_MS = 5_000;

const LOOK = `
  SELECT to_regrole('${PROGRAM_LOGIN}') IS NOT NULL AS has_login, d.oid IS NOT NULL AS has_database,
    coalesce(d.datdba = to_regrole('${PROGRAM_LOGIN}'), false) AS is_owner
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

/** Archived partitions are read through it. */
const MAKE_WRAPPER = `
  CREATE EXTENSION IF NOT EXISTS postgres_fdw;
  GRANT USAGE ON FOREIGN DATA WRAPPER postgres_fdw TO tapekeep_owner`;

/** Connects as the program to its archive. @param password that of the superuser */
export function programUrl(port: number, password: string): string {
  return urlOf(PROGRAM_LOGIN, programPassword(password), port, DATABASE);
}

function urlOf(user: string, password: string, port: number, database: string): string {
  // Whatever PGSSLMODE says in the shell, also in that of who is given the address.
  return `postgresql://${user}:${password}@127.0.0.1:${port}/${database}?sslmode=disable`;
}

/** Follows from the superuser's, which does not follow from it. */
function derivedPassword(password: string, login: string): string {
  return createHmac('sha256', password).update(login).digest('hex');
}

const programPassword = (password: string) => derivedPassword(password, PROGRAM_LOGIN);

/** A login of people, who only read. */
export interface Reader {
  readonly name: string;
  readonly password: string;
}

/** What is wanted of it: null is the one that it has, or one that is made. */
export type ReaderWanted = { readonly [K in keyof Reader]: string | null };

/** The reader's login as its file says it; undefined before the first start. */
export async function readReader(path: string): Promise<Reader | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const [, name, password] = /^([^:\n]+):([^\n]+)\n$/.exec(text) ?? [];
  return name === undefined || password === undefined ? undefined : { name, password };
}

/** The reader's address of the archive. */
export function readerUrl(port: number, { name, password }: Reader): string {
  return urlOf(name, encodeURIComponent(password), port, DATABASE);
}

/**
 * Makes or changes the login that only reads, where its file says another than is wanted. The file follows
 * the database, so that a start that was killed in between does it again.
 *
 * @throws the driver's errors
 */
export async function settleReader(
  { connection, password: secret }: Running,
  path: string,
  wanted: ReaderWanted,
): Promise<Reader> {
  const settled = await readReader(path);
  const name = wanted.name ?? settled?.name ?? STANDARD_READER;
  const kept = settled?.name === name ? settled.password : null;
  const password = wanted.password ?? kept ?? derivedPassword(secret, `reader ${name}`);
  if (settled?.name === name && settled.password === password) return settled;
  const role = `"${name}"`;
  const isMade = await isTrue(connection, `SELECT to_regrole('${role}') IS NOT NULL`);
  await connection.rows(`
    ${isMade ? '' : `CREATE ROLE ${role};`}
    ALTER ROLE ${role} LOGIN PASSWORD '${password.replaceAll("'", "''")}';
    ALTER ROLE ${role} SET default_transaction_read_only = on;
    ALTER ROLE ${role} SET search_path = analytics, public;
    COMMENT ON ROLE ${role} IS 'People who only read this archive log in as this role.';
    GRANT tapekeep_reader TO ${role};
    ${settled === undefined || settled.name === name ? '' : `ALTER ROLE "${settled.name}" NOLOGIN;`}`);
  await writeFile(`${path}.new`, `${name}:${password}\n`, { mode: 0o600 });
  await rename(`${path}.new`, path);
  return { name, password };
}

/** A server that serves, with a connection whose end reports that of the server. */
export interface Running {
  readonly pid: number;
  readonly port: number;
  readonly password: string;
  readonly connection: Connection;
}

/**
 * Connects as the superuser. A port that is another program's by now is not asked.
 *
 * @returns undefined when no server of this cluster answers there
 */
export async function joinServer(
  { pid, port }: Pick<Running, 'pid' | 'port'>,
  { password, clusterDir, clock }: { password: string; clusterDir: string; clock: Clock },
): Promise<Running | undefined> {
  if (port === 0 || (await whose(pid, clusterDir)) === 'other') return undefined;
  let connection: Connection | undefined;
  try {
    connection = await openAsSuperuser(clock, port, password, MAINTENANCE);
    const [row] = await connection.rows<{ folder: string }>(
      `SELECT current_setting('data_directory') AS folder`,
    );
    if ((await realpath(row?.folder ?? '')) === (await realpath(clusterDir))) {
      return { pid, port, password, connection };
    }
  } catch {
    // Down, starting, or the server of another cluster.
  }
  await connection?.close();
  return undefined;
}

/**
 * Whether the process is proven to be the server that was joined: by the process behind an open connection to it,
 * whose parent it is, else by its working folder.
 */
export async function isServer({ pid, connection }: Running, clusterDir: string): Promise<boolean> {
  if (connection.isLost) return (await whose(pid, clusterDir)) === 'ours';
  return process.platform !== 'linux' || (await parentOf(connection.pid)) === pid;
}

/**
 * Makes the database of the archive and the program's login, on a server that serves. The owner of the database
 * shows that all is done.
 *
 * @throws the driver's errors
 */
export async function settleLogins(
  { connection, port, password }: Running,
  clock: Clock,
): Promise<void> {
  const [found] =
    await connection.rows<Record<'hasLogin' | 'hasDatabase' | 'isOwner', boolean>>(LOOK);
  if (found?.isOwner === true) return;
  await makeRoles(connection);
  if (found?.hasLogin !== true) {
    await connection.rows(
      `CREATE ROLE ${PROGRAM_LOGIN} LOGIN PASSWORD '${programPassword(password)}';
       COMMENT ON ROLE ${PROGRAM_LOGIN} IS 'The programs of this archive log in as this role.';
       GRANT tapekeep_owner TO ${PROGRAM_LOGIN}`,
    );
  }
  if (found?.hasDatabase !== true) await connection.rows(`CREATE DATABASE ${DATABASE}`);
  const archive = await openAsSuperuser(clock, port, password, DATABASE);
  try {
    await archive.rows(CLOSE_JOURNAL);
    await archive.rows(MAKE_WRAPPER);
  } finally {
    await archive.close();
  }
  await connection.rows(`ALTER DATABASE ${DATABASE} OWNER TO ${PROGRAM_LOGIN}`);
}

/** Gives the database of the archive a name as a copy, by which it differs from its original. @param copy hex digits */
export async function markAsCopy({ connection }: Running, copy: string): Promise<void> {
  await connection.rows(`ALTER DATABASE ${DATABASE} SET ${COPY_SETTING} = '${copy}'`);
}

/** Writes the program's password down for people, where that can be written. */
export async function writeProgramPassword(path: string, password: string): Promise<void> {
  const text = `${programPassword(password)}\n`;
  if ((await readFile(path, 'utf8').catch(() => '')) === text) return;
  await writeFile(path, text, { mode: 0o600 }).catch(() => undefined);
}

function openAsSuperuser(
  clock: Clock,
  port: number,
  password: string,
  database: string,
): Promise<Connection> {
  const databaseUrl = urlOf(EMBEDDED_SUPERUSER, password, port, database);
  const limits = { connectTimeoutMs: CONNECT_TIMEOUT_MS, statementTimeoutMs: 0 };
  return Connection.open({ databaseUrl, clock, ...limits }, { silenceMs: null });
}
