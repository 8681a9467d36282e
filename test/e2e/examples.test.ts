import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { test } from 'node:test';
import { momentOf, spanOf } from '../../docs/examples/arguments.js';
import { marketMaking } from '../../docs/examples/market-making.js';
import { movingAverage } from '../../docs/examples/moving-average.js';
import { paperTrader } from '../../docs/examples/paper-trader.js';
import { ExchangeClient, openArchive } from '../../src/index.js';
import type { KlineRow } from '../../src/model/batch.js';
import { startTapeExchange } from '../support/exchanges/tape-exchange.js';
import { openTestStore } from '../support/postgres/postgres.js';
import { claim, NOON_S, trade } from '../support/postgres/postgres-rows.js';
import { repositoryPath } from '../support/repository/repository.js';
import {
  covered,
  depth,
  noonMs,
  openWorld,
  startReplay,
  state,
} from '../support/worlds/replayed-archive.js';
import { BTC } from '../support/worlds/store-world.js';

const iso = (afterS: number) => new Date((NOON_S + afterS) * 1000).toISOString();
/** Falls, rises, falls: one purchase and one sale of means over one and three. */
const CLOSES = ['10', '9', '8', '12', '13', '14', '9', '8'];

async function makeArchive() {
  const { store, url } = await openTestStore();
  await store.ensureMarkets([BTC], NOON_S * 1000);
  const klines = await store.ensureStream({ kind: 'candles', marketId: 1, variant: 60 });
  const trades = await store.ensureStream({ kind: 'trades', marketId: 1, variant: 0 });
  const depth = await store.ensureStream({ kind: 'depth', marketId: 1, variant: 0 });
  const rows = CLOSES.map((close, index): KlineRow => {
    const openAtS = NOON_S + index * 60;
    const prices = { open: close, close, high: close, low: close, volume: '1', quoteVolume: close };
    return { marketId: 1, intervalS: 60, openAtS, ...prices, receivedAtMs: (openAtS + 62) * 1000 };
  });
  const book = (atS: number, bid: string, ask: string) => ({
    ...{ marketId: 1, observedAtMs: (NOON_S + atS) * 1000, receivedAtMs: (NOON_S + atS) * 1000 },
    ...{ bidPrices: [bid], bidAmounts: ['5'], askPrices: [ask], askAmounts: ['5'] },
  });
  await store.commit({
    klines: rows,
    depths: [book(0, '99', '101'), book(20, '98', '100')],
    trades: [
      // At the bid: nobody knows who was first. Through it: filled. Through the ask: filled.
      trade(1, 5, { side: 'sell', price: '99', total: '198' }),
      trade(2, 10, { side: 'sell', price: '98.5', total: '197' }),
      trade(3, 30, { side: 'buy', price: '100.5' }),
    ],
    claims: [claim(klines, 0, 480), claim(trades, 0, 480), claim(depth, 0, 480)],
  });
  return url;
}

