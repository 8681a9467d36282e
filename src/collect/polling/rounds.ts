import type { Lane } from './lane.js';

/** Longest rest between two rounds, when rounds take longer than the time between two runs. */
const REST_MAX_MS = 60_000;
/** Share of the time between two runs, and the longest part of it, that a poll may wait for its turn. */
const LEAD_SHARE = 0.05;
const LEAD_MAX_MS = 3000;

/**
 * What the schedule asks for: each of its runs begins a round, in which every walk that was not
 * polled since the run before is due once. At any time those are due, too, whose last poll is nearly
 * as long ago as the time between two runs: a round takes its time, and would reach them late.
 *
 * States: *idle* → *round* (until all that its run made due was polled, or fails) → *idle*, or, when
 * that took longer than the time between two runs, → *rest* (as long as the round took, up to a
 * minute) → *idle*. Runs during a round or a rest are left out, so that a schedule that asks for more
 * than the budget has leaves something over for other work.
 */
export class FloorRounds {
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #sinceMs: number | undefined;
  #restUntilMs = Number.NEGATIVE_INFINITY;
  #lastTookMs = 0;
  /** Longest time between two runs. */
  periodMs = Number.POSITIVE_INFINITY;

  /**
   * A run of the schedule.
   *
   * @param onSkipped told of walks that are left out because a poll of theirs still goes on from
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
    if (nowMs < this.#restUntilMs || this.#isTooMuch(nowMs)) return;
    const leadMs = Math.min(LEAD_MAX_MS, this.periodMs * LEAD_SHARE);
    for (const lane of all) {
      const isSoon = nowMs - lane.begunAtMs >= this.periodMs - leadMs;
      if (isSoon && !lane.isPolling) lane.dueAtMs ??= nowMs;
    }
  }

  /**
   * Walks whose last poll began before this moment are overdue, and go before all others. When the
   * schedule asks for more than the budget has, nobody is: there would be no end of it.
   */
  overdueBefore(nowMs: number): number {
    return this.#isTooMuch(nowMs) ? Number.NEGATIVE_INFINITY : nowMs - this.periodMs;
  }

  #isTooMuch(nowMs: number): boolean {
    const tookMs = this.#sinceMs === undefined ? this.#lastTookMs : nowMs - this.#sinceMs;
    return tookMs >= this.periodMs;
  }

  #settle(lanes: Iterable<Lane>, nowMs: number): void {
    if (this.#sinceMs === undefined) return;
    for (const { dueAtMs, isFailing } of lanes) {
      if (dueAtMs !== undefined && dueAtMs <= this.#sinceMs && !isFailing) return;
    }
    this.#lastTookMs = nowMs - this.#sinceMs;
    this.#sinceMs = undefined;
    if (this.#lastTookMs < this.periodMs) return;
    this.#restUntilMs = nowMs + Math.min(REST_MAX_MS, this.#lastTookMs);
  }
}
