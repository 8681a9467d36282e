import { hashText, type Random, seededRandom } from '../../kernel/random.js';
import type { FaultRule } from './script.js';

/** What one rule did so far. */
export interface FaultCount {
  readonly rule: string;
  readonly kind: string;
  /** Opportunities: events that the rule is about, at a time at which it holds. */
  readonly offered: number;
  readonly fired: number;
}

/**
 * Decides for one rule, opportunity by opportunity. The n-th decision depends on seed, rule id and
 * n alone, so other rules and other traffic do not change a rule's luck.
 */
export class RuleState {
  readonly rule: FaultRule;
  readonly #seed: number;
  readonly #startedAtMs: number;
  #offered = 0;
  #fired = 0;

  /** @param startedAtMs monotonic time at which the script took effect */
  constructor(rule: FaultRule, seed: number, startedAtMs: number) {
    this.rule = rule;
    this.#seed = seed;
    this.#startedAtMs = startedAtMs;
  }

  /**
   * Offers an opportunity. Returns undefined when the rule lets it pass; else it is counted as
   * fired, and what comes back draws the particulars of the fault.
   *
   * @param atMs the exchange's time
   * @param nowMs monotonic time of this machine
   */
  offer(atMs: number, nowMs: number): Random | undefined {
    const { id, probability, after, every, fromMs, toMs, firstMs, maxCount } = this.rule;
    if (atMs < fromMs || atMs >= toMs || nowMs - this.#startedAtMs >= firstMs) return undefined;
    this.#offered += 1;
    const random = seededRandom(hashText(`${this.#seed}/${id}/${this.#offered}`));
    const isLucky = random() < probability;
    const position = this.#offered - after;
    if (!isLucky || position <= 0 || position % every !== 0 || this.#fired >= maxCount)
      return undefined;
    this.#fired += 1;
    return random;
  }

  get count(): FaultCount {
    const { id, kind } = this.rule;
    return { rule: id, kind, offered: this.#offered, fired: this.#fired };
  }
}

/** A whole number in `[0, below)`. */
export function drawBelow(random: Random, below: number): number {
  return Math.floor(random() * below);
}
