import assert from 'node:assert/strict';
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { listClusterFiles, startBaseBackup, startEmbeddedPostgres } from '../../src/store/index.js';
import {
  asSuperuser,
  makeTempDir,
  openSql,
  quietStoreEvents,
} from '../support/postgres/postgres-server.js';

/** The server's side of a backup: what it keeps for it, and what it lets go of afterwards. */

async function startServer(t: TestContext) {
  const dir = await makeTempDir();
  const dataDir = join(dir, 'data');
  const telemetry = quietStoreEvents();
  const server = await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry });
  const sql = await openSql(await asSuperuser(server.url, dataDir));
  t.after(async () => {
    await sql.end();
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  return { dataDir, sql };
}

test('the journal since the start is kept over checkpoints, until the connection ends', async (t) => {
  const { dataDir, sql } = await startServer(t);
  const backup = await startBaseBackup(dataDir, systemClock);
  t.after(() => backup.close());
  for (let round = 0; round < 6; round += 1) {
    await sql.run('CREATE TABLE IF NOT EXISTS filling (n int)');
    await sql.run('INSERT INTO filling SELECT generate_series(1, 100)');
    await sql.run('SELECT pg_switch_wal()');
    await sql.run('CHECKPOINT');
  }
  const { segments, label, stopLsn } = await backup.stop();
  assert.ok(segments.length >= 7, segments.join());
  const there = await readdir(join(dataDir, 'postgres/pg_wal'));
  assert.deepEqual(
    segments.filter((name) => !there.includes(name)),
    [],
  );
  assert.match(label, /^START WAL LOCATION: \S+ \(file [0-9A-F]{24}\)\n/);
  assert.ok(label.includes(segments[0] ?? '-') && stopLsn !== '');
  const slots = 'SELECT FROM pg_replication_slots';
  assert.equal((await sql.run(slots)).length, 1);
  await backup.close();
  while ((await sql.run(slots)).length > 0);

  const { folders, files } = await listClusterFiles(join(dataDir, 'postgres'));
  const names = new Set(files.map(({ path }) => path));
  assert.ok(names.has('PG_VERSION') && names.has('global/pg_control'));
  assert.deepEqual(
    [...names].filter((name) => /^(?:postmaster\.|pg_wal\/|log\/|pg_replslot\/)/.test(name)),
    [],
  );
  for (const name of ['pg_wal', 'pg_notify', 'pg_tblspc', 'log']) assert.ok(folders.includes(name));
});

test('a server whose tables lie elsewhere is refused', async (t) => {
  const { dataDir, sql } = await startServer(t);
  await sql.run('SET allow_in_place_tablespaces = true');
  await sql.run(`CREATE TABLESPACE other_disk LOCATION ''`);
  await assert.rejects(startBaseBackup(dataDir, systemClock), {
    code: 'backup_refused',
    message: /has tablespaces \(other_disk\), which a backup does not follow/,
  });
  assert.deepEqual(await sql.run('SELECT FROM pg_replication_slots'), []);
});
