import assert from 'node:assert/strict';
import { appendFile, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import pg from 'pg';
import { FolderStorage } from '../../src/archive/cold/storage.js';
import type { Selection } from '../../src/archive/query/selection.js';
import { openReading } from '../../src/archive/reading.js';
import { runSql } from '../support/postgres/postgres.js';
import { type Asked, askRows } from '../support/worlds/asking.js';
import { archiveDay, type ColdPlace } from '../support/worlds/cold-world.js';
import { DAYS, KINDS, openDaysWorld } from '../support/worlds/days-world.js';
import { makeFolder } from '../support/worlds/export-world.js';
import {
  DAY_MS,
  FIRST_MS,
  live,
  openSealingWorld,
  tradePartitions,
} from '../support/worlds/sealing-world.js';

/** Asks as the command does. */
async function ask(
  place: ColdPlace,
  sql: string,
  options: { readonly isFilesOnly?: boolean; readonly selection?: Selection } = {},
): Promise<Asked> {
  const reading =
    options.isFilesOnly === true
      ? null
      : await openReading(place.store, { cold: new FolderStorage(place.coldDir) });
  try {
    return await askRows(sql, reading, place.coldDir, options.selection);
  } finally {
    await reading?.close();
  }
}

/** A world of which the first day of trades is in files. */
async function openHalfCold(t: TestContext): Promise<ColdPlace> {
  const place = await openDaysWorld(await makeFolder(t));
  await archiveDay(place, 'trades', DAYS[0]);
  return place;
}

/** Statements that both understand: here over hot and cold, there while all was hot. */
const SAME = [
  `SELECT market, count(*), sum(total), sum(price * amount), min(traded_at), max(tid) FROM trades GROUP BY market ORDER BY market`,
  `SELECT market, traded_at, tid, executed_at, side, price, amount, total, received_at FROM trades ORDER BY market, traded_at, tid`,
  `SELECT tid, total FROM trades WHERE market = 'BTC_USD' AND traded_at >= '2026-01-14 23:59:59Z' AND traded_at < '2026-01-15 00:00:01Z' ORDER BY 1`,
  `SELECT tid FROM trades t WHERE '2026-01-15 00:00:00Z' <= t.traded_at AND t.market IN ('BTC_USD', 'none') ORDER BY 1`,
  `SELECT count(*) FROM trades WHERE traded_at BETWEEN '2026-01-14 23:59:59Z' AND '2026-01-15 00:00:00Z'`,
  `SELECT count(*) FROM trades WHERE market = 'BTC_USD' OR traded_at < '2026-01-15 00:00:00Z'`,
  `SELECT count(*) FROM trades WHERE NOT market = 'BTC_USD'`,
  `WITH trades AS (SELECT * FROM trades WHERE market = 'BTC_USD') SELECT count(*), min(market) FROM trades WHERE traded_at >= '2026-01-15 00:00:00Z'`,
  `SELECT count(*) FROM trades a WHERE a.market = 'BTC_USD' AND EXISTS (SELECT 1 FROM trades b WHERE b.traded_at = a.traded_at AND b.market <> a.market)`,
  `SELECT count(*) FROM trades a LEFT JOIN klines k ON k.market = a.market AND k.open_at = a.traded_at AND k.interval_s = 60 WHERE a.traded_at >= '2026-01-14 12:00:00Z'`,
  `SELECT (SELECT count(*) FROM trades WHERE market = 'BTC_USD'), (SELECT count(*) FROM trades WHERE traded_at < '2026-01-15 00:00:00Z')`,
  `SELECT count(*) FROM trades WHERE market = 'BTC_USD' UNION ALL SELECT count(*) FROM trades WHERE traded_at >= '2026-01-16 00:00:00Z' ORDER BY 1`,
  `SELECT interval_s, count(*), sum(volume), max(high), min(revision) FROM klines GROUP BY 1 ORDER BY 1`,
  `SELECT market, observed_at, bid, "last", change FROM tickers WHERE observed_at > '2026-01-14 12:00:00Z' ORDER BY 1, 2`,
  `SELECT period_s, origin, count(*), count(change), sum(change) FROM states GROUP BY 1, 2 ORDER BY 1, 4`,
  `SELECT side, level, count(*), sum(price), sum(amount) FROM depth_levels GROUP BY 1, 2 ORDER BY 1, 2`,
  `SELECT market, kind, variant, starts_at, ends_at FROM coverage ORDER BY 1, 2, 3`,
  `SELECT market, base, min_amount FROM markets ORDER BY 1`,
  `SELECT count(*) FROM gaps`,
  `SELECT * FROM candles('BTC_USD', '6 hours', '2026-01-13 13:00:00Z', '2026-01-17 01:00:00Z') ORDER BY 1`,
  `SELECT * FROM candles('it''s/odd', 900, '2026-01-14 23:50:00Z', '2026-01-15 00:20:00Z') c WHERE trades > 0 ORDER BY 1`,
  `SELECT * FROM candles('BTC_USD', interval '1 day', '2026-01-13 00:00:00Z', '2026-01-17 00:00:00Z', origin := '2026-01-01 21:00:00Z') ORDER BY 1`,
  `SELECT open_at, vwap::DECIMAL(38, 1), volume, buy_volume, sell_volume, trades, is_complete FROM vwap('BTC_USD', '4 hours', '2026-01-13 00:00:00Z', '2026-01-17 00:00:00Z') ORDER BY 1`,
  `SELECT open_at, close, CASE WHEN simple_return < 1000 THEN simple_return::DECIMAL(38, 9) END, log_return::DECIMAL(38, 9), is_complete FROM returns('BTC_USD', '3 hours', '2026-01-13 00:00:00Z', '2026-01-17 00:00:00Z') ORDER BY 1`,
  `SELECT count(*) FROM candles('BTC_USD', '1 hour', '2026-01-15 00:00:00Z', '2026-01-15 00:00:00Z')`,
  ...['candles', 'vwap', 'returns'].map(
    (question) =>
      `SELECT a.number, c.open_at, c.is_complete, ${question === 'returns' ? 'close' : 'c.volume'}
       FROM (VALUES (1, 'BTC_USD', '6 hours', timestamptz '2026-01-13 13:00:00Z'),
                    (2, 'BTC_USD', '1 day', timestamptz '2026-01-14 00:00:00Z'),
                    (3, 'it''s/odd', '10 minutes', timestamptz '2026-01-15 23:50:00Z')) a(number, market, step, start_at),
         LATERAL ${question}(a.market, a.step, a.start_at, a.start_at + interval '2 days') c ORDER BY 1, 2`,
  ),
  `SELECT m.market, (SELECT max(c.close) FROM candles(m.market, '1 day', '2026-01-14 00:00:00Z', '2026-01-17 00:00:00Z') c) FROM markets m ORDER BY 1`,
];

/** Values of Postgres in its own words, but for those of yes and no. */
const TEXTS = {
  getTypeParser: (oid: number) => (text: string) =>
    oid === pg.types.builtins.BOOL ? text === 't' : text,
};

/** A value of either side: decimals by value, moments to the microsecond. */
function plain(value: unknown): unknown {
  if (typeof value !== 'string') return value === null ? null : String(value);
  if (/^\d{4}-\d\d-\d\d[T ]/.test(value)) {
    return value
      .replace(' ', 'T')
      .replace(/(\+00|Z)$/, '')
      .replace(/(\.\d*?)0*$/, '$1')
      .replace(/\.$/, '');
  }
  return /^-?\d+\.\d+$/.test(value) ? value.replace(/\.?0+$/, '') : value;
}

test('hot and cold together answer what all of it answered while it was hot', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const analyst = new pg.Client({ connectionString: place.url });
  await analyst.connect();
  t.after(() => analyst.end());
  await analyst.query(`SET search_path = analytics, public; SET TimeZone = 'UTC'`);
  const expected: unknown[][][] = [];
  for (const text of SAME) {
    const { rows } = await analyst.query({ text, rowMode: 'array', types: TEXTS });
    expected.push((rows as unknown[][]).map((row) => row.map(plain)));
  }
  const check = async () => {
    for (const [index, sql] of SAME.entries()) {
      const { rows } = await ask(place, sql);
      assert.deepEqual(
        rows.map((row) => row.map(plain)),
        expected[index],
        sql,
      );
    }
  };
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[0]);
  for (const kind of ['candles', 'states'] as const) await archiveDay(place, kind, DAYS[2]);
  await check();
});

