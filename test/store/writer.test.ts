import assert from 'node:assert/strict';
import test from 'node:test';
import { systemClock } from '../../src/kernel/clock.js';
import type { KlineRow } from '../../src/model/batch.js';
import { WriterSession } from '../../src/store/writer/session.js';
import { makeDatabase, runSql } from '../support/postgres/postgres.js';
import {
  ALWAYS,
  claim,
  miscountedDays,
  NOON_S,
  ticker,
  trade,
} from '../support/postgres/postgres-rows.js';
import { openWithStreams } from '../support/worlds/store-world.js';

const counts = (stored: number, updated = 0, duplicate = 0, conflict = 0, rejected = 0) => ({
  stored,
  updated,
  duplicate,
  conflict,
  rejected,
});

test('a page and its claim are stored once, however often they come', async () => {
  const { store, url, trades } = await openWithStreams();
  const batch = { trades: [trade(3, 3), trade(1, 1), trade(2, 2)], claims: [claim(trades, 0, 5)] };
  const first = await store.commit(batch);
  assert.deepEqual(first.outcomes.trade, counts(3));
  assert.deepEqual(first.ranges, [{ streamId: trades.streamId, span: batch.claims[0]?.span }]);
  const again = await store.commit(batch);
  assert.deepEqual(again.outcomes.trade, counts(0, 0, 3));
  assert.deepEqual(again.ranges, first.ranges);
  assert.deepEqual(await miscountedDays(url), []);
  assert.deepEqual(await store.storedTrades(1, ALWAYS, 2), [
    { tid: 1, tradedAtS: NOON_S + 1 },
    { tid: 2, tradedAtS: NOON_S + 2 },
  ]);
});

const LIMITS = { connectTimeoutMs: 10_000, statementTimeoutMs: 10_000 };

test('a writer that lost its connection holds its lock again with the next one', async (t) => {
  const databaseUrl = await makeDatabase();
  const options = { databaseUrl, clock: systemClock, ...LIMITS };
  const session = new WriterSession(options);
  t.after(() => session.close());
  await session.acquireLock();
  const { pid } = await session.connection();
  await session.reset(false);
  assert.notEqual((await session.connection()).pid, pid);
  const other = new WriterSession(options);
  t.after(() => other.close());
  await assert.rejects(other.acquireLock(), { code: 'writer_lock_held' });
});

test('a writer that is closed while it connects opens nothing', async () => {
  const databaseUrl = await makeDatabase();
  for (const end of ['close', 'destroy'] as const) {
    const session = new WriterSession({ databaseUrl, clock: systemClock, ...LIMITS });
    const opening = session.connection();
    const refused = assert.rejects(opening, { code: 'database_unreachable' }, end);
    await session[end]();
    await refused;
  }
});

test('the first telling of a trade stays, and another one goes to quarantine', async () => {
  const { store, url } = await openWithStreams();
  await store.commit({ trades: [trade(1, 1), trade(2, 2)] });
  const { outcomes } = await store.commit({
    trades: [
      trade(1, 1, { price: '100.500' }),
      trade(2, 2, { price: '100.51' }),
      trade(1, 2),
      trade(2, 2, { side: 'sell' }),
    ],
  });
  assert.deepEqual(outcomes.trade, counts(0, 0, 1, 3));
  const rows = await runSql(url, 'SELECT tid, price, side FROM trade ORDER BY tid');
  assert.deepEqual(rows, [
    { tid: '1', price: '100.5', side: 'buy' },
    { tid: '2', price: '100.5', side: 'buy' },
  ]);
  const kept = await runSql(url, 'SELECT market, reason FROM quarantine');
  assert.deepEqual(kept, Array(3).fill({ market: 'BTC_USDT', reason: 'conflict' }));
});

test('the same id a second earlier or later is the same trade, not a new one', async () => {
  const { store, url } = await openWithStreams();
  await store.commit({ trades: [trade(7, 10)] });
  const { outcomes } = await store.commit({ trades: [trade(7, 11), trade(8, 10)] });
  assert.deepEqual(outcomes.trade, counts(1, 0, 0, 1));
  assert.equal((await runSql(url, 'SELECT FROM trade')).length, 2);
});

