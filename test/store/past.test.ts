import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import { type BlockOptions, Past } from '../../src/archive/past.js';
import { SECOND_MS } from '../../src/kernel/durations.js';
import type { Store } from '../../src/store/index.js';
import { FakeClock } from '../support/fake-clock.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { NOON_S, ticker } from '../support/postgres/postgres-rows.js';
import { depth, exactTrade, noonMs, openWorld, state } from '../support/worlds/replayed-archive.js';

/** Past times of an archive that is written meanwhile. */

const DAY_S = 86_400;
/** Turns of the event loop in which the journal is surely read. */
const TURNS = 50_000;

function openPast(store: Store, options: Partial<BlockOptions> = {}) {
  const clock = new FakeClock();
  const past = new Past(store, { clock, cold: new FolderStorage('/nonexistent'), ...options });
  const ids = async (atS: number, skip = 0, limit = 100) =>
    (await past.trades(1, noonMs(atS) * 1000, skip, limit)).map(({ tid }) => tid);
  return { past, clock, ids };
}

test('rows that come later are seen after a second, by what the journal says', async () => {
  const { store } = await openWorld();
  await store.commit({ trades: [exactTrade(1, 1), exactTrade(3, 3)], depths: [depth(1)] });
  const { past, clock, ids } = openPast(store);
  assert.deepEqual(await ids(60), [3, 1]);
  assert.equal((await past.lastDepth(1, noonMs(60)))?.observedAtMs, noonMs(1));
  await store.commit({
    trades: [exactTrade(2, 2), exactTrade(9, DAY_S)],
    depths: [depth(30)],
  });
  assert.deepEqual(await ids(60), [3, 1], 'the journal is read once a second');
  clock.advance(SECOND_MS);
  for (let turn = 0; turn < TURNS && (await ids(60)).length < 3; turn += 1) await setImmediate();
  assert.deepEqual(await ids(60), [3, 2, 1]);
  assert.equal((await past.lastDepth(1, noonMs(60)))?.observedAtMs, noonMs(30));
  assert.deepEqual(await ids(2 * DAY_S), [9, 3, 2, 1], 'a day that is new');
  await past.close();
});

test('a first question after a rest waits for the journal', async () => {
  const { store } = await openWorld();
  await store.commit({ trades: [exactTrade(1, 1)] });
  const { past, clock, ids } = openPast(store);
  assert.deepEqual(await ids(60), [1]);
  await store.commit({ trades: [exactTrade(2, 2)] });
  clock.advance(60_000);
  assert.deepEqual(await ids(60), [2, 1]);
  await past.close();
});

test('a follower too far behind drops all that it has', async () => {
  const { store, url } = await openWorld();
  await store.commit({ trades: [exactTrade(1, 1)] });
  const { past, clock, ids } = openPast(store);
  assert.deepEqual(await ids(60), [1]);
  await store.commit({ trades: [exactTrade(2, 2)] });
  await runSql(url, 'SELECT restart_journal()');
  clock.advance(60_000);
  assert.deepEqual(await ids(60), [2, 1]);
  await past.close();
});

test('what expired is gone', async () => {
  const { store, url } = await openWorld();
  await store.commit({ trades: [exactTrade(1, -2 * DAY_S), exactTrade(2, 1)] });
  const { past, clock, ids } = openPast(store);
  assert.deepEqual(await ids(60), [2, 1]);
  // Its readings end, which keep partitions where they are.
  clock.advance(60_000);
  await runSql(url, `SELECT expire_partition('trade', '2026-01-13 12:00Z')`);
  clock.advance(60_000);
  assert.deepEqual(await ids(60), [2]);
  await past.close();
});

test('the last observation is found over hours and days without any', async () => {
  const { store } = await openWorld();
  await store.commit({
    depths: [depth(-9 * DAY_S), depth(3600)],
    tickers: [ticker(1, -5 * DAY_S), ticker(2, 0)],
    states: [
      state(1, -3 * DAY_S),
      ...Array.from({ length: 100 }, (_, n) => state(n + 2, n, { origin: 'query', change: '1' })),
    ],
  });
  const { past } = openPast(store);
  const at = noonMs(3599);
  assert.equal((await past.lastDepth(1, at))?.observedAtMs, noonMs(-9 * DAY_S));
  assert.equal(await past.lastDepth(1, noonMs(-10 * DAY_S)), undefined);
  const tickers = await past.lastTickers([1, 2, 3], at);
  assert.deepEqual(tickers.map(({ marketId, observedAtMs }) => [marketId, observedAtMs]).sort(), [
    [1, noonMs(-5 * DAY_S)],
    [2, noonMs(0)],
  ]);
  assert.equal((await past.lastState(1, 60, at, false))?.observedAtMs, noonMs(99));
  const pushed = await past.lastState(1, 60, at, true);
  assert.deepEqual([pushed?.observedAtMs, pushed?.seq], [noonMs(-3 * DAY_S), 1]);
  assert.equal(await past.nextTimeMs([1, 2], noonMs(-8 * DAY_S), at), noonMs(-5 * DAY_S));
  await past.close();
});

test('pages and candles are the same with hardly any memory, which is told once', async () => {
  const { store } = await openWorld();
  const rows = Array.from({ length: 6000 }, (_, n) =>
    exactTrade(n + 1, 60 * n + (n % 7) / 10, { price: `${100 + (n % 13)}.5` }),
  );
  await store.commit({ trades: rows });
  const roomy = openPast(store);
  const told: number[] = [];
  const narrow = openPast(store, { cacheBytes: 20_000, onCrowded: (bytes) => told.push(bytes) });
  for (const [atS, skip] of [
    [360_000, 0],
    [360_000, 5432],
    [100_000, 1300],
    [200_000, 2999],
    [360_000, 5990],
  ] as const) {
    assert.deepEqual(await narrow.ids(atS, skip), await roomy.ids(atS, skip));
    const span = { fromMs: noonMs(0), toMs: noonMs(360_000) };
    const candles = (past: Past) => past.candlesOfTrades(1, 3600, span, noonMs(atS) * 1000);
    assert.deepEqual(await candles(narrow.past), await candles(roomy.past));
  }
  assert.equal(told.length, 1);
  assert.deepEqual(await roomy.ids(360_000, 20, 3), [5980, 5979, 5978]);
  await narrow.past.close();
  await roomy.past.close();
});

test('a busy day is passed over by counting its hours', async () => {
  const { store, url } = await openTestStore();
  await runSql(
    url,
    `INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
     VALUES ('A_B', 'A', 'B', 8, 8, 4, 1, 'epoch', 'epoch');
     SELECT make_partition('trade', '2026-01-15Z');
     INSERT INTO trade (traded_at, tid, executed_at, received_at, market_id, side, price, amount, total)
     SELECT to_timestamp(${NOON_S - DAY_S / 2} + n), n + 1, NULL, now(), 1, 'buy', 1, 1, 1
     FROM generate_series(0, 86399) n;
     INSERT INTO rows_by_day (market_id, series, variant, day, rows) VALUES (1, 'trade', 0, '2026-01-15', 86400)`,
  );
  const { past, ids } = openPast(store);
  // Each trade is visible a second after its own.
  for (const skip of [0, 20_001, 43_199, 60_000, 86_398]) {
    const top = 86_400 - skip;
    assert.deepEqual(
      await ids(DAY_S, skip, 3),
      [top, top - 1, top - 2].filter((id) => id > 0),
    );
  }
  assert.deepEqual(await ids(0, 30_000, 1), [43_200 - 30_000]);
  assert.deepEqual(await ids(0, 43_200, 1), []);
  await past.close();
});
