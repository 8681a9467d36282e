import assert from 'node:assert/strict';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { runSql } from '../../support/postgres/postgres.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import { bucketLack, startLakeBucket } from '../../support/programs/lake-bucket.js';
import { hasPackages, PYTHON, python } from '../../support/programs/python.js';
import { archiveDay } from '../../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';
import { bringBack, FIRST_MS, live, openSealingWorld } from '../../support/worlds/sealing-world.js';

/** The recipe that keeps Iceberg tables of archived days, compared with `query`. */

const RECIPE = join(import.meta.dirname, '../../../docs/recipes/pyiceberg_days.py');
const NEEDS = ['pyiceberg', 'pyarrow', 'sqlalchemy', 'psycopg2'];

/** Rows of each table of a kind, and the exact sum of a column. */
const SUMS = `
import sys
import pyarrow.compute as pc
from pyiceberg.catalog.sql import SqlCatalog
uri, kind, column, condition, *endpoint = sys.argv[1:]
catalog = SqlCatalog('tapekeep', uri=uri, **({'s3.endpoint': endpoint[0]} if endpoint else {}))
for name in sorted(catalog.list_tables(kind)):
    rows = catalog.load_table(name).scan(row_filter=condition).to_arrow()
    values = rows[column]
    if 'list' in str(values.type):
        values = pc.list_flatten(values)
    print(name[1], len(rows), pc.sum(values), sep='|')`;

interface Place {
  readonly url: string;
  readonly coldDir: string;
}

async function hasIceberg(t: TestContext): Promise<boolean> {
  const isThere = await hasPackages(NEEDS);
  if (!isThere) t.skip(`${PYTHON} lacks one of ${NEEDS.join(', ')}`);
  return isThere;
}

/** Runs the recipe, and returns what it printed, with its errors. */
async function run(folder: string, { url, coldDir }: Place, kind: string, ...more: string[]) {
  return await runWith({}, folder, [url, coldDir, kind, 'ice', ...more]);
}

async function runWith(env: Readonly<Record<string, string>>, folder: string, args: string[]) {
  const { out, err } = await python(folder, [RECIPE, ...args], env).then(
    (text) => ({ out: text, err: '' }),
    (error: unknown) => {
      const { stdout, stderr, code } = error as { stdout: string; stderr: string; code: number };
      assert.equal(code, 1);
      assert.match(stderr, /^skipped, /);
      return { out: stdout, err: stderr };
    },
  );
  return { lines: out.trim().split('\n'), left: err.trim().split('\n').slice(1) };
}

const shortest = (text: string) => text.trim().replaceAll(/\.0+$|(?<=\.\d+)0+$/gm, '');

async function held(folder: string, kind: string, column: string, condition = 'true') {
  const args = ['-c', SUMS, 'sqlite:///ice/catalog.db', kind, column, condition];
  return shortest(await python(folder, args));
}

/** What `query` says of a table, as {@link SUMS} prints it. */
async function asked({ url, coldDir }: Place, sums: string, rest: string): Promise<string> {
  const sql = `SELECT market, count(*), ${sums} FROM ${rest} GROUP BY 1 ORDER BY 1`;
  const env = { TAPEKEEP_DATABASE_URL: url, TAPEKEEP_COLD_DIR: coldDir };
  const { code, out, err } = await runCommand(['query', '--json', sql], env);
  assert.equal(code, 0, err);
  const rows = out.trim().split('\n');
  return shortest(rows.map((row) => Object.values(JSON.parse(row) as object).join('|')).join('\n'));
}

test('Iceberg tables follow the days that are archived', async (t) => {
  if (!(await hasIceberg(t))) return;
  const world = await openSealingWorld(t);
  const folder = await makeFolder(t);
  const archive = () => live(world, { rules: { coldAfterMs: 0, needsChecks: false } });
  const again = () => run(folder, world, 'trades');
  const lines = (btc: string, eth: string) => [
    `trades BTC_USDT: ${btc}`,
    `trades ETH_USDT: ${eth}`,
  ];
  const isRight = async (condition: string) =>
    assert.equal(
      await held(folder, 'trades', 'total', condition),
      await asked(world, 'sum(total)', `trades WHERE ${condition}`),
    );

  await archive();
  assert.deepEqual((await again()).lines, lines('3 added, 0 removed', '3 added, 0 removed'));
  assert.deepEqual((await again()).lines, lines('0 added, 0 removed', '0 added, 0 removed'));
  await isRight('tid > 0');
  await isRight(`traded_at >= '2026-01-14T00:10:00+00:00' AND price > 100`);

  // Its files stay, and count no more.
  await bringBack(world, { isChosen: ({ name }) => name === 'trade_20260115' });
  assert.deepEqual((await again()).lines, lines('0 added, 1 removed', '0 added, 1 removed'));
  assert.equal(
    await held(folder, 'trades', 'total'),
    await asked(world, 'sum(total)', `trades WHERE traded_at < '2026-01-15'`),
  );

  // An amount with more digits than before: the file of this day has another type than the table.
  const tradedAtS = FIRST_MS / 1000 + 2 * 86_400 + 7;
  const amount = '0.000000000001';
  await world.store.commit({ trades: [trade(5000, 0, { tradedAtS, amount })] });
  await archive();
  const wide = await again();
  assert.deepEqual(wide.lines, lines('0 added, 0 removed', '1 added, 0 removed'));
  assert.equal(wide.left.length, 1);
  assert.match(
    wide.left[0] ?? '',
    /kind=trades\/market=BTC_USDT\/date=2026-01-15\/part-\w+\.parquet$/,
  );

  // Older days that are archived once more get the type of the newest.
  await bringBack(world, { isChosen: ({ name }) => name <= 'trade_20260114' }, true);
  assert.deepEqual((await again()).lines, lines('0 added, 2 removed', '0 added, 2 removed'));
  await archive();
  await rm(join(folder, 'ice'), { recursive: true });
  const whole = await again();
  assert.deepEqual(whole, { lines: lines('3 added, 0 removed', '3 added, 0 removed'), left: [] });
  assert.equal(await held(folder, 'trades', 'amount'), await asked(world, 'sum(amount)', 'trades'));
});

