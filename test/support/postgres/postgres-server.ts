import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, mkdtemp, readFile, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import pg from 'pg';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import type { StoreEvents } from '../../../src/observe/events.js';
import { silentStoreEvents } from '../../../src/observe/events.js';
import { chooseAccount, commandAs, MINIMAL_ENV } from '../../../src/store/embedded/accounts.js';
import { findBinaries } from '../../../src/store/embedded/binaries.js';
import { clusterPaths, readPassword } from '../../../src/store/embedded/cluster.js';
import { EMBEDDED_SUPERUSER } from '../../../src/store/embedded/logins.js';
import { readPostmaster } from '../../../src/store/embedded/server.js';
import {
  migrate,
  openStore,
  type Store,
  type StoreOptions,
  startEmbeddedPostgres,
} from '../../../src/store/index.js';

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

/** Copies a database of a server, and returns the address of the copy. */
export async function copyDatabase(url: string, name: string, of = TEMPLATE): Promise<string> {
  await runSql(url, `CREATE DATABASE ${name} TEMPLATE ${of}`);
  return withDatabase(url, name);
}

/** Opens a store that its caller stops. */
export function openPlainStore(
  databaseUrl: string,
  options: Partial<StoreOptions> = {},
): Promise<Store> {
  const telemetry = quietStoreEvents();
  return openStore({
    ...{ databaseUrl, clock: systemClock, random: systemRandom, telemetry },
    ...options,
  });
}

/** A temporary folder that other users can enter: as root, the server runs as one of them. */
export async function makeTempDir(parent = tmpdir()): Promise<string> {
  const dir = await mkdtemp(join(parent, 'tapekeep-test-'));
  await chmod(dir, 0o755);
  return dir;
}

/** Starts a server in a temporary folder, with the settings of the program, and migrates the template. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const dir = await makeTempDir();
  const { url, server } = await makeServer(dir);
  return {
    url,
    async stop() {
      await server.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function makeServer(dir: string) {
  const dataDir = join(dir, 'data');
  const telemetry = quietStoreEvents();
  const server = await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry });
  const url = await asSuperuser(server.url, dataDir);
  await runSql(url, `CREATE DATABASE ${TEMPLATE}`);
  await migrate({ databaseUrl: withDatabase(url, TEMPLATE) });
  return { url, server, dataDir };
}

/**
 * What differs from the program's own settings where databases are made and dropped all the time. It would
 * not outlive a loss of power, which no test brings about, and is not for measuring.
 */
const QUICK_SETTINGS: Readonly<Record<string, string | number>> = {
  ...{ fsync: 'off', full_page_writes: 'off', wal_compression: 'off', max_wal_size: '256MB' },
  // Several files at a time have a few stores each.
  max_connections: 200,
  logging_collector: 'off',
};

/** A database has some hundred files, for seconds: to make and delete them is hard work on a disk. */
const MEMORY_DIR = '/dev/shm';
const MEMORY_BYTES = 4 * 2 ** 30;

/**
 * The same for the files of a run; else it is as the program makes it, with its users and rights.
 *
 * @param more settings of the server, such as those of a publisher
 */
export async function startQuickPostgres(
  more: Readonly<Record<string, string | number>> = {},
): Promise<TestPostgres> {
  const memory = await statfs(MEMORY_DIR).catch(() => undefined);
  const isRoomy = memory !== undefined && memory.bavail * memory.bsize >= MEMORY_BYTES;
  const dir = await makeTempDir(isRoomy ? MEMORY_DIR : undefined);
  const made = await makeServer(dir);
  const { clusterDir } = clusterPaths(made.dataDir);
  const { pid = 0 } = (await readPostmaster(clusterDir)) ?? {};
  const [, ...args] = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).split('\0').slice(0, -1);
  await made.server.stop();
  const others = Object.entries({ ...QUICK_SETTINGS, ...more }).flatMap((entry) => [
    '-c',
    entry.join('='),
  ]);
  const server = await launch(made.dataDir, clusterDir, [...args, ...others]);
  return {
    url: made.url,
    async stop() {
      const ended = once(server, 'close');
      // Nothing is to be kept.
      server.kill('SIGQUIT');
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Starts a server on a cluster that was made, with settings of its own. */
export async function launch(dataDir: string, clusterDir: string, args: readonly string[]) {
  const binaries = await findBinaries();
  const account = await chooseAccount(binaries, dataDir, clusterDir);
  const { file, args: given, uid, gid } = commandAs(account, binaries.postgres, args);
  const server = spawn(file, [...given], {
    ...{ uid, gid, env: MINIMAL_ENV },
    cwd: '/',
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  server.once('error', () => undefined);
  const said: string[] = [];
  for await (const line of createInterface({ input: server.stderr })) {
    if (line.endsWith('database system is ready to accept connections')) {
      server.stderr.resume();
      return server;
    }
    said.push(line);
  }
  throw new Error(`the server of the tests did not start:\n${said.join('\n')}`);
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
