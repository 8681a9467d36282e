import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test, { type TestContext } from 'node:test';
import { freePort } from '../../src/store/embedded/server.js';
import { migrate } from '../../src/store/index.js';
import { makeDatabase, openTestStore, quietStoreEvents } from '../support/postgres/postgres.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';
import { trade } from '../support/postgres/postgres-rows.js';
import { makeTempDir, openPlainStore } from '../support/postgres/postgres-server.js';
import { type Pick, TransactionPooler } from '../support/postgres/transaction-pooler.js';

/** Poolers between the store and its server: those that keep a session, and those that do not. */

const REFUSED = {
  code: 'database_pooled',
  message:
    /transaction or statement mode .*connect to Postgres directly, or to a pool in session mode/,
};
const open = (databaseUrl: string) => openPlainStore(databaseUrl, { statementTimeoutMs: 5_000 });

const POOLS: readonly (readonly [size: number, pick: Pick])[] = [
  [1, 'newest'],
  [2, 'newest'],
  [2, 'oldest'],
  [3, 'newest'],
  [3, 'oldest'],
  [5, 'oldest'],
];
for (const [size, pick] of POOLS) {
  test(`a pooler of transactions is refused: ${size} idle sessions, the ${pick} first`, async (t) => {
    const [pooler, url] = await TransactionPooler.start(await makeDatabase(), size, pick);
    t.after(() => pooler.stop());
    await assert.rejects(open(url), REFUSED);
    await assert.rejects(migrate({ databaseUrl: url }), REFUSED);
  });
}

test('a pooler that comes between while a daemon runs is named, and rows wait until it is gone', async (t) => {
  const target = await makeDatabase();
  const [pooler, pooled] = await TransactionPooler.start(target, 3, 'newest');
  t.after(() => pooler.stop());
  const proxy = new PostgresProxy(target);
  t.after(() => proxy.stop());
  let refused: (text: string) => void = () => undefined;
  const isRefused = new Promise<string>((resolve) => {
    refused = resolve;
  });
  const telemetry = quietStoreEvents({
    commitFailed: ({ code, message }) => {
      if (code === 'database_pooled') refused(message);
    },
  });
  const databaseUrl = await proxy.start();
  const { store } = await openTestStore({ databaseUrl, telemetry, retryCapMs: 50 });
  await store.acquireWriterLock();
  await store.commit({ trades: [trade(1, 1)] });
  proxy.retarget(pooled);
  proxy.endAll();
  const waiting = store.commit({ trades: [trade(2, 2)] });
  assert.match(await isRefused, REFUSED.message);
  proxy.retarget(target);
  assert.equal((await waiting).outcomes.trade.stored, 1);
});

const PGBOUNCER = ['/usr/sbin/pgbouncer', '/usr/bin/pgbouncer'].find(existsSync);

/** A real PgBouncer in front of a database. */
async function startBouncer(t: TestContext, target: string, mode: string): Promise<string> {
  const dir = await makeTempDir();
  const { hostname, port, username, password, pathname } = new URL(target);
  const name = pathname.slice(1);
  const ownPort = await freePort(0);
  const settings = [
    '[databases]',
    `${name} = host=${hostname} port=${port} user=${username} password=${password}`,
    '[pgbouncer]',
    `listen_addr = 127.0.0.1\nlisten_port = ${ownPort}\nunix_socket_dir =`,
    `auth_type = any\npool_mode = ${mode}\ndefault_pool_size = 10\nmin_pool_size = 3`,
  ];
  const file = join(dir, 'pgbouncer.ini');
  await writeFile(file, settings.join('\n'), { mode: 0o644 });
  const asUser = process.getuid?.() === 0 ? ['-u', 'nobody'] : [];
  const child: ChildProcess = spawn(PGBOUNCER ?? '', [...asUser, file], {
    stdio: ['ignore', 'ignore', 'pipe'],
  });
  t.after(async () => {
    const ended = once(child, 'close');
    child.kill('SIGKILL');
    await ended;
    await rm(dir, { recursive: true, force: true });
  });
  for await (const line of createInterface({ input: child.stderr ?? process.stdin })) {
    if (line.includes('process up')) break;
  }
  child.stderr?.resume();
  return `postgres://${username}@127.0.0.1:${ownPort}/${name}`;
}

const how = { skip: PGBOUNCER === undefined && 'there is no pgbouncer on this machine' };
for (const mode of ['transaction', 'statement']) {
  test(`PgBouncer in ${mode} mode is refused`, how, async (t) => {
    const url = await startBouncer(t, await makeDatabase(), mode);
    await assert.rejects(open(url), REFUSED);
    await assert.rejects(migrate({ databaseUrl: url }), REFUSED);
  });
}

test('PgBouncer in session mode serves', how, async (t) => {
  const databaseUrl = await startBouncer(t, await makeDatabase('empty'), 'session');
  await migrate({ databaseUrl });
  const { store } = await openTestStore({ databaseUrl });
  await store.acquireWriterLock();
  await store.commit({ trades: [trade(1, 1)] });
  assert.equal((await store.query('SELECT FROM trade')).length, 1);
});
