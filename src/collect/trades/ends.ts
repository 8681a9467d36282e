import type { Clock } from '../../kernel/clock.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { comparePlaces, type PageRow } from '../../model/order.js';

/** Where an answer said that history ends. */
export interface EndPlace {
  /** Upper edge of the hole that was walked. */
  readonly edgeMs: number;
  /** The trade that is known right above the hole, if there is one. */
  readonly above: PageRow | undefined;
  /** The oldest trade that the server showed on the way; undefined when it showed none. */
  readonly lowest: PageRow | undefined;
}

interface Seen extends PageRow {
  readonly atMs: number;
}

/** Two answers that history ends are one proof when at least a second apart, and at most this. */
const PROOF_MAX_MS = 1_800_000;
/** Edges that are remembered; one that is forgotten needs its two signs anew. */
const EDGES_MAX = 100;

/**
 * Where the exchange's history ends, as far as its answers tell. One answer is a sign, a second one
 * that agrees is the proof: a page may be cut on its way, and a cache may repeat itself.
 *
 * Signs are kept by the edge that was walked, because the end itself moves up with every trade that
 * is forgotten. What two of them agree on holds for the whole market: nothing older than the lower of
 * the two ends is served, so that no other hole below has to be asked for.
 */
export class HistoryEnds {
  readonly #clock: Clock;
  readonly #byEdge = new Map<number, { readonly tid: number; readonly atMs: number }>();
  #seen: Seen | undefined;
  #proven: Seen | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Notes one sign that history ends below a trade; true for the second one that counts. */
  isAgain(edgeMs: number, tid: number): boolean {
    const atMs = this.#clock.monotonicMs();
    const first = this.#byEdge.get(edgeMs);
    const ageMs = first?.tid === tid ? atMs - first.atMs : Number.POSITIVE_INFINITY;
    if (ageMs < SECOND_MS) return false;
    this.#byEdge.delete(edgeMs);
    if (ageMs <= PROOF_MAX_MS) return true;
    if (this.#byEdge.size >= EDGES_MAX) this.#byEdge.clear();
    this.#byEdge.set(edgeMs, { tid, atMs });
    return false;
  }

  /** There is more below an edge after all. */
  forget(edgeMs: number): void {
    this.#byEdge.delete(edgeMs);
  }

  /** Notes that nothing came from right below the oldest trade that was shown. */
  seenBelow({ tid, tradedAtS }: PageRow): void {
    const now = { tid, tradedAtS, atMs: this.#clock.monotonicMs() };
    const ageMs = now.atMs - (this.#seen?.atMs ?? Number.NEGATIVE_INFINITY);
    if (this.#seen !== undefined && ageMs < SECOND_MS) return;
    if (this.#seen !== undefined && ageMs <= PROOF_MAX_MS) {
      const lower = comparePlaces(this.#seen, now) < 0 ? this.#seen : now;
      this.#proven = { ...lower, atMs: now.atMs };
    }
    this.#seen = now;
  }

  /**
   * What is known of a hole without asking: that it lies below the end, or that it seemed to just
   * now, so that it is too early for a second sign.
   *
   * @param above the trade right above the hole, if there is one
   */
  below(edgeMs: number, above: PageRow | undefined): 'proven' | 'seen' | undefined {
    const nowMs = this.#clock.monotonicMs();
    const isUnder = (end: Seen | undefined, maxAgeMs: number) =>
      end !== undefined &&
      nowMs - end.atMs < maxAgeMs &&
      (above !== undefined ? comparePlaces(above, end) < 0 : edgeMs <= end.tradedAtS * SECOND_MS);
    if (isUnder(this.#proven, PROOF_MAX_MS)) return 'proven';
    return isUnder(this.#seen, SECOND_MS) ? 'seen' : undefined;
  }

  /** Asks for another look: what is known without asking does not answer that. */
  askAnew(): void {
    this.#proven = undefined;
  }
}
