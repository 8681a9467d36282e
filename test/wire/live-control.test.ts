import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import type { BackendTrade } from '../../src/server/backend.js';
import {
  LIVE_START_MS,
  STILL_MARKET,
  startTestLive,
  Trader,
} from '../support/exchanges/live-exchange.js';
import { TapeSocket } from '../support/exchanges/tape-socket.js';

/** A live exchange changed from outside while clients use it, over real sockets. */

const BTC = 'BTC_USDT';
const ETH = 'ETH_USDT';
const KEYS = [{ name: 'alice', key: 'a-key', secret: 's', balances: { USDT: '1000' } }];
const OPTIONS = { runId: 'test', keys: KEYS, markets: [BTC, ETH] };
const INVALID = { code: 400, success: false, message: 'invalid input', result: [] };

interface Told {
  readonly success: boolean;
  readonly message: string;
  readonly result: Record<string, unknown>;
}

async function open(t: TestContext, options: Parameters<typeof startTestLive>[1] = OPTIONS) {
  const live = await startTestLive(t, options, {}, true);
  const { url } = live.server;
  const steer = async (path: string, body: unknown, headers: Record<string, string> = {}) => {
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const response = await fetch(`${url}/sandbox/${path}`, { method: 'POST', body: text, headers });
    return { status: response.status, told: (await response.json()) as Told };
  };
  const done = async (path: string, body: unknown) => {
    const { status, told } = await steer(path, body);
    assert.equal(status, 200, told.message);
    return told.result;
  };
  const get = async (path: string) => {
    const response = await fetch(`${url}/api/v1/public/${path}`);
    const body = (await response.json()) as Told & { result: Array<Record<string, unknown>> };
    return { status: response.status, body };
  };
  const names = async (path: string, field: string) =>
    (await get(path)).body.result.map((entry) => entry[field]);
  const markets = async () => {
    const response = await fetch(`${url}/sandbox/markets`);
    return ((await response.json()) as { result: Array<Record<string, unknown>> }).result;
  };
  return { ...live, steer, done, get, names, markets, alice: new Trader(url, 'a-key', 's') };
}

test('orders are blocked in one market while the other trades, and taken again', async (t) => {
  const { alice, done, backend, clock, markets } = await open(t);
  const order = (market: string) =>
    alice.post('/api/v1/order/new', { market, side: 'buy', price: '1', amount: '0.01' });
  assert.equal((await done('markets/block', { market: BTC })).blocked, true);
  const refused = await order(BTC);
  assert.deepEqual(refused, { status: 400, body: { ...INVALID, message: 'operation blocked' } });
  assert.equal((await order(ETH)).status, 200);
  const [newestBtc, newestEth] = [BTC, ETH].map((market) => backend.trades(market, 0, 1)[0]?.id);
  clock.advance(600_000);
  assert.equal(
    backend.trades(BTC, 0, 1)[0]?.id,
    newestBtc,
    'nobody trades where orders are blocked',
  );
  assert.notEqual(backend.trades(ETH, 0, 1)[0]?.id, newestEth);
  assert.deepEqual(
    (await markets()).map(({ name, blocked }) => [name, blocked]),
    [
      [ETH, false],
      [BTC, true],
    ].reverse(),
  );
  await done('markets/unblock', { market: BTC });
  assert.equal((await order(BTC)).status, 200);
  clock.advance(600_000);
  assert.notEqual(backend.trades(BTC, 0, 1)[0]?.id, newestBtc);
});

