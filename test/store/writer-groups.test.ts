import assert from 'node:assert/strict';
import test from 'node:test';
import type { StreamRef } from '../../src/model/batch.js';
import { Connection } from '../../src/store/connection.js';
import { Partitions } from '../../src/store/schema/partitions.js';
import { gate } from '../support/gate.js';
import { openTestStore, quietStoreEvents, runSql } from '../support/postgres/postgres.js';
import { ALWAYS, claim, NOON_S, ticker, trade } from '../support/postgres/postgres-rows.js';
import { BTC } from '../support/worlds/store-world.js';

const counts = (stored: number, updated = 0, duplicate = 0, conflict = 0, rejected = 0) => ({
  stored,
  updated,
  duplicate,
  conflict,
  rejected,
});

test('batches that arrive together share a transaction and keep their own counts', async () => {
  const committed: number[] = [];
  const durationsMs: number[] = [];
  const telemetry = quietStoreEvents({
    committed: ({ batches, durationMs }) => {
      committed.push(batches);
      durationsMs.push(durationMs);
    },
  });
  const { store } = await openTestStore({ commitLatencyMs: 30, telemetry });
  const startedMs = performance.now();
  const results = await Promise.all(
    [1, 2, 3].map((n) => store.commit({ trades: [trade(1, 1), trade(10 + n, n)] })),
  );
  assert.deepEqual(committed, [3]);
  const passedMs = performance.now() - startedMs;
  assert.ok(
    durationsMs.every((ms) => ms <= passedMs),
    'no commit takes longer than its caller waits',
  );
  const sums = results.map(({ outcomes }) => outcomes.trade);
  assert.deepEqual(
    sums.map(({ stored, duplicate }) => [stored, duplicate]),
    [
      [2, 0],
      [1, 1],
      [1, 1],
    ],
  );
});

test('rows of one batch count in its own claims, not in those of batches beside it', async () => {
  const { store } = await openTestStore({ commitLatencyMs: 30 });
  await store.ensureMarkets([BTC], NOON_S * 1000);
  const tickers = await store.ensureStream({ kind: 'tickers', marketId: 1, variant: 0 });
  const results = await Promise.all(
    [0, 10, 20].map((fromS) =>
      store.commit({ tickers: [ticker(1, fromS)], claims: [claim(tickers, fromS, fromS + 5)] }),
    ),
  );
  const ranges = await store.coveredRanges(tickers, 10);
  assert.equal(ranges.length, 3);
  assert.equal(results.length, ranges.length);
});

test('a batch of which no row can be stored is counted, and says so', async () => {
  const { store } = await openTestStore();
  const { outcomes } = await store.commit({ tickers: [ticker(-1, 1)] });
  assert.deepEqual(outcomes.ticker, counts(0, 0, 0, 0, 1));
});

test('a batch that the database refuses does not hold up its neighbours', async () => {
  const { store } = await openTestStore({ commitLatencyMs: 30 });
  const nowhere: StreamRef = {
    ...{ streamId: 999, kind: 'depth', marketId: 999, variant: 0, collectFromMs: null },
  };
  const [good, poison, alsoGood] = await Promise.allSettled([
    store.commit({ trades: [trade(1, 1)] }),
    store.commit({ trades: [trade(2, 2)], claims: [claim(nowhere, 0, 1)] }),
    store.commit({ trades: [trade(3, 3)] }),
  ]);
  assert.equal(good?.status, 'fulfilled');
  assert.equal(alsoGood?.status, 'fulfilled');
  assert.equal(poison?.status, 'rejected');
  assert.deepEqual(
    { code: poison.reason.code, sqlstate: poison.reason.sqlstate },
    { code: 'data_refused', sqlstate: '23503' },
  );
  assert.deepEqual(
    (await store.storedTrades(1, ALWAYS, 9)).map(({ tid }) => tid),
    [1, 3],
  );
});

test('a batch that the program itself cannot write does not hold up its neighbours', async () => {
  const { store } = await openTestStore({ commitLatencyMs: 30, retryCapMs: 5 });
  await store.ensureMarkets([BTC], NOON_S * 1_000, { isComplete: true });
  const stream = await store.ensureStream({ kind: 'depth', marketId: 1, variant: 0 });
  // JSON has no such number.
  const evidence = { page: 1n as unknown as number };
  const [good, poison, alsoGood] = await Promise.allSettled([
    store.commit({ trades: [trade(1, 1)] }),
    store.commit({ claims: [{ ...claim(stream, 0, 1), evidence }] }),
    store.commit({ trades: [trade(2, 2)] }),
  ]);
  assert.equal(good.status, 'fulfilled');
  assert.equal(alsoGood.status, 'fulfilled');
  assert.equal(poison.status, 'rejected');
  assert.equal(poison.reason.code, 'data_refused');
  assert.match(poison.reason.message, /failed 3 times .* left out/);
});

