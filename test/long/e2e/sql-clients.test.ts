import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import test, { type TestContext } from 'node:test';
import { promisify } from 'node:util';
import pg from 'pg';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';
import { trade } from '../../support/postgres/postgres-rows.js';
import { runCommand } from '../../support/programs/commands.js';
import { Program, startSandbox } from '../../support/programs/program.js';
import { hasPackages, PYTHON, python } from '../../support/programs/python.js';
import { DAYS, openDaysWorld, WHOLE } from '../../support/worlds/days-world.js';
import { makeFolder } from '../../support/worlds/export-world.js';

/** What analysts use, over one archive with an archived, a sealed and a hot day: each has to count what was collected. */

const execute = promisify(execFile);
/** More than Postgres fetches at once from the files. */
const MORE = 12_000;
const END = '2026-01-17T00:00:00Z';
const IN_TIME = `traded_at < '${END}'`;
const COUNT = `SELECT count(*)::int AS n, sum(tid)::text AS k FROM trade WHERE ${IN_TIME}`;
type Truth = { readonly n: number; readonly k: string };

interface World {
  readonly url: string;
  readonly truth: Truth;
  startDaemon(): Promise<Program>;
  readonly env: Readonly<Record<string, string>>;
}

async function openWorld(t: TestContext): Promise<World> {
  const dataDir = await makeFolder(t);
  const { url, store } = await openDaysWorld(join(dataDir, 'cold'));
  for (let first = 0; first < MORE; first += 1000) {
    const trades = Array.from({ length: 1000 }, (_, n) =>
      trade(100_000 + first + n, 0, { marketId: 1, tradedAtS: WHOLE.fromMs / 1000 + first + n }),
    );
    await store.commit({ trades });
  }
  const [truth] = await runSql<Truth>(url, COUNT);
  assert.ok(truth !== undefined);
  const { program: sandbox, ready } = await startSandbox(['--seed', '7']);
  t.after(() => sandbox.dispose());
  const env = {
    ...{ TAPEKEEP_DATABASE_URL: url, TAPEKEEP_DATA_DIR: dataDir, TAPEKEEP_HTTP_PORT: '0' },
    ...{ TAPEKEEP_EXCHANGE_URL: ready.url, TAPEKEEP_REALTIME_URL: ready.realtimeUrl },
    ...{ TAPEKEEP_VERIFICATION_ENABLED: 'false', TAPEKEEP_PARTITIONS_SEAL: 'false' },
    ...{ TAPEKEEP_STREAMS_TRADES_HISTORY: 'none', TAPEKEEP_STREAMS_CANDLES_HISTORY: 'none' },
  };
  for (const args of [
    ['--archive', '--before', DAYS[1]],
    ['--before', DAYS[2]],
  ]) {
    const { code, err } = await runCommand(['seal', ...args], env);
    assert.equal(code, 0, err);
  }
  const startDaemon = async () => {
    const daemon = new Program(['start'], { env });
    t.after(() => daemon.dispose());
    await daemon.page();
    return daemon;
  };
  return { url, truth, startDaemon, env };
}

async function connect(t: TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => undefined);
  await client.connect();
  t.after(() => client.end());
  return client;
}

/** The version of a program of Postgres; null where there is none. */
async function versionOf(program: string): Promise<number | null> {
  const said = await execute(program, ['--version']).catch(() => null);
  return said && Number(/(\d+)(?:\.\d+)?/.exec(said.stdout)?.[1]);
}