test('a market that is created while clients run is listed, traded, watched and told', async (t) => {
  const { done, get, names, clock, server, backend } = await open(t);
  const description = { name: 'XMR_EUR', moneyPrec: 3, stockPrec: 2, minAmount: '0.05' };
  const made = await done('markets', {
    ...description,
    ...{ stock: 'XMR', money: 'EUR', basePrice: '150', usualAmount: '2', activity: 0.5 },
    ...{ takerFee: '0.003', makerFee: '0' },
  });
  assert.deepEqual(made, {
    ...{ ...description, stock: 'XMR', money: 'EUR', feePrec: 4 },
    ...{ takerFee: '0.003', makerFee: '0', basePrice: '150', usualAmount: '2', activity: 0.5 },
    ...{ listed: true, blocked: false },
  });
  assert.deepEqual(await names('markets', 'name'), [BTC, ETH, 'XMR_EUR']);
  assert.deepEqual(await names('products', 'id'), [BTC, ETH, 'XMR_EUR']);
  const socket = await TapeSocket.open(t, server.realtimeUrl);
  const { result } = await socket.ask('state.subscribe', ['XMR_EUR', 60]);
  assert.deepEqual(result, { status: 'success' });
  clock.advance(600_000);
  const tickers = (await get('tickers')).body.result as unknown as Record<string, object>;
  assert.deepEqual(Object.keys(tickers), [BTC, ETH, 'XMR_EUR']);
  const trades = (await get('history?market=XMR_EUR&limit=1000')).body.result;
  assert.ok(trades.length > 100, `${trades.length} trades`);
  assert.ok(trades.every(({ time }) => Number(time) * 1000 >= LIVE_START_MS));
  const [sell] = backend.book('XMR_EUR', 'sell', 0, 1).rows;
  assert.deepEqual([sell?.takerFee, sell?.makerFee], ['0.003', '0']);
});

test('a delisted market is refused everywhere, gives back what was frozen, and stays true', async (t) => {
  const { alice, done, get, names, server, backend, markets } = await open(t);
  await alice.order(BTC, 'buy', '1', '0.01');
  assert.equal((await alice.balances()).USDT?.freeze, '0.01');
  const truth = [...backend.truth(BTC)];
  assert.equal((await done('markets/delist', { market: BTC })).listed, false);
  assert.deepEqual(await names('markets', 'name'), [ETH]);
  assert.deepEqual((await alice.balances()).USDT, { available: '1000', freeze: '0' });
  for (const path of [
    `history?market=${BTC}`,
    `history/result?market=${BTC}&since=0`,
    `depth/result?market=${BTC}`,
    `book?market=${BTC}&side=buy`,
    `ticker?market=${BTC}`,
    `kline?market=${BTC}&start=0&end=60`,
  ]) {
    assert.deepEqual(await get(path), { status: 400, body: INVALID }, path);
  }
  const placed = await alice.post('/api/v1/order/new', {
    ...{ market: BTC, side: 'buy', price: '1', amount: '0.01' },
  });
  assert.deepEqual(placed, { status: 400, body: INVALID });
  const told = await (await fetch(`${server.url}/sandbox/truth?market=${BTC}`)).text();
  const lines = told
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as BackendTrade);
  assert.deepEqual(lines, truth);
  assert.deepEqual(
    (await markets()).map(({ name, listed }) => [name, listed]),
    [
      [ETH, true],
      [BTC, false],
    ],
  );
});

test('a market comes back with other precisions, and keeps what nobody said anew', async (t) => {
  const { done, get, clock, backend } = await open(t);
  const before = (await get(`history?market=${ETH}&limit=1000`)).body.result;
  await done('markets/delist', { market: ETH });
  clock.advance(60_000);
  const again = await done('markets', { name: ETH, moneyPrec: 4 });
  assert.deepEqual([again.moneyPrec, again.stockPrec, again.basePrice], [4, 5, '3200']);
  const shown = (await get('markets')).body.result.find(({ name }) => name === ETH);
  assert.equal(shown?.moneyPrec, 4);
  clock.advance(60_000);
  const ids = (page: ReadonlyArray<Record<string, unknown>>) => page.map(({ id }) => Number(id));
  const after = (await get(`history?market=${ETH}&limit=1000`)).body.result;
  const old = after.filter(({ id }) => ids(before).includes(Number(id)));
  assert.ok(after.length > old.length && old.length > 500);
  for (const { id, price, amount } of old) {
    const was = before.find((trade) => trade.id === id);
    assert.deepEqual([Number(price), Number(amount)], [Number(was?.price), Number(was?.amount)]);
  }
  const [newest] = after;
  assert.match(String(newest?.price), /\.\d{4}$/);
  assert.match(backend.depth(ETH, 1).bids[0]?.[0] ?? '', /\.\d{4}$/);
});

