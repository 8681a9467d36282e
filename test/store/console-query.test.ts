import assert from 'node:assert/strict';
import { text } from 'node:stream/consumers';
import test, { before } from 'node:test';
import { ENDPOINTS } from '../../src/console/api/endpoints.js';
import { tableStream } from '../../src/console/api/formats.js';
import { QUERY_LIMITS, queryHandlers } from '../../src/console/api/handlers/query.js';
import { systemClock } from '../../src/kernel/clock.js';
import { ReaderStatements, type StatementLimits } from '../../src/store/index.js';
import { runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';

const never = new AbortController().signal;

let url: string;
let readerUrl: string;
/** By a login that only reads, and by the owner's login that takes the reader's role. */
let ways: ReadonlyMap<string, ReturnType<typeof make>>;

function make(address: string, limits: Partial<StatementLimits> = {}) {
  const options = { databaseUrl: url, readerUrl: address, clock: systemClock };
  const reader = new ReaderStatements({ ...options, limits: { ...QUERY_LIMITS, ...limits } });
  return queryHandlers({ reader: () => reader, clock: systemClock });
}

before(async () => {
  ({ url } = await openAnalystWorld('file'));
  const login = new URL(await loginAs(url, 'tapekeep_reader'));
  login.searchParams.set('options', '-c search_path=analytics,public');
  readerUrl = login.href;
  ways = new Map([
    ['reader', make(readerUrl)],
    ['role', make(url)],
  ]);
});

async function query(sql: string, api = ways.get('reader'), limit = 1000, signal = never) {
  assert.ok(api !== undefined);
  const { query } = ENDPOINTS;
  return query.answer.parse(await api.query(query.input.parse({ sql, limit }), signal, 'operator'));
}

const rowsIn = async (table: string) =>
  (await runSql<{ n: string }>(url, `SELECT count(*)::text AS n FROM ${table}`))[0]?.n;

test('answers with columns, types and exact values, whichever way the reader came', async () => {
  for (const [way, api] of ways) {
    const answer = await query(
      `SELECT tid, price, price::float8 AS f, amount, traded_at, executed_at, side = 'buy' AS b, 'NaN'::float8, 7::int
       FROM trades('BTC_USDT') WHERE tid = 5;`,
      api,
    );
    assert.deepEqual(
      answer.columns.map(({ name, type }) => `${name} ${type}`),
      [
        ...['tid bigint', 'price numeric', 'f double precision', 'amount numeric'],
        ...['traded_at timestamp with time zone', 'executed_at timestamp with time zone'],
        ...['b boolean', 'float8 double precision', 'int4 integer'],
      ],
      way,
    );
    assert.deepEqual(answer.rows, [
      ['5', '104', 104, '1.5', '2026-01-15 13:01:00+00', null, false, 'NaN', 7],
    ]);
    assert.equal(answer.isCut, false);
  }
});

test('answers WITH, VALUES, TABLE, EXPLAIN and SHOW, behind comments as well', async () => {
  for (const [sql, first] of [
    ['-- a comment\n/* and; another */ WITH x AS (SELECT 1 AS a) TABLE x', 1],
    ['VALUES (1), (2)', 1],
    ['(SELECT 1) UNION ALL SELECT 2', 1],
    ['TABLE analytics.markets', 'BTC_USDT'],
    ['/* explain */ SHOW TimeZone;', 'UTC'],
    ['EXPLAIN SELECT 1', 'Result  (cost=0.00..0.01 rows=1 width=4)'],
    ['explain (costs off) select 1', 'Result'],
    [`SELECT 'a;b'`, 'a;b'],
  ] as const) {
    for (const [way, api] of ways) {
      const { rows } = await query(sql, api);
      const values: readonly unknown[] = rows[0] ?? [];
      assert.ok(values.includes(first), `${way}: ${sql}: ${JSON.stringify(rows[0])}`);
    }
  }
});

test('gives no more rows than asked for, and says so', async () => {
  const some = await query('SELECT generate_series(1, 1000000000)', ways.get('reader'), 10);
  assert.deepEqual([some.rows.length, some.isCut], [10, true]);
  assert.equal((await query('SELECT 1', ways.get('reader'), 1)).isCut, false);
});

const HARMFUL = [
  'DELETE FROM trade',
  'UPDATE trade SET price = 1',
  'INSERT INTO market (name) VALUES (1)',
  'WITH d AS (DELETE FROM trade RETURNING 1) SELECT * FROM d',
  'EXPLAIN ANALYZE DELETE FROM trade',
  'EXPLAIN (ANALYZE) WITH d AS (DELETE FROM trade RETURNING 1) SELECT * FROM d',
  `EXPLAIN ANALYZE UPDATE pg_settings SET setting = 'none' WHERE name = 'role'`,
  'SELECT 1 INTO stolen',
  'CREATE TABLE x AS SELECT 1',
  'TRUNCATE trade',
  'DO $$ BEGIN DELETE FROM trade; END $$',
  'SET ROLE tapekeep_owner',
  'RESET ROLE',
  'SET SESSION AUTHORIZATION DEFAULT',
  'SET TRANSACTION READ WRITE',
  'RESET ROLE; DELETE FROM trade',
  'SELECT 1; RESET ROLE; DELETE FROM trade',
  'SELECT 1; COMMIT; DELETE FROM trade',
  'COMMIT',
  'EXPLAIN SELECT 1; DELETE FROM trade',
  'SHOW all; DELETE FROM trade',
  `SELECT set_config('role', 'none', false)`,
  `SELECT pg_catalog."set_config"('role', 'none', false)`,
  `SELECT U&"set\\005fconfig"('role', 'none', false)`,
  `SELECT query_to_xml('select ' || 'set_' || 'config(''role'', ''none'', false)', true, true, '')`,
  `SELECT * FROM ts_stat('select to_tsvector(''a'')')`,
  `COPY trade TO PROGRAM 'touch /tmp/x'`,
  `COPY (SELECT 1) TO '/tmp/x'`,
  'COPY trade TO STDOUT',
  `SELECT pg_read_file('/etc/passwd')`,
  `SELECT pg_ls_dir('/')`,
  `SELECT lo_import('/etc/passwd')`,
  `SELECT lo_export(1, '/tmp/x')`,
  'SELECT lo_create(0)',
  'SELECT pg_terminate_backend(pid) FROM pg_stat_activity',
  'SELECT pg_cancel_backend(pid) FROM pg_stat_activity',
  'SELECT pg_try_advisory_lock_shared(generate_series(1, 20000))',
  'SELECT pg_reload_conf()',
  'SELECT * FROM quarantine',
  'SELECT * FROM pg_authid',
  'SELECT * FROM pg_user_mapping',
  'SELECT * FROM trade FOR UPDATE',
  'LOCK TABLE trade',
  `SELECT nextval('gap_gap_id_seq')`,
  `SELECT make_partition('trade', '2026-01-15')`,
  `SELECT lock_rows('gaps', '{1}')`,
  'LISTEN x',
  'PREPARE x AS SELECT 1',
  'EXECUTE x',
  'FETCH ALL FROM answer',
  'CLOSE answer',
  'DISCARD ALL',
  'VACUUM',
  'CALL x()',
  '',
  '   -- nothing\n',
  '/* SELECT */',
  '\\copy trade to x',
  `SELECT 'a\0b'`,
];

test('does nothing but read', async () => {
  const trades = await rowsIn('trade');
  for (const [way, api] of ways) {
    for (const sql of HARMFUL) {
      const said = { code: 'usage', message: /^sql/ };
      await assert.rejects(
        async () => await api.query({ sql, limit: 10 }, never, 'operator'),
        said,
        `${way}: ${sql}`,
      );
    }
  }
  assert.equal(await rowsIn('trade'), trades);
  const made = `pg_class WHERE relname IN ('stolen', 'x')`;
  assert.equal(await rowsIn(made), '0');
});

test('the rights end where those of a reader end, also of a superuser that takes the role', async () => {
  for (const [way, api] of ways) {
    const { rows } = await query(
      `SELECT current_user <> 'postgres', has_table_privilege('quarantine', 'SELECT'),
              has_table_privilege('trade', 'INSERT'), current_setting('transaction_read_only')`,
      api,
    );
    assert.deepEqual(rows, [[true, false, false, 'on']], way);
  }
});

test('says where a statement is wrong, and what Postgres advises', async () => {
  const rejects = async (sql: string, message: RegExp) => {
    for (const api of ways.values()) {
      await assert.rejects(query(sql, api), { code: 'usage', message });
    }
  };
  await rejects(
    'SELECT 1\nFROM\n  nowhere',
    /^sql, line 3, column 3: relation "nowhere" does not exist/,
  );
  await rejects('SELEC 1', /^sql: SELEC is not allowed; write one SELECT/);
  await rejects(
    `SELECT '😀', pric FROM trade`,
    /^sql, line 1, column 13: column "pric" does not exist/,
  );
  await rejects('explain (costs off)\nSELECT x', /^sql, line 2, column 8: column "x"/);
  await rejects('SELECT 1; SELECT 2', /^sql: write one statement$/);
  await rejects('SELECT * FROM quarantine', /permission denied.*readers have no right to it/);
  await rejects('SELECT 1/0', /^sql: division by zero/);
  await rejects(
    `SELECT * FROM trades('BTC_USDX')`,
    /there is no market 'BTC_USDX'.*The nearest name is BTC_USDT/,
  );
});

test('bounds time, bytes and statements at once', async () => {
  const quick = make(readerUrl, { timeoutMs: 100, atOnce: 1, waiting: 1 });
  const late = { code: 'query_timeout', message: /longer than 0\.1 s/ };
  await assert.rejects(query('SELECT pg_sleep(60)', quick), late);
  const small = make(readerUrl, { bytes: 1_000_000 });
  const large = { code: 'query_resources', message: /larger than/ };
  await assert.rejects(query(`SELECT repeat('x', 90000000)`, small), large);
  await assert.rejects(
    query('SELECT repeat(md5(n::text), 100) FROM generate_series(1, 9999) n', small, 9999),
    large,
  );
  const many = [1, 2, 3].map(() => query('SELECT pg_sleep(60)', quick));
  const ends = await Promise.allSettled(many);
  const codes = ends.map((end) =>
    end.status === 'rejected' ? (end.reason as { code: string }).code : '',
  );
  assert.deepEqual(codes.sort(), ['query_resources', 'query_timeout', 'query_timeout']);
});

test('the server ends a statement whose asker has gone', async () => {
  const gone = new AbortController();
  const asked = query('SELECT pg_sleep(60) AS left_alone', ways.get('reader'), 10, gone.signal);
  const running = async () =>
    await runSql(
      url,
      `SELECT FROM pg_stat_activity WHERE state = 'active' AND pid <> pg_backend_pid()
         AND datname = current_database() AND query LIKE 'FETCH%'`,
    );
  while ((await running()).length === 0);
  gone.abort(new Error('gone'));
  await assert.rejects(asked, /gone/);
  while ((await running()).length > 0);
});

test('a login that cannot become a reader is named, with what to do', async () => {
  const stranger = await loginAs(url, 'tapekeep_writer');
  const reader = new ReaderStatements({
    ...{ databaseUrl: stranger, readerUrl: stranger, clock: systemClock, limits: QUERY_LIMITS },
  });
  const refused = { code: 'database_login_refused', message: /GRANT tapekeep_reader TO/ };
  await assert.rejects(reader.query('SELECT 1', 1, never), refused);
});

test('the cookbook has each statement with what it answers, and each of them runs', async () => {
  const api = ways.get('reader');
  assert.ok(api !== undefined);
  const { entries } = ENDPOINTS.cookbook.answer.parse(await api.cookbook({}, never, 'operator'));
  assert.equal(entries.length, 10);
  assert.equal(entries[0]?.name, 'vwap per hour');
  assert.match(entries[0]?.about ?? '', /^What was the volume-weighted price of each hour/);
  for (const { sql, about } of entries) {
    assert.match(about, /\?/);
    await query(sql, api);
  }
});

test('rows of SQL become CSV in which no text is a formula', async () => {
  const answer = await query(
    `SELECT '=1+1' AS a, -1.50 AS b, NULL AS c, 'x"y' AS "=d", '-1+cmd' AS e`,
  );
  const csv = await text(tableStream(answer, 'rows', 'csv'));
  assert.equal(csv, `a,b,c,'=d,e\r\n'=1+1,-1.50,,"x""y",'-1+cmd\r\n`);
});
