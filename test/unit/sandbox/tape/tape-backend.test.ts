import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { compareDecimals } from '../../../../src/kernel/decimal.js';
import { TapeError } from '../../../../src/sandbox/errors.js';
import type { TapeOptions } from '../../../../src/sandbox/tape/tape-backend.js';
import { openTape } from '../../../../src/sandbox/tape/tape-backend.js';
import type { BackendTrade } from '../../../../src/server/backend.js';
import { testTape, writeTape } from '../../../support/exchanges/tape-exchange.js';
import { FakeClock } from '../../../support/fake-clock.js';

/** A full minute, so that candles are easy to count. */
const T0_S = 1_780_000_020;
const MARKET = 'BTC_USDT';

/** Trades given as [seconds after T0, price, amount]. */
async function open(
  t: TestContext,
  trades: ReadonlyArray<readonly [number, string, string]>,
  options: Partial<TapeOptions> = {},
  clock = new FakeClock(),
) {
  const lines = trades.map(([atS, price, amount], index) => {
    return `${index + 1},${T0_S * 1000 + atS * 1000},${price},${amount},${index % 2 ? 'sell' : 'buy'}`;
  });
  const tapes = [{ market: MARKET, path: await writeTape(t, lines) }];
  const backend = await openTape({ tapes, ...options }, clock);
  t.after(() => backend.stop());
  return { backend, clock };
}

const ids = (trades: readonly BackendTrade[]) => trades.map(({ id }) => id);

test('nothing is visible before its time', async (t) => {
  const trades = [
    [0, '10', '1'],
    [0.001, '11', '1'],
    [5, '12', '1'],
  ] as const;
  const { backend, clock } = await open(t, trades);
  assert.deepEqual(ids(backend.trades(MARKET, 0, 10)), [1]);
  clock.advance(1);
  assert.deepEqual(ids(backend.trades(MARKET, 0, 10)), [2, 1]);
  clock.advance(4998);
  assert.deepEqual(ids(backend.trades(MARKET, 0, 10)), [2, 1]);
  assert.equal(backend.ticker(MARKET).last, '11');
  assert.deepEqual(ids([...backend.truth(MARKET)]), [1, 2]);
  clock.advance(1);
  assert.deepEqual(ids(backend.trades(MARKET, 1, 10)), [2, 1]);
  assert.deepEqual(ids(backend.trades(MARKET, 0, 1)), [3]);
  clock.advance(60_000);
  assert.equal(backend.nowMs(), T0_S * 1000 + 65_000, 'time runs on past the end');
});

test('what is older than the history that is served is forgotten, and its candle with it', async (t) => {
  const trades = [
    [0, '10', '1'],
    [59, '11', '1'],
    [61, '12', '1'],
    [121, '13', '1'],
  ] as const;
  const { backend, clock } = await open(t, trades, { historyMax: 2 });
  clock.advance(130_000);
  assert.deepEqual(ids(backend.trades(MARKET, 0, 10)), [4, 3]);
  const span = { startS: T0_S, endS: T0_S + 120, intervalS: 60 };
  const openTimes = backend.kline({ market: MARKET, ...span }).map(({ time }) => time - T0_S);
  assert.deepEqual(openTimes, [60, 120]);
  assert.deepEqual(ids([...backend.truth(MARKET)]), [1, 2, 3, 4]);
  await assert.rejects(open(t, trades, { historyMax: 0 }), /history 0: expected a whole number/);
});

test('pace and offset: twenty seconds of the tape pass in one', async (t) => {
  const trades = [
    [0, '10', '1'],
    [100, '11', '1'],
    [120, '12', '1'],
  ] as const;
  const { backend, clock } = await open(t, trades, { pace: 20, startOffsetS: 100 });
  assert.equal(backend.trades(MARKET, 0, 10).length, 2);
  clock.advance(999);
  assert.equal(backend.trades(MARKET, 0, 10).length, 2);
  clock.advance(1);
  assert.equal(backend.trades(MARKET, 0, 10).length, 3);
});

test('instant: all is there, and the clock stands at the end and runs on', async (t) => {
  const { backend, clock } = await open(
    t,
    [
      [0, '10', '1'],
      [90, '11', '1'],
    ],
    { pace: 'instant' },
  );
  assert.equal(backend.trades(MARKET, 0, 10).length, 2);
  assert.equal(backend.nowMs(), (T0_S + 90) * 1000);
  clock.advance(500);
  assert.equal(backend.nowMs(), (T0_S + 90) * 1000 + 500);
});

