import cron, { type ScheduledTask } from 'node-cron';
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

/** All running schedules of a collector, to be stopped together. Their times are UTC, by this machine's clock. */
export class Schedules {
  /** Longest time between two of the next runs of each, milliseconds. */
  readonly #periodsMs = new Map<ScheduledTask, number>();

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
    this.#periodsMs.set(task, periodMs);
    return periodMs;
  }

  /** Time between two runs of the one that runs most often, milliseconds; at most an hour. */
  get shortestPeriodMs(): number {
    return Math.min(LONGEST_MS, ...this.#periodsMs.values());
  }

  stop(): void {
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