/** What Grafana and Metabase ask, as they document it; macros as they expand. */
const DASHBOARDS: Readonly<Record<string, string>> = {
  'tables of Grafana': `SELECT quote_ident(table_name) AS "table" FROM information_schema.tables
    WHERE quote_ident(table_schema) NOT IN ('information_schema', 'pg_catalog', '_timescaledb_cache') ORDER BY 1`,
  'columns of Grafana': `SELECT quote_ident(column_name) AS "column", data_type AS "type"
    FROM information_schema.columns WHERE quote_ident(table_name) = 'trade'`,
  $__timeFilter: `SELECT traded_at AS "time", price FROM trade
    WHERE traded_at BETWEEN '2026-01-14T22:00:00Z' AND '2026-01-15T02:00:00Z' ORDER BY 1`,
  $__timeGroup: `SELECT floor(extract(epoch FROM traded_at) / 300) * 300 AS "time", sum(amount) AS volume
    FROM trade WHERE traded_at BETWEEN '2026-01-14T00:00:00Z' AND '2026-01-16T23:59:59Z' GROUP BY 1 ORDER BY 1`,
  $__timeGroupAlias: `SELECT to_timestamp(floor(extract(epoch FROM traded_at) / 3600) * 3600) AS "time", market_id::text AS metric,
      avg(price) AS price FROM trade WHERE ${IN_TIME} GROUP BY 1, 2 ORDER BY 1, 2`,
  $__unixEpochFilter: `SELECT count(*) FROM trade
    WHERE extract(epoch FROM traded_at) >= 1768348800 AND extract(epoch FROM traded_at) <= 1768607999 AND ${IN_TIME}`,
  'tables of Metabase': `SELECT n.nspname AS schema, c.relname AS name,
      CASE c.relkind WHEN 'r' THEN 'TABLE' WHEN 'p' THEN 'PARTITIONED TABLE' WHEN 'v' THEN 'VIEW' WHEN 'f' THEN 'FOREIGN TABLE' ELSE NULL END AS type,
      d.description, stat.n_live_tup AS estimated_row_count
    FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON c.relnamespace = n.oid
      LEFT JOIN pg_catalog.pg_description d ON c.oid = d.objoid AND d.objsubid = 0 AND d.classoid = 'pg_class'::regclass
      LEFT JOIN pg_stat_user_tables stat ON n.nspname = stat.schemaname AND c.relname = stat.relname
    WHERE c.relkind IN ('r', 'p', 'v', 'f', 'm') AND n.nspname !~ '^(information_schema|catalog_history|pg_)'
      AND has_table_privilege(c.oid, 'SELECT')`,
  'columns of Metabase': `SELECT c.column_name, c.udt_name, c.ordinal_position, c.is_nullable, col_description(format('%I.%I', c.table_schema, c.table_name)::regclass, c.ordinal_position)
    FROM information_schema.columns c WHERE c.table_schema !~ '^information_schema|^pg_' ORDER BY c.table_name, 3`,
  'fingerprints of Metabase': `SELECT "public"."trade"."tid", "public"."trade"."price", "public"."trade"."side" FROM "public"."trade" LIMIT 10000`,
  'values of Metabase': `SELECT "public"."trade"."side" AS "side" FROM "public"."trade"
    WHERE ${IN_TIME} GROUP BY "public"."trade"."side" ORDER BY "public"."trade"."side" ASC LIMIT 1001`,
  'a count by day of Metabase': `SELECT DATE_TRUNC('day', "public"."trade"."traded_at") AS "traded_at", COUNT(*) AS "count" FROM "public"."trade"
    WHERE ("public"."trade"."traded_at" >= timestamp with time zone '2026-01-14 00:00:00.000Z')
      AND ("public"."trade"."traded_at" < timestamp with time zone '2026-01-17 00:00:00.000Z')
    GROUP BY DATE_TRUNC('day', "public"."trade"."traded_at") ORDER BY 1 ASC`,
  'bins of Metabase': `SELECT FLOOR(CAST("public"."trade"."amount" AS float) / 5.0) * 5.0 AS "amount", COUNT(*), SUM("public"."trade"."total"), AVG("public"."trade"."price")
    FROM "public"."trade" WHERE ${IN_TIME} GROUP BY 1 ORDER BY 1`,
  'DISTINCT and CASE of Metabase': `SELECT COUNT(DISTINCT "public"."trade"."market_id"), SUM(CASE WHEN "public"."trade"."side" = 'buy'::taker_side THEN 1 ELSE 0.0 END)
    FROM "public"."trade" WHERE ${IN_TIME} AND CAST("public"."trade"."traded_at" AS date) BETWEEN date '2026-01-14' AND date '2026-01-16'`,
};

