import { readdir, rmdir } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '../../kernel/clock.js';
import { addedByServer, messageOf, TapekeepError } from '../../kernel/errors.js';
import { makeTemporary } from '../../kernel/folders.js';
import { SERIES_TABLES, seriesOf } from '../../model/series.js';
import type { StoreEvents } from '../../observe/events.js';
import { describeAddress } from '../address.js';
import { Connection, checkDatabase, isTrue, type Runner, refuseReadOnly } from '../connection.js';
import { actionOf, isState, StoreError, sqlstateOf } from '../errors.js';
import { refuseSharedSession } from '../pooling.js';
import {
  type AnalyticsOutcome,
  BEGIN_ALONE,
  MIGRATIONS_TABLE,
  packageRoot,
  replaceAnalytics,
} from './analytics.js';
import { settleColdWrapper } from './cold-server.js';
import { type RolesOutcome, settleRoles } from './roles.js';

/** How much time one partition holds. All boundaries are UTC. */
export type PartitionWidth = 'day' | 'month';

/** What {@link migrate} needs. */
export interface MigrateOptions {
  readonly databaseUrl: string;
  readonly connectTimeoutMs?: number;
  readonly telemetry?: StoreEvents;
  /** Called as each migration begins. */
  readonly onStep?: (step: MigrationStep) => void;
}

/** The migration that is applied now: its name, and its place among those that are to be. */
export interface MigrationStep {
  readonly name: string;
  /** From 1 on. */
  readonly at: number;
  readonly total: number;
}

/** `0001_name.sql`: the number gives the order. */
const MIGRATION_FILE = /^\d{4}_[a-z0-9_]+\.sql$/;
/** What node-pg-migrate logs before a migration; it tells in no other way. */
const RUNNERS_STEP = /MIGRATION (\S+) \(UP\)/;
/** As node-pg-migrate would make it; here, because it is locked before anything is looked at. */
const CREATE_MIGRATIONS_TABLE = `
  CREATE TABLE IF NOT EXISTS public.${MIGRATIONS_TABLE} (
    id SERIAL PRIMARY KEY, name varchar(255) NOT NULL, run_on timestamp NOT NULL)`;
const APPLIED_MIGRATIONS = `SELECT name FROM ${MIGRATIONS_TABLE} ORDER BY id`;
const HAS_MIGRATIONS_TABLE = `SELECT to_regclass('${MIGRATIONS_TABLE}') IS NOT NULL`;
const FIND_POLICY = 'SELECT table_name FROM partition_policy';
const SETTLE_POLICY = `
  INSERT INTO partition_policy (table_name, width)
  SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`;
/** A user with the rights of the tables' owner may change them; before there are tables, any user. */
const IS_OWNER = `
  SELECT coalesce((SELECT pg_has_role(relowner, 'USAGE') FROM pg_class
                   WHERE oid = to_regclass('${MIGRATIONS_TABLE}')), true) AS is_owner`;

/** Of a question that takes no time. */
const PROBE_TIMEOUT_MS = 30_000;

const WIDTHS = Object.fromEntries(SERIES_TABLES.map((table) => [table, seriesOf(table).partition]));

async function knownMigrations(): Promise<string[]> {
  const names = await readdir(join(packageRoot(), 'sql'));
  return names
    .filter((name) => MIGRATION_FILE.test(name))
    .map((name) => name.slice(0, -'.sql'.length))
    .sort();
}

/**
 * Checks that database and program fit each other.
 *
 * @throws {@link StoreError} `database_too_new` or `database_not_migrated`
 */
export async function checkMigrated(database: Runner, databaseUrl: string): Promise<void> {
  const { missing, isNew } = await findMissing(database, databaseUrl);
  if (missing.length === 0) return;
  const lack = isNew ? 'holds no archive yet' : `lacks the migration ${missing.join(', ')}`;
  throw new StoreError(
    'database_not_migrated',
    `the database at ${describeAddress(databaseUrl)} ${lack}: run "tapekeep migrate" first, or "tapekeep start"`,
  );
}

/** @throws {@link StoreError} `database_too_new` */
async function findMissing(
  database: Runner,
  databaseUrl: string,
): Promise<{ readonly missing: readonly string[]; readonly isNew: boolean }> {
  const rows = (await isTrue(database, HAS_MIGRATIONS_TABLE))
    ? await database.rows<{ name: string }>(APPLIED_MIGRATIONS)
    : [];
  const applied = rows.map(({ name }) => name);
  const known = await knownMigrations();
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length === 0) {
    const missing = known.filter((name) => !applied.includes(name));
    return { missing, isNew: applied.length === 0 };
  }
  throw new StoreError(
    'database_too_new',
    `the database at ${describeAddress(databaseUrl)} was made by another version of tapekeep (${unknown.join(', ')}): use that version, or a new database`,
  );
}

/** What a migration found and did. */
export interface MigrationReport {
  /** Names of the migrations applied now. */
  readonly applied: readonly string[];
  readonly analytics: AnalyticsOutcome;
  readonly roles: RolesOutcome;
  /** Advice where nothing can be archived; null when it can, or where this user cannot tell. */
  readonly archiving: string | null;
}

