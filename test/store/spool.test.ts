import assert from 'node:assert/strict';
import { cp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { StateRow, StreamRef } from '../../src/model/batch.js';
import { Share } from '../../src/model/share.js';
import type { StoreEvents } from '../../src/observe/events.js';
import type { Store } from '../../src/store/index.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
} from '../support/postgres/postgres.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';
import { NOON_S, ticker, trade } from '../support/postgres/postgres-rows.js';
import { makeTempDir } from '../support/postgres/postgres-server.js';
import { mountSmallDisk } from '../support/small-disk.js';
import { BTC } from '../support/worlds/store-world.js';

/** The spool in front of a real Postgres, which a wire between them takes away. */

const LIMIT = { timeout: 120_000 };
const NEVER = new AbortController().signal;
const MS = NOON_S * 1_000;

type Outcome = Parameters<StoreEvents['spooled']>[0]['outcome'];

/** Reports of a store about its spool, and a way to wait for one. */
class Watch {
  readonly batches: Record<Outcome, number> = { kept: 0, stored: 0, dropped: 0, refused: 0 };
  readonly failures: string[] = [];
  tornBytes = 0;
  #turned: (isKeeping: boolean) => void = () => undefined;
  readonly telemetry = quietStoreEvents({
    spooled: ({ outcome, batches }) => {
      this.batches[outcome] += batches;
    },
    spoolFailed: ({ code }) => void this.failures.push(code),
    spoolTorn: ({ bytes }) => {
      this.tornBytes += bytes;
    },
    spoolTurned: ({ isKeeping }) => this.#turned(isKeeping),
  });

  empty(): Promise<void> {
    return new Promise((resolve) => {
      this.#turned = (isKeeping) => {
        if (!isKeeping) resolve();
      };
    });
  }
}

interface World {
  readonly url: string;
  readonly dir: string;
  readonly watch: Watch;
  readonly store: Store;
  readonly proxy: PostgresProxy;
  readonly tickers: StreamRef;
  readonly states: StreamRef;
}

async function openSpooled(url: string, dir: string, maxBytes = 10_000_000, isHolder = true) {
  const watch = new Watch();
  const spool = { dir, maxBytes };
  const { telemetry } = watch;
  const given = { databaseUrl: url, telemetry, spool, drainDeadlineMs: 500 };
  const { store } = await openTestStore(given);
  if (isHolder) await store.acquireWriterLock();
  return { watch, store };
}

async function openWorld(t: TestContext, maxBytes?: number, folder?: string): Promise<World> {
  const url = await makeDatabase();
  const dir = folder ?? join(await makeTempDir(), 'spool');
  t.after(() => rm(dir, { recursive: true, force: true }));
  const proxy = new PostgresProxy(url);
  t.after(() => proxy.stop());
  const { watch, store } = await openSpooled(await proxy.start(), dir, maxBytes);
  await store.ensureMarkets([BTC], MS);
  const of = { marketId: 1, collectFromMs: MS };
  const tickers = await store.ensureStream({ ...of, kind: 'tickers', variant: 0 });
  const states = await store.ensureStream({ ...of, kind: 'states', variant: 86_400 });
  await store.openSpool(NEVER);
  return { url, dir, watch, store, proxy, tickers, states };
}

function cut({ proxy }: World): void {
  proxy.retarget(undefined);
  proxy.endAll();
}

/** A look `[fromS, toS)` with a ticker at its start. */
function look({ store, tickers }: Pick<World, 'store' | 'tickers'>, fromS: number, toS: number) {
  const span = { fromMs: MS + fromS * 1_000, toMs: MS + toS * 1_000 };
  const claims = [{ stream: tickers, span, evidence: { fromS } }];
  const batch = { tickers: [ticker(1, fromS, { last: String(fromS + 1) })], claims };
  return store.commit(batch, { once: { stream: tickers } });
}

function state(sessionId: number, atS: number): StateRow {
  const figures = { last: '1', open: '1', close: '1', high: '1', low: '1', volume: '1' };
  const at = { observedAtMs: MS + atS * 1_000, receivedAtMs: MS + atS * 1_000, seq: atS };
  const rest = { quoteVolume: '1', change: null, origin: 'update' as const };
  return { marketId: 1, periodS: 86_400, sessionId, ...figures, ...at, ...rest };
}

function push({ store, states }: World, session: number, fromS: number, toS: number) {
  const span = { fromMs: MS + fromS * 1_000, toMs: MS + toS * 1_000 };
  const claims = [{ stream: states, span, evidence: { session } }];
  const batch = { states: [state(session, fromS)], claims };
  return store.commit(batch, { once: { stream: states } });
}

