import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { gzipSync } from 'node:zlib';
import { openDuck } from '../../src/archive/parquet/session.js';
import { blocksOf, readDocument } from '../support/documents/documents.js';
import { runSql } from '../support/postgres/postgres.js';
import { runCommand } from '../support/programs/commands.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** What a person meets who brings files of another maker into an archive. */

async function openWorld(t: TestContext) {
  const { url } = await openAnalystWorld();
  const folder = await makeFolder(t);
  const env = { TAPEKEEP_DATABASE_URL: url };
  const give = async (name: string, text: string | Buffer) => {
    const path = join(folder, name);
    await writeFile(path, text);
    return path;
  };
  const run = (path: string, ...args: string[]) => runCommand(['import', path, ...args], env);
  return { url, folder, give, run };
}

const TRADES = [
  'id,price,qty,time,is_buyer_maker',
  '7,60000.10,0.5,1722470400250,true',
  '8,60000.20,0.25,1722470401000,false',
  '9,1e1,0.00000001,1722470402999,false',
];
const OF_TRADES = ['--kind', 'trades', '--market', 'BTC_USDT'];
const STORED = `
  SELECT tid::int, traded_at::text, executed_at::text, side::text, price::text, amount::text, total::text
  FROM trade WHERE traded_at < '2025-01-01' ORDER BY tid`;

test('trades of a file are stored once, exact to the digit and the millisecond', async (t) => {
  const { url, give, run } = await openWorld(t);
  const path = await give('trades.csv.gz', gzipSync(`${TRADES.join('\n')}\n`));
  const dry = await run(path, ...OF_TRADES, '--dry-run');
  assert.match(dry.out, /^3 rows of BTC_USDT from 2024-08-01 00:00:00\.25.*\nNothing was stored/);
  assert.deepEqual(await runSql(url, STORED), []);
  const first = await run(path, ...OF_TRADES);
  assert.equal(first.code, 0, first.err);
  assert.match(first.out, /3 rows stored/);
  const rows = (await runSql(url, STORED)).map((row) => Object.values(row).join(' '));
  assert.deepEqual(rows, [
    '7 2024-08-01 00:00:00+00 2024-08-01 00:00:00.25+00 sell 60000.10 0.5 30000.05',
    '8 2024-08-01 00:00:01+00 2024-08-01 00:00:01+00 buy 60000.20 0.25 15000.05',
    '9 2024-08-01 00:00:02+00 2024-08-01 00:00:02.999+00 buy 10 0.00000001 0.0000001',
  ]);
  const again = JSON.parse((await run(path, ...OF_TRADES, '--json')).out);
  assert.deepEqual([again.stored, again.duplicate], [0, 3]);
});

test('time is called complete only where the user says so, and the evidence tells it', async (t) => {
  const { url, give, run } = await openWorld(t);
  const path = await give('trades.csv', TRADES.join('\n'));
  const covered = `
    SELECT lower(c.span)::text AS from_at, upper(c.span)::text AS to_at, evidence ->> 'claim' AS claim,
           evidence ->> 'file' AS file, (evidence ->> 'rows')::int AS rows
    FROM coverage c JOIN stream USING (stream_id) WHERE kind = 'trades' AND lower(c.span) < '2025-01-01'`;
  await run(path, ...OF_TRADES);
  assert.deepEqual(await runSql(url, covered), []);
  const span = ['--complete-from', '2024-08-01', '--complete-to', '2024-08-02'];
  const { code, err } = await run(path, ...OF_TRADES, ...span);
  assert.equal(code, 0, err);
  assert.deepEqual(await runSql(url, covered), [
    {
      ...{ from_at: '2024-08-01 00:00:00+00', to_at: '2024-08-02 00:00:00+00' },
      ...{ claim: 'stated at import', file: 'trades.csv', rows: 3 },
    },
  ]);
});

test('candles come from Parquet with a market in each row, and from a CSV without a heading', async (t) => {
  const { url, folder, give, run } = await openWorld(t);
  const parquet = join(folder, 'candles.parquet');
  const duck = await openDuck('test', {});
  await duck.session.run(
    'writing',
    `COPY (SELECT * FROM (VALUES
       ('BTC_USDT', TIMESTAMPTZ '2024-08-01 00:00:00Z', 1.5::DOUBLE, 2.0::DOUBLE, 1.25::DOUBLE, 1.75::DOUBLE, 0.1::DOUBLE, 0.00001::DOUBLE),
       ('ETH_USDT', TIMESTAMPTZ '2024-08-01 00:01:00Z', 1, 1, 1, 1, 3, 3))
       t(symbol, open_time, open, high, low, close, volume, quote_asset_volume))
     TO '${parquet}' (FORMAT parquet)`,
  );
  await duck.close();
  const first = await run(parquet, '--kind', 'candles', '--interval', '1m');
  assert.equal(first.code, 0, first.err);
  const bare = await give('bare.txt', '1722470520,5,6,4,5.5,extra,10,55\n');
  const columns = 'time,open,high,low,close,_,volume,quote_volume';
  const args = ['--kind', 'candles', '--interval', '1m', '--market', 'BTC_USDT'];
  const second = await run(bare, ...args, '--columns', columns);
  assert.equal(second.code, 0, second.err);
  const rows = await runSql(
    url,
    `SELECT market_id, open_at::text, open::text, high::text, low::text, close::text, volume::text, quote_volume::text
     FROM kline WHERE interval_s = 60 ORDER BY open_at`,
  );
  assert.deepEqual(
    rows.map((row) => Object.values(row).join(' ')),
    [
      '1 2024-08-01 00:00:00+00 1.5 2.0 1.25 1.75 0.1 0.00001',
      '2 2024-08-01 00:01:00+00 1.0 1.0 1.0 1.0 3.0 3.0',
      '1 2024-08-01 00:02:00+00 5 6 4 5.5 10 55',
    ],
  );
});

