import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import type { Batch, StateRow } from '../../src/model/batch.js';
import { SERIES_TABLES } from '../../src/model/series.js';
import { Share } from '../../src/model/share.js';
import { type Acknowledged, hasAll } from '../../src/store/writer/commit-number.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
  testPostgres,
} from '../support/postgres/postgres.js';
import { PostgresProxy } from '../support/postgres/postgres-proxy.js';
import { claim, miscountedDays, NOON_S, ticker, trade } from '../support/postgres/postgres-rows.js';
import { openSql } from '../support/postgres/postgres-server.js';
import { BTC } from '../support/worlds/store-world.js';

/** The database comes back older than it was: what the writer remembers is not what is stored. */

interface WentBack {
  readonly acknowledged: number;
  readonly found: number;
  readonly why: string;
}

async function openWorld(databaseUrl: string) {
  const events: WentBack[] = [];
  const telemetry = quietStoreEvents({ databaseWentBack: (event) => events.push(event) });
  const { store } = await openTestStore({ databaseUrl, telemetry, retryCapMs: 50 });
  await store.acquireWriterLock();
  await store.ensureMarkets([BTC], NOON_S * 1_000);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const eras: number[] = [];
  store.onWentBack(() => eras.push(store.era()));
  const commit = (batch: Batch) => store.commit(batch, { era: store.era() });
  return { store, trades, events, eras, commit };
}

/** Copies of a database that can take its place, as those of a snapshot do. */
async function copiesOf(t: TestContext, url: string) {
  const { url: admin } = await testPostgres();
  const name = new URL(url).pathname.slice(1);
  const names: string[] = [];
  t.after(async () => {
    for (const one of names) await runSql(admin, `DROP DATABASE IF EXISTS ${one} WITH (FORCE)`);
  });
  const end = (of: string) =>
    runSql(
      admin,
      'SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = $1',
      [of],
    );
  const copy = (as: string) =>
    runSql(admin, `CREATE DATABASE ${as} TEMPLATE ${name} STRATEGY FILE_COPY`);
  return {
    /** Copies it while nobody is connected. */
    async take(): Promise<void> {
      names.push(`${name}_old`, `${name}_gone`);
      await runSql(admin, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      await end(name);
      await copy(`${name}_old`);
      await runSql(admin, `ALTER DATABASE ${name} ALLOW_CONNECTIONS true`);
    },
    async putBack(): Promise<void> {
      await runSql(admin, `ALTER DATABASE ${name} ALLOW_CONNECTIONS false`);
      await end(name);
      await runSql(admin, `ALTER DATABASE ${name} RENAME TO ${name}_gone`);
      await runSql(admin, `ALTER DATABASE ${name}_old RENAME TO ${name}`);
    },
  };
}

const INCIDENTS = 'SELECT kind, acknowledged::int, found::int, note FROM incident';

test('an older copy is noticed: claims made before are dropped, rows and later claims stored', async (t) => {
  const url = await makeDatabase();
  const { store, trades, events, eras, commit } = await openWorld(url);
  const copies = await copiesOf(t, url);
  await commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 2)] });
  await copies.take();
  await commit({ trades: [trade(2, 2)], claims: [claim(trades, 2, 3)] });
  await commit({ trades: [trade(3, 3)], claims: [claim(trades, 3, 4)] });
  assert.deepEqual(
    [store.era(), events],
    [0, []],
    'a connection that was cut is no older database',
  );
  await copies.putBack();
  const made = { trades: [trade(4, 4)], claims: [claim(trades, 4, 5)] };
  const late = await commit(made);
  assert.deepEqual([late.outcomes.trade.stored, late.ranges], [1, []]);
  assert.deepEqual(eras, [1]);
  const [{ acknowledged = 0, found = 0, why = '' } = {}] = events;
  assert.deepEqual([acknowledged - found, why.includes('older copy')], [2, true]);
  assert.deepEqual(await runSql(url, INCIDENTS), [
    { kind: 'went back', acknowledged, found, note: why },
  ]);
  const rows = () => runSql<{ tid: number }>(url, 'SELECT tid::int FROM trade ORDER BY 1');
  const covered = () => store.coveredRanges(trades, 10);
  assert.deepEqual(await rows(), [{ tid: 1 }, { tid: 4 }]);
  assert.deepEqual(
    (await covered()).map(({ span }) => span.toMs / 1000 - NOON_S),
    [2],
    'what the lost commits covered is not covered',
  );
  await commit({ trades: [trade(2, 2), trade(3, 3)], claims: [claim(trades, 2, 5)] });
  assert.equal((await rows()).length, 4);
  assert.equal((await covered()).length, 1);
  assert.deepEqual(await miscountedDays(url), []);
  assert.equal(events.length, 1);
});

