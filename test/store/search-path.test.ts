import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { seededRandom } from '../../src/kernel/random.js';
import { migrate, openStore } from '../../src/store/index.js';
import { makeDatabase, quietStoreEvents, runSql } from '../support/postgres/postgres.js';

const telemetry = quietStoreEvents();

test('the archive is found whatever search path the database or the role has', async (t) => {
  const databaseUrl = await makeDatabase();
  const name = new URL(databaseUrl).pathname.slice(1);
  await runSql(databaseUrl, 'CREATE SCHEMA elsewhere');
  for (const path of [`elsewhere`, `''`, `no_such_schema, "$user"`]) {
    await runSql(databaseUrl, `ALTER DATABASE "${name}" SET search_path = ${path}`);
    const report = await migrate({ databaseUrl });
    assert.deepEqual(report.applied, [], path);
    const store = await openStore({
      ...{ databaseUrl, clock: systemClock, random: seededRandom(1), telemetry },
    });
    t.after(() => store.stop());
    await store.acquireWriterLock();
    assert.deepEqual(await store.query('SELECT count(*) FROM trade'), [{ count: '0' }]);
    await store.stop();
  }
});

test('a new archive is made in public where the search path has no such schema', async () => {
  const databaseUrl = await makeDatabase('empty');
  const name = new URL(databaseUrl).pathname.slice(1);
  await runSql(databaseUrl, 'CREATE SCHEMA elsewhere');
  await runSql(databaseUrl, `ALTER DATABASE "${name}" SET search_path = elsewhere`);
  await migrate({ databaseUrl });
  assert.deepEqual((await migrate({ databaseUrl })).applied, []);
  const [found] = await runSql(databaseUrl, `SELECT to_regclass('public.trade')::text AS trade`);
  assert.deepEqual(found, { trade: 'public.trade' });
});