test('a trade learns its exact time once', async () => {
  const { store, url, trades } = await openWithStreams();
  await store.commit({ trades: [trade(1, 1), trade(2, 2)], claims: [claim(trades, 0, 5)] });
  const executedAtUs = (NOON_S + 1) * 1_000_000 + 123_456;
  const timed = { trades: [trade(1, 1, { executedAtUs })] };
  const learned = await store.commit(timed);
  assert.deepEqual(learned.outcomes.trade, counts(0, 1));
  const again = await store.commit({ trades: [...timed.trades, trade(1, 1)] });
  assert.deepEqual(again.outcomes.trade, counts(0, 0, 2));
  const other = trade(1, 1, { executedAtUs: executedAtUs + 1 });
  assert.deepEqual((await store.commit({ trades: [other] })).outcomes.trade, counts(0, 0, 0, 1));
  const [row] = await runSql<{ us: string }>(
    url,
    'SELECT (extract(epoch FROM executed_at) * 1000000)::bigint AS us FROM trade WHERE tid = 1',
  );
  assert.equal(row?.us, String(executedAtUs));
  assert.deepEqual(await miscountedDays(url), []);
});

test('a trade learns its exact time also from a row that contradicts it', async () => {
  const { store, url, trades } = await openWithStreams();
  const timed = (tid: number, atS: number) =>
    trade(tid, atS, { amount: '9', executedAtUs: (NOON_S + atS) * 1_000_000 + 5 });
  await store.commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 5)] });
  // The first is stored already, the second comes with the row that contradicts it.
  const one = await store.commit({ trades: [timed(1, 1), trade(2, 2), timed(2, 2)] });
  assert.deepEqual(one.outcomes.trade, counts(1, 0, 0, 2));
  assert.deepEqual(await miscountedDays(url), []);
  const rows = await runSql(
    url,
    'SELECT tid::int, amount::text, executed_at IS NOT NULL AS timed FROM trade ORDER BY tid',
  );
  assert.deepEqual(rows, [
    { tid: 1, amount: trade(1, 1).amount, timed: true },
    { tid: 2, amount: '9', timed: true },
  ]);
  assert.deepEqual(await miscountedDays(url), []);
});

test('both tellings of a trade in one batch make one row', async () => {
  const { store } = await openWithStreams();
  const executedAtUs = (NOON_S + 1) * 1_000_000 + 5;
  const { outcomes } = await store.commit({
    trades: [trade(1, 1), trade(1, 1, { executedAtUs }), trade(1, 1)],
  });
  // The row that knew the exact time was stored; the others repeat it.
  assert.deepEqual(outcomes.trade, counts(1, 0, 2));
});

test('what cannot be stored is refused row by row and makes no partition', async () => {
  const { store, url } = await openWithStreams();
  const bad = [
    trade(1, 0, { tradedAtS: 0 }),
    trade(2, 0, { tradedAtS: 1.7e12 }),
    trade(3, 0, { tradedAtS: NOON_S + 2 ** 33 }),
    trade(4, 0, { price: 'NaN' }),
    trade(5, 0, { price: '-1' }),
    trade(6, 0, { amount: '1e999' }),
    trade(2 ** 53, 0),
    trade(8, 0, { executedAtUs: (NOON_S + 1) * 1e6 }),
    trade(9, 0, { marketId: 2 ** 40 }),
  ];
  const { outcomes } = await store.commit({ trades: [...bad, trade(10, 0)] });
  assert.deepEqual(outcomes.trade, counts(1, 0, 0, 0, bad.length));
  const [refused] = await runSql<{ n: number }>(
    url,
    'SELECT sum(count)::int n FROM quarantine_count',
  );
  assert.equal(refused?.n, bad.length);
  const partitions = await runSql(url, "SELECT FROM partition_state WHERE table_name = 'trade'");
  assert.equal(partitions.length, 1);
});

