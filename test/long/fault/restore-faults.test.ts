import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../../src/kernel/clock.js';
import { readPostmaster } from '../../../src/store/embedded/server.js';
import { migrate, startEmbeddedPostgres } from '../../../src/store/index.js';
import { openTestStore, runSql } from '../../support/postgres/postgres.js';
import { makeTempDir, quietStoreEvents } from '../../support/postgres/postgres-server.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  FIRST_MS,
  type LifeStep,
  live,
  openSealingWorld,
  type SealingWorld,
  tradePartitions,
} from '../../support/worlds/sealing-world.js';
import { BTC } from '../../support/worlds/store-world.js';

/** What befalls the database while rows come back: they stay where they were, and come back later. */

const COLD = { coldAfterMs: DAY_MS };
const statesOf = async ({ store }: Pick<SealingWorld, 'store'>) =>
  (await tradePartitions(store)).map(
    ({ state, isHalfRestored }) => `${state}${isHalfRestored ? ' half restored' : ''}`,
  );

test('a connection that is ended at any step of a restore is told, and nothing has changed', async (t) => {
  const world = await openSealingWorld(t, 10);
  const before = await allTrades(world.url);
  await live(world, { rules: COLD });
  const steps: LifeStep[] = [
    'restore: check',
    'restore: load',
    'restore: indexes',
    'restore: count',
  ];
  for (const deadly of [...steps, 'restore: switch']) {
    let ended = 0;
    const onStep = async (step: LifeStep) => {
      if (step !== deadly || ended > 0) return;
      // Who holds the lock of those who work on partitions; gone when the answer is here.
      const found = await runSql(
        world.url,
        `SELECT pg_terminate_backend(pid, 10000) FROM lock_holder('sealing') WHERE pid IS NOT NULL`,
      );
      ended += found.length;
    };
    // Whether the server's last word was read before the next statement was sent is a matter of luck.
    await assert.rejects(bringBack(world, { onStep }), {
      code: /^database_(failed|unreachable)$/,
      message:
        /terminating connection.*trade_20260113 stays archived, and its files are as they were: run the/,
    });
    assert.equal(ended, 1, deadly);
    assert.deepEqual(
      (await statesOf(world)).map((one) => one.split(' ')[0]),
      ['archived', 'archived', 'archived'],
    );
    assert.deepEqual(await allTrades(world.url), before);
  }
  assert.deepEqual((await bringBack(world)).failures, []);
  assert.deepEqual(await allTrades(world.url), before);
});

const CHILD = join(import.meta.dirname, '../../support/postgres/postgres-child.ts');
/** What `ulimit -f` counts in, by POSIX. */
const UNIT_BYTES = 512;
/** The server's journal has files of this size, the largest that it writes beside tables. */
const ROOM_BYTES = 16 * 1024 * 1024;
/** Heap of so many rows is larger, and what indexes take is not. */
const ROWS = 170_000;

interface Server {
  readonly url: string;
  stop(): Promise<void>;
}

async function startServer(dataDir: string): Promise<Server> {
  const telemetry = quietStoreEvents();
  return await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry });
}

/** The same, with a server no file of which may become larger than so much. */
async function startSmallServer(dataDir: string): Promise<Server> {
  const limited = `ulimit -f ${ROOM_BYTES / UNIT_BYTES} && exec "$0" "$@"`;
  const args = ['-c', limited, process.execPath, '--import', 'tsx', CHILD, dataDir];
  const child = spawn('sh', args, { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = once(child, 'exit');
  const [url] = (await once(createInterface({ input: child.stdout }), 'line')) as [string];
  return {
    url,
    async stop() {
      child.kill('SIGTERM');
      await ended;
    },
  };
}

/** An archive with a day of many trades of one market. */
async function openLargeDay(t: TestContext, url: string) {
  await migrate({ databaseUrl: url });
  const { store } = await openTestStore({ databaseUrl: url });
  await store.ensureMarkets([BTC], FIRST_MS);
  await runSql(url, `SELECT make_partition('trade', '2026-01-13')`);
  await runSql(
    url,
    `INSERT INTO trade (market_id, traded_at, tid, executed_at, side, price, amount, total, received_at)
     SELECT 1, at, n, at, 'buy', 61837.63, 0.012345, 763.38554235, at
     FROM generate_series(1, $1) AS n,
       LATERAL (SELECT date_trunc('second', '2026-01-13Z'::timestamptz + n * interval '0.5 s') AS at) a`,
    [ROWS],
  );
  await runSql(
    url,
    `INSERT INTO rows_by_day (market_id, series, variant, day, rows, timed)
     VALUES (1, 'trade', 0, '2026-01-13', $1, $1)`,
    [ROWS],
  );
  const coldDir = await mkdtemp(join(tmpdir(), 'tapekeep-cold-test-'));
  t.after(() => rm(coldDir, { recursive: true, force: true }));
  return { store, coldDir };
}

test('a database without room, or killed, has nothing of the rows, and takes them later', async (t) => {
  if (process.platform === 'win32') {
    t.diagnostic('Windows has no limit on the size of files: nothing was tested');
    return;
  }
  const dir = await makeTempDir();
  const dataDir = join(dir, 'data');
  let server = await startServer(dataDir);
  t.after(async () => {
    await server.stop();
    await rm(dir, { recursive: true, force: true });
  });
  const first = await openLargeDay(t, server.url);
  const { coldDir } = first;
  const sealed = await live(first, { rules: { needsChecks: false } });
  assert.deepEqual([sealed.failures, sealed.outcomes.length], [[], 1]);
  const [day] = await tradePartitions(first.store);
  assert.ok((day?.heapBytes ?? 0) > ROOM_BYTES && (day?.indexBytes ?? 0) < ROOM_BYTES);
  assert.deepEqual((await live(first, { rules: COLD })).failures, []);
  await first.store.stop();
  await server.stop();

  const reopen = async (start: typeof startServer) => {
    server = await start(dataDir);
    return { store: (await openTestStore({ databaseUrl: server.url })).store, coldDir };
  };
  const small = await reopen(startSmallServer);
  const { outcomes, failures } = await bringBack(small);
  assert.deepEqual(outcomes, []);
  const [failure, ...others] = failures;
  assert.deepEqual([failure?.partition, failure?.error.code], [day?.name, 'restore_disk_full']);
  assert.match(
    failure?.error.message ?? '',
    /no room for the rows of trade_20260113 \(.*File too large.*stays archived.*Free space/,
  );
  assert.deepEqual(others, []);
  assert.deepEqual(await statesOf(small), ['archived'], 'what had come is gone again');
  await small.store.stop();
  await server.stop();

  const killed = await reopen(startServer);
  const onStep = async (step: LifeStep) => {
    if (step !== 'restore: count') return;
    const { pid } = (await readPostmaster(join(dataDir, 'postgres'))) ?? { pid: 0 };
    assert.ok(pid > 0);
    process.kill(pid, 'SIGKILL');
  };
  await assert.rejects(bringBack(killed, { onStep }), { message: /trade_20260113 stays archived/ });
  await killed.store.stop();
  await server.stop();

  const well = await reopen(startServer);
  assert.match((await statesOf(well))[0] ?? '', /^archived/);
  assert.deepEqual((await bringBack(well)).failures, []);
  const [back] = await tradePartitions(well.store);
  assert.deepEqual([back?.state, back?.rows, back?.checksum], ['sealed', ROWS, day?.checksum]);
  const [counted] = await runSql<{ n: number }>(server.url, 'SELECT count(*)::int AS n FROM trade');
  assert.equal(counted?.n, ROWS);
  await well.store.stop();
});
