import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after } from 'node:test';
import pg from 'pg';
import { systemClock } from '../../src/kernel/clock.js';
import { systemRandom } from '../../src/kernel/random.js';
import type { StoreEvents } from '../../src/observe/events.js';
import {
  migrate,
  openStore,
  type Store,
  type StoreOptions,
  startEmbeddedPostgres,
} from '../../src/store/index.js';

/**
 * A real Postgres for tests. `test/run.ts` starts one server for the run and hands its address
 * on in {@link POSTGRES_VARIABLE}; a test file that runs alone starts its own. Each file works in
 * databases of its own, copied from a template that was migrated once.
 */
export const POSTGRES_VARIABLE = 'TAPEKEEP_TEST_POSTGRES';
const TEMPLATE = 'tapekeep_template';

export interface TestPostgres {
  readonly url: string;
  stop(): Promise<void>;
}

/** Discards every event; tests override the ones that they watch. */
export function quietStoreEvents(watched: Partial<StoreEvents> = {}): StoreEvents {
  const ignore = () => undefined;
  return {
    committed: ignore,
    commitFailed: ignore,
    queueChanged: ignore,
    quarantined: ignore,
    partitionMade: ignore,
    partitionLead: ignore,
    databaseState: ignore,
    migrated: ignore,
    embeddedPostgres: ignore,
    ...watched,
  };
}

export function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

/** Starts a server in a temporary folder and migrates the template. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const dir = await mkdtemp(join(tmpdir(), 'tapekeep-test-'));
  const server = await startEmbeddedPostgres({
    dataDir: join(dir, 'data'),
    clock: systemClock,
    telemetry: quietStoreEvents(),
  });
  await runSql(server.url, `CREATE DATABASE ${TEMPLATE}`);
  await migrate({ databaseUrl: withDatabase(server.url, TEMPLATE) });
  return {
    url: server.url,
    async stop() {
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

let shared: Promise<TestPostgres> | undefined;

/** The server of this run; one of its own when the file runs alone. */
export function testPostgres(): Promise<TestPostgres> {
  shared ??= (async () => {
    const given = process.env[POSTGRES_VARIABLE];
    if (given !== undefined && given !== '') return { url: given, stop: async () => undefined };
    return await startTestPostgres();
  })();
  return shared;
}

/** Runs one statement on a connection of its own. */
export async function runSql<Row extends object>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}

const created: string[] = [];
const opened: Store[] = [];

/** A migrated database of its own (or an empty one), dropped when the file ends. */
export async function makeDatabase(kind: 'migrated' | 'empty' = 'migrated'): Promise<string> {
  const { url } = await testPostgres();
  const name = `test_${randomBytes(6).toString('hex')}`;
  const template = kind === 'migrated' ? TEMPLATE : 'template0';
  await runSql(url, `CREATE DATABASE ${name} TEMPLATE ${template}`);
  created.push(name);
  return withDatabase(url, name);
}

/** Opens a store, stopped when the file ends. Without a database URL it gets one of its own. */
export async function openTestStore(
  options: Partial<StoreOptions> = {},
): Promise<{ store: Store; url: string }> {
  const url = options.databaseUrl ?? (await makeDatabase());
  const store = await openStore({
    clock: systemClock,
    random: systemRandom,
    telemetry: quietStoreEvents(),
    commitLatencyMs: 2,
    ...options,
    databaseUrl: url,
  });
  opened.push(store);
  return { store, url };
}

after(async () => {
  for (const store of opened) await store.stop();
  if (shared === undefined) return;
  const server = await shared;
  for (const name of created) await runSql(server.url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
  await server.stop();
});
