import type { Clock } from '../kernel/clock.js';
import { shownDuration } from '../kernel/durations.js';
import { isAborted, messageOf } from '../kernel/errors.js';
import type { GapReason } from '../model/gap-reasons.js';
import type { ExchangeReply } from './ports.js';
import type { StreamReport } from './reports.js';

/** Why something was not observed for a while. */
export interface Trouble {
  /** Orders troubles of one question, and of the streams that its answers are for. */
  readonly turn: number;
  readonly reason: GapReason;
  readonly note: string | undefined;
}

export interface AnswersOptions {
  /** Longest time between two looks that still counts as keeping the schedule. */
  readonly toleranceMs: number;
  readonly clock: Clock;
  readonly report: Pick<StreamReport, 'skipped'>;
  /** Called when an answer came that proves nothing, with why. */
  readonly onUnproven: (why: string, reason: GapReason) => void;
}

/** A request that a stop ends so long after its beginning is one that hung. */
const HANG_MS = 5000;

/**
 * Reads off the answers to one question that is asked again and again which time each of them shows,
 * and whether it shows any: one from a cache may have been seen before.
 */
export class Answers {
  readonly #options: AnswersOptions;
  #turn = 0;
  #trouble: Trouble = { turn: 0, reason: 'not observed', note: undefined };
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

  /** Waits for an answer. */
  async receive<T>(asked: Promise<T>): Promise<T> {
    const { clock, toleranceMs } = this.#options;
    const sinceMs = clock.monotonicMs();
    try {
      const answer = await asked;
      this.#noteWait(sinceMs, toleranceMs);
      return answer;
    } catch (error) {
      if (isAborted(error)) {
        this.#noteWait(sinceMs, HANG_MS);
        throw error;
      }
      this.#note('not observed', messageOf(error));
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
  }: Pick<ExchangeReply<unknown>, 'answeredAtMs' | 'cachedAtMs'>): number | undefined {
    if (cachedAtMs === null) return answeredAtMs;
    const shownMs = Math.min(answeredAtMs, Math.floor(cachedAtMs));
    // After a jump back the last one lies in the future and is no measure any more.
    if (shownMs <= this.#cachedAtMs && this.#cachedAtMs <= answeredAtMs) {
      // A cache that is slower than the schedule, and renewed in time, leaves no gap.
      if (answeredAtMs - this.#cachedAtMs > this.#options.toleranceMs) {
        const why = 'its answers come from a cache, and show what was seen before';
        this.#provesNothing('not observed', why);
      }
      return undefined;
    }
    this.#cachedAtMs = shownMs;
    return shownMs;
  }

  #noteWait(sinceMs: number, usualMs: number): void {
    const waitedMs = this.#options.clock.monotonicMs() - sinceMs;
    if (waitedMs <= usualMs) return;
    const waited = shownDuration(waitedMs);
    this.#note('not observed', `a request waited ${waited} for its turn or its answer`);
  }

  #provesNothing(reason: GapReason, why: string): void {
    this.#note(reason, why);
    this.#options.onUnproven(why, reason);
  }

  #note(reason: GapReason, note: string | undefined): void {
    this.#trouble = { turn: this.nextTurn(), reason, note };
  }
}