test('market names and payloads are data, whatever they hold', async () => {
  const { store, url } = await openTestStore();
  const name = "a');DROP TABLE trade;--\\\t";
  const { added } = await store.ensureMarkets([{ ...BTC, name }], NOON_S * 1_000);
  assert.deepEqual(added, [name]);
  const payload = "nul \0, tab \t, backslash \\N, quote ', lone surrogate \ud800";
  const row = { receivedAtMs: 1, endpoint: 'history', market: name, reason: 'odd', payload };
  await store.commit({ quarantine: [row] });
  const [kept] = await runSql<{ market: string; payload: string }>(url, 'SELECT * FROM quarantine');
  assert.equal(kept?.market, name);
  assert.equal(kept?.payload, payload.replace('\0', '\ufffd').replace('\ud800', '\ufffd'));
});

test('quarantine keeps the newest rows and counts all', async () => {
  const { store, url } = await openTestStore({ quarantineKeepRows: 10 });
  const row = { receivedAtMs: 1, endpoint: 'history', market: null, reason: 'odd', payload: '' };
  // They are trimmed with the first, then with the five hundredth behind it.
  for (const part of [0, 1, 2]) {
    const rows = Array.from({ length: 250 }, (_, n) => ({
      ...{ ...row, reason: `odd ${n % 20}`, receivedAtMs: n, payload: `${part}/${n}` },
    }));
    await store.commit({ quarantine: rows });
  }
  const [kept] = await runSql(
    url,
    'SELECT count(*)::int AS n, max(payload) AS newest FROM quarantine',
  );
  assert.deepEqual(kept, { n: 10, newest: '2/249' });
  const [counted] = await runSql(url, 'SELECT sum(count)::int AS count FROM quarantine_count');
  assert.deepEqual(counted, { count: 750 });
});

test('rows refused for one reason in one answer are one sample and its count', async () => {
  const { store, url } = await openTestStore();
  const { added } = await store.ensureMarkets([BTC, { ...BTC, name: 'ETH_USDT' }], NOON_S * 1_000);
  assert.equal(added.length, 2);
  const page = (receivedAtMs: number, market: string, reason: string) =>
    Array.from({ length: 500 }, (_, n) => ({
      ...{ receivedAtMs, endpoint: 'history', market, reason, payload: `${reason} ${n}` },
    }));
  const early = { tradedAtS: 1, receivedAtMs: 1 };
  const trades = [1, 2, 3].map((n) => ({ ...trade(n, n), ...early, executedAtUs: null }));
  const { outcomes } = await store.commit({
    trades,
    quarantine: [
      ...page(1, 'BTC_USDT', 'odd'),
      ...page(1, 'BTC_USDT', 'even'),
      ...page(1, 'ETH_USDT', 'odd'),
      ...page(2, 'ETH_USDT', 'odd'),
    ],
  });
  assert.equal(outcomes.trade.rejected, 3, 'every row is settled');
  const kept = await runSql(
    url,
    `SELECT market, reason, payload, (SELECT count(*)::int FROM quarantine) AS rows
     FROM quarantine WHERE endpoint = 'history' ORDER BY quarantine_id`,
  );
  assert.deepEqual(kept, [
    { market: 'BTC_USDT', reason: 'odd', payload: 'odd 0', rows: 5 },
    { market: 'BTC_USDT', reason: 'even', payload: 'even 0', rows: 5 },
    { market: 'ETH_USDT', reason: 'odd', payload: 'odd 0', rows: 5 },
    { market: 'ETH_USDT', reason: 'odd', payload: 'odd 0', rows: 5 },
  ]);
  const sums = `SELECT (SELECT sum(count)::int FROM quarantine) AS samples,
                       (SELECT sum(count)::int FROM quarantine_count) AS counted`;
  assert.deepEqual(await runSql(url, sums), [{ samples: 2003, counted: 2003 }]);
});

test('each row in conflict is kept: it is the only copy of another version', async () => {
  const { store, url } = await openTestStore();
  const trades = [1, 2, 3].map((n) => trade(n, n));
  await store.commit({ trades });
  const { outcomes } = await store.commit({
    trades: trades.map((one) => ({ ...one, price: '7' })),
  });
  assert.equal(outcomes.trade.conflict, 3);
  assert.deepEqual(await runSql(url, 'SELECT count(*)::int AS n FROM quarantine'), [{ n: 3 }]);
});

test('of two tickers of one moment in a batch the first stays, and the other one is kept', async () => {
  const { store, url } = await openTestStore();
  const rows = ['1', '2'].map((last) => ({ ...ticker(1, 0), last }));
  const { outcomes } = await store.commit({ tickers: rows });
  assert.deepEqual(outcomes.ticker, counts(1, 0, 0, 1));
  assert.deepEqual(await runSql(url, 'SELECT last FROM ticker'), [{ last: '1' }]);
  assert.deepEqual(await runSql(url, 'SELECT reason FROM quarantine'), [{ reason: 'conflict' }]);
});

