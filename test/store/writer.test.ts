import assert from 'node:assert/strict';
import test from 'node:test';
import fc from 'fast-check';
import type { KlineRow, StreamRef } from '../../src/ledger/batch.js';
import type { Store } from '../../src/store/index.js';
import { openTestStore, quietStoreEvents, runSql } from '../support/postgres.js';
import { brokenCoverage, claim, NOON_S, ticker, trade } from '../support/postgres-rows.js';

const BTC = {
  name: 'BTC_USDT',
  stock: 'BTC',
  money: 'USDT',
  stockPrec: 8,
  moneyPrec: 2,
  feePrec: 4,
  minAmount: '0.001',
};

async function openWithStreams(): Promise<{
  store: Store;
  url: string;
  trades: StreamRef;
  times: StreamRef;
}> {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([BTC, { ...BTC, name: 'ETH_USDT', stock: 'ETH' }], NOON_S * 1_000);
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const times = await store.ensureStream({ kind: 'times', marketId: 1, variant: 0 });
  return { store, url, trades, times };
}

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
  assert.deepEqual(first.islands, [
    { streamId: trades.streamId, span: batch.claims[0]?.span, firstId: 1, lastId: 3, rowCount: 3 },
  ]);
  const again = await store.commit(batch);
  assert.deepEqual(again.outcomes.trade, counts(0, 0, 3));
  assert.deepEqual(again.islands, first.islands);
  assert.deepEqual(await brokenCoverage(url), []);
  assert.deepEqual(await store.newestTrades(1, 2), [
    { tid: 3, tradedAtS: NOON_S + 3 },
    { tid: 2, tradedAtS: NOON_S + 2 },
  ]);
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

