import { isNotRecordedYet } from '../contract/gap-notices.js';
import { messageOf } from '../kernel/errors.js';
import type { GapReason } from '../model/gap-reasons.js';
import type { ExchangeReply } from './ports.js';
import type { StreamReport } from './reports.js';

/** Why something was not observed for a while. */
export interface Trouble {
  /** Orders troubles of one question, and of the streams that its answers are for. */
  readonly turn: number;
  readonly reason: GapReason;
  /** Undefined where what failed says more. */
  readonly note: string | undefined;
}

export interface AnswersOptions {
  /** Longest time between two looks that still counts as keeping the schedule. */
  readonly toleranceMs: number;
  readonly report: Pick<StreamReport, 'skipped'>;
  /** Called when an answer came that shows nothing new, with the reason. */
  readonly onUnproven: (why: string) => void;
}

/**
 * Reads off the answers to one question that is asked again and again which time each of them shows,
 * and whether it shows any: one from a cache may have been seen before, and a replay may not know.
 */
export class Answers {
  readonly #options: AnswersOptions;
  #turn = 0;
  #trouble: Trouble = { turn: 0, reason: 'not observed', note: undefined };
  #isUnknownReported = false;
  #cachedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: AnswersOptions) {
    this.#options = options;
  }

  /** The newest trouble with the answers. */
  get trouble(): Trouble {
    return this.#trouble;
  }

  /** Another trouble, with one of the streams that the answers are for: later than all before it. */
  nextTurn(): number {
    this.#turn += 1;
    return this.#turn;
  }

  /**
   * Whether the server answered with what it saw last, and does not know the time itself: a replay in
   * a gap of its archive. That is no observation. It is reported once, until it knows again.
   */
  isUnknown({ gaps = [] }: Pick<ExchangeReply<unknown>, 'gaps'>): boolean {
    const [gap] = gaps;
    if (gap !== undefined && !this.#isUnknownReported) {
      const message = `the archive that is replayed has a gap here (${gap.reason}); nothing counts as seen until it ends`;
      this.#options.report.skipped('missing_at_source', message);
    }
    this.#isUnknownReported = gap !== undefined;
    if (gap !== undefined) this.#note('missing at source', undefined);
    return this.#isUnknownReported;
  }

  /**
   * Waits for an answer. Of an error the stream's failures say more than what an answer before it was; that
   * of a replay that has nothing yet says so.
   */
  async of<T>(asked: Promise<T>): Promise<T> {
    try {
      return await asked;
    } catch (error) {
      const isMissing = isNotRecordedYet(messageOf(error));
      this.#note(isMissing ? 'missing at source' : 'not observed', undefined);
      throw error;
    }
  }

  /**
   * The time that an answer shows: that of its arrival, not of its reading, or it would seem to know
   * what happened in between; of a cached one that of the cache. Undefined when it was seen before, so
   * that nothing was observed anew.
   */
  instantOf({
    answeredAtMs,
    cachedAtMs = null,
    covered = null,
  }: Pick<ExchangeReply<unknown>, 'answeredAtMs' | 'cachedAtMs' | 'covered'>): number | undefined {
    if (covered !== null) return covered.toMs;
    if (cachedAtMs === null) return answeredAtMs;
    const shownMs = Math.min(answeredAtMs, Math.floor(cachedAtMs));
    // After a jump back the last one lies in the future and is no measure any more.
    if (shownMs <= this.#cachedAtMs && this.#cachedAtMs <= answeredAtMs) {
      // A cache that is slower than the schedule, and renewed in time, leaves no gap.
      if (answeredAtMs - this.#cachedAtMs > this.#options.toleranceMs) {
        const why = 'its answers come from a cache, and show what was seen before';
        this.#note('not observed', why);
        this.#options.onUnproven(why);
      }
      return undefined;
    }
    this.#cachedAtMs = shownMs;
    return shownMs;
  }

  #note(reason: GapReason, note: string | undefined): void {
    this.#trouble = { turn: this.nextTurn(), reason, note };
  }
}
