import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { makeDatabase, runSql } from '../../support/postgres/postgres.js';

/**
 * How questions are planned, on ten days of ten markets: a question about an hour of one market reads
 * the partition of that day, and of it the market's part of the key.
 */
async function openPlannedWorld(): Promise<string> {
  const url = await makeDatabase();
  const rows = (columns: string, everyS: number) => `
    SELECT ${columns} FROM generate_series(1, 10) AS m,
      generate_series(timestamptz '2026-01-11Z', '2026-01-20 23:59Z', interval '${everyS} s') AS at`;
  const series: Readonly<Record<string, string>> = {
    trade: rows(`at, extract(epoch FROM at) * 100 + m, NULL, at, m, 'buy', 100, 1, 100`, 600),
    ticker: rows('at, at, at, m, 1, 2, 1, 1, 1, 1, 1, 1, 1', 600),
    depth: rows(`at, at, m, '{1}', '{1}', '{2}', '{1}'`, 600),
    market_state: rows(`at, at, 1, m, 86400, 0, 'query', 1, 1, 1, 1, 1, 1, 1, 1`, 600),
    kline: rows('at, at, m, 600, 0, 1, 1, 1, 1, 1, 1', 600),
  };
  await runSql(
    url,
    `INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
     SELECT 'M' || m || '_USD', 'M', 'USD', 8, 2, 4, 0.001, 'epoch', 'epoch' FROM generate_series(1, 10) m`,
  );
  await runSql(
    url,
    `INSERT INTO stream (market_id, kind, variant) SELECT m, 'states', 86400 FROM generate_series(1, 10) m`,
  );
  await runSql(url, `UPDATE partition_policy SET width = 'day'`);
  for (const [table, sql] of Object.entries(series)) {
    await runSql(
      url,
      `SELECT make_partition('${table}', at) FROM generate_series(timestamptz '2026-01-11Z', '2026-01-20Z', '1 day') at`,
    );
    await runSql(url, `INSERT INTO ${table} ${sql}`);
  }
  await runSql(url, 'ANALYZE');
  return url;
}

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Index Cond'?: string;
  readonly 'Actual Loops'?: number;
  readonly Plans?: readonly Plan[];
}

function nodesOf(plan: Plan): Plan[] {
  return [plan, ...(plan.Plans ?? []).flatMap(nodesOf)];
}

/** Nodes of the plan that were run. */
async function explain(url: string, sql: string, values?: unknown[]): Promise<Plan[]> {
  const [row] = await runSql<{ 'QUERY PLAN': readonly { readonly Plan: Plan }[] }>(
    url,
    `EXPLAIN (ANALYZE, FORMAT JSON) ${sql}`,
    values,
  );
  const plan = row?.['QUERY PLAN'][0]?.Plan;
  assert.ok(plan !== undefined);
  return nodesOf(plan).filter((node) => node['Actual Loops'] !== 0);
}

const HOUR = `'2026-01-15 12:00Z', '2026-01-15 13:00Z'`;
const ASKED: readonly (readonly [table: string, sql: string])[] = [
  ['trade', `analytics.trades('M7_USD', ${HOUR})`],
  ['kline', `analytics.klines('M7_USD', '10 minutes', ${HOUR})`],
  ['kline', `analytics.klines('M7_USD', '10 minutes', ${HOUR}, as_of => now())`],
  ['ticker', `analytics.tickers('M7_USD', ${HOUR})`],
  ['depth', `analytics.depth_levels('M7_USD', ${HOUR})`],
  ['depth', `analytics.spread('M7_USD', ${HOUR})`],
  ['market_state', `analytics.states('M7_USD', '1 day', ${HOUR})`],
  [
    'trade',
    `analytics.trades WHERE market = 'M7_USD' AND traded_at >= '2026-01-15 12:00Z' AND traded_at < '2026-01-15 13:00Z'`,
  ],
];

