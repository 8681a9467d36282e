import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OrderState } from '../../../../src/sandbox/engine/book.js';
import { MatchingEngine } from '../../../../src/sandbox/engine/engine.js';
import type { LimitOrderText, MarketRules } from '../../../../src/sandbox/engine/market.js';
import type { Trade } from '../../../../src/sandbox/engine/matching.js';
import {
  createdOrderView,
  depthView,
  openOrderView,
} from '../../../../src/sandbox/engine/views.js';
import { EngineError, Rejection } from '../../../../src/sandbox/errors.js';
import { placeText } from './invariants.js';

const BTC_USDT: MarketRules = {
  name: 'BTC_USDT',
  stock: 'BTC',
  money: 'USDT',
  stockPrec: 6,
  moneyPrec: 2,
  feePrec: 4,
  minAmount: '0.0001',
  takerFee: '0.002',
  makerFee: '0.001',
};

interface Desk {
  readonly engine: MatchingEngine;
  readonly trades: Trade[];
  /** Places an order that must be taken. */
  place(account: string, side: 'buy' | 'sell', price: string, amount: string): OrderState;
  /** The reason why an order is refused. */
  refusal(order: Partial<LimitOrderText>): string;
}

function openDesk(rules: MarketRules = BTC_USDT): Desk {
  const trades: Trade[] = [];
  const engine = new MatchingEngine({
    onTrade: (trade) => trades.push(trade),
    maxOpenOrders: 5,
  });
  engine.addMarket(rules);
  for (const account of ['ann', 'bob']) {
    engine.deposit(account, rules.stock, '10');
    engine.deposit(account, rules.money, '1000000');
  }
  const text = { account: 'ann', market: rules.name, side: 'buy', price: '1', timeUs: 7 } as const;
  return {
    engine,
    trades,
    place(account, side, price, amount) {
      const order = placeText(engine, { ...text, account, side, price, amount });
      if (order instanceof Rejection) assert.fail(order.message);
      return order;
    },
    refusal(order) {
      const done = placeText(engine, { ...text, amount: '1', ...order });
      return done instanceof Rejection ? done.reason : assert.fail('the order was taken');
    },
  };
}

const held = (available: string, freeze = '0') => ({ available, freeze });

test('a taker is filled at the makers’ prices, best and oldest first; fees go out of proceeds', () => {
  const { engine, trades, place } = openDesk();
  place('ann', 'sell', '101', '1');
  place('ann', 'sell', '100', '1');
  place('ann', 'sell', '100.00', '2');
  assert.deepEqual(engine.balances('ann').BTC, held('6', '4'));
  const taken = place('bob', 'buy', '100.5', '2.5');
  assert.equal(taken.left, 0n);
  assert.deepEqual(
    trades.map(
      ({ market: _market, makerOrderId: _maker, takerOrderId: _taker, ...trade }) => trade,
    ),
    [
      { id: 1, timeUs: 7, price: 10_000n, amount: 1_000_000n, total: 10n ** 10n, takerSide: 'buy' },
      {
        id: 2,
        timeUs: 7,
        price: 10_000n,
        amount: 1_500_000n,
        total: 15n * 10n ** 9n,
        takerSide: 'buy',
      },
    ],
  );
  assert.deepEqual(
    trades.map(({ makerOrderId, takerOrderId }) => [makerOrderId, takerOrderId]),
    [
      [2, 4],
      [3, 4],
    ],
  );
  // Bob pays 250 and gets 2.5 less 0.2 %; Ann gets 250 less 0.1 %.
  assert.deepEqual(engine.balances('bob'), { BTC: held('12.495'), USDT: held('999750') });
  assert.deepEqual(engine.balances('ann'), { BTC: held('6', '1.5'), USDT: held('1000249.75') });
  assert.deepEqual(
    engine.depth('BTC_USDT', 'sell', 9).map((level) => depthView(level, BTC_USDT)),
    [
      ['100.00', '0.500000'],
      ['101.00', '1.000000'],
    ],
  );
});

