import assert from 'node:assert/strict';
import test from 'node:test';
import pg from 'pg';
import { runSql } from '../../support/postgres/postgres.js';
import { loginAs } from '../../support/postgres/postgres-logins.js';
import { pointCold, standInForCold } from '../../support/worlds/cold-stand-in.js';
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
  (from, to) => `analytics.klines('BTC_USD', '1 hour', ${from}, ${to}, '2026-01-20Z')`,
  (from, to) => `analytics.tickers('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.depth_levels('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.spread('BTC_USD', ${from}, ${to})`,
  (from, to) => `analytics.states('BTC_USD', '1 day', ${from}, ${to})`,
];
const VIEWS = ['trades', 'klines', 'tickers', 'states', 'depth_levels'];
const [FIRST, NOON, SECOND, THIRD] = [
  ...[`'2026-01-14Z'`, `'2026-01-14 12:00Z'`, `'2026-01-15Z'`, `'2026-01-16Z'`],
] as [string, string, string, string];
/** Known only when the statement runs, though always the same. */
const later = (moment: string) => `(timestamptz ${moment} + (now() - now()))`;

const STATEMENTS: readonly string[] = [
  ...ASKED.flatMap((call) =>
    [
      [FIRST, THIRD],
      [NOON, SECOND],
      [later(NOON), later(THIRD)],
    ].map(([from, to]) => `SELECT * FROM ${call(`${from}::timestamptz`, `${to}::timestamptz`)}`),
  ),
  ...VIEWS.flatMap((view) => [
    `SELECT * FROM analytics.${view}`,
    `SELECT count(*) FROM analytics.${view}`,
    `SELECT market, count(*) FROM analytics.${view} WHERE market = 'BTC_USD' GROUP BY 1`,
  ]),
  ...[NOON, SECOND].map((at) => `SELECT * FROM analytics.depth_at('BTC_USD', ${at})`),
  `SELECT * FROM analytics.completeness('BTC_USD', '2026-01-14')`,
];

/** A row as text, decimals by their value: which of two equal ones is the lowest depends on the order of reading. */
const textOf = (row: object) =>
  JSON.stringify(row).replaceAll(
    /"(-?\d+\.\d*?)0*"/g,
    (_, digits: string) => `"${digits.replace(/\.$/, '')}"`,
  );

/** Answers of all statements, rows in one order. */
async function answersOf(client: pg.Client): Promise<Map<string, string[]>> {
  const answers = new Map<string, string[]>();
  for (const sql of STATEMENTS) {
    const { rows } = await client.query(sql);
    answers.set(sql, rows.map(textOf).sort());
  }
  return answers;
}

async function connected(t: test.TestContext, url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  t.after(() => client.end());
  return client;
}

test('archived rows answer as they did before, to readers, in every view and function', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  const reader = await connected(t, await loginAs(place.url, 'tapekeep_reader'));
  const before = await answersOf(reader);
  assert.ok([...before.values()].every((rows) => rows.length > 0));
  // Plans of before, of this session.
  const plans: [string, string[]][] = [];
  const run = async (name: string) =>
    (await reader.query(`EXECUTE ${name} (${NOON}, ${THIRD})`)).rows.map(textOf).sort();
  for (const [index, call] of ASKED.entries()) {
    await reader.query(
      `PREPARE one${index} (timestamptz, timestamptz) AS SELECT * FROM ${call('$1', '$2')}`,
    );
    plans.push([`one${index}`, await run(`one${index}`)]);
  }
  await standInForCold(place.url);
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[0]);
  assert.deepEqual(await answersOf(reader), before);
  for (const mode of ['auto', 'force_generic_plan']) {
    await reader.query(`SET plan_cache_mode = ${mode}`);
    for (const [name, rows] of plans) {
      assert.deepEqual(await run(name), rows, `${name} ${mode}`);
    }
  }
  await reader.query('RESET plan_cache_mode');
  // A snapshot of before the next day left: rows of that day are the same from wherever they come.
  await reader.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM market');
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[1]);
  assert.deepEqual(await answersOf(reader), before);
  await reader.query('COMMIT');
});

