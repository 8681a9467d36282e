import assert from 'node:assert/strict';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { loadConfig } from '../../src/config/load.js';
import { systemClock } from '../../src/kernel/clock.js';
import { clusterPaths, readPassword } from '../../src/store/embedded/cluster.js';
import { migrate, pingPostgres, startEmbeddedPostgres } from '../../src/store/index.js';
import { launch, makeTempDir, quietStoreEvents } from '../support/postgres/postgres-server.js';

test('an address whose host is a parameter alone leads to the socket in that folder', async (t) => {
  const dir = await makeTempDir();
  t.after(() => rm(dir, { recursive: true, force: true }));
  const dataDir = join(dir, 'data');
  const telemetry = quietStoreEvents();
  await (await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry })).stop();
  const { clusterDir } = clusterPaths(dataDir);
  const password = await readPassword(clusterPaths(dataDir));
  const settings = { port: '6543', listen_addresses: '', unix_socket_directories: clusterDir };
  const given = Object.entries(settings).flatMap((entry) => ['-c', entry.join('=')]);
  const server = await launch(dataDir, clusterDir, ['-D', clusterDir, ...given]);
  t.after(async () => {
    server.kill('SIGINT');
    await once(server, 'close');
  });
  for (const address of [
    `postgres://tapekeep:${password}@:6543/tapekeep?host=${clusterDir}`,
    `postgresql://tapekeep:${password}@/tapekeep?port=6543&host=${clusterDir}`,
    `postgres://tapekeep:${password}@/tapekeep?host=${encodeURIComponent(clusterDir)}&port=6543`,
    `postgres://tapekeep:${password}@127.0.0.1:1/tapekeep?host=${clusterDir}&port=6543`,
  ]) {
    await pingPostgres({ databaseUrl: address, clock: systemClock, timeoutMs: 10_000 });
    const { database } = loadConfig({ env: { TAPEKEEP_DATABASE_URL: address } });
    await migrate({ databaseUrl: database.url ?? '' });
  }
  const nowhere = `postgres://tapekeep:${password}@/tapekeep?host=${dir}`;
  await assert.rejects(
    pingPostgres({ databaseUrl: nowhere, clock: systemClock, timeoutMs: 10_000 }),
    {
      code: 'database_unreachable',
      message: new RegExp(`Postgres at ${dir}:5432, database tapekeep`),
    },
  );
  await assert.rejects(
    pingPostgres({ databaseUrl: 'postgres://u@/db', clock: systemClock, timeoutMs: 10_000 }),
    { code: 'bad_database_url' },
  );
});
