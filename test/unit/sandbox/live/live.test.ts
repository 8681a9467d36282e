import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  addDecimals,
  compareDecimals,
  equalDecimals,
  multiplyDecimals,
} from '../../../../src/kernel/decimal.js';
import { LiveExchange } from '../../../../src/sandbox/live/live-exchange.js';
import type { LiveOptions } from '../../../../src/sandbox/live/open-live.js';
import { openLive } from '../../../../src/sandbox/live/open-live.js';
import { DEFAULT_MARKETS } from '../../../../src/sandbox/markets.js';
import { RefusedError } from '../../../../src/server/backend.js';
import {
  LIVE_START_MS,
  openTestLive,
  STILL_MARKET,
} from '../../../support/exchanges/live-exchange.js';
import { FakeClock } from '../../../support/fake-clock.js';

const BTC = 'BTC_USDT';
const KEY = { key: 'alice', secret: 's' };
const OPEN: LiveOptions = { runId: 'test', keys: [KEY] };
const sum = (texts: readonly string[]) => texts.reduce(addDecimals, '0');

test('at no moment a book is crossed, and the ticker shows its touch and the last trade', async (t) => {
  const clock = new FakeClock();
  const backend = await openTestLive(t, { startOffsetS: 3000 }, clock);
  for (let step = 0; step < 400; step += 1) {
    clock.advance(7_310);
    for (const { name } of backend.markets()) {
      const { asks, bids } = backend.depth(name, 1000);
      const { bid, ask, last } = backend.ticker(name);
      assert.deepEqual([bid, ask], [bids[0]?.[0] ?? '0', asks[0]?.[0] ?? '0']);
      if (asks.length > 0 && bids.length > 0) {
        assert.ok(compareDecimals(bid, ask) < 0, `${name}: ${bid} ${ask}`);
      }
      for (const [levels, sign] of [
        [asks, 1],
        [bids, -1],
      ] as const) {
        const prices = levels.map(([price]) => price);
        const isSorted = prices.every((price, index) => {
          return index === 0 || sign * compareDecimals(price, prices[index - 1] ?? price) > 0;
        });
        assert.ok(isSorted, `${name}: every price once, best first`);
      }
      const [newest] = backend.trades(name, 0, 1);
      assert.ok(newest === undefined || newest.timeUs <= backend.nowMs() * 1000);
      assert.equal(last, newest?.price ?? '0');
      assert.equal(backend.state(name, 60).last, last);
    }
  }
});

test('beyond the served history no candle pretends to be whole', async (t) => {
  const clock = new FakeClock();
  const options = { startOffsetS: 3600, markets: [BTC] };
  const backend = await openTestLive(t, { ...options, historyMax: 300 }, clock);
  const whole = await openTestLive(t, { ...options, keepAll: true }, clock);
  clock.advance(1_200_000);
  const nowS = Math.floor(backend.nowMs() / 1000);
  const oldest = backend.trades(BTC, 299, 1)[0];
  assert.ok(oldest);
  const candles = backend.kline({ market: BTC, startS: 0, endS: nowS, intervalS: 60 });
  assert.ok(candles.length > 1);
  const truth = [...whole.truth(BTC)];
  for (const { time, volume } of candles) {
    assert.ok(time * 1e6 > oldest.timeUs, `candle ${time} begins inside the history`);
    const inside = truth.filter(({ timeUs }) => timeUs >= time * 1e6 && timeUs < (time + 60) * 1e6);
    const sum = inside.map(({ amount }) => amount).reduce(addDecimals, '0');
    assert.ok(equalDecimals(volume, sum), `candle ${time}: ${volume}, not ${sum}`);
  }
});

test('candles and states of every length are the exact sums of the trades', async (t) => {
  const backend = await openTestLive(t, { startOffsetS: 7200 });
  const truth = [...backend.truth(BTC)];
  const nowS = backend.nowMs() / 1000;
  for (const intervalS of [1, 30, 60, 900, 3600]) {
    const span = { startS: nowS - 7200, endS: nowS, intervalS };
    let counted = 0;
    for (const candle of backend.kline({ market: BTC, ...span })) {
      const inside = truth.filter(({ timeUs }) => {
        return timeUs >= candle.time * 1e6 && timeUs < (candle.time + intervalS) * 1e6;
      });
      counted += inside.length;
      const prices = inside.map(({ price }) => price).sort(compareDecimals);
      assert.deepEqual([candle.open, candle.close], [inside[0]?.price, inside.at(-1)?.price]);
      assert.deepEqual([candle.lowest, candle.highest], [prices[0], prices.at(-1)]);
      assert.ok(equalDecimals(candle.volume, sum(inside.map(({ amount }) => amount))));
      assert.ok(equalDecimals(candle.amount, sum(inside.map(({ total }) => total))));
    }
    // The first candle may have begun before the origin, and is then left out.
    const oldest = truth.filter(({ timeUs }) => {
      return timeUs < Math.ceil((nowS - 7200) / intervalS) * intervalS * 1e6;
    });
    assert.equal(counted + oldest.length, truth.length);
  }
  for (const periodS of [10, 60, 3600]) {
    const inside = truth.filter(({ timeUs }) => timeUs > (nowS - periodS) * 1e6);
    const { volume, deal, open } = backend.state(BTC, periodS);
    assert.ok(equalDecimals(volume, sum(inside.map(({ amount }) => amount))));
    assert.ok(equalDecimals(deal, sum(inside.map(({ total }) => total))));
    assert.equal(open, (inside[0] ?? truth.at(-1))?.price);
  }
  const ids = truth.map(({ id }) => id);
  assert.ok(ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? id)));
  for (const { price, amount, total } of truth) {
    assert.ok(equalDecimals(total, multiplyDecimals(price, amount)));
  }
});