test('a missing partition is made and the work repeated', async () => {
  const { store, url } = await openTestStore();
  await store.commit({ trades: [trade(1, 1)] });
  await runSql(url, 'DROP TABLE trade_20260115');
  const { outcomes } = await store.commit({ trades: [trade(2, 2)] });
  assert.deepEqual(outcomes.trade, counts(1));
});

test('a partition that is missing again and again is a failure that passes, like any other', async (t) => {
  const making = t.mock.method(Partitions.prototype, 'ensureTimes', async () => {});
  const failed: boolean[] = [];
  const tries: number[] = [];
  const telemetry = quietStoreEvents({
    commitFailed: ({ willRetry }) => {
      failed.push(willRetry);
      tries.push(making.mock.calls.filter(({ arguments: [table] }) => table === 'trade').length);
      making.mock.restore();
    },
  });
  const { store } = await openTestStore({ telemetry });
  const { outcomes } = await store.commit({ trades: [trade(1, 1)] });
  assert.deepEqual([outcomes.trade, failed, tries], [counts(1), [true], [4]]);
});

test('new trades among known ones are stored at the first try', async (t) => {
  const { store } = await openTestStore();
  await store.commit({ trades: [trade(1, 1), trade(3, 3)] });
  const asked = t.mock.method(Connection.prototype, 'rows');
  const { outcomes } = await store.commit({ trades: [1, 2, 3, 4].map((n) => trade(n, n)) });
  assert.deepEqual(outcomes.trade, counts(2, 0, 2));
  assert.equal(asked.mock.calls.filter(({ arguments: [sql] }) => sql === 'ROLLBACK').length, 0);
});

test('a known trade on the short cut is no failure', async () => {
  const { store, url } = await openTestStore();
  const other = await openTestStore({ databaseUrl: url });
  await store.commit({ trades: [trade(1, 1)] });
  await other.store.commit({ trades: [trade(50, 50)] });
  const { outcomes } = await store.commit({ trades: [trade(50, 50), trade(51, 51)] });
  assert.deepEqual(outcomes.trade, counts(1, 0, 1));
});

test('a page of one trade a day keeps no other batch waiting, and makes only its own days', async () => {
  const made: string[] = [];
  const telemetry = quietStoreEvents({
    partitionMade: ({ partition }) => void made.push(partition),
  });
  const { store, url } = await openTestStore({ commitLatencyMs: 2, telemetry });
  await store.ensureMarkets([BTC], NOON_S * 1000);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await runSql(url, `UPDATE partition_policy SET width = 'day'`);
  // Every second day: eight months of a market that hardly trades.
  const DAYS = 120;
  const toS = DAYS * 2 * 86_400;
  const rows = Array.from({ length: DAYS }, (_, day) => trade(day + 1, day * 2 * 86_400));
  const order: string[] = [];
  let madeBefore = 0;
  const sparse = store
    .commit({ trades: rows, claims: [claim(trades, 0, toS)] })
    .then(({ outcomes }) => {
      order.push('sparse');
      return outcomes.trade.stored;
    });
  const other = store.commit({ trades: [trade(1000, 10, { marketId: 2 })] }).then(() => {
    order.push('other');
    madeBefore = made.length;
  });
  assert.equal(await sparse, DAYS);
  await other;
  assert.deepEqual(order, ['other', 'sparse']);
  assert.ok(madeBefore < DAYS / 2, `${madeBefore} of ${DAYS} were made before`);
  const days = await runSql<{ day: string }>(
    url,
    `SELECT DISTINCT to_char(traded_at AT TIME ZONE 'UTC', 'YYYYMMDD') AS day FROM trade ORDER BY 1`,
  );
  assert.equal(days.length, DAYS);
  assert.deepEqual(
    made.sort(),
    days.map(({ day }) => `trade_${day}`),
  );
  assert.deepEqual(await store.coveredRanges(trades, 10).then((found) => found.length), 1);
});

test('a store that is stopped does not wait for the partitions of a sparse page', async () => {
  let madeCount = 0;
  const { opened: begun, open: begin } = gate();
  const telemetry = quietStoreEvents({
    partitionMade: () => {
      madeCount += 1;
      if (madeCount === 3) begin();
    },
  });
  const { store, url } = await openTestStore({ commitLatencyMs: 2, telemetry });
  await runSql(url, `UPDATE partition_policy SET width = 'day'`);
  const rows = Array.from({ length: 300 }, (_, day) => trade(day + 1, day * 86_400));
  const refused = assert.rejects(store.commit({ trades: rows }));
  await begun;
  await store.stop();
  await refused;
  assert.ok(madeCount < 200, `${madeCount} were made`);
});
