import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { CoveredRange } from '../../model/batch.js';

/** Answers in a row that must agree: of these, two may be cut on their way and prove nothing. */
const LOOKS_FOR_PROOF = 3;

/**
 * The time in which a market was seen to have no trade at all.
 *
 * Every answer says that there was none up to its own time, so later answers confirm earlier ones,
 * at no request more than a poll takes anyway: time counts as empty once three looks in a row say so,
 * at least a second apart, and what the newest two of them saw follows with the next looks. It ends
 * with the first trade; then the end of history below that trade proves the rest.
 *
 * Two looks prove the time between them because the exchange keeps a trade so long that the later one
 * would have shown it. No answer shows how long that is: it is a setting. An earlier run's coverage
 * goes on in the same way, over an absence that was no longer. All times are exchange time, proven
 * by clock and cache margin.
 */
export class EmptyMarket {
  readonly #keptAtLeastMs: number;
  #proven: Span | undefined;
  /** Times of looks that are not confirmed yet, oldest first. */
  #looks: number[] = [];

  /**
   * @param ranges what is covered already
   * @param keptAtLeastMs how long the exchange keeps a trade at least
   */
  constructor(ranges: readonly CoveredRange[], keptAtLeastMs: number) {
    this.#keptAtLeastMs = keptAtLeastMs;
    const [top] = ranges;
    if (ranges.every(({ rowCount }) => rowCount === 0)) this.#proven = top?.span;
  }

  /** What is proven by now. */
  get span(): Span | undefined {
    return this.#proven;
  }

  /**
   * An answer without trades.
   *
   * @returns the span that it proves together with those before; undefined when it does not yet
   */
  look(untilMs: number): Span | undefined {
    this.#endAfterAbsence(untilMs);
    const lastMs = this.#looks.at(-1) ?? this.#proven?.toMs ?? Number.NEGATIVE_INFINITY;
    if (untilMs < lastMs + SECOND_MS) return undefined;
    this.#looks.push(untilMs);
    const toMs = this.#looks.at(-LOOKS_FOR_PROOF);
    if (toMs === undefined) return undefined;
    this.#looks = this.#looks.slice(1 - LOOKS_FOR_PROOF);
    this.#proven = { fromMs: this.#proven?.fromMs ?? toMs - SECOND_MS, toMs };
    return this.#proven;
  }

  /** The first answer with a trade. What was seen long before it says nothing of the time between. */
  tradedAt(untilMs: number): void {
    this.#endAfterAbsence(untilMs);
    this.#looks = [];
  }

  /** Forgets the coverage proven so far: it is suspect. */
  clear(): void {
    this.#proven = undefined;
    this.#looks = [];
  }

  #endAfterAbsence(untilMs: number): void {
    const lastMs = this.#looks.at(-1) ?? this.#proven?.toMs;
    if (lastMs !== undefined && untilMs - lastMs > this.#keptAtLeastMs) this.clear();
  }
}
