import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import test from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import { loginAs } from '../support/postgres/postgres-logins.js';
import { setCollectFrom } from '../support/postgres/postgres-rows.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';

/** Answers to the cookbook's questions about the analyst's world, worked out by hand. */

const COOKBOOK = join(import.meta.dirname, '../../sql/cookbook');

const ANSWERS: Readonly<Record<string, readonly string[]>> = {
  // (100 + 202 + 102 + 412) / 8; (156 + 10.41 + 20.78) / 1.8; (210 + 106) / 3
  '01_vwap_per_hour.sql': [
    '12:00 | 102 | 8 | true',
    '13:00 | 103.9944 | 1.8 | true',
    '14:00 | 105.3333 | 3 | false',
    '15:00 | null | 0 | true',
  ],
  // 12:00: 2 for 600 s, 1 for 1200 s, then nobody looks for 600 s, then 0.5 for 1200 s.
  '02_spread_over_the_day.sql': [
    '12:00 | 1 | 0.5 | 2 | 0.8333',
    '13:00 | 0.5 | 0.5 | 0.5 | 1.0000',
    '14:00 | null | null | null | 0.0000',
  ],
  // (3 - 4) / 7; (2 - 2) / 4, the third level is left out; (1 - 4) / 5
  '03_depth_imbalance.sql': ['12:00 | -0.1429', '12:10 | 0.0000', '12:40 | -0.6000'],
  // 103.9 / 103 - 1; what 14:00 closed at is not known, so that 15:00 has no price either.
  '04_returns.sql': [
    '12:00 | 103 | null | 0.008700',
    '13:00 | 103.9 | 0.008738 | 0.008700',
    '14:00 | null | null | 0.008700',
    '15:00 | null | null | 0.008700',
  ],
  '05_gaps_of_a_week.sql': [
    'trades | 0 | 10:00 | 10:03:20 | open | not collected',
    'trades | 0 | 11:00 | 12:00 | open | not collected',
    'depth | 0 | 12:30 | 12:40 | open | not collected',
    'trades | 0 | 14:10 | 14:20 | unfillable | beyond history',
    'trades | 0 | 14:20 | 14:30 | open | not collected',
  ],
  '06_candle_against_trades.sql': ['12:00 | 8 | 8 | 0 | true', '13:00 | 1.8 | 1.8 | 0.01 | true'],
  '07_busiest_seconds.sql': ['13:01 | 3 | 1.8 | 0.2', '12:00 | 2 | 3 | 1', '12:59:59 | 1 | 4 | 0'],
  '08_order_flow.sql': [
    '12:00 | 6 | 2 | 4 | 4',
    '13:00 | 0.1 | 1.7 | -1.6 | 2.4',
    '15:00 | 0 | 0 | 0 | 2.4',
  ],
  '09_candles_as_known_then.sql': ['13:00 | 1.7 | 1.8 | 14:31'],
  // Nothing is whole: all begins within the day. trades: 13 h from 11:00 on and 200 s more; 2 h 10 min and 1 h 30 min of that are covered.
  '10_completeness_of_a_day.sql': [
    'candles | 3600 | 12.00 | 8.00 | 1 | 0.333333 | false',
    'depth | 0 | 12.00 | 10.17 | 2 | 0.152777 | false',
    'states | 86400 | 12.00 | 0.00 | 0 | 1.000000 | false',
    'tickers | 0 | 12.00 | 11.00 | 1 | 0.083333 | false',
    'trades | 0 | 13.06 | 9.39 | 5 | 0.280851 | false',
  ],
};

/** Times of the day without what is zero; numbers as Postgres writes them. */
function lineOf(row: object): string {
  return Object.values(row)
    .map((value: unknown) =>
      value instanceof Date ? value.toISOString().slice(11, 19).replace(/:00$/, '') : String(value),
    )
    .join(' | ');
}

const AFTERNOON = ['2026-01-15 12:00Z', '2026-01-15 16:00Z'];
const TWO_HOURS = ['2026-01-15 12:00Z', '2026-01-15 14:00Z'];
/** The moments that stand for those of a question, which are counted from the present. */
const MOMENTS: Readonly<Record<string, readonly string[]>> = {
  '02_spread_over_the_day.sql': ['2026-01-15 12:00Z', '2026-01-15 15:00Z'],
  '03_depth_imbalance.sql': ['2026-01-15 12:00Z', '2026-01-15 13:00Z'],
  '04_returns.sql': ['2026-01-15 11:00Z', '2026-01-15 16:00Z'],
  '05_gaps_of_a_week.sql': ['2026-01-09', '2026-01-16'],
  '06_candle_against_trades.sql': [...AFTERNOON, ...AFTERNOON],
  '07_busiest_seconds.sql': ['2026-01-15', '2026-01-16'],
  '09_candles_as_known_then.sql': [...TWO_HOURS, '2026-01-15 14:15Z', ...TWO_HOURS],
  '10_completeness_of_a_day.sql': ['2026-01-15'],
};

/** A question as it is asked, about the time of the analyst's world. */
function questionOf(name: string): string {
  const moments = [...(MOMENTS[name] ?? AFTERNOON)];
  const sql = readFileSync(join(COOKBOOK, name), 'utf8').replaceAll(
    /now\(\)(?: - interval '[^']+')?/g,
    () =>
      `timestamptz '${moments.shift() ?? assert.fail(`${name} has more moments than are known here`)}'`,
  );
  assert.deepEqual(moments, [], `moments that ${name} does not ask for`);
  return sql;
}

test('the cookbook answers its ten questions, asked by a reader', async () => {
  const { url } = await openAnalystWorld();
  const reader = await loginAs(url, 'tapekeep_reader');
  const names = readdirSync(COOKBOOK).sort();
  assert.deepEqual(names, Object.keys(ANSWERS));
  for (const name of names) {
    const rows = await runSql(reader, questionOf(name));
    assert.deepEqual(rows.map(lineOf), ANSWERS[name], name);
  }
});

test('what the exchange no longer had of the week is among what is missing of it', async () => {
  const { store, url } = await openAnalystWorld();
  const reader = await loginAs(url, 'tapekeep_reader');
  const name = '05_gaps_of_a_week.sql';
  const startMs = Date.parse('2026-01-15T11:00Z');
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const asked = async () => (await runSql(reader, questionOf(name))).map(lineOf);
  await setCollectFrom(store, trades.streamId, startMs, 'history horizon');
  assert.deepEqual(await asked(), [
    'trades | 0 | 00:00 | 11:00 | unfillable | history horizon',
    ...(ANSWERS[name] ?? []),
  ]);
  await setCollectFrom(store, trades.streamId, startMs, 'history begins');
  assert.deepEqual(await asked(), ANSWERS[name]);
});