test('a deposit goes to the account of a key or of its name', async (t) => {
  const { alice, done } = await open(t);
  await done('deposits', { account: 'a-key', currency: 'BTC', amount: '1.5' });
  const told = await done('deposits', { account: 'alice', currency: 'USDT', amount: '0.25' });
  assert.deepEqual(told, { account: 'alice', balances: await alice.balances() });
  const { BTC: btc, USDT: usdt } = await alice.balances();
  assert.deepEqual([btc?.available, usdt?.available], ['1.5', '1000.25']);
});

test('what is not possible is refused with field, value and what is allowed; nothing changes', async (t) => {
  const { steer, markets } = await open(t);
  const before = await markets();
  const deposit = { account: 'alice', currency: 'USDT', amount: '1' };
  for (const [path, body, text] of [
    ['markets', '{"name":', /JSON/],
    ['markets', '', /JSON/],
    ['markets', 5, /market: 5 .*a name or an object/],
    ['markets', {}, /name is missing; .*3 to 64/],
    ['markets', { name: 'A B_C' }, /name "A B_C".*without spaces/],
    ['markets', { name: 'XMR' }, /"XMR".*<STOCK>_<MONEY>/],
    ['markets', { name: 'XMR_XMR' }, /"XMR_XMR".*two different/],
    ['markets', { name: BTC }, /BTC_USDT is listed already/],
    ['markets', { name: 'XMR_EUR', moneyPrec: 13 }, /moneyPrec 13 .*0 to 12/],
    ['markets', { name: 'XMR_EUR', stockPrec: '4' }, /stockPrec "4" .*whole number/],
    ['markets', { name: 'XMR_EUR', minAmount: 0.5 }, /minAmount 0\.5 .*as text/],
    ['markets', { name: 'XMR_EUR', minAmount: '0.00001' }, /minAmount "0\.00001".*4 places/],
    ['markets', { name: 'XMR_EUR', basePrice: '-1' }, /basePrice "-1"/],
    ['markets', { name: 'XMR_EUR', activity: 2 }, /activity 2 .*up to 1/],
    ['markets', { name: 'XMR_EUR', takerFee: '1' }, /takerFee "1" .*below 1/],
    ['markets', { name: 'XMR_EUR', stock: 'BTC' }, /stock "BTC".*"XMR"/],
    ['markets', { name: 'XMR_EUR', color: 'red' }, /color "red".*only name, stock/],
    ['markets/delist', { market: 'NO_SUCH' }, /"NO_SUCH".*BTC_USDT, ETH_USDT/],
    ['markets/block', { market: 7 }, /^market 7 .*a text/],
    ['markets/unblock', {}, /^market is missing.*a text/],
    ['markets/block', { market: BTC, how: 'x' }, /^how "x" is not allowed; expected only market$/],
    ['markets/block', '[]', /^\[\] is not allowed; expected an object with only market$/],
    ['markets/block', '', /body is empty; expected JSON/],
    ['deposits', { account: 'alice', currency: 'BTC' }, /^amount is missing.*a text/],
    ['deposits', { ...deposit, account: 'bob' }, /account.*"bob"/],
    ['deposits', { ...deposit, currency: 'DOGE' }, /currency.*"DOGE".*BTC/],
    ['deposits', { ...deposit, amount: '-1' }, /^amount "-1".*above zero/],
    ['deposits', { ...deposit, amount: 1 }, /amount 1 .*a text/],
  ] as const) {
    const { status, told } = await steer(path, body);
    assert.deepEqual([status, told.success], [400, false], told.message);
    assert.match(told.message, text);
  }
  const packed = await steer('markets/delist', { market: BTC }, { 'content-encoding': 'gzip' });
  assert.deepEqual([packed.status, /gzip/.test(packed.told.message)], [400, true]);
  const page = await steer('markets/delist', { market: BTC }, { origin: 'https://evil.test' });
  assert.equal(page.status, 403);
  assert.deepEqual(await markets(), before);
});

test('an exchange that repeats itself is not changed; without control there is no way to try', async (t) => {
  const { steer, server } = await open(t, { markets: [BTC] });
  for (const [path, body] of [
    ['markets', { name: 'XMR_EUR' }],
    ['markets/delist', { market: BTC }],
    ['markets/block', { market: BTC }],
  ] as const) {
    const { status, told } = await steer(path, body);
    assert.equal(status, 400);
    assert.match(told.message, /repeats itself.*--run/);
  }
  assert.equal((await fetch(`${server.url}/sandbox/markets`)).status, 200);
  const closed = await startTestLive(t, OPTIONS);
  for (const path of ['markets', 'markets/delist', 'markets/block', 'deposits', 'truth']) {
    const reply = await fetch(`${closed.server.url}/sandbox/${path}`, {
      method: 'POST',
      body: '{}',
    });
    assert.equal(reply.status, 404, path);
  }
});