const PSYCOPG = `
import psycopg, sys
with psycopg.connect(sys.argv[1]) as connection:
    with connection.cursor(name='rows') as cursor:
        cursor.itersize = 777
        cursor.execute("SELECT tid FROM trade WHERE traded_at < %s", (sys.argv[2],))
        ids = [tid for tid, in cursor]
print(len(ids), sum(ids))`;
const PANDAS = `
import pandas, sqlalchemy, sys
engine = sqlalchemy.create_engine(sys.argv[1].replace('postgresql:', 'postgresql+psycopg:').replace('postgres:', 'postgresql+psycopg:'))
frame = pandas.read_sql(sqlalchemy.text('SELECT * FROM trade WHERE traded_at < :until'), engine, params={'until': sys.argv[2]})
print(len(frame), frame['tid'].sum())`;
const POLARS = `
import polars, sys
frame = polars.read_database_uri(f"SELECT * FROM trade WHERE traded_at < '{sys.argv[2]}'", sys.argv[1], engine='adbc')
print(frame.height, frame['tid'].sum())`;
const SCRIPTS: readonly (readonly [needs: readonly string[], script: string])[] = [
  [['psycopg'], PSYCOPG],
  [['psycopg', 'pandas', 'sqlalchemy'], PANDAS],
  [['polars', 'adbc_driver_postgresql', 'pyarrow'], POLARS],
];