/**
 * Brings the database up to this program's schema. Any number of programs may try at once: they
 * take turns, and the later ones find the work done. The analytics schema and the roles, which are
 * settled as well, never keep the archive from working.
 *
 * A user without the rights of the tables' owner may call it too, as a daemon that only writes does:
 * it checks that nothing is missing and changes nothing.
 *
 * @throws {@link StoreError} when the database is newer than the program, too old, or refuses.
 */
export async function migrate(options: MigrateOptions): Promise<MigrationReport> {
  const { databaseUrl } = options;
  const limits = { connectTimeoutMs: options.connectTimeoutMs ?? 10_000, statementTimeoutMs: 0 };
  // Statements take as long as they take.
  const use = { silenceMs: null };
  const address = { databaseUrl, clock: systemClock, ...limits };
  const connection = await Connection.open(address, use);
  try {
    await checkDatabase(connection, databaseUrl);
    await refuseSharedSession(connection, { ...address, statementTimeoutMs: PROBE_TIMEOUT_MS });
    await refuseReadOnly(connection, databaseUrl);
    const isOwner = await isTrue(connection, IS_OWNER);
    const applied = await applyMissing(connection, options, isOwner);
    await settlePolicy(connection, isOwner);
    const analytics = await replaceAnalytics(connection, isOwner);
    const roles = await settleRoles(connection, isOwner);
    const archiving = isOwner ? await settleColdWrapper(connection) : null;
    if (applied.length > 0) options.telemetry?.migrated({ applied });
    return { applied, analytics, roles, archiving };
  } catch (error) {
    throw migrationFailed(error, databaseUrl, connection.isLost);
  } finally {
    await connection.close();
  }
}

async function applyMissing(
  connection: Connection,
  { databaseUrl, onStep }: MigrateOptions,
  isOwner: boolean,
): Promise<string[]> {
  const { missing } = await findMissing(connection, databaseUrl);
  if (missing.length === 0) return [];
  if (!isOwner) throw notOwner(missing, databaseUrl);
  const silent = () => undefined;
  const begun = (text: unknown) => {
    const name = RUNNERS_STEP.exec(String(text))?.[1] ?? '';
    const at = missing.indexOf(name) + 1;
    if (at > 0) onStep?.({ name, at, total: missing.length });
  };
  await connection.rows(CREATE_MIGRATIONS_TABLE).catch((error: unknown) => {
    if (!isState(error, 'made meanwhile')) throw error;
  });
  // One of the runner's packages makes a folder there as it is loaded, and tries for ever where it cannot (as in /proc).
  await rmdir(await makeTemporary('tapekeep-migrate-'));
  // Loaded where something is to be applied: every start looks, and few find anything.
  const { runner } = await import('node-pg-migrate');
  // A loser of the race waits here and finds the work done. The runner's own BEGIN adds nothing, and
  // its COMMIT or ROLLBACK ends this transaction.
  await connection.rows(BEGIN_ALONE);
  const done = await runner({
    dbClient: connection.driver,
    dir: join(packageRoot(), 'sql'),
    // Everything that is not a numbered migration: folders of replaceable SQL live beside them.
    ignorePattern: '(?!\\d{4}_[a-z0-9_]+\\.sql$).*',
    direction: 'up',
    migrationsTable: MIGRATIONS_TABLE,
    singleTransaction: true,
    checkOrder: true,
    noLock: true,
    logger: { debug: silent, info: begun, warn: silent, error: silent },
  });
  await connection.rows('COMMIT');
  return done.map(({ name }) => name);
}

function notOwner(missing: readonly string[], databaseUrl: string): StoreError {
  return new StoreError(
    'migration_failed',
    `the database at ${describeAddress(databaseUrl)} lacks the migration ${missing.join(', ')}, and this user is not of the tables' owner: run "tapekeep migrate" as a member of tapekeep_owner`,
  );
}

async function settlePolicy(connection: Runner, isOwner: boolean): Promise<void> {
  const rows = await connection.rows<{ tableName: string }>(FIND_POLICY);
  const settled = new Set(rows.map(({ tableName }) => tableName));
  if (!isOwner || Object.keys(WIDTHS).every((table) => settled.has(table))) return;
  await connection.rows(SETTLE_POLICY, [Object.keys(WIDTHS), Object.values(WIDTHS)]);
}

/** What is applied is applied in one transaction: of a lost connection all may be tried again. */
function migrationFailed(error: unknown, databaseUrl: string, isLost: boolean): Error {
  if (error instanceof TapekeepError) return error;
  const isPassing = isLost || (actionOf(error) === 'retry' && sqlstateOf(error) !== undefined);
  return new StoreError(
    'migration_failed',
    `the database at ${describeAddress(databaseUrl)} could not be migrated: ${messageOf(error)}${addedByServer(error)}`,
    { action: isPassing ? 'retry' : 'fatal', cause: error, sqlstate: sqlstateOf(error) },
  );
}
