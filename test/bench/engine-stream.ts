import type { Side } from '../../src/contract/values.js';
import { type Random, seededRandom } from '../../src/kernel/random.js';
import { MatchingEngine } from '../../src/sandbox/engine/engine.js';
import type { Trade } from '../../src/sandbox/engine/matching.js';

export const MARKET = 'BTC_USDT';
const ACCOUNTS = 64;
const MID_TICKS = 6_400_000;
/** New orders and cancels of a stream. */
export const OPERATIONS = 200_000;

export interface Place {
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

export type Operation = Place | Cancel;

export interface Stream {
  readonly resting: readonly Place[];
  readonly operations: readonly Operation[];
}

export function newEngine(onTrade: (trade: Trade) => void): MatchingEngine {
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

export function apply(engine: MatchingEngine, operation: Operation): void {
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
export function drawStream(depth: number, zone: number, seed: number): Stream {
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