test('hot time is answered while nothing answers for archived time', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  for (const kind of KINDS) await archiveDay(place, kind, DAYS[0]);
  // A port that nothing listens on.
  const nowhere = new URL(place.url);
  nowhere.port = '1';
  await pointCold(place.url, nowhere.href);
  const reader = await connected(t, await loginAs(place.url, 'tapekeep_reader'));
  const unreachable = { code: '08001', message: /could not connect to server "tapekeep_cold"/ };
  for (const call of ASKED) {
    const ask = (from: string, to: string) =>
      reader.query(`SELECT * FROM ${call(`${from}::timestamptz`, `${to}::timestamptz`)}`);
    for (const [from, to] of [
      [SECOND, THIRD],
      [later(SECOND), later(THIRD)],
    ] as const) {
      const rows = await ask(from, to).then(
        (answer) => answer.rows.length,
        (error: Error) => error.message,
      );
      assert.ok(Number(rows) > 0, `${rows}: ${call(from, to)}`);
    }
    await assert.rejects(ask(NOON, SECOND), unreachable, call(NOON, SECOND));
    await reader.query('SET plan_cache_mode = force_generic_plan');
    await reader.query(
      `PREPARE one (timestamptz, timestamptz) AS SELECT * FROM ${call('$1', '$2')}`,
    );
    assert.ok((await reader.query(`EXECUTE one (${SECOND}, ${THIRD})`)).rows.length > 0);
    await reader.query('DEALLOCATE one; RESET plan_cache_mode');
  }
  const newest = `SELECT tid FROM analytics.trades WHERE traded_at >= ${SECOND} ORDER BY traded_at DESC LIMIT 3`;
  assert.equal((await reader.query(newest)).rows.length, 3);
  // The book of the second day is its own: no look at the day before is needed for it.
  const book = await reader.query(
    `SELECT * FROM analytics.depth_at('BTC_USD', '2026-01-15 12:00Z')`,
  );
  assert.ok(book.rows.length > 0);
  assert.equal(
    (await reader.query(`SELECT * FROM analytics.completeness('BTC_USD', '2026-01-14')`)).rows
      .length > 0,
    true,
  );
});

interface Plan {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Remote SQL'?: string;
  readonly 'Actual Loops'?: number;
  readonly Plans?: readonly Plan[];
}

/** Scans of a plan, in their order: whether foreign, of what, and whether they ran. */
function scansOf(plan: Plan): { of: string; isForeign: boolean; ran: boolean; remote: string }[] {
  const own = plan['Relation Name'];
  const here =
    own === undefined
      ? []
      : [
          {
            ...{ of: own, isForeign: plan['Node Type'] === 'Foreign Scan' },
            ...{ ran: (plan['Actual Loops'] ?? 0) > 0, remote: plan['Remote SQL'] ?? '' },
          },
        ];
  return [...here, ...(plan.Plans ?? []).flatMap(scansOf)];
}

test('archived days are pruned, ordered and filtered as any other partition', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await standInForCold(place.url);
  await archiveDay(place, 'trades', DAYS[0]);
  await archiveDay(place, 'trades', DAYS[1]);
  await runSql(place.url, 'ANALYZE trade_20260116');
  const reader = await connected(t, await loginAs(place.url, 'tapekeep_reader'));
  const scans = async (sql: string) => {
    const { rows } = await reader.query(`EXPLAIN (ANALYZE, VERBOSE, FORMAT json) ${sql}`);
    return scansOf(rows[0]['QUERY PLAN'][0].Plan);
  };
  const of = async (sql: string) => (await scans(sql)).filter(({ isForeign }) => isForeign);

  const newest = await scans(
    'SELECT * FROM trade WHERE market_id = 1 ORDER BY traded_at DESC, tid DESC LIMIT 10',
  );
  assert.deepEqual(
    newest.map(({ of: name, isForeign, ran }) => [name, isForeign, ran]),
    [
      ['trade_20260116', false, true],
      ['trade_20260115', true, false],
      ['trade_20260114', true, false],
    ],
  );
  assert.match(newest[1]?.remote ?? '', /market_id = 1\)+ ORDER BY traded_at DESC/);
  assert.deepEqual(await of(`SELECT * FROM trade WHERE traded_at >= ${THIRD}`), []);
  assert.deepEqual(await of(`SELECT * FROM trade WHERE traded_at > now() - interval '1 hour'`), []);
  const [only, ...others] = await of(
    `SELECT count(*) FROM trade WHERE market_id = 1 AND traded_at >= ${NOON} AND traded_at < ${SECOND}`,
  );
  assert.deepEqual([only?.of, only?.ran, others], ['trade_20260114', true, []]);
  assert.match(only?.remote ?? '', /market_id = 1/);
});

