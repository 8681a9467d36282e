import assert from 'node:assert/strict';
import { cp, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { filesBelow } from '../../src/archive/cold/folder.js';
import { adoptColdDir } from '../../src/archive/cold/owner.js';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openReading } from '../../src/archive/reading.js';
import type { Store } from '../../src/store/index.js';
import { openTestStore, runSql, withDatabase } from '../support/postgres/postgres.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../support/worlds/sealing-world.js';

/** A cold folder belongs to one database: a copy of it must not delete the files of the original. */

const COLD = { coldAfterMs: DAY_MS };
const RETENTION = { retentionMs: { trade: DAY_MS } };
const MARKER = 'archive.json';

const nameOf = (url: string) => new URL(url).pathname.slice(1);

/** The same rows and the same ledger in another database, with the folder of the first one. */
async function copyOf(t: TestContext, world: SealingWorld): Promise<SealingWorld> {
  await world.store.stop();
  const name = `${nameOf(world.url)}_copy`;
  const server = withDatabase(world.url, 'postgres');
  await runSql(server, `CREATE DATABASE ${name} TEMPLATE ${nameOf(world.url)}`);
  t.after(() => runSql(server, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`));
  const url = withDatabase(world.url, name);
  const { store } = await openTestStore({ databaseUrl: url });
  return { ...world, store, url };
}

async function reopened(world: SealingWorld): Promise<SealingWorld> {
  return { ...world, store: (await openTestStore({ databaseUrl: world.url })).store };
}

async function adopt({ store, coldDir }: { store: Store; coldDir: string }): Promise<void> {
  await adoptColdDir(
    new FolderStorage(coldDir),
    await store.sealing.identity(),
    await store.sealing.partitions(),
  );
}

test('a copy of a database deletes none of the original files', async (t) => {
  const first = await openSealingWorld(t);
  const rows = await allTrades(first.url);
  await live(first, { rules: COLD });
  const files = await filesBelow(first.coldDir);
  assert.equal(files.length, 3 + 6 + 1);
  const copy = await copyOf(t, first);
  const names = new RegExp(
    `belongs to the database ${nameOf(first.url)} \\(Postgres system \\d+, oid \\d+\\), and this one is ${nameOf(copy.url)} \\(Postgres system \\d+, oid \\d+\\).*"tapekeep adopt"`,
  );

  const removing = await bringBack(copy, {}, true);
  assert.deepEqual(removing.outcomes, []);
  assert.deepEqual(
    removing.failures.map(({ partition, error }) => [partition, error.code]),
    [[copy.coldDir, 'cold_refused']],
  );
  assert.match(removing.failures[0]?.error.message ?? '', names);

  const expiring = await live(copy, {
    rules: { ...COLD, ...RETENTION },
    nowMs: FIRST_MS + 9 * DAY_MS,
  });
  assert.deepEqual(
    expiring.outcomes.map(({ became }) => became),
    [],
  );
  assert.match(expiring.failures[0]?.error.message ?? '', names);

  // Rows may be read and brought back: that writes nothing to the folder.
  const reading = await openReading(copy.store, {
    cold: new FolderStorage(copy.coldDir),
    signal: new AbortController().signal,
  });
  await reading.close();
  assert.deepEqual((await bringBack(copy)).failures, []);
  assert.deepEqual(await allTrades(copy.url), rows);
  const spare = await bringBack(copy, {}, true);
  assert.equal(spare.failures[0]?.error.code, 'cold_refused');
  const leaving = await live(copy, { rules: COLD });
  assert.equal(leaving.failures[0]?.error.code, 'cold_refused');
  assert.deepEqual(await filesBelow(first.coldDir), files);

  const original = await reopened(first);
  assert.deepEqual((await bringBack(original, {}, true)).failures, []);
  assert.deepEqual(await filesBelow(first.coldDir), [MARKER]);
});

test('a folder is adopted, and then its earlier database is refused', async (t) => {
  const first = await openSealingWorld(t);
  const dayOf = (n: number) => (one: { span: { fromMs: number } }) =>
    one.span.fromMs === FIRST_MS + n * DAY_MS;
  await live(first, { rules: COLD, isChosen: dayOf(0) });
  const copy = await copyOf(t, first);
  await adopt(copy);
  assert.equal(
    JSON.parse(await readFile(join(copy.coldDir, MARKER), 'utf8')).database,
    nameOf(copy.url),
  );
  const original = await reopened(first);
  assert.equal((await bringBack(original, {}, true)).failures[0]?.error.code, 'cold_refused');
  await live(copy, { rules: COLD, isChosen: dayOf(1) });
  const states = async (store: Store) => (await tradePartitions(store)).map(({ state }) => state);
  assert.deepEqual(await states(copy.store), ['archived', 'archived', 'hot']);
  // The original would lose the day that it does not know to be in files.
  await assert.rejects(adopt(original), {
    code: 'cold_refused',
    message:
      /holds 1 partitions .*first manifests\/trade\/trade_20260114\.json, and would lose them/,
  });
  assert.deepEqual((await bringBack(copy, {}, true)).failures, []);
  await assert.rejects(adopt(original), { code: 'cold_missing' });
});

test('a folder with cold files and no readable marker is nobody’s until it is adopted', async (t) => {
  const world = await openSealingWorld(t);
  await live(world, { rules: COLD });
  const moved = `${world.coldDir}.moved`;
  t.after(() => rm(moved, { recursive: true, force: true }));
  for (const marker of [undefined, '{"name":"sandbox"}', '{']) {
    await rm(moved, { recursive: true, force: true });
    await cp(world.coldDir, moved, { recursive: true });
    if (marker === undefined) await rm(join(moved, MARKER));
    else await writeFile(join(moved, MARKER), marker);
    const there = { ...world, coldDir: moved };
    const { failures } = await bringBack(there, {}, true);
    assert.match(
      failures[0]?.error.message ?? '',
      /and no archive\.json that names their database/,
    );
    await adopt(there);
  }
  assert.deepEqual((await bringBack({ ...world, coldDir: moved }, {}, true)).failures, []);
  assert.deepEqual(await filesBelow(moved), [MARKER]);
});

test('a login that may not ask for the system identifier goes by the oids', async (t) => {
  const world = await openSealingWorld(t);
  await live(world, { rules: COLD });
  const known = await world.store.sealing.identity();
  assert.match(known.system ?? '', /^\d+$/);
  const marker = join(world.coldDir, MARKER);
  await writeFile(marker, JSON.stringify({ ...known, system: null }));
  assert.deepEqual((await bringBack(world)).failures, []);
  await writeFile(marker, JSON.stringify({ ...known, system: '1' }));
  assert.equal((await bringBack(world, {}, true)).failures[0]?.error.code, 'cold_refused');
});
