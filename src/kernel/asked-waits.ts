/** Longest wait that one answer may impose. */
export const ONE_ANSWER_MAX_MS = 60_000;

/**
 * How much of a wait that a server asks for is obeyed. Up to {@link ONE_ANSWER_MAX_MS} all of it. A
 * longer one is obeyed so far, and wholly once an answer after that asks for a long wait again: one
 * answer that is wrong must not stop everything for long. Times are monotonic, milliseconds.
 */
export class AskedWaits {
  readonly #mostMs: number;
  #firstEndsAtMs = Number.POSITIVE_INFINITY;

  /** @param mostMs longest wait, however many answers agree on it */
  constructor(mostMs: number) {
    this.#mostMs = mostMs;
  }

  obeyed(askedMs: number, nowMs: number): number {
    if (askedMs <= ONE_ANSWER_MAX_MS) return Math.max(0, askedMs);
    if (nowMs >= this.#firstEndsAtMs) return Math.min(askedMs, this.#mostMs);
    // Those that were under way with the first one are no second answer.
    this.#firstEndsAtMs = Math.min(this.#firstEndsAtMs, nowMs + ONE_ANSWER_MAX_MS);
    return ONE_ANSWER_MAX_MS;
  }

  /** The server asks for no wait any more. */
  over(): void {
    this.#firstEndsAtMs = Number.POSITIVE_INFINITY;
  }
}
