import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { archiveDay } from '../../support/worlds/cold-world.js';
import { DAYS, KINDS, openDaysWorld } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** Questions of every function that reads a series, for a span. */
const ASKED: readonly ((from: string, to: string) => string)[] = [
  (from, to) => `analytics.trades('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.candles('BTC_USD', '1 hour', ${from}, ${to})`,
  (from, to) => `analytics.vwap('BTC_USD', '1 hour', ${from}, ${to})`,
  (from, to) => `analytics.returns('BTC_USD', 3600, ${from}, ${to})`,
  (from, to) => `analytics.klines('BTC_USD', '1 hour', ${from}, ${to})`,
  (from, to) => `analytics.tickers('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.depth_levels('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.spread('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.states('BTC_USD', '1 day', ${from}, ${to})`,
];
const COLD = {
  code: 'TK002',
  message: /are in cold files, not in the database/,
  hint: /tapekeep query/,
};

test('a span of which rows are in files is refused, whoever asks and in whatever way', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[0]);
  const reader = await loginAs(place.url, 'tapekeep_reader');
  const client = new pg.Client({ connectionString: reader });
  await client.connect();
  t.after(() => client.end());
  const noon = `'2026-01-14 12:00Z'`;
  const [second, third] = [`'2026-01-15 00:00Z'`, `'2026-01-16 00:00Z'`];
  // Known only when the statement runs, though always the same.
  const later = (moment: string) => `(timestamptz ${moment} + (now() - now()))`;
  for (const call of ASKED) {
    for (const [from, to] of [
      [noon, second],
      [noon, third],
      [`'2026-01-13 00:00Z'`, `'2026-01-14 00:00:01Z'`],
      [later(noon), later(third)],
      [later(noon), second],
      [noon, later(second)],
    ] as const) {
      const sql = `SELECT * FROM ${call(`${from}::timestamptz`, `${to}::timestamptz`)}`;
      await assert.rejects(client.query(sql), COLD, sql);
    }
    const hot = call(`${second}::timestamptz`, `${third}::timestamptz`);
    const { rows } = await client.query(`SELECT * FROM ${hot}`);
    assert.ok(rows.length > 0, hot);
    await client.query('SET plan_cache_mode = force_generic_plan');
    await client.query(
      `PREPARE one (timestamptz, timestamptz) AS SELECT * FROM ${call('$1', '$2')}`,
    );
    await assert.rejects(client.query(`EXECUTE one (${noon}, ${second})`), COLD, hot);
    assert.equal(
      (await client.query(`EXECUTE one (${second}, ${third})`)).rows.length,
      rows.length,
    );
    await client.query('DEALLOCATE one; RESET plan_cache_mode');
  }
  // The book of the first day still held when the second began, but for its first row.
  const bookAt = (at: string) => client.query(`SELECT * FROM analytics.depth_at('BTC_USD', ${at})`);
  await assert.rejects(bookAt(noon), COLD);
  assert.ok((await bookAt(second)).rows.length > 0);
  await runSql(place.url, `DELETE FROM depth WHERE observed_at = ${second}`);
  await assert.rejects(bookAt(second), COLD);
  const spread = `analytics.spread('BTC_USD', ${second}, ${third})`;
  await assert.rejects(client.query(`SELECT * FROM ${spread}`), COLD);
});

test('what is asked before and after a partition leaves is answered by what holds then', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const client = new pg.Client({ connectionString: place.url });
  await client.connect();
  t.after(() => client.end());
  const span = `'2026-01-14 12:00Z', '2026-01-15 12:00Z'`;
  await client.query(`PREPARE fixed AS SELECT count(*) FROM analytics.trades('BTC_USD', ${span})`);
  assert.deepEqual((await client.query('EXECUTE fixed')).rows, [{ count: '12' }]);
  await archiveDay(place, 'trades', DAYS[0]);
  await assert.rejects(client.query('EXECUTE fixed'), COLD);
  await client.query(`SET tapekeep.missing = 'ignore'; DEALLOCATE fixed`);
  const count = `SELECT count(*) FROM analytics.trades('BTC_USD', ${span})`;
  assert.deepEqual((await client.query(count)).rows, [{ count: '8' }]);
  await client.query('RESET tapekeep.missing');
  await runSql(
    place.url,
    `UPDATE partition_state SET state = 'expired', uri = NULL
     WHERE table_name = 'trade' AND state = 'archived'`,
  );
  await assert.rejects(client.query(count), {
    ...{ code: 'TK003', message: /no longer kept/ },
    detail: /^\d+ of its parts: [^;]*$/,
  });
  const candles = `SELECT count(*) FROM analytics.candles('BTC_USD', '1 hour', ${span})`;
  assert.equal((await client.query(candles)).rows.length, 1, 'slots say themselves what is known');
  const { rows } = await client.query(
    `SELECT state, count(*) FROM analytics.partitions WHERE table_name = 'trade' AND starts_at <= '2026-01-16Z' GROUP BY 1 ORDER BY 1`,
  );
  assert.deepEqual(rows, [
    { state: 'expired', count: '1' },
    { state: 'hot', count: '2' },
  ]);
});

