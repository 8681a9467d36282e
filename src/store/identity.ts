import type { Runner } from './connection.js';

/** Identifies a database among all others, also beside a restored copy of it. */
export interface DatabaseIdentity {
  /** Name of the exchange that it belongs to; null: of none yet. */
  readonly archive: string | null;
  /** Name of the database, for people. */
  readonly database: string;
  /** System identifier of the Postgres server; null where the login may not ask for it. */
  readonly system: string | null;
  readonly databaseOid: number;
  /** Oid of the table `archive`, which a dump makes again under another one. */
  readonly tableOid: number;
  /** Name that `tapekeep recover` gave to a copy of all these; null: an original. */
  readonly copy: string | null;
}

/** Setting of a database that names it as a copy, which a standby of it shares. */
export const COPY_SETTING = 'tapekeep.copy';

/** Returns what a base backup or a standby shares with its original, and a restored dump does not. */
export async function readDatabaseIdentity(runner: Runner): Promise<DatabaseIdentity> {
  const [row] = await runner.rows<Omit<DatabaseIdentity, 'system'> & { mayAsk: boolean }>(`
    SELECT (SELECT name FROM archive) AS archive, d.datname AS database, d.oid::bigint::float8 AS database_oid,
           'archive'::regclass::oid::bigint::float8 AS table_oid,
           nullif(current_setting('${COPY_SETTING}', true), '') AS copy,
           has_function_privilege('pg_catalog.pg_control_system()', 'execute') AS may_ask
    FROM pg_database d WHERE d.datname = current_database()`);
  if (row === undefined) throw new Error('a database has a name');
  const { mayAsk, ...identity } = row;
  const [control] = mayAsk
    ? await runner.rows<{ system: string }>(
        'SELECT system_identifier::text AS system FROM pg_control_system()',
      )
    : [];
  return { ...identity, system: control?.system ?? null };
}

/** Names may change; the system is unknown where the login may not ask for it. */
export function isSameDatabase(one: DatabaseIdentity, other: DatabaseIdentity): boolean {
  const isSystem = one.system === null || other.system === null || one.system === other.system;
  const isOids = one.databaseOid === other.databaseOid && one.tableOid === other.tableOid;
  return isSystem && isOids && one.copy === other.copy;
}

export function nameOfDatabase(one: DatabaseIdentity): string {
  const { archive, database, system, databaseOid, copy } = one;
  const of = archive === null ? '' : `, archive of ${archive}`;
  const copied = copy === null ? '' : `, recovered copy ${copy}`;
  return `${database} (Postgres system ${system ?? 'unknown'}, oid ${databaseOid}${copied}${of})`;
}
