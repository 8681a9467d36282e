import assert from 'node:assert/strict';
import test, { type TestContext } from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import { systemRandom } from '../../src/kernel/random.js';
import { Database } from '../../src/store/database.js';
import { gate } from '../support/gate.js';
import {
  openTestStore,
  quietStoreEvents,
  rememberedGaps,
  runSql,
} from '../support/postgres/postgres.js';
import { claim, miscountedDays, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { type OpenSql, openSql } from '../support/postgres/postgres-server.js';
import { BTC } from '../support/worlds/store-world.js';

/**
 * Deadlocks and serialization failures, made by another connection that works on the same rows in the
 * opposite order: the whole transaction is repeated, and nothing is lost or twice.
 */

/** A store that tells of its failures, and a connection that never is the victim of a deadlock. */
async function openWorld(t: TestContext) {
  const failed: string[] = [];
  const telemetry = quietStoreEvents({
    commitFailed: ({ code, willRetry }) => failed.push(`${code} ${willRetry}`),
  });
  const { store, url } = await openTestStore({ telemetry, retryCapMs: 20 });
  await store.ensureMarkets([BTC, { ...BTC, name: 'ETH_USDT', stock: 'ETH' }], NOON_S * 1_000);
  const first = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const second = await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 });
  const other = await openSql(url);
  const looker = await openSql(url);
  t.after(() => Promise.all([other.end(), looker.end()]));
  await other.run(`SET deadlock_timeout = '1h'`);
  return { store, url, first, second, other, looker, failed };
}

/** Returns when a program waits for a lock that another has. */
async function untilOneWaits(looker: OpenSql): Promise<void> {
  for (;;) {
    const waiting = await looker.run(
      `SELECT FROM pg_stat_activity WHERE datname = current_database()
         AND wait_event_type = 'Lock' AND application_name = 'tapekeep'`,
    );
    if (waiting.length > 0) return;
  }
}

test('a commit that is the victim of a deadlock is repeated, and counts once', async (t) => {
  const { store, url, first, second, other, looker, failed } = await openWorld(t);
  await store.commit({
    trades: [trade(1, 1), trade(2, 2, { marketId: 2 })],
    claims: [claim(first, 0, 10), claim(second, 0, 10)],
  });
  const lock = (streamId: number) =>
    other.run('SELECT FROM coverage WHERE stream_id = $1 FOR UPDATE', [streamId]);
  await other.run('BEGIN');
  await lock(second.streamId);
  const committed = store.commit({
    trades: [trade(3, 11), trade(4, 12, { marketId: 2 })],
    claims: [claim(first, 10, 20), claim(second, 10, 20)],
  });
  await untilOneWaits(looker);
  await lock(first.streamId);
  await other.run('COMMIT');
  assert.equal((await committed).outcomes.trade.stored, 2);
  assert.deepEqual(failed, ['40P01 true']);
  assert.deepEqual(await miscountedDays(url), []);
  const [row] = await runSql<{ n: number }>(url, 'SELECT count(*)::int AS n FROM trade');
  assert.equal(row?.n, 4);
  for (const stream of [first, second]) {
    const [range, ...more] = await store.coveredRanges(stream, 5);
    assert.deepEqual(range?.span, claim(stream, 0, 20).span);
    assert.deepEqual(more, []);
  }
});

test('a row that is moved while a commit waits for it gets its change, and only once', async (t) => {
  const { store, url, other, looker, failed } = await openWorld(t);
  const candle = {
    ...{ marketId: 1, intervalS: 60, openAtS: NOON_S, receivedAtMs: (NOON_S + 60) * 1_000 },
    ...{ open: '1', high: '2', low: '1', close: '2', volume: '3', quoteVolume: '4' },
  };
  await store.commit({ klines: [candle] });
  await runSql(url, `SELECT make_partition('kline', '2026-02-15')`);
  await other.run('BEGIN');
  // To another partition and back, as no program of ours does.
  for (const sign of ['+', '-']) {
    await other.run(`UPDATE kline SET open_at = open_at ${sign} interval '31 days'`);
  }
  const changed = { ...candle, close: '1.5', receivedAtMs: candle.receivedAtMs + 1_000 };
  const committed = store.commit({ klines: [changed] });
  await untilOneWaits(looker);
  await other.run('COMMIT');
  await committed;
  assert.deepEqual(failed, []);
  assert.deepEqual(
    await runSql(url, 'SELECT close::text, revision, open_at = $1 AS here FROM kline', [
      new Date(NOON_S * 1_000),
    ]),
    [{ close: '1.5', revision: 1, here: true }],
  );
  assert.equal((await runSql(url, 'SELECT FROM kline_revision')).length, 1);
});

test('a trade of one who writes without the locks is found at the next try', async (t) => {
  const { store, url, first, other, looker, failed } = await openWorld(t);
  await store.commit({ trades: [trade(1, 1)], claims: [claim(first, 0, 2)] });
  await other.run('BEGIN');
  await other.run(
    `INSERT INTO trade (market_id, traded_at, tid, side, price, amount, total, received_at)
     SELECT market_id, traded_at + interval '1 s', 2, side, price, amount, total, received_at FROM trade`,
  );
  const committed = store.commit({
    trades: [trade(2, 2), trade(3, 3)],
    claims: [claim(first, 2, 4)],
  });
  await untilOneWaits(looker);
  await other.run('COMMIT');
  const { stored, duplicate } = (await committed).outcomes.trade;
  assert.deepEqual([stored, duplicate], [1, 1]);
  assert.deepEqual(failed, []);
  assert.equal((await miscountedDays(url)).length, 1, 'the other one counts nothing');
  const [range, ...more] = await store.coveredRanges(first, 5);
  assert.deepEqual([range?.span, more], [claim(first, 0, 4).span, []]);
});

