import cron from 'node-cron';
import { TapekeepError } from '../kernel/errors.js';

/** A schedule is kept while looks come within this many periods, and some seconds for the line. */
const TOLERANCE_PERIODS = 3;
const TOLERANCE_EXTRA_MS = 5000;

/** Longest time between two looks that still counts as keeping a schedule. */
export function toleranceMs(periodMs: number): number {
  return periodMs * TOLERANCE_PERIODS + TOLERANCE_EXTRA_MS;
}

/** A running schedule. */
interface Schedule {
  /** Longest time between two of its next runs, milliseconds. */
  readonly periodMs: number;
  stop(): void;
}

/**
 * Calls `run` at the times of a cron expression (UTC), this machine's time.
 *
 * @param key the setting's path, for the error
 * @throws TapekeepError `bad_schedule`
 */
function startSchedule(key: string, expression: string, run: () => void): Schedule {
  const task = createTask(key, expression, run);
  const runs = task.getNextRuns(10).map((next) => next.getTime());
  const steps = runs.slice(1).map((next, index) => next - (runs[index] ?? next));
  return {
    periodMs: Math.max(1000, ...steps),
    stop: () => void task.destroy(),
  };
}

function createTask(key: string, expression: string, run: () => void) {
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

/** Without a schedule that runs more often, this counts as how often something is asked. */
const LONGEST_MS = 3_600_000;

/** All running schedules of a collector, to be stopped together. */
export class Schedules {
  #running: Schedule[] = [];

  /**
   * @param key the setting's path, for the error
   * @throws TapekeepError `bad_schedule`
   */
  start(key: string, expression: string, run: () => void): Schedule {
    const schedule = startSchedule(key, expression, run);
    this.#running.push(schedule);
    return schedule;
  }

  /** Time between two runs of the one that runs most often, milliseconds; at most an hour. */
  get shortestPeriodMs(): number {
    return this.#running.reduce((least, { periodMs }) => Math.min(least, periodMs), LONGEST_MS);
  }

  stop(): void {
    for (const schedule of this.#running.splice(0)) schedule.stop();
  }
}
