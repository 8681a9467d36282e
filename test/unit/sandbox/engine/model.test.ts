import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Side } from '../../../../src/contract/values.js';
import { formatTrimmed, MAX_PLACES } from '../../../../src/sandbox/amounts.js';
import type { OrderState } from '../../../../src/sandbox/engine/book.js';
import { MatchingEngine } from '../../../../src/sandbox/engine/engine.js';
import type { MarketRules } from '../../../../src/sandbox/engine/market.js';
import type { Trade } from '../../../../src/sandbox/engine/matching.js';
import { Rejection } from '../../../../src/sandbox/errors.js';
import fc from '../../../support/properties.js';
import { worlds } from '../../../support/seeds.js';
import { assertInvariants, placeText } from './invariants.js';
import { exact, FEE_ACCOUNT, ModelExchange, type ModelOrder, shown } from './model-exchange.js';

/** Currencies stand on both sides of markets, and each market needs other places of them. */
const MARKETS: readonly MarketRules[] = [
  market('AAA_BBB', 2, 1, 2, '0.05', '0.02', '0.01'),
  market('CCC_AAA', 0, 3, 4, '2', '0.0033', '0'),
  market('BBB_CCC', 18, 18, 4, '0', '0.9999', '0.5'),
];
const ACCOUNTS = ['ann', 'bob', 'cyd'];
const SIDES: readonly Side[] = ['buy', 'sell'];

function market(
  name: string,
  stockPrec: number,
  moneyPrec: number,
  feePrec: number,
  minAmount: string,
  takerFee: string,
  makerFee: string,
): MarketRules {
  const [stock = '', money = ''] = name.split('_');
  return { name, stock, money, stockPrec, moneyPrec, feePrec, minAmount, takerFee, makerFee };
}

const marketName = fc.constantFrom(...MARKETS.map(({ name }) => name));
const account = fc.constantFrom(...ACCOUNTS);

/** Few different prices, so that orders meet; now and then what a market refuses. */
const price = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 1, max: 9 }).map((ticks) => `${ticks / 10}`) },
  {
    weight: 3,
    arbitrary: fc.integer({ min: 1, max: 9 }).map((ticks) => `1.00000000000000000${ticks}`),
  },
  {
    weight: 3,
    arbitrary: fc.constantFrom('0', '-1', '0.00', '1.23', '0.1234', '1000000000000000'),
  },
);
const amount = fc.oneof(
  { weight: 12, arbitrary: fc.integer({ min: 1, max: 30 }).map((units) => `${units / 10}`) },
  { weight: 6, arbitrary: fc.integer({ min: 1, max: 9 }).map((units) => `${units}`) },
  {
    weight: 2,
    arbitrary: fc.constantFrom(
      '0',
      '0.01',
      '-0.5',
      '0.000000000000000001',
      '1000000000000000',
      '3.999',
    ),
  },
);

const step = fc.oneof(
  {
    weight: 30,
    arbitrary: fc.record({
      kind: fc.constant('place' as const),
      account,
      market: marketName,
      side: fc.constantFrom(...SIDES),
      price,
      amount,
      timeUs: fc.integer({ min: 0, max: 1000 }),
    }),
  },
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('cancel' as const), age: fc.nat(12) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('deposit' as const),
      account,
      currency: fc.constantFrom('AAA', 'BBB', 'CCC'),
      amount: fc.constantFrom('1', '20.5', '300', '0.000000000000000007', '1000000000000000.25'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom('delist' as const, 'list' as const, 'block' as const, 'open' as const),
      market: marketName,
    }),
  },
);
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Everything that can be said of an order, in the words of the model. */
function orderWords(order: OrderState, { stockPrec, moneyPrec, feePrec }: MarketRules): unknown {
  const stock = (units: bigint) => formatTrimmed(units, stockPrec);
  return {
    id: order.id,
    account: order.account,
    market: order.market,
    side: order.side,
    timeUs: order.timeUs,
    price: formatTrimmed(order.price, moneyPrec),
    amount: stock(order.amount),
    takerFee: formatTrimmed(order.takerFee, feePrec),
    makerFee: formatTrimmed(order.makerFee, feePrec),
    left: stock(order.left),
    dealStock: stock(order.amount - order.left),
    dealMoney: formatTrimmed(order.dealMoney, stockPrec + moneyPrec),
  };
}

function modelWords(order: ModelOrder): unknown {
  const entries = Object.entries(order).map(([name, value]: [string, unknown]) => [
    name,
    typeof value === 'bigint' ? shown(value) : value,
  ]);
  return Object.fromEntries(entries);
}

function tradeWords(trade: Trade): string {
  const rules = MARKETS.find(({ name }) => name === trade.market);
  assert.ok(rules);
  const { stockPrec, moneyPrec } = rules;
  const sizes = [
    formatTrimmed(trade.price, moneyPrec),
    formatTrimmed(trade.amount, stockPrec),
    formatTrimmed(trade.total, stockPrec + moneyPrec),
  ].join(' ');
  const { id, timeUs, takerSide, makerOrderId, takerOrderId } = trade;
  return `trade ${id} ${trade.market} ${timeUs} ${sizes} ${takerSide} ${makerOrderId} ${takerOrderId}`;
}

/** The engine and the model, driven alike. */
class Pair {
  readonly events: string[] = [];
  readonly model = new ModelExchange();
  readonly engine = new MatchingEngine({
    onTrade: (trade) => this.events.push(tradeWords(trade)),
  });
  readonly deposited = new Map<string, bigint>();
  #placed = 0;

