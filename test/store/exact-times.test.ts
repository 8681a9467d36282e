import assert from 'node:assert/strict';
import test from 'node:test';
import type { TradeRow } from '../../src/model/batch.js';
import { runSql } from '../support/postgres/postgres.js';
import { trade } from '../support/postgres/postgres-rows.js';
import { DAY_MS, FIRST_MS, live, openSealingWorld } from '../support/worlds/sealing-world.js';
import { openWithStreams } from '../support/worlds/store-world.js';

const SECOND_MS = 1000;
const dayOf = (day: number) => ({
  fromMs: FIRST_MS + day * DAY_MS,
  toMs: FIRST_MS + (day + 1) * DAY_MS,
});

/** A trade so many seconds after the start of a day. */
function at(day: number, seconds: number, isTimed: boolean): TradeRow {
  const tradedAtS = FIRST_MS / SECOND_MS + (day * DAY_MS) / SECOND_MS + seconds;
  const executedAtUs = isTimed ? tradedAtS * 1_000_000 + 5 : null;
  const tid = day * 100 + seconds;
  return trade(tid, 0, { tradedAtS, executedAtUs, receivedAtMs: tradedAtS * SECOND_MS });
}

test('days lack exact times newest first; those that have all of them are skipped', async () => {
  const { store } = await openWithStreams();
  const rows = [at(0, 1, false), at(0, 2, true), at(1, 1, true), at(2, 3, false), at(2, 8, false)];
  await store.commit({ trades: [...rows, at(2, 1, true), at(2, 9, true)] });
  const [first, newest] = [dayOf(0), dayOf(2)];
  const within = (day: number, fromS: number, toS: number) => ({
    fromMs: dayOf(day).fromMs + fromS * SECOND_MS,
    toMs: dayOf(day).fromMs + toS * SECOND_MS,
  });
  const ofNewest = { partition: newest, lacking: within(2, 3, 9) };
  const ofFirst = { partition: first, lacking: within(0, 1, 2) };
  assert.deepEqual(await store.untimedTrades(1, Number.POSITIVE_INFINITY), ofNewest);
  assert.deepEqual(await store.untimedTrades(1, newest.fromMs), ofFirst);
  assert.equal(await store.untimedTrades(1, first.fromMs), undefined);
  assert.equal(await store.untimedTrades(2, Number.POSITIVE_INFINITY), undefined, 'another market');
  const figures = async () => {
    const [status] = await store.statusRows(dayOf(3).fromMs);
    return [status?.rows, status?.timed];
  };
  assert.deepEqual(await figures(), [7, 4]);
  await store.commit({ trades: [at(2, 3, true), at(2, 8, true)] });
  assert.deepEqual(await store.untimedTrades(1, Number.POSITIVE_INFINITY), ofFirst);
  assert.deepEqual(await figures(), [7, 6]);
});

test('sealing waits a day for exact times, and no longer', async (t) => {
  const world = await openSealingWorld(t);
  const rules = { needsTimes: true, needsChecks: false };
  const lacking = `market_id = 1 AND executed_at IS NULL AND traded_at < '2026-01-14'`;
  await runSql(world.url, `UPDATE trade SET received_at = now() WHERE ${lacking}`);
  const states = async () => {
    const { failures } = await live(world, { rules });
    assert.deepEqual(failures, []);
    return (await store.sealing.partitions())
      .filter(({ table, span }) => table === 'trade' && span.fromMs < dayOf(3).fromMs)
      .map(({ state }) => state);
  };
  const { store } = world;
  assert.deepEqual(await states(), ['hot', 'sealed', 'sealed']);
  await runSql(
    world.url,
    `UPDATE trade SET received_at = now() - interval '25 h' WHERE ${lacking}`,
  );
  assert.deepEqual(await states(), ['sealed', 'sealed', 'sealed']);
  assert.equal(
    await store.untimedTrades(1, Number.POSITIVE_INFINITY),
    undefined,
    'sealed days rest',
  );
});
