import assert from 'node:assert/strict';
import { OrderBook, Side as TheirSide } from 'nodejs-order-book';
import type { Side } from '../../src/contract/values.js';
import { systemClock } from '../../src/kernel/clock.js';
import { type Random, seededRandom } from '../../src/kernel/random.js';
import { MatchingEngine } from '../../src/sandbox/engine/engine.js';
import { Rejection } from '../../src/sandbox/engine/rejection.js';
import { type BenchReport, median, tableOf } from './report.js';

export const about = 'matching engine against the npm package nodejs-order-book, orders a second';

/*
 * Both do the same seeded stream of new orders and cancels on a book that keeps its depth. Every
 * price is a whole number of ticks and every amount a whole number of units, so that the package,
 * which calculates in floats, is right too; both must end with the same number of fills and open
 * orders. Ours is exact beyond 2^53, checks and moves funds of two currencies, charges fees and
 * reports every trade; the package does none of that.
 */

const MARKET = 'BTC_USDT';
const ACCOUNTS = 64;
const MID_TICKS = 6_400_000;
const OPERATIONS = 200_000;
const ROUNDS = 5;
const SEED = 11;

interface Place {
  readonly kind: 'place';
  readonly account: string;
  readonly side: Side;
  readonly ticks: number;
  readonly units: number;
  readonly price: bigint;
  readonly amount: bigint;
  readonly id: number;
  readonly idText: string;
}

interface Cancel {
  readonly kind: 'cancel';
  readonly id: number;
  readonly idText: string;
}

type Operation = Place | Cancel;

interface Stream {
  readonly resting: readonly Place[];
  readonly operations: readonly Operation[];
}

interface Outcome {
  readonly ms: number;
  readonly fills: number;
  readonly open: number;
}

function newEngine(onTrade: () => void): MatchingEngine {
  const engine = new MatchingEngine({ onTrade, maxOpenOrders: Number.MAX_SAFE_INTEGER });
  engine.addMarket({
    name: MARKET,
    stock: 'BTC',
    money: 'USDT',
    stockPrec: 6,
    moneyPrec: 2,
    feePrec: 4,
    minAmount: '0.0001',
    takerFee: '0.002',
    makerFee: '0.001',
  });
  for (let index = 0; index < ACCOUNTS; index += 1) {
    engine.deposit(`account-${index}`, 'BTC', '1000000');
    engine.deposit(`account-${index}`, 'USDT', '100000000000');
  }
  return engine;
}

function apply(engine: MatchingEngine, operation: Operation): void {
  if (operation.kind === 'cancel') {
    engine.cancel(operation.id);
    return;
  }
  const { account, side, price, amount } = operation;
  engine.place({ account, market: MARKET, side, price, amount, timeUs: 0 });
}

/** A price among the `zone` / 4 ticks next to the middle: `zone` orders are two a level. */
function restingPlace(random: Random, zone: number, id: number): Place {
  const side = random() < 0.5 ? 'buy' : 'sell';
  const distance = 1 + Math.floor((random() * zone) / 4);
  return place(random, side, MID_TICKS + (side === 'sell' ? distance : -distance), id);
}

function place(random: Random, side: Side, ticks: number, id: number): Place {
  const units = 100 + Math.floor(random() * 50_000);
  const account = `account-${Math.floor(random() * ACCOUNTS)}`;
  const exact = { price: BigInt(ticks), amount: BigInt(units) };
  return { kind: 'place', account, side, ticks, units, id, idText: `${id}`, ...exact };
}

/**
 * Draws a stream; an engine beside it tells which orders are open and where the book stands.
 *
 * @param depth open orders, kept up throughout
 * @param zone how many of them, next to the middle, come and go
 */
function drawStream(depth: number, zone: number, seed: number): Stream {
  const random = seededRandom(seed);
  const engine = newEngine(() => {});
  let nextId = 1;
  const resting: Place[] = [];
  while (resting.length < depth) {
    const next = restingPlace(random, depth, nextId);
    nextId += 1;
    apply(engine, next);
    resting.push(next);
  }
  const operations: Operation[] = [];
  const openCount = () =>
    engine.book(MARKET, 'buy', 0, 0).total + engine.book(MARKET, 'sell', 0, 0).total;
  while (operations.length < OPERATIONS) {
    const what = random();
    let next: Operation | undefined;
    if (what < 0.35) {
      next = crossing(random, engine, nextId);
    } else if (openCount() < depth || what < 0.5) {
      next = restingPlace(random, zone, nextId);
    } else {
      next = cancelOfOne(random, engine, zone);
    }
    if (next === undefined) continue;
    if (next.kind === 'place') nextId += 1;
    apply(engine, next);
    operations.push(next);
  }
  return { resting, operations };
}

/** An order that meets the best of the other side, with a few ticks to spare. */
function crossing(random: Random, engine: MatchingEngine, id: number): Place | undefined {
  const side = random() < 0.5 ? 'buy' : 'sell';
  const [best] = engine.depth(MARKET, side === 'buy' ? 'sell' : 'buy', 1);
  if (best === undefined) return undefined;
  const slack = Math.floor(random() * 4);
  return place(random, side, Number(best.price) + (side === 'buy' ? slack : -slack), id);
}

function cancelOfOne(random: Random, engine: MatchingEngine, zone: number): Cancel | undefined {
  const side = random() < 0.5 ? 'buy' : 'sell';
  const { total } = engine.book(MARKET, side, 0, 0);
  const at = Math.floor(random() * Math.min(total, zone / 2));
  const [order] = engine.book(MARKET, side, at, 1).rows;
  return order && { kind: 'cancel', id: order.id, idText: `${order.id}` };
}