test('values keep their digits, and their types where JSON has them', async (t) => {
  const place = await openHalfCold(t);
  const { names, rows } = await ask(
    place,
    `SELECT tid, price, total, executed_at, [price] AS list, true AS yes, NULL AS none, 1::INTEGER AS small,
       {'a': amount} AS both, traded_at::DATE AS day FROM trades
     WHERE market = 'BTC_USD' AND price > 10000000000 OR tid = 1003 AND market = 'BTC_USD' ORDER BY tid`,
  );
  assert.deepEqual(names.slice(0, 3), ['tid', 'price', 'total']);
  const [first, second] = rows;
  const price = '99.500000000000000000';
  assert.deepEqual(first?.slice(0, 2), ['1003', price]);
  assert.equal(Number(first?.[2]), 199);
  assert.deepEqual(first?.slice(3, 8), [
    ...['2026-01-14T00:00:00.100001Z', [price], true, null, 1],
  ]);
  assert.equal(first?.[9], '2026-01-14');
  assert.match(String(second?.[1]), /^12345678901234567\.50*$/);
});

test('a statement reaches rows of the archive, and nothing else', async (t) => {
  const place = await openHalfCold(t);
  const beside = join(place.coldDir, 'secret.csv');
  await writeFile(beside, 'a,b\n1,2\n');
  const span = `'2026-01-15', '2026-01-16'`;
  const refused: readonly (readonly [sql: string, said: RegExp])[] = [
    [`SELECT * FROM read_csv('${beside}')`, /file system operations are disabled/],
    [`SELECT * FROM '${beside}'`, /there is no table|file system operations are disabled/],
    [`SELECT * FROM read_text('/etc/passwd')`, /file system operations are disabled/],
    [`SELECT * FROM glob('/**')`, /file system operations are disabled/],
    [`SELECT * FROM read_parquet('https://localhost:1/a.parquet')`, /disabled|no table/],
    ...[
      `COPY (SELECT 1) TO '${beside}'`,
      'INSTALL httpfs',
      "ATTACH 'a.db'",
      'SET memory_limit = 1',
      'CREATE TABLE mine AS SELECT 1',
      'DROP VIEW trades',
    ].map((sql) => [sql, /query runs one SELECT and nothing else/] as const),
    ['SELECT 1; SELECT 2', /one statement at a time/],
    ['', /no statement/],
    ['SELEC 1', /syntax error/],
    [
      'SELECT * FROM trade',
      /no table trade here; did you mean trades\? There are trades, klines.*tapekeep psql/,
    ],
    ['SELECT * FROM public.trades', /no table public\.trades here/],
    ['SELECT nothing FROM trades', /"nothing" not found/],
    ["SELECT price + 'x' FROM trades", /refused/],
    [`FROM candles('BTCUSD', '1 hour', ${span})`, /no market BTCUSD. The nearest name is BTC_USD/],
    [`FROM vwap('BTC_USD', '1 month', ${span})`, /a slot of 1 month is not a whole number/],
    [`FROM vwap('BTC_USD', 0.5, ${span})`, /a slot of 0.5 is not/],
    [`FROM returns('BTC_USD', 60, '2026-01-16', '2026-01-15')`, /span ends at 2026-01-15.*before/],
    [`FROM returns('BTC_USD', 60, '2026-01-16', NULL)`, /needs a begin and an end/],
    [`FROM candles('BTC_USD', '1 hour')`, /candles/],
    [
      `FROM candles('BTC_USD', 60, '2026-01-15 10:00Z', '2026-01-16')`,
      /"2026-01-15 10:00Z", expected.*Before a zone DuckDB wants the seconds: '2026-01-15 10:00:00Z'$/,
    ],
    [
      `SELECT 1 FROM trades WHERE traded_at > '2026-01-15T10:00+01'`,
      /DuckDB wants the seconds: '2026-01-15T10:00:00\+01'/,
    ],
    ['PIVOT trades ON side USING count(*)', /PIVOT .*name them, as in PIVOT trades ON side IN/],
    ['FROM (PIVOT trades ON side USING count(*))', /name them, as in PIVOT trades ON side IN/],
  ];
  for (const [sql, said] of refused) {
    await assert.rejects(ask(place, sql), { code: 'usage', message: said }, sql);
  }
  const { rows } = await ask(place, "SELECT count(*) FROM query('SELECT * FROM trades'), trades");
  assert.deepEqual(rows, [[String(72 * 72)]], 'a name in a text sees all rows as well');
  assert.equal((await ask(place, 'DESCRIBE trades')).rows.length, 9);
  const sides = `PIVOT trades ON side IN ('buy', 'sell') USING count(*) GROUP BY market`;
  assert.deepEqual((await ask(place, sides)).names, ['market', 'buy', 'sell']);
});