test('readers neither see the password of archived rows nor lead it elsewhere', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await standInForCold(place.url);
  await archiveDay(place, 'trades', DAYS[0]);
  const reader = await connected(t, await loginAs(place.url, 'tapekeep_reader'));
  const { password } = new URL(place.url);
  assert.ok(password.length > 3);
  const { rows: mappings } = await reader.query('SELECT umoptions FROM pg_user_mappings');
  assert.deepEqual(mappings, [{ umoptions: null }]);
  const { rows: explained } = await reader.query('EXPLAIN (VERBOSE) SELECT * FROM trade');
  assert.ok(!JSON.stringify(explained).includes(password));
  const refused = [
    'SELECT * FROM pg_user_mapping',
    'SELECT * FROM trade_20260114',
    `ALTER SERVER tapekeep_cold OPTIONS (SET host '192.0.2.1')`,
    'CREATE USER MAPPING FOR CURRENT_USER SERVER tapekeep_cold',
    'ALTER USER MAPPING FOR PUBLIC SERVER tapekeep_cold OPTIONS (SET password_required $$false$$)',
    `CREATE FOREIGN TABLE pg_temp.mine (a int) SERVER tapekeep_cold`,
    'IMPORT FOREIGN SCHEMA public FROM SERVER tapekeep_cold INTO public',
    'CREATE SERVER mine FOREIGN DATA WRAPPER postgres_fdw',
    `SELECT point_cold_server('192.0.2.1', 1, 'a', 'b', 'c')`,
  ];
  for (const sql of refused) {
    await assert.rejects(reader.query(sql), { code: /^(42501|25006)$/ }, sql);
  }
  const writer = await connected(t, await loginAs(place.url, 'tapekeep_writer'));
  assert.deepEqual((await writer.query('SELECT umoptions FROM pg_user_mappings')).rows, mappings);
});

test('nothing goes into archived time, by hand either', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await standInForCold(place.url);
  await archiveDay(place, 'trades', DAYS[0]);
  const insert = `INSERT INTO trade (market_id, traded_at, tid, received_at, side, price, amount, total)
    VALUES (1, ${NOON}, 99, now(), 'buy', 1, 1, 1)`;
  for (const sql of [insert, `${insert} ON CONFLICT DO NOTHING`]) {
    await assert.rejects(runSql(place.url, sql), {
      ...{ code: '55000', message: 'foreign table "trade_20260114" does not allow inserts' },
    });
  }
  await assert.rejects(runSql(place.url, `UPDATE trade SET total = 1 WHERE traded_at = ${NOON}`), {
    code: '55000',
  });
  await assert.rejects(runSql(place.url, `DELETE FROM trade WHERE traded_at = ${NOON}`), {
    code: '55000',
  });
  await assert.rejects(runSql(place.url, 'TRUNCATE trade'), { code: 'TK004' });
});

test('the server of archived rows is pointed anew, and told nothing that it knows', async (t) => {
  const place = await openDaysWorld(await makeFolder(t));
  await standInForCold(place.url);
  await archiveDay(place, 'trades', DAYS[0]);
  const reader = await connected(t, await loginAs(place.url, 'tapekeep_reader'));
  const count = async () =>
    (await reader.query(`SELECT count(*)::int AS n FROM trade WHERE traded_at < ${SECOND}`)).rows;
  const [held] = await count();
  const versions = () =>
    runSql(
      place.url,
      'SELECT s.xmin::text AS server, m.xmin::text AS mapping FROM pg_foreign_server s, pg_user_mapping m',
    );
  const before = await versions();
  const server = { host: '127.0.0.1', port: 1, user: 'a', password: "it's", dbname: 'other' };
  await pointCold(place.url, place.url);
  assert.deepEqual(await versions(), before);
  await place.store.sealing.pointColdServer(server);
  await assert.rejects(count(), { code: '08001' });
  await pointCold(place.url, place.url);
  assert.deepEqual(await count(), [held]);
});