test('a trade learns its exact time once, and its times count', async () => {
  const { store, url, trades, times } = await openWithStreams();
  await store.commit({ trades: [trade(1, 1), trade(2, 2)], claims: [claim(trades, 0, 5)] });
  const executedAtUs = (NOON_S + 1) * 1_000_000 + 123_456;
  const timed = { trades: [trade(1, 1, { executedAtUs })], claims: [claim(times, 1, 2)] };
  const learned = await store.commit(timed);
  assert.deepEqual(learned.outcomes.trade, counts(0, 1));
  assert.equal(learned.islands[0]?.rowCount, 1);
  const again = await store.commit({
    trades: [...timed.trades, trade(1, 1)],
    claims: timed.claims,
  });
  assert.deepEqual(again.outcomes.trade, counts(0, 0, 2));
  const other = trade(1, 1, { executedAtUs: executedAtUs + 1 });
  assert.deepEqual((await store.commit({ trades: [other] })).outcomes.trade, counts(0, 0, 0, 1));
  const [row] = await runSql<{ us: string }>(
    url,
    'SELECT (extract(epoch FROM executed_at) * 1000000)::bigint AS us FROM trade WHERE tid = 1',
  );
  assert.equal(row?.us, String(executedAtUs));
  assert.deepEqual(await brokenCoverage(url), []);
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
  const stream = await store.ensureStream({ kind: 'kline', marketId: 1, variant: 60 });
  const candle = (close: string, receivedAtMs: number): KlineRow => {
    const prices = { open: '1', close, high: '3', low: '1', volume: '5', amount: '9' };
    return { marketId: 1, intervalS: 60, openAtS: NOON_S, ...prices, receivedAtMs };
  };
  const claims = [claim(stream, 0, 60)];
  const first = await store.commit({ klines: [candle('2', 1_000)], claims });
  assert.deepEqual(first.outcomes.kline, counts(1));
  assert.equal(first.islands[0]?.rowCount, 1);
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
  const all = await store.ensureStream({ kind: 'ticker', marketId: 0, variant: 0 });
  const ms = NOON_S * 1_000;
  const sides = {
    bidPrices: ['1.0', '0.9'],
    bidAmounts: ['1', '2'],
    askPrices: [],
    askAmounts: [],
  };
  const depth = { marketId: 1, observedAtMs: ms, receivedAtMs: ms, ...sides };
  const prices = { last: '1', open: '1', close: '1', high: '1', low: '1', deal: '1', volume: '1' };
  const state = {
    ...{ marketId: 1, periodS: 60, observedAtMs: ms, seq: 0, receivedAtMs: ms, ...prices },
    ...{ change: null, origin: 'update' as const, sessionId: 4 },
  };
  const batch = {
    tickers: [ticker(1, 0), ticker(2, 0)],
    depths: [depth],
    states: [state],
    claims: [claim(all, -5, 0)],
  };
  const first = await store.commit(batch);
  assert.deepEqual(first.outcomes.ticker, counts(2));
  assert.equal(first.islands[0]?.rowCount, 2);
  const again = await store.commit(batch);
  assert.equal(again.islands[0]?.rowCount, 2);
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

test('claims that touch become one island, whatever their order', async () => {
  const { store, url, trades } = await openWithStreams();
  await store.commit({ trades: [trade(1, 1)], claims: [claim(trades, 0, 10)] });
  await store.commit({ trades: [trade(21, 21)], claims: [claim(trades, 20, 30)] });
  const apart = await store.islands(trades, 10);
  assert.deepEqual(
    apart.map(({ firstId }) => firstId),
    [21, 1],
  );
  const gaps = await store.gaps(trades, (NOON_S + 40) * 1_000);
  assert.deepEqual(gaps, [claim(trades, 10, 20).span, claim(trades, 30, 40).span]);
  const joined = await store.commit({ trades: [trade(15, 15)], claims: [claim(trades, 10, 20)] });
  const whole = { streamId: trades.streamId, span: claim(trades, 0, 30).span };
  assert.deepEqual(joined.islands, [{ ...whole, firstId: 1, lastId: 21, rowCount: 3 }]);
  assert.deepEqual(await store.islands(trades, 10), joined.islands);
  // A trade that turns up late inside a covered span still counts.
  await store.commit({ trades: [trade(16, 16), trade(99, 99)] });
  assert.equal((await store.islands(trades, 1))[0]?.rowCount, 4);
  const found = (await store.statusRows((NOON_S + 60) * 1_000)).find(
    (row) => row.kind === 'trades',
  );
  assert.deepEqual(
    { rows: found?.rows, coveredS: found?.coveredS, gaps: found?.gaps, gapS: found?.gapS },
    { rows: 4, coveredS: 30, gaps: 0, gapS: 0 },
  );
  assert.deepEqual(await brokenCoverage(url), []);
});

test('any order of pages, repeats and claims leaves an exact ledger', async () => {
  const { store, url, trades, times } = await openWithStreams();
  const operation = fc.record({
    fromS: fc.integer({ min: 0, max: 180 }),
    lengthS: fc.integer({ min: 1, max: 40 }),
    isTimed: fc.boolean(),
    isClaimed: fc.boolean(),
    skip: fc.integer({ min: 1, max: 5 }),
  });
  let shift = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(operation, { minLength: 1, maxLength: 4 }), { maxLength: 5 }),
      async (rounds) => {
        shift += 1_000;
        for (const round of rounds) {
          const results = await Promise.all(
            round.map(({ fromS, lengthS, isTimed, isClaimed, skip }) => {
              const rows = [];
              for (let at = fromS; at < fromS + lengthS; at += isClaimed ? 1 : skip) {
                const atS = shift + at;
                const executedAtUs = isTimed ? (NOON_S + atS) * 1_000_000 + 7 : null;
                rows.push(trade(2 * atS + 1, atS, { executedAtUs }), trade(2 * atS + 2, atS));
              }
              const span = [shift + fromS, shift + fromS + lengthS] as const;
              const claims = isClaimed ? [claim(trades, ...span), claim(times, ...span)] : [];
              return store.commit({ trades: rows, claims });
            }),
          );
          for (const { outcomes } of results) assert.equal(outcomes.trade.conflict, 0);
        }
        assert.deepEqual(await brokenCoverage(url), []);
      },
    ),
    { numRuns: 25 },
  );
});