test('a cheaper fill gives back the difference at once; what rests is frozen at its own price', () => {
  const { engine, place } = openDesk();
  place('ann', 'sell', '90', '1');
  const order = place('bob', 'buy', '100', '3');
  assert.deepEqual(engine.balances('bob').USDT, held('999710', '200'));
  assert.deepEqual(createdOrderView(order, BTC_USDT), {
    orderId: 2,
    market: 'BTC_USDT',
    price: '100.00',
    amount: '3.000000',
    left: '2',
    type: 'limit',
    side: 'buy',
    timestamp: 0.000007,
    takerFee: '0.002',
    makerFee: '0.001',
    dealStock: '1',
    dealMoney: '90',
  });
  // Now bob is the maker: he pays what he had frozen, and the maker's fee.
  const seller = place('ann', 'sell', '95', '2');
  assert.equal(openOrderView(seller, BTC_USDT).left, '0');
  assert.equal(openOrderView(order, BTC_USDT).left, '0');
  assert.equal(openOrderView(order, BTC_USDT).dealMoney, '290');
  assert.deepEqual(engine.balances('bob').USDT, held('999710'));
  assert.deepEqual(engine.balances('bob').BTC, held('12.996'));
  assert.equal(engine.order(order.id), undefined, 'finished orders are not kept');
});

test('every refusal has its reason, changes nothing and becomes the contract’s error', () => {
  const { engine, refusal, place } = openDesk();
  const before = [engine.balances('ann'), engine.balances('bob')];
  assert.equal(refusal({ market: 'XRP_USDT' }), 'unknownMarket');
  assert.equal(refusal({ price: '1.001' }), 'precisionExceeded');
  assert.equal(refusal({ amount: '0.1234567' }), 'precisionExceeded');
  for (const price of ['0', '0.00', '-1', '-0']) assert.equal(refusal({ price }), 'notPositive');
  assert.equal(refusal({ amount: '0.000000' }), 'notPositive');
  assert.equal(refusal({ amount: '-2' }), 'notPositive');
  assert.equal(refusal({ amount: '0.000099' }), 'belowMinAmount');
  assert.equal(refusal({ price: `1${'0'.repeat(30)}` }), 'tooManyDigits');
  assert.equal(refusal({ amount: '9'.repeat(31) }), 'tooManyDigits');
  for (const price of ['', '1e2', 'NaN', '.5', '1.', ' 1', '1'.repeat(10_000)]) {
    assert.equal(refusal({ price }), 'notDecimal');
  }
  assert.equal(refusal({ price: '1000000.01' }), 'fundsShort');
  assert.equal(refusal({ side: 'sell', amount: '10.000001' }), 'fundsShort');
  assert.equal(refusal({ account: 'nobody' }), 'fundsShort');
  engine.setBlocked('BTC_USDT', true);
  assert.equal(refusal({}), 'blocked');
  engine.setBlocked('BTC_USDT', false);
  assert.deepEqual([engine.balances('ann'), engine.balances('bob')], before);
  assert.equal(engine.cancel(1) instanceof Rejection, true);

  for (let count = 0; count < 5; count += 1) place('ann', 'buy', '1', '1');
  assert.equal(refusal({}), 'tooManyOrders');
  const refusalOf = (reason: 'blocked' | 'fundsShort') =>
    new Rejection(reason, '').toError().refusal;
  assert.equal(refusalOf('blocked'), 'operationBlocked');
  assert.equal(refusalOf('fundsShort'), 'invalidInput');
});

test('the last unit of a balance can be spent, and not one more', () => {
  const { engine, refusal, place } = openDesk();
  place('ann', 'buy', '333333.33', '3');
  assert.deepEqual(engine.balances('ann').USDT, held('0.01', '999999.99'));
  assert.equal(refusal({ price: '0.02' }), 'fundsShort');
  place('ann', 'buy', '0.01', '1');
  assert.deepEqual(engine.balances('ann').USDT, held('0', '1000000'));
});

test('cancelling releases what is left, once', () => {
  const { engine, place } = openDesk();
  const order = place('bob', 'buy', '100', '3');
  place('ann', 'sell', '100', '1');
  const done = engine.cancel(order.id);
  assert.ok(!(done instanceof Rejection));
  assert.equal(done.left, 2_000_000n);
  assert.deepEqual(engine.balances('bob').USDT, held('999900'));
  assert.equal(engine.book('BTC_USDT', 'buy', 0, 9).total, 0);
  assert.ok(engine.cancel(order.id) instanceof Rejection);
});