test('the asker may leave rows out, and is told of what is not there', async (t) => {
  const place = await openHalfCold(t);
  const span = { fromMs: Date.parse('2026-01-14T12:00Z'), toMs: Date.parse('2026-01-15T12:00Z') };
  const sql = 'SELECT count(*), count(DISTINCT market), min(traded_at), max(traded_at) FROM trades';
  const narrowed = await ask(place, sql, { selection: { ...span, markets: ['BTC_USD'] } });
  assert.deepEqual(narrowed.rows, [
    ['12', '1', '2026-01-14T12:00:00.000Z', '2026-01-15T01:00:00.000Z'],
  ]);
  const unknown = await ask(place, "SELECT count(*) FROM trades WHERE market = 'BTCUSD'");
  assert.deepEqual(unknown.rows, [['0']]);
  assert.deepEqual(unknown.notes, ['the archive has no market BTCUSD']);
  const both = await ask(
    place,
    "SELECT count(*) FROM trades WHERE market = 'BTCUSD' UNION SELECT count(*) FROM klines WHERE market = 'BTCUSD'",
  );
  assert.deepEqual(both.notes, unknown.notes, 'it is said once');
  const asked = `FROM candles('BTC_USD', '1 day', '2026-01-14', '2026-01-17')`;
  for (const selection of [{ markets: ['BTC_USD'] }, { fromMs: span.fromMs }, { toMs: 5 }]) {
    const message = /candles\(…\) takes its market and its time range as arguments/;
    await assert.rejects(ask(place, asked, { selection }), { code: 'usage', message });
  }
  const { rows } = await ask(place, `WITH trades AS (FROM trades WHERE side = 'buy') ${asked}`);
  assert.deepEqual(rows, (await ask(place, asked)).rows, 'names of the asker change nothing');
  for (const isFilesOnly of [false, true]) {
    await assert.rejects(
      ask(place, sql, { isFilesOnly, selection: { markets: ['BTC_USD', 'BTCUSD'] } }),
      { code: 'usage', message: /unknown market BTCUSD. Did you mean BTC_USD\?/ },
    );
  }
  await runSql(
    place.url,
    `ALTER TABLE partition_state DROP CONSTRAINT partition_state_known;
     UPDATE partition_state SET state = 'expired' WHERE table_name = 'trade' AND state = 'archived'`,
  );
  const gone = await ask(place, 'SELECT count(*) FROM trades');
  assert.deepEqual(gone.rows, [['48']]);
  assert.match(
    gone.notes.join(),
    /trades from 2026-01-14 00:00:00 to 2026-01-15 00:00:00 are no longer kept/,
  );
  const within = await ask(place, "FROM trades WHERE traded_at <= '2026-01-14 12:00'");
  assert.deepEqual(within.notes, gone.notes, 'by its own limits');
  const after = await ask(place, "FROM trades WHERE traded_at >= '2026-01-15'");
  assert.deepEqual(after.notes, [], 'what begins at its end asks for none of it');
});

