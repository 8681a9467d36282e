import cron from 'node-cron';
import type { Clock } from '../kernel/clock.js';
import { DAY_MS, HOUR_MS, MINUTE_MS, SECOND_MS } from '../kernel/durations.js';
import { TapekeepError } from '../kernel/errors.js';
import type { CollectEvents } from '../observe/events.js';

/** A schedule is kept while looks come within this many periods, and some seconds for the line. */
const TOLERANCE_PERIODS = 3;
const TOLERANCE_EXTRA_MS = 5000;

/** Longest time between two looks that still counts as keeping a schedule. */
export function toleranceMs(periodMs: number): number {
  return periodMs * TOLERANCE_PERIODS + TOLERANCE_EXTRA_MS;
}

/** Without a schedule that runs more often, this counts as how often something is asked. */
const LONGEST_MS = 3_600_000;

/** Longest time between two looks at the machine's clock, which may be set at any time. */
const CLOCK_LOOK_MS = 1000;
/** How often the watchdog looks, by a timer of its own. */
const WATCHDOG_MS = 5000;
/** Runs that a schedule may miss before the watchdog reports it. */
const MISSED_RUNS = 2;
/** Days that are searched for the next run; the 29th of February on a given weekday comes after 40 years at most. */
const SEARCHED_DAYS = 41 * 366;

interface Schedule {
  /** Path of its setting. */
  readonly key: string;
  readonly run: () => void;
  readonly nextAfter: NextAfter;
  /** Longest time between two of its next runs, milliseconds. */
  readonly periodMs: number;
  /** Wall time at which the next run was worked out. */
  plannedMs: number;
  /** Wall time of the next run. */
  nextMs: number;
  /** Monotonic time at which {@link MISSED_RUNS} runs are missed. */
  missedAtMs: number;
}

/**
 * All running schedules of a collector, to be stopped together. Their times are UTC, by this machine's clock. The
 * zone of the process has no part in it: node-cron reads the expressions and tells whether a day matches, and waiting
 * is done here, because its own timers stand still in an hour that comes twice.
 *
 * A clock that is set moves the next runs with it. A watchdog with a timer of its own reports and runs
 * what missed two runs, by monotonic time.
 */
export class Schedules {
  readonly #clock: Clock;
  readonly #telemetry: Pick<CollectEvents, 'scheduleMissed'>;
  readonly #schedules: Schedule[] = [];
  #cancelLook: () => void = () => undefined;
  #cancelWatchdog: () => void = () => undefined;

  constructor(clock: Clock, telemetry: Pick<CollectEvents, 'scheduleMissed'>) {
    this.#clock = clock;
    this.#telemetry = telemetry;
  }

  /**
   * Calls `run` at the times of a cron expression.
   *
   * @param key the setting's path, for the error
   * @returns the longest time between two of its next runs, milliseconds
   * @throws TapekeepError `bad_schedule`
   */
  start(key: string, expression: string, run: () => void): number {
    const nextAfter = readExpression(key, expression);
    const wallMs = this.#clock.wallMs();
    let atMs = nextAfter(wallMs);
    let periodMs = 1000;
    for (let count = 1; count < 10; count += 1) {
      const nextMs = nextAfter(atMs);
      periodMs = Math.max(periodMs, nextMs - atMs);
      atMs = nextMs;
    }
    this.#schedules.push({ key, run, nextAfter, periodMs, ...this.#planOf(nextAfter) });
    this.#arm();
    if (this.#schedules.length === 1) this.#watch();
    return periodMs;
  }

  /** Runs what is due, and follows the clock where it was set. */
  #look(): void {
    const [wallMs, nowMs] = [this.#clock.wallMs(), this.#clock.monotonicMs()];
    const due: Schedule[] = [];
    for (const one of this.#schedules) {
      const isMissed = one.missedAtMs <= nowMs;
      if (isMissed) this.#telemetry.scheduleMissed({ schedule: one.key });
      if (isMissed || one.nextMs <= wallMs) due.push(one);
      else if (one.plannedMs <= wallMs) continue;
      Object.assign(one, this.#planOf(one.nextAfter));
    }
    this.#arm();
    for (const { run } of due) run();
  }

  /** A timer may get lost, and a process may be stopped for a while. */
  #watch(): void {
    this.#cancelWatchdog = this.#clock.after(WATCHDOG_MS, () => this.#watch(), BACKGROUND);
    const nowMs = this.#clock.monotonicMs();
    if (this.#schedules.some(({ missedAtMs }) => missedAtMs <= nowMs)) this.#look();
  }

  #planOf(nextAfter: NextAfter): Pick<Schedule, 'plannedMs' | 'nextMs' | 'missedAtMs'> {
    const plannedMs = this.#clock.wallMs();
    const nextMs = nextAfter(plannedMs);
    let missedMs = nextMs;
    for (let run = 0; run < MISSED_RUNS; run += 1) missedMs = nextAfter(missedMs);
    const missedAtMs = this.#clock.monotonicMs() + missedMs - plannedMs;
    return { plannedMs, nextMs, missedAtMs };
  }

  #arm(): void {
    this.#cancelLook();
    const wallMs = this.#clock.wallMs();
    const waits = this.#schedules.map(({ nextMs }) => Math.max(1, nextMs - wallMs));
    const waitMs = Math.min(CLOCK_LOOK_MS, ...waits);
    this.#cancelLook = this.#clock.after(waitMs, () => this.#look(), BACKGROUND);
  }

