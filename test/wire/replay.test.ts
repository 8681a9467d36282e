import assert from 'node:assert/strict';
import { test } from 'node:test';
import { REPLAY_TIME } from '../../src/contract/extensions.js';
import type { Market } from '../../src/contract/resources.js';
import type { Store } from '../../src/store/index.js';
import { marketOf, ticker } from '../support/postgres/postgres-rows.js';
import {
  control,
  covered,
  depth,
  exactTrade,
  get,
  kline,
  noonMs,
  openWorld,
  type Replayed,
  startReplay,
  state,
  type World,
} from '../support/worlds/replayed-archive.js';

/** An archive served as an exchange of the past, over real sockets. */

/** Seconds after noon. */
const seek = (replay: Replayed, atS: number, session?: string) =>
  control(replay, 'seek', { to: noonMs(atS) }, session);

/** Ten minutes of everything, covered whole. */
async function fillWorld({ store, stream, begun }: World): Promise<void> {
  const [trades, klines] = [await begun(0), await stream('candles', 60)];
  const [depths, tickers, states] = [
    await stream('depth'),
    await stream('tickers'),
    await stream('states', 60),
  ];
  const others = await stream('tickers', 0, 2);
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
    claims: [trades, klines, depths, tickers, others, states].map((one) => covered(one, 0, 600)),
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
  await seek(replay, 61);
  const stepped = await control(replay, 'step');
  assert.equal(stepped.result.nowMs, noonMs(61.001), 'a microsecond is ahead, too');
  await seek(replay, 61.001);
  const all = await history();
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
  const none = await get(replay, 'depth/result?market=BTC_USDT');
  const { message } = none.body;
  assert.equal(none.status, 503);
  assert.equal(
    message,
    `no depth of BTC_USDT is recorded up to ${new Date(noonMs(9.999)).toISOString()}, ${REPLAY_TIME}`,
  );
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

test('candles: closed ones as collected, the open one of the trades until now', async (t) => {
  const world = await openWorld();
  await fillWorld(world);
  const replay = await startReplay(t, world.store);
  const candles = async (interval: number) => {
    const span = `start=${noonMs(0) / 1000}&end=${noonMs(300) / 1000}`;
    const reply = await get(replay, `kline?market=BTC_USDT&interval=${interval}&${span}`);
    const { kline } = reply.result as { kline: Array<Record<string, unknown>> };
    return kline.map(({ time, close, highest, volume, amount }) => [
      ...[(time as number) - noonMs(0) / 1000, close, highest, volume, amount],
    ]);
  };
  await seek(replay, 2.6);
  assert.deepEqual(await candles(60), [[0, '101.50', '101.50', '2.1', '211.15']]);
  await seek(replay, 59.999);
  assert.deepEqual(await candles(60), [[0, '100.5', '101.50', '4.1', '412.15']]);
  await seek(replay, 60);
  assert.deepEqual(await candles(60), [[0, '101', '102', '3', '301.5']]);
  await seek(replay, 130);
  assert.deepEqual(await candles(60), [
    [0, '101', '102', '3', '301.5'],
    [60, '99', '102', '3', '301.5'],
  ]);
  // Nobody collected these: they are made of trades, the open one too.
  assert.deepEqual(await candles(30), [
    [0, '100.5', '101.50', '4.1', '412.15'],
    [60, '99.9', '99.9', '2', '201'],
  ]);
  await seek(replay, 61.5);
  assert.deepEqual((await candles(30)).at(-1), [60, '99.9', '99.9', '2', '201']);
});

test('a page far back is the same as by walking there, at every depth', async (t) => {
  const world = await openWorld();
  const { store } = world;
  const trades = await world.stream('trades');
  const rows = Array.from({ length: 4_321 }, (_, at) => {
    // Floods in some seconds, days without any trade, and ids with gaps.
    const atS = Math.floor(at / 700) * 86_400 + Math.floor((at % 700) / 90) + 0.5;
    return exactTrade(3 * at + 1, atS);
  });
  for (let from = 0; from < rows.length; from += 1000) {
    await store.commit({ trades: rows.slice(from, from + 1000), claims: [] });
  }
  await store.commit({ claims: [covered(trades, 0, 7 * 86_400)] });
  const span = { fromMs: noonMs(0), toMs: noonMs(7 * 86_400) };
  const replay = await startReplay(t, store, { span });
  const newestFirst = rows.map(({ tid }) => tid).reverse();
  for (const back of [0, 600, 300, 1500, 0]) {
    const top = newestFirst[back] ?? 0;
    const at = rows.find(({ tid }) => tid === top);
    await control(replay, 'seek', { to: Math.ceil((at?.executedAtUs ?? 0) / 1000) });
    const visible = rows.filter(
      ({ executedAtUs }) => (executedAtUs ?? 0) <= (at?.executedAtUs ?? 0),
    );
    const expected = visible.map(({ tid }) => tid).reverse();
    for (const skip of [0, 7, 999, 1000, 1001, 2000, 2345, 3999, 4_320, 4_321, 9_999, 10_000_000]) {
      const reply = await get(replay, `history?market=BTC_USDT&lastId=${skip}&limit=777`);
      assert.deepEqual(ids(reply), expected.slice(skip, skip + 777), `${back} back, skip ${skip}`);
    }
  }
});

test('trades whose exact time is unknown appear at the end of their second, and nothing before them', async (t) => {
  const world = await openWorld();
  const trades = await world.begun(0);
  await world.store.commit({
    trades: [
      exactTrade(1, 10.2),
      exactTrade(2, 10.4, { executedAtUs: null }),
      exactTrade(3, 10.6),
      exactTrade(4, 11.1),
    ],
    claims: [covered(trades, 0, 600)],
  });
  const replay = await startReplay(t, world.store);
  for (const [atS, expected] of [
    [10.3, [1]],
    [10.999, [1]],
    [11, [3, 2, 1]],
    [11.1, [4, 3, 2, 1]],
  ] as const) {
    await seek(replay, atS);
    assert.deepEqual(ids(await get(replay, 'history?market=BTC_USDT')), expected, `at ${atS}`);
  }
});

test('a book is made of a depth snapshot, and says so; private calls are refused', async (t) => {
  const world = await openWorld();
  await fillWorld(world);
  const replay = await startReplay(t, world.store);
  await seek(replay, 12);
  const book = await get(replay, 'book?market=BTC_USDT&side=sell&offset=1&limit=1');
  assert.match(book.headers.get('x-tapekeep-book') ?? '', /depth snapshot/);
  assert.deepEqual(book.result, {
    ...{ offset: 1, limit: 1, total: 3 },
    orders: [
      {
        ...{ id: 4, market: 'BTC_USDT', price: '100.30', amount: '4', left: '4', type: 'limit' },
        ...{ side: 'sell', timestamp: noonMs(10) / 1000, takerFee: '0', makerFee: '0' },
        ...{ dealStock: '0', dealMoney: '0' },
      },
    ],
  });
  const reply = await fetch(`${replay.server.url}/api/v1/account/balances`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-txc-apikey': 'a' },
    body: '{}',
  });
  assert.equal(reply.status, 400);
  assert.equal(((await reply.json()) as { message: string }).message, 'authentication failure');
});

