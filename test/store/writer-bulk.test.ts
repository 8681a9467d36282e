import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeRow } from '../../src/model/batch.js';
import type { Store } from '../../src/store/index.js';
import { denseOrder } from '../../src/store/writer/trade-columns.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { claim, miscountedDays, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { BTC, openWithStreams } from '../support/worlds/store-world.js';

const range = (length: number, from = 0) => Array.from({ length }, (_, n) => from + n);
/** Trades [from, from + count) of a market, several a second, in any order. */
const trades = (count: number, from: number, values: Partial<TradeRow> = {}) =>
  range(count, from + 1).map((n) => trade(n, Math.floor(n / 20), values));
const storedOf = (results: readonly Awaited<ReturnType<Store['commit']>>[]) =>
  results.reduce((sum, { outcomes }) => sum + outcomes.trade.stored, 0);

test('the order for the index leaves no trade out and keeps markets apart', () => {
  let start = 0;
  const runs = [700, 3, 256].map((count, index) => {
    const run = { marketId: index + 1, start, end: start + count };
    start = run.end;
    return run;
  });
  const places = Uint32Array.from(range(start).filter((one) => one % 7 !== 0));
  const ordered = denseOrder(runs, places);
  assert.notDeepEqual(ordered, places);
  assert.deepEqual(ordered.toSorted(), places);
  const markets = [...ordered].map((place) => runs.findIndex(({ end }) => place < end));
  assert.deepEqual(
    markets,
    markets.toSorted((a, b) => a - b),
  );
});

test('pages of many trades leave the index dense', async () => {
  const { store, url } = await openWithStreams();
  for (const page of range(5)) {
    for (const marketId of [1, 2, 3, 4, 5]) {
      await store.commit({ trades: trades(1_000, page * 1_000, { marketId }) });
    }
  }
  const [index] = await runSql<{ bytes: number }>(
    url,
    `SELECT sum(pg_indexes_size(inhrelid))::float8 / (SELECT count(*) FROM trade) AS bytes
     FROM pg_inherits WHERE inhparent = 'trade'::regclass`,
  );
  // In the order of time it would be 60, with the last market dense as the end of an index is.
  assert.ok((index?.bytes ?? 99) < 50, `${index?.bytes} bytes a trade`);
});

test('known trades are looked up by their key, whatever the statistics say', async () => {
  const { store, url } = await openWithStreams();
  await store.commit({ trades: trades(5_000, 0) });
  await runSql(url, 'ANALYZE trade');
  const newer = trades(2_000, 100_000);
  await store.commit({ trades: newer });
  const { outcomes } = await store.commit({ trades: newer });
  assert.equal(outcomes.trade.duplicate, newer.length);
  // A session tells what it counted at its end, if not before.
  await store.stop();
  const [counted] = await runSql<{ scans: number }>(
    url,
    "SELECT sum(idx_scan)::int AS scans FROM pg_stat_user_indexes WHERE relname LIKE 'trade_2%'",
  );
  assert.ok((counted?.scans ?? 0) >= newer.length, `${counted?.scans} scans`);
});

test('half known pages store the other half, and what they learn is set', async () => {
  const { store, url, trades: stream } = await openWithStreams();
  const all = trades(600, 0);
  const known = all.filter(({ tid }) => tid % 2 === 0);
  await store.commit({ trades: known, claims: [claim(stream, 0, 31)] });
  const timed = all.map((row) => ({ ...row, executedAtUs: row.tradedAtS * 1_000_000 + row.tid }));
  const claims = [claim(stream, 0, 31)];
  const { outcomes, ranges } = await store.commit({ trades: timed, claims });
  assert.deepEqual([outcomes.trade.stored, outcomes.trade.updated], [300, 300]);
  assert.equal(ranges.length, 1);
  assert.deepEqual(await miscountedDays(url), []);
  const [wrong] = await runSql<{ count: number }>(
    url,
    `SELECT count(*)::int FROM trade
     WHERE executed_at IS DISTINCT FROM traded_at + tid * interval '1 microsecond'`,
  );
  assert.deepEqual(wrong, { count: 0 });
  assert.deepEqual(await miscountedDays(url), []);
});

test('full groups are made ready ahead, and each batch learns what became of it', async () => {
  const { store, url } = await openTestStore({ maxGroupRows: 100 });
  await store.ensureMarkets([BTC], NOON_S * 1_000);
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  // Each repeats the second half of the one before it; seconds are not cut in two.
  const results = await Promise.all(
    range(12).map((page) => {
      const rows = range(100, page * 50 + 1).map((n) => trade(n, n));
      return store.commit({
        trades: rows,
        claims: [claim(stream, page * 50 + 1, page * 50 + 101)],
      });
    }),
  );
  assert.equal(storedOf(results), 650);
  for (const { outcomes } of results.slice(1)) {
    assert.deepEqual([outcomes.trade.stored, outcomes.trade.duplicate], [50, 50]);
  }
  assert.deepEqual(await miscountedDays(url), []);
});

test('a stop drains what was made ready as well', async () => {
  const { store, url } = await openTestStore({ maxGroupRows: 50 });
  await store.ensureMarkets([BTC], NOON_S * 1_000);
  const commits = range(10).map((page) => store.commit({ trades: trades(50, page * 50) }));
  await commits[0];
  await store.stop();
  assert.equal(storedOf(await Promise.all(commits)), 500);
  assert.equal((await runSql(url, 'SELECT FROM trade')).length, 500);
});