test('moved to now: the chosen moment of the tape is the present one', async (t) => {
  const clock = new FakeClock(1_900_000_000_000);
  const trades = [
    [0, '10', '1'],
    [30, '11', '1'],
    [31, '12', '1'],
  ] as const;
  const options = { time: 'now', startOffsetS: 30 } as const;
  const { backend } = await open(t, trades, options, clock);
  const own = await open(t, trades, {}, clock);
  assert.equal(backend.nowMs(), 1_900_000_000_000);
  const times = backend.trades(MARKET, 0, 10).map(({ timeUs }) => timeUs / 1e6);
  assert.deepEqual(times, [1_900_000_000, 1_900_000_000 - 30]);
  assert.notEqual(backend.identity, own.backend.identity, 'moved times are another history');
  const again = await open(t, trades, { pace: 3, startOffsetS: 5 });
  assert.equal(again.backend.identity, own.backend.identity, 'pace and offset are not');
});

test('market figures come from the file and the name', async (t) => {
  const { backend } = await open(t, [[0, '61837.63000000', '0.0200']]);
  assert.deepEqual(backend.markets(), [
    {
      name: MARKET,
      stock: 'BTC',
      money: 'USDT',
      stockPrec: 4,
      moneyPrec: 8,
      feePrec: 4,
      minAmount: '0.0001',
    },
  ]);
  const { asks, bids } = backend.depth(MARKET, 3);
  assert.deepEqual(asks[0]?.[0], '61837.63000000');
  assert.match(bids[0]?.[0] ?? '', /^61837\.6\d000000$/);
});

test('a candle sums exactly its trades; one cut off by the start is left out', async (t) => {
  const { backend, clock } = await open(t, [
    [10, '10.5', '0.1'],
    [70, '11.0', '0.2'],
    [75, '12.5', '0.3'],
    [119.999, '10.0', '0.7'],
    [250, '13.0', '1'],
    [260, '12.0', '2'],
  ]);
  const candles = (span = 60) =>
    backend.kline({ market: MARKET, startS: T0_S - 100, endS: T0_S + 9999, intervalS: span });
  assert.equal(candles().length, 1, 'the candle of the present is there, whole or not');
  clock.advance(1000_000);
  const second = {
    time: T0_S + 60,
    open: '11.0',
    close: '10.0',
    highest: '12.5',
    lowest: '10.0',
    volume: '1.2',
    amount: '12.95',
    market: MARKET,
  };
  assert.deepEqual(
    candles().map(({ time }) => time - T0_S),
    [60, 240],
  );
  assert.deepEqual(candles()[0], second);
  const only = backend.kline({
    market: MARKET,
    startS: T0_S + 119,
    endS: T0_S + 60,
    intervalS: 60,
  });
  assert.deepEqual(only, [second], 'start is rounded down, end is inclusive');
});

test('variants of candles: gaps filled, and opened with the close before', async (t) => {
  const trades = [
    [0, '10', '1'],
    [1, '20', '1'],
    [130, '15', '1'],
  ] as const;
  const options = { emptyCandles: 'filled', candleOpen: 'previous', pace: 'instant' } as const;
  const { backend } = await open(t, trades, options);
  const candles = backend.kline({ market: MARKET, startS: T0_S, endS: T0_S + 600, intervalS: 60 });
  const figures = candles.map(({ open, close, highest, lowest, volume }) => {
    return [open, close, highest, lowest, volume].join(' ');
  });
  assert.deepEqual(figures, ['10 20 20 10 2', '20 20 20 20 0', '20 15 20 15 1']);
});

test('ticker and states roll: what is older than the window does not count', async (t) => {
  const trades = [
    [0, '10.0', '1.5'],
    [40, '12.0', '1'],
    [90, '11.0', '2'],
  ] as const;
  const { backend, clock } = await open(t, trades);
  clock.advance(90_000);
  assert.deepEqual(backend.state(MARKET, 60), {
    period: 60,
    last: '11.0',
    open: '12.0',
    close: '11.0',
    high: '12.0',
    low: '11.0',
    deal: '34',
    volume: '3',
    change: '-8.33',
  });
  clock.advance(60_000);
  const quiet = backend.state(MARKET, 60);
  assert.deepEqual(
    [quiet.open, quiet.high, quiet.low, quiet.last, quiet.volume, quiet.deal, quiet.change],
    ['11.0', '11.0', '11.0', '11.0', '0', '0', '0.00'],
  );
  const { open: first, volume, change, bid, ask } = backend.ticker(MARKET);
  assert.deepEqual([first, volume, change], ['10.0', '4.5', '10.00']);
  assert.ok(compareDecimals(bid, ask) < 0);
  const { at, ticker } = backend.tickers()[MARKET] ?? assert.fail();
  assert.deepEqual([at, ticker.vol], [T0_S + 150, '4.5']);
});

