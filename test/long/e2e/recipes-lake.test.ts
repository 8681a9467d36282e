import assert from 'node:assert/strict';
import { cp, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import type { TradeRow } from '../../../src/model/batch.js';
import { openTestStore, runSql } from '../../support/postgres/postgres.js';
import { marketOf, trade } from '../../support/postgres/postgres-rows.js';
import {
  bucketLack,
  type LakeBucket,
  startLakeBucket,
} from '../../support/programs/lake-bucket.js';
import { hasPackages, PYTHON, python } from '../../support/programs/python.js';
import { standInForCold } from '../../support/worlds/cold-stand-in.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import { DAY_MS, FIRST_MS, live } from '../../support/worlds/sealing-world.js';

/** The recipes that read cold files in a bucket, compared with the rows of Postgres before they left it. */

const RECIPES = join(import.meta.dirname, '../../../docs/recipes');
/** Days in files; a further one stays in the database. */
const DAYS = 4;
/** Digits after the point of the longest total. */
const DIGITS = '22';
const PER_DAY = 150;
/** As `--driver-class-path /folder/of/jars/* pyspark-shell`, so that Spark does not download them. */
const SPARK_OPTIONS = 'PYSPARK_SUBMIT_ARGS';
const LISTER = ['psycopg2', 'pyarrow'];

const HOURS = `
  SELECT name AS market, to_char(date_trunc('hour', traded_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS hour,
         (array_agg(price ORDER BY traded_at, tid))[1]::text AS open, max(price)::text AS high, min(price)::text AS low,
         (array_agg(price ORDER BY traded_at DESC, tid DESC))[1]::text AS close, sum(amount)::text AS amount,
         sum(total)::text AS total, count(*)::text AS trades
  FROM trade JOIN market USING (market_id) WHERE traded_at < $1 GROUP BY 1, 2 ORDER BY name COLLATE "C", 2`;

/** Trades of a market whose numbers get longer from day to day, so that its files differ in their types. */
function tradesOf(marketId: number): TradeRow[] {
  const figures = [
    { price: '61837.63', amount: '0.31', total: '19169.6653' },
    { price: '61838.1', amount: '0.000000000123', total: '0.0000076060863' },
    { price: '0.000000000000000007', amount: '12345678901234567', total: '0.1' },
    // No decimal of a file holds this one.
    { price: '100.5', amount: '0.00000001', total: '0.0000000000000000000123' },
  ];
  return Array.from({ length: (DAYS + 1) * PER_DAY }, (_, n): TradeRow => {
    const day = Math.floor(n / PER_DAY);
    const longest = figures[Math.min(day, marketId === 1 ? 3 : 1)];
    const plain = { price: `${61_000 + ((n * 37) % 101)}.25`, amount: '0.0031', total: `${n}.13` };
    const tradedAtS = FIRST_MS / 1000 + day * 86_400 + Math.floor((n % PER_DAY) / 3) * 700;
    return trade(n + 1, 0, {
      ...{ marketId, tradedAtS, receivedAtMs: tradedAtS * 1000 + 5, side: 'sell' },
      ...(n % 9 === 4 ? longest : plain),
    });
  });
}

interface Lake extends LakeBucket {
  /** Where the list and the results go. */
  readonly folder: string;
  readonly list: string;
  readonly hours: readonly string[];
}

const shortest = (text: string) => text.replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
const linesOf = (text: string) =>
  text
    .trim()
    .split(/\r?\n/)
    .map((line) => line.replaceAll('"', '').split(',').map(shortest).join(','));

/** An archive whose days are in a bucket, beside a file that no manifest names. */
async function makeLake(t: TestContext): Promise<Lake> {
  const { store, url } = await openTestStore();
  const odd = marketOf("it's/odd", { stock: 'A', money: 'B' });
  await store.ensureMarkets([marketOf('BTC_USDT'), odd], FIRST_MS);
  const claims = [];
  const span = { fromMs: FIRST_MS, toMs: FIRST_MS + (DAYS + 1) * DAY_MS };
  for (const marketId of [1, 2]) {
    const stream = await store.ensureStream({ kind: 'trades', marketId, variant: 0 });
    claims.push({ stream, span, evidence: {} });
  }
  await store.commit({ trades: [1, 2].flatMap(tradesOf), claims });
  await standInForCold(url);
  const until = new Date(FIRST_MS + DAYS * DAY_MS);
  const rows = await runSql<Record<string, string>>(url, HOURS, [until]);
  const coldDir = await makeFolder(t, 'cold');
  const { failures } = await live(
    { store, coldDir },
    {
      rules: { coldAfterMs: 0, needsChecks: false },
      isChosen: (one) => one.table === 'trade' && one.span.fromMs < until.getTime(),
    },
  );
  assert.deepEqual(failures, []);
  const bucket = await startLakeBucket(t);
  const cold = join(bucket.folder, 'cold');
  await cp(coldDir, cold, { recursive: true });
  const stray = join(cold, 'kind=trades/market=BTC_USDT/date=2026-01-13');
  const [file = ''] = await readdir(stray);
  await cp(join(stray, file), join(stray, 'part-000000000000.parquet'));

  const folder = await makeFolder(t, 'lists');
  const list = join(folder, 'trades.jsonl');
  const text = await run(bucket, folder, ['cold_files.py', url, `${bucket.url}/cold`, 'trades']);
  await writeFile(list, text);
  const hours = [Object.keys(rows[0] ?? {}), ...rows.map((row) => Object.values(row))];
  return { ...bucket, folder, list, hours: hours.map((row) => row.map(shortest).join(',')) };
}

async function run({ env }: LakeBucket, folder: string, [script = '', ...args]: string[]) {
  return await python(folder, [join(RECIPES, script), ...args], env);
}

/** What each script needs, and what it is given. */
const ENGINES: Readonly<Record<string, readonly [needs: readonly string[], ...args: string[]]>> = {
  'cold_duckdb.py': [['duckdb', 'duckdb_extension_httpfs'], DIGITS],
  'cold_chdb.py': [['chdb']],
  'cold_spark.py': [['pyspark'], DIGITS],
};

async function lackOf(script: string, needs: readonly string[]): Promise<string | undefined> {
  if (!(await hasPackages(needs))) return `${PYTHON} lacks one of ${needs.join(', ')}`;
  const options = process.env[SPARK_OPTIONS];
  if (script !== 'cold_spark.py' || options !== undefined) return undefined;
  return `${SPARK_OPTIONS} does not name the jars of hadoop-aws`;
}

test('engines compute the hours of Postgres from a bucket, to the last digit', async (t) => {
  const lack = bucketLack();
  if (lack !== undefined) return t.skip(lack);
  if (!(await hasPackages(LISTER))) return t.skip(`${PYTHON} lacks one of ${LISTER.join(', ')}`);
  const scripts = (await readdir(RECIPES)).filter((name) => name.startsWith('cold_'));
  assert.deepEqual(scripts.sort(), ['cold_files.py', ...Object.keys(ENGINES)].sort());
  const lake = await makeLake(t);
  for (const [script, [needs, ...args]] of Object.entries(ENGINES)) {
    const skip = (await lackOf(script, needs)) ?? false;
    await t.test(script, { skip }, async () => {
      const out = await run(lake, lake.folder, [script, lake.list, ...args]);
      assert.deepEqual(linesOf(out), lake.hours);
      if (script !== 'cold_duckdb.py') return;
      // To fewer digits it would round.
      await assert.rejects(
        run(lake, lake.folder, [script, lake.list]),
        /too many digits: 0\.0+123\b/,
      );
    });
  }
});