test('what is done to one market leaves the others trade for trade as they would have been', async (t) => {
  const changed = await open(t);
  const alone = await open(t);
  const advance = (ms: number) => {
    changed.clock.advance(ms);
    alone.clock.advance(ms);
  };
  advance(300_000);
  await changed.done('markets', { name: 'XMR_EUR', activity: 0.6 });
  advance(300_000);
  await changed.done('markets/block', { market: BTC });
  advance(300_000);
  await changed.done('markets/delist', { market: BTC });
  // Past the full hour, where all traders start over.
  advance(3_600_000);
  await changed.done('markets', { name: BTC, moneyPrec: 1 });
  advance(300_000);
  // Ids are one counter over all markets.
  const traded = ({ backend }: typeof changed, market: string) =>
    Array.from(backend.truth(market), ({ id: _id, ...trade }) => trade);
  assert.ok(traded(alone, ETH).length > 1000);
  assert.deepEqual(traded(changed, ETH), traded(alone, ETH));
  assert.notDeepEqual(traded(changed, BTC), traded(alone, BTC));
  const levels = (side: 'asks' | 'bids') =>
    [changed, alone].map((one) => one.backend.depth(ETH, 1000)[side]);
  for (const side of ['asks', 'bids'] as const) assert.deepEqual(levels(side)[0], levels(side)[1]);
});

test('the truth comes in pages that name the next one, each bounded', async (t) => {
  const { server, backend, clock } = await open(t, { ...OPTIONS, markets: [STILL_MARKET, BTC] });
  clock.advance(1_200_000);
  const truth = [...backend.truth(BTC)];
  const pages: BackendTrade[][] = [];
  const from = (truth[10]?.timeUs ?? 0) / 1e6;
  const to = (truth.at(-10)?.timeUs ?? 0) / 1e6;
  let next: string | undefined =
    `/sandbox/truth?market=${BTC}&limit=200&from=${from.toFixed(6)}&to=${to.toFixed(6)}`;
  while (next !== undefined) {
    const reply: Response = await fetch(server.url + next);
    const text = (await reply.text()).trimEnd();
    pages.push(text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as BackendTrade));
    next = /^<([^>]+)>; rel="next"$/.exec(reply.headers.get('link') ?? '')?.[1];
  }
  assert.ok(pages.length > 5);
  assert.ok(pages.slice(0, -1).every(({ length }) => length === 200));
  assert.deepEqual(
    pages.flat(),
    truth.filter(({ timeUs }) => timeUs >= from * 1e6 && timeUs < to * 1e6),
  );
  for (const [query, text] of [
    ['limit=0', /limit "0" .*1 to 10000/],
    ['limit=10001', /limit "10001"/],
    ['after=x', /after "x" .*id/],
    ['from=20&to=10', /from "20" is not allowed; expected a time before "to"/],
    ['from=20&to=20', /from "20"/],
  ] as const) {
    const reply = await fetch(`${server.url}/sandbox/truth?market=${BTC}&${query}`);
    assert.equal(reply.status, 400);
    assert.match(((await reply.json()) as Told).message, text);
  }
});

test('what a long run has forgotten is refused as such, and told when asked for what is held', async (t) => {
  const { server, backend, clock } = await open(t, { markets: ['LTC_USDT'] });
  for (let hour = 0; hour < 27; hour += 1) {
    clock.advance(3_600_000);
    backend.tickers();
  }
  const ask = (query: string) => fetch(`${server.url}/sandbox/truth?market=LTC_USDT${query}`);
  const refused = await ask('');
  assert.equal(refused.status, 400);
  const { message } = (await refused.json()) as Told;
  const held = /from=(\d+\.\d{6}) or later.*--keep-all/.exec(message)?.[1];
  assert.ok(held !== undefined, message);
  const told = await ask(`&from=${held}`);
  assert.equal(told.status, 200);
  assert.ok((await told.text()).split('\n').length > 50);
});
