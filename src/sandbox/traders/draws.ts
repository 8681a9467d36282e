import type { Random } from '../../kernel/random.js';

/*
 * Random draws by the four basic operations, comparisons and square roots only: unlike logarithms
 * these give the same result on every machine and in every version of the language.
 */

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
