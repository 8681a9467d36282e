import assert from 'node:assert/strict';
import test, { before } from 'node:test';
import { ENDPOINTS } from '../../src/console/api/endpoints.js';
import { bookOf, marketHandlers, newestTrades } from '../../src/console/api/handlers/market.js';
import type { Store } from '../../src/store/index.js';
import { runSql } from '../support/postgres/postgres.js';
import { NOON_S } from '../support/postgres/postgres-rows.js';
import { openAnalystWorld } from '../support/worlds/analyst-world.js';

const ms = (s: number) => (NOON_S + s) * 1000;
const at = (s: number) => new Date(ms(s)).toISOString();
const never = new AbortController().signal;
const NOW_S = 14_400;

let store: Store;
let url: string;
let api: ReturnType<typeof marketHandlers>;

before(async () => {
  ({ store, url } = await openAnalystWorld('file'));
  api = marketHandlers({ store: () => store, nowMs: () => ms(NOW_S) });
});

async function candles(input: object) {
  const { candles } = ENDPOINTS;
  const asked = candles.input.parse({ market: 'BTC_USDT', ...input });
  return candles.answer.parse(await api.candles(asked, never, 'operator'));
}
async function trades(input: object) {
  const { trades } = ENDPOINTS;
  const asked = trades.input.parse({ market: 'BTC_USDT', ...input });
  return trades.answer.parse(await api.trades(asked, never, 'operator'));
}
async function book(input: object) {
  const { book } = ENDPOINTS;
  const asked = book.input.parse({ market: 'BTC_USDT', ...input });
  return book.answer.parse(await api.book(asked, never, 'operator'));
}

test('candles have exact figures, and what is missing between them', async () => {
  const hours = await candles({ interval: '1h', from: at(0) });
  assert.deepEqual(
    hours.candles.map(({ timeMs, open, close, volume, isVerified }) => [
      ...[(timeMs - ms(0)) / 3_600_000, open, close, volume, isVerified],
    ]),
    [
      [0, '100', '103', '8', null],
      [1, '104', '103.9', '1.8', null],
      [2, '105', '106', '3', false],
    ],
  );
  assert.deepEqual(
    hours.gaps.map(({ fromMs, toMs, state }) => [fromMs, toMs, state]),
    [
      [ms(7800), ms(8400), 'unfillable'],
      [ms(8400), ms(9000), 'open'],
    ],
  );
  assert.deepEqual([hours.isCut, hours.intervalS], [false, 3600]);
});

test('candles beyond the limit are the newest ones', async () => {
  const two = await candles({ interval: '1h', from: '30d', limit: 3 });
  assert.deepEqual([two.isCut, two.from, two.candles.length], [true, at(NOW_S - 3 * 3600), 2]);
});

test('weeks open on Monday, days at midnight', async () => {
  const [week] = (await candles({ interval: '1w', from: '2026-01-05' })).candles;
  assert.equal(week?.timeMs, Date.parse('2026-01-12T00:00:00Z'));
  const [day] = (await candles({ interval: '1d', from: '2026-01-14' })).candles;
  assert.equal(day?.timeMs, Date.parse('2026-01-15T00:00:00Z'));
});

test('without trades the candles are those of the exchange', async () => {
  const world = await openAnalystWorld();
  for (const table of ['gap', 'wanted', 'coverage', 'stream']) {
    await runSql(world.url, `DELETE FROM ${table} WHERE stream_id = 1`);
  }
  const own = marketHandlers({ store: () => world.store, nowMs: () => ms(NOW_S) });
  const ask = (interval: string) =>
    own.candles({ market: 'BTC_USDT', interval, from: at(0), limit: 100 }, never, 'viewer');
  const { candles: found, gaps } = await ask('1h');
  assert.deepEqual(
    found.map(({ volume, isVerified }) => [volume, isVerified]),
    [
      ['8', null],
      ['1.8', null],
      ['5', null],
    ],
  );
  assert.deepEqual(gaps, []);
  await assert.rejects(ask('1m'), {
    ...{ code: 'usage', message: /^interval: "1m".*no trades of BTC_USDT.*its candles: 1h/ },
  });
});

