import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { seededRandom } from '../../../../src/kernel/random.js';
import type { LiveBackend } from '../../../../src/sandbox/live/live-backend.js';
import type { LiveOptions } from '../../../../src/sandbox/live/open-live.js';
import { LIVE_START_MS, openTestLive } from '../../../support/exchanges/live-exchange.js';
import { FakeClock } from '../../../support/fake-clock.js';

const HOUR_MS = 3_600_000;

/** Everything that an exchange shows at this moment, as one text per subject. */
function shown(backend: LiveBackend): Record<string, string> {
  const nowS = Math.floor(backend.nowMs() / 1000);
  const all: Record<string, unknown> = { tickers: backend.tickers(), identity: backend.identity };
  for (const { name: market } of backend.markets()) {
    all[`${market} trades`] = backend.trades(market, 0, 1_000_000);
    all[`${market} depth`] = backend.depth(market, 1000);
    for (const side of ['buy', 'sell'] as const) {
      all[`${market} ${side}`] = backend.book(market, side, 0, 1000);
    }
    for (const intervalS of [1, 60, 3600, 14_400, 86_400]) {
      const span = { startS: nowS - Math.min(3000 * intervalS, 200_000), endS: nowS, intervalS };
      all[`${market} kline ${intervalS}`] = backend.kline({ market, ...span });
      all[`${market} state ${intervalS}`] = backend.state(market, intervalS);
    }
  }
  return Object.fromEntries(
    Object.entries(all).map(([key, value]) => [key, JSON.stringify(value)]),
  );
}

function assertSame(actual: LiveBackend, expected: LiveBackend): void {
  const [mine, other] = [shown(actual), shown(expected)];
  assert.deepEqual(Object.keys(mine), Object.keys(other));
  for (const [subject, text] of Object.entries(mine)) assert.equal(text, other[subject], subject);
}

test('two exchanges show the same, however their clocks step and whoever watches', async (t) => {
  const random = seededRandom(5);
  const clocks = [new FakeClock(), new FakeClock(1)];
  const [steady, restless] = await Promise.all(clocks.map((clock) => openTestLive(t, {}, clock)));
  assert.ok(steady && restless && clocks[0] && clocks[1]);
  for (const { name } of restless.markets()) {
    t.after(restless.watch(name, () => restless.depth(name, 5)));
  }
  // Beyond the full hour, where a session ends.
  for (let leftMs = HOUR_MS; leftMs > 0; ) {
    const stepMs = Math.min(leftMs, 1 + Math.floor(random() * 20_000));
    clocks[1].advance(stepMs);
    if (random() < 0.5) restless.ticker('BTC_USDT');
    leftMs -= stepMs;
  }
  clocks[0].advance(HOUR_MS);
  assert.ok(steady.trades('BTC_USDT', 0, 10_000).length > 1000);
  assertSame(restless, steady);
});

/** One exchange that ran all the time, and one that was opened at the end. */
async function ranAndOpened(t: TestContext, hours: number, options: LiveOptions) {
  const clock = new FakeClock();
  const originMs = LIVE_START_MS - 600_000;
  const ran = await openTestLive(t, { originMs, ...options }, clock);
  for (let hour = 0; hour < hours; hour += 0.5) {
    clock.advance(HOUR_MS / 2);
    ran.tickers();
  }
  const opened = await openTestLive(t, {
    originMs,
    ...options,
    startMs: LIVE_START_MS + hours * HOUR_MS,
  });
  return { ran, opened };
}

test('after a restart the exchange is the same, byte for byte', async (t) => {
  const { ran, opened } = await ranAndOpened(t, 3, {});
  assert.ok(opened.trades('BTC_USDT', 0, 100_000).length > 5000);
  assertSame(opened, ran);
});

