import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Side } from '../../../../src/contract/values.js';
import { hashText, seededRandom } from '../../../../src/kernel/random.js';
import {
  drawCount,
  drawExponential,
  drawHeavy,
  priceSwing,
} from '../../../../src/sandbox/draws.js';
import { MatchingEngine } from '../../../../src/sandbox/engine/engine.js';
import type { Trade } from '../../../../src/sandbox/engine/matching.js';
import { Rejection } from '../../../../src/sandbox/errors.js';
import { describeMarket, flowShapeOf, usualMarket } from '../../../../src/sandbox/markets.js';
import { MAKERS } from '../../../../src/sandbox/traders/makers.js';
import { TAKERS } from '../../../../src/sandbox/traders/market-flow.js';
import {
  EventQueue,
  SESSION_US,
  sessionOf,
  Traders,
} from '../../../../src/sandbox/traders/traders.js';
import fc from '../../../support/properties.js';

const ORIGIN_US = Date.UTC(2026, 5, 1, 10) * 1000;
const DEFAULTS = ['BTC_USDT', 'ETH_USDT', 'ETH_BTC', 'LTC_USDT'];

/** An engine with traders, and everything that was traded. */
function world(markets: readonly string[], seed = 7, fromUs = ORIGIN_US) {
  const trades: Trade[] = [];
  const sessions: number[] = [];
  const engine = new MatchingEngine({ onTrade: (trade) => void trades.push(trade) });
  const traders = new Traders({
    engine,
    seed,
    fromUs,
    catchUpSessions: Number.POSITIVE_INFINITY,
    onSession: (startUs) => void sessions.push(startUs),
  });
  for (const name of markets) {
    const market = usualMarket(name);
    const { stockPrec, moneyPrec, minAmount } = market;
    const described = describeMarket(name, stockPrec, moneyPrec, minAmount);
    engine.addMarket({ ...described, takerFee: '0.002', makerFee: '0.001' });
    traders.add(flowShapeOf(market));
  }
  return { engine, traders, trades, sessions };
}

/** A trade without its ids, which depend on the other markets. */
function content({ timeUs, price, amount, takerSide }: Trade): string {
  return `${timeUs} ${takerSide} ${amount} @ ${price}`;
}

test('events come in order of time, rank and arrival', () => {
  fc.assert(
    fc.property(
      fc.array(fc.record({ timeUs: fc.nat(20), rank: fc.nat(3) }), { maxLength: 80 }),
      (events) => {
        const queue = new EventQueue<{ timeUs: number; rank: number; turn: number }>();
        const given = events.map((event, turn) => ({ ...event, turn }));
        for (const event of given) queue.add(event);
        const expected = [...given].sort(
          (a, b) => a.timeUs - b.timeUs || a.rank - b.rank || a.turn - b.turn,
        );
        const taken = given.map(() => queue.take());
        assert.deepEqual(taken, expected);
        assert.equal(queue.take(), undefined);
      },
    ),
  );
});

test('draws have the distributions that they claim', () => {
  const random = seededRandom(11);
  const draws = Array.from({ length: 100_000 }, () => drawExponential(random));
  const mean = draws.reduce((sum, draw) => sum + draw, 0) / draws.length;
  assert.ok(Math.abs(mean - 1) < 0.02, `mean ${mean}`);
  const above = (limit: number) => draws.filter((draw) => draw > limit).length / draws.length;
  for (const limit of [0.5, 1, 2, 4]) {
    assert.ok(Math.abs(above(limit) - Math.exp(-limit)) < 0.01, `P(x > ${limit})`);
  }
  const heavy = Array.from({ length: 100_000 }, () => drawHeavy(random));
  const share = heavy.filter((draw) => draw > 9).length / heavy.length;
  assert.ok(Math.abs(share - 0.01) < 0.003, `P(x > 9) is 1/100, not ${share}`);
  const counts = Array.from({ length: 100_000 }, () => drawCount(random, 0.42, 60));
  assert.equal(Math.max(...counts), 60);
  const several = counts.filter((count) => count >= 2).length / counts.length;
  assert.ok(Math.abs(several - 0.42 / 4) < 0.01, `P(n ≥ 2) is 0.42/4, not ${several}`);
});

