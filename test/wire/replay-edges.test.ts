import assert from 'node:assert/strict';
import { test } from 'node:test';
import { runSql } from '../support/postgres/postgres.js';
import {
  control,
  covered,
  exactTrade,
  get,
  noonMs,
  openWorld,
  startReplay,
  type World,
} from '../support/worlds/replayed-archive.js';

/** Pages of trades at the lower end of an archive, and what it says of the time before. */

test('a page that ends early names what is missing below it, unless history begins there', async (t) => {
  for (const [why, fromS, prepare] of [
    ['not collected', 0, async () => undefined],
    ['before collecting', 0, ({ store }: World, id: number) => store.setCollectFrom(id, noonMs(0))],
    [
      'beyond history',
      0,
      ({ store }: World, id: number) => store.setCollectFrom(id, noonMs(0), 'history horizon'),
    ],
    [
      'given up by retention',
      -43_200,
      async ({ url }: World) => {
        await runSql(url, `SELECT make_partition('trade', '2026-01-14')`);
        await runSql(url, `SELECT expire_partition('trade', '2026-01-14')`);
      },
    ],
    [undefined, 0, ({ begun }: World) => begun(0)],
  ] as const) {
    const world = await openWorld();
    const trades = await world.stream('trades');
    await prepare(world, trades.streamId);
    const receivedAtMs = noonMs(0);
    const rows = Array.from({ length: 1500 }, (_, at) =>
      exactTrade(at + 1, 1 + at / 10, { receivedAtMs }),
    );
    await world.store.commit({ trades: rows, claims: [covered(trades, fromS, 600)] });
    const edge = new Date(noonMs(fromS)).toISOString();
    const gap = why === undefined ? null : `trades 1970-01-01T00:00:00.000Z ${edge} ${why}`;
    for (const as of ['happened', 'known'] as const) {
      const replay = await startReplay(t, world.store, { as });
      const strict = await startReplay(t, world.store, { as, isStrict: true });
      for (const [atS, path, count, isShort] of [
        [300, 'history?market=BTC_USDT&limit=1000', 1000, false],
        [300, 'history?market=BTC_USDT&limit=1000&lastId=1000', 500, true],
        [300, 'history/result?market=BTC_USDT&limit=100&since=1400', 100, false],
        [300, 'history/result?market=BTC_USDT&limit=100&since=1450', 50, true],
        [300, 'history?market=BTC_USDT&limit=100&lastId=1500', 0, true],
        [300, 'history?market=BTC_USDT&limit=100&lastId=5000', 0, true],
        [1.15, 'history?market=BTC_USDT&limit=2', 2, false],
        [1.15, 'history?market=BTC_USDT&limit=3', 2, true],
      ] as const) {
        for (const one of [replay, strict]) await control(one, 'seek', { to: noonMs(atS) });
        const what = `${why} ${as} ${atS} ${path}`;
        const [page, refused] = [await get(replay, path), await get(strict, path)];
        const { length } = (page.result ?? page.body) as unknown as unknown[];
        assert.deepEqual([length, page.gap], [count, isShort ? gap : null], what);
        assert.equal(refused.status, isShort && gap !== null ? 503 : 200, what);
      }
    }
  }
});

test('where history begins, the second of the oldest trade alone is named, whatever is older of other streams', async (t) => {
  for (const [other, kind, variant, marketId] of [
    ['nothing', 'trades', 0, 1],
    ['candles', 'candles', 60, 1],
    ['another market', 'trades', 0, 2],
  ] as const) {
    const world = await openWorld();
    const receivedAtMs = noonMs(0);
    // As a walk leaves it: of the oldest trade's second it is not proven that there was no more.
    const trades = await world.begun(2);
    await world.store.commit({
      trades: [1.5, 5].map((atS, at) => exactTrade(at + 1, atS, { receivedAtMs })),
      claims: [covered(trades, 2, 600)],
    });
    if (other !== 'nothing') {
      const stream = await world.stream(kind, variant, marketId);
      await world.store.commit({ claims: [covered(stream, -7200, 600)] });
    }
    const replay = await startReplay(t, world.store);
    await control(replay, 'seek', { to: noonMs(300) });
    const gap = 'trades 2026-01-15T12:00:01.000Z 2026-01-15T12:00:02.000Z beyond history';
    for (const [query, named] of [
      ['limit=100&since=0', gap],
      ['limit=2&since=0', gap],
      ['limit=100&since=1', gap],
      ['limit=1&since=0', null],
    ] as const) {
      const page = await get(replay, `history/result?market=BTC_USDT&${query}`);
      assert.equal(page.gap, named, `${other} ${query}`);
    }
  }
});

test('nothing is missing at the very start of a history that begins without a trade', async (t) => {
  const world = await openWorld();
  const trades = await world.begun(1);
  const first = exactTrade(1, 10, { receivedAtMs: noonMs(0) });
  await world.store.commit({ trades: [first], claims: [covered(trades, 1, 600)] });
  const candles = await world.stream('candles', 60);
  await world.store.commit({ claims: [covered(candles, -7200, 600)] });
  const strict = await startReplay(t, world.store, { isStrict: true });
  for (const [atS, status] of [
    [1, 200],
    [2, 200],
    // Of what was before, nothing is known.
    [0.5, 503],
  ] as const) {
    await control(strict, 'seek', { to: noonMs(atS) });
    const page = await get(strict, 'history?market=BTC_USDT&limit=10');
    assert.deepEqual([page.status, page.gap], [status, null], `${atS}`);
  }
});