test('ids are unique over markets and grow with time', async (t) => {
  const backend = await openTestLive(t, { startOffsetS: 7200 });
  const all = backend.markets().flatMap(({ name }) => [...backend.truth(name)]);
  assert.equal(new Set(all.map(({ id }) => id)).size, all.length);
  all.sort((a, b) => a.id - b.id);
  assert.ok(
    all.every(({ timeUs }, index) => index === 0 || timeUs >= (all[index - 1]?.timeUs ?? 0)),
  );
});

test('nothing is made or lost of any currency, over sessions and deposits', () => {
  const originUs = LIVE_START_MS * 1000;
  const fees = { takerFee: '0.002', makerFee: '0.001' };
  const options = { seed: 3, originUs, historyMax: 1000, isCut: false, keepAll: false, ...fees };
  const exchange = new LiveExchange(options, DEFAULT_MARKETS);
  for (let hour = 0; hour <= 3; hour += 0.25) {
    exchange.advanceTo(originUs + hour * 3600e6);
    for (const { name, holdings, fees: paid, deposited } of exchange.engine.currencies()) {
      let held = paid.available;
      for (const { available, freeze } of holdings.values()) {
        assert.ok(available >= 0n && freeze >= 0n);
        held += available + freeze;
      }
      assert.equal(held, deposited, name);
    }
  }
});

test('without a run nothing can be changed from outside', async (t) => {
  const backend = await openTestLive(t);
  assert.throws(() => backend.marketControl.create('XMR_USDT'), /runId/);
  assert.throws(() => backend.marketControl.delist(BTC), /runId/);
  assert.throws(() => backend.marketControl.block(BTC, true), /runId/);
  assert.throws(() => backend.marketControl.deposit('x', 'BTC', '1'), /runId/);
  const order = { market: BTC, side: 'buy', price: '1', amount: '1' } as const;
  assert.throws(() => backend.placeOrder('x', order), RefusedError);
});

test("a key that is called like a trader's account has an account of its own", async (t) => {
  const keys = ['makers', 'takers'].map((key) => {
    return { key, secret: 's', balances: { BTC: '1.50', USDT: '0' } };
  });
  const backend = await openTestLive(t, { ...OPEN, keys });
  for (const { key } of keys) {
    assert.deepEqual(backend.balances(key).BTC, { available: '1.5', freeze: '0' });
    assert.deepEqual(backend.balances(key).USDT, { available: '0', freeze: '0' });
    assert.equal(backend.activeOrders(key, BTC, 0, 10).total, 0);
  }
});

test('options that cannot be are refused in words', async () => {
  const refused = (options: LiveOptions, words: RegExp) =>
    assert.rejects(openLive(options, new FakeClock()), words);
  await refused({ keys: [KEY] }, /runId/);
  await refused({ ...OPEN, keys: [KEY, KEY] }, /twice/);
  const [zed, other] = [
    { ...KEY, name: 'zed' },
    { ...KEY, key: 'another', name: 'zed' },
  ];
  await refused({ ...OPEN, keys: [zed, other] }, /zed .*two API keys/);
  await refused({ ...OPEN, keys: [{ ...KEY, balances: { DOGE: '1' } }] }, /DOGE.*BTC/);
  await refused({ ...OPEN, keys: [{ ...KEY, balances: { BTC: '-1' } }] }, /above zero/);
  await refused({ pace: 2000 }, /pace/);
  await refused({ pace: Number.NaN }, /pace/);
  await refused({ startOffsetS: -1 }, /start offset/);
  await refused({ historyMax: 0 }, /history/);
  await refused({ takerFee: '1' }, /takerFee 1/);
  await refused({ makerFee: '0.00001' }, /makerFee 0\.00001/);
  await refused({ markets: [] }, /markets/);
  await refused({ markets: ['BTC_USDT', 'BTC_USDT'] }, /listed already/);
  await refused({ markets: ['nonsense'] }, /STOCK/);
  await refused({ markets: [{ ...STILL_MARKET, basePrice: '0.001' }] }, /basePrice "0\.001"/);
  await refused({ runId: 'a b' }, /run/);
  await refused({ startMs: 5, originMs: 6 }, /origin/);
});