test('the tables themselves forbid NaN and Infinity', async () => {
  const { store, url } = await openWithStreams();
  await store.commit({ trades: [trade(1, 1)], tickers: [ticker(1, 1)] });
  for (const value of ['NaN', 'Infinity']) {
    await assert.rejects(runSql(url, 'UPDATE trade SET price = $1', [value]), /trade_price/);
    await assert.rejects(runSql(url, 'UPDATE trade SET total = $1', [value]), /trade_total/);
    await assert.rejects(runSql(url, 'UPDATE ticker SET last = $1', [value]), /ticker_finite/);
  }
});

test('a changed candle keeps its history', async () => {
  const { store, url } = await openWithStreams();
  const stream = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 });
  const candle = (close: string, receivedAtMs: number): KlineRow => {
    const prices = { open: '1', close, high: '3', low: '1', volume: '5', quoteVolume: '9' };
    return { marketId: 1, intervalS: 60, openAtS: NOON_S, ...prices, receivedAtMs };
  };
  const claims = [claim(stream, 0, 60)];
  const first = await store.commit({ klines: [candle('2', 1_000)], claims });
  assert.deepEqual(first.outcomes.kline, counts(1));
  const second = await store.commit({
    klines: [candle('2.0', 2_000), candle('2.5', 3_000)],
    claims,
  });
  assert.deepEqual(second.outcomes.kline, counts(0, 1, 1));
  const late = await store.commit({ klines: [candle('7', 500)] });
  assert.deepEqual(late.outcomes.kline, counts(0, 0, 0, 1));
  const two = await store.commit({ klines: [candle('2.6', 4_000), candle('2.7', 5_000)] });
  assert.deepEqual(two.outcomes.kline, counts(0, 2));
  const [newest] = await runSql(url, 'SELECT close, revision FROM kline');
  assert.deepEqual(newest, { close: '2.7', revision: 3 });
  const older = await runSql(
    url,
    'SELECT revision, close, extract(epoch FROM known_to)::int AS until FROM kline_revision ORDER BY 1',
  );
  assert.deepEqual(older, [
    { revision: 0, close: '2', until: 3 },
    { revision: 1, close: '2.5', until: 4 },
    { revision: 2, close: '2.6', until: 5 },
  ]);
});

test('tickers, depths and states are stored once; other content is a conflict', async () => {
  const { store, url } = await openWithStreams();
  const tickers = await store.ensureStream({ kind: 'tickers', marketId: 1, variant: 0 });
  const ms = NOON_S * 1_000;
  const sides = {
    bidPrices: ['1.0', '0.9'],
    bidAmounts: ['1', '2'],
    askPrices: [],
    askAmounts: [],
  };
  const depth = { marketId: 1, observedAtMs: ms, receivedAtMs: ms, ...sides };
  const prices = {
    last: '1',
    open: '1',
    close: '1',
    high: '1',
    low: '1',
    quoteVolume: '1',
    volume: '1',
  };
  const state = {
    ...{ marketId: 1, periodS: 60, observedAtMs: ms, seq: 0, receivedAtMs: ms, ...prices },
    ...{ change: null, origin: 'update' as const, sessionId: 4 },
  };
  const batch = {
    tickers: [ticker(1, 0), ticker(2, 0)],
    depths: [depth],
    states: [state],
    claims: [claim(tickers, -5, 0)],
  };
  const first = await store.commit(batch);
  assert.deepEqual(first.outcomes.ticker, counts(2));
  const again = await store.commit(batch);
  for (const table of ['ticker', 'depth', 'market_state'] as const) {
    assert.equal(again.outcomes[table].duplicate, first.outcomes[table].stored);
  }
  const other = await store.commit({
    tickers: [ticker(1, 0, { last: '9' })],
    depths: [{ ...depth, bidPrices: ['1', '0.90'] }],
    states: [{ ...state, change: '1' }],
  });
  assert.deepEqual(other.outcomes.ticker, counts(0, 0, 0, 1));
  assert.deepEqual(other.outcomes.depth, counts(0, 0, 1));
  assert.deepEqual(other.outcomes.market_state, counts(0, 0, 0, 1));
  assert.equal((await runSql(url, 'SELECT FROM depth')).length, 1);
});