test('a market of which nothing is recorded yet exists', async (t) => {
  const { store, stream, begun } = await openWorld();
  const trades = await begun(-100);
  const tickers = await stream('tickers');
  const other = await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 });
  await store.commit({
    claims: [covered(trades, -100, 600), covered(tickers, 0, 600), covered(other, 30, 600)],
  });
  const replay = await startReplay(t, store, { span: { fromMs: noonMs(-100), toMs: noonMs(600) } });
  await seek(replay, -50);
  for (const path of ['history?market=ETH_USDT', 'history?market=BTC_USDT', 'tickers']) {
    assert.equal((await get(replay, path)).status, 200, path);
  }
  assert.equal((await get(replay, 'depth/result?market=ETH_USDT')).status, 503);
});

test('markets are those that were listed then, on the terms of then', async (t) => {
  const { store } = await openWorld();
  const btc = marketOf('BTC_USDT');
  const stream = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  await store.commit({ claims: [covered(stream, -100, 600)] });
  await store.ensureMarkets([{ ...btc, minAmount: '0.5' }], noonMs(100));
  const dot = { ...btc, name: 'DOT_USDT', stock: 'DOT' };
  await store.ensureMarkets([{ ...btc, minAmount: '0.5' }, dot], noonMs(200));
  // It came some time before the list showed it: its day's candle begins before that, its trades do not.
  const day = await store.ensureStream({ kind: 'candles', marketId: 3, variant: 86_400 });
  const dots = await store.ensureStream({ kind: 'trades', marketId: 3, variant: 0 });
  await store.commit({ claims: [covered(day, -43_200, 43_200), covered(dots, 190, 600)] });
  const span = { fromMs: noonMs(-100), toMs: noonMs(600) };
  const replay = await startReplay(t, store, { span });
  for (const [atS, expected] of [
    // What the first list had may have been there before.
    [
      -50,
      [
        ['BTC_USDT', '0.001'],
        ['ETH_USDT', '0.001'],
      ],
    ],
    [
      50,
      [
        ['BTC_USDT', '0.001'],
        ['ETH_USDT', '0.001'],
      ],
    ],
    [100, [['BTC_USDT', '0.5']]],
    [189, [['BTC_USDT', '0.5']]],
    [
      190,
      [
        ['BTC_USDT', '0.5'],
        ['DOT_USDT', '0.001'],
      ],
    ],
  ] as const) {
    await seek(replay, atS);
    const { result } = await get(replay, 'markets');
    const listed = result as Array<{ name: string; minAmount: string }>;
    assert.deepEqual(
      listed.map(({ name, minAmount }) => [name, minAmount]),
      expected,
      `at ${atS}`,
    );
  }
  await seek(replay, 150);
  for (const gone of ['ETH_USDT', 'DOT_USDT']) {
    assert.equal((await get(replay, `history?market=${gone}`)).status, 400);
  }
  assert.equal((await get(replay, 'history?market=NOSUCH')).status, 400);
});