test('a question about an hour reads one partition, by its key', async () => {
  const url = await openPlannedWorld();
  for (const [table, sql] of ASKED) {
    const nodes = await explain(url, `SELECT * FROM ${sql}`);
    const touched = nodes.filter(
      (node) =>
        node['Index Name']?.startsWith(`${table}_2`) ||
        node['Relation Name']?.startsWith(`${table}_2`),
    );
    const names = touched.map((node) => node['Index Name'] ?? node['Relation Name']);
    assert.ok(touched.length > 0, sql);
    for (const name of names) assert.match(String(name), /_20260115(_pkey)?$/, sql);
    assert.ok(names.includes(`${table}_20260115_pkey`), `${sql} reads ${names.join(', ')}`);
    assert.ok(!touched.some((node) => node['Node Type'].includes('Seq Scan')), sql);
    for (const { 'Index Cond': condition = 'market_id' } of touched) {
      assert.match(condition, /market_id/, sql);
    }
  }
});

test('sums of slots open the partitions of their time and no others', async () => {
  const client = new pg.Client({ connectionString: await openPlannedWorld() });
  await client.connect();
  const hour = `timestamptz '2026-01-15 12:00Z', timestamptz '2026-01-15 12:00Z' + interval '1 hour'`;
  try {
    for (const name of ['candles', 'vwap', 'returns']) {
      await client.query('BEGIN');
      const { rows } = await client.query(
        `SELECT * FROM analytics.${name}('M7_USD', '10 minutes', ${hour})`,
      );
      assert.equal(rows.length, 6, name);
      const locks = await client.query<{ name: string }>(`
        SELECT DISTINCT relation::regclass::text AS name FROM pg_locks
        WHERE pid = pg_backend_pid() AND relation::regclass::text ~ '^trade_[0-9]+$'`);
      assert.deepEqual(locks.rows, [{ name: 'trade_20260115' }], name);
      await client.query('COMMIT');
    }
  } finally {
    await client.end();
  }
});

test('the first trades of a long span are read without sorting it', async () => {
  const url = await openPlannedWorld();
  const sql = `SELECT * FROM analytics.trades('M7_USD', '2026-01-11', '2026-01-20') ORDER BY traded_at, tid LIMIT 10`;
  const nodes = await explain(url, sql);
  assert.ok(!nodes.some((node) => node['Node Type'] === 'Sort'));
  const read = nodes.filter((node) => node['Index Name'] !== undefined);
  assert.deepEqual(
    read.map((node) => node['Index Name']),
    ['trade_20260111_pkey'],
  );
});

test('the newest trades of a market are read by its key, whatever the length of the archive', async () => {
  const url = await openPlannedWorld();
  const last = 'ORDER BY traded_at DESC, tid DESC LIMIT 10';
  const sql = `SELECT * FROM analytics.trades('M7_USD') ${last}`;
  const byView = `SELECT * FROM analytics.trades WHERE market = 'M7_USD' ${last}`;
  assert.deepEqual(await runSql(url, sql), await runSql(url, byView));
  const nodes = await explain(url, sql);
  assert.ok(!nodes.some((node) => node['Node Type'].includes('Sort')));
  const read = nodes.filter((node) => node['Index Name'] !== undefined);
  assert.deepEqual(
    read.map((node) => node['Index Name']),
    ['trade_20260120_pkey'],
  );
});

test('parameters prune as literals do', async () => {
  const client = new pg.Client({ connectionString: await openPlannedWorld() });
  await client.connect();
  await client.query(`
    SET plan_cache_mode = force_generic_plan;
    PREPARE question (text, timestamptz, timestamptz) AS SELECT * FROM analytics.trades($1, $2, $3)`);
  const asked = client.query<{ 'QUERY PLAN': string }>(
    `EXPLAIN (ANALYZE) EXECUTE question ('M7_USD', ${HOUR})`,
  );
  const { rows } = await asked.finally(() => client.end());
  const plan = rows.map((row) => row['QUERY PLAN']).join('\n');
  assert.match(plan, /Subplans Removed: 9/);
  assert.match(plan, /trade_20260115_pkey/);
});
