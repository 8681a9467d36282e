import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import test from 'node:test';
import { openReading } from '../../src/archive/reading.js';
import { messageOf } from '../../src/kernel/errors.js';
import { askAll } from '../support/postgres/ask-all.js';
import { openTestStore, runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { askRows } from '../support/worlds/asking.js';
import { archiveDay, type ColdPlace } from '../support/worlds/cold-world.js';
import { DAYS, openDaysWorld } from '../support/worlds/days-world.js';
import { makeFolder } from '../support/worlds/export-world.js';

/** What a statement of `tapekeep query` cannot do, whoever the archive's own login is. */

const LIMIT_MS = 20_000;
const NOT_TAKEN = /query takes SELECT, VALUES, WITH, TABLE, SHOW and EXPLAIN only/;
const DENIED = /permission denied|must be superuser/i;
const READS_ONLY = /read-only transaction/;
const KEPT_ROLE = /cannot set parameter "(role|session_authorization)" within security-definer/;

/** A path at which a statement that gets through leaves its mark. */
const mark = () => join(tmpdir(), `tapekeep-mark-${randomBytes(6).toString('hex')}`);

/** Statements, and how each is refused. `$mark` is a file that must not come to be. */
const REFUSED: ReadonlyArray<readonly [sql: string, how: RegExp]> = [
  [`copy (select 1) to program 'id > $mark'`, NOT_TAKEN],
  [`copy (select 1) to '$mark'`, NOT_TAKEN],
  ['copy (select 1) to stdout', NOT_TAKEN],
  ['copy market from stdin', NOT_TAKEN],
  [`-- a comment\n/* and /* another */ */ ; do $$ begin perform 1; end $$`, NOT_TAKEN],
  [`do $$ begin perform pg_terminate_backend(pid) from pg_stat_activity; end $$`, NOT_TAKEN],
  [`load 'auto_explain'`, NOT_TAKEN],
  ...[
    'commit',
    'rollback',
    'begin',
    'end',
    'abort',
    'reset role',
    'reset all',
    'set role none',
  ].map((sql) => [sql, NOT_TAKEN] as const),
  ...['discard all', 'listen x', 'notify x', 'checkpoint', 'vacuum', 'lock market', 'call x()'].map(
    (sql) => [sql, NOT_TAKEN] as const,
  ),
  ['prepare x as select 1', NOT_TAKEN],
  ['execute x', NOT_TAKEN],
  ['declare c cursor for select 1', NOT_TAKEN],
  ['create temp table mine (x int)', NOT_TAKEN],
  ['delete from trade', NOT_TAKEN],
  ['merge into market using (select 1) s on true when matched then delete', NOT_TAKEN],
  ['explain analyze delete from market', NOT_TAKEN],
  ['explain (analyze, costs off) update market set name = name', NOT_TAKEN],
  ['explain verbose create table mine as select 1', NOT_TAKEN],
  ['', /there is no statement/],
  [' -- nothing but this', /there is no statement/],
  ['select 1; select 2', /multiple commands/],
  ['select 1; commit', /multiple commands/],
  ['with gone as (delete from market returning 1) select * from gone', READS_ONLY],
  ['explain analyze with gone as (delete from market returning 1) select * from gone', READS_ONLY],
  ['select * into temp mine from market', /names no column/],
  ['select * from market for update', READS_ONLY],
  [`select set_config('transaction_read_only', 'off', true)`, /read-write mode/],
  [`select set_config('role', 'none', true)`, KEPT_ROLE],
  [`select set_config('session_authorization', 'default', false)`, KEPT_ROLE],
  [`select set_config('role', session_user, true) from market`, KEPT_ROLE],
  [`select pg_read_file('/etc/passwd')`, DENIED],
  [`select pg_read_binary_file('/etc/passwd')`, DENIED],
  [`select pg_ls_dir('/')`, DENIED],
  [`select pg_stat_file('/etc/passwd')`, DENIED],
  ['select * from pg_shadow', DENIED],
  ['select * from pg_authid', DENIED],
  ['select pg_reload_conf()', DENIED],
  ['select pg_rotate_logfile()', DENIED],
  [`select lo_export(1, '$mark')`, DENIED],
  [`select lo_import('/etc/passwd')`, /permission denied|read-only transaction/],
  ['select lo_create(0)', READS_ONLY],
  ['select * from balance', DENIED],
  [`select make_partition('trade', '2026-02-01')`, DENIED],
  [`select nextval('market_market_id_seq')`, /permission denied|read-only transaction/],
];

async function refusalOf(asking: Promise<unknown>): Promise<string> {
  const [end] = await Promise.allSettled([asking]);
  return end?.status === 'rejected' ? messageOf(end.reason) : 'NOT REFUSED';
}

/** Every statement that got through, or was refused for another reason. */
async function notRefused(place: Pick<ColdPlace, 'store'>): Promise<string[]> {
  const wrong: string[] = [];
  for (const [sql, how] of REFUSED) {
    const path = mark();
    const asking = askAll(place.store, sql.replaceAll('$mark', path), LIMIT_MS);
    const said = await refusalOf(asking);
    if (!how.test(said)) wrong.push(`${sql}: ${said}`);
    if (existsSync(path)) wrong.push(`${sql} wrote a file`);
  }
  return wrong;
}

test('a statement for Postgres only reads, though the login is a superuser; hot and cold', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  assert.deepEqual(await notRefused(place), []);
  await archiveDay(place, 'trades', DAYS[0]);
  assert.deepEqual(await notRefused(place), []);
});