  /** Time between two runs of the one that runs most often, milliseconds; at most an hour. */
  get shortestPeriodMs(): number {
    return Math.min(LONGEST_MS, ...this.#schedules.map(({ periodMs }) => periodMs));
  }

  stop(): void {
    this.#cancelLook();
    this.#cancelWatchdog();
    this.#schedules.length = 0;
  }
}

const BACKGROUND = { background: true };

/** Returns the first run after an instant; both are UNIX milliseconds. */
type NextAfter = (afterMs: number) => number;

function readExpression(key: string, expression: string): NextAfter {
  try {
    const nextAfter = nextRunOf(expression);
    nextAfter(0);
    return nextAfter;
  } catch (error) {
    const detail = error instanceof Error ? error.message : 'refused';
    throw new TapekeepError(
      'bad_schedule',
      `${key}: "${expression}" is not a cron expression (${detail}); write five fields, or six with seconds first, such as "*/5 * * * * *"`,
    );
  }
}

/**
 * Finds the next run in UTC: node-cron matches the day, and the time of day follows from its fields.
 *
 * @throws the library's error for what is no expression
 */
function nextRunOf(expression: string): NextAfter {
  const matcher = cron.createTask(expression, () => undefined, { timezone: 'Etc/UTC' });
  // It matches all the same, and the library forgets it.
  void matcher.destroy();
  const fields = cron.parse(expression);
  const ascending = (values: readonly number[]) => [...values].sort((a, b) => a - b);
  const [hours, minutes, seconds] = [fields.hour, fields.minute, fields.second].map(ascending);
  const timeAfter = (afterMs: number): number | undefined => {
    for (const hour of hours ?? []) {
      if ((hour + 1) * HOUR_MS <= afterMs) continue;
      for (const minute of minutes ?? []) {
        const minuteMs = hour * HOUR_MS + minute * MINUTE_MS;
        if (minuteMs + MINUTE_MS <= afterMs) continue;
        const second = seconds?.find((one) => minuteMs + one * SECOND_MS > afterMs);
        if (second !== undefined) return minuteMs + second * SECOND_MS;
      }
    }
    return undefined;
  };
  const firstOfDayMs = timeAfter(-1) ?? 0;
  return (afterMs) => {
    const todayMs = Math.floor(afterMs / DAY_MS) * DAY_MS;
    for (let day = 0; day < SEARCHED_DAYS; day += 1) {
      const dayMs = todayMs + day * DAY_MS;
      const timeMs = timeAfter(day === 0 ? afterMs - dayMs : -1);
      if (timeMs !== undefined && matcher.match(new Date(dayMs + firstOfDayMs)))
        return dayMs + timeMs;
    }
    throw new RangeError('it matches no day of the next forty years');
  };
}
