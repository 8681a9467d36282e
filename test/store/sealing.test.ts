import assert from 'node:assert/strict';
import test from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { miscountedDays } from '../support/postgres/postgres-rows.js';
import {
  allTrades,
  bringBack,
  DAY_MS,
  live,
  openSealingWorld,
  tradePartitions,
} from '../support/worlds/sealing-world.js';

test('rows that were not counted are reckoned from the size that the table has now', async (t) => {
  const { store, url } = await openSealingWorld(t, 500);
  const rows = async () => (await tradePartitions(store))[0]?.rows ?? 0;
  await runSql(url, 'ANALYZE trade_20260113');
  assert.equal(await rows(), 1000);
  await runSql(
    url,
    `INSERT INTO trade (market_id, traded_at, tid, executed_at, received_at, side, price, amount, total)
     SELECT market_id, traded_at, tid + 10000 * copy, executed_at, received_at, side, price, amount,
            total
     FROM trade_20260113, generate_series(1, 9) AS copy`,
  );
  const reckoned = await rows();
  assert.ok(reckoned > 8000 && reckoned < 12_000, `${reckoned} of 10,000`);
});

test('sealed, archived, restored: the rows are the same to the last digit', async (t) => {
  const world = await openSealingWorld(t);
  const { store, url } = world;
  const before = await allTrades(url);
  const sealed = await live(world);
  assert.deepEqual(sealed.failures, []);
  assert.deepEqual(
    sealed.outcomes.map(({ became, rows }) => [became, rows]),
    [
      ['sealed', 80],
      ['sealed', 80],
      ['sealed', 80],
    ],
  );
  const checksums = (await tradePartitions(store)).map(({ checksum }) => checksum);
  const archived = await live(world, { rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(archived.failures, []);
  assert.deepEqual(
    archived.outcomes.map(({ became, note }) => [became, note]),
    Array.from({ length: 3 }, () => ['archived', null]),
  );
  assert.deepEqual(await allTrades(url), before);
  const cold = await tradePartitions(store);
  assert.deepEqual(
    cold.map(({ state, rows, heapBytes }) => [state, rows, heapBytes]),
    Array.from({ length: 3 }, () => ['archived', 80, 0]),
  );
  const back = await bringBack(world);
  assert.deepEqual(back.failures, []);
  assert.deepEqual(await allTrades(url), before);
  const again = await tradePartitions(store);
  assert.deepEqual(
    again.map(({ state, checksum }) => [state, checksum]),
    checksums.map((checksum) => ['sealed', checksum]),
  );
  assert.deepEqual(await miscountedDays(url), []);
  assert.deepEqual((await live(world)).outcomes, []);
});