test('what is remembered of a gap is written all the same after a deadlock', async (t) => {
  const { store, first, other, looker, failed } = await openWorld(t);
  const gap = { stream: first, atMs: NOON_S * 1_000, reason: 'no connection' } as const;
  await store.recordGap({ ...gap, state: 'open', span: claim(first, 0, 10).span });
  await other.run('BEGIN');
  await other.run('SELECT FROM gap FOR UPDATE');
  const recorded = store.recordGap({ ...gap, state: 'open', span: claim(first, 5, 20).span });
  await untilOneWaits(looker);
  await other.run(`SELECT lock_rows('gaps', '{1}')`);
  await other.run('COMMIT');
  await recorded;
  assert.deepEqual(failed, ['40P01 true']);
  const gaps = await rememberedGaps(store, first);
  assert.deepEqual(
    gaps.map(({ span }) => span),
    [claim(first, 5, 20).span, claim(first, 0, 5).span],
  );
});

test('rows have the names, times and spans of the program, to the microsecond', async (t) => {
  const { store, url } = await openWorld(t);
  const database = new Database({
    ...{ databaseUrl: url, clock: systemClock, random: systemRandom, poolSize: 1 },
    ...{ connectTimeoutMs: 10_000, statementTimeoutMs: 30_000, telemetry: quietStoreEvents() },
  });
  t.after(() => database.close());
  const [row] = await database.rows(`
    SELECT 9007199254740991::bigint AS last_id, timestamptz 'infinity' AS not_after, NULL::timestamptz AS closed_at,
      tstzrange('2026-01-31', '2026-01-31 00:00:01.000029') AS span, tstzrange('-infinity', '0044-03-15 BC') AS old`);
  const fromMs = Date.UTC(2026, 0, 31);
  assert.deepEqual(row, {
    ...{ lastId: 9007199254740991, notAfterMs: Infinity, closedAtMs: null },
    span: { fromMs, toMs: fromMs + 1000.029 },
    old: { fromMs: -Infinity, toMs: Date.UTC(-43, 2, 15) },
  });
  const times = await database.rows<{ atMs: number; exact: number }>(`
    SELECT at, (extract(epoch FROM at) * 1000)::float8 AS exact FROM (
      SELECT timestamptz '2026-01-31' + n * interval '12345.678901 s' AS at
      FROM generate_series(-2000, 2000) n) times`);
  for (const { atMs, exact } of times) assert.equal(atMs, exact);
  assert.deepEqual(await store.query('SELECT 1 AS its_own_name'), [{ its_own_name: 1 }]);
});

test('a transaction that could not be serialized runs again from its start', async (t) => {
  const { url } = await openWorld(t);
  await runSql(url, 'CREATE TABLE tally (n integer)');
  const failed: string[] = [];
  const database = new Database({
    ...{ databaseUrl: url, clock: systemClock, random: systemRandom, poolSize: 2 },
    ...{ connectTimeoutMs: 10_000, statementTimeoutMs: 30_000 },
    telemetry: quietStoreEvents({ commitFailed: ({ code }) => failed.push(code) }),
  });
  t.after(() => database.close());
  let read = 0;
  const { opened: bothHaveRead, open } = gate();
  const add = () =>
    database.transaction(async (runner) => {
      const [row] = await runner.rows<{ n: number }>('SELECT count(*)::int AS n FROM tally');
      read += 1;
      if (read === 2) open();
      await bothHaveRead;
      await runner.rows('INSERT INTO tally VALUES ($1)', [row?.n]);
    }, 'ISOLATION LEVEL SERIALIZABLE');
  await Promise.all([add(), add()]);
  // A second time where the next try still meets the other transaction.
  assert.deepEqual([...new Set(failed)], ['40001']);
  assert.deepEqual(await runSql(url, 'SELECT n FROM tally ORDER BY n'), [{ n: 0 }, { n: 1 }]);
});

test('a database that isolates transactions strictly by default is worked with as any other', async (t) => {
  const { store: preparing, url, first } = await openWorld(t);
  const name = new URL(url).pathname.slice(1);
  await preparing.stop();
  await runSql(url, `ALTER DATABASE ${name} SET default_transaction_isolation TO 'serializable'`);
  const failed: string[] = [];
  const telemetry = quietStoreEvents({ commitFailed: ({ code }) => failed.push(code) });
  const { store } = await openTestStore({ databaseUrl: url, telemetry, poolSize: 6 });
  await Promise.all(
    Array.from({ length: 24 }, async (_, n) => {
      const { span } = claim(first, n * 10, n * 10 + 15);
      const gap = { stream: first, span, atMs: NOON_S * 1_000 };
      await store.recordGap({ ...gap, state: 'open', reason: 'no connection' });
      await store.want(first, span);
      await store.closeFilledGaps();
    }),
  );
  assert.deepEqual(failed, []);
  const gaps = await rememberedGaps(store, first);
  assert.equal(gaps.length, 24);
});
