import type { Random } from '../kernel/random.js';

/*
 * Random draws by the four basic operations, comparisons and square roots of floats only: unlike
 * logarithms these give the same result on every machine and in every version of the language.
 * Noise depends on nothing but its arguments, so any time can be asked for, in any order.
 */

/** A well-mixed 32-bit number from four whole numbers; the basis of everything that is random. */
export function mix(seed: number, a: number, b: number, c: number): number {
  let hash = seed | 0;
  for (const word of [a, b, b / 2 ** 32, c]) {
    hash = Math.imul(hash ^ word, 0x85ebca6b);
    hash ^= hash >>> 13;
    hash = Math.imul(hash + 0x9e3779b9, 0xc2b2ae35);
    hash ^= hash >>> 16;
  }
  return hash >>> 0;
}

/** A share in `[0, 1)` that depends on nothing but its arguments. */
export function share(seed: number, a: number, b: number, c: number): number {
  return mix(seed, a, b, c) / 2 ** 32;
}

/** Smooth noise in `[0, 1)` over time: a random value every `periodS` seconds, eased between. */
export function noise(seed: number, salt: number, periodS: number, channel: number) {
  // The stretch between two values that was asked for last; most questions are about it again.
  let left = Number.NaN;
  let from = 0;
  let to = 0;
  return (atS: number): number => {
    const at = atS / periodS;
    const floor = Math.floor(at);
    if (floor !== left) {
      from = share(seed, salt, floor, channel);
      to = share(seed, salt, floor + 1, channel);
      left = floor;
    }
    const part = at - floor;
    return from + (to - from) * (part * part * (3 - 2 * part));
  };
}

/** Swings of a price: lattice distance in seconds, and size as a share of the base price. */
const SWINGS: ReadonlyArray<readonly [periodS: number, size: number]> = [
  [5, 0.000_15],
  [40, 0.000_5],
  [300, 0.001_4],
  [2400, 0.004],
  [21_600, 0.012],
  [172_800, 0.03],
];
const FIRST_SWING_CHANNEL = 10;

/**
 * How a market's price swings around its base: noise of several periods added up.
 *
 * @returns what the base price is multiplied by at a time: around 1, within some percent
 */
export function priceSwing(seed: number, salt: number): (atS: number) => number {
  const swings = SWINGS.map(([periodS, size], index) => {
    return { size, at: noise(seed, salt, periodS, FIRST_SWING_CHANNEL + index) };
  });
  return (atS) => 1 + swings.reduce((swing, { size, at }) => swing + size * (2 * at(atS) - 1), 0);
}

/** Least share that a heavy tail is drawn from: no draw is more than a thousand times the scale. */
const LEAST = 1e-6;

/**
 * An exponentially distributed number of mean 1, by von Neumann's method: a run of falling random
 * numbers that begins with x ends after an even number of draws with probability e^−x.
 */
export function drawExponential(random: Random): number {
  for (let whole = 0; ; whole += 1) {
    const first = random();
    let last = first;
    let draws = 1;
    for (;;) {
      const next = random();
      draws += 1;
      if (next >= last) break;
      last = next;
    }
    if (draws % 2 === 0) return whole + first;
  }
}

/** Heavy-tailed, from 0 to 999: P(x > t) = 1/(1 + t)², so the mean is 1. */
export function drawHeavy(random: Random): number {
  return 1 / Math.sqrt(Math.max(random(), LEAST)) - 1;
}

/** A whole number with P(n ≥ k) = weight/k² for k ≥ 1, at most `max`. */
export function drawCount(random: Random, weight: number, max: number): number {
  return Math.min(max, Math.floor(Math.sqrt(weight / Math.max(random(), LEAST))));
}
