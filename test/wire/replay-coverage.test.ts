import assert from 'node:assert/strict';
import { test } from 'node:test';
import { replayIdentity, wholeKindsOf } from '../../src/kernel/exchange-kind.js';
import {
  control,
  covered,
  depth,
  exactTrade,
  get,
  kline,
  noonMs,
  openWorld,
  startReplay,
  state,
} from '../support/worlds/replayed-archive.js';

/** What a replay demands of its time range, and what it shows of the time before. */

const kline60 = (fromS: number, toS: number) =>
  `kline?market=BTC_USDT&interval=60&start=${noonMs(fromS) / 1000}&end=${noonMs(toS) / 1000}`;

const range = (fromS: number, toS: number) => ({
  allowsGaps: false,
  span: { fromMs: noonMs(fromS), toMs: noonMs(toS) },
});

/** Gaps in trades, candles and depth, and none in states. */
async function fillWorld() {
  const world = await openWorld();
  const [trades, candles] = [await world.stream('trades'), await world.stream('candles', 60)];
  const [depths, states] = [await world.stream('depth'), await world.stream('states', 60)];
  await world.store.commit({
    trades: [exactTrade(1, 10), exactTrade(2, 150), exactTrade(3, 250), exactTrade(4, 400)],
    klines: [kline(0), kline(60), kline(180), kline(240)],
    depths: [depth(10)],
    states: [state(1, 10)],
    claims: [
      ...[covered(trades, 0, 100), covered(trades, 200, 600)],
      ...[covered(candles, 0, 60), covered(candles, 180, 600)],
      ...[covered(depths, 0, 300), covered(depths, 310, 600), covered(states, 0, 600)],
    ],
  });
  return world;
}

test('a time range with gaps in trades or candles is refused, unless gaps are allowed', async (t) => {
  const { store } = await fillWorld();
  for (const [fromS, toS, said] of [
    [0, 600, /candles 1m of BTC_USDT from .*12:01:00\.000Z to .*12:03:00\.000Z .* and 1 more;/],
    [190, 600, /trades of BTC_USDT from .*12:03:10\.000Z to .*12:03:20\.000Z \(not collected\);/],
    [30, 120.5, /candles 1m .*; choose a time range without them .*--allow-gaps/],
  ] as const) {
    await assert.rejects(startReplay(t, store, range(fromS, toS)), said);
    const replay = await startReplay(t, store, { ...range(fromS, toS), allowsGaps: true });
    assert.match(replay.backend.identity, /^replay-[0-9a-f]{32}-with-gaps$/);
  }
  // A candle that does not end in the range is not missing in it.
  await startReplay(t, store, range(30, 99));
});

test('the identity names the kinds without a gap in the range', async (t) => {
  const { store } = await fillWorld();
  for (const [fromS, toS, kinds] of [
    [200, 600, ['trades', 'candles', 'states']],
    [310, 600, ['trades', 'candles', 'depth', 'states']],
  ] as const) {
    const { backend } = await startReplay(t, store, range(fromS, toS));
    assert.deepEqual(wholeKindsOf(backend.identity), kinds);
  }
  assert.equal(wholeKindsOf(replayIdentity('0', null)), null);
  assert.deepEqual(wholeKindsOf(replayIdentity('0', [])), []);
});

test('trades and candles of before the range are shown as far down as they have no gap', async (t) => {
  const { store } = await fillWorld();
  const shown = async (allowsGaps: boolean) => {
    const replay = await startReplay(t, store, { ...range(300, 600), allowsGaps });
    await control(replay, 'seek', { to: noonMs(500) });
    const page = await get(replay, 'history?market=BTC_USDT');
    const candles = await get(replay, kline60(0, 300));
    // Made of trades: those of before their gap would not be whole either.
    const made = await get(replay, kline60(0, 300).replace('=60', '=30'));
    const starts = ({ result }: { readonly result: unknown }) =>
      (result as { kline: Array<{ time: number }> }).kline.map(
        ({ time }) => time - noonMs(0) / 1000,
      );
    const ids = (page.result as Array<{ id: number }>).map(({ id }) => id);
    return [ids, starts(candles), starts(made)];
  };
  assert.deepEqual(await shown(false), [[4, 3], [180, 240], [240]]);
  assert.deepEqual(await shown(true), [
    [4, 3, 2, 1],
    [0, 60, 180, 240],
    [0, 240],
  ]);
});

test('of a market that was never collected no page says that nothing was traded', async (t) => {
  const { store } = await fillWorld();
  for (const allowsGaps of [false, true]) {
    const replay = await startReplay(t, store, { ...range(300, 600), allowsGaps });
    for (const path of [
      'history?market=ETH_USDT',
      kline60(0, 60).replace('BTC_USDT', 'ETH_USDT'),
      'depth/result?market=ETH_USDT',
    ]) {
      assert.equal((await get(replay, path)).status, 503, path);
    }
  }
});
