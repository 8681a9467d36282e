import assert from 'node:assert/strict';
import test from 'node:test';
import { DuckSession } from '../../../src/archive/parquet/session.js';
import type { Batch } from '../../../src/model/batch.js';
import { SERIES_TABLES } from '../../../src/model/series.js';
import { openTestStore, runSql } from '../../support/postgres/postgres.js';
import { ticker, trade } from '../../support/postgres/postgres-rows.js';
import { standInForCold } from '../../support/worlds/cold-stand-in.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import { bringBack, DAY_MS, FIRST_MS, live } from '../../support/worlds/sealing-world.js';
import { BTC } from '../../support/worlds/store-world.js';

/** Values that something on the way might take for something else. */
const ODD_MARKET = `Ö/..'%"*[x]=_~?`;
const LONG = `123456789012345678901234567890.${'0123456789'.repeat(3)}1`;
const SMALL = '0.000000000000000001';
const FIRST_S = FIRST_MS / 1000;

function rowsOf(market: number, dayMs: number): Batch {
  const at = (ms: number) => ({
    ...{ marketId: market, observedAtMs: dayMs + ms, receivedAtMs: dayMs + ms + 7 },
  });
  const figures = { last: '1', open: SMALL, close: '1.50', high: LONG, low: '0' };
  const state = { ...figures, periodS: 60, quoteVolume: '1', volume: '2', sessionId: 1 };
  const atS = (dayMs - FIRST_MS) / 1000;
  const instant = (s: number) => ({ tradedAtS: FIRST_S + atS + s, marketId: market });
  const candle = {
    marketId: market,
    receivedAtMs: dayMs + DAY_MS,
    volume: '1.0',
    quoteVolume: LONG,
  };
  const prices = { open: '1', close: '2.000', high: '3', low: SMALL };
  return {
    trades: [
      trade(1 + market * 1e6 + atS, 0, { ...instant(0), price: SMALL, total: '0' }),
      trade(2 + market * 1e6 + atS, 0, {
        ...instant(86_399),
        price: LONG,
        amount: '1',
        total: LONG,
      }),
    ],
    klines: [60, 3600, 86_400].flatMap((intervalS) =>
      [0, 86_400 - intervalS].map((s) => ({
        ...{ ...candle, ...prices, intervalS, openAtS: FIRST_S + atS + s },
      })),
    ),
    tickers: [ticker(market, 0, { ...at(1), last: LONG, change: '-0.10' })],
    depths: [
      { ...at(0), bidPrices: [], bidAmounts: [], askPrices: [], askAmounts: [] },
      { ...at(5), bidPrices: ['2', SMALL], bidAmounts: ['1', LONG], askPrices: [], askAmounts: [] },
    ],
    states: [
      { ...at(3), ...state, seq: 0, origin: 'query', change: '-1.50' },
      { ...at(3), ...state, seq: 1, origin: 'update', change: null },
    ],
  };
}

const KEPT = SERIES_TABLES.map(
  (table) => `SELECT '${table}' AS held_by, to_jsonb(t) AS held FROM ${table} t`,
).join(' UNION ALL ');

test('every kind of row leaves and comes back as it was', async (t) => {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([BTC, { ...BTC, name: ODD_MARKET }], FIRST_MS);
  for (const market of [1, 2]) {
    for (const day of [0, 19]) {
      await store.commit(rowsOf(market, FIRST_MS + day * DAY_MS));
    }
  }
  const [first] = rowsOf(1, FIRST_MS).klines ?? [];
  assert.ok(first !== undefined);
  await store.commit({ klines: [{ ...first, close: LONG, receivedAtMs: FIRST_MS + 2 * DAY_MS }] });
  await runSql(url, `CREATE TABLE kept AS ${KEPT}`);
  const counted = await runSql<{ held_by: string; rows: number }>(
    url,
    'SELECT held_by, count(*)::int AS rows FROM kept GROUP BY 1 ORDER BY 1',
  );
  assert.deepEqual(
    counted.map(({ held_by: table }) => table),
    [...SERIES_TABLES].sort(),
  );
  const differences = () =>
    runSql(
      url,
      `(${KEPT} EXCEPT ALL SELECT * FROM kept) UNION ALL (SELECT * FROM kept EXCEPT ALL (${KEPT}))`,
    );
  const world = { store, coldDir: await makeFolder(t, 'cold') };
  await standInForCold(url);
  const archived = await live(world, { rules: { coldAfterMs: DAY_MS } });
  assert.deepEqual(archived.failures, []);
  assert.ok(archived.outcomes.every(({ became }) => became !== 'kept'));
  assert.deepEqual(await differences(), []);

  // Other programs find kind, market and day in the path.
  const duck = await DuckSession.open(await makeFolder(t, 'spill'));
  t.after(() => duck.close());
  const found = await duck.rows(
    'looking',
    `SELECT market, date::VARCHAR, count(*)::INTEGER
     FROM read_parquet('${world.coldDir}/kind=trades/*/*/*.parquet', hive_partitioning = true,
       union_by_name = true)
     WHERE market <> 'BTC_USDT' AND date = '2026-01-13' GROUP BY ALL`,
  );
  assert.deepEqual(found, [[ODD_MARKET, '2026-01-13', 2]]);

  assert.deepEqual((await bringBack(world)).failures, []);
  assert.deepEqual(await differences(), []);
  const states = new Set((await store.sealing.partitions()).map(({ state }) => state));
  assert.deepEqual([...states], ['sealed']);
});
