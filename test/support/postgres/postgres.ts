import { randomBytes } from 'node:crypto';
import { after } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { systemRandom } from '../../../src/kernel/random.js';
import { openStore, type Store, type StoreOptions } from '../../../src/store/index.js';
import {
  quietStoreEvents,
  runSql,
  startQuickPostgres,
  TEMPLATE,
  type TestPostgres,
  withDatabase,
} from './postgres-server.js';
import { POSTGRES_VARIABLE } from './postgres-variable.js';

/**
 * A real Postgres for a test file. `test/run.ts` starts one server for the run; a file that runs
 * alone starts its own. Each file works in databases of its own, copied from a template, and
 * leaves nothing behind.
 */
export { quietStoreEvents, runSql, withDatabase };

const DROPPED_AT_ONCE = 8;

let shared: Promise<TestPostgres> | undefined;
const created = new Set<string>();
const opened: Store[] = [];

/** The server of this run; one of its own when the file runs alone. */
export function testPostgres(): Promise<TestPostgres> {
  const given = process.env[POSTGRES_VARIABLE];
  shared ??=
    given === undefined || given === ''
      ? startQuickPostgres()
      : Promise.resolve({ url: given, stop: () => Promise.resolve() });
  return shared;
}

/** A migrated database of its own (or an empty one), dropped when the file ends. */
export async function makeDatabase(kind: 'migrated' | 'empty' = 'migrated'): Promise<string> {
  const { url } = await testPostgres();
  const name = `test_${randomBytes(6).toString('hex')}`;
  const template = kind === 'migrated' ? TEMPLATE : 'template0';
  await runSql(url, `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
  created.add(name);
  return withDatabase(url, name);
}

/** Drops a database that is needed no more, where a file makes very many of them. */
export async function dropDatabase(databaseUrl: string): Promise<void> {
  const name = new URL(databaseUrl).pathname.slice(1);
  if (!created.delete(name)) throw new Error(`${name} was not made by this file`);
  const { url } = await testPostgres();
  await runSql(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
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
  const urls = [...created].map((name) => withDatabase(server.url, name));
  // Each waits for a checkpoint: some at a time share theirs.
  while (urls.length > 0) await Promise.all(urls.splice(0, DROPPED_AT_ONCE).map(dropDatabase));
  await server.stop();
});

/** What is remembered of a stream's gaps, of filled ones as well; newest first. */
export async function rememberedGaps(store: Store, { streamId }: { readonly streamId: number }) {
  const rows = await store.query<{ id: number }>(
    `SELECT gap_id::float8 AS id FROM gap WHERE stream_id = $1 ORDER BY lower(span) DESC, gap_id DESC`,
    [streamId],
  );
  const gaps = await Promise.all(rows.map(({ id }) => store.inspection.gap(id)));
  return gaps.filter((one) => one !== null);
}
