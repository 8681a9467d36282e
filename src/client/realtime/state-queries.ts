import { compareDecimals, equalDecimals } from '../../kernel/decimal.js';
import type { FeedSettings } from './reconnecting.js';
import type { CloseReason, FeedRecord } from './state-feed.js';

/** Refused queries in a row that end a connection. */
const MAX_REFUSED = 3;

export interface StateQueriesOptions
  extends Pick<FeedSettings, 'clock' | 'queryEveryMs' | 'acknowledgeTimeoutMs'> {
  /** Sends a state.query; gives its id. */
  readonly send: () => number;
  /** Ends the state that is asked for, and with the last one the connection. */
  readonly end: (reason: CloseReason) => void;
}

/**
 * The questions of one connection, one at a time: asked anew some time after each answer, with a
 * deadline. Not every server of the family knows them: one that goes on with updates lives without.
 */
export class StateQueries {
  readonly #options: StateQueriesOptions;
  #asked: { readonly id: number; readonly sentMonotonicMs: number } | undefined;
  #cancel: (() => void) | undefined;
  #refused = 0;
  #updates = 0;

  constructor(options: StateQueriesOptions) {
    this.#options = options;
  }

  get isWaiting(): boolean {
    return this.#asked !== undefined;
  }

  ask(): void {
    const { clock, acknowledgeTimeoutMs, send } = this.#options;
    this.end();
    this.#updates = 0;
    this.#cancel = clock.after(acknowledgeTimeoutMs, () => this.#missed());
    this.#asked = { id: send(), sentMonotonicMs: clock.monotonicMs() };
  }

  /** An update shows that the connection lives, whatever becomes of the question. */
  updated(): void {
    this.#updates += 1;
    this.#refused = 0;
  }

  /** @returns when the question left, monotonic; undefined when this is no answer to it */
  answered(id: number | string): number | undefined {
    if (this.#asked?.id !== id) return undefined;
    const { sentMonotonicMs } = this.#asked;
    this.#askLater();
    return sentMonotonicMs;
  }

  /** Returns true if the answer was one. */
  settled(isAnswer: boolean): void {
    this.#refused = isAnswer ? 0 : this.#refused + 1;
    if (this.#refused >= MAX_REFUSED && this.#updates === 0) this.#options.end('query_refused');
  }

  /** Leaves no timer. */
  end(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#asked = undefined;
  }

  #missed(): void {
    if (this.#updates === 0) this.#options.end('silent');
    else this.#askLater();
  }

  #askLater(): void {
    const { clock, queryEveryMs } = this.#options;
    this.end();
    this.#cancel = clock.after(queryEveryMs, () => this.ask());
  }
}

/** Differing answers in a row, without an update between, that prove a dead subscription. */
const PROOF = 2;

/** Statement of a query's response about the updates. */
export type QueryResult =
  /** It equals the newest update: nothing was missed so far. */
  | 'agrees'
  /** It proves nothing: it is not what was pushed last, or nothing was pushed yet. */
  | 'unproven'
  /** It shows once more what should have been pushed: the subscription is dead. */
  | 'stalled';

/**
 * Notices a subscription that no longer reports changes, on a connection that still answers.
 *
 * An answer proves something only when it equals the newest *pushed* record. One that shows another
 * deal should have been pushed before: once may be chance (the update is on its way), twice in a row
 * without an update is proof. A volume that only shrank is neither: not every server pushes that old
 * deals leave the window.
 */
export class StallDetector {
  readonly #lateMs: number;
  #known: FeedRecord | undefined;
  #isPushed = false;
  #differing = 0;
  #differsSinceMs: number | undefined;

  /** @param lateMs how long after a differing answer an update may still be on its way */
  constructor(lateMs: number) {
    this.#lateMs = lateMs;
  }

  /**
   * @param nowMs monotonic
   * @returns false when it comes so late after an answer that showed more, that others are lost
   */
  observeUpdate(record: FeedRecord, nowMs: number): boolean {
    const isLate =
      this.#differsSinceMs !== undefined && nowMs - this.#differsSinceMs > this.#lateMs;
    this.#known = record;
    this.#isPushed = true;
    this.#differing = 0;
    this.#differsSinceMs = undefined;
    return !isLate;
  }

  /** @param nowMs monotonic */
  observeQuery(record: FeedRecord, nowMs: number): QueryResult {
    this.#known ??= record;
    if (showsUnreportedDeal(this.#known, record)) {
      this.#differing += 1;
      this.#differsSinceMs ??= nowMs;
      return this.#differing >= PROOF ? 'stalled' : 'unproven';
    }
    this.#differing = 0;
    const isProof = this.#isPushed && isSame(this.#known, record);
    if (!isProof) return 'unproven';
    this.#differsSinceMs = undefined;
    return 'agrees';
  }
}

function showsUnreportedDeal(reported: FeedRecord, found: FeedRecord): boolean {
  return (
    !equalDecimals(reported.last, found.last) ||
    compareDecimals(found.volume, reported.volume) > 0 ||
    compareDecimals(found.deal, reported.deal) > 0
  );
}

/** Fields of both an update and a response; updates of the contract carry no change. */
const FIGURES = ['last', 'open', 'close', 'high', 'low', 'deal', 'volume'] as const;

function isSame(reported: FeedRecord, found: FeedRecord): boolean {
  return FIGURES.every((figure) => equalDecimals(reported[figure], found[figure]));
}
