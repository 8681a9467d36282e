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
    ['not collected', 0, ({ store }: World, id: number) => store.setCollectFrom(id, noonMs(0))],
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