test('so it is when the history has moved on, and with every variant of candles', async (t) => {
  const { ran, opened } = await ranAndOpened(t, 30, {
    markets: ['ETH_BTC', 'LTC_USDT'],
    emptyCandles: 'filled',
    candleOpen: 'previous',
  });
  assertSame(opened, ran);
  const [oldest] = opened.trades('LTC_USDT', 0, 1_000_000).slice(-1);
  const ageMs = opened.nowMs() - (oldest?.timeUs ?? 0) / 1000;
  assert.ok(ageMs > 23.5 * HOUR_MS && ageMs < 25 * HOUR_MS, 'a day is kept, and no more');
  const dayFigures = opened.state('ETH_BTC', 86_400);
  const candles = opened.kline({
    market: 'ETH_BTC',
    startS: 0,
    endS: LIVE_START_MS / 1000 + 2e5,
    intervalS: 3600,
  });
  assert.ok(candles.length >= 24 && candles.length <= 26, `${candles.length} candles of an hour`);
  assert.notEqual(dayFigures.volume, '0');
});

test('the number of served trades is bounded, after a restart at the same place', async (t) => {
  const { ran, opened } = await ranAndOpened(t, 4, { markets: ['ETH_USDT'], historyMax: 777 });
  assert.equal(ran.trades('ETH_USDT', 0, 10_000).length, 777);
  assertSame(opened, ran);
});

test('the truth is whole or refused, never short', async (t) => {
  const options = { markets: ['LTC_USDT', 'ETH_BTC'] };
  const { ran, opened: cut } = await ranAndOpened(t, 30, options);
  const { ran: keeping, opened } = await ranAndOpened(t, 30, { ...options, keepAll: true });
  const truth = [...keeping.truth('ETH_BTC')];
  assert.deepEqual([...opened.truth('ETH_BTC')], truth);
  const served = ran.trades('ETH_BTC', 0, 1_000_000).reverse();
  assert.ok(served.length > 100 && truth.length > served.length);
  assert.deepEqual(truth.slice(-served.length), served);
  // One that forgot, and one that never knew: both name the moment from which on they know all.
  for (const backend of [ran, cut]) {
    const refusal = /from=(\d+\.\d{6}) or later.*keepAll/;
    assert.throws(() => [...backend.truth('ETH_BTC')], refusal);
    const error = await Promise.resolve()
      .then(() => [...backend.truth('ETH_BTC', 0)])
      .catch((caught: Error) => caught.message);
    const heldFromUs = Math.round(Number(refusal.exec(String(error))?.[1]) * 1e6);
    assert.deepEqual([...backend.truth('ETH_BTC', heldFromUs)], served);
    assert.throws(() => [...backend.truth('ETH_BTC', heldFromUs - 1)], refusal);
  }
});

test('what the served history has dropped is not told as the whole truth', async (t) => {
  const clock = new FakeClock();
  const options = { markets: ['BTC_USDT'], historyMax: 50 };
  const backend = await openTestLive(t, options, clock);
  const whole = await openTestLive(t, { ...options, keepAll: true }, clock);
  for (let hour = 0; hour < 3; hour += 1) {
    clock.advance(HOUR_MS);
    backend.ticker('BTC_USDT');
  }
  assert.throws(() => [...backend.truth('BTC_USDT')], /forgotten/);
  const truth = [...whole.truth('BTC_USDT')];
  const late = backend.trades('BTC_USDT', 0, 50).at(-2)?.timeUs ?? 0;
  const known = [...backend.truth('BTC_USDT', late)];
  assert.deepEqual(
    known,
    truth.filter(({ timeUs }) => timeUs >= late),
  );
});

test('identity: seed, markets and run count; fees, pace and history do not', async (t) => {
  const identity = async (options: LiveOptions) => (await openTestLive(t, options)).identity;
  const plain = await identity({});
  assert.match(plain, /^sandbox-live-[0-9a-f]{32}$/);
  const same = { pace: 5, startOffsetS: 60, takerFee: '0', historyMax: 9, emptyCandles: 'filled' };
  assert.equal(await identity(same as LiveOptions), plain);
  assert.notEqual(await identity({ seed: 8 }), plain);
  assert.notEqual(await identity({ markets: ['BTC_USDT'] }), plain);
  assert.equal(await identity({ runId: 'one' }), `${plain}-one`);
});
