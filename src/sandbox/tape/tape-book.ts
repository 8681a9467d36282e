import type { BookOrder } from '../../contract/resources.js';
import type { Side } from '../../contract/values.js';
import { hashText } from '../../kernel/random.js';
import { formatScaled } from '../amounts.js';
import { share } from '../draws.js';
import type { MarketTape, Visible } from '../market-tape.js';

/** One price with its resting orders, best first within a side. */
interface BookLevel {
  readonly price: string;
  readonly amount: string;
  readonly orders: readonly BookOrder[];
}

export type TapeBook = Readonly<Record<Side, readonly BookLevel[]>>;

const LEVELS = 240;
const MAX_ORDERS_PER_LEVEL = 3;
/** Trades whose mean amount sets the size of the book. */
const SIZE_SAMPLE = 256;
const TAKER_FEE = '0.002';
const MAKER_FEE = '0.001';

/** Everything that one side is drawn from. */
interface Drawing {
  readonly tape: MarketTape;
  readonly seed: number;
  readonly salt: number;
  readonly lastId: number;
  readonly lastTimeUs: number;
  readonly meanAmount: bigint;
}

/**
 * A plausible book around the last trade that is visible. A tape has no resting orders, so they are drawn from
 * (seed, market, last trade): the same trade shows the same book, a level away from the touch keeps
 * its orders while the price moves, and amounts thin out with distance.
 */
export function drawBook(tape: MarketTape, seed: number, { first, end }: Visible): TapeBook {
  const { columns } = tape;
  const last = end - 1;
  const from = Math.max(first, end - SIZE_SAMPLE);
  const salt = hashText(tape.market.name);
  const lastId = columns.idAt(last);
  const mean = columns.figures(from, end).amount / BigInt(end - from);
  const drawing: Drawing = {
    tape,
    seed,
    salt,
    lastId,
    lastTimeUs: columns.timeUsAt(last),
    meanAmount: mean > 0n ? mean : 1n,
  };
  const lastTick = columns.priceAt(last) / tape.tick;
  const spread = 1n + BigInt(Math.floor(share(seed, salt, lastId, 100) * 3));
  // The last taker met the best price of the other side, and what is left of it still stands there.
  const isSell = columns.isSellAt(last);
  return {
    buy: drawSide(drawing, 'buy', isSell ? lastTick : lastTick - spread),
    sell: drawSide(drawing, 'sell', isSell ? lastTick + spread : lastTick),
  };
}

function drawSide(drawing: Drawing, side: Side, bestTick: bigint): BookLevel[] {
  const { seed, salt } = drawing;
  const step = side === 'sell' ? 1n : -1n;
  const levels: BookLevel[] = [];
  let tick = bestTick;
  for (let depth = 0; depth < LEVELS && tick > 0n; depth += 1) {
    levels.push(drawLevel(drawing, side, tick, depth));
    const widest = 1 + depth / 12;
    const gap = 1 + Math.floor(share(seed, salt, Number(tick), 101) * widest);
    tick += step * BigInt(gap);
  }
  return levels;
}

function drawLevel(drawing: Drawing, side: Side, tick: bigint, depth: number): BookLevel {
  const { tape, seed, salt } = drawing;
  const { amountDigits, priceDigits } = tape.columns;
  const price = formatScaled(tick * tape.tick, priceDigits);
  const at = Number(tick);
  const channel = side === 'sell' ? 110 : 120;
  const count = 1 + Math.floor(share(seed, salt, at, channel) * MAX_ORDERS_PER_LEVEL);
  let sum = 0n;
  const orders = Array.from({ length: count }, (_, index): BookOrder => {
    const left = orderAmount(drawing, at, depth, channel + 1 + index);
    sum += left;
    const ageS = share(seed, salt, at, channel + 4 + index) * 3600;
    const text = formatScaled(left, amountDigits);
    return {
      // A tick holds up to 3 orders on each side, so 8 ids a tick are unique.
      id: at * 8 + (side === 'sell' ? 4 : 0) + index,
      market: tape.market.name,
      price,
      amount: text,
      left: text,
      type: 'limit',
      side,
      timestamp: Math.max(0, drawing.lastTimeUs - Math.floor(ageS * 1_000_000)) / 1_000_000,
      takerFee: TAKER_FEE,
      makerFee: MAKER_FEE,
      dealStock: '0',
      dealMoney: '0',
    };
  });
  return { price, amount: formatScaled(sum, amountDigits), orders };
}

/** Around the mean traded amount, less with distance; near the touch it changes with every trade. */
function orderAmount(drawing: Drawing, tick: number, depth: number, channel: number): bigint {
  const { seed, salt, lastId, meanAmount } = drawing;
  const own = share(seed, salt, tick, channel + 20);
  const touched = depth < 3 ? share(seed, salt, lastId, channel + 40) : 1;
  const percent = Math.floor((100 * (0.2 + 2 * own) * (0.3 + 0.7 * touched)) / (1 + depth / 60));
  const amount = (meanAmount * BigInt(percent)) / 100n;
  return amount > 0n ? amount : 1n;
}
