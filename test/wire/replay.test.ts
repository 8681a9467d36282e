import assert from 'node:assert/strict';
import { test } from 'node:test';
import { GAP_HEADER } from '../../src/replay/gap-book.js';
import { ticker } from '../support/postgres-rows.js';
import {
  covered,
  depth,
  exactTrade,
  kline,
  noonMs,
  openWorld,
  type Replayed,
  startReplay,
  state,
  type World,
} from '../support/replayed-archive.js';

/** An archive served as an exchange of the past, over real sockets. */

async function get(replay: Replayed, path: string, session?: string) {
  const headers: Record<string, string> =
    session === undefined ? {} : { 'x-tapekeep-session': session };
  const reply = await fetch(`${replay.server.url}/api/v1/public/${path}`, { headers });
  const body = (await reply.json()) as { readonly result?: unknown; readonly message?: unknown };
  return {
    status: reply.status,
    body,
    result: body.result as never,
    gap: reply.headers.get(GAP_HEADER),
    dateMs: Date.parse(reply.headers.get('date') ?? ''),
    headers: reply.headers,
  };
}

async function control(replay: Replayed, path: string, body?: object, session?: string) {
  const method = path === 'clock' || path === 'sessions' ? 'GET' : 'POST';
  const reply = await fetch(`${replay.server.url}/replay/${path}`, {
    method,
    headers: session === undefined ? {} : { 'x-tapekeep-session': session },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const { result, message } = (await reply.json()) as { result: unknown; message: string };
  return { status: reply.status, result: result as Record<string, unknown>, message };
}

/** Seconds after noon. */
const seek = (replay: Replayed, atS: number, session?: string) =>
  control(replay, 'seek', { to: noonMs(atS) }, session);

/** Ten minutes of everything, covered whole. */
async function fillWorld({ store, stream }: World): Promise<void> {
  const [trades, times, klines] = [
    await stream('trades'),
    await stream('times'),
    await stream('kline', 60),
  ];
  const [depths, tickers, states] = [
    await stream('depth'),
    await stream('ticker', 0, 0),
    await stream('state', 60),
  ];
  await store.commit({
    trades: [
      exactTrade(1, 1.25),
      exactTrade(2, 2.5, { price: '101.50', amount: '0.10', total: '10.15', side: 'sell' }),
      exactTrade(3, 2.75),
      exactTrade(4, 61.000_001, { price: '99.9' }),
    ],
    klines: [kline(0), kline(60, { close: '99' })],
    tickers: [
      ticker(1, 5, { last: '100.50' }),
      ticker(1, 15, { last: '101' }),
      ticker(2, 5, { last: '7' }),
    ],
    depths: [depth(10), depth(20, { bidPrices: ['90'], bidAmounts: ['1'] })],
    states: [
      state(1, 3, { origin: 'query', change: '1.50', last: '50' }),
      state(2, 4),
      state(3, 4.5),
      state(4, 6),
    ],
    claims: [trades, times, klines, depths, tickers, states].map((one) => covered(one, 0, 600)),
  });
}

const ids = (reply: { readonly result: unknown }) =>
  (reply.result as Array<{ id: number }>).map(({ id }) => id);

test('nothing later than the present moment is ever visible', async (t) => {
  const world = await openWorld();
  await fillWorld(world);
  const replay = await startReplay(t, world.store);
  const history = () => get(replay, 'history?market=BTC_USDT');
  assert.deepEqual(ids(await history()), []);
  for (const [atS, expected] of [
    [1.249, []],
    [1.25, [1]],
    [2.5, [2, 1]],
    [2.749, [2, 1]],
    [60, [3, 2, 1]],
    [61, [3, 2, 1]],
    [61.001, [4, 3, 2, 1]],
  ] as const) {
    await seek(replay, atS);
    assert.deepEqual(ids(await history()), expected, `at ${atS} s`);
  }
  const all = await history();
  assert.equal(all.gap, null);
  assert.equal(all.dateMs, noonMs(61));
  assert.deepEqual((all.result as object[])[2], {
    ...{ id: 2, time: noonMs(2.5) / 1000, price: '101.50', type: 'sell' },
    ...{ amount: '0.10', total: '10.15' },
  });
  await seek(replay, 4.9);
  assert.deepEqual((await get(replay, 'tickers')).result, {});
  await seek(replay, 5);
  const tickers = (await get(replay, 'tickers')).result as Record<
    string,
    { at: number; ticker: { last: string } }
  >;
  assert.deepEqual(
    Object.entries(tickers).map(
      ([
        name,
        {
          at,
          ticker: { last },
        },
      ]) => [name, at, last],
    ),
    [
      ['BTC_USDT', noonMs(5) / 1000, '100.50'],
      ['ETH_USDT', noonMs(5) / 1000, '7'],
    ],
  );
  await seek(replay, 9.999);
  assert.equal((await get(replay, 'depth/result?market=BTC_USDT')).status, 503);
  await seek(replay, 19.999);
  assert.deepEqual((await get(replay, 'depth/result?market=BTC_USDT&limit=2')).body, {
    asks: [
      ['100.20', '0.1'],
      ['100.30', '4'],
    ],
    bids: [
      ['100.10', '1'],
      ['100.00', '2.50'],
    ],
  });
});
