import { compareDecimals, equalDecimals } from '../../kernel/decimal.js';
import type { FeedRecord } from './state-feed.js';

/** Differing answers in a row, without an update between, that prove a dead subscription. */
const PROOF = 2;

/** What a query's answer says about the updates. */
export type QueryVerdict = 'agrees' | 'differs' | 'stalled';

/**
 * Notices a subscription that no longer tells what happens, on a connection that still answers.
 *
 * A query's answer that shows another deal than the newest update should have been pushed before.
 * Once may be chance (the update is on its way); twice in a row without an update is proof. A
 * volume that only shrank is no sign: old deals leave the window without anything being pushed.
 */
export class StallDetector {
  #known: FeedRecord | undefined;
  #differing = 0;

  observeUpdate(record: FeedRecord): void {
    this.#known = record;
    this.#differing = 0;
  }

  observeQuery(record: FeedRecord): QueryVerdict {
    this.#known ??= record;
    if (!showsUntoldDeal(this.#known, record)) {
      this.#differing = 0;
      return 'agrees';
    }
    this.#differing += 1;
    return this.#differing >= PROOF ? 'stalled' : 'differs';
  }
}

function showsUntoldDeal(told: FeedRecord, found: FeedRecord): boolean {
  return (
    !equalDecimals(told.last, found.last) ||
    compareDecimals(found.volume, told.volume) > 0 ||
    compareDecimals(found.deal, told.deal) > 0
  );
}
