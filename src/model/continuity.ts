import type { Span } from '../kernel/span.js';

/** Proof of an observation, and what was missed before it. */
export interface Observed {
  /** Covered by this observation. */
  readonly claim: Span;
  /** Not observed since the last time, when that was too long ago. */
  readonly missed: Span | undefined;
}

/**
 * Coverage of things that can only be observed live (depth, tickers): a span is covered while one
 * observation follows the other within a tolerance. Instants without an observation are gone.
 *
 * Instants of `atMs` are exchange time; the tolerance is measured on this machine's monotonic clock,
 * so that an exchange which runs at another pace is judged by how often we looked.
 */
export class Continuity {
  readonly #toleranceMs: number;
  #lastAtMs: number | undefined;
  #beforeLastAtMs: number | undefined;
  #lastLookMs: number | undefined;

  /** @param coveredUntilMs end of the coverage that an earlier run left behind */
  constructor(toleranceMs: number, coveredUntilMs: number | undefined) {
    this.#toleranceMs = toleranceMs;
    this.#lastAtMs = coveredUntilMs;
  }

  /**
   * The last observation did not reach the archive: it counts as not made, and the next one begins
   * anew. What was missed then includes it.
   */
  undo(): void {
    this.#lastLookMs = undefined;
    this.#lastAtMs = this.#beforeLastAtMs;
  }

  /** A look in time found that it was not there, or could not be read: the next one begins anew. */
  breakOff(): void {
    this.#lastLookMs = undefined;
  }

  observe(atMs: number, monotonicMs: number): Observed {
    const at = Math.floor(atMs);
    const lastAtMs = this.#lastAtMs;
    const isKept =
      this.#lastLookMs !== undefined && monotonicMs - this.#lastLookMs <= this.#toleranceMs;
    this.#lastLookMs = monotonicMs;
    this.#beforeLastAtMs = lastAtMs;
    this.#lastAtMs = at + 1;
    if (lastAtMs === undefined || at < lastAtMs) {
      // The first look ever, or the exchange's clock was set back: only this time is proven.
      return { claim: { fromMs: at, toMs: at + 1 }, missed: undefined };
    }
    if (isKept) return { claim: { fromMs: lastAtMs, toMs: at + 1 }, missed: undefined };
    return { claim: { fromMs: at, toMs: at + 1 }, missed: { fromMs: lastAtMs, toMs: at } };
  }
}
