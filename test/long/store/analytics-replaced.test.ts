import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { migrate } from '../../../src/store/schema/migrate.js';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';

/** How the definitions follow the program, and what they leave in peace. */

const OTHER_VERSION = `UPDATE analytics.definition SET hash = 'another' WHERE name = '10_trades.sql'`;

const outcome = async (databaseUrl: string) => (await migrate({ databaseUrl })).analytics;

test('definitions of another version are replaced whole; of the same one they are left', async () => {
  const url = await makeDatabase();
  assert.deepEqual(await outcome(url), { state: 'current', note: null });
  const oid = async () => {
    const [row] = await runSql<{ oid: number }>(
      url,
      `SELECT 'analytics.trades'::regclass::oid AS oid`,
    );
    return row?.oid;
  };
  const before = await oid();
  // Left behind by an earlier version: a function of the same name would make calls ambiguous.
  await runSql(
    url,
    `CREATE FUNCTION analytics.trades(text, text, text) RETURNS int LANGUAGE sql AS 'SELECT 1'`,
  );
  await runSql(url, OTHER_VERSION);
  assert.deepEqual(await outcome(url), { state: 'replaced', note: null });
  assert.notEqual(await oid(), before);
  const left = await runSql(
    url,
    `SELECT FROM pg_proc WHERE proname = 'trades' AND pronamespace = 'analytics'::regnamespace`,
  );
  assert.equal(left.length, 1);
  // The rights of readers come with the new definitions.
  await runSql(await loginAs(url, 'tapekeep_reader'), 'SELECT * FROM analytics.trades');
});

test('what analysts built upon it survives, or is named', async () => {
  const url = await makeDatabase();
  await runSql(url, 'CREATE SCHEMA mine');
  await runSql(url, 'CREATE VIEW mine.prices AS SELECT market, price FROM analytics.trades');
  await runSql(url, OTHER_VERSION);
  assert.deepEqual(await outcome(url), { state: 'replaced', note: null });
  assert.deepEqual(await runSql(url, 'SELECT * FROM mine.prices'), []);
  // A column that had another type: this cannot be done in place.
  await runSql(url, 'DROP VIEW mine.prices');
  await runSql(url, 'DROP VIEW analytics.markets');
  await runSql(url, 'CREATE VIEW analytics.markets AS SELECT 1 AS market');
  await runSql(url, 'CREATE VIEW mine.names AS SELECT market FROM analytics.markets');
  await runSql(url, OTHER_VERSION);
  await assert.rejects(outcome(url), {
    code: 'migration_failed',
    message: /beneath view mine\.names .*drop what was built upon it, migrate/,
  });
  assert.equal((await runSql(url, 'SELECT * FROM mine.names')).length, 1);
  await runSql(url, 'DROP VIEW mine.names');
  assert.deepEqual(await outcome(url), { state: 'replaced', note: null });
});

const COUNT_OF_TRADES = 'SELECT count(*) FROM analytics.trades';

for (const [what, make] of [
  ['materialized view mine.own', `CREATE MATERIALIZED VIEW mine.own AS ${COUNT_OF_TRADES}`],
  [
    'view mine.own',
    "CREATE VIEW mine.own AS SELECT * FROM analytics.candles('BTC_USDT', '1h', now(), now())",
  ],
  [
    'function mine.own()',
    `CREATE FUNCTION mine.own() RETURNS bigint BEGIN ATOMIC ${COUNT_OF_TRADES}; END`,
  ],
  [
    'function mine.own(analytics.trades)',
    "CREATE FUNCTION mine.own(analytics.trades) RETURNS int LANGUAGE sql AS 'SELECT 1'",
  ],
  ['column one of table mine.own', 'CREATE TABLE mine.own (at timestamptz, one analytics.trades)'],
  [
    'default value for column one of table mine.own',
    'CREATE TABLE mine.own (one timestamptz DEFAULT analytics.exchange_now())',
  ],
  [
    'policy own on table mine.own',
    `CREATE TABLE mine.own (n int); CREATE POLICY own ON mine.own USING (n = (${COUNT_OF_TRADES}))`,
  ],
] as const) {
  test(`what is built upon it is never dropped with it: ${what}`, async () => {
    const url = await makeDatabase();
    await runSql(url, 'CREATE SCHEMA mine');
    await runSql(url, make);
    await runSql(url, OTHER_VERSION);
    assert.deepEqual(await outcome(url), { state: 'replaced', note: null });
    // What holds it keeps the schema from being dropped without it: Postgres names that.
    await assert.rejects(
      runSql(url, 'DROP SCHEMA analytics RESTRICT'),
      ({ detail }: pg.DatabaseError) => {
        assert.ok(detail?.includes(`${what} depends on`), detail);
        return true;
      },
    );
  });
}

test('a query under way is not disturbed: the earlier definitions stay for now', async () => {
  const url = await makeDatabase();
  await runSql(url, OTHER_VERSION);
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  await reader.query('BEGIN; SELECT * FROM analytics.trades');
  const busy = await outcome(url);
  assert.equal(busy.state, 'busy');
  assert.match(busy.note ?? '', /a query is using the analytics schema/);
  await reader.query('SELECT * FROM analytics.trades; COMMIT');
  await reader.end();
  assert.equal((await outcome(url)).state, 'replaced');
});

test('a schema that somebody dropped is made again', async () => {
  const url = await makeDatabase();
  await runSql(url, 'DROP SCHEMA analytics CASCADE');
  assert.equal((await outcome(url)).state, 'replaced');
});

test('whoever does not own the tables leaves the definitions alone, and says so', async () => {
  const url = await makeDatabase();
  await runSql(url, OTHER_VERSION);
  const writer = await loginAs(url, 'tapekeep_writer');
  const report = await migrate({ databaseUrl: writer });
  assert.equal(report.analytics.state, 'not_allowed');
  assert.match(report.analytics.note ?? '', /let the owner of the tables migrate/);
});
