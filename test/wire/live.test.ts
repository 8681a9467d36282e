import assert from 'node:assert/strict';
import { type TestContext, test } from 'node:test';
import { createdOrder } from '../../src/contract/resources.js';
import { addDecimals, equalDecimals, multiplyDecimals } from '../../src/kernel/decimal.js';
import { STILL_MARKET, startTestLive, Trader } from '../support/exchanges/live-exchange.js';

/** What people with API keys do at a live exchange, over real sockets with signed requests. */

const MARKET = STILL_MARKET.name;
const INVALID = {
  status: 400,
  body: { code: 400, success: false, message: 'invalid input', result: [] },
};

async function open(t: TestContext) {
  const keys = [
    { key: 'alice', secret: 'a-secret', balances: { AAA: '10', ZZZ: '0.00' } },
    { key: 'bob', secret: 'b-secret', balances: { ZZZ: '1000' } },
  ];
  const live = await startTestLive(t, { runId: 'test', keys, markets: [STILL_MARKET] });
  const trader = (key: string) => new Trader(live.server.url, key, `${key.slice(0, 1)}-secret`);
  return { ...live, alice: trader('alice'), bob: trader('bob') };
}

const place = (trader: Trader, side: string, price: string, amount: string, market = MARKET) =>
  trader.post('/api/v1/order/new', { market, side, price, amount });

test('an order rests, is filled in part at the price of the maker, and is finished', async (t) => {
  const { alice, bob, server, backend } = await open(t);
  const resting = await alice.order(MARKET, 'sell', '100.5', '4');
  assert.deepEqual(createdOrder.parse(resting), resting, 'the shape of the contract');
  const { orderId, timestamp, ...shown } = resting;
  assert.deepEqual(shown, {
    market: MARKET,
    side: 'sell',
    type: 'limit',
    price: '100.50',
    amount: '4.0000',
    left: '4',
    dealStock: '0',
    dealMoney: '0',
    takerFee: '0.002',
    makerFee: '0.001',
  });
  assert.equal(timestamp, backend.nowMs() / 1000);
  assert.deepEqual((await alice.balances()).AAA, { available: '6', freeze: '4' });

  const taken = await bob.order(MARKET, 'buy', '101', '1.5');
  assert.deepEqual([taken.left, taken.dealStock, taken.dealMoney], ['0', '1.5', '150.75']);
  const { total, result } = await alice.orders(MARKET);
  assert.equal(total, 1);
  assert.deepEqual(
    [result[0]?.id, result[0]?.left, result[0]?.dealStock, result[0]?.dealMoney],
    [orderId, '2.5', '1.5', '150.75'],
  );
  assert.deepEqual((await bob.orders(MARKET)).result, [], 'a finished order is not active');
  // Fees come out of what each side gets: 0.2 % of the stock, 0.1 % of the money.
  assert.deepEqual((await bob.balances()).AAA, { available: '1.497', freeze: '0' });
  assert.deepEqual((await bob.balances()).ZZZ, { available: '849.25', freeze: '0' });
  assert.deepEqual((await alice.balances()).ZZZ, { available: '150.59925', freeze: '0' });

  const url = `${server.url}/api/v1/public/history/result?market=${MARKET}&since=0&limit=1`;
  const [trade] = (await (await fetch(url)).json()) as [Record<string, unknown>];
  const { tid, ...fields } = trade;
  assert.ok(Number.isSafeInteger(tid));
  assert.deepEqual(fields, {
    date: Math.floor(backend.nowMs() / 1000),
    price: '100.50',
    type: 'buy',
    amount: '1.5000',
    total: '150.75',
  });
  assert.equal(backend.ticker(MARKET).last, '100.50');
  const [ask] = backend.depth(MARKET, 1).asks;
  assert.deepEqual(ask, ['100.50', '2.5000']);

  const rest = await bob.order(MARKET, 'buy', '100.5', '3');
  assert.deepEqual([rest.left, rest.dealStock], ['0.5', '2.5'], 'what is left of the taker rests');
  assert.deepEqual((await bob.balances()).ZZZ?.freeze, '50.25');
  assert.deepEqual((await alice.orders(MARKET)).total, 0);
});