test('times are read in every unit', async (t) => {
  const { url, give, run } = await openWorld(t);
  const times = [
    ...['1722470400', '1722470401.5', '1722470402500', '1722470403500000', '1722470404500000999'],
    ...['2024-08-01T00:00:05.5Z', '2024-08-01 02:00:06.5+02', '2024-08-01 00:00:07.5'],
  ];
  const lines = times.map((time, at) => `${at + 1},1,1,${time},buy`);
  const path = await give('times.csv', ['tid,price,amount,time,side', ...lines].join('\n'));
  const { code, err } = await run(path, ...OF_TRADES);
  assert.equal(code, 0, err);
  const rows = await runSql<{ us: string }>(
    url,
    `SELECT (extract(epoch FROM executed_at - '2024-08-01Z'::timestamptz) * 1e6)::bigint::text AS us
     FROM trade WHERE traded_at < '2025-01-01' ORDER BY tid`,
  );
  const half = [1, 2, 3, 4, 5, 6, 7].map((s) => String(s * 1_000_000 + 500_000));
  assert.deepEqual(
    rows.map(({ us }) => us),
    ['0', ...half],
  );
});

test('what cannot be imported is refused by name, and nothing of it is stored', async (t) => {
  const { url, give, run } = await openWorld(t);
  const good = await give('good.csv', TRADES.join('\n'));
  const bad = await give(
    'bad.csv',
    [...TRADES, '10,abc,1,1722470403000,true', '11,1,0,5,true'].join('\n'),
  );
  const parquet = await give('no.parquet', 'this is none');
  const cases: readonly (readonly [args: readonly string[], said: RegExp])[] = [
    [
      [bad, ...OF_TRADES],
      /2 rows cannot be read as trades: row 4: price \(column price\); row 5: time/,
    ],
    [
      [good, '--kind', 'trades', '--market', 'BTC'],
      /the archive has no market BTC; it has BTC_USDT/,
    ],
    [[good, '--kind', 'trades'], /give --market/],
    [[good, '--kind', 'candles', '--market', 'BTC_USDT'], /--interval/],
    [[good, ...OF_TRADES, '--columns', 'tid=nr'], /the file has no column "nr"/],
    [[good, ...OF_TRADES, '--columns', 'colour=id'], /no field "colour" of trades; fields: tid/],
    [
      [good, '--kind', 'candles', '--interval', '1m'],
      /no column of the file is recognised as open/,
    ],
    [[good, ...OF_TRADES, '--complete-from', '2024-08-01'], /--complete-to.*give both/],
    [
      [good, ...OF_TRADES, '--complete-from', '2024-08-02', '--complete-to', '2024-08-01'],
      /not after/,
    ],
    [[`${good}.not`, ...OF_TRADES, '--format', 'csv'], /there is no such file/],
    [[`${good}.xls`, ...OF_TRADES], /neither .csv nor .parquet/],
    [[parquet, ...OF_TRADES], /no.parquet/],
  ];
  for (const [[path = '', ...args], said] of cases) {
    const { code, err } = await run(path, ...args);
    assert.notEqual(code, 0, err);
    assert.match(err, said);
    assert.doesNotMatch(err, /\n\s+at /);
  }
  assert.deepEqual(await runSql(url, STORED), []);
});

test('the commands of the guide run as they stand there', async (t) => {
  const { give, run } = await openWorld(t);
  const path = await give('trades.csv', TRADES.join('\n'));
  const [block = ''] = blocksOf(readDocument('docs/guides/importing.md').text, 'sh');
  const lines = block.trim().split('\n');
  assert.equal(lines.length, 3);
  for (const line of lines) {
    const [npx, program, command, file, ...args] = line.split(' ');
    assert.deepEqual([npx, program, command, file], ['npx', 'tapekeep', 'import', 'trades.csv']);
    const { code, err } = await run(path, ...args);
    assert.equal(code, 0, `${line}: ${err}`);
  }
});
