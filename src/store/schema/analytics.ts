import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { messageOf } from '../../kernel/errors.js';
import { isTrue, type Runner } from '../connection.js';
import { isState, StoreError, sqlstateOf } from '../errors.js';

/** A file of SQL that comes with the program. */
interface SqlFile {
  readonly name: string;
  readonly sql: string;
  /** Of the text: the same hash, the same definitions. */
  readonly hash: string;
}

/** The files of the definitions, in the order in which they are to be run. */
async function readSqlFiles(): Promise<SqlFile[]> {
  const dir = join(packageRoot(), 'sql/analytics');
  const names = (await readdir(dir)).filter((name) => name.endsWith('.sql')).sort();
  return await Promise.all(
    names.map(async (name) => {
      const sql = await readFile(join(dir, name), 'utf8');
      return { name, sql, hash: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

/** The folder of package.json, found upwards from here: the same from src/ and from dist/. */
export function packageRoot(): string {
  let dir = import.meta.dirname;
  while (!existsSync(join(dir, 'package.json'))) {
    const parent = dirname(dir);
    if (parent === dir) throw new Error(`no package.json above ${import.meta.dirname}`);
    dir = parent;
  }
  return dir;
}

/** Where node-pg-migrate remembers what was applied. */
export const MIGRATIONS_TABLE = 'tapekeep_migration';

/**
 * Begins a transaction in which migrations, definitions or rights change: programs that try at once
 * take turns. A lock that needs the owner's rights, and that nothing waits for which only reads.
 */
export const BEGIN_ALONE = `
  BEGIN ISOLATION LEVEL READ COMMITTED;
  LOCK TABLE public.${MIGRATIONS_TABLE} IN SHARE ROW EXCLUSIVE MODE`;

/** How long readers are waited for, and others wait behind us. */
const LOCK_TIMEOUT_MS = 3_000;

/**
 * Does some work in such a transaction, unless a lock that it needs is held for long.
 *
 * @returns undefined, and nothing has happened, where one was
 */
export async function unlessInUse<T>(
  connection: Runner,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    await connection.rows(`${BEGIN_ALONE}; SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}`);
    const result = await work();
    await connection.rows('COMMIT');
    return result;
  } catch (error) {
    await connection.rows('ROLLBACK').catch(() => undefined);
    if (!isState(error, 'lock not available')) throw error;
    return undefined;
  }
}

/**
 * Views and functions for analysts. They hold no data and are replaced whole whenever their text has
 * changed. They are bound to the tables they read, so that a numbered migration that changes a
 * column they use has to drop the schema first; it is made again at the end of the same run.
 */

/** What became of the definitions: `busy` keeps the earlier ones until the next run. */
export interface AnalyticsOutcome {
  readonly state: 'current' | 'replaced' | 'busy' | 'not_allowed';
  /** What a person should know about it; null when there is nothing to do. */
  readonly note: string | null;
}

const HAS_DEFINITIONS = `SELECT to_regclass('analytics.definition') IS NOT NULL`;
const READ_DEFINITIONS = 'SELECT name, hash FROM analytics.definition';
const CREATE_SCHEMA = `
  CREATE SCHEMA IF NOT EXISTS analytics;
  COMMENT ON SCHEMA analytics IS 'Questions to the archive, for analysts. Every object tells an example: \\dv+ and \\df+ analytics.*; what others are made of begins with Helper';
  CREATE TABLE IF NOT EXISTS analytics.definition (
    name text PRIMARY KEY,
    hash text NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now()
  );
  COMMENT ON TABLE analytics.definition IS 'Which version of these definitions is in place. Example: SELECT * FROM analytics.definition';
  COMMENT ON COLUMN analytics.definition.name IS 'File that they come from: ''10_trades.sql''.';
  COMMENT ON COLUMN analytics.definition.hash IS 'SHA-256 of its text, hexadecimal.';
  COMMENT ON COLUMN analytics.definition.made_at IS 'When it was run, clock of the database.'`;
/** Functions remember it: a schema of the asker's own must not hide the archive's tables. */
const FIX_SEARCH_PATH = `SELECT set_config('search_path', quote_ident(current_schema()), true)`;
const REMEMBER = 'INSERT INTO analytics.definition (name, hash) VALUES ($1, $2)';

/**
 * What other people built on top of ours, whatever it is: views, functions, columns of a type of ours, policies.
 * It would go with a schema that is dropped.
 */
const OUTSIDERS = `
  WITH dependent AS MATERIALIZED (
    SELECT DISTINCT d.classid, d.objid, d.objsubid
    FROM pg_depend d
    LEFT JOIN pg_class c ON d.refclassid = 'pg_class'::regclass AND c.oid = d.refobjid
    LEFT JOIN pg_proc p ON d.refclassid = 'pg_proc'::regclass AND p.oid = d.refobjid
    LEFT JOIN pg_type t ON d.refclassid = 'pg_type'::regclass AND t.oid = d.refobjid
    WHERE d.deptype = 'n'
      AND 'analytics'::regnamespace IN (c.relnamespace, p.pronamespace, t.typnamespace))
  SELECT DISTINCT CASE WHEN r.rulename = '_RETURN'
    THEN pg_describe_object('pg_class'::regclass, r.ev_class, 0)
    ELSE pg_describe_object(d.classid, d.objid, d.objsubid) END AS name
  FROM dependent d
  LEFT JOIN pg_rewrite r ON d.classid = 'pg_rewrite'::regclass AND r.oid = d.objid,
    pg_identify_object(d.classid, d.objid, d.objsubid) own,
    pg_identify_object_as_address(d.classid, d.objid, d.objsubid) address
  -- A rule, a trigger or a policy has no schema of its own: the one of its table is the first of its names.
  WHERE coalesce(own.schema, address.object_names[1]) IS DISTINCT FROM 'analytics'
  ORDER BY 1`;

/**
 * Puts the program's definitions in place, all or none of them, in one transaction. Queries under
 * way go on with the definitions that they began with.
 *
 * @throws {@link StoreError} naming what others have built upon them when that is in the way.
 */
export async function replaceAnalytics(
  connection: Runner,
  isAllowed: boolean,
): Promise<AnalyticsOutcome> {
  const files = await readSqlFiles();
  if (await isCurrent(connection, files)) return { state: 'current', note: null };
  if (!isAllowed) {
    const note = 'the analytics schema is of another version: let the owner of the tables migrate';
    return { state: 'not_allowed', note };
  }
  const state = await unlessInUse(connection, async () => {
    if (await isCurrent(connection, files)) return 'current';
    await connection.rows(FIX_SEARCH_PATH);
    await connection.rows(CREATE_SCHEMA);
    await install(connection, files);
    return 'replaced';
  });
  if (state !== undefined) return { state, note: null };
  const note =
    'a query is using the analytics schema: its earlier definitions stay until the next migration';
  return { state: 'busy', note };
}

async function isCurrent(connection: Runner, files: readonly SqlFile[]): Promise<boolean> {
  if (!(await isTrue(connection, HAS_DEFINITIONS))) return false;
  // A user without rights on the schema cannot see it, and cannot change it either.
  const reading = connection.rows<{ name: string; hash: string }>(READ_DEFINITIONS);
  const rows = await reading.catch(() => []);
  const known = new Map(rows.map(({ name, hash }) => [name, hash]));
  return known.size === files.length && files.every(({ name, hash }) => known.get(name) === hash);
}

async function install(connection: Runner, files: readonly SqlFile[]): Promise<void> {
  const rows = await connection.rows<{ name: string }>(OUTSIDERS);
  const outsiders = rows.map(({ name }) => name);
  // Dropping leaves nothing stale behind; but not at the cost of other people's work.
  if (outsiders.length === 0) {
    await connection.rows(`DROP SCHEMA analytics CASCADE; ${CREATE_SCHEMA}`);
  } else {
    await connection.rows('DELETE FROM analytics.definition');
  }
  for (const { name, sql, hash } of files) {
    try {
      await connection.rows(sql);
    } catch (error) {
      if (outsiders.length === 0 || isState(error, 'lock not available')) throw error;
      throw new StoreError(
        'migration_failed',
        `the analytics schema cannot be changed beneath ${outsiders.join(', ')} (${messageOf(error)}): drop what was built upon it, migrate, and make it again`,
        { cause: error, sqlstate: sqlstateOf(error) },
      );
    }
    await connection.rows(REMEMBER, [name, hash]);
  }
}