test('a statement cannot end or see what others do, its own login included', async () => {
  const { store, url } = await openTestStore();
  const writer = await openTestStore({ databaseUrl: url });
  await writer.store.acquireWriterLock();
  const pids = await runSql<{ pid: number }>(
    url,
    `SELECT DISTINCT a.pid FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid
     WHERE a.datname = current_database() AND l.locktype = 'advisory'`,
  );
  assert.ok(pids.length > 0);
  for (const { pid } of pids) {
    for (const name of ['pg_terminate_backend', 'pg_cancel_backend']) {
      const asking = askAll(store, `select ${name}(${pid})`, LIMIT_MS);
      assert.match(await refusalOf(asking), DENIED);
    }
  }
  const { rows } = await askAll(
    store,
    `select distinct query from pg_stat_activity
     where pid <> pg_backend_pid() and datname = current_database()`,
    LIMIT_MS,
  );
  assert.deepEqual(rows.flat(), ['<insufficient privilege>']);
  assert.equal(await store.inspection.isWritten(), true);
});

test('what a statement sets or makes goes with it', async () => {
  const { store } = await openTestStore({ poolSize: 1 });
  const pathNow = async () => (await store.query(`select current_setting('search_path') as p`))[0];
  const before = await pathNow();
  await askAll(store, `select set_config('search_path', 'pg_temp', false)`, LIMIT_MS);
  assert.deepEqual(await pathNow(), before);
  // The one way round READ ONLY that Postgres leaves: the rollback undoes it.
  const made = 'explain analyze select * into temp mine from market';
  await askAll(store, made, LIMIT_MS).catch((error: unknown) => {
    assert.match(messageOf(error), DENIED);
  });
  assert.deepEqual(await store.query(`select to_regclass('pg_temp.mine') as mine`), [
    { mine: null },
  ]);
});

test('a statement has a time limit, whatever it sets', async () => {
  const { store } = await openTestStore();
  for (const sql of [
    'select pg_sleep(600)',
    `select set_config('statement_timeout', '0', false), pg_sleep(600)`,
    'select count(*) from generate_series(1, 1000000000000)',
    'explain analyze select pg_sleep(600)',
  ]) {
    await assert.rejects(
      askAll(store, sql, 300),
      { code: 'query_timeout', message: /longer than 300 ms/ },
      sql,
    );
  }
  assert.deepEqual((await askAll(store, 'values (1)', LIMIT_MS)).rows, [[1]]);
});

test('the shortest time limit is either kept or named', async () => {
  const { store } = await openTestStore();
  for (let at = 0; at < 20; at += 1) {
    const answer = await askAll(store, 'values (1)', 1).catch((error: unknown) => error);
    const code = (answer as { code?: string }).code ?? 'answered';
    assert.match(code, /^(answered|query_timeout)$/, messageOf(answer));
  }
});

