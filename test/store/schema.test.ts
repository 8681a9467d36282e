import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import {
  SERIES,
  SERIES_TABLES,
  type SeriesTable,
  seriesOf,
  streamsOf,
} from '../../src/model/series.js';
import { migrate } from '../../src/store/index.js';
import {
  makeDatabase,
  openTestStore,
  quietStoreEvents,
  runSql,
  withDatabase,
} from '../support/postgres/postgres.js';
import { NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { openPlainStore } from '../support/postgres/postgres-server.js';

const DAY_MS = 86_400_000;
const open = (databaseUrl: string) => openPlainStore(databaseUrl, { connectTimeoutMs: 2_000 });

test('twenty programs migrate at once: one does the work, all succeed', async () => {
  const url = await makeDatabase('empty');
  await assert.rejects(open(url), { code: 'database_not_migrated', action: 'fatal' });
  const reports = await Promise.all(
    Array.from({ length: 20 }, () => migrate({ databaseUrl: url })),
  );
  const [first, ...others] = reports.filter(({ applied }) => applied.length > 0);
  assert.ok(first?.applied.includes('0001_archive'));
  assert.deepEqual(others, []);
  await (await open(url)).stop();
});

test('a database of another version is refused in words', async () => {
  const url = await makeDatabase();
  await runSql(url, "INSERT INTO tapekeep_migration (name, run_on) VALUES ('9999_later', now())");
  const expected = { code: 'database_too_new', action: 'fatal', message: /9999_later/ };
  await assert.rejects(migrate({ databaseUrl: url }), expected);
  await assert.rejects(open(url), expected);
});

test('an address that leads nowhere is named, the password never', async () => {
  const url = await makeDatabase();
  const canary = 'canary-7f3';
  const variants: [string, string, RegExp][] = [
    ['port', 'database_unreachable', /127\.0\.0\.1:1, database/],
    ['password', 'database_login_refused', /password/],
    ['database', 'database_login_refused', /database no_such/],
  ];
  for (const [part, code, message] of variants) {
    const changed = new URL(part === 'database' ? withDatabase(url, 'no_such') : url);
    if (part === 'port') changed.port = '1';
    if (part !== 'database') changed.password = canary;
    await assert.rejects(open(changed.href), (error: Error & { code: string }) => {
      assert.equal(error.code, code);
      assert.match(error.message, message);
      assert.ok(!error.message.includes(canary));
      return true;
    });
  }
  await assert.rejects(open('mysql://x'), { code: 'bad_database_url', action: 'fatal' });
});

test('the ledger gives up the streams that the model has for each table', async () => {
  const url = await makeDatabase();
  const claimedBy = (table: SeriesTable) => (SERIES[table].batch === null ? [] : streamsOf(table));
  const known = await runSql<{ name: string; kinds: string[] }>(
    url,
    'SELECT t AS name, streams_of(t) AS kinds FROM unnest($1::text[]) AS t',
    [[...SERIES_TABLES]],
  );
  assert.deepEqual(
    known.map(({ name, kinds }) => [name, kinds]),
    SERIES_TABLES.map((table) => [table, claimedBy(table)]),
  );
});

test('every table is explained, and none has a default partition', async () => {
  const url = await makeDatabase();
  const silent = await runSql(
    url,
    `SELECT c.relname FROM pg_class c WHERE c.relnamespace = 'public'::regnamespace
       AND c.relkind IN ('r', 'p') AND c.relname <> 'tapekeep_migration'
       AND obj_description(c.oid) IS NULL`,
  );
  assert.deepEqual(silent, []);
  const keys = await runSql<{ def: string; relname: string }>(
    url,
    `SELECT relname, pg_get_constraintdef(k.oid) AS def FROM pg_constraint k
       JOIN pg_class c ON c.oid = k.conrelid
     WHERE contype IN ('p', 'u', 'x') AND relname = ANY ($1)`,
    [['coverage', 'gap', 'session', 'candle_check', 'candle_recheck']],
  );
  assert.ok(keys.length >= 5);
  for (const { relname, def } of keys) assert.match(def, /market_id/, relname);
});

test('a series has no unique index, and each of its partitions a primary key', async () => {
  const url = await makeDatabase();
  const keysOf = (name: string) =>
    runSql<{ def: string }>(
      url,
      `SELECT pg_get_constraintdef(k.oid) AS def FROM pg_constraint k
       WHERE contype IN ('p', 'u', 'x') AND conrelid = $1::regclass`,
      [name],
    );
  for (const table of SERIES_TABLES) {
    const [made] = await runSql<{ name: string }>(
      url,
      `SELECT make_partition($1, '2026-01-15') AS name`,
      [table],
    );
    assert.deepEqual(await keysOf(table), [], table);
    const key = ['market_id', ...seriesOf(table).key].join(', ');
    assert.deepEqual(await keysOf(made?.name ?? ''), [{ def: `PRIMARY KEY (${key})` }]);
  }
});

test('sixteen makers of one partition all succeed and make it once', async () => {
  const { url } = await openTestStore();
  const made: string[] = [];
  const telemetry = quietStoreEvents({ partitionMade: ({ partition }) => made.push(partition) });
  const makers = await Promise.all(
    Array.from({ length: 16 }, () =>
      openTestStore({ databaseUrl: url, telemetry, poolSize: 1, partitionsAhead: 1 }),
    ),
  );
  await Promise.all(makers.map(({ store }) => store.makePartitionsAhead(NOON_S * 1_000)));
  const ofTrades = made.filter((name) => name.startsWith('trade_')).sort();
  assert.deepEqual(ofTrades, ['trade_20260115', 'trade_20260116']);
  assert.equal(new Set(made).size, made.length);
  await Promise.all(makers.map(({ store }) => store.stop()));
});

test('a maker does not wait for readers of the table', async () => {
  const { store, url } = await openTestStore({ statementTimeoutMs: 2_000, partitionsAhead: 0 });
  await store.commit({ trades: [trade(1, 1)] });
  const reader = new pg.Client({ connectionString: url });
  await reader.connect();
  await reader.query('BEGIN; SELECT count(*) FROM trade');
  await store.makePartitionsAhead(NOON_S * 1_000 - DAY_MS);
  const [made] = await runSql(url, `SELECT to_regclass('trade_20260114') IS NOT NULL AS is_there`);
  assert.deepEqual(made, { is_there: true });
  await reader.query('COMMIT');
  await reader.end();
});

test('partitions are kept ready ahead, months and days alike', async () => {
  const ends = new Map<string, number>();
  const telemetry = quietStoreEvents({
    partitionLead: ({ table, endMs }) => ends.set(table, endMs),
  });
  const { store, url } = await openTestStore({ telemetry, partitionsAhead: 2 });
  await store.makePartitionsAhead(Date.UTC(2026, 0, 31, 23));
  await store.makePartitionsAhead(Date.UTC(2026, 0, 31, 23));
  const rows = await runSql<{ name: string }>(
    url,
    `SELECT inhrelid::regclass::text AS name FROM pg_inherits
     WHERE inhparent IN ('trade'::regclass, 'kline'::regclass) ORDER BY 1`,
  );
  assert.deepEqual(
    rows.map(({ name }) => name),
    [
      'kline_202601',
      'kline_202602',
      'kline_202603',
      'trade_20260131',
      'trade_20260201',
      'trade_20260202',
    ],
  );
  assert.equal(ends.get('trade'), Date.UTC(2026, 1, 3));
  assert.equal(ends.size, SERIES_TABLES.length);
});
