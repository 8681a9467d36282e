/*
 * Randomness that depends on nothing but its arguments: any time can be asked for, in any order, and
 * comes out the same. Only the four basic operations of floats are used, which give the same result
 * on every machine.
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
export class Noise {
  readonly #seed: number;
  readonly #salt: number;
  readonly #periodS: number;
  readonly #channel: number;
  /** The stretch between two values that was asked for last; most questions are about it again. */
  #left = Number.NaN;
  #from = 0;
  #to = 0;

  constructor(seed: number, salt: number, periodS: number, channel: number) {
    this.#seed = seed;
    this.#salt = salt;
    this.#periodS = periodS;
    this.#channel = channel;
  }

  at(atS: number): number {
    const at = atS / this.#periodS;
    const left = Math.floor(at);
    if (left !== this.#left) {
      this.#from = share(this.#seed, this.#salt, left, this.#channel);
      this.#to = share(this.#seed, this.#salt, left + 1, this.#channel);
      this.#left = left;
    }
    const part = at - left;
    const eased = part * part * (3 - 2 * part);
    return this.#from + (this.#to - this.#from) * eased;
  }
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

/** How a market's price swings around its base: noise of several periods added up. */
export class PriceSwing {
  readonly #noises: readonly Noise[];

  constructor(seed: number, salt: number) {
    this.#noises = SWINGS.map(([periodS], index) => {
      return new Noise(seed, salt, periodS, FIRST_SWING_CHANNEL + index);
    });
  }

  /** What the base price is multiplied by: around 1, within some percent. */
  at(atS: number): number {
    let swing = 0;
    for (const [index, [, size]] of SWINGS.entries()) {
      swing += size * (2 * (this.#noises[index]?.at(atS) ?? 0) - 1);
    }
    return 1 + swing;
  }
}
