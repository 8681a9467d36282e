import { randomBytes } from 'node:crypto';
import { after } from 'node:test';
import type { Store, StoreOptions } from '../../../src/store/index.js';
import {
  openPlainStore,
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
 * alone starts its own. Each test works in databases of its own, copied from a template, and
 * leaves nothing behind: many files share a process, and all of them a server.
 */
export { quietStoreEvents, runSql, withDatabase };

let shared: Promise<TestPostgres> | undefined;
const created = new Set<string>();
const opened: Store[] = [];
/** Databases of tests that have ended. */
const unneeded: string[] = [];
const drops: Promise<void>[] = [];

/**
 * What is made belongs to the test that runs, and ends with it; what a `before` hook makes, which is done
 * before the first test begins, has to say that it is for the whole file.
 */
export type Life = 'test' | 'file';

/** Calls it after all hooks of the test that runs, also those that it is yet to give: some look at what is left. */
function atEndOfTest(end: () => Promise<void>): void {
  after(async (context) => {
    if ('after' in context) context.after(end);
    else await end();
  });
}

/**
 * The server of this run; one of its own when the file runs alone. Each caller has a promise of its own: to
 * Node, whoever waits for that of another test goes on as a part of that test, with its hooks.
 */
export async function testPostgres(): Promise<TestPostgres> {
  const given = process.env[POSTGRES_VARIABLE];
  shared ??=
    given === undefined || given === ''
      ? startQuickPostgres()
      : Promise.resolve({ url: given, stop: () => Promise.resolve() });
  return await shared;
}

/** A migrated database of its own (or an empty one), dropped some time after its life has ended. */
export async function makeDatabase(
  kind: 'migrated' | 'empty' = 'migrated',
  life: Life = 'test',
): Promise<string> {
  const { url } = await testPostgres();
  dropUnneeded();
  const name = `test_${randomBytes(6).toString('hex')}`;
  const template = kind === 'migrated' ? TEMPLATE : 'template0';
  await runSql(url, `CREATE DATABASE ${name} TEMPLATE ${template} STRATEGY FILE_COPY`);
  created.add(name);
  if (life === 'test') {
    atEndOfTest(async () => {
      unneeded.push(name);
    });
  }
  return withDatabase(url, name);
}

/** Begins to drop them; the end of the process waits for that. */
function dropUnneeded(): void {
  for (const name of unneeded.splice(0)) {
    if (created.delete(name)) drops.push(drop(name));
  }
}

async function drop(name: string): Promise<void> {
  const { url } = await testPostgres();
  await runSql(url, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`);
}

/** Drops a database that is needed no more, where a file makes very many of them. */
export async function dropDatabase(databaseUrl: string): Promise<void> {
  const name = new URL(databaseUrl).pathname.slice(1);
  if (!created.delete(name)) throw new Error(`${name} was not made by this file`);
  await drop(name);
}

/** Opens a store, stopped when its life ends. Without a database URL it gets one of its own. */
export async function openTestStore(
  options: Partial<StoreOptions> = {},
  life: Life = 'test',
): Promise<{ store: Store; url: string }> {
  const url = options.databaseUrl ?? (await makeDatabase('migrated', life));
  const store = await openPlainStore(url, { commitLatencyMs: 2, ...options, databaseUrl: url });
  if (life === 'test') atEndOfTest(() => store.stop());
  else opened.push(store);
  return { store, url };
}

after(async () => {
  for (const store of opened) await store.stop();
  if (shared === undefined) return;
  unneeded.push(...created);
  dropUnneeded();
  await Promise.all(drops);
  await (await shared).stop();
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
