import type { Lane, SignSource } from './lane.js';

/** Why a poll is made; the values of the metric label `cause`. */
export type PollCause = SignSource | 'urgent' | 'floor' | 'spare';

/** The poll that is worth most at an instant. */
export interface Choice {
  readonly lane: Lane;
  readonly cause: PollCause;
  /** Time of the sign that it answers. */
  readonly signAtMs: number | undefined;
}

/** A walk whose new rows are expected to fill this share of a page goes before all others. */
const URGENT_FILL = 0.5;
/** An uncertain sign may wait this long for requests that no other work needs. */
const PATIENCE_MS = 5000;
/** After so many other polls in a row, one that the schedule asks for gets its turn. */
const NEWS_PER_FLOOR = 4;

/**
 * What polling a market now is worth, so that the average age at which trades are stored is least
 * when requests are short: the trade–seconds that a request saves per request.
 *
 * With trades coming at random λ times a second, the oldest one that waits known for `waitedS`: a
 * cycle of polling lasts 1/λ + a and costs a + λa²/2 of waiting; the price of a request at which
 * polling now and polling later cost the same is 1/λ + a + λa²/2. Where no signal of trades exists
 * the same reckoning gives λs²/2, s being the time since the last poll: rates of polling in
 * proportion to √λ. Rare trades go first: their market will not need another request for long.
 */
export function worthOfKnown(perS: number, waitedS: number): number {
  return 1 / perS + waitedS + (perS * waitedS ** 2) / 2;
}

/** As {@link worthOfKnown}, where it is not known whether there was a trade since the last poll. */
export function worthOfUnknown(perS: number, sinceS: number): number {
  return (perS * sinceS ** 2) / 2;
}

/** After so many polls of overdue walks in a row, news get a turn: together they have all the budget. */
const OVERDUE_PER_NEWS = 4;

/**
 * Chooses which walk is polled next. In this order: whose page is about to overflow; who is overdue by
 * the schedule; then news and what the schedule asks for, in a ratio that starves neither; and, with
 * requests that no other work needs, signs that may be nothing, and the second walk of a market with
 * news.
 */
export class Chooser {
  #newsInRow = 0;
  #overdueInRow = 0;

  /**
   * @param overdueBeforeMs walks whose last poll began before this time are overdue
   * @returns undefined when nothing is to be polled now
   */
  choose(
    lanes: Iterable<Lane>,
    nowMs: number,
    overdueBeforeMs: number,
    isOpen: (lane: Lane) => boolean,
  ): Choice | undefined {
    const overdue = new Best();
    const urgent = new Best();
    const news = new Best();
    const floor = new Best();
    const spare = new Best();
    for (const lane of lanes) {
      if (lane.isPolling || lane.walker.isBusy || nowMs < lane.retryAtMs || !isOpen(lane)) continue;
      const fill = lane.pageFill(nowMs);
      if (fill >= URGENT_FILL) urgent.offer(lane, 'urgent', fill, lane.traded?.atMs);
      const { traded, suspected, companionAtMs, dueAtMs } = lane;
      const perS = lane.perS(nowMs);
      if (traded !== undefined) {
        const worth = worthOfKnown(perS, (nowMs - traded.atMs) / 1000);
        news.offer(lane, traded.source, worth, traded.atMs);
      } else if (suspected !== undefined) {
        const isPatient = nowMs - suspected.atMs < PATIENCE_MS;
        const worth = worthOfUnknown(perS, (nowMs - lane.polledAtMs) / 1000);
        if (isPatient) spare.offer(lane, 'spare', -suspected.atMs, suspected.atMs);
        else news.offer(lane, suspected.source, worth, suspected.atMs);
      }
      if (companionAtMs !== undefined) spare.offer(lane, 'spare', -companionAtMs, companionAtMs);
      if (dueAtMs === undefined) continue;
      floor.offer(lane, 'floor', -lane.polledAtMs, traded?.atMs);
      // One that was never polled is new, not late.
      if (Number.isFinite(lane.begunAtMs) && lane.begunAtMs <= overdueBeforeMs) {
        overdue.offer(lane, 'floor', -lane.begunAtMs, traded?.atMs);
      }
    }
    const isFloorsTurn = this.#newsInRow >= NEWS_PER_FLOOR;
    const isOverduesTurn = this.#overdueInRow < OVERDUE_PER_NEWS;
    const inOrder = isFloorsTurn
      ? [floor, urgent, news]
      : [urgent, ...(isOverduesTurn ? [overdue] : []), news, floor];
    return [...inOrder, spare].find(({ choice }) => choice !== undefined)?.choice;
  }

  /** Call when the choice is carried out: the schedule gets its turns by it. */
  carriedOut({ cause }: Choice): void {
    if (cause === 'spare') return;
    const isFloor = cause === 'floor';
    this.#newsInRow = isFloor ? 0 : this.#newsInRow + 1;
    this.#overdueInRow = isFloor ? this.#overdueInRow + 1 : 0;
  }
}

class Best {
  choice: Choice | undefined;
  #worth = Number.NEGATIVE_INFINITY;

  offer(lane: Lane, cause: PollCause, worth: number, signAtMs: number | undefined): void {
    if (this.choice !== undefined && worth <= this.#worth) return;
    this.#worth = worth;
    this.choice = { lane, cause, signAtMs };
  }
}
