/** Weight of one answer in the share of refusals: about the last 200 answers count. */
const FADING = 1 - 1 / 200;
/** With fewer answers than this, the share is taken of this many. */
const LEAST_ANSWERS = 100;
/**
 * A cut is this times the square of the share, at most {@link CUT_MAX}: 2 % for a share of 2 %, half
 * of the rate from a share of 10 % on. Single refusals come and go; a storm is a limit.
 */
const CUT_GAIN = 50;
const CUT_MAX = 0.5;
/** Share of refusals at which cuts and {@link HEALING} balance, so the least that a limit shows. */
const TOLERATED_SHARE = 0.04;
/** What each answer that is no refusal gives back of the rate. */
const HEALING = CUT_GAIN * TOLERATED_SHARE ** 3;
/** Time without a refusal after which all of the rate is back; slow at first, to meet a limit gently. */
const RECOVERY_MS = 60_000;
/** Cuts never lead below this fraction of the configured rate. */
const LEAST_FACTOR = 1 / 64;
/** Refusals of requests that were under way together cut once. */
const MERGE_MS = 1000;

/**
 * The part of a configured rate that a server puts up with, learnt from its refusals. All times are
 * of one monotonic clock, milliseconds.
 *
 * Refusals cut in proportion to their share of the answers. Answers and time give back: a share below
 * {@link TOLERATED_SHARE} leads to the full rate, and so does a minute without any refusal.
 */
export class AdaptiveRate {
  #factor = 1;
  #recoversFromMs = Number.NEGATIVE_INFINITY;
  #cutAtMs = Number.NEGATIVE_INFINITY;
  #answers = 0;
  #refusals = 0;

  /** Fraction of the configured rate that is allowed now. */
  factor(nowMs: number): number {
    if (this.#factor === 1) return 1;
    const recovery = Math.max(0, nowMs - this.#recoversFromMs) / RECOVERY_MS;
    return Math.min(1, this.#factor + recovery ** 3);
  }

  /** The server answered, and did not refuse. */
  served(): void {
    this.#count(0);
    this.#factor = Math.min(1, this.#factor * (1 + HEALING));
  }

  /** @returns the part of the rate that this refusal cuts off; 0 when another one just did */
  refused(nowMs: number): number {
    this.#count(1);
    if (nowMs - this.#cutAtMs < MERGE_MS) return 0;
    const share = this.#refusals / Math.max(LEAST_ANSWERS, this.#answers);
    const cut = Math.min(CUT_MAX, CUT_GAIN * share ** 2);
    this.#factor = Math.max(LEAST_FACTOR, this.factor(nowMs) * (1 - cut));
    this.#cutAtMs = nowMs;
    this.#recoversFromMs = nowMs;
    return cut;
  }

  /** Nothing is sent for so long: that time shows nothing, and counts for no recovery. */
  paused(forMs: number): void {
    this.#recoversFromMs += forMs;
  }

  #count(refusals: 0 | 1): void {
    this.#answers = this.#answers * FADING + 1;
    this.#refusals = this.#refusals * FADING + refusals;
  }
}
