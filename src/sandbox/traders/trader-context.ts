import type { Side } from '../../contract/values.js';
import { SECOND_US } from '../../kernel/durations.js';
import { hashText, type Random, seededRandom } from '../../kernel/random.js';
import { drawHeavy, mix, priceSwing } from '../draws.js';
import type { OrderState } from '../engine/book.js';
import type { MatchingEngine } from '../engine/engine.js';
import { Rejection } from '../errors.js';
import type { FlowShape } from '../markets.js';

/** Scale of how far from the best price is still near, as a share of the price. */
const REACH = 0.000_35;
const LEAST_REACH_TICKS = 4;
/** Largest amount, in usual amounts. */
const SIZE_MAX = 200;

export const OTHER_SIDE = { buy: 'sell', sell: 'buy' } as const;

/** One market in one session, as its traders see it. Prices are in ticks of the quote precision. */
export class TraderContext {
  readonly engine: MatchingEngine;
  readonly shape: FlowShape;
  readonly random: Random;
  /** How far from the best price is still near, in ticks. */
  readonly reach: number;
  readonly #swing: ReturnType<typeof priceSwing>;

  constructor(engine: MatchingEngine, shape: FlowShape, seed: number, session: number) {
    this.engine = engine;
    this.shape = shape;
    const salt = hashText(shape.name);
    this.random = seededRandom(mix(seed, salt, session, 200));
    this.#swing = priceSwing(seed, salt);
    this.reach = Math.max(LEAST_REACH_TICKS, REACH * shape.baseTicks);
  }

  /** Fair price of the market: wanders by itself, and knows no sessions. */
  referenceAt(timeUs: number): number {
    return Math.max(2, this.shape.baseTicks * this.#swing(timeUs / SECOND_US));
  }

  /** Best price of a side. */
  best(side: Side): number | undefined {
    const level = this.engine.depth(this.shape.name, side, 1)[0];
    return level === undefined ? undefined : Number(level.price);
  }

  /** Number of open orders of a side. */
  ordersOn(side: Side): number {
    return this.engine.book(this.shape.name, side, 0, 1).total;
  }

  /** An amount: heavy-tailed; every third one is round, as people's are. */
  drawUnits(scale: number): number {
    const { minUnits, usualUnits } = this.shape;
    const size = Math.min(SIZE_MAX, 0.5 * drawHeavy(this.random) + 0.05) * scale;
    const units = Math.max(minUnits, Math.floor(size * usualUnits));
    return this.random() < 1 / 3 ? Math.ceil(units / minUnits) * minUnits : units;
  }

  /** Undefined when the exchange refuses. */
  place(
    account: string,
    side: Side,
    ticks: number,
    units: number,
    timeUs: number,
  ): OrderState | undefined {
    const order = this.engine.place({
      account,
      market: this.shape.name,
      side,
      price: BigInt(ticks),
      amount: BigInt(units),
      timeUs,
    });
    return order instanceof Rejection ? undefined : order;
  }
}