test('rows of a market or a session that is lost go to quarantine', async (t) => {
  const url = await makeDatabase();
  const { store, commit } = await openWorld(url);
  const copies = await copiesOf(t, url);
  const states = await store.ensureStream({ kind: 'states', marketId: 1, variant: 60 });
  await commit({ trades: [trade(1, 1)] });
  await copies.take();
  await store.ensureMarkets([BTC, { ...BTC, name: 'NEW_USDT' }], NOON_S * 1_000);
  const sessionId = await store.openSession(states, NOON_S * 1_000);
  await commit({ trades: [trade(2, 2)] });
  await copies.putBack();
  const figures = {
    last: '1',
    open: '1',
    close: '1',
    high: '1',
    low: '1',
    quoteVolume: '1',
    volume: '1',
  };
  const state: StateRow = {
    ...{ marketId: 1, periodS: 60, observedAtMs: NOON_S * 1_000, seq: 1, receivedAtMs: 1 },
    ...{ ...figures, change: null, origin: 'update', sessionId },
  };
  await commit({
    trades: [trade(3, 3), trade(4, 4, { marketId: 2 })],
    tickers: [ticker(1, 5), ticker(2, 5)],
    states: [state],
  });
  const TABLES = `
    SELECT (SELECT array_agg(market_id || ':' || tid ORDER BY tid) FROM trade) AS trades,
           (SELECT count(*)::int FROM ticker) AS tickers, (SELECT count(*)::int FROM market_state) AS states,
           (SELECT array_agg(endpoint ORDER BY endpoint) FROM quarantine WHERE reason LIKE '%is lost') AS refused`;
  assert.deepEqual(await runSql(url, TABLES), [
    {
      trades: ['1:1', '1:3'],
      ...{ tickers: 1, states: 0 },
      refused: ['store:market_state', 'store:ticker', 'store:trade'],
    },
  ]);
});

test('a COMMIT whose answer is lost is no sign of an older database', async (t) => {
  const url = await makeDatabase();
  const proxy = new PostgresProxy(url);
  t.after(() => proxy.stop());
  const { store, trades, events, commit } = await openWorld(await proxy.start());
  for (let tid = 1; tid <= 6; tid += 1) {
    if (tid % 2 === 0) proxy.cutAfterNextCommit();
    const batch = { trades: [trade(tid, tid)], claims: [claim(trades, tid, tid + 1)] };
    const { ranges } = await commit(batch);
    assert.equal(ranges.length, 1);
  }
  assert.ok(proxy.fired >= 3);
  assert.deepEqual([store.era(), events], [0, []]);
  assert.equal((await store.query('SELECT FROM trade')).length, 6);
});

test('another program that wrote while the connection was lost is noticed', async (t) => {
  const url = await makeDatabase();
  const proxy = new PostgresProxy(url);
  t.after(() => proxy.stop());
  const { store, trades, events, commit } = await openWorld(await proxy.start());
  await commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 2)] });
  proxy.retarget(undefined);
  proxy.endAll();
  const other = await openTestStore({ databaseUrl: url });
  // The server may not have seen yet that the first one is gone.
  for (let isHeld = true; isHeld; ) {
    isHeld = await other.store.acquireWriterLock().then(
      () => false,
      () => true,
    );
  }
  await other.store.commit({ trades: [trade(2, 2)] });
  await other.store.stop();
  proxy.retarget(url);
  const { ranges } = await commit({ claims: [claim(trades, 2, 3)] });
  assert.deepEqual(ranges, []);
  assert.equal(store.era(), 1);
  assert.match(events[0]?.why ?? '', /another program/);
});

