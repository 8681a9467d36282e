import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import pg from 'pg';
import { systemClock } from '../../../src/kernel/clock.js';
import type { StoreEvents } from '../../../src/observe/events.js';
import { silentStoreEvents } from '../../../src/observe/events.js';
import { clusterPaths, readPassword } from '../../../src/store/embedded/cluster.js';
import { EMBEDDED_SUPERUSER } from '../../../src/store/embedded/logins.js';
import { migrate, startEmbeddedPostgres } from '../../../src/store/index.js';

/** The database that every other is copied from: migrated once a run. */
export const TEMPLATE = 'tapekeep_template';

export interface TestPostgres {
  readonly url: string;
  stop(): Promise<void>;
}

/** Discards every event; tests override the ones that they watch. */
export function quietStoreEvents(watched: Partial<StoreEvents> = {}): StoreEvents {
  return { ...silentStoreEvents, ...watched };
}

export function withDatabase(url: string, database: string): string {
  const changed = new URL(url);
  changed.pathname = `/${database}`;
  return changed.href;
}

/** A temporary folder that other users can enter: as root, the server runs as one of them. */
export async function makeTempDir(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'tapekeep-test-'));
  await chmod(dir, 0o755);
  return dir;
}

/** Starts a server in a temporary folder and migrates the template. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const dir = await makeTempDir();
  const server = await startEmbeddedPostgres({
    dataDir: join(dir, 'data'),
    clock: systemClock,
    telemetry: quietStoreEvents(),
  });
  const url = await asSuperuser(server.url, join(dir, 'data'));
  await runSql(url, `CREATE DATABASE ${TEMPLATE}`);
  await migrate({ databaseUrl: withDatabase(url, TEMPLATE) });
  return {
    url,
    async stop() {
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** The address of an embedded server's archive for its superuser, who makes databases and users. */
export async function asSuperuser(url: string, dataDir: string): Promise<string> {
  const changed = new URL(url);
  changed.username = EMBEDDED_SUPERUSER;
  changed.password = await readPassword(clusterPaths(dataDir));
  return changed.href;
}

/** A connection whose end by the server shows only in what runs on it. */
function openClient(url: string): pg.Client {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  return client;
}

/** A connection that is kept, for looking often. */
export interface OpenSql {
  run<Row extends object>(sql: string, values?: readonly unknown[]): Promise<Row[]>;
  end(): Promise<void>;
}

export async function openSql(url: string): Promise<OpenSql> {
  const client = openClient(url);
  await client.connect();
  return {
    run: async <Row extends object>(sql: string, values: readonly unknown[] = []) =>
      (await client.query<Row>(sql, [...values])).rows,
    end: () => client.end(),
  };
}

/** Runs one statement on a connection of its own. */
export async function runSql<Row extends object>(
  url: string,
  sql: string,
  values: readonly unknown[] = [],
): Promise<Row[]> {
  const client = openClient(url);
  await client.connect();
  try {
    return (await client.query<Row>(sql, [...values])).rows;
  } finally {
    await client.end();
  }
}
