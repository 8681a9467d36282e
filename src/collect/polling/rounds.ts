import type { Lane } from './lane.js';

/** Longest rest between two rounds, when rounds take long. */
const REST_MAX_MS = 60_000;

/**
 * What the schedule asks for: each of its runs begins a round, in which every walk that was not
 * polled since the run before is due once. Between runs those are due, too, whose last poll is
 * longer ago than the time between two runs: a round takes its time, and would reach them late.
 *
 * States: *idle* → *round* (until nothing that can be polled is due) → *rest* (as long as the round
 * took, up to a minute) → *idle*. Runs during a round or a rest are left out, so that a schedule
 * that asks for more than the budget has leaves something over for other work.
 */
export class FloorRounds {
  #lastRunMs = Number.NEGATIVE_INFINITY;
  #sinceMs: number | undefined;
  #restUntilMs = Number.NEGATIVE_INFINITY;
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

  /** To be called again and again: notes the end of a round, and who is overdue. */
  look(lanes: Iterable<Lane>, nowMs: number): void {
    const all = [...lanes];
    this.#settle(all, nowMs);
    if (this.#sinceMs !== undefined || nowMs < this.#restUntilMs) return;
    for (const lane of all) {
      if (lane.isPolling || nowMs - lane.begunAtMs < this.periodMs) continue;
      lane.dueAtMs ??= nowMs;
      this.#sinceMs = nowMs;
    }
  }

  #settle(lanes: Iterable<Lane>, nowMs: number): void {
    if (this.#sinceMs === undefined) return;
    for (const lane of lanes) if (lane.dueAtMs !== undefined && !lane.isFailing) return;
    this.#restUntilMs = nowMs + Math.min(REST_MAX_MS, nowMs - this.#sinceMs);
    this.#sinceMs = undefined;
  }
}
