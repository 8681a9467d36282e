import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { openReading } from '../../src/archive/reading.js';
import { systemClock } from '../../src/kernel/clock.js';
import { migrate } from '../../src/store/index.js';
import { makeDatabase, openTestStore, runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { claim, trade } from '../support/postgres/postgres-rows.js';
import { openSql } from '../support/postgres/postgres-server.js';
import { ALL_AT_ONCE, live, openSealingWorld } from '../support/worlds/sealing-world.js';
import { BTC } from '../support/worlds/store-world.js';

/** Locks: a login that may only read holds nothing that the daemon waits for. */

/** Every key of the advisory locks that earlier versions took, and what a reader sees in pg_locks. */
const HOLD_ALL = `
  SELECT pg_advisory_lock(hashtext('tapekeep ' || name), id)
  FROM unnest(ARRAY['writer', 'market', 'partitions', 'readers', 'sealing', 'catalog', 'gaps',
                    'checks', 'migrations']) AS name,
    unnest(ARRAY[0, 1, 2, hashtext('trade'), hashtext('depth')]) AS id`;

async function hold(t: TestContext, url: string) {
  const reader = await openSql(await loginAs(url, 'tapekeep_reader'));
  t.after(() => reader.end());
  await reader.run(HOLD_ALL);
  await reader.run('BEGIN');
  await reader.run('LOCK TABLE reader_lock, trade, market, coverage IN ACCESS SHARE MODE');
  return reader;
}

test('collecting, reading, sealing and migrating go on while a reader holds all that it can', async (t) => {
  const world = await openSealingWorld(t);
  const { url, streams } = world;
  const reader = await hold(t, url);
  const [stream] = streams;
  if (stream === undefined) throw new Error('no stream');
  const { store } = await openTestStore({ databaseUrl: url, statementTimeoutMs: 20_000 });
  await store.acquireWriterLock();
  await store.ensureMarkets([BTC, { ...BTC, name: 'NEW_USDT' }], systemClock.wallMs());
  const { outcomes } = await store.commit({
    trades: [trade(90_001, 86_400)],
    claims: [claim(stream, 86_400, 86_500)],
  });
  assert.equal(outcomes.trade.stored, 1);
  await store.makePartitionsAhead(1_800_000_000_000);
  await store.recordGap({
    ...{ stream, span: { fromMs: 1, toMs: 2 }, state: 'open', reason: 'not collected', atMs: 3 },
  });
  await (await openReading(store, { cold: new FolderStorage(world.coldDir) })).close();
  await migrate({ databaseUrl: url });
  // Who reads a partition keeps it from leaving, and its indexes from being made anew; nothing else.
  await reader.run('COMMIT');
  const { outcomes: lives } = await live(world, { rules: { ...ALL_AT_ONCE } });
  assert.ok(lives.some(({ became }) => became === 'sealed'));
});

test('a reader cannot lock what writers exclude each other by', async (t) => {
  const { url } = await openTestStore();
  await migrate({ databaseUrl: url });
  const reader = await openSql(await loginAs(url, 'tapekeep_reader'));
  t.after(() => reader.end());
  const refused = { code: '42501' };
  for (const sql of [
    'SELECT FROM exclusive_lock FOR UPDATE',
    'SELECT FROM exclusive_lock FOR KEY SHARE',
    'SELECT FROM partition_policy FOR UPDATE',
    'LOCK TABLE exclusive_lock IN ROW SHARE MODE',
    'LOCK TABLE reader_lock IN SHARE MODE',
    'LOCK TABLE reader_lock IN ACCESS EXCLUSIVE MODE',
    'LOCK TABLE tapekeep_migration IN SHARE MODE',
    "SELECT hold_lock('writer')",
    "SELECT lock_rows('market', '{1}')",
    "UPDATE exclusive_lock SET pid = pg_backend_pid() WHERE name = 'writer'",
    'CREATE TEMPORARY TABLE own (a integer)',
  ]) {
    await reader.run('BEGIN');
    await assert.rejects(reader.run(sql), refused, sql);
    await reader.run('ROLLBACK');
  }
});

test('who holds a lock is named, and counts only as long as its connection lives', async (t) => {
  const { store, url } = await openTestStore();
  await store.acquireWriterLock();
  const login = await loginAs(url, 'tapekeep_writer');
  const { username } = new URL(url);
  const second = await openTestStore({ databaseUrl: login });
  const since = new Date().toISOString().slice(0, 10);
  await assert.rejects(second.store.acquireWriterLock(), {
    code: 'writer_lock_held',
    message: new RegExp(
      `^another tapekeep writes to this database \\(user ${username}, server process \\d+, application "tapekeep", since ${since} \\d\\d:\\d\\d:\\d\\dZ\\): stop it first`,
    ),
  });
  // The sign of life is taken over as soon as its holder is gone: that makes nobody a holder.
  const reader = await openSql(await loginAs(url, 'tapekeep_reader'));
  t.after(() => reader.end());
  const waiting = reader.run(
    `SELECT pg_advisory_lock(token) FROM exclusive_lock WHERE name = 'writer'`,
  );
  assert.equal(await store.inspection.isWritten(), true);
  await store.stop();
  await waiting;
  assert.equal(await second.store.inspection.isWritten(), false);
  await second.store.acquireWriterLock();
  assert.equal(await second.store.inspection.isWritten(), true);
});

test('any number of programs may take the rows of many markets at once, in any order', async () => {
  const { store, url } = await openTestStore();
  const listed = Array.from({ length: 29 }, (_, n) => ({ ...BTC, name: `M${n}_USDT` }));
  const { ids: markets } = await store.ensureMarkets(listed, systemClock.wallMs());
  const ids = [...markets.values()];
  const programs = await Promise.all(Array.from({ length: 6 }, () => openSql(url)));
  await Promise.all(
    programs.map(async (program, n) => {
      for (let round = 0; round < 10; round += 1) {
        const chosen = ids.filter((id) => (id * 7 + n * 3 + round) % 4 !== 0);
        if (n % 2 === 0) chosen.reverse();
        await program.run('BEGIN');
        await program.run(`SELECT lock_rows('market', $1)`, [chosen]);
        await program.run('COMMIT');
      }
    }),
  );
  for (const program of programs) await program.end();
  const [row] = await runSql<{ n: number }>(
    url,
    `SELECT count(*)::int AS n FROM exclusive_lock WHERE name = 'market'`,
  );
  assert.equal(row?.n, ids.length);
});

test('programs that migrate an empty database at once find one of them at work', async () => {
  const databaseUrl = await makeDatabase('empty');
  const reports = await Promise.all(Array.from({ length: 4 }, () => migrate({ databaseUrl })));
  const names = reports.flatMap(({ applied }) => applied);
  assert.ok(names.includes('0001_archive'));
  assert.equal(new Set(names).size, names.length, 'none twice');
});
