import type { ActivitySource, PollTarget } from './poll-target.js';

/** Why a poll is made; the values of the metric label `cause`. */
export type PollCause = ActivitySource | 'urgent' | 'floor' | 'spare';

/** The poll that is worth most at an instant. */
export interface Choice {
  readonly target: PollTarget;
  readonly cause: PollCause;
  /** Time of the activity signal that it answers. */
  readonly activityAtMs: number | undefined;
}

/** A walk whose new rows are expected to fill this share of a page goes before all others. */
const URGENT_FILL = 0.5;
/** An uncertain activity signal may wait this long for requests that no other work needs. */
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
 * requests that no other work needs, activity signals that may be nothing.
 */
export class Chooser {
  /** Polls in a row that were all asked for by the schedule, or all not. */
  #inRow = { isFloor: false, polls: 0 };

  /**
   * @param overdueBeforeMs walks whose last poll began before this time are overdue
   * @returns undefined when nothing is to be polled now
   */
  choose(
    targets: readonly PollTarget[],
    nowMs: number,
    overdueBeforeMs: number,
    isOpen: (target: PollTarget) => boolean,
  ): Choice | undefined {
    const overdue = new Best();
    const urgent = new Best();
    const news = new Best();
    const floor = new Best();
    const spare = new Best();
    for (const target of targets) {
      if (target.isPolling || target.walker.isBusy || nowMs < target.retryAtMs || !isOpen(target))
        continue;
      const fill = target.pageFill(nowMs);
      if (fill >= URGENT_FILL) urgent.offer(target, 'urgent', fill, target.traded?.atMs);
      const { suspected, dueAtMs } = target;
      const traded = target.newsAt(nowMs);
      const perS = target.perS(nowMs);
      if (traded !== undefined) {
        const worth = worthOfKnown(perS, (nowMs - traded.atMs) / 1000);
        news.offer(target, traded.source, worth, traded.atMs);
      } else if (suspected !== undefined) {
        const isPatient = nowMs - suspected.atMs < PATIENCE_MS;
        const worth = worthOfUnknown(perS, (nowMs - target.polledAtMs) / 1000);
        if (isPatient) spare.offer(target, 'spare', -suspected.atMs, suspected.atMs);
        else news.offer(target, suspected.source, worth, suspected.atMs);
      }
      if (dueAtMs === undefined) continue;
      floor.offer(target, 'floor', -target.polledAtMs, traded?.atMs);
      // One that was never polled is new, not late.
      if (Number.isFinite(target.begunAtMs) && target.begunAtMs <= overdueBeforeMs) {
        overdue.offer(target, 'floor', -target.begunAtMs, traded?.atMs);
      }
    }
    const { isFloor, polls } = this.#inRow;
    const isFloorsTurn = !isFloor && polls >= NEWS_PER_FLOOR;
    const isOverduesTurn = !isFloor || polls < OVERDUE_PER_NEWS;
    const inOrder = isFloorsTurn
      ? [floor, urgent, news]
      : [urgent, ...(isOverduesTurn ? [overdue] : []), news, floor];
    return [...inOrder, spare].find(({ best }) => best !== undefined)?.best;
  }

  /** Call when the choice is carried out: the schedule gets its turns by it. */
  carriedOut({ cause }: Choice): void {
    if (cause === 'spare') return;
    const isFloor = cause === 'floor';
    const before = this.#inRow.isFloor === isFloor ? this.#inRow.polls : 0;
    this.#inRow = { isFloor, polls: before + 1 };
  }
}

class Best {
  best: (Choice & { readonly worth: number }) | undefined;

  offer(
    target: PollTarget,
    cause: PollCause,
    worth: number,
    activityAtMs: number | undefined,
  ): void {
    if (this.best !== undefined && worth <= this.best.worth) return;
    this.best = { target, cause, activityAtMs, worth };
  }
}

/** Share of the budget that a schedule may ask for and still be kept. */
const KEPT_SHARE = 0.8;
/**
 * Who will be overdue has precedence so much earlier, as a share of the time that all walks together
 * take: polled one after the other as fast as could be, they come due like that again, and news take
 * their turns in between.
 */
const LEAD_SHARE = 0.25;
/** How often who is overdue is looked at, at least. */
const LEAD_MIN_MS = 500;

/**
 * What the schedule asks for: each of its runs begins a round, in which every walk that was not
 * polled since the run before is due once. Between runs those are due, too, whose last poll is nearly
 * as long ago as the time between two runs: a round takes its time, and would reach them late.
 *
 * States: *idle* → *round* (until all that its run made due was polled, or fails) → *idle*. A schedule
 * that asks for more than the budget has cannot be kept: then nothing is overdue, because there would be
 * no end of it. What is left for other work, the line of the budget sees to. Runs during a round are left out.
 */
export class BaselineSchedule {
  readonly #requestsPerS: () => number;
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #sinceMs: number | undefined;
  /** Longest time between two runs. */
  periodMs = Number.POSITIVE_INFINITY;

  /** @param requestsPerS what the budget allows now */
  constructor(requestsPerS: () => number) {
    this.#requestsPerS = requestsPerS;
  }

  /**
   * A run of the schedule.
   *
   * @param onSkipped called with walks that are left out because a poll of theirs still goes on from
   * before the last run
   * @returns false when the run is left out because a round still goes on
   */
  begin(
    targets: readonly PollTarget[],
    nowMs: number,
    onSkipped: (target: PollTarget) => void,
  ): boolean {
    this.#settle(targets);
    if (this.#sinceMs !== undefined) return false;
    for (const target of targets) {
      if (target.countedAtMs > this.#lastRunMs) continue;
      if (target.isPolling) onSkipped(target);
      else target.dueAtMs ??= nowMs;
    }
    this.#lastRunMs = nowMs;
    this.#sinceMs = nowMs;
    return true;
  }

  /** To be called again and again: notes the end of a round, and who is nearly overdue. */
  look(targets: readonly PollTarget[], nowMs: number): void {
    this.#settle(targets);
    const isKept = this.#canBeKept(targets.length);
    if (!isKept && this.#sinceMs !== undefined) return;
    const leadMs = isKept ? this.#leadMs(targets.length) : 0;
    for (const target of targets) {
      if (target.isPolling || nowMs - target.begunAtMs < this.periodMs - leadMs) continue;
      target.dueAtMs ??= nowMs;
      if (!isKept) this.#sinceMs = nowMs;
    }
  }

  /** Walks whose last poll began before this time are nearly overdue; they have precedence. */
  overdueBefore({ length }: readonly PollTarget[], nowMs: number): number {
    if (!this.#canBeKept(length)) return Number.NEGATIVE_INFINITY;
    return nowMs - this.periodMs + this.#leadMs(length);
  }

  #leadMs(targets: number): number {
    const allMs = (targets * 1000) / this.#requestsPerS();
    return Math.min(LEAD_MIN_MS + allMs * LEAD_SHARE, this.periodMs / 4);
  }

  #canBeKept(targets: number): boolean {
    return (targets * 1000) / this.periodMs <= KEPT_SHARE * this.#requestsPerS();
  }

  #settle(targets: readonly PollTarget[]): void {
    if (this.#sinceMs === undefined) return;
    for (const { dueAtMs, isFailing } of targets) {
      if (dueAtMs !== undefined && dueAtMs <= this.#sinceMs && !isFailing) return;
    }
    this.#sinceMs = undefined;
  }
}