/** Statements over a view that answer without its rows being asked for, or seem to. */
const OVER = (view: string) => [
  `SELECT count(*) FROM ${view}`,
  `SELECT * FROM ${view} LIMIT 0`,
  `SELECT EXISTS (SELECT FROM ${view})`,
  `SELECT 1 WHERE 'x' IN (SELECT market FROM ${view})`,
  `SELECT (SELECT count(*) FROM ${view})`,
  `SELECT * FROM ${view} WHERE false`,
  `SELECT count(*) FROM ${view} WHERE market_id = 1 AND 1 = 0`,
  `SELECT 'x' AS market UNION ALL SELECT market FROM ${view} WHERE false`,
  `SELECT 1 FROM market LEFT JOIN ${view} v ON v.market_id = market.market_id AND false`,
  `WITH one AS MATERIALIZED (SELECT market FROM ${view}) SELECT count(*) FROM one WHERE false`,
  `COPY (SELECT * FROM ${view} LIMIT 0) TO STDOUT`,
  `DECLARE looked CURSOR WITH HOLD FOR SELECT * FROM ${view}`,
  `CREATE TEMPORARY TABLE taken AS SELECT * FROM ${view} LIMIT 0`,
  `EXPLAIN SELECT * FROM ${view}`,
];
const VIEWS: Readonly<Record<string, (typeof KINDS)[number]>> = {
  ...{ 'analytics.trades': 'trades', 'analytics.klines': 'candles' },
  ...{ 'analytics.tickers': 'tickers', 'analytics.states': 'states' },
  'analytics.depth_levels': 'depth',
};

test('a view over a series of which a part is in files is refused, in whatever way it is asked', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const client = new pg.Client({ connectionString: place.url });
  const warnings: string[] = [];
  client.on('notice', ({ severity, message }) => {
    if (severity === 'WARNING') warnings.push(message ?? '');
  });
  await client.connect();
  t.after(() => client.end());
  const before = new Map<string, string>();
  for (const view of Object.keys(VIEWS)) {
    const { rows } = await client.query(`SELECT count(*) FROM ${view}`);
    before.set(view, rows[0].count);
    // Of a day that stays, so that no plan holds the partition that leaves.
    const name = view.replace('.', '_');
    const time = { trades: 'traded_at', klines: 'open_at' }[name.slice(10)] ?? 'observed_at';
    await client.query(
      `PREPARE ${name} AS SELECT count(*) FROM ${view} WHERE ${time} >= '2026-01-16Z'`,
    );
    await client.query(`EXECUTE ${name}`);
  }
  for (const kind of Object.values(VIEWS)) await archiveDay(place, kind, DAYS[0]);
  const gone = {
    ...{ code: 'TK002', hint: /tapekeep restore brings.*SET tapekeep\.missing = 'warn'/ },
    message:
      /^rows of \w+ between 2026-01-14 00:00:00\+00 and 2026-01-15 00:00:00\+00 are in cold files/,
    detail: /^1 of its parts: .*manifests\/\w+\/\w+_20260114\.json$/,
  };
  for (const view of Object.keys(VIEWS)) {
    for (const sql of [...OVER(view), `EXECUTE ${view.replace('.', '_')}`]) {
      await assert.rejects(client.query(sql), gone, sql);
    }
  }
  // What asks for no rows goes on: descriptions, comments, own views upon these.
  const { rows: columns } = await client.query(
    `SELECT count(*) FROM information_schema.columns WHERE table_schema = 'analytics'`,
  );
  assert.ok(Number(columns[0].count) > 100);
  await client.query('CREATE VIEW mine AS SELECT * FROM analytics.trades');
  await client.query(`SELECT pg_get_viewdef('analytics.trades'::regclass)`);
  await assert.rejects(client.query('SELECT count(*) FROM mine'), gone);
  // A branch that no row of the answer can come from is not asked.
  const never = 'SELECT CASE WHEN false THEN (SELECT count(*) FROM analytics.trades) END AS n';
  assert.deepEqual((await client.query(never)).rows, [{ n: null }]);

  await client.query(`SET tapekeep.missing = 'warn'`);
  for (const [view, all] of before) {
    const { rows } = await client.query(`SELECT count(*) FROM ${view}`);
    assert.ok(Number(rows[0].count) < Number(all), view);
    assert.match(
      warnings.splice(0).join('|'),
      /^rows of \w+ between 2026-01-14 .* are in cold files, not in the database: the answer is without them$/,
    );
    await client.query(`SELECT * FROM ${view} LIMIT 0`);
    assert.equal(warnings.splice(0).length, 1, view);
  }
  await client.query(`SET tapekeep.missing = 'ignore'`);
  await client.query('SELECT count(*) FROM analytics.trades');
  assert.deepEqual(warnings, []);
});

