import { SECOND_US } from '../../kernel/durations.js';
import { hashText } from '../../kernel/random.js';
import { drawCount, drawExponential, drawHeavy, noise } from '../draws.js';
import type { MatchingEngine } from '../engine/engine.js';
import type { FlowShape } from '../markets.js';
import { Makers } from './makers.js';
import { OTHER_SIDE, TraderContext } from './trader-context.js';

/** The account of all takers in every market. No API key leads to it. */
export const TAKERS = 'takers';

/** Next events of a market. */
export type FlowEventKind = 'newcomer' | 'follower' | 'quote';

/** Called to have {@link MarketFlow.happen} called at a time. */
export type ScheduleEvent = (kind: FlowEventKind, timeUs: number) => void;

/** Taker orders per second of a market whose activity is 1. */
const TAKERS_PER_S = 1.7;
/**
 * How many takers an order draws after it: P(n ≥ k) = weight/k², 0.66 on average, so one newcomer
 * makes three orders in the long run, and now and then dozens within a second.
 */
const FOLLOWER_WEIGHT = 0.42;
const FOLLOWERS_MAX = 60;
const ORDERS_PER_NEWCOMER = 3;
/** Mean delay of a follower; half of them come within 0.17 s. */
const FOLLOWER_DELAY_US = 400_000;
/** Followers under way at once, per market; more are not drawn. */
const FOLLOWERS_UNDER_WAY_MAX = 500;
/** Newcomers come between 0.3 and 1.7 times as often as usual, by the mood of the time. */
const LEAST_MOOD = 0.3;
const MOOD_RANGE = 1.4;
/** Looks of makers at their book per taker order, and those that come anyway, per second. */
const QUOTES_PER_TAKER = 2;
const QUOTES_PER_S = 0.04;
/** Ticks that a taker goes beyond the best price at most, in reaches of the context. */
const SLIP = 3;

/**
 * The simulated traders of one market in one session: *makers* who keep quotes around a reference
 * price that wanders by itself, and *takers* who come alone or draw others after them.
 *
 * Everything follows from seed, market, session and the market's own book; neither other markets
 * nor the times of reads have any influence. A flow is used for one session:
 * {@link MarketFlow.open} fills the book, {@link MarketFlow.happen} goes on, and
 * {@link MarketFlow.close} takes back what still rests.
 */
export class MarketFlow {
  readonly #context: TraderContext;
  readonly #makers: Makers;
  readonly #schedule: ScheduleEvent;
  readonly #mood: ReturnType<typeof noise>;
  readonly #sides: ReturnType<typeof noise>;
  readonly #newcomersPerS: number;
  readonly #quotesPerS: number;
  #followers = 0;

  /** @param session number of the session; each has random numbers of its own */
  constructor(
    engine: MatchingEngine,
    shape: FlowShape,
    seed: number,
    session: number,
    schedule: ScheduleEvent,
  ) {
    this.#context = new TraderContext(engine, shape, seed, session);
    this.#makers = new Makers(this.#context);
    this.#schedule = schedule;
    const salt = hashText(shape.name);
    this.#mood = noise(seed, salt, 180, 3);
    this.#sides = noise(seed, salt, 25, 6);
    const takersPerS = TAKERS_PER_S * shape.activity;
    // The highest rate that the mood allows; the mood then leaves some out.
    this.#newcomersPerS = (takersPerS / ORDERS_PER_NEWCOMER) * (LEAST_MOOD + MOOD_RANGE);
    this.#quotesPerS = QUOTES_PER_TAKER * takersPerS + QUOTES_PER_S;
  }

  get market(): string {
    return this.#context.shape.name;
  }

  /** Fills the book and lets the first traders come. */
  open(timeUs: number): void {
    this.#makers.fill(timeUs);
    this.#scheduleNext('newcomer', timeUs, this.#newcomersPerS);
    this.#scheduleNext('quote', timeUs, this.#quotesPerS);
  }

  happen(kind: FlowEventKind, timeUs: number): void {
    if (kind === 'quote') {
      this.#makers.requote(timeUs);
      this.#scheduleNext('quote', timeUs, this.#quotesPerS);
      return;
    }
    if (kind === 'follower') {
      this.#followers -= 1;
    } else {
      this.#scheduleNext('newcomer', timeUs, this.#newcomersPerS);
      const mood = LEAST_MOOD + MOOD_RANGE * this.#mood(timeUs / SECOND_US);
      if (this.#context.random() * (LEAST_MOOD + MOOD_RANGE) >= mood) return;
    }
    this.#take(timeUs);
    this.#drawFollowers(timeUs);
  }

  /** Takes back all quotes. */
  close(): void {
    this.#makers.leave();
  }

  #scheduleNext(kind: FlowEventKind, timeUs: number, perS: number): void {
    const delayUs = (SECOND_US / perS) * drawExponential(this.#context.random);
    this.#schedule(kind, timeUs + 1 + Math.floor(delayUs));
  }

  #drawFollowers(timeUs: number): void {
    const { random } = this.#context;
    const count = drawCount(random, FOLLOWER_WEIGHT, FOLLOWERS_MAX);
    for (let index = 0; index < count; index += 1) {
      if (this.#followers >= FOLLOWERS_UNDER_WAY_MAX) return;
      this.#followers += 1;
      const delayUs = Math.floor(FOLLOWER_DELAY_US * drawHeavy(random));
      this.#schedule('follower', timeUs + 1 + delayUs);
    }
  }

  /** A taker's order: it fills up to its limit, and what is left is taken back at once. */
  #take(timeUs: number): void {
    const context = this.#context;
    const side = context.random() < this.#buyShare(timeUs) ? 'buy' : 'sell';
    const units = context.drawUnits(1);
    const slip = 1 + Math.floor(context.reach * SLIP * context.random());
    const best = context.best(OTHER_SIDE[side]);
    if (best === undefined) return;
    const limit = side === 'buy' ? best + slip : Math.max(1, best - slip);
    const order = context.place(TAKERS, side, limit, units, timeUs);
    if (order !== undefined && order.left > 0n) context.engine.cancel(order.id);
  }

  /** The share of buyers: a slow mood, and a pull of the book towards the reference. */
  #buyShare(timeUs: number): number {
    const mood = 0.2 + 0.6 * this.#sides(timeUs / SECOND_US);
    const bid = this.#context.best('buy');
    const ask = this.#context.best('sell');
    if (bid === undefined || ask === undefined) return mood;
    const gap = (this.#context.referenceAt(timeUs) - (bid + ask) / 2) / this.#context.reach;
    return mood + Math.max(-0.4, Math.min(0.4, gap));
  }
}
