import { hashText, type Random, seededRandom } from '../kernel/random.js';
import { mix, Noise, PriceSwing, share } from './noise.js';

/** What the generator needs to know about a market. Prices and amounts are in smallest units. */
export interface FlowShape {
  readonly name: string;
  /** Where the price swings around, in units of the quote precision. */
  readonly baseTicks: number;
  /** Smallest amount, in units of the base precision. */
  readonly minUnits: number;
  /** Usual amount of one fill, in units of the base precision. */
  readonly usualUnits: number;
  /** Share of seconds with trades in ordinary times: 0.5 is busy, 0.01 quiet. */
  readonly activity: number;
}

export interface GeneratedTrade {
  readonly id: number;
  readonly timeUs: number;
  readonly ticks: number;
  readonly units: number;
  readonly isSell: boolean;
}

/** Raised whenever the same seed would give other trades. Part of the exchange's identity. */
export const GENERATOR_VERSION = 1;

/** Ids that one millisecond has for all markets together; ids then stay below 2^53 until 2039. */
const IDS_PER_MS = 4096;
/** Most markets of one generated exchange: each keeps 8 ids a millisecond. */
export const MAX_GENERATED_MARKETS = 512;
/** Last time for which ids fit, UNIX milliseconds. */
export const LAST_GENERATED_MS = Math.floor(Number.MAX_SAFE_INTEGER / IDS_PER_MS) - 1;

const MAX_ORDERS_PER_S = 40;
const BURST_WINDOW_S = 11;
const BURST_SHARE = 0.04;
const BURST_FACTOR = 10;

/**
 * The trades of one market as a pure function of (seed, market, second): any second can be made at
 * any time and comes out the same, which is what lets a restarted sandbox show the same history.
 *
 * Price: smooth noise of several periods around a base. Arrivals: clustered, with silences and
 * bursts. An arriving order may fill several times at worsening prices. Sides follow a slow mood.
 * Only the four basic operations and square roots of floats are used, which give the same result on
 * every machine; prices and amounts are whole ticks and units.
 */
export class TradeGenerator {
  readonly #seed: number;
  readonly #shape: FlowShape;
  readonly #salt: number;
  readonly #mood: Noise;
  readonly #sides: Noise;
  readonly #swing: PriceSwing;
  readonly #marketIndex: number;
  readonly #idsPerMs: number;
  readonly #usPerMs: number;

  /** @param marketCount markets of the exchange; they share one space of ids */
  constructor(seed: number, shape: FlowShape, marketIndex: number, marketCount: number) {
    this.#seed = seed >>> 0;
    this.#shape = shape;
    this.#salt = hashText(shape.name);
    this.#mood = new Noise(this.#seed, this.#salt, 180, 3);
    this.#sides = new Noise(this.#seed, this.#salt, 25, 6);
    this.#swing = new PriceSwing(this.#seed, this.#salt);
    this.#marketIndex = marketIndex;
    let places = 8;
    while (places < marketCount) places *= 2;
    this.#idsPerMs = Math.floor(IDS_PER_MS / places);
    this.#usPerMs = Math.floor(1000 / places);
  }

  /** All trades of one UNIX second, in order of time and id. */
  second(second: number): GeneratedTrade[] {
    const orders = this.#orderCount(second);
    if (orders === 0) return [];
    const random = seededRandom(mix(this.#seed, this.#salt, second, 1));
    const arrivals = Array.from({ length: orders }, () => Math.floor(random() * 1000));
    arrivals.sort((a, b) => a - b);
    const trades: GeneratedTrade[] = [];
    let lastMs = -1;
    let slot = 0;
    let ordersInMs = 0;
    for (const ms of arrivals) {
      if (ms !== lastMs) {
        lastMs = ms;
        slot = 0;
        ordersInMs = 0;
      }
      slot = this.#fill(trades, second * 1000 + ms, slot, ordersInMs, random);
      ordersInMs += 1;
    }
    return trades;
  }

  /** One taker's order: 1 to 6 fills at one instant. Returns the next free slot of the millisecond. */
  #fill(
    trades: GeneratedTrade[],
    atMs: number,
    firstSlot: number,
    orderInMs: number,
    random: Random,
  ): number {
    const isSell = random() < this.#sellShare(atMs / 1000);
    const fills = random() < 0.2 ? 2 + Math.floor(random() * 5) : 1;
    const middle = this.#middleTicks(atMs / 1000);
    const direction = isSell ? -1 : 1;
    // Ids grow with the millisecond, then with the market, then with the order: so must the
    // microseconds.
    const jitterUs = Math.floor((share(this.#seed, this.#salt, atMs, 7) * this.#usPerMs) / 2);
    const offset = Math.min(this.#usPerMs - 1, jitterUs + orderInMs);
    const timeUs = atMs * 1000 + this.#marketIndex * this.#usPerMs + offset;
    let slot = firstSlot;
    let ticks = middle + (isSell ? 0 : 1);
    for (let fill = 0; fill < fills && slot < this.#idsPerMs; fill += 1) {
      if (fill > 0) ticks += direction * Math.floor(random() * 3);
      trades.push({
        id: atMs * IDS_PER_MS + this.#marketIndex * this.#idsPerMs + slot,
        timeUs,
        ticks: Math.max(1, ticks),
        units: this.#units(random),
        isSell,
      });
      slot += 1;
    }
    return slot;
  }

  #orderCount(second: number): number {
    const draw = share(this.#seed, this.#salt, second, 2);
    const mood = this.#mood.at(second);
    const isBurst =
      share(this.#seed, this.#salt, Math.floor(second / BURST_WINDOW_S), 4) < BURST_SHARE;
    const active = this.#shape.activity * (0.3 + 1.4 * mood) * (isBurst ? 2 : 1);
    if (draw >= active) return 0;
    // P(n ≥ k) = 1/k²: mostly one, now and then many.
    const size = 1 / Math.sqrt(Math.max(share(this.#seed, this.#salt, second, 5), 1e-6));
    return Math.min(MAX_ORDERS_PER_S, Math.floor(size * (isBurst ? BURST_FACTOR : 1)));
  }

  /** Heavy-tailed; every third amount is round, as people's are. */
  #units(random: Random): number {
    const { minUnits, usualUnits } = this.#shape;
    const size = Math.min(200, 0.5 / Math.sqrt(Math.max(random(), 1e-6)) - 0.45);
    const units = Math.max(minUnits, Math.floor(size * usualUnits));
    return random() < 1 / 3 ? Math.ceil(units / minUnits) * minUnits : units;
  }

  #sellShare(atS: number): number {
    return 0.15 + 0.7 * this.#sides.at(atS);
  }

  #middleTicks(atS: number): number {
    return Math.max(2, Math.floor(this.#shape.baseTicks * this.#swing.at(atS)));
  }
}