test('without a time the newest trades come, in the order of time', async () => {
  const newest = await trades({ limit: 2 });
  assert.deepEqual(newest.trades, [
    { timeMs: ms(7300), id: '8', side: 'buy', price: '105', amount: '2' },
    { timeMs: ms(9000), id: '9', side: 'sell', price: '106', amount: '1' },
  ]);
  assert.deepEqual([newest.from, newest.to, newest.isCut], [at(7300), at(NOW_S), true]);
  assert.deepEqual(await newestTrades(store, 'BTC_USDT', 1, never), newest.trades.slice(1));
});

test('trades between two times are the oldest ones of them', async () => {
  const some = await trades({ from: at(0), to: at(3660), limit: 3 });
  assert.deepEqual(
    some.trades.map(({ id }) => id),
    ['1', '2', '3'],
  );
  assert.equal(some.isCut, true);
  const rest = await trades({ from: at(3660), to: at(3661) });
  assert.deepEqual([rest.trades.length, rest.isCut], [3, false]);
});

test('an exact time keeps its microseconds, and a price all digits', async () => {
  const world = await openAnalystWorld();
  await runSql(
    world.url,
    `UPDATE trade SET executed_at = traded_at + interval '123457 microseconds',
       price = 0.000000000000000001, amount = 123456789012345678.500 WHERE tid = 9`,
  );
  const own = marketHandlers({ store: () => world.store, nowMs: () => ms(NOW_S) });
  const answer = await own.trades({ market: 'BTC_USDT', limit: 1 }, never, 'operator');
  const [trade] = answer.trades;
  assert.equal(trade?.timeMs, ms(9000) + 123.457);
  assert.equal(trade?.price, '0.000000000000000001');
  assert.equal(trade?.amount, '123456789012345678.5');
});

test('the book has exact levels and spread, at a time and as last seen', async () => {
  assert.deepEqual(await book({ at: at(600), levels: 1 }), {
    ...{ market: 'BTC_USDT', timeMs: ms(600), spread: '1' },
    ...{ bids: [['100', '2']], asks: [['101', '1']] },
  });
  const half = await book({ at: at(2500) });
  assert.deepEqual([half.spread, half.asks], ['0.5', [['100.5', '4']]]);
  const oneSided = await book({});
  assert.deepEqual(
    [oneSided.timeMs, oneSided.bids, oneSided.asks, oneSided.spread],
    [ms(5400), [['100', '1']], [], null],
  );
  // Within a gap the book is the one of before.
  assert.equal((await book({ at: at(2000) })).timeMs, ms(600));
  assert.equal((await bookOf(store, 'ETH_USDT', ms(0), 5, never)).timeMs, null);
});

test('refuses markets and intervals that are none', async () => {
  const usage = (message: RegExp) => ({ code: 'usage', message });
  for (const market of ['<script>alert(1)</script>', `x' OR '1'='1`, '"; DROP TABLE trade; --']) {
    for (const ask of [candles, trades, book]) {
      await assert.rejects(ask({ market }), usage(/^market: .*unknown market/), market);
    }
  }
  await assert.rejects(candles({ market: 'BTC_USDC' }), usage(/Did you mean BTC_USDT\?/));
  for (const interval of ['0m', '99999d', '367d']) {
    await assert.rejects(candles({ interval }), usage(/^interval: /));
  }
  for (const interval of ['1', '1y', '-1m', '1m; DROP']) {
    assert.throws(() => ENDPOINTS.candles.input.parse({ market: 'x', interval }));
  }
  assert.throws(() => ENDPOINTS.trades.input.parse({ market: 'x', limit: 1e6 }));
  await assert.rejects(trades({ from: at(10), to: at(5) }), usage(/^from: .*before to/));
});

test('ends the statement of a reader that has gone', async () => {
  const gone = new AbortController();
  const waiting = store.queryLong('SELECT pg_sleep(60), $1::text', ['left'], gone.signal);
  const running = async () =>
    await runSql(
      url,
      `SELECT FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
         AND state = 'active' AND query LIKE '%pg_sleep(60)%'`,
    );
  while ((await running()).length === 0);
  gone.abort(new Error('gone'));
  await assert.rejects(waiting, /gone/);
  while ((await running()).length > 0);
});