test('a transaction that keeps its snapshot is not answered without rows that left since', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const client = new pg.Client({ connectionString: place.url });
  await client.connect();
  t.after(() => client.end());
  const left = { code: 'TK002', message: /have left the database since this transaction began/ };
  // It has looked at no series yet, so that nothing keeps their partitions from going.
  await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM market');
  await client.query('SAVEPOINT here');
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[0]);
  for (const view of Object.keys(VIEWS)) {
    await assert.rejects(client.query(`SELECT count(*) FROM ${view}`), left, view);
    await client.query('ROLLBACK TO here');
  }
  for (const call of ASKED) {
    const sql = `SELECT * FROM ${call(`'2026-01-14Z'`, `'2026-01-15Z'`)}`;
    await assert.rejects(client.query(sql), left, sql);
    await client.query('ROLLBACK TO here');
    await client.query(`SELECT * FROM ${call(`'2026-01-15Z'`, `'2026-01-16Z'`)}`);
  }
  await client.query('COMMIT');
});

test('nothing is called complete of a time that is answered without its rows', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const client = new pg.Client({ connectionString: place.url });
  await client.connect();
  t.after(() => client.end());
  const rowsOf = async (sql: string) => (await client.query(sql)).rows;
  const days = `'2026-01-14Z', '2026-01-17Z'`;
  const inside = `open_at >= '2026-01-15Z' AND open_at < '2026-01-16Z'`;
  const claims = [
    ...['candles', 'vwap', 'returns'].map(
      (name) => `FROM analytics.${name}('BTC_USD', '1 hour', ${days}) WHERE is_complete`,
    ),
    `FROM analytics.klines('BTC_USD', '1 hour', ${days}) WHERE state <> 'gap'`,
  ];
  const counted = async (where: string) => {
    const counts = claims.map((claim) => `(SELECT count(*)::int ${claim} ${where})`);
    return (await rowsOf(`SELECT ARRAY[${counts.join(', ')}] AS n`))[0]?.n;
  };
  assert.deepEqual(await counted(''), [72, 72, 72, 72]);
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[1]);
  for (const mode of ['warn', 'ignore']) {
    await client.query(`SET tapekeep.missing = '${mode}'`);
    assert.deepEqual(await counted(''), [48, 48, 48, 48], mode);
    assert.deepEqual(await counted(`AND ${inside}`), [0, 0, 0, 0], mode);
    // No slot that reaches into the day either.
    const wide = `analytics.candles('BTC_USD', '36 hours', ${days}, '2026-01-14Z')`;
    assert.deepEqual(
      (await rowsOf(`SELECT is_complete FROM ${wide}`)).map((row) => row.is_complete),
      [false, false],
    );
    const held = await rowsOf(
      `SELECT * FROM analytics.spread('BTC_USD', ${days})
       WHERE tstzrange(held_from, held_to) && tstzrange('2026-01-15Z', '2026-01-16Z')`,
    );
    assert.deepEqual(held, [], mode);
    const book = `analytics.depth_at('BTC_USD', '2026-01-15 12:00Z')`;
    assert.deepEqual(await rowsOf(`SELECT * FROM ${book}`), [], mode);
  }
});

test('versions of candles that are in files are missed where they are asked for', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await runSql(
    place.url,
    `SELECT make_partition('kline_revision', '2026-01-14');
     UPDATE partition_state SET state = 'archived', uri = 'manifests/kline_revision/x.json'
     WHERE table_name = 'kline_revision'`,
  );
  const asked = (more: string) =>
    runSql(
      place.url,
      `SELECT * FROM analytics.klines('BTC_USD', '1 hour', '2026-01-14Z', '2026-01-15Z'${more})`,
    );
  assert.equal((await asked('')).length, 24);
  await assert.rejects(asked(`, '2026-01-20Z'`), {
    ...COLD,
    message: /rows of kline_revision .* are in cold files/,
  });
});
