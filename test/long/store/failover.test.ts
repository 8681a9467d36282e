import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { appendFile, rm, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { findBinaries } from '../../../src/store/embedded/binaries.js';
import { freePort, readPostmaster } from '../../../src/store/embedded/server.js';
import { migrate, startEmbeddedPostgres } from '../../../src/store/index.js';
import { gate } from '../../support/gate.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
  testPostgres,
} from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { NOON_S, trade } from '../../support/postgres/postgres-rows.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { BTC } from '../../support/worlds/store-world.js';

/** The address of the database leads to a server that takes no rows, and later to one that does. */

/** A store's events, and when one of them comes. */
function watchStore() {
  const failures: string[] = [];
  const states: boolean[] = [];
  const { opened: isRefused, open: refused } = gate();
  const { opened: isDown, open: went } = gate();
  const telemetry = quietStoreEvents({
    commitFailed: ({ code, message }) => {
      failures.push(`${code} ${message}`);
      if (code === '25006') refused();
    },
    databaseState: ({ up }) => {
      states.push(up);
      if (!up) went();
    },
  });
  return { telemetry, failures, states, isRefused, isDown };
}

test('sessions that a setting makes read-only: commits wait, and are stored once it is off', async () => {
  const url = await makeDatabase();
  const server = await testPostgres();
  const name = new URL(url).pathname.slice(1);
  const { telemetry, failures, states, isRefused, isDown } = watchStore();
  const { store } = await openTestStore({ databaseUrl: url, telemetry, retryCapMs: 50 });
  await store.acquireWriterLock();
  await store.commit({ trades: [trade(1, 1)] });
  await runSql(server.url, `ALTER DATABASE ${name} SET default_transaction_read_only = on`);
  const END = 'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1';
  await runSql(server.url, END, [name]);
  const waiting = store.commit({ trades: [trade(2, 2)] });
  await Promise.all([isRefused, isDown]);
  assert.match(failures.join('\n'), /25006 .*default_transaction_read_only is on .*set it to off/);
  await assert.rejects(migrate({ databaseUrl: url }), { code: 'database_read_only' });
  await runSql(server.url, `ALTER DATABASE ${name} RESET default_transaction_read_only`);
  assert.equal((await waiting).outcomes.trade.stored, 1);
  assert.deepEqual(states, [true, false, true]);
  assert.equal((await store.query('SELECT FROM trade')).length, 2);
});

test('a connection that becomes read-only is given up: a new one finds the new primary', async (t) => {
  const dir = await makeTempDir();
  const servers: { stop(): Promise<void> }[] = [];
  t.after(async () => {
    for (const server of servers) await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const start = async (name: string) => {
    const options = { dataDir: join(dir, name), clock: systemClock };
    const server = await startEmbeddedPostgres({ ...options, telemetry: quietStoreEvents() });
    servers.push(server);
    await migrate({ databaseUrl: server.url });
    return server;
  };
  const [first, second] = [await start('data'), await start('other')];
  const { password } = new URL(first.url);
  await runSql(second.url, `ALTER USER CURRENT_USER PASSWORD '${password}'`);
  const secondUrl = new URL(second.url);
  secondUrl.password = password;
  // As a copy of the first would, the second has what is stored there.
  const copy = await openTestStore({ databaseUrl: secondUrl.href });
  await copy.store.commit({ trades: [trade(1, 1)] });
  await copy.store.stop();
  const proxy = new PostgresProxy(first.url);
  t.after(() => proxy.stop());
  const databaseUrl = await proxy.start();
  const { telemetry, isRefused } = watchStore();
  const { store } = await openTestStore({ databaseUrl, telemetry, retryCapMs: 50 });
  await store.commit({ trades: [trade(1, 1)] });
  const clusterDir = join(dir, 'data/postgres');
  await appendFile(join(clusterDir, 'postgresql.conf'), 'default_transaction_read_only = on\n');
  process.kill((await readPostmaster(clusterDir))?.pid ?? 0, 'SIGHUP');
  const SHOW = 'SHOW default_transaction_read_only';
  for (let setting = 'off'; setting === 'off'; ) {
    const [row] = await runSql<{ default_transaction_read_only: string }>(first.url, SHOW);
    setting = row?.default_transaction_read_only ?? 'gone';
  }
  // Connections that are open stay where they are; new ones come to the new primary.
  proxy.retarget(secondUrl.href);
  const { outcomes } = await store.commit({ trades: [trade(2, 2)] });
  await isRefused;
  assert.equal(outcomes.trade.stored, 1);
  assert.equal((await runSql(secondUrl.href, 'SELECT FROM trade')).length, 2);
  await store.stop();
});

/** Starts the server of a cluster with nothing but its files; resolves when it says its port. */
async function startBare(clusterDir: string, port: number) {
  const { postgres } = await findBinaries();
  const { uid, gid } = await stat(clusterDir);
  const settings = { port, listen_addresses: '127.0.0.1', unix_socket_directories: '' };
  const given = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]);
  const child = spawn(postgres, ['-D', clusterDir, ...given], {
    ...(process.getuid?.() === 0 ? { uid, gid } : {}),
    ...{
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
      cwd: '/',
      stdio: ['ignore', 'ignore', 'pipe'],
    },
  });
  const ended = once(child, 'exit');
  return {
    async stop() {
      child.kill('SIGINT');
      await ended;
    },
  };
}

test('a standby: it is named, and when it is promoted what waited is stored', async (t) => {
  if (process.platform === 'win32') {
    t.diagnostic('a standby is promoted by a signal, which Windows has not: nothing was tested');
    return;
  }
  const dir = await makeTempDir();
  const servers: { stop(): Promise<void> }[] = [];
  t.after(async () => {
    for (const server of servers) await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const options = { dataDir: join(dir, 'data'), clock: systemClock };
  const primary = await startEmbeddedPostgres({ ...options, telemetry: quietStoreEvents() });
  servers.push(primary);
  await migrate({ databaseUrl: primary.url });
  const proxy = new PostgresProxy(primary.url);
  const databaseUrl = await proxy.start();
  t.after(() => proxy.stop());
  const { telemetry, failures, isRefused } = watchStore();
  const { store } = await openTestStore({ databaseUrl, telemetry, retryCapMs: 50 });
  await store.acquireWriterLock();
  await store.ensureMarkets([BTC], NOON_S * 1_000);
  await store.commit({ trades: [trade(1, 1)] });

  // The same files come back as a standby does, at another port of the same address.
  proxy.retarget(undefined);
  await primary.stop();
  const clusterDir = join(dir, 'data/postgres');
  await writeFile(join(clusterDir, 'standby.signal'), '', { mode: 0o644 });
  const port = await freePort(0);
  const standby = await startBare(clusterDir, port);
  servers.push(standby);
  const standbyUrl = new URL(primary.url);
  standbyUrl.port = String(port);
  const waiting = store.commit({ trades: [trade(2, 2)] });
  proxy.retarget(standbyUrl.href);
  await isRefused;
  assert.match(failures.join('\n'), /25006 .* is a standby, which takes no rows: promote it/);
  await assert.rejects(migrate({ databaseUrl }), { code: 'database_read_only' });
  await writeFile(join(clusterDir, 'promote'), '');
  process.kill((await readPostmaster(clusterDir))?.pid ?? 0, 'SIGUSR1');
  assert.equal((await waiting).outcomes.trade.stored, 1);
  assert.equal((await store.query('SELECT FROM trade')).length, 2);
  await store.stop();
});