test('a promoted server has a commit if it had that many when it was promoted', async () => {
  const url = await makeDatabase();
  const { store } = await openWorld(url);
  const [own] = await runSql<{ system: string; timeline: string; first: number }>(
    url,
    'SELECT system, timeline, commit_no::int AS first FROM server_timeline WHERE share = 0',
  );
  assert.ok(own !== undefined, 'the first hold writes its timeline down');
  const { system, timeline } = own;
  assert.deepEqual([timeline, own.first], ['00000001', 0]);
  // The second lacked everything after 300, and went to 400; the third began there.
  await runSql(
    url,
    `INSERT INTO server_timeline (system, timeline, share, commit_no)
     VALUES ($1, '00000002', 0, 300), ($1, '00000003', 0, 400)`,
    [system],
  );
  const sql = await openSql(url);
  const runner = { rows: sql.run.bind(sql) };
  const now = { system, timeline: '00000003', number: 450 };
  const has = (at: Partial<Acknowledged>) => hasAll(runner, now, { ...now, ...at }, Share.whole);
  for (const [is, at] of [
    [true, { timeline: '00000001', number: 300 }],
    [false, { timeline: '00000001', number: 301 }],
    [true, { timeline: '00000002', number: 400 }],
    [false, { timeline: '00000002', number: 401 }],
    [true, { number: 450 }],
    [false, { number: 451 }],
    [false, { timeline: '00000004', number: 1 }],
    [false, { timeline: '00000000', number: 1 }],
    [false, { system: '1', number: 1 }],
    [true, { system: null, timeline: null, number: 450 }],
  ] as const) {
    assert.equal(await has(at), is, JSON.stringify(at));
  }
  assert.equal(await hasAll(runner, now, null, Share.whole), false);
  // The server's own timeline is new beside the others: numbers of entries may have been given before.
  await runSql(url, `DELETE FROM server_timeline WHERE timeline = '00000001'`);
  await runSql(url, 'SELECT note_timeline()');
  assert.deepEqual(await runSql(url, 'SELECT change FROM journal'), [{ change: 'restarted' }]);
  await sql.end();
  await store.stop();
});

test('no table or partition of a series can be truncated', async () => {
  const url = await makeDatabase();
  const { store, commit } = await openWorld(url);
  await commit({ trades: [trade(1, 1)], tickers: [ticker(1, 1)] });
  await store.makePartitionsAhead(NOON_S * 1_000);
  const partitions = await runSql<{ name: string }>(
    url,
    `SELECT inhrelid::regclass::text AS name FROM pg_inherits
     WHERE inhparent IN (SELECT table_name::regclass FROM partition_policy)`,
  );
  assert.ok(partitions.length > SERIES_TABLES.length);
  for (const table of [...SERIES_TABLES, ...partitions.map(({ name }) => name)]) {
    await assert.rejects(runSql(url, `TRUNCATE ${table}`), { code: 'TK004' }, table);
  }
  assert.equal((await store.query('SELECT FROM trade')).length, 1);
});

test('a partition dropped or detached by hand is replaced, and what it covered revoked', async () => {
  const url = await makeDatabase();
  const { store, trades, eras, commit } = await openWorld(url);
  const tickers = await store.ensureStream({ kind: 'tickers', marketId: 1, variant: 0 });
  const NEXT_DAY_S = 86_400;
  await commit({
    trades: [trade(1, 1), trade(2, NEXT_DAY_S)],
    tickers: [ticker(1, 1)],
    claims: [claim(trades, 0, NEXT_DAY_S + 1), claim(tickers, 0, 10)],
  });
  assert.deepEqual(await store.replaceRemovedPartitions(NOON_S * 1_000), []);
  await runSql(
    url,
    'DROP TABLE trade_20260115; ALTER TABLE ticker DETACH PARTITION ticker_20260115',
  );
  const names = await store.replaceRemovedPartitions(NOON_S * 1_000);
  assert.deepEqual(names, ['ticker_20260115', 'trade_20260115']);
  const [left] = await store.coveredRanges(trades, 10);
  assert.equal(left?.span.fromMs, Date.UTC(2026, 0, 16));
  assert.deepEqual(await miscountedDays(url), []);
  assert.deepEqual(await store.coveredRanges(tickers, 10), []);
  const late = await commit({ claims: [claim(trades, 0, 2)] });
  assert.deepEqual([late.ranges, eras], [[], [1]], 'the writer forgets what it remembers');
  assert.equal((await commit({ trades: [trade(1, 1)] })).outcomes.trade.stored, 1);
  const detached = await runSql(
    url,
    `SELECT FROM pg_class WHERE relname LIKE 'ticker_20260115_detached_%' AND relkind = 'r'`,
  );
  assert.equal(detached.length, 1, 'rows that were detached are kept');
});
