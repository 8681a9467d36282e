import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import { runCommand } from '../../support/programs/commands.js';
import { hasPackages, PYTHON, python } from '../../support/programs/python.js';
import { openAnalystWorld } from '../../support/worlds/analyst-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/**
 * The scripts of docs/recipes on files of the built program, compared with what the database says. They run where a
 * Python has their packages.
 */

const RECIPES = join(import.meta.dirname, '../../../docs/recipes');
const SPAN = ['--from', '2026-01-15T12:00:00Z', '--to', '2026-01-15T16:00:00Z', '--allow-gaps'];
const FILES = { trades: [], candles: ['--interval', '1h'], depth: [] } as const;
const HOURS = `
  SELECT to_char(date_trunc('hour', traded_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS hour,
         (array_agg(price ORDER BY traded_at, tid))[1]::text AS open, max(price)::text AS high, min(price)::text AS low,
         (array_agg(price ORDER BY traded_at DESC, tid DESC))[1]::text AS close, sum(amount)::text AS amount,
         sum(total)::text AS total, count(*)::text AS trades
  FROM trade WHERE market_id = 1 GROUP BY 1 ORDER BY 1`;

const shortest = (text: string) => text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
const tableOf = (text: string) =>
  text
    .trim()
    .split(/\r?\n/)
    .map((line) => line.split(',').map(shortest));

/** What each script needs, what it is given, and whether it printed the truth. */
type Check = (out: string, place: { url: string; folder: string }) => Promise<void>;
const hours: Check = async (out, { url }) => {
  const rows = await runSql<Record<string, string>>(url, HOURS);
  const [heading, ...lines] = tableOf(out);
  assert.deepEqual(heading, Object.keys(rows[0] ?? {}));
  assert.deepEqual(
    lines,
    rows.map((row) => Object.values(row).map(shortest)),
  );
  assert.equal(lines.length, 3);
};

const READ_BACK = `
import pandas, sys
frame = pandas.read_feather(sys.argv[1])
assert list(frame.columns) == ['date', 'open', 'high', 'low', 'close', 'volume'], frame.columns
assert str(frame['date'].dtype) == 'datetime64[ms, UTC]', frame['date'].dtype
assert (frame.dtypes.iloc[1:] == 'float64').all(), frame.dtypes
frame['date'] = frame['date'].dt.strftime('%H:%M')
print(frame.to_csv(index=False, header=False))`;

const PLAY = `
import numpy, sys
from hftbacktest import BacktestAsset, HashMapMarketDepthBacktest, TRADE_EVENT
feed = numpy.load(sys.argv[1])['data']
trades = feed[feed['ev'] & 0xff == TRADE_EVENT]
asset = (BacktestAsset().data(sys.argv[1]).linear_asset(1.0)
    .constant_order_latency(0, 0).risk_adverse_queue_model().no_partial_fill_exchange()
    .trading_value_fee_model(0.0, 0.0).tick_size(0.01).lot_size(0.00000001))
run = HashMapMarketDepthBacktest([asset])
run.elapse(700 * 10**9)
book = run.depth(0)
print(len(trades), round(float(trades['qty'].sum()), 8), book.best_bid, book.best_ask, book.best_bid_qty,
    book.ask_qty_at_tick(10300), book.bid_qty_at_tick(9900))
run.close()`;

const PANDAS = ['pandas', 'pyarrow'];
const CHECKS: Readonly<
  Record<string, readonly [needs: readonly string[], args: readonly string[], check: Check]>
> = {
  'pandas_hours.py': [PANDAS, ['trades.parquet'], hours],
  'polars_hours.py': [['polars'], ['trades.parquet'], hours],
  'duckdb_hours.py': [['duckdb'], ['trades.parquet'], hours],
  'freqtrade_candles.py': [
    PANDAS,
    ['candles.parquet', 'BTC/USDT', '1h', 'user_data/data/myexchange'],
    async (_, { folder }) => {
      const path = 'user_data/data/myexchange/BTC_USDT-1h.feather';
      assert.deepEqual(tableOf(await python(folder, ['-c', READ_BACK, path])), [
        ['12:00', '100', '103', '100', '103', '8'],
        ['13:00', '104', '104.1', '103.9', '103.9', '1.8'],
        ['14:00', '105', '106', '105', '106', '5'],
      ]);
    },
  ],
  'backtrader_candles.py': [
    ['backtrader', ...PANDAS],
    ['candles.parquet', '60'],
    (out) => {
      assert.deepEqual(tableOf(out), [
        ['2026-01-15T12:00:00Z', '103', '8'],
        ['2026-01-15T13:00:00Z', '103.9', '1.8'],
        ['2026-01-15T14:00:00Z', '106', '5'],
      ]);
      return Promise.resolve();
    },
  ],
  'vectorbt_holding.py': [
    ['vectorbt', ...PANDAS],
    ['trades.parquet', '30min'],
    (out) => {
      const held = (106 / 101 - 1).toFixed(8);
      assert.equal(out, `candles 6\nvolume 12.80000000\nreturn ${held}\n`);
      return Promise.resolve();
    },
  ],
  'hftbacktest_feed.py': [
    ['hftbacktest', ...PANDAS],
    ['trades.parquet', 'depth.parquet', 'feed.npz'],
    async (_, { folder }) => {
      const out = await python(folder, ['-c', PLAY, 'feed.npz']);
      assert.deepEqual(out.trim().split(' ').map(Number), [9, 12.8, 100, 101, 2, 9, 0]);
    },
  ],
};

async function exportAll(t: TestContext) {
  const { url } = await openAnalystWorld();
  const folder = await makeFolder(t);
  for (const [kind, more] of Object.entries(FILES)) {
    const out = ['--out', join(folder, `${kind}.parquet`)];
    const args = ['export', '--kind', kind, '--market', 'BTC_USDT', ...SPAN, ...more, ...out];
    const { code, err } = await runCommand(args, { TAPEKEEP_DATABASE_URL: url });
    assert.equal(code, 0, err);
  }
  return { url, folder };
}

test('each recipe says what the archive holds', async (t) => {
  const scripts = (await readdir(RECIPES)).filter((name) => name.endsWith('.py'));
  // The others read the archive itself: recipes-iceberg.test.ts, recipes-lake.test.ts.
  const own = scripts.filter((name) => !name.startsWith('cold_') && name !== 'pyiceberg_days.py');
  assert.deepEqual(own.sort(), Object.keys(CHECKS).sort());
  const place = await exportAll(t);
  for (const [script, [needs, args, check]] of Object.entries(CHECKS)) {
    if (await hasPackages(needs)) {
      await check(await python(place.folder, [join(RECIPES, script), ...args]), place);
      t.diagnostic(`${script} was run`);
    } else t.diagnostic(`${script} was not run: ${PYTHON} lacks one of ${needs.join(', ')}`);
  }
});