test('what happens depends neither on how often time is asked for nor on other markets', () => {
  const endUs = ORIGIN_US + SESSION_US + 600_000_000;
  const alone = world(['ETH_USDT']);
  alone.traders.advanceTo(endUs);
  const random = seededRandom(3);
  const together = world(['BTC_USDT', 'ETH_USDT', 'LTC_USDT']);
  for (let atUs = ORIGIN_US; atUs < endUs; atUs += Math.floor(random() * 9_000_000)) {
    together.traders.advanceTo(atUs);
  }
  together.traders.advanceTo(endUs);
  const mine = together.trades.filter(({ market }) => market === 'ETH_USDT');
  assert.ok(alone.trades.length > 1000);
  assert.deepEqual(mine.map(content), alone.trades.map(content));
  const other = world(['ETH_USDT'], 8);
  other.traders.advanceTo(endUs);
  const isSame = other.trades.length === alone.trades.length;
  assert.ok(!isSame || other.trades.map(content).join() !== alone.trades.map(content).join());
});

test('any moment can be reached from the start of its session, ids included', () => {
  const laterUs = ORIGIN_US + 2 * SESSION_US;
  const whole = world(DEFAULTS);
  whole.traders.advanceTo(laterUs + 900_000_000);
  const late = world(DEFAULTS, 7, laterUs + 17_000_000);
  late.traders.advanceTo(laterUs + 900_000_000);
  const tail = whole.trades.filter(({ timeUs }) => timeUs >= laterUs);
  assert.ok(tail.length > 500);
  assert.deepEqual(late.trades, tail);
  assert.deepEqual(
    whole.sessions,
    [0, 1, 2].map((index) => ORIGIN_US + index * SESSION_US),
  );
  const ids = whole.trades.map(({ id }) => id);
  assert.ok(ids.every((id, index) => index === 0 || id > (ids[index - 1] ?? id)));
  assert.ok(ids.every(Number.isSafeInteger) && (ids[0] ?? 0) > 2 ** 31);
  const bookOf = ({ engine }: typeof whole, market: string, side: Side) =>
    engine.book(market, side, 0, 500).rows.map(({ id, price, left }) => `${id} ${left} @ ${price}`);
  for (const market of DEFAULTS) {
    for (const side of ['buy', 'sell'] as const) {
      assert.deepEqual(bookOf(late, market, side), bookOf(whole, market, side));
    }
  }
});

test('after a long silence only the last sessions are simulated', () => {
  const { engine } = world([]);
  const sessions: number[] = [];
  const traders = new Traders({
    engine,
    seed: 7,
    fromUs: ORIGIN_US,
    catchUpSessions: 3,
    onSession: (startUs) => void sessions.push(sessionOf(startUs)),
  });
  traders.advanceTo(ORIGIN_US + 100 * SESSION_US + 5);
  const last = sessionOf(ORIGIN_US) + 100;
  assert.deepEqual(sessions, [last - 3, last - 2, last - 1, last]);
  assert.equal(traders.nowUs, ORIGIN_US + 100 * SESSION_US + 5);
});

interface Look {
  readonly trades: number;
  readonly maxPerS: number;
  /** Variance over mean of the trades per second: 1 for independent arrivals. */
  readonly dispersion: number;
  /** Share of the volume in the largest hundredth of trades. */
  readonly largest: number;
}

function lookOf(trades: readonly Trade[], seconds: number): Look {
  const perS = new Map<number, number>();
  for (const { timeUs } of trades) {
    const second = Math.floor(timeUs / 1e6);
    perS.set(second, (perS.get(second) ?? 0) + 1);
  }
  const mean = trades.length / seconds;
  let squares = (seconds - perS.size) * mean ** 2;
  for (const count of perS.values()) squares += (count - mean) ** 2;
  const sizes = trades.map(({ amount }) => Number(amount)).sort((a, b) => b - a);
  const sum = (some: readonly number[]) => some.reduce((total, size) => total + size, 0);
  return {
    trades: trades.length,
    maxPerS: Math.max(...perS.values()),
    dispersion: squares / seconds / mean,
    largest: sum(sizes.slice(0, Math.ceil(sizes.length / 100))) / sum(sizes),
  };
}