  constructor() {
    for (const rules of MARKETS) this.#list(rules);
    for (const name of ACCOUNTS) {
      for (const currency of ['AAA', 'BBB', 'CCC']) this.#deposit(name, currency, '40');
    }
  }

  /** Does one step on both; their answers must be the same. */
  step(next: Step): void {
    switch (next.kind) {
      case 'place': {
        const { kind: _kind, ...order } = next;
        const done = placeText(this.engine, order);
        const expected = this.model.place(order);
        if (!(done instanceof Rejection)) this.#placed += 1;
        this.#same(done, expected);
        break;
      }
      case 'cancel': {
        const id = this.#placed - next.age;
        this.#same(this.engine.cancel(id), this.model.cancel(id));
        break;
      }
      case 'deposit':
        this.#deposit(next.account, next.currency, next.amount);
        break;
      case 'delist': {
        const done = this.engine.delistMarket(next.market);
        assert.equal(
          done instanceof Rejection ? done.reason : done,
          this.model.delist(next.market),
        );
        break;
      }
      case 'list':
        if (!this.model.markets.has(next.market)) {
          for (const rules of MARKETS) if (rules.name === next.market) this.#list(rules);
        }
        break;
      default:
        this.engine.setBlocked(next.market, next.kind === 'block');
        if (next.kind === 'block' && this.model.markets.has(next.market)) {
          this.model.blocked.add(next.market);
        } else {
          this.model.blocked.delete(next.market);
        }
    }
  }

  /** Compares all that can be seen. */
  compare(): void {
    assert.deepEqual(this.events, this.model.events);
    for (const rules of this.engine.markets()) {
      for (const side of SIDES) this.#compareSide(rules, side);
      for (const name of ACCOUNTS) {
        const mine = this.model.open
          .filter((order) => order.market === rules.name && order.account === name)
          .reverse();
        const { total, rows } = this.engine.activeOrders(name, rules.name, 1, 2);
        assert.equal(total, mine.length);
        assert.deepEqual(
          rows.map((order) => orderWords(order, rules)),
          mine.slice(1, 3).map(modelWords),
        );
      }
    }
    for (const name of ACCOUNTS) {
      for (const [currency, { available, freeze }] of Object.entries(this.engine.balances(name))) {
        const purse = this.model.purse(name, currency);
        assert.deepEqual([available, freeze], [shown(purse.available), shown(purse.freeze)]);
      }
    }
    for (const { name, fees } of this.engine.currencies()) {
      const expected = shown(this.model.purse(FEE_ACCOUNT, name).available);
      assert.equal(formatTrimmed(fees.available, MAX_PLACES), expected);
    }
    assertInvariants(this.engine, this.deposited, 60);
  }

  #compareSide(rules: MarketRules, side: Side): void {
    const { name, stockPrec, moneyPrec } = rules;
    const book = this.model.book(name, side);
    const { total, rows } = this.engine.book(name, side, 2, 5);
    assert.equal(total, book.length);
    assert.deepEqual(
      rows.map((order) => orderWords(order, rules)),
      book.slice(2, 7).map(modelWords),
    );
    const levels = new Map<string, bigint>();
    for (const order of book) {
      levels.set(shown(order.price), (levels.get(shown(order.price)) ?? 0n) + order.left);
    }
    assert.deepEqual(
      this.engine
        .depth(name, side, 4)
        .map((level) => [
          formatTrimmed(level.price, moneyPrec),
          formatTrimmed(level.amount, stockPrec),
        ]),
      [...levels].slice(0, 4).map(([levelPrice, left]) => [levelPrice, shown(left)]),
    );
  }

  #same(done: OrderState | Rejection, expected: ModelOrder | string): void {
    if (done instanceof Rejection) {
      assert.equal(done.reason, typeof expected === 'string' ? expected : 'accepted');
      return;
    }
    const rules = this.engine.rulesOf(done.market);
    assert.ok(rules);
    if (typeof expected === 'string') assert.fail(`taken; the model says ${expected}`);
    assert.deepEqual(orderWords(done, rules), modelWords(expected));
  }

  #list(rules: MarketRules): void {
    this.engine.addMarket(rules);
    this.model.markets.set(rules.name, rules);
  }

  #deposit(name: string, currency: string, sum: string): void {
    assert.equal(this.engine.deposit(name, currency, sum), undefined);
    this.model.deposit(name, currency, sum);
    this.#count(currency, exact(sum));
  }

  #count(currency: string, change: bigint): void {
    this.deposited.set(currency, (this.deposited.get(currency) ?? 0n) + change);
  }
}

test('does what a naive exchange does, event for event, and keeps all invariants', (context) => {
  let trades = 0;
  let refusals = 0;
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80, size: 'max' }), (steps) => {
      const pair = new Pair();
      for (const next of steps) {
        pair.step(next);
        pair.compare();
      }
      trades += pair.events.filter((event) => event.startsWith('trade')).length;
      refusals += steps.length;
    }),
    { numRuns: worlds(300) },
  );
  context.diagnostic(`${trades} trades in ${refusals} steps`);
  assert.ok(trades > worlds(500), `only ${trades} trades: the streams hardly meet`);
});

test('the same input gives the same output', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60, size: 'max' }), (steps) => {
      const [first, second] = [new Pair(), new Pair()];
      for (const next of steps) first.step(next);
      for (const next of steps) second.step(next);
      assert.deepEqual(first.events, second.events);
      for (const name of ACCOUNTS) {
        assert.deepEqual(first.engine.balances(name), second.engine.balances(name));
      }
    }),
    { numRuns: 30 },
  );
});