const coveredS = (url: string, { streamId }: StreamRef) =>
  runSql<{ from: number; to: number }>(
    url,
    `SELECT extract(epoch FROM lower(span))::float8 - ${NOON_S} AS from,
            extract(epoch FROM upper(span))::float8 - ${NOON_S} AS to
     FROM coverage WHERE stream_id = ${streamId} ORDER BY 1`,
  );

const tickersS = async (url: string) =>
  (
    await runSql<{ s: number }>(
      url,
      `SELECT extract(epoch FROM observed_at)::float8 - ${NOON_S} AS s FROM ticker ORDER BY 1`,
    )
  ).map(({ s }) => s);

/** The spool as it is at this instant, in a folder of its own: what a killed process leaves. */
async function left({ dir }: World): Promise<string> {
  const copy = join(await makeTempDir(), 'spool');
  await cp(dir, copy, { recursive: true, filter: (path) => !path.endsWith('lock') });
  return copy;
}

/** Files of all databases, by their path in the folder. */
const filesOf = async (dir: string) =>
  (await readdir(dir, { recursive: true, withFileTypes: true }))
    .filter((entry) => entry.isFile() && entry.name !== 'lock')
    .map((entry) => relative(dir, join(entry.parentPath, entry.name)))
    .sort();

test('what is kept while the database is away is stored once, in order', LIMIT, async (t) => {
  const world = await openWorld(t);
  const { store, url, watch, proxy, tickers, states } = world;
  await look(world, 0, 2);
  const open = await store.openSession(states, MS);
  assert.ok(open > 0);
  await push(world, open, 0, 2);
  cut(world);
  await look(world, 2, 4);
  await push(world, open, 2, 4);
  await store.closeSession(open, { atMs: MS + 4_000, code: 1006, reason: 'lost' });
  const second = await store.openSession(states, MS + 5_000);
  assert.ok(second < 0, 'the ledger has no number for it yet');
  await push(world, second, 5, 7);
  await store.commit({ trades: [trade(1, 3)] }, { once: {} });
  await look(world, 4, 6);
  assert.deepEqual(await tickersS(url), [0]);
  assert.equal(watch.batches.kept, 6);
  const empty = watch.empty();
  proxy.retarget(url);
  await look(world, 6, 8);
  await empty;
  assert.equal(store.spooledBytes(), 0);
  assert.deepEqual(await filesOf(world.dir), []);
  // Later batches name the session by the same number.
  await push(world, second, 7, 9);
  await store.closeSession(second, { atMs: MS + 9_000, code: 1000, reason: 'stopped' });
  await look(world, 8, 10);
  assert.deepEqual(await tickersS(url), [0, 2, 4, 6, 8]);
  assert.deepEqual(await coveredS(url, tickers), [{ from: 0, to: 10 }]);
  assert.deepEqual(await coveredS(url, states), [
    { from: 0, to: 4 },
    { from: 5, to: 9 },
  ]);
  const sessions = await runSql(
    url,
    `SELECT s.reason, count(*)::int AS rows, extract(epoch FROM closed_at)::float8 - ${NOON_S} AS closed
     FROM session s JOIN market_state m USING (session_id) GROUP BY 1, 3 ORDER BY 1`,
  );
  assert.deepEqual(sessions, [
    { reason: 'lost', rows: 2, closed: 4 },
    { reason: 'stopped', rows: 2, closed: 9 },
  ]);
  assert.deepEqual(await runSql(url, 'SELECT tid::int AS tid FROM trade'), [{ tid: 1 }]);
  assert.deepEqual(watch.failures, []);
});

test('the next process stores what a killed one kept, with its claims', LIMIT, async (t) => {
  const world = await openWorld(t);
  const { store, url, tickers, states } = world;
  await look(world, 0, 2);
  cut(world);
  await look(world, 2, 4);
  const session = await store.openSession(states, MS + 2_000);
  await push(world, session, 2, 4);
  await look(world, 4, 6);
  const dir = await left(world);
  await store.stop();
  const next = await openSpooled(url, dir);
  await next.store.openSpool(NEVER);
  assert.deepEqual(await tickersS(url), [0, 2, 4]);
  assert.deepEqual(await coveredS(url, tickers), [{ from: 0, to: 6 }]);
  assert.deepEqual(await coveredS(url, states), [{ from: 2, to: 4 }]);
  const [closed] = await runSql<{ s: number }>(
    url,
    `SELECT extract(epoch FROM closed_at)::float8 - ${NOON_S} AS s FROM session`,
  );
  assert.equal(closed?.s, 4, 'it lived as long as it proved');
  assert.deepEqual(await filesOf(dir), []);
  // To store it again, as after a kill in the midst of it, changes nothing.
  const again = await left(world);
  await next.store.stop();
  const last = await openSpooled(url, again);
  await last.store.openSpool(NEVER);
  assert.deepEqual(await tickersS(url), [0, 2, 4]);
  assert.deepEqual(await runSql(url, 'SELECT count(*)::int AS n FROM session'), [{ n: 1 }]);
});

