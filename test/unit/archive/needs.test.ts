import assert from 'node:assert/strict';
import test from 'node:test';
import { PLANNED, planBounds } from '../../../src/archive/query/needs.js';
import { openStatement } from '../../../src/archive/query/statement.js';
import { questionSql } from '../../../src/archive/query/tables.js';

const TABLES = [
  `CREATE TABLE ${PLANNED}.trades (market VARCHAR, traded_at TIMESTAMPTZ, tid BIGINT, side VARCHAR,
     price DECIMAL(18,8), amount DECIMAL(18,8), total DECIMAL(38,16), received_at TIMESTAMPTZ)`,
  `CREATE TABLE ${PLANNED}.klines (market VARCHAR, open_at TIMESTAMPTZ, close DECIMAL(18,8))`,
  `CREATE VIEW trades AS FROM ${PLANNED}.trades`,
  `CREATE VIEW klines AS FROM ${PLANNED}.klines`,
  'CREATE TABLE markets (market VARCHAR)',
  'CREATE TABLE coverage (market VARCHAR, kind VARCHAR, starts_at TIMESTAMPTZ, ends_at TIMESTAMPTZ)',
  'CREATE SCHEMA analytics',
  ...questionSql(new Map()),
];

/** What a statement needs of trades; in milliseconds, the end excluded. */
async function needOf(sql: string) {
  const statement = await openStatement(sql, new AbortController().signal);
  const { duck } = statement;
  try {
    const bounds = await planBounds(duck, statement, async () => {
      for (const one of TABLES) await duck.run('making tables', one);
    });
    const { markets, fromMs, toMs } = bounds('trades');
    const at = (ms: number) => new Date(ms).toISOString();
    return {
      markets: markets === null ? '*' : [...markets].sort(),
      from: fromMs === 0 ? null : at(fromMs),
      to: toMs === Date.UTC(9999, 0) ? null : at(toMs),
    };
  } finally {
    await statement.close();
  }
}

const ALL = { markets: '*', from: null, to: null };
const [FIRST, SECOND] = ['2026-01-01T00:00:00.000Z', '2026-01-02T00:00:00.000Z'];
const NONE = { markets: [], from: null, to: '1970-01-01T00:00:00.000Z' };

test('rows are left out where the statement throws them away', async () => {
  const ofA = { ...ALL, markets: ['A'] };
  const ofBoth = { ...ALL, markets: ['A', 'B'] };
  const narrow: readonly (readonly [sql: string, need: unknown])[] = [
    ["from trades where market = 'A'", ofA],
    ["from trades where 'A' = market and traded_at > '2026-01-01'", { ...ofA, from: FIRST }],
    ["from trades where market = 'A' or market = 'B'", ofBoth],
    [
      "from trades t where t.market in ('A', 'B') and '2026-01-02' > t.traded_at",
      { ...ofBoth, to: SECOND },
    ],
    ["from trades where market in ('A', 'B') and market = 'B'", { ...ALL, markets: ['B'] }],
    ["from trades where market = 'it''s' or market = ', ('", { ...ALL, markets: [', (', "it's"] }],
    [
      "from trades where traded_at between '2026-01-01' and date '2026-01-01' + interval '1 day'",
      { markets: '*', from: FIRST, to: '2026-01-02T00:00:00.001Z' },
    ],
    [
      "from trades where traded_at = '2026-01-01'",
      { markets: '*', from: FIRST, to: '2026-01-01T00:00:00.001Z' },
    ],
    ["from trades where traded_at < '2026-01-02'", { ...ALL, to: SECOND }],
    ["from trades where traded_at < '2026-01-01 23:59:59.999999'", { ...ALL, to: SECOND }],
    [
      "from trades where traded_at >= '2026-01-01 02:00:00.123456+02' and traded_at < 'infinity'",
      { ...ALL, from: '2026-01-01T00:00:00.123Z' },
    ],
    ["from trades join klines k using (market) where trades.market = 'A'", ofA],
    ["from trades join klines k using (market) where k.market = 'A'", ofA],
    ["from (from trades where market = 'A') where side = 'buy'", ofA],
    ["with a as materialized (from trades) from a where market = 'A'", ofA],
    ["with trades as (from trades) from trades where market = 'A'", ofA],
    ["from trades where market = 'A' union all from trades where market = 'B'", ofBoth],
    ["select 1 from klines where exists (from trades where market = 'A')", ofA],
    ['describe trades', NONE],
    ['from trades where false', NONE],
    [
      "from candles('A', '1 hour', '2026-01-01', '2026-01-01 23:00')",
      { markets: ['A'], from: FIRST, to: SECOND },
    ],
    [
      "from analytics.vwap('A', 3600, '2026-01-01', '2026-01-01 23:00', origin := now())",
      { markets: ['A'], from: FIRST, to: SECOND },
    ],
    [
      "from returns('A', interval 1 day, '2026-01-01', (select now())), markets",
      { ...ofA, from: FIRST },
    ],
    [
      "from vwap(from_at := '2026-01-01', market := 'A', step := 60, to_at := '2026-01-01 23:59')",
      { markets: ['A'], from: FIRST, to: SECOND },
    ],
  ];
  for (const [sql, need] of narrow) assert.deepEqual(await needOf(sql), need, sql);
});

test('rows are left out nowhere else', async () => {
  for (const sql of [
    'from trades',
    "from trades where market = 'A' or side = 'buy'",
    "from trades where not (market = 'A')",
    "from trades where market <> 'A'",
    "from trades where market not in ('A')",
    'from trades where market = side',
    "from trades where market like 'A%'",
    "from trades where upper(market) = 'A'",
    "from trades where market = E'A\\nmarket=''B'''",
    'from trades where traded_at > received_at',
    "from trades where traded_at = '2026-01-03' or traded_at > '2026-01-01' and traded_at < '2026-01-02'",
    'from trades where traded_at > (select max(open_at) from klines)',
    'from trades where traded_at > now() - random() * interval 1 hour',
    "from trades where market = 'A' union all from trades",
    "from trades tablesample 10% where market = 'A'",
    "from trades positional join klines where trades.market = 'A'",
    "from klines full join trades using (market) where trades.market = 'A'",
    "from trades t(name, instant, id, market) where market = 'A'",
    "from trades where market = 'A' and exists (from query('from trades'))",
    "select (select count(*) from trades) from trades where market = 'A'",
    'summarize trades',
    "from vwap('A', 60, '2026-01-01', '2026-01-02'), trades",
    "from vwap('A', 60, '2026-01-01', '2026-01-02'), query('from trades')",
    // Of types that are known only when the rows are.
    "select price * price * price * price * price from trades where market = 'A'",
  ]) {
    assert.deepEqual(await needOf(sql), ALL, sql);
  }
});

test('now is the same when it is planned and when it runs', async () => {
  const sql = 'select epoch_ms(now()) from trades where traded_at >= now()';
  const statement = await openStatement(sql, new AbortController().signal);
  const { duck } = statement;
  const bounds = await planBounds(duck, statement, async () => {
    for (const one of TABLES) await duck.run('making tables', one);
  });
  const [row] = await duck.rows('asking', 'select epoch_ms(now())');
  await statement.close();
  assert.equal(bounds('trades').fromMs, Number(row?.[0]));
});
