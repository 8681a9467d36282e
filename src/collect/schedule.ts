import cron, { type ScheduledTask } from 'node-cron';
import type { Clock } from '../kernel/clock.js';
import { TapekeepError } from '../kernel/errors.js';

/** A schedule is kept while looks come within this many periods, and some seconds for the line. */
const TOLERANCE_PERIODS = 3;
const TOLERANCE_EXTRA_MS = 5000;

/** Longest time between two looks that still counts as keeping a schedule. */
export function toleranceMs(periodMs: number): number {
  return periodMs * TOLERANCE_PERIODS + TOLERANCE_EXTRA_MS;
}

/** Without a schedule that runs more often, this counts as how often something is asked. */
const LONGEST_MS = 3_600_000;

/** How often the machine's clock is looked at, and what counts as a step of it rather than as drift. */
const CLOCK_LOOK_MS = 1000;
const CLOCK_STEP_MS = 1000;

/**
 * All running schedules of a collector, to be stopped together. Their times are UTC, by this machine's clock. Where
 * that is set, they begin anew: each waits for a time of it, and would stand still for as long as it was set back.
 */
export class Schedules {
  readonly #clock: Clock;
  /** Longest time between two of the next runs of each, milliseconds. */
  readonly #periodsMs = new Map<ScheduledTask, number>();
  #cancelLook: () => void = () => undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Calls `run` at the times of a cron expression.
   *
   * @param key the setting's path, for the error
   * @returns the longest time between two of its next runs, milliseconds
   * @throws TapekeepError `bad_schedule`
   */
  start(key: string, expression: string, run: () => void): number {
    const task = createTask(key, expression, run);
    const runs = task.getNextRuns(10).map((next) => next.getTime());
    const steps = runs.slice(1).map((next, index) => next - (runs[index] ?? next));
    const periodMs = Math.max(1000, ...steps);
    if (this.#periodsMs.size === 0) this.#lookAtClock();
    this.#periodsMs.set(task, periodMs);
    return periodMs;
  }

  #lookAtClock(): void {
    const offsetMs = () => this.#clock.wallMs() - this.#clock.monotonicMs();
    let knownMs = offsetMs();
    const look = () => {
      const steppedMs = offsetMs() - knownMs;
      knownMs += steppedMs;
      if (Math.abs(steppedMs) >= CLOCK_STEP_MS) this.#beginAnew();
      this.#cancelLook = this.#clock.after(CLOCK_LOOK_MS, look, { background: true });
    };
    look();
  }

  #beginAnew(): void {
    for (const task of this.#periodsMs.keys()) {
      void task.stop();
      void task.start();
    }
  }

  /** Time between two runs of the one that runs most often, milliseconds; at most an hour. */
  get shortestPeriodMs(): number {
    return Math.min(LONGEST_MS, ...this.#periodsMs.values());
  }

  stop(): void {
    this.#cancelLook();
    for (const task of this.#periodsMs.keys()) void task.destroy();
    this.#periodsMs.clear();
  }
}

function createTask(key: string, expression: string, run: () => void): ScheduledTask {
  try {
    // The ledger shows what a missed run misses; the library would print between the lines of the log.
    return cron.schedule(expression, run, { timezone: 'Etc/UTC', suppressMissedWarning: true });
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'refused';
    throw new TapekeepError(
      'bad_schedule',
      `${key}: "${expression}" is not a cron expression (${detail}); write five fields, or six with seconds first, such as "*/5 * * * * *"`,
    );
  }
}
