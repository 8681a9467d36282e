import type { Lane } from './lane.js';

/** Longest rest between two rounds of a schedule that asks for more than the budget has. */
const REST_MAX_MS = 60_000;
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
 * that asks for more than the budget has cannot be kept: then a round is followed by a *rest* (as long
 * as the round took, up to a minute), so that something is left over for other work, and nothing is
 * overdue, because there would be no end of it. Runs during a round or a rest are left out.
 */
export class FloorRounds {
  readonly #requestsPerS: () => number;
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #sinceMs: number | undefined;
  #restUntilMs = Number.NEGATIVE_INFINITY;
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
  begin(lanes: Iterable<Lane>, nowMs: number, onSkipped: (lane: Lane) => void): boolean {
    const all = [...lanes];
    this.#settle(all, nowMs);
    if (this.#sinceMs !== undefined) return false;
    if (nowMs < this.#restUntilMs) return true;
    for (const lane of all) {
      if (lane.countedAtMs > this.#lastRunMs) continue;
      if (lane.isPolling) onSkipped(lane);
      else lane.dueAtMs ??= nowMs;
    }
    this.#lastRunMs = nowMs;
    this.#sinceMs = nowMs;
    return true;
  }

  /** To be called again and again: notes the end of a round, and who is nearly overdue. */
  look(lanes: Iterable<Lane>, nowMs: number): void {
    const all = [...lanes];
    this.#settle(all, nowMs);
    const isKept = this.#canBeKept(all.length);
    if (!isKept && (this.#sinceMs !== undefined || nowMs < this.#restUntilMs)) return;
    const leadMs = isKept ? this.#leadMs(all.length) : 0;
    for (const lane of all) {
      if (lane.isPolling || nowMs - lane.begunAtMs < this.periodMs - leadMs) continue;
      lane.dueAtMs ??= nowMs;
      if (!isKept) this.#sinceMs = nowMs;
    }
  }

  /** Walks whose last poll began before this time are nearly overdue; they have precedence. */
  overdueBefore(lanes: Iterable<Lane>, nowMs: number): number {
    const { length } = [...lanes];
    if (!this.#canBeKept(length)) return Number.NEGATIVE_INFINITY;
    return nowMs - this.periodMs + this.#leadMs(length);
  }

  #leadMs(lanes: number): number {
    const allMs = (lanes * 1000) / this.#requestsPerS();
    return Math.min(LEAD_MIN_MS + allMs * LEAD_SHARE, this.periodMs / 4);
  }

  #canBeKept(lanes: number): boolean {
    return (lanes * 1000) / this.periodMs <= KEPT_SHARE * this.#requestsPerS();
  }

  #settle(lanes: readonly Lane[], nowMs: number): void {
    if (this.#sinceMs === undefined) return;
    for (const { dueAtMs, isFailing } of lanes) {
      if (dueAtMs !== undefined && dueAtMs <= this.#sinceMs && !isFailing) return;
    }
    const tookMs = nowMs - this.#sinceMs;
    this.#sinceMs = undefined;
    if (!this.#canBeKept(lanes.length)) this.#restUntilMs = nowMs + Math.min(REST_MAX_MS, tookMs);
  }
}