test('delisting cancels everything and releases all funds; the name can be listed anew', () => {
  const { engine, refusal, place } = openDesk();
  place('ann', 'sell', '101', '4');
  place('ann', 'sell', '102', '4');
  place('bob', 'buy', '99.5', '1');
  assert.equal(engine.delistMarket('BTC_USDT'), 3);
  assert.deepEqual(engine.balances('ann'), { BTC: held('10'), USDT: held('1000000') });
  assert.deepEqual(engine.balances('bob'), { BTC: held('10'), USDT: held('1000000') });
  assert.equal(refusal({}), 'unknownMarket');
  assert.ok(engine.delistMarket('BTC_USDT') instanceof Rejection);
  assert.deepEqual(engine.markets(), []);

  // Other precisions, also such that balances must be counted in smaller units.
  engine.addMarket({ ...BTC_USDT, stockPrec: 12, moneyPrec: 8, minAmount: '0' });
  const order = place('bob', 'buy', '0.00000001', '0.000000000001');
  assert.equal(order.id, 4, 'ids go on');
  assert.deepEqual(
    engine.balances('bob').USDT,
    held('999999.99999999999999999999', `0.${'0'.repeat(19)}1`),
  );
  assert.equal(engine.activeOrders('bob', 'BTC_USDT', 0, 9).total, 1);
});

test('eighteen places, 10^15 of each, and the smallest amounts are exact to the last digit', () => {
  const rules: MarketRules = {
    ...BTC_USDT,
    stockPrec: 18,
    moneyPrec: 18,
    minAmount: '0.000000000000000001',
    takerFee: '0.9999',
    makerFee: '0.0001',
  };
  const { engine, place } = openDesk(rules);
  engine.deposit('ann', 'BTC', '999999999999990');
  engine.deposit('bob', 'USDT', `1${'0'.repeat(29)}`);
  const price = '12345678901234.000000000000000001';
  place('ann', 'sell', price, '999999999999999.999999999999999999');
  place('bob', 'buy', price, '999999999999999.999999999999999998');
  assert.deepEqual(
    engine.balances('ann').BTC,
    held('0.000000000000000001', `0.${'0'.repeat(17)}1`),
  );
  // 10^15 − 2 units, of which the taker keeps one part in 10,000.
  assert.equal(engine.balances('bob').BTC?.available, '100000000009.9999999999999999999998');
  place('bob', 'buy', price, '0.000000000000000001');
  assert.equal(engine.book(rules.name, 'sell', 0, 1).total, 0);
  for (const { holdings, fees, deposited } of engine.currencies()) {
    let sum = fees.available;
    for (const { available, freeze } of holdings.values()) sum += available + freeze;
    assert.equal(sum, deposited);
  }
});

test('prices beyond 2^53 units keep their order beside smaller ones', () => {
  const { engine, place } = openDesk({ ...BTC_USDT, moneyPrec: 18 });
  engine.deposit('bob', 'USDT', '10000000');
  const prices = ['0.009007199254740991', '0.009007199254740993', '0.009007199254740992', '0.5'];
  for (const price of prices) place('bob', 'buy', price, '1');
  assert.deepEqual(
    engine.book('BTC_USDT', 'buy', 0, 9).rows.map(({ id }) => id),
    [4, 2, 3, 1],
  );
  place('ann', 'sell', '0.009007199254740993', '3');
  assert.deepEqual(
    engine.book('BTC_USDT', 'buy', 0, 9).rows.map(({ id }) => id),
    [3, 1],
  );
});

test('one account may fill itself; it then pays both fees', () => {
  const { engine, place, trades } = openDesk();
  place('ann', 'sell', '100', '1');
  place('ann', 'buy', '100', '1');
  assert.equal(trades.length, 1);
  assert.deepEqual(engine.balances('ann'), { BTC: held('9.998'), USDT: held('999999.9') });
});

test('ids and times are one sequence over all markets; times never go back', () => {
  const { engine, trades } = openDesk();
  engine.addMarket({ ...BTC_USDT, name: 'USDT_BTC', stock: 'USDT', money: 'BTC' });
  const ids = [50, 40, 60, 55].map((timeUs, index) => {
    const side = index < 2 ? ('sell' as const) : ('buy' as const);
    const market = index % 2 === 0 ? 'BTC_USDT' : 'USDT_BTC';
    const order = placeText(engine, {
      account: 'ann',
      market,
      side,
      price: '1',
      amount: '1',
      timeUs,
    });
    return order instanceof Rejection ? assert.fail(order.message) : order.id;
  });
  assert.deepEqual(ids, [1, 2, 3, 4]);
  assert.deepEqual(
    trades.map(({ id, market, timeUs }) => [id, market, timeUs]),
    [
      [1, 'BTC_USDT', 60],
      [2, 'USDT_BTC', 60],
    ],
  );
});