test('the examples find what can be worked out by hand, and run by command', async (t) => {
  const databaseUrl = await makeArchive();
  const archive = await openArchive({ databaseUrl });
  t.after(() => archive.close());
  const market = BTC.name;
  const candles = { archive, market, intervalS: 60, from: iso(60), to: iso(481) };
  const rules = { fast: 1, slow: 3, quote: '1200', fee: '0', gaps: 'throw' } as const;
  assert.deepEqual(await movingAverage({ ...candles, to: iso(480), ...rules }), {
    candles: 7,
    gaps: 0,
    trades: [
      { at: `${iso(240).slice(0, 19)}.000000Z`, side: 'buy', price: '12' },
      { at: `${iso(420).slice(0, 19)}.000000Z`, side: 'sell', price: '9' },
    ],
    worth: '900',
  });
  const span = { archive, market, from: iso(0), to: iso(480) };
  const made = await marketMaking({ ...span, amount: '1', most: '2', gaps: 'throw' });
  const found = { books: 2, trades: 3, bought: 1, sold: 1, gaps: 0, base: '0', gain: '1' };
  assert.deepEqual(made, found);
  // Nothing is known of the last minute, neither of books nor of trades.
  const over = { ...span, to: iso(540), gaps: 'mark' } as const;
  const played = await marketMaking({ ...over, amount: '1', most: '2' });
  assert.deepEqual(played, { ...found, gaps: 2 });

  const child = spawn(
    process.execPath,
    [
      ...[
        '--import',
        'tsx',
        'docs/examples/run.ts',
        'moving-average',
        '--database-url',
        databaseUrl,
      ],
      ...['--market', market, '--from', iso(60), '--to', iso(541), '--gaps', 'ignore'],
    ],
    { cwd: repositoryPath, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  let out = '';
  child.stdout.on('data', (piece: Buffer) => {
    out += piece.toString();
  });
  const [code] = (await once(child, 'close')) as [number];
  assert.deepEqual(
    [code, out],
    [0, 'candles: 8, trades: 0, 1000 became 1000; passed over 1 gap\n'],
  );
});

test('the times of the examples may be counted back from now, as those of the commands', () => {
  const beforeMs = Date.now();
  const counted = momentOf({ from: '1.5h' }, 'from');
  assert.ok(counted instanceof Date);
  const backMs = beforeMs - counted.getTime();
  assert.ok(backMs <= 5_400_000 && backMs > 5_340_000, `${backMs} ms back`);
  assert.equal(momentOf({ to: '2026-01-31' }, 'to'), '2026-01-31');
  const now = momentOf({ to: 'now' }, 'to');
  assert.ok(now instanceof Date && now.getTime() >= beforeMs);
  assert.throws(() => momentOf({}, 'to'), /--to is missing/);
});

test('where the span of an example is not to be had, the market or what it lacks is named', async (t) => {
  const archive = await openArchive({ databaseUrl: await makeArchive() });
  t.after(() => archive.close());
  const candles = (variantS: number) => [{ kind: 'candles', variantS }];
  const of = { market: BTC.name, from: 'start' };
  await assert.rejects(
    spanOf(archive, { ...of, market: 'NOSUCH_USDT' }, candles(60)),
    /^Error: there is no market NOSUCH_USDT; the archive has BTC_USDT$/,
  );
  await assert.rejects(
    spanOf(archive, of, candles(7)),
    /^Error: there is no time in which the archive has candles of 7 s of BTC_USDT: "tapekeep status" /,
  );
  await assert.rejects(
    spanOf(archive, { ...of, from: '2031-01-01' }, candles(60)),
    /^Error: --from: the archive has nothing so new; it goes up to 2026-/,
  );
  assert.deepEqual(await spanOf(archive, of, candles(60)), {
    from: new Date(iso(60)),
    to: new Date(iso(480.001)),
  });
  // Of eight candles the first closes where the span begins, and the last where it ends.
  const all = await spanOf(archive, of, candles(60));
  const rules = { fast: 1, slow: 3, quote: '1200', fee: '0', gaps: 'throw' } as const;
  const found = await movingAverage({ archive, market: BTC.name, intervalS: 60, ...all, ...rules });
  assert.equal(found.candles, 8);
});

test('the paper trader speaks to a server of the contract as to the exchange', async (t) => {
  const { server } = await startTapeExchange(t, {}, { rateLimit: false });
  const { url: baseUrl, realtimeUrl } = server;
  const exchange = new ExchangeClient({ baseUrl, realtimeUrl });
  t.after(() => exchange.close());
  const trader = { exchange, market: 'BTC_USDT', periodS: 60, amount: '0.001' };
  const found = await paperTrader({ ...trader, records: 1 });
  assert.deepEqual(found, { records: 1, orders: [], quote: '0', base: '0' });
});

test('the paper trader ends where nothing is pushed any more', async (t) => {
  const world = await openWorld();
  const states = await world.stream('states', 60);
  await world.store.commit({
    states: [state(1, 10, { last: '100' }), state(2, 20, { last: '100' })],
    claims: [covered(states, 0, 30)],
  });
  const { server, backend } = await startReplay(t, world.store);
  const { url: baseUrl, realtimeUrl } = server;
  const exchange = new ExchangeClient({ baseUrl, realtimeUrl });
  t.after(() => exchange.close());
  const trader = { exchange, market: 'BTC_USDT', periodS: 60, amount: '1', records: 100 };
  for (const [atS, records] of [
    [25, 2],
    [500, 2], // behind the last state, which a replay shows as seen last
  ] as const) {
    backend.clockControl.seek(undefined, noonMs(atS));
    const told: string[] = [];
    const tell = (news: string) => told.push(news);
    const found = await paperTrader({ ...trader, quietMs: 1000, tell });
    assert.deepEqual([atS, found.records], [atS, records]);
    assert.match(told.join(), /^no update for a minute: a replay at its end/);
  }
});

test('on a replayed market the paper trader takes what the book offered then, and nothing of later', async (t) => {
  const world = await openWorld();
  const [states, depths] = [await world.stream('states', 60), await world.stream('depth')];
  const book = (atS: number, bid: string, ask: string) => {
    const prices = { bidPrices: [bid, '1'], askPrices: [ask, '500'] };
    return depth(atS, { ...prices, bidAmounts: ['0.6', '9'], askAmounts: ['0.75', '9'] });
  };
  await world.store.commit({
    // Up, further up, down, up, the same, down.
    states: ['100', '101', '102', '99', '100', '100', '98'].map((last, at) =>
      state(at + 1, 10 * (at + 1), { last }),
    ),
    // A millisecond after a decision there is another book, which comes too late for it.
    depths: [
      ...[book(1, '99', '101'), book(20.001, '90', '91'), book(39, '97', '103')],
      ...[book(40.001, '200', '201'), book(45, '98', '102'), book(60, '99', '103')],
      book(70, '95', '97'),
    ],
    // Between two of them states are not known.
    claims: [covered(states, 0, 42), covered(states, 48, 600), covered(depths, 0, 600)],
  });
  const { server, backend } = await startReplay(t, world.store);
  backend.clockControl.seek(undefined, noonMs(10));
  const client = new ExchangeClient({ baseUrl: server.url, realtimeUrl: server.realtimeUrl });
  t.after(() => client.close());
  const exchange = {
    depth: client.depth.bind(client),
    markets: client.markets.bind(client),
    // Time stands while the trader thinks, and goes on to what was recorded next when it waits again.
    watch(market: string, periodS: number) {
      const feed = client.watch(market, periodS);
      return {
        stop: () => feed.stop(),
        async *[Symbol.asyncIterator]() {
          for await (const event of feed) {
            if (event.kind !== 'record' || event.origin !== 'update') continue;
            yield event;
            await backend.clockControl.step(undefined, 10_000);
          }
        },
      };
    },
  };
  const trader = { exchange, market: 'BTC_USDT', periodS: 60, amount: '1' };
  assert.deepEqual(await paperTrader({ ...trader, records: 7 }), {
    records: 7,
    orders: [
      // 0.75 at 101 and 0.25 at 500; 0.6 at 97 and 0.4 at 1; 0.75 at 102 and 0.25 at 500; 0.6 at 95 and 0.4 at 1.
      { side: 'buy', amount: '1', price: '200.75' },
      { side: 'sell', amount: '1', price: '58.60' },
      { side: 'buy', amount: '1', price: '201.50' },
      { side: 'sell', amount: '1', price: '57.40' },
    ],
    quote: '-286.25',
    base: '0',
  });
  // Only what was recorded is replayed, and whoever asks for more hears of it.
  const other = paperTrader({ ...trader, exchange: client, periodS: 61, records: 1 });
  await assert.rejects(other, /^Error: no states: this market is refused over 61 s; /);
  // Orders that are none on paper are refused: nobody has a key to a recording.
  const signed = new ExchangeClient({
    ...{ baseUrl: server.url, realtimeUrl: server.realtimeUrl },
    credentials: { apiKey: 'a', secret: 'b' },
  });
  t.after(() => signed.close());
  const order = { market: 'BTC_USDT', side: 'buy', price: '1', amount: '1' } as const;
  await assert.rejects(signed.placeOrder(order), { code: 'authentication_failed' });
});