function runOurs({ resting, operations }: Stream): Outcome {
  let fills = 0;
  const engine = newEngine(() => {
    fills += 1;
  });
  for (const order of resting) apply(engine, order);
  fills = 0;
  const startMs = systemClock.monotonicMs();
  for (const operation of operations) apply(engine, operation);
  const ms = systemClock.monotonicMs() - startMs;
  const open = engine.book(MARKET, 'buy', 0, 0).total + engine.book(MARKET, 'sell', 0, 0).total;
  return { ms, fills, open };
}

/** The same engine behind decimal texts, as orders come in over HTTP. */
function runOursAsText({ resting, operations }: Stream): Outcome {
  let fills = 0;
  const engine = newEngine(() => {
    fills += 1;
  });
  for (const order of resting) apply(engine, order);
  const texts = operations.map((operation) => {
    if (operation.kind === 'cancel') return operation;
    const { account, side, ticks, units } = operation;
    const price = (ticks / 100).toFixed(2);
    return { account, side, market: MARKET, price, amount: (units / 1e6).toFixed(6), timeUs: 0 };
  });
  fills = 0;
  const startMs = systemClock.monotonicMs();
  for (const operation of texts) {
    if ('kind' in operation) engine.cancel(operation.id);
    else assert.ok(!(engine.placeText(operation) instanceof Rejection));
  }
  const ms = systemClock.monotonicMs() - startMs;
  const open = engine.book(MARKET, 'buy', 0, 0).total + engine.book(MARKET, 'sell', 0, 0).total;
  return { ms, fills, open };
}

function runTheirs({ resting, operations }: Stream): Outcome {
  const book = new OrderBook();
  let fills = 0;
  let open = 0;
  const put = ({ idText, side, ticks, units }: Place) => {
    const done = book.limit({
      id: idText,
      side: side === 'buy' ? TheirSide.BUY : TheirSide.SELL,
      size: units,
      price: ticks,
    });
    assert.equal(done.err, null);
    // `done` lists the makers that are used up and, at its end, the order itself if it is.
    const isUsedUp = done.quantityLeft === 0;
    const makersDone = done.done.length - (isUsedUp ? 1 : 0);
    const isMakerPartial = done.partial !== null && done.partial.id !== idText;
    fills += makersDone + (isMakerPartial ? 1 : 0);
    open += (isUsedUp ? 0 : 1) - makersDone;
  };
  for (const order of resting) put(order);
  fills = 0;
  const startMs = systemClock.monotonicMs();
  for (const operation of operations) {
    if (operation.kind === 'place') put(operation);
    else if (book.cancel(operation.idText) !== undefined) open -= 1;
  }
  const ms = systemClock.monotonicMs() - startMs;
  return { ms, fills, open };
}

interface Measured {
  readonly ours: number;
  readonly asText: number;
  readonly theirs: number;
  readonly fills: number;
}

function measure(depth: number, zone: number, rounds: number): Measured {
  const stream = drawStream(depth, zone, SEED);
  const ms = { ours: [] as number[], asText: [] as number[], theirs: [] as number[] };
  let fills = 0;
  for (let round = -1; round < rounds; round += 1) {
    const theirs = runTheirs(stream);
    const ours = runOurs(stream);
    const asText = runOursAsText(stream);
    const seen = (outcome: Outcome) => [outcome.fills, outcome.open];
    assert.deepEqual(seen(ours), seen(theirs), 'both did the same work');
    assert.deepEqual(seen(asText), seen(ours));
    fills = ours.fills;
    // The first round is for the compiler to warm up.
    if (round < 0) continue;
    ms.ours.push(ours.ms);
    ms.asText.push(asText.ms);
    ms.theirs.push(theirs.ms);
  }
  const perS = (times: readonly number[]) => Math.round(OPERATIONS / (median(times) / 1000));
  return { ours: perS(ms.ours), asText: perS(ms.asText), theirs: perS(ms.theirs), fills };
}

const round2 = (value: number) => Math.round(value * 100) / 100;

/** @param options a number of rounds (default 5) */
export async function run([text = `${ROUNDS}`]: readonly string[]): Promise<BenchReport> {
  const rounds = Number(text);
  const measured = {
    depth1k: measure(1_000, 1_000, rounds),
    depth100k: measure(100_000, 100_000, rounds),
    depth100kNearTouch: measure(100_000, 1_000, rounds),
  };
  const header = ['resting', 'ours/s', 'ours from text/s', 'package/s', 'ratio', 'fills a step'];
  const rows = Object.entries(measured).map(([depth, { ours, asText, theirs, fills }]) => {
    const share = round2(fills / OPERATIONS);
    return [depth, ...[ours, asText, theirs, round2(ours / theirs), share].map(String)];
  });
  const { depth1k, depth100k, depth100kNearTouch: nearTouch } = measured;
  const growth = (who: 'ours' | 'theirs') => ({
    everywhere: round2(depth1k[who] / depth100k[who]),
    nearTouch: round2(depth1k[who] / nearTouch[who]),
  });
  const costGrowth = { ours: growth('ours'), package: growth('theirs') };
  const ratio = Object.fromEntries(
    Object.entries(measured).map(([depth, { ours, theirs }]) => [depth, round2(ours / theirs)]),
  );
  const logGrowth = round2(Math.log(100_000) / Math.log(1_000));
  return {
    table: [
      tableOf([header, ...rows]),
      `From 1k to 100k an order costs ${costGrowth.ours.nearTouch} times as much with all activity ` +
        `in the 1000 orders next to the touch, ${costGrowth.ours.everywhere} times where it is spread ` +
        `over the whole book (the logarithm grows ${logGrowth} times; the rest is caches and garbage collection).`,
    ].join('\n'),
    figures: { ratio, ordersPerS: measured, costGrowth, logGrowth, seed: SEED, rounds },
  };
}