test('listeners see the finished operation and may not change the engine', () => {
  const seen: unknown[] = [];
  const engine: MatchingEngine = new MatchingEngine({
    onTrade({ id, takerOrderId }) {
      seen.push([id, takerOrderId, engine.balances('ann').USDT?.freeze]);
      assert.throws(() => engine.cancel(takerOrderId), EngineError);
    },
  });
  engine.addMarket(BTC_USDT);
  engine.advanceIds(100);
  engine.deposit('ann', 'BTC', '10');
  engine.deposit('ann', 'USDT', '1000');
  const order = { account: 'ann', market: 'BTC_USDT', price: '10', timeUs: 0 };
  placeText(engine, { ...order, side: 'sell', amount: '1' });
  placeText(engine, { ...order, side: 'buy', amount: '3' });
  assert.deepEqual(seen, [[100, 101, '20']], 'the rest is frozen before anyone is told');
  assert.ok(!(engine.cancel(101) instanceof Rejection), 'afterwards it goes on');
});

test('active orders are paged, newest first', () => {
  const { engine, place } = openDesk();
  for (let count = 1; count <= 5; count += 1) place('ann', 'buy', `${count}`, '1');
  engine.cancel(4);
  const page = (offset: number, limit: number) => {
    const { total, rows } = engine.activeOrders('ann', 'BTC_USDT', offset, limit);
    return [total, ...rows.map(({ id }) => id)];
  };
  assert.deepEqual(page(0, 10), [4, 5, 3, 2, 1]);
  assert.deepEqual(page(1, 2), [4, 3, 2]);
  assert.deepEqual(page(4, 2), [4]);
  assert.deepEqual(engine.activeOrders('bob', 'BTC_USDT', 0, 9), { total: 0, rows: [] });
});

test('rules that cannot be are refused when a market is listed', () => {
  const engine = new MatchingEngine();
  const wrong: ReadonlyArray<Partial<MarketRules>> = [
    { stockPrec: 20, moneyPrec: 18, feePrec: 3 },
    { stockPrec: -1 },
    { moneyPrec: 1.5 },
    { money: 'BTC' },
    { minAmount: '0.0000001' },
    { takerFee: '1' },
    { makerFee: '0.00001' },
  ];
  for (const fault of wrong) {
    assert.throws(() => engine.addMarket({ ...BTC_USDT, ...fault }), EngineError);
  }
  engine.addMarket(BTC_USDT);
  assert.throws(() => engine.addMarket(BTC_USDT), /BTC_USDT is listed already/);
  assert.deepEqual(engine.markets(), [BTC_USDT]);
});

test('deposits are exact and bounded', () => {
  const engine = new MatchingEngine();
  assert.equal(engine.deposit('ann', 'BTC', '0.000000000000000001'), undefined);
  assert.equal(engine.deposit('ann', 'BTC', '5'), undefined);
  assert.deepEqual(engine.balances('ann'), { BTC: held('5.000000000000000001') });
  assert.equal(engine.deposit('ann', 'BTC', `0.${'0'.repeat(40)}1`)?.reason, 'precisionExceeded');
  assert.equal(engine.deposit('ann', 'BTC', '0')?.reason, 'notPositive');
  assert.equal(engine.deposit('ann', 'BTC', '9'.repeat(30))?.reason, 'tooManyDigits');
});

test('an order in units of the market is held against the same rules as its text', () => {
  const { engine } = openDesk();
  const order = { account: 'ann', market: 'BTC_USDT', side: 'sell', timeUs: 0 } as const;
  for (const [price, amount] of [
    [0n, 1_000_000n],
    [-1n, 1_000_000n],
    [10_000n, 0n],
    [10_000n, -1n],
  ] as const) {
    const refused = engine.place({ ...order, price, amount });
    assert.equal(refused instanceof Rejection && refused.reason, 'notPositive');
  }
});
