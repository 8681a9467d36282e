import { type Schedule, startSchedule } from './schedule.js';

/** Without a schedule that runs more often, this counts as how often something is asked. */
const LONGEST_MS = 3_600_000;

/** All running schedules of a collector, to be stopped together. */
export class Schedules {
  #running: Schedule[] = [];

  /**
   * @param key the setting's path, for the error
   * @throws ScheduleError
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