test('all that reads is answered: names, types, and rows of each form', async () => {
  const { store } = await openTestStore();
  const ask = async (sql: string) => await askAll(store, sql, LIMIT_MS);
  for (const [sql, names, rows] of [
    ['select 1 as a, 2 as a', ['a', 'a'], [[1, 2]]],
    ['  ( select 1 ) union all values (2) order by 1', ['?column?'], [[1], [2]]],
    ['/* one */ -- two\n table partition_policy limit 0;', ['table_name', 'width'], []],
    ['VALUES (1, null)', ['column1', 'column2'], [[1, null]]],
    ['with x as (select 5 as y) select y, y::text from x -- end', ['y', 'y'], [[5, '5']]],
    ['show server_encoding', ['server_encoding'], [['UTF8']]],
    ['explain (costs off) select 1', ['QUERY PLAN'], [['Result']]],
    ['explain (costs off, format json) select 1 as one', ['QUERY PLAN'], null],
    ['explain analyze verbose (select 1)', ['QUERY PLAN'], null],
    [`select 'x'::char(3) as c, b'101' as b, 'q' as u`, ['c', 'b', 'u'], [['x  ', '101', 'q']]],
    [`select 1.50::numeric(9,3) as n, array[1,2] as a`, ['n', 'a'], [['1.500', [1, 2]]]],
    [`select pg_sleep(0) as v, row(1, 'a') as r`, ['v', 'r'], [['', '(1,a)']]],
    [`select most_common_vals from pg_stats limit 0`, ['most_common_vals'], []],
    [`select 'buy'::taker_side as side`, ['side'], [['buy']]],
    ['select current_user as u', ['u'], [['tapekeep_query']]],
    [`select "a""b" from (select 1 as "a""b") s`, ['a"b'], [[1]]],
  ] as const) {
    const answer = await ask(sql);
    assert.deepEqual(answer.names, names, sql);
    if (rows !== null) assert.deepEqual(answer.rows, rows, sql);
  }
});

test('a login without the role that queries run as gets no answer, and is told what to do', async () => {
  const { url } = await openTestStore();
  const reader = await loginAs(url, 'tapekeep_reader');
  const asReader = await openTestStore({ databaseUrl: reader });
  assert.deepEqual((await askAll(asReader.store, 'select 1 as x', LIMIT_MS)).rows, [[1]]);
  // As where the roles could not be made: the function then has the rights of the tables' owner.
  await runSql(url, 'ALTER FUNCTION run_query OWNER TO CURRENT_USER');
  await assert.rejects(askAll(asReader.store, 'select 1', LIMIT_MS), {
    code: 'query_role_missing',
    message: /tapekeep_query.*tapekeep migrate/,
  });
});

/** What DuckDB is asked beyond reading the archive. */
const REFUSED_NEARBY = [
  `copy (select 1) to '$mark'`,
  `select * from read_csv('/etc/passwd')`,
  `select * from read_text('/etc/passwd')`,
  `select * from glob('/etc/*')`,
  `select * from '/etc/passwd'`,
  `select * from query('select * from read_text(''/etc/passwd'')')`,
  `select * from json_execute_serialized_sql(json_serialize_sql('select * from read_text(''/etc/passwd'')'))`,
  `attach '$mark' as other`,
  'install httpfs',
  `load '/tmp/x.so'`,
  'pragma memory_limit=1',
  `set memory_limit = '100GB'`,
  'delete from trades',
  'create table mine as select 1',
  'commit',
  'explain analyze delete from trades',
  'select 1; select 2',
  `select getenv('HOME')`,
  'select * from duckdb_secrets()',
];

test('a statement for DuckDB only reads the archive; hot and cold', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  for (const isCold of [false, true]) {
    if (isCold) await archiveDay(place, 'trades', DAYS[0]);
    const answered: string[] = [];
    for (const text of REFUSED_NEARBY) {
      const path = mark();
      const reading = await openReading(place.store, place);
      const asking = askRows(text.replaceAll('$mark', path), reading, place.coldDir);
      const said = await refusalOf(asking);
      await reading.close();
      if (said === 'NOT REFUSED') answered.push(text);
      if (existsSync(path)) answered.push(`${text} wrote a file`);
    }
    assert.deepEqual(answered, []);
  }
});
