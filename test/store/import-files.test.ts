import assert from 'node:assert/strict';
import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { miscountedDays } from '../support/postgres/postgres-rows.js';
import { runCommand } from '../support/programs/commands.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** Old rows that are imported straight into cold files. */

async function openWorld(t: TestContext, isCold = true) {
  const { url, store } = await openAnalystWorld();
  // No walk through history may bring more of the old days.
  await runSql(url, `UPDATE stream SET collect_from = '2026-01-15' WHERE collect_from IS NULL`);
  const folder = await makeFolder(t);
  const coldDir = join(folder, 'cold');
  const env = {
    ...{ TAPEKEEP_DATABASE_URL: url, TAPEKEEP_COLD_DIR: coldDir },
    TAPEKEEP_COLD_ENABLED: `${isCold}`,
  };
  const command = (...args: string[]) => runCommand(args, env);
  const bring = async (lines: readonly string[], ...args: string[]) => {
    const path = join(folder, 'rows.csv');
    await writeFile(path, lines.join('\n'));
    return await command('import', path, ...args);
  };
  const restore = (kind: string) =>
    command('restore', '--kind', kind, '--from', '2024-01-01', '--to', '2025-01-01');
  return { url, store, folder, coldDir, command, bring, restore };
}

type World = Awaited<ReturnType<typeof openWorld>>;

const HEAD = 'id,price,qty,time,is_buyer_maker';
const FIRST_DAY = [
  '7,60000.10,0.50,1722470400250,true',
  '8,60000.20,0.25,1722470401000,false',
  '9,1e1,0.00000001,1722470402999,false',
  '10,0.000000000001,123456789.5,1722470402999,true',
];
/** Two days, out of order. */
const TRADES = [HEAD, '12,60000.20,0.25,1722556801000,false', ...FIRST_DAY];
const OF_TRADES = ['--kind', 'trades', '--market', 'BTC_USDT'];
const OF_OTHER = ['--kind', 'trades', '--market', 'ETH_USDT'];

const states = async ({ url }: World, table = 'trade') =>
  (
    await runSql(
      url,
      `SELECT lower(span)::date::text AS day, state, coalesce(row_count, 0)::int AS rows FROM partition_state
       WHERE table_name = '${table}' AND lower(span) < '2025-01-01' ORDER BY 1`,
    )
  ).map((row) => Object.values(row).join(' '));

const storedTrades = ({ url }: World) =>
  runSql(
    url,
    `SELECT market_id, tid, traded_at, executed_at, side, trim_scale(price)::text AS price,
       trim_scale(amount)::text AS amount, trim_scale(total)::text AS total
     FROM trade WHERE traded_at < '2025-01-01' ORDER BY market_id, traded_at, tid`,
  );

const TWO_DAYS = ['2024-08-01 archived 4', '2024-08-02 archived 1'];

test('old days become files alone, and their rows are those of the writer', async (t) => {
  const world = await openWorld(t);
  const { url, command, bring, restore } = world;
  const first = await bring(TRADES, ...OF_TRADES);
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /5 rows stored/);
  assert.deepEqual(await states(world), TWO_DAYS);
  const counts = await runSql(
    url,
    `SELECT day::text, rows::int, timed::int FROM rows_by_day WHERE day < '2025-01-01' ORDER BY day`,
  );
  assert.deepEqual(counts, [
    { day: '2024-08-01', rows: 4, timed: 4 },
    { day: '2024-08-02', rows: 1, timed: 1 },
  ]);
  const sum = `SELECT market, count(*), sum(amount), max(total) FROM trades
    WHERE traded_at < '2025-01-01' GROUP BY market`;
  const asked = await command('query', sum, '--format', 'csv');
  assert.match(asked.out, /BTC_USDT,5,123456790\.50000001,30000\.05/, asked.err);
  const exported = await command(
    ...['export', '--kind', 'trades', '--market', 'BTC_USDT', '--from', '2024-08-01'],
    ...['--to', '2024-08-03', '--allow-gaps', '--out', join(world.folder, 'out.csv')],
  );
  assert.equal(exported.code, 0, exported.err);
  const text = await readFile(join(world.folder, 'out.csv'), 'utf8');
  assert.equal(text.trim().split('\n').length, 6);
  const again = JSON.parse((await bring(TRADES, ...OF_TRADES, '--json')).out);
  assert.deepEqual([again.stored, again.duplicate], [0, 5]);
  assert.deepEqual(await states(world), TWO_DAYS);

  const back = await restore('trades');
  assert.equal(back.code, 0, back.err);
  assert.deepEqual(await miscountedDays(url), []);
  const plain = await openWorld(t, false);
  await plain.bring(TRADES, ...OF_TRADES);
  assert.deepEqual(await storedTrades(world), await storedTrades(plain));
  // What came back leaves again, with a checksum of its rows.
  const away = await command('seal', '--archive', '--kind', 'trades', '--before', '2025-01-01');
  assert.equal(away.code, 0, away.err);
  assert.deepEqual(await states(world), TWO_DAYS);
});

