import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { OrderState } from '../../../../src/sandbox/engine/book.js';
import { MatchingEngine } from '../../../../src/sandbox/engine/engine.js';
import type { LimitOrderText, MarketRules } from '../../../../src/sandbox/engine/market.js';
import type { Trade } from '../../../../src/sandbox/engine/matching.js';
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
