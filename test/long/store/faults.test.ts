import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test from 'node:test';
import { describeFailure } from '../../../src/cli/failure.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { migrate, startEmbeddedPostgres } from '../../../src/store/index.js';
import { gate } from '../../support/gate.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
} from '../../support/postgres/postgres.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import {
  ALWAYS,
  claim,
  journalFaults,
  marketOf,
  miscountedDays,
  NOON_S,
  trade,
} from '../../support/postgres/postgres-rows.js';
import { makeTempDir } from '../../support/postgres/postgres-server.js';
import { drawsOfRun, runSeed } from '../../support/seeds.js';
import { BTC } from '../../support/worlds/store-world.js';

const MARKET = marketOf('A_USDT');
const KILLS = 22;

test('kill -9 at any moment leaves coverage within rows, and nothing acknowledged is lost', async (context) => {
  const random = drawsOfRun(context);
  const { store, url } = await openTestStore();
  await store.ensureMarkets([MARKET], 0);
  let acknowledged = 0;
  for (let kill = 0; kill < KILLS; kill += 1) {
    const file = join(import.meta.dirname, '../../support/postgres/postgres-writing-child.ts');
    const args = ['--import', 'tsx', file, url, String(runSeed + kill)];
    const stdio: ['ignore', 'pipe', 'inherit'] = ['ignore', 'pipe', 'inherit'];
    const env = { PATH: '/usr/bin:/bin' };
    const cwd = join(import.meta.dirname, '../../..');
    const child = spawn(process.execPath, args, { stdio, env, cwd });
    const exited = once(child, 'exit');
    const killAfter = Math.floor(random() * 12);
    const delayMs = random() * 6;
    let seen = 0;
    for await (const line of createInterface({ input: child.stdout })) {
      if (line.startsWith('stored'))
        acknowledged = Math.max(acknowledged, Number(line.split(' ')[1]));
      if (seen === killAfter) systemClock.after(delayMs, () => child.kill('SIGKILL'));
      seen += 1;
    }
    const [, signal] = await exited;
    assert.equal(signal, 'SIGKILL');
    assert.deepEqual(await miscountedDays(url), []);
    assert.deepEqual(await journalFaults(url), []);
    const [stored] = await runSql<{ n: number; ids: number }>(
      url,
      'SELECT count(*)::int AS n, count(DISTINCT tid)::int AS ids FROM trade WHERE tid <= $1',
      [acknowledged],
    );
    assert.deepEqual(stored, { n: acknowledged, ids: acknowledged });
  }
  assert.ok(acknowledged > KILLS);
});

test('a COMMIT whose answer is lost is repeated, and counts once', async (context) => {
  const proxy = new PostgresProxy(await makeDatabase());
  context.after(() => proxy.stop());
  const databaseUrl = await proxy.start();
  const { store } = await openTestStore({ databaseUrl });
  await store.ensureMarkets([MARKET], 0);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.commit({ trades: [trade(1, 1)], claims: [claim(stream, 0, 2)] });
  proxy.cutAfterNextCommit();
  const batch = { trades: [trade(2, 2), trade(50, 50)], claims: [claim(stream, 2, 60)] };
  const { outcomes } = await store.commit(batch);
  assert.equal(proxy.fired, 1);
  const { stored, duplicate } = outcomes.trade;
  assert.deepEqual({ stored, duplicate }, { stored: 0, duplicate: 2 });
  assert.equal(await store.storedAbove(1, 0), 3, 'counted once');
  // New rows, what they prove and COMMIT in one message: the claim ends with them.
  proxy.cutAfterNextCommit();
  const again = await store.commit({ trades: [trade(60, 60)], claims: [claim(stream, 60, 61)] });
  assert.equal(proxy.fired, 2);
  assert.equal(again.outcomes.trade.duplicate, 1);
  assert.equal(await store.storedAbove(1, 0), 4);
  await store.stop();
});

