import type { Clock } from '../kernel/clock.js';
import type { Span } from '../kernel/span.js';
import type { FillRequests } from './ports.js';

/** Whoever can fill the holes of one stream: a walk through trades, or a collector of candles. */
export interface HoleFiller {
  readonly streamId: number;
  want(span: Span): void;
  doubt(span: Span, note: string): Promise<void>;
  retry(span: Span): void;
}

/** The part of a market's collectors that a review speaks to. */
export interface ReviewedUnit {
  readonly walkers: readonly HoleFiller[];
  readonly candles: readonly HoleFiller[];
}

/**
 * A request that was passed on is not passed on again within this time: the archive closes memories
 * of filled gaps only now and then, and meanwhile goes on asking.
 */
const REPEAT_MS = 60_000;
/** Requests that are remembered as passed on; beyond it the oldest are passed on once more. */
const PASSED_MAX = 10_000;
const DOUBT_NOTE = 'taken back to be fetched again, because trades and candles disagree';

/**
 * Passes what others ask for (persons by command, the verification) on to the collectors. The same
 * requests come again and again; passing them on twice changes nothing.
 */
export class FillReview {
  readonly #clock: Clock;
  /** When each request was passed on, by its kind and gap. */
  readonly #passedAtMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Streams that nobody collects here are left alone.
   *
   * @returns whether anything was passed on that may be worked on now
   * @throws the first error of the archive, after all requests were tried
   */
  async review(requests: FillRequests, units: Iterable<ReviewedUnit>): Promise<boolean> {
    const { wanted, suspects, due } = requests;
    if (wanted.length + suspects.length + due.length === 0) return false;
    const fillers = new Map<number, HoleFiller>();
    for (const { walkers, candles } of units) {
      for (const filler of [...walkers, ...candles]) fillers.set(filler.streamId, filler);
    }
    for (const { streamId, span } of wanted) fillers.get(streamId)?.want(span);
    const doubts: Promise<void>[] = [];
    for (const { gapId, streamId, span } of suspects) {
      const filler = fillers.get(streamId);
      const key = `suspect ${gapId}`;
      if (filler === undefined || !this.#isNew(key)) continue;
      const doubt = filler.doubt(span, DOUBT_NOTE);
      // Taken back is remembered in the archive: if it asks once more, that is another doubt.
      doubts.push(doubt.then(() => void this.#passedAtMs.delete(key)));
    }
    let hasDue = false;
    for (const { gapId, streamId, span } of due) {
      const filler = fillers.get(streamId);
      if (filler === undefined || !this.#isNew(`due ${gapId}`)) continue;
      filler.retry(span);
      hasDue = true;
    }
    const failed = (await Promise.allSettled(doubts)).find(({ status }) => status === 'rejected');
    if (failed?.status === 'rejected') throw failed.reason;
    return hasDue || doubts.length > 0 || wanted.length > 0;
  }

  #isNew(key: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    const passedAtMs = this.#passedAtMs.get(key);
    if (passedAtMs !== undefined && nowMs - passedAtMs < REPEAT_MS) return false;
    this.#passedAtMs.delete(key);
    this.#passedAtMs.set(key, nowMs);
    if (this.#passedAtMs.size > PASSED_MAX) {
      const [oldest] = this.#passedAtMs.keys();
      if (oldest !== undefined) this.#passedAtMs.delete(oldest);
    }
    return true;
  }
}
