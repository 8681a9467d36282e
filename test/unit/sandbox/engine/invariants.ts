import assert from 'node:assert/strict';
import { MAX_PLACES } from '../../../../src/sandbox/amounts.js';
import type { OrderState } from '../../../../src/sandbox/engine/book.js';
import type { MatchingEngine } from '../../../../src/sandbox/engine/engine.js';
import { type LimitOrderText, readOrder } from '../../../../src/sandbox/engine/market.js';
import { Rejection } from '../../../../src/sandbox/errors.js';

/** Places an order as it comes over HTTP, in decimal texts. */
export function placeText(engine: MatchingEngine, text: LimitOrderText): OrderState | Rejection {
  const rules = engine.rulesOf(text.market);
  if (rules === undefined) return new Rejection('unknownMarket', text.market);
  const order = readOrder(text, rules);
  return order instanceof Rejection ? order : engine.place(order);
}

/**
 * What holds between any two operations, worked out from nothing but the engine's open state and
 * what was put in: `deposited` is the sum of deposits by currency, as fractions of
 * `unit(digits)`.
 */
export function assertInvariants(
  engine: MatchingEngine,
  deposited: ReadonlyMap<string, bigint>,
  places: number,
): void {
  const frozen = new Map<string, bigint>();
  const bind = (account: string, currency: string, amount: bigint) => {
    const key = `${account}/${currency}`;
    frozen.set(key, (frozen.get(key) ?? 0n) + amount);
  };
  for (const { name, stock, money, stockPrec, moneyPrec } of engine.markets()) {
    const buys = engine.book(name, 'buy', 0, Number.MAX_SAFE_INTEGER).rows;
    const sells = engine.book(name, 'sell', 0, Number.MAX_SAFE_INTEGER).rows;
    const [bid] = buys;
    const [ask] = sells;
    if (bid && ask) assert.ok(bid.price < ask.price, `${name} is crossed`);
    assertPriority(buys, -1n);
    assertPriority(sells, 1n);
    for (const order of [...buys, ...sells]) {
      assert.ok(order.left > 0n && order.left <= order.amount);
      assert.equal(engine.order(order.id), order);
      const scale = 10n ** BigInt(places - stockPrec);
      if (order.side === 'sell') bind(order.account, stock, order.left * scale);
      else
        bind(order.account, money, (order.left * order.price * scale) / 10n ** BigInt(moneyPrec));
    }
  }
  for (const { name, holdings, fees, deposited: known } of engine.currencies()) {
    const scale = 10n ** BigInt(places - MAX_PLACES);
    let sum = fees.available;
    assert.ok(fees.available >= 0n && fees.freeze === 0n);
    for (const [account, { available, freeze }] of holdings) {
      assert.ok(available >= 0n && freeze >= 0n, `${account} holds less than nothing of ${name}`);
      assert.equal(freeze * scale, frozen.get(`${account}/${name}`) ?? 0n, `${account} ${name}`);
      sum += available + freeze;
    }
    assert.equal(sum, known, `${name} was made or lost`);
    assert.equal(sum * scale, deposited.get(name) ?? 0n, `${name}: deposits`);
  }
}

/** Best price first, and the older order first where prices are equal. */
function assertPriority(orders: readonly OrderState[], sign: bigint): void {
  for (const [index, order] of orders.entries()) {
    const before = orders[index - 1];
    if (before === undefined) continue;
    const isAfter =
      before.price === order.price
        ? before.id < order.id
        : before.price * sign < order.price * sign;
    assert.ok(isAfter, `order ${order.id} stands before its turn`);
  }
}