test('files alone answer as well; a damaged one is an error and no answer', async (t) => {
  const place = await openHalfCold(t);
  const files = { isFilesOnly: true } as const;
  const counted = await ask(
    place,
    'SELECT market, count(*) FROM trades GROUP BY 1 ORDER BY 1',
    files,
  );
  assert.deepEqual(counted.rows, [
    ['BTC_USD', '12'],
    ["it's/odd", '12'],
  ]);
  assert.match(counted.notes.join(), /only the cold files are asked/);
  const candles = `SELECT trades, is_complete FROM candles('BTC_USD', '1 day', '2026-01-13', '2026-01-16')`;
  const { rows } = await ask(place, candles, files);
  assert.deepEqual(rows, [
    [null, false],
    ['12', true],
    [null, false],
  ]);
  const markets = await ask(place, 'SELECT market, market_id FROM markets ORDER BY 2', files);
  assert.deepEqual(
    markets.rows.map(([name]) => name),
    ['BTC_USD', "it's/odd"],
  );
  await assert.rejects(ask(place, 'SELECT * FROM gaps', files), { message: /database alone/ });
  const nowhere = { ...place, coldDir: join(place.coldDir, 'kind=trades') };
  await assert.rejects(ask(nowhere, 'SELECT * FROM trades', files), {
    message: /has no manifests/,
  });
  const folder = join(place.coldDir, 'kind=trades', 'market=BTC_USD', `date=${DAYS[0]}`);
  const [name = ''] = await readdir(folder);
  await appendFile(join(folder, name), 'x');
  for (const options of [files, {}]) {
    await assert.rejects(ask(place, 'SELECT count(*) FROM trades', options), {
      code: 'cold_damaged',
      message: /part-.*\.parquet is not what was written/,
    });
  }
  const other = await ask(place, "SELECT count(*) FROM trades WHERE market = 'it''s/odd'", files);
  assert.deepEqual(other.rows, [['12']], 'a file that is not needed does not matter');
});