test('every client counts what was collected, hot and archived', async (t) => {
  const { url, truth, startDaemon, env } = await openWorld(t);
  let daemon = await startDaemon();
  const client = await connect(t, url);

  await t.test('node-pg: parameters, named statements, a cursor', async () => {
    const text = `SELECT count(*)::int AS n, sum(tid)::text AS k FROM trade WHERE traded_at >= $1 AND traded_at < $2`;
    const values = [new Date(WHOLE.fromMs), new Date(WHOLE.toMs)];
    assert.deepEqual((await client.query(text, values)).rows, [truth]);
    // From the sixth time on Postgres plans it for any values.
    for (let time = 0; time < 8; time += 1) {
      assert.deepEqual((await client.query({ name: 'count', text, values })).rows, [truth]);
    }
    await client.query(`BEGIN; DECLARE c CURSOR FOR SELECT tid FROM trade WHERE ${IN_TIME}`);
    let rows = 0;
    for (;;) {
      const { rowCount } = await client.query('FETCH 777 FROM c');
      if (rowCount === 0) break;
      rows += rowCount ?? 0;
    }
    await client.query('COMMIT');
    assert.equal(rows, truth.n);
  });

  await t.test('dashboards: what Grafana and Metabase ask', async () => {
    for (const [name, sql] of Object.entries(DASHBOARDS)) {
      const { rows } = await client.query<Record<string, unknown>>(sql);
      assert.ok(rows.length > 0, name);
      if (name === '$__unixEpochFilter') assert.equal(Number(rows[0]?.count), truth.n);
      if (name.startsWith('a count by day')) {
        assert.equal(rows.length, DAYS.length);
        assert.equal(
          rows.reduce((sum, { count }) => sum + Number(count), 0),
          truth.n,
        );
      }
    }
  });

  await t.test('psql: \\d, a statement, \\copy, FETCH_COUNT', async (t) => {
    if ((await versionOf('psql')) === null) return t.skip('psql is not installed here');
    const psql = async (...commands: string[]) =>
      (await execute('psql', ['-XAt', '-d', url, ...commands.flatMap((one) => ['-c', one])]))
        .stdout;
    assert.match(
      await psql('\\d+ trade', '\\pset tuples_only off', '\\d trade_20260114'),
      /Server: tapekeep_cold/,
    );
    assert.equal((await psql(COUNT)).trim(), `${truth.n}|${truth.k}`);
    const copied = await psql(`\\copy (SELECT tid FROM trade WHERE ${IN_TIME}) TO STDOUT`);
    assert.equal(copied.trim().split('\n').length, truth.n);
    const fetched = await psql('\\set FETCH_COUNT 500', `SELECT tid FROM trade WHERE ${IN_TIME}`);
    assert.equal(fetched.trim().split('\n').length, truth.n);
  });

  await t.test('psycopg, pandas with SQLAlchemy, polars', async (t) => {
    for (const [needs, script] of SCRIPTS) {
      if (await hasPackages(needs)) {
        assert.equal((await python('.', ['-c', script, url, END])).trim(), `${truth.n} ${truth.k}`);
      } else t.diagnostic(`not run: ${PYTHON} lacks one of ${needs.join(', ')}`);
    }
  });

  await t.test('pg_dump: the copy reads nothing of the original', async (t) => {
    const [server] = await runSql<{ v: string }>(
      url,
      "SELECT current_setting('server_version_num') AS v",
    );
    const version = await versionOf('pg_dump');
    if (version === null || version < Math.floor(Number(server?.v) / 10_000)) {
      return t.skip(`no pg_dump here for this server (found: ${version ?? 'none'})`);
    }
    const copy = await makeDatabase('empty');
    const dump = join(await makeFolder(t), 'archive.dump');
    await execute('pg_dump', ['-Fc', '-f', dump, '-d', url]);
    await execute('pg_restore', ['--no-owner', '--no-privileges', '-e', '-d', copy, dump]);
    await assertForeign(copy);
  });

  await t.test('a database that says what the original says is refused', async () => {
    await assertForeign(await cloneServer(url));
    assert.deepEqual((await client.query(COUNT)).rows, [truth], 'the original reads on');
  });

  await t.test(
    'SIGKILL of the daemon fails the statement that reads, and nothing else',
    async () => {
      const all = `SELECT tid FROM trade WHERE ${IN_TIME}`;
      await client.query(`BEGIN; DECLARE c CURSOR FOR ${all}`);
      assert.equal((await client.query('FETCH 1 FROM c')).rowCount, 1);
      daemon.kill('SIGKILL');
      await daemon.exited();
      await assert.rejects(client.query('FETCH ALL FROM c'), { code: /^08/ });
      await client.query('ROLLBACK');
      const { rows: hot } = await client.query(
        `SELECT count(*)::int AS n FROM trade WHERE traded_at >= '${DAYS[1]}Z' AND ${IN_TIME}`,
      );
      assert.deepEqual(hot, [{ n: 48 }]);
      await assert.rejects(client.query(COUNT), { code: '08001' });
      daemon = await startDaemon();
      assert.deepEqual((await client.query(COUNT)).rows, [truth]);
      assert.equal((await client.query(all)).rowCount, truth.n);
    },
  );

  await t.test('doctor says where the database cannot reach the daemon', async () => {
    const doctor = async () => (await runCommand(['doctor'], env)).out;
    assert.doesNotMatch(await doctor(), /archived rows/);
    await runSql(url, `SELECT point_cold_server('127.0.0.1', 1, 'tapekeep_cold', 'p', 'd')`);
    assert.match(
      await doctor(),
      /^warning +database +.*cannot reach the daemon for archived rows \(could not connect to server "tapekeep_cold"/m,
    );
  });
});

/** Asks a copy for archived rows. */
async function assertForeign(copy: string): Promise<void> {
  await assert.rejects(runSql(copy, 'SELECT * FROM trade_20260114'), (error: pg.DatabaseError) => {
    assert.equal(error.code, '08001');
    assert.match(`${error.message} ${error.detail ?? ''}`, /is not the one whose archived rows/);
    return true;
  });
}

/** Another database with the same foreign server, login and foreign table, as a restored dump has them. */
async function cloneServer(url: string): Promise<string> {
  const copy = await makeDatabase('empty');
  const [made] = await runSql<{ server: string; login: string }>(
    url,
    `SELECT (SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM pg_options_to_table(s.srvoptions)) AS server,
       (SELECT string_agg(format('%I %L', option_name, option_value), ', ') FROM pg_options_to_table(m.umoptions)) AS login
     FROM pg_foreign_server s JOIN pg_user_mappings m ON m.srvid = s.oid WHERE s.srvname = 'tapekeep_cold'`,
  );
  await runSql(copy, `CREATE EXTENSION postgres_fdw`);
  await runSql(
    copy,
    `CREATE SERVER tapekeep_cold FOREIGN DATA WRAPPER postgres_fdw OPTIONS (${made?.server})`,
  );
  await runSql(
    copy,
    `CREATE USER MAPPING FOR PUBLIC SERVER tapekeep_cold OPTIONS (${made?.login})`,
  );
  await runSql(
    copy,
    `CREATE FOREIGN TABLE trade_20260114 (tid bigint) SERVER tapekeep_cold
     OPTIONS (schema_name 'cold', table_name 'trade_20260114')`,
  );
  return copy;
}