test('an end that was never confirmed is cut off, and said', LIMIT, async (t) => {
  const world = await openWorld(t);
  cut(world);
  await look(world, 0, 2);
  await look(world, 2, 4);
  const dir = await left(world);
  await world.store.stop();
  const file = join(dir, (await filesOf(dir)).at(-1) ?? '');
  await truncate(file, (await readFile(file)).length - 3);
  const { store, watch } = await openSpooled(world.url, dir);
  await store.openSpool(NEVER);
  assert.ok(watch.tornBytes > 0);
  assert.deepEqual(await coveredS(world.url, world.tickers), [{ from: 0, to: 2 }]);
  assert.deepEqual(watch.failures, []);
});

test('a damaged file is set aside, and nothing behind it is claimed', LIMIT, async (t) => {
  const world = await openWorld(t, 300_000);
  cut(world);
  // Files of 64 KiB: several of them.
  for (let s = 0; s < 200; s += 1) await look(world, s, s + 1);
  const dir = await left(world);
  await world.store.stop();
  const [, second = '', ...rest] = await filesOf(dir);
  assert.ok(rest.length > 0);
  const data = await readFile(join(dir, second));
  data.write('!', Math.floor(data.length / 2));
  await writeFile(join(dir, second), data);
  const { store, watch } = await openSpooled(world.url, dir, 300_000);
  await store.openSpool(NEVER);
  assert.deepEqual(watch.failures, ['spool_damaged']);
  assert.deepEqual(await filesOf(dir), [`${second}.damaged`]);
  const [covered, ...others] = await coveredS(world.url, world.tickers);
  assert.deepEqual(others, []);
  assert.ok((covered?.to ?? 0) > 10 && (covered?.to ?? 0) < 190);
  const stored = await tickersS(world.url);
  assert.equal(stored.at(-1), 199, 'rows behind it are kept');
  assert.ok(stored.length < 200);
});

test('the spool of another archive is refused by name', LIMIT, async (t) => {
  const world = await openWorld(t);
  cut(world);
  await look(world, 0, 2);
  const dir = await left(world);
  const other = await makeDatabase();
  const { store } = await openSpooled(other, dir);
  await store.openSpool(NEVER);
  assert.equal(store.spooledBytes(), 0, 'each database has a folder of its own');
  await store.stop();
  const [file = ''] = await filesOf(dir);
  const [, own = ''] = (await readdir(dir)).sort((a) => (a === dirname(file) ? -1 : 1));
  await cp(join(dir, file), join(dir, own, '000001.spool'));
  const next = await openSpooled(other, dir);
  await assert.rejects(next.store.openSpool(NEVER), {
    code: 'spool_refused',
    message: new RegExp(`belongs to the database ${new URL(world.url).pathname.slice(1)} `),
  });
  assert.equal((await filesOf(dir)).length, 2, 'nothing of it is touched');
  assert.deepEqual(await runSql(other, 'SELECT 1 FROM ticker'), []);
});

test('two processes do not use one folder: the second one keeps nothing', LIMIT, async (t) => {
  const world = await openWorld(t);
  const { store, watch } = await openSpooled(world.url, world.dir, 1_000_000, false);
  await store.openSpool(NEVER);
  assert.deepEqual(watch.failures, ['spool_in_use']);
  await look({ store, tickers: world.tickers }, 0, 2);
  assert.deepEqual(await tickersS(world.url), [0]);
});

test('beyond the bound new batches are dropped, and are no coverage', LIMIT, async (t) => {
  const world = await openWorld(t, 3_000);
  const { watch, proxy, url } = world;
  cut(world);
  let kept = 0;
  const refusal = await (async () => {
    for (; kept < 20; kept += 1) await look(world, kept, kept + 1);
  })().catch((error: unknown) => error);
  assert.equal((refusal as { code?: string }).code, 'spool_full');
  assert.ok(kept > 1);
  await assert.rejects(look(world, kept + 1, kept + 2), { code: 'spool_full' });
  assert.equal(watch.batches.dropped, 2);
  const empty = watch.empty();
  proxy.retarget(url);
  await empty;
  await look(world, kept + 2, kept + 3);
  assert.deepEqual(await coveredS(url, world.tickers), [
    { from: 0, to: kept },
    { from: kept + 2, to: kept + 3 },
  ]);
});