/** Both markets of a world, and how it comes to know lists of them. */
async function listsOf(store: Store) {
  const [BTC, ETH] = await store.query<Market>(
    `SELECT name, base AS stock, quote AS money, base_prec AS "stockPrec", quote_prec AS "moneyPrec",
       fee_prec AS "feePrec", min_amount::text AS "minAmount" FROM market ORDER BY market_id`,
  );
  assert.ok(BTC !== undefined && ETH !== undefined);
  const list = async (atS: number, ...markets: Market[]) => {
    await store.ensureMarkets(markets, noonMs(atS));
  };
  return { BTC, ETH, list };
}

test('a market is not listed from where it was missed until it was back, by its trades or the list', async (t) => {
  const world = await openWorld();
  const [btc, eth] = [await world.stream('tickers'), await world.stream('tickers', 0, 2)];
  const { store } = world;
  await store.commit({
    tickers: [ticker(1, 1), ticker(2, 1)],
    claims: [covered(btc, 0, 600), covered(eth, 0, 90)],
  });
  const { BTC, ETH, list } = await listsOf(store);
  await list(95, BTC, ETH);
  await list(100, BTC);
  await list(200, BTC, { ...ETH, moneyPrec: 1 });
  await store.commit({ claims: [covered(eth, 201, 600)] });
  const isListedAt = async (replay: Replayed, atS: number) => {
    await seek(replay, atS);
    const { result } = await get(replay, 'markets');
    const listed = result as readonly { readonly name: string; readonly moneyPrec: number }[];
    const found = listed.find(({ name }) => name === 'ETH_USDT');
    const isListed = found !== undefined;
    // It came back with other terms.
    if (isListed) assert.equal(found.moneyPrec === 1, atS > 101, `terms at ${atS}`);
    const { status } = await get(replay, 'history?market=ETH_USDT&lastId=0');
    assert.equal(status !== 400, isListed, `at ${atS}`);
    return isListed;
  };
  const listedAt = async () => {
    const replay = await startReplay(t, store);
    const listed: number[] = [];
    for (const atS of [80, 96, 99, 101, 150, 179, 180, 199, 200]) {
      if (await isListedAt(replay, atS)) listed.push(atS);
    }
    return listed;
  };
  assert.deepEqual(await listedAt(), [80, 96, 99, 200]);
  const trades = await world.stream('trades', 0, 2);
  // One that was made before the market left, and one that shows that it is back.
  const [left, back] = [99.75, 179.5].map((atS) => ({ ...exactTrade(1, atS), marketId: 2 }));
  await store.commit({
    trades: [left, { ...back, tid: 2 }] as Parameters<typeof store.commit>[0]['trades'] & object,
    claims: [covered(trades, 0, 600)],
  });
  assert.deepEqual(await listedAt(), [80, 96, 99, 180, 199, 200]);
});