test('the book follows the last trade and is the same for the same one', async (t) => {
  const trades = [
    [0, '100.00', '1'],
    [10, '100.05', '1'],
  ] as const;
  const { backend, clock } = await open(t, trades);
  const twin = await open(t, trades, {}, clock);
  const before = backend.depth(MARKET, 1000);
  assert.deepEqual(twin.backend.depth(MARKET, 1000), before);
  clock.advance(9_000);
  assert.deepEqual(backend.depth(MARKET, 1000), before);
  clock.advance(1_000);
  assert.notDeepEqual(backend.depth(MARKET, 1000), before);
  const seeded = await open(t, trades, { seed: 1 });
  assert.notDeepEqual(seeded.backend.depth(MARKET, 1000), before);
});

test('watchers hear of new trades when they become visible, seldom and without polling', async (t) => {
  const trades = [
    [0, '10', '1'],
    [1, '11', '1'],
    [1.01, '11', '1'],
    [1.02, '11', '1'],
    [60, '12', '1'],
  ] as const;
  const { backend, clock } = await open(t, trades);
  let calls = 0;
  const end = backend.watch(MARKET, () => {
    calls += 1;
  });
  assert.equal(calls, 0);
  assert.equal(clock.nextTimerMs, 1000);
  clock.advance(1000);
  assert.equal(calls, 1);
  clock.advance(49);
  assert.equal(calls, 1);
  clock.advance(1);
  assert.equal(calls, 2, 'two trades, one call');
  assert.equal(clock.nextTimerMs, 58_950);
  clock.advance(58_950);
  assert.equal(calls, 3);
  assert.equal(clock.pendingTimers, 0, 'nothing more will come');
  end();
  const endLate = backend.watch(MARKET, () => {});
  endLate();
  assert.equal(clock.pendingTimers, 0);
});

test('watching a quiet market hears of every trade and ends with stop', async () => {
  const clock = new FakeClock();
  const backend = await openTape(await testTape(), clock);
  let heard = backend.trades('LTC_USDT', 0, 1)[0]?.id;
  backend.watch('LTC_USDT', () => {
    heard = backend.trades('LTC_USDT', 0, 1)[0]?.id;
  });
  assert.equal(clock.pendingForegroundTimers, 0);
  for (let minute = 0; minute < 60; minute += 1) {
    clock.advance(60_000);
    clock.advance(50);
    assert.equal(heard, backend.trades('LTC_USDT', 0, 1)[0]?.id);
  }
  backend.stop();
  backend.stop();
  assert.equal(clock.pendingTimers, 0);
});

test('several files run on one clock', async (t) => {
  const first = await writeTape(t, ['1,1000000,1,1,buy', '2,1005000,1,1,buy']);
  const second = await writeTape(t, ['1,1003000,2,1,sell']);
  const tapes = [
    { market: 'A_X', path: first },
    { market: 'B_X', path: second },
  ];
  const clock = new FakeClock();
  const backend = await openTape({ tapes }, clock);
  assert.deepEqual(backend.trades('B_X', 0, 5), []);
  assert.deepEqual(backend.depth('B_X', 5), { asks: [], bids: [] });
  assert.equal(backend.ticker('B_X').last, '0');
  assert.deepEqual(backend.kline({ market: 'B_X', startS: 0, endS: 5000, intervalS: 60 }), []);
  clock.advance(3000);
  assert.equal(backend.trades('B_X', 0, 5).length, 1);
  assert.equal(backend.trades('A_X', 0, 5).length, 1);
});

test('unusable options are refused by name', async (t) => {
  const tapes = [{ market: 'A_X', path: await writeTape(t, ['1,1000000,1,1,buy']) }];
  const wrong: ReadonlyArray<readonly [TapeOptions, RegExp]> = [
    [{ tapes, pace: 0 }, /pace 0/],
    [{ tapes, pace: Number.NaN }, /pace NaN/],
    [{ tapes, startOffsetS: -1 }, /start offset -1/],
    [{ tapes: [...tapes, ...tapes] }, /A_X/],
    [{ tapes: [{ market: 'BTCUSDT', path: 'x.csv' }] }, /"BTCUSDT"/],
    [{ tapes: [] }, /at least one/],
  ];
  for (const [options, message] of wrong) {
    await assert.rejects(openTape(options, new FakeClock()), (error) => {
      return error instanceof TapeError && message.test(error.message);
    });
  }
});
