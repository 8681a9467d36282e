import assert from 'node:assert/strict';
import test from 'node:test';
import { needsOf } from '../../../src/archive/query/needs.js';
import { parseStatement } from '../../../src/archive/query/statement.js';
import { openDuck } from '../../support/worlds/export-world.js';

test('rows are left out only where the statement throws them away for certain', async (t) => {
  const duck = await openDuck(t);
  const needOf = async (sql: string) => {
    const need = needsOf((await parseStatement(duck, sql)).root).get('trades');
    const markets = need?.markets === undefined || need.markets === null ? '*' : [...need.markets];
    return [markets, need?.from?.length ?? null, need?.to?.length ?? null];
  };
  const all = ['*', null, null];
  const narrow: readonly (readonly [sql: string, need: unknown])[] = [
    ["from trades where market = 'A'", [['A'], null, null]],
    ["from trades where 'A' = market and traded_at > '2026-01-01'", [['A'], 1, null]],
    ["from trades t where t.market in ('A', 'B') and now() > t.traded_at", [['A', 'B'], null, 1]],
    ["from trades where market in ('A', 'B') and market = 'B'", [['B'], null, null]],
    [
      "from trades where traded_at between '2026-01-01' and date '2026-02-01' + interval '1 day'",
      ['*', 1, 1],
    ],
    ["from trades where traded_at = '2026-01-01'", ['*', 1, 1]],
    ['from trades where traded_at >= now() - interval 1 hour', ['*', 1, null]],
    ["from trades join klines k using (market) where trades.market = 'A'", [['A'], null, null]],
    ["from (from trades where market = 'A') where side = 'buy'", [['A'], null, null]],
    [
      "from trades where market = 'A' union all from trades where market = 'B'",
      [['A', 'B'], null, null],
    ],
    ['describe trades', [[], null, null]],
    ["from candles('A', '1 hour', now() - interval '1 day', now())", [['A'], 1, 1]],
    ["from analytics.vwap('A', 60, '2026-01-01', '2026-01-02', origin := now())", [['A'], 1, 1]],
    [
      "from returns('A', interval 1 day, '2026-01-01', (select now())) join markets using (market)",
      [['A'], 1, null],
    ],
    [
      "from trades where market = 'B' union all from vwap('A', 60, now(), now())",
      [['B', 'A'], null, null],
    ],
  ];
  for (const [sql, need] of narrow) assert.deepEqual(await needOf(sql), need, sql);
  for (const sql of [
    'from trades',
    "from trades where market = 'A' or side = 'buy'",
    "from trades where not (market = 'A')",
    "from trades where market <> 'A'",
    "from trades where market not in ('A')",
    'from trades where market = side',
    "from trades where market like 'A%'",
    "from trades where upper(market) = 'A'",
    "from trades where traded_at + interval '1 day' > '2026-01-01'",
    'from trades where traded_at > received_at',
    'from trades where traded_at > (select max(open_at) from klines)',
    'from trades where traded_at > now() - random() * interval 1 hour',
    "from trades, klines where market = 'A'",
    "from trades where market = 'A' union all from trades",
    "from trades tablesample 10% where market = 'A'",
    "from trades positional join klines where trades.market = 'A'",
    "from klines asof join trades on klines.open_at >= trades.traded_at where trades.traded_at < '2026-01-01'",
    "from klines full join trades using (market) where trades.market = 'A'",
    "from trades t(market2, market) where market = 'A'",
    "from trades where market = 'A' and exists (from query('from trades'))",
    "with trades as (from trades) from trades where market = 'A'",
    "select (select count(*) from trades) from trades where market = 'A'",
    'summarize trades',
    "from vwap(from_at := '2026-01-01', market := 'A', step := 60, to_at := now())",
    "from vwap('A', 60, '2026-01-01', '2026-01-02'), trades",
    "from vwap('A', 60, '2026-01-01', '2026-01-02'), query('from trades')",
    "from trades where traded_at > '2026-01-01'::timestamptz + to_seconds(3600.5)",
    'from trades where traded_at > make_timestamptz(2026, 1, 1, 0, 0, 5.5)',
    'from trades where traded_at > now() - interval (1.5) hour',
    'from trades where traded_at > now() - to_microseconds(99999999999999999999)',
    "from trades where traded_at > try_cast('soon' as timestamptz)",
  ]) {
    assert.deepEqual(await needOf(sql), all, sql);
  }
});

test('a moment that is worked out beforehand is the moment of the statement', async (t) => {
  const duck = await openDuck(t);
  const asked = "from candles('A', 5400, '2026-01-31', DATE '2026-02-01')";
  const { to = [] } = needsOf((await parseStatement(duck, asked)).root).get('trades') ?? {};
  const [end] = await duck.rows('looking', `SELECT epoch_ms(${String(to?.[0])})::BIGINT::VARCHAR`);
  assert.equal(
    end?.[0],
    String(Date.parse('2026-02-01T01:30Z')),
    'the last slot ends after the span',
  );
  const day = "TIMESTAMPTZ '2026-01-31 12:00:00.123456+00'";
  const understood: string[] = [];
  for (const moment of [
    ...['2026-01-31', '2026-01-31 12:00', '2026-01-31T12:00:00.5Z', '2026-01-31 12:00:00+02'].map(
      (text) => `'${text}'`,
    ),
    ...["DATE '2026-01-31'", "TIMESTAMP '2026-01-31 01:02:03.000001'", day],
    ...['1', '90', '-90', '1.5', '0.25', '1e1', '2.5e0', '3::bigint', '1.5::integer'].flatMap(
      (n) => [
        `${day} + to_seconds(${n})`,
        `${day} - to_minutes(${n})`,
        `${day} + INTERVAL (${n}) HOUR`,
        `${day} - INTERVAL '${n}' DAY`,
        `make_timestamptz(2026, 1, 31, 2, 3, abs(${n}))`,
        `make_timestamptz(2026, 1, 31, 2, 3, ${n})`,
      ],
    ),
    ...[`date_trunc('hour', ${day})`, `CAST(${day} AS DATE)`, `CAST(${day} AS DATE) - 7`],
    ...["make_date(2026, 1, 31) + INTERVAL '1 month'", `CAST('2026-01-31' AS TIMESTAMPTZ)`],
  ]) {
    const { root } = await parseStatement(duck, `from trades where traded_at >= ${moment}`);
    const [sql] = needsOf(root).get('trades')?.from ?? [];
    if (sql === undefined) continue;
    understood.push(moment);
    const at = (text: string) => `TRY(epoch_us(CAST(${text} AS TIMESTAMPTZ)))`;
    const [row] = await duck.rows(
      'comparing',
      `SELECT ${at(moment)}::VARCHAR, ${at(sql)}::VARCHAR`,
    );
    assert.equal(row?.[1], row?.[0], moment);
  }
  assert.ok(understood.length >= 30, understood.join('\n'));
});
