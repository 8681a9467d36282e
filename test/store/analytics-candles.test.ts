import assert from 'node:assert/strict';
import test from 'node:test';
import { makeDatabase, runSql } from '../support/postgres/postgres.js';

/** Four hours of random trades of one market, all covered, with the candles of a minute that they add up to. */
const WORLD = `
  INSERT INTO market (name, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at, last_seen_at)
  VALUES ('BTC_USDT', 'BTC', 'USDT', 8, 2, 4, 0.001, 'epoch', 'epoch');
  INSERT INTO stream (market_id, kind, variant, collect_from)
  VALUES (1, 'trades', 0, '2026-01-15 12:00Z'), (1, 'candles', 60, '2026-01-15 12:00Z');
  INSERT INTO coverage (stream_id, market_id, span, evidence)
  SELECT stream_id, market_id, '[2026-01-15 12:00Z,2026-01-15 16:00Z)', '{}' FROM stream;
  SELECT make_partition('trade', '2026-01-15Z'), make_partition('kline', '2026-01-15Z');
  SELECT setseed(0.25);
  INSERT INTO trade (traded_at, tid, received_at, market_id, side, price, amount, total)
  SELECT at, id, at, 1, side::taker_side, price, amount, price * amount FROM (
    SELECT timestamptz '2026-01-15 12:00Z' + floor(random() * 14400) * interval '1 s' AS at, id,
           CASE WHEN random() < 0.5 THEN 'buy' ELSE 'sell' END AS side,
           round((100 + random())::numeric, 2) AS price, round(random()::numeric, 4) + 0.0001 AS amount
    FROM generate_series(1, 600) AS id) t;
  INSERT INTO kline (open_at, received_at, market_id, interval_s, open, close, high, low, volume, quote_volume)
  SELECT date_trunc('minute', traded_at), now(), 1, 60, (array_agg(price ORDER BY traded_at, tid))[1],
         (array_agg(price ORDER BY traded_at DESC, tid DESC))[1], max(price), min(price), sum(amount), sum(total)
  FROM trade GROUP BY 1;`;

/** The minutes of [from, to) of the afternoon are verified, and equal their trades. */
const exactSql = (from: string, to: string) => `
  INSERT INTO candle_check (market_id, interval_s, span, outcome, detail, is_exact)
  VALUES (1, 60, '[2026-01-15 ${from}Z,2026-01-15 ${to}Z)', 'match', '{}', true)`;

async function openWorld(...exact: readonly (readonly [from: string, to: string])[]) {
  const url = await makeDatabase();
  await runSql(url, WORLD);
  for (const [from, to] of exact) await runSql(url, exactSql(from, to));
  return url;
}

const SPAN = `'2026-01-15 12:00Z', '2026-01-15 16:30Z'`;
const SHARED = {
  candles: 'open_at, open, high, low, close, volume, quote_volume, is_complete',
  vwap: 'open_at, vwap, volume, is_complete',
};

/** Compares both sources value by value, as text; returns how many slots came from candles. */
async function compareSources(url: string, step: string, more = ''): Promise<number> {
  for (const [name, columns] of Object.entries(SHARED)) {
    const rows = async (from: string) => {
      const call = `analytics.${name}('BTC_USDT', ${step}, ${SPAN}${more}, from_trades => ${from})`;
      return await runSql(url, `SELECT row(${columns})::text FROM ${call} ORDER BY open_at`);
    };
    assert.deepEqual(await rows('false'), await rows('true'), `${name} of ${step}`);
  }
  const call = `analytics.candles('BTC_USDT', ${step}, ${SPAN}${more})`;
  const counted = await runSql<{ count: number; odd: number }>(
    url,
    `SELECT count(*) FILTER (WHERE source = 'candles')::int AS count,
            count(*) FILTER (WHERE source = 'candles' AND volume > 0 AND trades IS NOT NULL
                               OR source = 'trades' AND is_complete AND trades IS NULL)::int AS odd
     FROM ${call}`,
  );
  assert.equal(counted[0]?.odd, 0);
  return counted[0]?.count ?? assert.fail();
}

test('verified candles answer for their trades to the last digit', async () => {
  const url = await openWorld(['12:00', '16:00']);
  const cases: readonly (readonly [step: string, more: string, fromCandles: number])[] = [
    [`'1 minute'`, '', 240],
    [`'15 minutes'`, '', 16],
    ['3600', '', 4],
    [`'7 minutes'`, '', 34],
    [`'2 hours'`, `, origin => '2026-01-01 01:00Z'`, 1],
    // No multiple of a minute, or not from a minute on.
    [`'90 seconds'`, '', 0],
    [`'1 hour'`, `, origin => '2026-01-01 00:00:30Z'`, 0],
  ];
  for (const [step, more, fromCandles] of cases) {
    assert.equal(await compareSources(url, step, more), fromCandles, step + more);
  }
});

test('slots with a minute that is not verified are summed from trades', async () => {
  const url = await openWorld(['12:00', '13:31'], ['14:00', '15:00']);
  assert.equal(await compareSources(url, `'1 hour'`), 2);
  assert.equal(await compareSources(url, `'15 minutes'`), 6 + 4);
  await runSql(
    url,
    `INSERT INTO candle_recheck (market_id, interval_s, span) VALUES (1, 0, '[2026-01-15 12:10Z,2026-01-15 12:10:01Z)')`,
  );
  assert.equal(await compareSources(url, `'15 minutes'`), 9, 'a trade came late');
  await runSql(url, `UPDATE coverage SET span = '[2026-01-15 12:00Z,2026-01-15 14:30Z)'`);
  assert.equal(await compareSources(url, `'15 minutes'`), 7, 'coverage was revoked');
});

test('many separate verified minutes are one statement', async () => {
  const minutes = Array.from({ length: 40 }, (_, at): [string, string] => {
    const time = (minute: number) =>
      `${12 + Math.floor(minute / 60)}:${String(minute % 60).padStart(2, '0')}`;
    return [time(at * 3), time(at * 3 + 2)];
  });
  const url = await openWorld(...minutes);
  assert.equal(await compareSources(url, `'1 minute'`), 80);
});
