import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { runner } from 'node-pg-migrate';
import pg from 'pg';
import { messageOf } from '../kernel/errors.js';
import type { MigrateOptions, PartitionedTable, PartitionWidth } from './api.js';
import { checkServerVersion, clientConfig, connectFailure, describeAddress } from './connection.js';
import type { Runner } from './database.js';
import { StoreError } from './errors.js';
import { packageRoot } from './package-root.js';
import { actionOf, sqlstateOf } from './sqlstate.js';

/** Where node-pg-migrate remembers what was applied. */
const MIGRATIONS_TABLE = 'tapekeep_migration';
/** `0001_name.sql`: the number gives the order. */
const MIGRATION_FILE = /^\d{4}_[a-z0-9_]+\.sql$/;
const LOCK_MIGRATIONS = "SELECT pg_advisory_lock(hashtext('tapekeep migrations'), 0)";
const APPLIED_MIGRATIONS = `SELECT name FROM ${MIGRATIONS_TABLE} ORDER BY id`;
const FIND_MIGRATIONS_TABLE = `SELECT to_regclass('${MIGRATIONS_TABLE}') IS NOT NULL AS exists`;
const SETTLE_POLICY = `
  INSERT INTO partition_policy (table_name, width)
  SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING`;

const DEFAULT_WIDTHS: Readonly<Record<PartitionedTable, PartitionWidth>> = {
  trade: 'day',
  kline: 'month',
  kline_revision: 'month',
  ticker: 'day',
  depth: 'day',
  market_state: 'day',
  balance: 'month',
  active_order: 'month',
};

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
  const [found] = await database.rows<{ exists: boolean }>(FIND_MIGRATIONS_TABLE);
  const applied =
    found?.exists === true ? await database.rows<{ name: string }>(APPLIED_MIGRATIONS) : [];
  const names = applied.map(({ name }) => name);
  const known = await knownMigrations();
  refuseNewer(names, known, databaseUrl);
  const missing = known.filter((name) => !names.includes(name));
  if (missing.length === 0) return;
  throw new StoreError(
    'database_not_migrated',
    'fatal',
    `the database at ${describeAddress(databaseUrl)} lacks the migration ${missing.join(', ')}: run the migrations first`,
  );
}

function refuseNewer(applied: readonly string[], known: readonly string[], url: string): void {
  const unknown = applied.filter((name) => !known.includes(name));
  if (unknown.length === 0) return;
  throw new StoreError(
    'database_too_new',
    'fatal',
    `the database at ${describeAddress(url)} was migrated by a newer tapekeep (${unknown.join(', ')}): use that version or a later one`,
  );
}

/**
 * Brings the database up to this program's schema. Any number of programs may try at once: they
 * take turns, and the later ones find the work done.
 *
 * @returns the names of the migrations applied now.
 * @throws {@link StoreError} when the database is newer than the program, too old, or refuses.
 */
export async function migrate(options: MigrateOptions): Promise<string[]> {
  const { databaseUrl } = options;
  const client = new pg.Client(
    clientConfig({ databaseUrl, connectTimeoutMs: options.connectTimeoutMs ?? 10_000 }),
  );
  client.on('error', () => undefined);
  try {
    await client.connect();
  } catch (error) {
    await client.end().catch(() => undefined);
    throw connectFailure(error, databaseUrl);
  }
  try {
    await checkServerVersion((sql) => client.query(sql), databaseUrl);
    // Blocking: a loser of the race waits for the winner. Freed with the connection.
    await client.query(LOCK_MIGRATIONS);
    const applied = await applyMissing(client, databaseUrl);
    await settlePolicy(client, options);
    if (applied.length > 0) options.telemetry?.migrated({ applied });
    return applied;
  } catch (error) {
    throw migrationFailed(error, databaseUrl);
  } finally {
    await client.end().catch(() => undefined);
  }
}

async function applyMissing(client: pg.Client, databaseUrl: string): Promise<string[]> {
  const { rows: found } = await client.query<{ exists: boolean }>(FIND_MIGRATIONS_TABLE);
  if (found[0]?.exists === true) {
    const { rows } = await client.query<{ name: string }>(APPLIED_MIGRATIONS);
    const names = rows.map(({ name }) => name);
    refuseNewer(names, await knownMigrations(), databaseUrl);
  }
  const silent = () => undefined;
  const done = await runner({
    dbClient: client,
    dir: join(packageRoot(), 'sql'),
    // Everything that is not a numbered migration: folders of replaceable SQL live beside them.
    ignorePattern: '(?!\\d{4}_[a-z0-9_]+\\.sql$).*',
    direction: 'up',
    migrationsTable: MIGRATIONS_TABLE,
    singleTransaction: true,
    checkOrder: true,
    noLock: true,
    logger: { debug: silent, info: silent, warn: silent, error: silent },
  });
  return done.map(({ name }) => name);
}

async function settlePolicy(client: pg.Client, options: MigrateOptions): Promise<void> {
  const widths = { ...DEFAULT_WIDTHS, ...options.partitionWidths };
  await client.query(SETTLE_POLICY, [Object.keys(widths), Object.values(widths)]);
}

function migrationFailed(error: unknown, databaseUrl: string): Error {
  if (error instanceof StoreError) return error;
  const isPassing = actionOf(error) === 'retry' && sqlstateOf(error) !== undefined;
  return new StoreError(
    'migration_failed',
    isPassing ? 'retry' : 'fatal',
    `the database at ${describeAddress(databaseUrl)} could not be migrated: ${messageOf(error)}`,
    { cause: error, sqlstate: sqlstateOf(error) },
  );
}