test('the flow looks like a market', (t) => {
  const hours = 4;
  const { traders, trades, engine } = world(DEFAULTS);
  traders.advanceTo(ORIGIN_US + hours * SESSION_US - 1);
  const looks = DEFAULTS.map((market) => {
    const own = trades.filter((trade) => trade.market === market);
    const look = lookOf(own, hours * 3600);
    t.diagnostic(`${market} ${JSON.stringify(look)}`);
    const prices = own.map(({ price }) => Number(price));
    const swing = Math.max(...prices) / Math.min(...prices);
    assert.ok(swing > 1.001 && swing < 1.1, `${market}: the price wanders (${swing})`);
    return look;
  });
  const [btc, eth, , ltc] = looks;
  assert.ok(btc && eth && ltc);
  assert.ok(btc.dispersion > 5 && eth.dispersion > 4, 'arrivals are clustered');
  assert.ok(btc.maxPerS >= 40, 'dozens of trades in one second');
  assert.ok(btc.largest > 0.05, 'sizes are heavy-tailed');
  assert.ok(btc.trades > 20 * ltc.trades, 'quiet markets stand beside busy ones');
  assert.ok(ltc.trades > 20);
  const [ask] = engine.depth('BTC_USDT', 'sell', 1);
  const [bid] = engine.depth('BTC_USDT', 'buy', 1);
  assert.ok(ask && bid && ask.price > bid.price, 'there is a spread');
  const asks = engine.depth('BTC_USDT', 'sell', 1000);
  const within = (share: number) => {
    const limit = ask.price + BigInt(Math.round(Number(ask.price) * share));
    return asks.filter(({ price }) => price <= limit).reduce((sum, each) => sum + each.amount, 0n);
  };
  assert.ok(asks.length >= 100, `${asks.length} levels`);
  assert.ok(within(0.001) > within(0.002) - within(0.001), 'the book thins out');
  assert.ok(within(0.002) - within(0.001) > within(0.006) - within(0.005));
});

test('makers never take, takers never rest, and the book follows what the market is worth', (t) => {
  const { traders, trades, engine } = world(['BTC_USDT', 'LTC_USDT']);
  const makersOrders = new Set<number>();
  const place = engine.place.bind(engine);
  engine.place = (order) => {
    const placed = place(order);
    if (order.account === MAKERS && !(placed instanceof Rejection)) makersOrders.add(placed.id);
    return placed;
  };
  let largestGap = 0;
  for (let minute = 1; minute < 600; minute += 1) {
    traders.advanceTo(ORIGIN_US + minute * 60_000_000);
    for (const market of ['BTC_USDT', 'LTC_USDT']) {
      const { baseTicks } = flowShapeOf(usualMarket(market));
      const worth = baseTicks * priceSwing(7, hashText(market))(traders.nowUs / 1e6);
      const [bid] = engine.depth(market, 'buy', 1);
      const [ask] = engine.depth(market, 'sell', 1);
      const middle = Number((bid?.price ?? 0n) + (ask?.price ?? 0n)) / 2;
      largestGap = Math.max(largestGap, Math.abs(middle - worth) / worth);
      assert.equal(engine.activeOrders(TAKERS, market, 0, 1).total, 0);
    }
  }
  t.diagnostic(`largest distance from the reference: ${(100 * largestGap).toFixed(2)} %`);
  assert.ok(largestGap < 0.002, `${largestGap}`);
  assert.ok(trades.length > 1000);
  for (const { makerOrderId, takerOrderId } of trades) {
    assert.ok(makersOrders.has(makerOrderId) && !makersOrders.has(takerOrderId));
  }
});

test('over many markets rates have a heavy tail', (t) => {
  const names = Array.from({ length: 120 }, (_, index) => `COIN${index}_USDT`);
  const { traders, trades } = world(names);
  traders.advanceTo(ORIGIN_US + 1_200_000_000);
  const counts = names.map((name) => trades.filter(({ market }) => market === name).length);
  counts.sort((a, b) => b - a);
  const total = counts.reduce((sum, count) => sum + count, 0);
  const top = counts.slice(0, 12).reduce((sum, count) => sum + count, 0) / total;
  t.diagnostic(
    `busiest tenth: ${(100 * top).toFixed(0)} % of ${total} trades; ${counts.join(' ')}`,
  );
  assert.ok(top > 0.5 && top < 0.99, 'a tenth of the markets has most of the trades');
  assert.ok((counts[60] ?? 0) < total / 200, 'half of them are quiet');
});
