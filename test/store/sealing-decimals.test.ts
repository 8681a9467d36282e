import assert from 'node:assert/strict';
import test from 'node:test';
import { describeParquet } from '../../src/archive/parquet/read.js';
import { DuckSession, literal } from '../../src/archive/parquet/session.js';
import { makeFolder } from '../support/export-world.js';
import { openTestStore, runSql } from '../support/postgres.js';
import { trade } from '../support/postgres-rows.js';
import { DAY_MS, FIRST_MS, live } from '../support/sealing-world.js';
import { BTC } from '../support/store-world.js';

/** Prices and amounts of single days, in the order of days. */
const DAYS: Readonly<Record<string, ReadonlyArray<readonly [price: string, amount: string]>>> = {
  // What the market's precisions say, although the first days have fewer digits.
  PEPE_USDT: [
    ['1.5', '20000000000'],
    ['0.0000123456', '1'],
    ['2', '99999999999.5'],
    ['0.1', '1'],
  ],
  // More than they say, from one day on; and in the end more than any type has.
  BTC_USDT: [
    ['61837.63', '0.02'],
    ['61837.630000000001', '0.00000001'],
    ['61838', '3'],
    [`0.${'1'.repeat(30)}`, '1'],
  ],
};
const MARKETS = Object.keys(DAYS);

test('a whole folder reads exactly in one piece, however digits grow', async (t) => {
  const { store, url } = await openTestStore();
  const pepe = { ...BTC, name: 'PEPE_USDT', moneyPrec: 10, stockPrec: 0 };
  await store.ensureMarkets([BTC, pepe], FIRST_MS);
  const trades = MARKETS.flatMap((name, index) =>
    (DAYS[name] ?? []).map(([price, amount], day) => {
      const tradedAtS = (FIRST_MS + day * DAY_MS) / 1000;
      const marketId = name === BTC.name ? 1 : 2;
      return trade(10 * index + day + 1, 0, { marketId, tradedAtS, price, amount, total: '7' });
    }),
  );
  await store.commit({ trades });
  const coldDir = await makeFolder(t, 'cold');
  assert.deepEqual(
    (await live({ store, coldDir }, { rules: { coldAfterMs: DAY_MS } })).failures,
    [],
  );
  assert.deepEqual(await runSql(url, 'SELECT tid FROM trade'), []);

  const duck = await DuckSession.open(await makeFolder(t, 'spill'));
  t.after(() => duck.close());
  const typesOf = async (market: string) => {
    const files = await duck.rows(
      'looking',
      `SELECT file FROM glob('${coldDir}/kind=trades/market=${market}/**/*.parquet') ORDER BY file`,
    );
    const types: (string | undefined)[][] = [];
    for (const [file] of files) {
      const { columns } = await describeParquet(duck, String(file));
      types.push(
        ['price', 'amount', 'total'].map(
          (name) => columns.find((one) => one.name === name)?.sqlType,
        ),
      );
    }
    return types;
  };
  const [small, middle] = ['DECIMAL(18,8)', 'DECIMAL(30,12)'];
  assert.deepEqual(await typesOf('PEPE_USDT'), [
    [middle, middle, middle],
    [middle, middle, middle],
    [middle, middle, middle],
    [middle, middle, middle],
  ]);
  assert.deepEqual(await typesOf('BTC_USDT'), [
    [small, small, small],
    [middle, small, small],
    [middle, small, small],
    ['VARCHAR', small, small],
  ]);

  const read = async (paths: string, more: string) =>
    await duck.rows(
      'reading all',
      `SELECT market, rtrim(rtrim(price::VARCHAR, '0'), '.'), rtrim(rtrim(amount::VARCHAR, '0'), '.')
       FROM read_parquet(${literal(`${coldDir}/kind=trades/${paths}`)}, hive_partitioning = true${more})
       ORDER BY market, traded_at`,
    );
  const wanted = (name: string) => {
    const trimmed = (text: string) =>
      (text.includes('.') ? text : `${text}.`).replace(/\.?0*$/, '');
    return (DAYS[name] ?? []).map(([price, amount]) => [name, trimmed(price), trimmed(amount)]);
  };
  assert.deepEqual(
    await read('*/*/*.parquet', ', union_by_name = true'),
    [...MARKETS].sort().flatMap(wanted),
  );
  // Where nothing grew not even that is needed.
  assert.deepEqual(await read('market=PEPE_USDT/*/*.parquet', ''), wanted('PEPE_USDT'));
});
