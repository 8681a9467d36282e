import type { Clock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import { Agreement, BELIEVED } from '../../model/agreement.js';
import { comparePlaces, type PageRow } from '../../model/order.js';

interface Seen extends PageRow {
  readonly atMs: number;
}

const { apartMs: APART_MS, withinMs: PROOF_MAX_MS } = BELIEVED.historyEnd;

/**
 * End of the exchange's history, as far as its answers show.
 *
 * Signs are kept by the edge that was walked, because the end itself moves up with every trade that
 * is forgotten. What two of them agree on holds for the whole market: nothing older than the lower of
 * the two ends is served, so that no other gap below has to be asked for.
 */
export class HistoryEnds {
  readonly #clock: Clock;
  readonly #byEdge = new Agreement<number, number>(BELIEVED.historyEnd);
  #seen: Seen | undefined;
  #proven: Seen | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes one sign that history ends below a trade; true for the second one that counts. */
  isAgain(edgeMs: number, tid: number): boolean {
    const isProof = this.#byEdge.say(edgeMs, this.#clock.monotonicMs(), tid);
    // A proof is used up.
    if (isProof) this.forget(edgeMs);
    return isProof;
  }

  /** There is more below an edge after all. */
  forget(edgeMs: number): void {
    this.#byEdge.contradict([edgeMs]);
  }

  /** Notes that nothing came from right below the oldest trade that was shown. */
  seenBelow({ tid, tradedAtS }: PageRow): void {
    const now = { tid, tradedAtS, atMs: this.#clock.monotonicMs() };
    const ageMs = now.atMs - (this.#seen?.atMs ?? Number.NEGATIVE_INFINITY);
    if (this.#seen !== undefined && ageMs < APART_MS) return;
    if (this.#seen !== undefined && ageMs <= PROOF_MAX_MS) {
      const lower = comparePlaces(this.#seen, now) < 0 ? this.#seen : now;
      this.#proven = { ...lower, atMs: now.atMs };
    }
    this.#seen = now;
  }

  /**
   * Returns what is known of a gap without asking: that it lies below the end, or that it seemed to just
   * now, so that it is too early for a second sign.
   *
   * @param above the trade right above the gap, if there is one
   */
  below(edgeMs: number, above: PageRow | undefined): 'proven' | 'seen' | undefined {
    const nowMs = this.#clock.monotonicMs();
    const isUnder = (end: Seen | undefined, maxAgeMs: number) =>
      end !== undefined &&
      nowMs - end.atMs < maxAgeMs &&
      (above !== undefined ? comparePlaces(above, end) < 0 : edgeMs <= end.tradedAtS * SECOND_MS);
    if (isUnder(this.#proven, PROOF_MAX_MS)) return 'proven';
    return isUnder(this.#seen, APART_MS) ? 'seen' : undefined;
  }

  /** Asks for another look: what is known without asking does not answer that. */
  askAnew(): void {
    this.#proven = undefined;
  }
}

/**
 * The time in which a market was seen to have no trade at all.
 *
 * Every answer says that there was none up to its own time, so later answers confirm earlier ones, at no request more
 * than a poll takes anyway. Two looks prove the time between them because the exchange keeps a trade so long that the
 * later one would have shown it. No answer shows how long that is: it is a setting. All times are exchange time, proven
 * by clock and cache margin.
 */
export class EmptyMarket {
  readonly #keptAtLeastMs: number;
  #proven: Span | undefined;
  /** Times of looks that are not confirmed yet, oldest first. */
  readonly #looks: number[] = [];

  /**
   * @param proven what is covered already of a market without trades
   * @param keptAtLeastMs how long the exchange keeps a trade at least
   */
  constructor(proven: Span | undefined, keptAtLeastMs: number) {
    this.#keptAtLeastMs = keptAtLeastMs;
    this.#proven = proven;
  }

  /** Time that is proven by now. */
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
    if (untilMs < lastMs + BELIEVED.emptyMarket.apartMs) return undefined;
    this.#looks.push(untilMs);
    const toMs = this.#looks.at(-BELIEVED.emptyMarket.answers);
    if (toMs === undefined) return undefined;
    this.#looks.shift();
    this.#proven = { fromMs: this.#proven?.fromMs ?? toMs - SECOND_MS, toMs };
    return this.#proven;
  }

  /** The first answer with a trade. What was seen long before it says nothing of the time between. */
  tradedAt(untilMs: number): void {
    this.#endAfterAbsence(untilMs);
    this.#looks.length = 0;
  }

  /** Forgets the coverage proven so far: it is suspect. */
  clear(): void {
    this.#proven = undefined;
    this.#looks.length = 0;
  }

  #endAfterAbsence(untilMs: number): void {
    const lastMs = this.#looks.at(-1) ?? this.#proven?.toMs ?? untilMs;
    if (untilMs - lastMs > this.#keptAtLeastMs) this.clear();
  }
}
