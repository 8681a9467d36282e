import assert from 'node:assert/strict';
import { test } from 'node:test';
import { COVERED_HEADER, REPLAY_TIME } from '../../src/contract/gap-notices.js';
import type { Market } from '../../src/contract/resources.js';
import type { Store } from '../../src/store/index.js';
import { ticker } from '../support/postgres/postgres-rows.js';
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
  const [trades, times, klines] = [
    await begun(0),
    await stream('times'),
    await stream('candles', 60),
  ];
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
    claims: [trades, times, klines, depths, tickers, others, states].map((one) =>
      covered(one, 0, 600),
    ),
  });
}

/** Seconds after noon. */
const lateText = (kind: string, fromS: number, toS: number) =>
  `${kind} ${new Date(noonMs(fromS)).toISOString()} ${new Date(noonMs(toS)).toISOString()} received later`;

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
  const none = await get(replay, 'depth/result?market=BTC_USDT');
  const { message } = none.body;
  assert.equal(none.status, 503);
  assert.equal(
    message,
    `no depth of BTC_USDT is recorded up to ${new Date(noonMs(9.999)).toISOString()}, ${REPLAY_TIME}: it has to go on first`,
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
  const [trades, times] = [await world.begun(0), await world.stream('times')];
  await world.store.commit({
    trades: [
      exactTrade(1, 10.2),
      exactTrade(2, 10.4, { executedAtUs: null }),
      exactTrade(3, 10.6),
      exactTrade(4, 11.1),
    ],
    claims: [covered(trades, 0, 600), covered(times, 0, 10), covered(times, 11, 600)],
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
  const exact = await get(replay, 'history?market=BTC_USDT');
  assert.match(exact.gap ?? '', /^times 2026-01-15T12:00:10\.000Z 2026-01-15T12:00:11\.000Z not/);
  const seconds = await get(replay, 'history/result?market=BTC_USDT&since=0');
  assert.equal(seconds.gap, null);
});

test('with --as known only what was received by then is there, in its versions at that time', async (t) => {
  const world = await openWorld();
  const [trades, klines] = [await world.begun(0), await world.stream('candles', 60)];
  const late = { receivedAtMs: noonMs(100) };
  await world.store.commit({
    trades: [exactTrade(1, 1), exactTrade(2, 2, late), exactTrade(3, 3)],
    klines: [kline(0, { close: '100' })],
    claims: [covered(trades, 0, 600), covered(klines, 0, 600)],
  });
  const again = kline(0, { close: '101', receivedAtMs: noonMs(200) });
  await world.store.commit({ klines: [again], claims: [] });
  const read = async (replay: Replayed) => {
    const span = `start=${noonMs(0) / 1000}&end=${noonMs(0) / 1000}&interval=60`;
    const candles = await get(replay, `kline?market=BTC_USDT&${span}`);
    const { kline: found } = candles.result as { kline: Array<{ close: string }> };
    const page = await get(replay, 'history?market=BTC_USDT');
    return [ids(page), found.map(({ close }) => close), page.gap, candles.gap];
  };
  const [isLate, notYet] = [lateText('trades', 2, 3), lateText('candles', 0, 60)];
  const known = await startReplay(t, world.store, { as: 'known' });
  const happened = await startReplay(t, world.store);
  for (const [atS, whenKnown, whenHappened] of [
    [62, [[3, 1], [], isLate, notYet], [[3, 2, 1], ['101'], null, null]],
    [99, [[3, 1], ['100'], isLate, null], [[3, 2, 1], ['101'], null, null]],
    [100, [[3, 2, 1], ['100'], null, null], [[3, 2, 1], ['101'], null, null]],
    [199.999, [[3, 2, 1], ['100'], null, null], [[3, 2, 1], ['101'], null, null]],
    [200, [[3, 2, 1], ['101'], null, null], [[3, 2, 1], ['101'], null, null]],
  ] as const) {
    await seek(known, atS);
    await seek(happened, atS);
    assert.deepEqual(await read(known), whenKnown, `known at ${atS}`);
    assert.deepEqual(await read(happened), whenHappened, `happened at ${atS}`);
  }
  assert.notEqual(known.backend.identity, happened.backend.identity);
});

test('what was received later is a gap of what was known, for every answer that needed it', async (t) => {
  const world = await openWorld();
  const [trades, depths] = [await world.begun(0), await world.stream('depth')];
  const [tickers, states] = [await world.stream('tickers'), await world.stream('states', 60)];
  const others = await world.stream('tickers', 0, 2);
  const late = { receivedAtMs: noonMs(500) };
  await world.store.commit({
    trades: [
      exactTrade(1, 10, { receivedAtMs: noonMs(10) }),
      ...[exactTrade(2, 70, late), exactTrade(3, 130, late)],
      exactTrade(4, 210, { receivedAtMs: noonMs(210) }),
      exactTrade(5, 214.6, { receivedAtMs: noonMs(216) }),
    ],
    depths: [depth(10), depth(150, late)],
    tickers: [ticker(1, 10), ticker(2, 10), ticker(2, 150, late)],
    states: [state(1, 10), state(2, 150, late)],
    claims: [trades, depths, tickers, others, states].map((one) => covered(one, 0, 600)),
  });
  const known = await startReplay(t, world.store, { as: 'known' });
  const strict = await startReplay(t, world.store, { as: 'known', isStrict: true });
  const candles = (interval: number, fromS: number, toS = fromS) =>
    `kline?market=BTC_USDT&interval=${interval}&start=${noonMs(fromS) / 1000}&end=${noonMs(toS) / 1000}`;
  const volumes = ({ result }: { readonly result: unknown }) =>
    (result as { kline: Array<{ time: number; volume: string }> }).kline.map(
      ({ time, volume }): [number, string] => [time - noonMs(0) / 1000, volume],
    );
  const [gap, delay] = [lateText('trades', 70, 131), lateText('trades', 214, 215)];
  const since = (kind: string) => lateText(kind, 150, 215);
  for (const [path, told, read, expected] of [
    ['history?market=BTC_USDT', `${gap}, ${delay}`, ids, [4, 1]],
    ['history?market=BTC_USDT&limit=1&lastId=1', gap, ids, [1]],
    ['history?market=BTC_USDT&limit=1', delay, ids, [4]],
    // What nobody collected is made of trades: not where some of them were missing then.
    [candles(300, 0), lateText('trades', 70, 215), volumes, []],
    [
      candles(60, 0, 180),
      `${lateText('trades', 60, 180)}, ${delay}`,
      volumes,
      [
        [0, '2'],
        [180, '2'],
      ],
    ],
    [candles(60, 0), null, volumes, [[0, '2']]],
    ['depth/result?market=BTC_USDT', since('depth'), undefined, undefined],
    ['ticker?market=ETH_USDT', since('tickers'), undefined, undefined],
    ['tickers', since('tickers'), undefined, undefined],
    ['ticker?market=BTC_USDT', null, undefined, undefined],
  ] as const) {
    await seek(known, 215);
    await seek(strict, 215);
    const [answer, refused] = [await get(known, path), await get(strict, path)];
    assert.equal(answer.gap, told, path);
    assert.deepEqual(read?.(answer), expected, path);
    assert.equal(refused.status, told === null ? 200 : 503, path);
  }
  // That the last ticker is up to date says nothing of those before it.
  const { headers } = await get(known, 'ticker?market=BTC_USDT');
  const now = new Date(noonMs(215)).toISOString();
  assert.equal(headers.get(COVERED_HEADER), `${now} ${now}`);
  const notes: string[] = [];
  const seat = known.backend.sessionFor({
    ...({ kind: 'request', session: undefined } as const),
    note: (_, text) => notes.push(text),
  });
  await seat.state('BTC_USDT', 60);
  assert.deepEqual(notes, [since('states')]);
  // A trade that is still to come is none that was received late.
  await seek(known, 214.3);
  assert.equal((await get(known, 'history?market=BTC_USDT&limit=1')).gap, null);
  await seek(known, 500);
  for (const path of ['history?market=BTC_USDT', candles(300, 0), 'tickers']) {
    assert.equal((await get(known, path)).gap, null, path);
  }
});

test('of very many trades that came late the newest are told apart, and all below is in doubt', async (t) => {
  const world = await openWorld();
  const trades = await world.begun(0);
  // Of eight in a row one was there at once.
  const rows = Array.from({ length: 2400 }, (_, at) =>
    exactTrade(at + 1, at / 10, { receivedAtMs: noonMs(at % 8 === 0 ? 300 : 900) }),
  );
  await world.store.commit({ trades: rows, claims: [covered(trades, 0, 600)] });
  const known = await startReplay(t, world.store, { as: 'known' });
  await seek(known, 400);
  const newest = await get(known, 'history?market=BTC_USDT&limit=10');
  const between = newest.gap?.split(', ').length;
  assert.equal(between, 10, 'those above the newest, and those between each two');
  const all = await get(known, 'history?market=BTC_USDT&limit=1000');
  assert.equal(ids(all).length, 300);
  const told = all.gap?.split(', ') ?? [];
  assert.equal(told[0], lateText('trades', 0, 127));
  assert.match(told.at(-1) ?? '', /^trades .* 123 more in this time$/);
});

test('what touches a gap says so, and with --strict is refused', async (t) => {
  const world = await openWorld();
  const [trades, klines] = [await world.begun(0), await world.stream('candles', 60)];
  const [depths, tickers] = [await world.stream('depth'), await world.stream('tickers')];
  await world.store.commit({
    trades: [exactTrade(1, 10), exactTrade(2, 200), exactTrade(3, 210)],
    klines: [kline(0), kline(180)],
    depths: [depth(10)],
    tickers: [ticker(1, 10)],
    claims: [
      ...[covered(trades, 0, 60), covered(trades, 180, 600)],
      ...[covered(klines, 0, 60), covered(klines, 180, 600)],
      ...[covered(depths, 0, 60), covered(tickers, 20, 60)],
    ],
  });
  await world.store.recordGap({
    ...{ stream: depths, span: { fromMs: noonMs(60), toMs: noonMs(300) } },
    ...{ state: 'unfillable', reason: 'not observed', atMs: noonMs(300) },
  });
  const replay = await startReplay(t, world.store);
  const strict = await startReplay(t, world.store, { isStrict: true });
  const kline60 = (fromS: number, toS: number) =>
    `kline?market=BTC_USDT&interval=60&start=${noonMs(fromS) / 1000}&end=${noonMs(toS) / 1000}`;
  const gap = '2026-01-15T12:01:00.000Z 2026-01-15T12:03:00.000Z not collected';
  const goesOn = '2026-01-15T12:01:00.000Z 2026-01-15T12:03:35.000Z';
  for (const [atS, path, told] of [
    // Where history begins nothing is lacking, and the replay with it.
    [-30, 'history?market=BTC_USDT', undefined],
    // No gap begins before all that the archive has.
    [10, 'tickers', 'tickers 2026-01-15T12:00:00.000Z 2026-01-15T12:00:10.000Z before collecting'],
    [50, 'history?market=BTC_USDT', undefined],
    [50, 'tickers', undefined],
    [50, 'depth/result?market=BTC_USDT', undefined],
    [215, 'history?market=BTC_USDT', `trades ${gap}`],
    [215, 'history?market=BTC_USDT&limit=2', undefined],
    [215, 'history?market=BTC_USDT&limit=2&lastId=1', `trades ${gap}`],
    [215, kline60(0, 0), undefined],
    [215, kline60(0, 180), `candles ${gap}`],
    [599, kline60(180, 240), undefined],
    // When a gap that goes on will end is not told: nobody knew.
    [215, 'depth/result?market=BTC_USDT', `depth ${goesOn} not observed`],
    [215, 'book?market=BTC_USDT&side=buy', /^depth .* not observed$/],
    [215, 'tickers', `tickers ${goesOn} not collected`],
    [
      100,
      'history?market=BTC_USDT',
      `trades 2026-01-15T12:01:00.000Z 2026-01-15T12:01:40.000Z not collected`,
    ],
    [
      60,
      'depth/result?market=BTC_USDT',
      `depth 2026-01-15T12:01:00.000Z 2026-01-15T12:01:00.001Z not observed`,
    ],
    [215, 'ticker?market=BTC_USDT', /^tickers /],
    [215, 'markets', undefined],
    [215, 'kline?market=ETH_USDT&interval=60&start=1&end=2', /^candles 1970-.* not collected$/],
  ] as const) {
    await seek(replay, atS);
    await seek(strict, atS);
    const [open, refused] = [await get(replay, path), await get(strict, path)];
    assert.equal(open.status, 200, path);
    if (told === undefined) {
      assert.deepEqual([open.gap, refused.status], [null, 200], path);
    } else {
      if (typeof told === 'string') assert.equal(open.gap, told, path);
      else assert.match(open.gap ?? '', told, path);
      assert.equal(refused.status, 503, path);
      assert.match(String(refused.body.message), /^gap in the archive: /);
    }
  }
  // A candle that is still open is left out where its trades are not all there.
  await seek(replay, 205);
  const open = await get(replay, kline60(180, 180));
  assert.equal((open.result as { kline: object[] }).kline.length, 1);
  await seek(replay, 100);
  const partly = await get(replay, kline60(60, 60));
  assert.deepEqual((partly.result as { kline: object[] }).kline, []);
  assert.match(partly.gap ?? '', /^trades 2026-01-15T12:01:00.000Z .* not collected$/);
});

test('what is older than what is beyond history is so as well', async (t) => {
  const world = await openWorld();
  const klines = await world.stream('candles', 60);
  await world.store.commit({ klines: [kline(0)], claims: [covered(klines, 0, 60)] });
  const span = { fromMs: noonMs(-600), toMs: noonMs(0) };
  await world.store.want(klines, span);
  await world.store.recordGap({
    ...{ stream: klines, span, state: 'unfillable', reason: 'beyond history', atMs: noonMs(60) },
  });
  const replay = await startReplay(t, world.store);
  await seek(replay, 50);
  const start = noonMs(-1200) / 1000;
  const path = `kline?market=BTC_USDT&interval=60&start=${start}&end=${noonMs(-60) / 1000}`;
  assert.equal(
    (await get(replay, path)).gap,
    'candles 2026-01-15T11:40:00.000Z 2026-01-15T11:50:00.000Z beyond history, candles 2026-01-15T11:50:00.000Z 2026-01-15T12:00:00.000Z beyond history',
  );
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

test('a market of which nothing is recorded yet exists, and no gap of a moment begins before all that is', async (t) => {
  const { store, stream, begun } = await openWorld();
  const trades = await begun(-100);
  const tickers = await stream('tickers');
  const other = await store.ensureStream({ kind: 'trades', marketId: 2, variant: 0 });
  await store.commit({
    claims: [covered(trades, -100, 600), covered(tickers, 0, 600), covered(other, 30, 600)],
  });
  const replay = await startReplay(t, store, { span: { fromMs: noonMs(-100), toMs: noonMs(600) } });
  await seek(replay, -50);
  const now = new Date(noonMs(-50)).toISOString();
  const begins = `${new Date(noonMs(-100)).toISOString()} ${now}`;
  for (const [path, told] of [
    ['history?market=ETH_USDT', `trades 1970-01-01T00:00:00.000Z ${now} not collected`],
    ['history?market=BTC_USDT', null],
    ['tickers', `tickers ${begins} before collecting`],
  ] as const) {
    const { status, gap } = await get(replay, path);
    assert.deepEqual([path, status, gap], [path, 200, told]);
  }
  assert.equal((await get(replay, 'depth/result?market=ETH_USDT')).status, 503);
});

test('markets are those that were listed then, on the terms of then', async (t) => {
  const { store } = await openWorld();
  const terms = { stockPrec: 8, moneyPrec: 2, feePrec: 4, minAmount: '0.001' };
  const btc = { name: 'BTC_USDT', stock: 'BTC', money: 'USDT', ...terms };
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

test('with --as known nothing says which markets there are before the first list of them', async (t) => {
  const { store, stream } = await openWorld();
  await store.commit({ claims: [covered(await stream('trades'), -100, 600)] });
  const span = { fromMs: noonMs(-100), toMs: noonMs(600) };
  const replay = await startReplay(t, store, { span, as: 'known' });
  const paths = ['markets', 'history?market=BTC_USDT', 'history?market=NOSUCH'];
  const statuses = async () => {
    const replies = await Promise.all(paths.map((path) => get(replay, path)));
    return replies.map(({ status, body }) => [status, String(body.message).includes(REPLAY_TIME)]);
  };
  await seek(replay, -0.001);
  assert.deepEqual(await statuses(), [
    [503, true],
    [503, true],
    [503, true],
  ]);
  await seek(replay, 0);
  assert.deepEqual(await statuses(), [
    [200, false],
    [200, false],
    [400, false],
  ]);
});

test('an answer of many tickers tells of each market whether it is known, and since when', async (t) => {
  const world = await openWorld();
  const [btc, eth] = [await world.stream('tickers'), await world.stream('tickers', 0, 2)];
  await world.store.commit({
    tickers: [ticker(1, 1), ticker(2, 31)],
    claims: [covered(btc, 0, 600), covered(eth, 30, 100), covered(eth, 150, 600)],
  });
  const replay = await startReplay(t, world.store);
  const strict = await startReplay(t, world.store, { isStrict: true });
  const at = (seconds: number) => new Date(noonMs(seconds)).toISOString();
  const gap = (toS: number) => `tickers of ETH_USDT ${at(100)} ${at(toS)} not collected`;
  for (const [atS, since, told] of [
    [20, '', `tickers of ETH_USDT ${at(0)} ${at(20)} before collecting`],
    [50, `, ETH_USDT ${at(30)}`, null],
    [120, '', gap(120)],
    [160, `, ETH_USDT ${at(150)}`, null],
  ] as const) {
    await seek(replay, atS);
    await seek(strict, atS);
    const answer = await get(replay, 'tickers');
    const { headers } = answer;
    assert.deepEqual(
      [headers.get(COVERED_HEADER), answer.gap],
      [`${at(0)} ${at(atS)}${since}`, told],
      `at ${atS}`,
    );
    const shown = Object.keys(answer.result as object);
    assert.deepEqual(shown, atS === 20 ? ['BTC_USDT'] : ['BTC_USDT', 'ETH_USDT']);
    assert.equal((await get(strict, 'tickers')).status, told === null ? 200 : 503);
    assert.equal((await get(strict, 'ticker?market=BTC_USDT')).status, 200);
  }
});

test('of markets that are all in gaps each is named with its own', async (t) => {
  const world = await openWorld();
  const [btc, eth] = [await world.stream('tickers'), await world.stream('tickers', 0, 2)];
  await world.store.commit({
    tickers: [ticker(1, 1), ticker(2, 1)],
    claims: [
      covered(btc, 0, 100),
      covered(eth, 0, 110),
      ...[btc, eth].map((one) => covered(one, 200, 600)),
    ],
  });
  const replay = await startReplay(t, world.store);
  const at = (seconds: number) => new Date(noonMs(seconds)).toISOString();
  await seek(replay, 120);
  const { gap, headers } = await get(replay, 'tickers');
  const of = (name: string, fromS: number) =>
    `tickers of ${name}_USDT ${at(fromS)} ${at(120)} not collected`;
  assert.equal(gap, `${of('BTC', 100)}, ${of('ETH', 110)}`);
  assert.equal(headers.get(COVERED_HEADER), null);
});

/** Both markets of a world, and how it comes to know lists of them. */
async function listsOf(store: Store) {
  const [BTC, ETH] = await store.query<Market>(
    `SELECT name, stock, money, stock_prec AS "stockPrec", money_prec AS "moneyPrec",
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
    assert.equal(status, isListed ? 200 : 400, `at ${atS}`);
    return isListed;
  };
  const listedAt = async (as: 'happened' | 'known') => {
    const replay = await startReplay(t, store, { as });
    const listed: number[] = [];
    for (const atS of [80, 96, 99, 101, 150, 179, 180, 199, 200]) {
      if (await isListedAt(replay, atS)) listed.push(atS);
    }
    return listed;
  };
  assert.deepEqual(await listedAt('happened'), [80, 96, 99, 200]);
  const trades = await world.stream('trades', 0, 2);
  // One that was made before the market left, and one that shows that it is back.
  const [left, back] = [99.75, 179.5].map((atS) => ({ ...exactTrade(1, atS), marketId: 2 }));
  await store.commit({
    trades: [left, { ...back, tid: 2 }] as Parameters<typeof store.commit>[0]['trades'] & object,
    claims: [covered(trades, 0, 600)],
  });
  assert.deepEqual(await listedAt('happened'), [80, 96, 99, 180, 199, 200]);
  assert.deepEqual(await listedAt('known'), [80, 96, 99, 200]);
});

test('that a market left is no reason of a gap before a list lacked it', async (t) => {
  const world = await openWorld();
  const { store } = world;
  const ofTrades = await world.stream('trades', 0, 2);
  const streams = [
    await world.stream('tickers', 0, 2),
    ofTrades,
    await world.stream('depth', 0, 2),
  ];
  await store.commit({
    tickers: [ticker(2, 1)],
    depths: [{ ...depth(1), marketId: 2 }],
    trades: [{ ...exactTrade(1, 80), marketId: 2 }],
    claims: [
      ...streams.filter(({ kind }) => kind !== 'trades').map((one) => covered(one, 0, 90)),
      ...[covered(ofTrades, 0, 82), covered(ofTrades, 84, 90)],
    ],
  });
  const { BTC, ETH, list } = await listsOf(store);
  await list(92, BTC, ETH);
  await list(100, BTC);
  // As earlier versions kept it.
  const [, , ofDepth] = streams;
  await store.recordGap({
    ...{ stream: ofDepth ?? assert.fail(), span: { fromMs: noonMs(90), toMs: noonMs(100) } },
    ...{ state: 'unfillable', reason: 'delisted', atMs: noonMs(100) },
  });
  const at = (seconds: number) => new Date(noonMs(seconds)).toISOString();
  for (const as of ['happened', 'known'] as const) {
    const replay = await startReplay(t, store, { as });
    for (const atS of [91, 99]) {
      await seek(replay, atS);
      const gapOf = async (path: string) => (await get(replay, path)).gap;
      const until = `${at(90)} ${at(atS)}`;
      assert.equal(await gapOf('ticker?market=ETH_USDT'), `tickers ${until} not observed`);
      assert.equal(await gapOf('depth/result?market=ETH_USDT'), `depth ${until} not observed`);
      // One that had ended by then was open, too.
      assert.equal(
        await gapOf('history?market=ETH_USDT&limit=1'),
        `trades ${at(82)} ${at(84)} not collected, trades ${until} not collected`,
        as,
      );
    }
  }
});

test('an answer that shows a moment tells since when all was recorded until then; in a gap it does not', async (t) => {
  const world = await openWorld();
  const [depths, tickers] = [await world.stream('depth'), await world.stream('tickers')];
  await world.store.commit({
    depths: [depth(1), depth(250, { bidPrices: ['99', '98'] })],
    tickers: [ticker(1, 1)],
    claims: [covered(depths, 0, 100), covered(depths, 200, 600), covered(tickers, 0, 599)],
  });
  const replay = await startReplay(t, world.store);
  const at = (seconds: number) => new Date(noonMs(seconds)).toISOString();
  const told = async (atS: number, path: string) => {
    await seek(replay, atS);
    return (await get(replay, path)).headers.get(COVERED_HEADER);
  };
  const path = 'depth/result?market=BTC_USDT';
  assert.equal(await told(50, path), `${at(0)} ${at(50)}`);
  assert.equal(await told(100, path), null);
  assert.equal(await told(199, path), null);
  assert.equal(await told(200, path), `${at(200)} ${at(200)}`);
  assert.equal(await told(300, path), `${at(200)} ${at(300)}`);
  assert.equal(await told(300, 'ticker?market=BTC_USDT'), `${at(0)} ${at(300)}`);
  assert.equal(await told(300, 'history?market=BTC_USDT'), null);
  // Coverage and the replay end before 600 s: what is shown at the end is no look at that instant.
  assert.equal(await told(600, path), `${at(200)} ${at(599.999)}`);
  // Nor is one that follows on a gap.
  assert.equal(await told(600, 'ticker?market=BTC_USDT'), null);
});