test('a connection that goes silent is given up, and another one does the work', async (context) => {
  const proxy = new PostgresProxy(await makeDatabase());
  context.after(() => proxy.stop());
  const databaseUrl = await proxy.start();
  const { store } = await openTestStore({ databaseUrl, statementTimeoutMs: 300, poolSize: 1 });
  await store.commit({ trades: [trade(1, 1)] });
  await store.ping();
  proxy.goDead();
  assert.ok(proxy.fired > 0);
  const [written, read] = await Promise.allSettled([
    store.commit({ trades: [trade(2, 2)] }),
    store.ping(),
  ]);
  assert.equal(written.status, 'fulfilled');
  assert.equal(read.status, 'rejected');
  await store.ping();
  await store.stop();
});

test('while Postgres is away commits wait, and then succeed', async (context) => {
  const dir = await makeTempDir();
  context.after(async () => {
    await proxy.stop();
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const start = () =>
    startEmbeddedPostgres({
      ...{ dataDir: join(dir, 'data'), clock: systemClock, telemetry: quietStoreEvents() },
    });
  let server = await start();
  await migrate({ databaseUrl: server.url });
  // The store's address stays, although another program may take the port while the server is away.
  const proxy = new PostgresProxy(server.url);
  const databaseUrl = await proxy.start();
  const states: boolean[] = [];
  let failures = 0;
  let wentDown: () => void = () => undefined;
  const telemetry = quietStoreEvents({
    commitFailed: () => {
      failures += 1;
    },
    databaseState: ({ up }) => {
      states.push(up);
      if (!up) wentDown();
    },
  });
  const { store } = await openTestStore({ databaseUrl, telemetry, retryCapMs: 50 });
  await store.acquireWriterLock();
  for (let outage = 1; outage <= 3; outage += 1) {
    await store.commit({ trades: [trade(outage, outage)] });
    const isDown = new Promise<void>((resolve) => {
      wentDown = resolve;
    });
    proxy.retarget(undefined);
    await server.stop();
    const waiting = Array.from({ length: 5 }, (_, n) =>
      store.commit({ trades: [trade(100 * outage + n, 100 * outage + n)] }),
    );
    await isDown;
    assert.match(store.outage() ?? '', /./);
    server = await start();
    proxy.retarget(server.url);
    for (const { outcomes } of await Promise.all(waiting)) assert.equal(outcomes.trade.stored, 1);
    assert.equal(store.outage(), undefined);
  }
  assert.deepEqual(states, [true, false, true, false, true, false, true]);
  assert.ok(failures >= 3 && failures < 30);
  const [row] = await store.query<{ n: number }>('SELECT count(*)::int AS n FROM trade');
  assert.equal(row?.n, 18);
  await store.stop();
});

test('a stop while Postgres is away ends at its deadline', async (context) => {
  const proxy = new PostgresProxy(await makeDatabase());
  context.after(() => proxy.stop());
  const databaseUrl = await proxy.start();
  const { store } = await openTestStore({ databaseUrl, drainDeadlineMs: 100, retryCapMs: 20 });
  await proxy.stop();
  const lost = store.commit({ trades: [trade(1, 1)] });
  const outcome = assert.rejects(lost, { code: 'aborted' });
  await store.stop();
  await outcome;
});

test('a daemon that lost its lock cannot write until it has it again', async () => {
  const failed: string[] = [];
  const { opened: isRefused, open: refused } = gate();
  const telemetry = quietStoreEvents({
    commitFailed: ({ code }) => {
      failed.push(code);
      if (code === 'writer_lock_held') refused();
    },
  });
  const { store, url } = await openTestStore({ telemetry, retryCapMs: 20 });
  await store.acquireWriterLock();
  await store.ensureMarkets([BTC], NOON_S * 1_000);
  await runSql(
    url,
    `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks JOIN pg_database d ON d.oid = database
     WHERE locktype = 'advisory' AND datname = current_database()`,
  );
  const successor = await openTestStore({ databaseUrl: url });
  await successor.store.acquireWriterLock();
  const late = store.commit({ trades: [trade(1, 1)] });
  await isRefused;
  assert.deepEqual(await successor.store.storedTrades(1, ALWAYS, 1), []);
  await successor.store.stop();
  assert.equal((await late).outcomes.trade.stored, 1);
  assert.ok(failed.includes('writer_lock_held'));
});

test('the database is told to be up before anything is committed', async () => {
  const states: boolean[] = [];
  const telemetry = quietStoreEvents({ databaseState: ({ up }) => states.push(up) });
  const { store } = await openTestStore({ telemetry });
  await store.acquireWriterLock();
  assert.deepEqual(states, [true]);
});

test('the time of a commit is that of the try that succeeded', async () => {
  let aheadMs = 0;
  const durationsMs: number[] = [];
  const telemetry = quietStoreEvents({
    commitFailed: () => {
      aheadMs += 3_600_000;
    },
    committed: ({ durationMs }) => durationsMs.push(durationMs),
  });
  const clock = {
    wallMs: () => systemClock.wallMs(),
    monotonicMs: () => systemClock.monotonicMs() + aheadMs,
    after: systemClock.after.bind(systemClock),
  };
  const { store, url } = await openTestStore({ telemetry, clock, retryCapMs: 20 });
  await store.acquireWriterLock();
  await runSql(
    url,
    `SELECT pg_terminate_backend(pid, 10000) FROM pg_locks JOIN pg_database d ON d.oid = database
     WHERE locktype = 'advisory' AND datname = current_database()`,
  );
  const blocker = await openTestStore({ databaseUrl: url });
  await blocker.store.acquireWriterLock();
  const late = store.commit({ trades: [trade(1, 1)] });
  while (aheadMs === 0) await blocker.store.ping();
  await blocker.store.stop();
  await late;
  assert.equal(durationsMs.length, 1);
  assert.ok((durationsMs[0] ?? Infinity) < 3_600_000);
});

test('a full queue makes commits wait, and giving up waiting is possible', async () => {
  const { store, url } = await openTestStore({ maxQueuedBatches: 2, commitLatencyMs: 0 });
  await store.commit({ trades: [trade(1, 1)] });
  const blocker = await openTestStore({ databaseUrl: url });
  const sizes: number[] = [];
  const limited = await openTestStore({
    ...{ databaseUrl: url, maxQueuedBatches: 2, maxGroupRows: 1 },
    telemetry: quietStoreEvents({ queueChanged: ({ size }) => sizes.push(size) }),
  });
  const commits = Array.from({ length: 40 }, (_, n) =>
    limited.store.commit({ trades: [trade(10 + n, 10 + n)] }),
  );
  const givingUp = new AbortController();
  const given = limited.store.commit({ trades: [trade(99, 99)] }, { signal: givingUp.signal });
  givingUp.abort(new Error('enough'));
  await assert.rejects(given, /enough/);
  await Promise.all(commits);
  assert.ok(Math.max(...sizes) <= 2);
  assert.equal((await blocker.store.storedTrades(1, ALWAYS, 100)).length, 41);
});

test('what the server adds to an error, such as the setting to raise, reaches the user', async () => {
  const { store, url } = await openTestStore();
  const hint = 'You might need to increase "max_locks_per_transaction".';
  const failing = (detail: string) => `DO $$ BEGIN RAISE 'out of shared memory'
    USING ERRCODE = '53200', DETAIL = '${detail}', HINT = '${hint}'; END $$`;
  const told = `out of shared memory (SQLSTATE 53200); detail: the lock table; hint: ${hint}`;
  await assert.rejects(store.query(failing('the lock table')), (error: Error) => {
    assert.match(error.message, /the database is in trouble/);
    assert.ok(error.message.includes(told), error.message);
    return true;
  });
  // A row that is quoted is cut short.
  await assert.rejects(
    store.query(failing('x'.repeat(5_000))),
    (error: Error) => error.message.length < 800 && error.message.endsWith(hint),
  );
  // As a driver throws it, of what has no words of its own.
  await assert.rejects(runSql(url, failing('the lock table')), (error: Error) => {
    assert.ok(describeFailure(error).endsWith(`; hint: ${hint}`), describeFailure(error));
    assert.doesNotMatch(describeFailure(error), /please report it|at .*\.js/);
    return true;
  });
});