/** Days of which the first is sealed, with files; its first trade is in the files alone from now on. */
async function openSealed(t: TestContext) {
  const world = await openSealingWorld(t);
  const rules = { coldAfterMs: 10_000 * DAY_MS };
  const nowMs = FIRST_MS + 2 * DAY_MS + 1;
  const { failures } = await live(world, {
    rules,
    nowMs,
    isChosen: ({ table }) => table === 'trade',
  });
  assert.deepEqual(failures, []);
  const [sealed] = await tradePartitions(world.store);
  assert.equal(sealed?.state, 'sealed');
  assert.notEqual(sealed.uri, null);
  await runSql(
    world.url,
    `ALTER TABLE trade_20260113 DISABLE TRIGGER ALL; DELETE FROM trade_20260113 WHERE tid = 1`,
  );
  return world;
}

test('rows of a sealed partition come from its files while they are whole', async (t) => {
  const place = await openSealed(t);
  const count = async (sql = 'SELECT count(*), count(DISTINCT tid) FROM trades') =>
    (await ask(place, sql)).rows[0];
  assert.deepEqual(await count(), ['240', '240'], 'none twice, and the one that only files have');
  assert.deepEqual(await count("SELECT count(*) FROM trades WHERE traded_at < '2026-01-14'"), [
    '80',
  ]);
  await rm(place.coldDir, { recursive: true });
  assert.deepEqual(await count(), ['239', '239'], 'without files the database is read');
});

test('rows of the database keep their digits, however many there are', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const expected = await runSql(
    place.url,
    `SELECT sum(price)::text AS price, sum(total)::text AS total FROM trade WHERE price < 1e10`,
  );
  const sums =
    'SELECT sum(price) AS price, sum(total) AS total FROM trades WHERE price < 10000000000';
  const { rows } = await ask(place, sums);
  const values = Object.values(expected[0] as Record<string, string>);
  assert.deepEqual(rows[0]?.map(plain), values.map(plain));
  await runSql(
    place.url,
    `UPDATE trade SET amount = 0.1234567890123456789012345678901234567890 WHERE tid = 1000`,
  );
  assert.deepEqual((await ask(place, 'SELECT count(*), max(price) > 1 FROM trades')).rows, [
    ['72', true],
  ]);
  await assert.rejects(ask(place, 'SELECT sum(amount) FROM trades'), {
    code: 'usage',
    message: /the amount 0\.12345678901234567890\d+ has more digits than a number has here/,
  });
});

test('every way to name a column reads it', async (t) => {
  const place = await openHalfCold(t);
  const same: readonly (readonly [sql: string, other: string])[] = [
    ['SELECT count(t) FROM trades t', 'SELECT count(tid) FROM trades'],
    ['SELECT max(b) FROM trades AS t(m, a, b)', 'SELECT max(tid) FROM trades'],
    ['SELECT max("TID") FROM trades', 'SELECT max(tid) FROM trades'],
    ["SELECT max(COLUMNS('^ti.$')) FROM trades", 'SELECT max(tid) FROM trades'],
    [
      'SELECT count(*) FROM trades JOIN trades b USING (market, tid)',
      'SELECT count(*) FROM trades',
    ],
    [
      'SELECT count(*) FROM (SELECT market, tid FROM trades) a NATURAL JOIN trades',
      'SELECT count(*) FROM trades',
    ],
    ['SELECT max(t.price) FROM (SELECT trades AS t FROM trades)', 'SELECT max(price) FROM trades'],
    ['WITH t AS (FROM trades) SELECT max(amount) FROM t', 'SELECT max(amount) FROM trades'],
    [
      "SELECT count(*) FROM trades WHERE traded_at >= '2026-01-15' AND traded_at <= '2026-01-15 00:00:01'",
      "SELECT count(*) FROM trades WHERE traded_at::VARCHAR IN ('2026-01-15 00:00:00+00', '2026-01-15 00:00:01+00')",
    ],
    [
      "SELECT count(*) FROM trades WHERE traded_at > now() - INTERVAL 1 HOUR OR market = 'none'",
      'SELECT 0',
    ],
  ];
  const valuesOf = async (sql: string) => (await ask(place, sql)).rows.map((row) => row.map(plain));
  for (const [sql, other] of same)
    assert.deepEqual(await valuesOf(sql), await valuesOf(other), sql);
});

test('nothing stays behind on the disk', async (t) => {
  const place = await openHalfCold(t);
  // Other processes may be at work on questions of their own.
  const own = `tapekeep-query-${process.pid}.`;
  const left = async () => (await readdir(tmpdir())).filter((name) => name.startsWith(own));
  const before = new Set(await left());
  await ask(place, 'SELECT count(*) FROM trades');
  await assert.rejects(ask(place, 'SELECT nothing FROM trades'));
  assert.deepEqual(
    (await left()).filter((name) => !before.has(name)),
    [],
  );
});