test('orders that cannot be are refused and change nothing', async (t) => {
  const { alice, bob, backend } = await open(t);
  const before = backend.book(MARKET, 'buy', 0, 100);
  const refusals: Array<[string, Trader, string, string, string]> = [
    ['more stock than available', alice, 'sell', '100', '10.0001'],
    ['no money at all', alice, 'buy', '100', '1'],
    ['more money than available', bob, 'buy', '100', '10.01'],
    ['below the least amount', bob, 'buy', '100', '0.4999'],
    ['too fine a price', bob, 'buy', '99.999', '1'],
    ['too fine an amount', bob, 'buy', '99', '1.00001'],
    ['a price of zero', bob, 'buy', '0', '1'],
    ['a negative amount', bob, 'buy', '1', '-1'],
    ['a price beyond all bounds', alice, 'sell', '9'.repeat(40), '1'],
    ['a price that no column holds', alice, 'sell', '9'.repeat(20), '1'],
  ];
  for (const [what, trader, side, price, amount] of refusals) {
    assert.deepEqual(await place(trader, side, price, amount), INVALID, what);
  }
  assert.deepEqual(await place(bob, 'buy', '1', '1', 'NIL_ZZZ'), INVALID);
  assert.deepEqual(backend.book(MARKET, 'buy', 0, 100), before);
  assert.deepEqual((await bob.balances()).ZZZ, { available: '1000', freeze: '0' });
  const exact = await bob.order(MARKET, 'buy', '1e2', '5');
  assert.equal(exact.left, '5', 'exponents mean what they mean');
  assert.deepEqual((await bob.balances()).ZZZ, { available: '500', freeze: '500' });
  assert.deepEqual(await place(bob, 'buy', '100', '5.0001'), INVALID, 'frozen money is not there');
});

test('in a busy market a user trades with the simulated traders', async (t) => {
  const keys = [{ key: 'carol', secret: 'c-secret' }];
  const { server, backend, clock } = await startTestLive(t, { runId: 'test', keys });
  const carol = new Trader(server.url, 'carol', 'c-secret');
  assert.equal((await carol.balances()).BTC?.available, '10000');
  const depth = backend.depth('BTC_USDT', 3).asks;
  const amount = depth.map(([, each]) => each).reduce(addDecimals, '0');
  const cost = depth.map(([price, each]) => multiplyDecimals(price, each)).reduce(addDecimals, '0');
  backend.marketControl.deposit('carol', 'USDT', '100000000');
  await carol.order('BTC_USDT', 'buy', depth[2]?.[0] ?? '', amount);
  const taken = backend.trades('BTC_USDT', 0, 100);
  const nowUs = backend.nowMs() * 1000;
  const mine = taken.filter(({ timeUs, side }) => timeUs === nowUs && side === 'buy');
  assert.ok(mine.length >= 3);
  assert.ok(equalDecimals(mine.map((trade) => trade.amount).reduce(addDecimals, '0'), amount));
  assert.ok(equalDecimals(mine.map(({ total }) => total).reduce(addDecimals, '0'), cost));
  // An offer just above the best bid is taken by the next seller.
  const bid = backend.depth('BTC_USDT', 1).bids[0]?.[0] ?? '0';
  const own = await carol.order('BTC_USDT', 'buy', addDecimals(bid, '0.01'), '0.0001');
  assert.equal(own.left, '0.0001');
  for (let minute = 0; minute < 30; minute += 1) clock.advance(60_000);
  assert.equal((await carol.orders('BTC_USDT')).total, 0, 'filled within half an hour');
});

test('a key that is not activated signs in vain; its account takes funds and waits', async (t) => {
  const keys = [
    { name: 'dora', key: 'd-key', secret: 'd-secret', balances: { AAA: '10' }, isActive: false },
    { name: 'eve', key: 'e-key', secret: 'e-secret', balances: { AAA: '10' } },
  ];
  const live = await startTestLive(t, { runId: 'test', keys, markets: [STILL_MARKET] });
  const { server, backend } = live;
  const failure = { ...INVALID.body, message: 'authentication failure' };
  const dora = new Trader(server.url, 'd-key', 'd-secret');
  const paths = ['/api/v1/account/balances', '/api/v1/orders', '/api/v1/public/markets'];
  for (const path of paths) {
    assert.deepEqual(await dora.post(path, { market: MARKET }), { status: 400, body: failure });
  }
  assert.deepEqual((await place(dora, 'sell', '100', '1')).body, failure);
  assert.deepEqual((await new Trader(server.url, 'e-key', 'e-secret').balances()).AAA, {
    available: '10',
    freeze: '0',
  });
  backend.marketControl.deposit('d-key', 'AAA', '2');
  assert.equal(backend.balances('d-key').AAA?.available, '12');
});