test('Iceberg tables of a bucket, with their catalog in the archive', async (t) => {
  if (!(await hasIceberg(t))) return;
  const lack = bucketLack();
  if (lack !== undefined) return t.skip(lack);
  const { env, folder: coldDir, url: bucket } = await startLakeBucket(t);
  const world = { ...(await openSealingWorld(t)), coldDir: join(coldDir, 'cold') };
  await live(world, { rules: { coldAfterMs: 0, needsChecks: false } });
  await runSql(world.url, 'CREATE SCHEMA iceberg');
  const login = new URL(world.url.replace(/^postgres(ql)?:/, 'postgresql+psycopg2:'));
  login.searchParams.set('options', '-csearch_path=iceberg');
  const catalog = login.href;
  const folder = await makeFolder(t);
  const places = [`${bucket}/cold`, 'trades', `${bucket}/iceberg`, catalog];
  const again = async () => (await runWith(env, folder, [world.url, ...places])).lines;
  const sums = ['-c', SUMS, catalog, 'trades', 'total', 'tid > 0', env.AWS_ENDPOINT_URL_S3 ?? ''];
  const isRight = async (rest: string) =>
    assert.equal(
      shortest(await python(folder, sums, env)),
      await asked(world, 'sum(total)', `trades ${rest}`),
    );
  const lines = (counts: string) => ['BTC', 'ETH'].map((one) => `trades ${one}_USDT: ${counts}`);

  assert.deepEqual(await again(), lines('3 added, 0 removed'));
  await isRight('');
  await bringBack(world, { isChosen: ({ name }) => name === 'trade_20260114' });
  assert.deepEqual(await again(), lines('0 added, 1 removed'));
  await isRight(`WHERE traded_at < '2026-01-14' OR traded_at >= '2026-01-15'`);
  await live(world, { rules: { coldAfterMs: 0, needsChecks: false } });
  assert.deepEqual(await again(), lines('1 added, 0 removed'));
  await isRight('');
});

test('Iceberg tables of each kind hold the rows of their files', async (t) => {
  if (!(await hasIceberg(t))) return;
  const place = await openDaysWorld(await makeFolder(t));
  const folder = await makeFolder(t, 'tables');
  const kinds = [
    ['trades', 'trades', 'total', 'sum(total)', 'traded_at'],
    ['candles', 'klines', 'quote_volume', 'sum(quote_volume)', 'open_at'],
    ['tickers', 'tickers', 'last', 'sum(last)', 'observed_at'],
    ['states', 'states', 'volume', 'sum(volume)', 'observed_at'],
    // Every book of this world asks one price.
    ['depth', 'depth', 'ask_prices', 'sum(ask_prices[1])', 'observed_at'],
  ] as const;
  const added = [`BTC_USD: 1 added, 0 removed`, `it's/odd: 1 added, 0 removed`];
  for (const [kind, view, column, sums, time] of kinds) {
    await archiveDay(place, kind, DAYS[0]);
    const { lines } = await run(folder, place, view);
    assert.deepEqual(
      lines,
      added.map((line) => `${view} ${line}`),
    );
    const rest = `${view} WHERE ${time} < '${DAYS[1]}'`;
    assert.equal(await held(folder, view, column), await asked(place, sums, rest));
  }
  // Another catalog, in Postgres, knows nothing of these tables.
  const catalog = place.url.replace(/^postgres(ql)?:/, 'postgresql+psycopg2:');
  for (const count of [1, 0]) {
    const { lines } = await run(folder, place, 'trades', catalog);
    assert.equal(lines[0], `trades BTC_USD: ${count} added, 0 removed`);
  }
});