test('batches that arrive together share a transaction and keep their own counts', async () => {
  const committed: number[] = [];
  const telemetry = quietStoreEvents({ committed: ({ batches }) => committed.push(batches) });
  const { store } = await openTestStore({ commitLatencyMs: 30, telemetry });
  const results = await Promise.all(
    [1, 2, 3].map((n) => store.commit({ trades: [trade(1, 1), trade(10 + n, n)] })),
  );
  assert.deepEqual(committed, [3]);
  const sums = results.map(({ outcomes }) => outcomes.trade);
  assert.deepEqual(
    sums.map(({ stored, duplicate }) => [stored, duplicate]),
    [
      [2, 0],
      [1, 1],
      [1, 1],
    ],
  );
});

test('a batch that the database refuses does not hold up its neighbours', async () => {
  const { store } = await openTestStore({ commitLatencyMs: 30 });
  const nowhere: StreamRef = {
    ...{ streamId: 999, kind: 'depth', marketId: 999, variant: 0, collectFromMs: null },
  };
  const [good, poison, alsoGood] = await Promise.allSettled([
    store.commit({ trades: [trade(1, 1)] }),
    store.commit({ trades: [trade(2, 2)], claims: [claim(nowhere, 0, 1)] }),
    store.commit({ trades: [trade(3, 3)] }),
  ]);
  assert.equal(good?.status, 'fulfilled');
  assert.equal(alsoGood?.status, 'fulfilled');
  assert.equal(poison?.status, 'rejected');
  assert.deepEqual(
    { code: poison.reason.code, sqlstate: poison.reason.sqlstate },
    { code: 'data_refused', sqlstate: '23503' },
  );
  assert.deepEqual(
    (await store.newestTrades(1, 9)).map(({ tid }) => tid),
    [3, 1],
  );
});

test('market names and payloads are data, whatever they hold', async () => {
  const { store, url } = await openTestStore();
  const name = "a');DROP TABLE trade;--\\\t";
  const { added } = await store.ensureMarkets([{ ...BTC, name }], NOON_S * 1_000);
  assert.deepEqual(added, [name]);
  const payload = "nul \0, tab \t, backslash \\N, quote ', lone surrogate \ud800";
  const row = { receivedAtMs: 1, endpoint: 'history', market: name, reason: 'odd', payload };
  await store.commit({ quarantine: [row] });
  const [kept] = await runSql<{ market: string; payload: string }>(url, 'SELECT * FROM quarantine');
  assert.equal(kept?.market, name);
  assert.equal(kept?.payload, payload.replace('\0', '\ufffd').replace('\ud800', '\ufffd'));
});

test('quarantine keeps the newest rows and counts all', async () => {
  const { store, url } = await openTestStore({ quarantineKeepRows: 10 });
  const row = { receivedAtMs: 1, endpoint: 'history', market: null, reason: 'odd', payload: '' };
  for (const part of [0, 1, 2]) {
    const rows = Array.from({ length: 400 }, (_, n) => ({ ...row, payload: `${part}/${n}` }));
    await store.commit({ quarantine: rows });
  }
  const [kept] = await runSql(
    url,
    'SELECT count(*)::int AS n, max(payload) AS newest FROM quarantine',
  );
  assert.ok((kept as { n: number }).n <= 30);
  const [counted] = await runSql(url, 'SELECT count FROM quarantine_count');
  assert.deepEqual(counted, { count: '1200' });
});

test('a missing partition is made and the work repeated', async () => {
  const { store, url } = await openTestStore();
  await store.commit({ trades: [trade(1, 1)] });
  await runSql(url, 'DROP TABLE trade_20260115');
  const { outcomes } = await store.commit({ trades: [trade(2, 2)] });
  assert.deepEqual(outcomes.trade, counts(1));
});

test('a known trade on the short cut is no failure', async () => {
  const { store, url } = await openTestStore();
  const other = await openTestStore({ databaseUrl: url });
  await store.commit({ trades: [trade(1, 1)] });
  await other.store.commit({ trades: [trade(50, 50)] });
  const { outcomes } = await store.commit({ trades: [trade(50, 50), trade(51, 51)] });
  assert.deepEqual(outcomes.trade, counts(1, 0, 1));
});