test('a second market joins days that are in files already', async (t) => {
  const world = await openWorld(t);
  await world.bring(TRADES, ...OF_TRADES);
  const other = await world.bring([HEAD, '3,2500.5,2,1722470400,true'], ...OF_OTHER);
  assert.equal(other.code, 0, other.err);
  assert.deepEqual(await states(world), ['2024-08-01 archived 5', '2024-08-02 archived 1']);
  const sql = `SELECT market, count(*) FROM trades WHERE traded_at < '2024-08-02' GROUP BY 1 ORDER BY 1`;
  const { out } = await world.command('query', sql, '--format', 'csv');
  assert.match(out, /BTC_USDT,4\r\nETH_USDT,1/);
  assert.equal((await world.restore('trades')).code, 0);
  assert.deepEqual(await miscountedDays(world.url), []);
  assert.equal((await storedTrades(world)).length, 6);
});

test('rows that would change an archived day are refused, with what to do', async (t) => {
  const world = await openWorld(t);
  await world.bring(TRADES, ...OF_TRADES);
  const late = [HEAD, '11,60000.3,1,1722470403000,true', '13,60000.3,1,1722643200000,true'];
  const refused = await world.bring(late, ...OF_TRADES);
  assert.notEqual(refused.code, 0);
  assert.match(refused.err, /trade_20240801 is archived, and 1 rows of the file are not in it/);
  assert.deepEqual(await states(world), TWO_DAYS);
  const [, advice = ''] = /"tapekeep (restore [^"]+)"/.exec(refused.err) ?? [];
  assert.equal((await world.command(...advice.split(' '))).code, 0);
  const then = await world.bring(late, ...OF_TRADES);
  assert.equal(then.code, 0, then.err);
  assert.deepEqual(await states(world), [
    ...['2024-08-01 hot 0', '2024-08-02 archived 1', '2024-08-03 archived 1'],
  ]);
  assert.equal((await world.restore('trades')).code, 0);
  assert.deepEqual(await miscountedDays(world.url), []);
});

test('rows of one id are checked before any is placed', async (t) => {
  const world = await openWorld(t);
  const same = await world.bring(
    [...TRADES, '7,60000.1,0.5,1722470400250,true'],
    ...OF_TRADES,
    '--json',
  );
  assert.equal(same.code, 0, same.err);
  const { stored, duplicate } = JSON.parse(same.out);
  assert.deepEqual([stored, duplicate], [5, 1]);
  const other = await openWorld(t);
  const refused = await other.bring([...TRADES, '7,60000.1,0.6,1722470400250,true'], ...OF_TRADES);
  assert.notEqual(refused.code, 0);
  assert.match(refused.err, /row 6 has the id and second of row 2, and other content/);
  assert.deepEqual(await states(other), []);
});

test('days with rows, young days and days with open gaps go through the writer', async (t) => {
  const world = await openWorld(t);
  const { url, bring } = world;
  await runSql(
    url,
    `UPDATE stream SET collect_from = '2024-08-02' WHERE kind = 'trades' AND market_id = 1`,
  );
  const young = Date.now() - 3 * 86_400_000;
  const { code, err } = await bring([...TRADES, `999,1,1,${young},true`], ...OF_TRADES);
  assert.equal(code, 0, err);
  assert.deepEqual(await states(world), ['2024-08-01 archived 4', '2024-08-02 hot 0']);
  // What the user claims is no gap.
  const claimed = ['--complete-from', '2024-08-03', '--complete-to', '2024-08-05'];
  const next = await bring([HEAD, '20,1,1,1722643200000,true'], ...OF_TRADES, ...claimed);
  assert.equal(next.code, 0, next.err);
  assert.deepEqual((await states(world)).at(-1), '2024-08-03 archived 1');
  const covered = await runSql(
    url,
    `SELECT lower(span)::text AS from_at, evidence ->> 'claim' AS claim FROM coverage
     WHERE lower(span) < '2025-01-01'`,
  );
  assert.deepEqual(covered, [{ from_at: '2024-08-03 00:00:00+00', claim: 'stated at import' }]);
});

test('candles go into files of their months', async (t) => {
  const world = await openWorld(t);
  const lines = [
    'market,open_time,open,high,low,close,volume,quote_volume',
    'BTC_USDT,2024-07-31T23:59:00Z,1.5,2.0,1.25,1.75,0.1,0.00001',
    'BTC_USDT,2024-08-01T00:00:00Z,1.5,2.0,1.25,1.75,0.1,0.00001',
    'ETH_USDT,2024-08-02T00:00:00Z,1,1,1,1,3,3',
  ];
  const args = ['--kind', 'candles', '--interval', '1m'];
  const first = await world.bring(lines, ...args);
  assert.equal(first.code, 0, first.err);
  assert.deepEqual(await states(world, 'kline'), [
    '2024-07-01 archived 1',
    '2024-08-01 archived 2',
  ]);
  const again = JSON.parse((await world.bring(lines, ...args, '--json')).out);
  assert.deepEqual([again.stored, again.duplicate], [0, 3]);
  assert.equal((await world.restore('candles')).code, 0);
  assert.deepEqual(await miscountedDays(world.url), []);
  const rows = await runSql(
    world.url,
    `SELECT market_id, interval_s, high::text, volume::text, revision FROM kline
     WHERE open_at < '2025-01-01' ORDER BY open_at`,
  );
  assert.deepEqual(
    rows.map((row) => Object.values(row).join(' ')),
    ['1 60 2 0.1 0', '1 60 2 0.1 0', '2 60 1 3 0'],
  );
});