test(
  'a full disk drops what comes, and there is no half frame when it has room',
  LIMIT,
  async (t) => {
    const disk = await mountSmallDisk(t, 2);
    if (disk === undefined) return;
    const world = await openWorld(t, undefined, join(disk.path, 'spool'));
    const { watch, proxy, url } = world;
    cut(world);
    await look(world, 0, 1);
    await disk.fill();
    let lost = 1;
    // A block of the disk may hold some more.
    const refusal = await (async () => {
      for (; lost < 200; lost += 1) await look(world, lost, lost + 1);
    })().catch((error: unknown) => error);
    assert.equal((refusal as { code?: string }).code, 'spool_full', 'the fault fired');
    await disk.free();
    await look(world, lost + 1, lost + 2);
    const empty = watch.empty();
    proxy.retarget(url);
    await empty;
    assert.deepEqual(await coveredS(url, world.tickers), [
      { from: 0, to: lost },
      { from: lost + 1, to: lost + 2 },
    ]);
  },
);

test(
  'time that another holder has covered meanwhile stays as that one saw it',
  LIMIT,
  async (t) => {
    const world = await openWorld(t);
    const { url, tickers } = world;
    cut(world);
    for (let s = 0; s < 6; s += 1) await look(world, s, s + 1);
    const dir = await left(world);
    await world.store.stop();
    const holder = await openSpooled(url, join(dir, '../other'));
    const span = { fromMs: MS + 2_000, toMs: MS + 4_000 };
    const claims = [{ stream: tickers, span, evidence: {} }];
    await holder.store.commit({ tickers: [ticker(1, 2.5, { last: '99' })], claims });
    await holder.store.stop();
    const { store } = await openSpooled(url, dir);
    await store.openSpool(NEVER);
    assert.deepEqual(await coveredS(url, tickers), [{ from: 0, to: 6 }]);
    assert.deepEqual(await tickersS(url), [0, 1, 2.5, 4, 5]);
  },
);

test('rows without claims are stored where the database went back', LIMIT, async (t) => {
  const world = await openWorld(t);
  const { url, store, proxy, watch, tickers } = world;
  await look(world, 0, 1);
  cut(world);
  await look(world, 1, 2);
  const dir = await left(world);
  await runSql(url, 'UPDATE writer_commit SET commit_no = commit_no - 1');
  const empty = watch.empty();
  proxy.retarget(url);
  await empty;
  assert.equal(store.era(), 1);
  assert.deepEqual(await tickersS(url), [0, 1]);
  assert.deepEqual(await coveredS(url, tickers), [{ from: 0, to: 1 }]);
  await store.stop();
  await runSql(url, 'DELETE FROM ticker; UPDATE writer_commit SET commit_no = 0');
  const next = await openSpooled(url, dir);
  await next.store.openSpool(NEVER);
  assert.deepEqual(await tickersS(url), [1]);
  assert.deepEqual(await coveredS(url, tickers), [{ from: 0, to: 1 }], 'nothing new is claimed');
});

test('rows that a daemon of another share kept are named', LIMIT, async (t) => {
  const world = await openWorld(t);
  cut(world);
  await look(world, 0, 1);
  const dir = await left(world);
  await world.store.stop();
  const watch = new Watch();
  const given = { databaseUrl: world.url, telemetry: watch.telemetry, drainDeadlineMs: 500 };
  const spool = { dir, maxBytes: 10_000_000 };
  const { store } = await openTestStore({ ...given, spool, share: Share.parse('1/2') });
  await store.acquireWriterLock();
  await store.openSpool(NEVER);
  assert.deepEqual([watch.failures, watch.batches.stored], [['spool_refused'], 0]);
});

test('a stop while it waits for the database ends, and keeps what is kept', LIMIT, async (t) => {
  const world = await openWorld(t);
  cut(world);
  await look(world, 0, 1);
  await world.store.stop();
  await assert.rejects(look(world, 1, 2), { code: 'aborted' });
  assert.equal((await filesOf(world.dir)).length, 1);
  const { store } = await openSpooled(world.url, world.dir);
  await store.openSpool(NEVER);
  assert.deepEqual(await coveredS(world.url, world.tickers), [{ from: 0, to: 1 }]);
});

test('a database that hangs is as good as away', LIMIT, async (t) => {
  const world = await openWorld(t);
  const { url, watch, tickers } = world;
  await look(world, 0, 1);
  const empty = watch.empty();
  world.proxy.goDead();
  await look(world, 1, 2);
  assert.equal(watch.batches.kept, 1);
  world.proxy.endAll();
  await empty;
  assert.deepEqual(await coveredS(url, tickers), [{ from: 0, to: 2 }]);
});