test('a market that comes back with other precisions goes on with every value as it was', async (t) => {
  const clock = new FakeClock();
  const backend = await openTestLive(t, { ...OPEN, markets: [STILL_MARKET] }, clock);
  const { name: market } = STILL_MARKET;
  const key = { balances: { AAA: '10', ZZZ: '5000' } };
  for (const [currency, amount] of Object.entries(key.balances)) {
    backend.marketControl.deposit('alice', currency, amount);
  }
  const trade = (price: string, amount: string) => {
    for (const side of ['sell', 'buy'] as const) {
      backend.placeOrder('alice', { market, side, price, amount });
    }
  };
  let calls = 0;
  t.after(
    backend.watch(market, () => {
      calls += 1;
    }),
  );
  trade('100.25', '0.5001');
  for (const [stockPrec, moneyPrec, price, amount] of [
    [2, 4, '99.1234', '0.75'],
    [6, 0, '101', '0.500001'],
  ] as const) {
    clock.advance(60_000);
    const before = [...backend.truth(market)];
    backend.marketControl.delist(market);
    assert.throws(
      () => backend.marketControl.create({ ...STILL_MARKET, stockPrec: 0 }),
      /minAmount/,
    );
    backend.marketControl.create({ ...STILL_MARKET, stockPrec, moneyPrec });
    const precisions = backend.markets().map((one) => [one.stockPrec, one.moneyPrec]);
    assert.deepEqual(precisions, [[stockPrec, moneyPrec]]);
    calls = 0;
    trade(price, amount);
    clock.advance(1000);
    assert.ok(calls > 0, 'who listened before goes on hearing');
    const after = [...backend.truth(market)];
    assert.equal(after.length, before.length + 1);
    for (const [index, { price: was, amount: of, ...rest }] of before.entries()) {
      const now = after[index];
      assert.ok(
        now !== undefined && equalDecimals(now.price, was) && equalDecimals(now.amount, of),
      );
      assert.deepEqual({ ...now, price: was, amount: of }, { price: was, amount: of, ...rest });
    }
    const [newest] = backend.trades(market, 0, 1);
    assert.ok(newest && equalDecimals(newest.price, price) && equalDecimals(newest.amount, amount));
    assert.deepEqual(backend.trades(market, 0, 10).reverse(), after);
    assert.ok(equalDecimals(backend.ticker(market).last, price));
  }
  const { volume } = backend.state(market, 3600);
  assert.ok(equalDecimals(volume, sum(['0.5001', '0.75', '0.500001'])));
});

test("a user's order outlives the session, and a listener hears of its trade at once", async (t) => {
  const clock = new FakeClock();
  const options = { ...OPEN, markets: [STILL_MARKET], keys: [KEY, { key: 'bob', secret: 's' }] };
  const backend = await openTestLive(t, options, clock);
  const { name: market } = STILL_MARKET;
  const made = backend.placeOrder('alice', { market, side: 'sell', price: '100', amount: '2' });
  clock.advance(3_600_000);
  const { rows } = backend.activeOrders('alice', market, 0, 10);
  assert.deepEqual(
    rows.map(({ id, left }) => [id, left]),
    [[made.orderId, '2']],
  );
  assert.equal(backend.ticker(market).ask, '100.00');
  let calls = 0;
  t.after(
    backend.watch(market, () => {
      calls += 1;
    }),
  );
  clock.advance(60_000);
  calls = 0;
  backend.placeOrder('bob', { market, side: 'buy', price: '101', amount: '0.5' });
  assert.equal(calls, 0, 'never within the call itself');
  clock.advance(0);
  assert.equal(calls, 1);
  assert.equal(backend.ticker(market).last, '100.00');
  const huge = { market, side: 'sell', amount: '1' } as const;
  assert.throws(
    () => backend.placeOrder('alice', { ...huge, price: '1'.repeat(25) }),
    RefusedError,
  );
  backend.stop();
  backend.stop();
  assert.equal(clock.pendingTimers, 0);
});

test('how much of the past is simulated is told hour by hour', async () => {
  const shares: number[] = [];
  const clock = new FakeClock();
  const past = { originMs: LIVE_START_MS - 3 * 3_600_000, startMs: LIVE_START_MS };
  const backend = await openLive(past, clock, (share) => shares.push(Math.round(share * 100)));
  backend.stop();
  // From 9:20 to 12:20.
  assert.deepEqual(shares, [22, 56, 89]);
});
