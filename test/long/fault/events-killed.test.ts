import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { openArchive } from '../../../src/archive/events/archive.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { seededRandom, systemRandom } from '../../../src/kernel/random.js';
import { migrate, StoreError, startEmbeddedPostgres } from '../../../src/store/index.js';
import { PostgresProxy } from '../../support/postgres/postgres-proxy.js';
import { claim, marketOf, NOON_S, trade } from '../../support/postgres/postgres-rows.js';
import {
  makeTempDir,
  openPlainStore,
  quietStoreEvents,
  runSql,
} from '../../support/postgres/postgres-server.js';

/**
 * The library's events while their Postgres dies: each reader gets the events of the beginning, each
 * once and in order, and then an error; never an end that looks like the end of the archive.
 * `EVENTS_SEED=n` replays the moments of one run.
 */
const SEED = Number(process.env.EVENTS_SEED ?? Math.floor(systemRandom() * 1e9));
/** More than sockets and buffers hold, so that the server is still sending when it dies. */
const TRADES = 200_000;
const SPAN_S = 1000;
const QUERY = {
  ...{ markets: ['BTC_USDT'], kinds: ['trades'] as const },
  from: new Date(NOON_S * 1000),
  to: new Date((NOON_S + SPAN_S) * 1000),
};

interface World {
  readonly url: string;
  readonly dataDir: string;
  /** Starts the server where it does not run. */
  restart(): Promise<void>;
  /** Ends the server at once, as a machine does that loses its power. */
  killServer(): Promise<void>;
}

async function openWorld(t: TestContext): Promise<World> {
  const dataDir = await makeTempDir();
  const open = () =>
    startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry: quietStoreEvents() });
  let server = await open();
  t.after(async () => {
    await server.stop();
    await rm(dataDir, { recursive: true, force: true });
  });
  const databaseUrl = server.url;
  await migrate({ databaseUrl });
  const store = await openPlainStore(databaseUrl);
  await store.ensureMarkets([marketOf('BTC_USDT')], NOON_S * 1000);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.commit({
    trades: [{ ...trade(1, 0), executedAtUs: null }],
    claims: [claim(stream, 0, SPAN_S)],
  });
  await store.stop();
  await runSql(
    databaseUrl,
    `INSERT INTO trade (market_id, traded_at, tid, received_at, side, price, amount, total)
     SELECT market_id, traded_at + n * interval '1 s' * ${SPAN_S - 1} / ${TRADES}, n, received_at,
            side, price, amount, total
     FROM (SELECT * FROM trade LIMIT 1) one, generate_series(2, ${TRADES}) n`,
  );
  const killServer = async () => {
    const text = await readFile(join(dataDir, 'postgres/postmaster.pid'), 'utf8');
    const postmaster = Number(text.split('\n')[0]);
    const children = await readFile(`/proc/${postmaster}/task/${postmaster}/children`, 'utf8');
    for (const pid of [postmaster, ...children.trim().split(' ').map(Number)]) {
      process.kill(pid, 'SIGKILL');
    }
  };
  return {
    ...{ url: databaseUrl, dataDir, killServer },
    async restart() {
      await server.stop();
      server = await open();
    },
  };
}

/** Reads ids until the end, or until the error that it ends with; `harm` is done after so many. */
async function readUntilHarmed(
  place: { readonly databaseUrl: string } | { readonly dataDir: string },
  after: number,
  harm: () => Promise<unknown>,
) {
  const archive = await openArchive(place);
  const events = archive.events(QUERY);
  let read = 0;
  let failure: unknown;
  try {
    for await (const event of events) {
      read += 1;
      assert.equal(event.id, read, 'each once, and in order');
      if (read === after) await harm();
    }
  } catch (error) {
    failure = error;
  }
  assert.deepEqual(await events.next(), { done: true, value: undefined }, 'it has ended');
  await archive.close();
  return { read, failure };
}

/** A failed reading is told as such; a whole one only if nothing is missing. */
function assertToldTruly({ read, failure }: { read: number; failure: unknown }, told: string) {
  if (failure === undefined) {
    assert.equal(read, TRADES, `${told}: an end that looks like that of the archive`);
    return;
  }
  assert.ok(failure instanceof StoreError, `${told}: ${String(failure)}`);
  assert.match(failure.code, /^database_/, told);
  assert.equal(failure.action, 'retry', told);
  assert.ok(read < TRADES, told);
}

const BACKENDS = `
  SELECT pid FROM pg_stat_activity
  WHERE backend_type = 'client backend' AND query LIKE '%COPY%' AND pid <> pg_backend_pid()`;

async function assertNothingOpen(url: string): Promise<void> {
  const open = await runSql<{ pid: number }>(url, BACKENDS);
  assert.deepEqual(open, [], 'no cursor is left open');
}

test('a backend ended or killed, the wire cut, the server killed: an error, and never a silent end', async (t) => {
  t.diagnostic(`EVENTS_SEED=${SEED}`);
  const random = seededRandom(SEED);
  const world = await openWorld(t);
  const { url, dataDir } = world;
  const proxy = new PostgresProxy(url);
  const throughProxy = await proxy.start();
  t.after(() => proxy.stop());
  const whole = await readUntilHarmed({ databaseUrl: url }, 1, () => Promise.resolve());
  assert.deepEqual(whole, { read: TRADES, failure: undefined });
  await assertNothingOpen(url);

  const terminate = () => runSql(url, `SELECT pg_terminate_backend(pid) FROM (${BACKENDS}) b`);
  const killBackend = async () => {
    const [backend] = await runSql<{ pid: number }>(url, BACKENDS);
    process.kill(backend?.pid ?? assert.fail('nobody reads'), 'SIGKILL');
  };
  const harms = [
    ['terminated', { databaseUrl: url }, terminate],
    ['backend killed', { databaseUrl: url }, killBackend],
    ['connection closed politely', { databaseUrl: throughProxy }, async () => proxy.endAll()],
    ['server killed', { databaseUrl: url }, world.killServer],
    ['embedded server killed', { dataDir }, world.killServer],
  ] as const;
  let failed = 0;
  for (const [name, place, harm] of harms) {
    await world.restart();
    // Near the beginning: further on the rest may be on its way already.
    const at = 1 + Math.floor(random() * (TRADES / 10));
    const ended = await readUntilHarmed(place, at, harm);
    if (ended.failure !== undefined) failed += 1;
    assertToldTruly(ended, `${name} at ${at}`);
    await world.restart();
    await assertNothingOpen(url);
    const again = await readUntilHarmed(place, 1, () => Promise.resolve());
    assert.deepEqual(again, { read: TRADES, failure: undefined }, `${name}: read again`);
  }
  assert.equal(failed, harms.length, 'every harm was really done in the middle');
});
