import type { z } from 'zod';
import type { Clock } from '../kernel/clock.js';
import { HOUR_MS, SECOND_MS } from '../kernel/durations.js';
import type { RunCountsSnapshot } from '../observe/run-counts.js';
import type { ACTIVITY } from './api/documents.js';

/** Figures of the last hour, in columns of equal length. */
export type ActivityColumns = z.infer<typeof ACTIVITY>;

const STEP_MS = 10 * SECOND_MS;
const STEPS = HOUR_MS / STEP_MS;

interface Step {
  readonly atMs: number;
  readonly rowsPerS: Readonly<Record<string, number>>;
  readonly lagS: number | null;
  readonly requestsPerS: number;
  readonly commitsPerS: number;
  readonly sockets: number;
}

export interface ActivityOptions {
  readonly clock: Clock;
  readonly snapshot: () => RunCountsSnapshot;
  /** The exchange's time now, UNIX milliseconds: the lag is measured against it. */
  readonly exchangeNowMs: () => number;
  /** Called after each step. */
  readonly onStep?: () => void;
}

/** Rate to a thousandth: sums of floats end in others. */
const rate = (count: number, seconds: number) => Math.round((count / seconds) * 1000) / 1000;

function storedOf({ streams }: RunCountsSnapshot): Map<string, number> {
  return new Map(streams.map(({ stream, stored, updated }) => [stream, stored + updated]));
}

/** Remembers an hour of what the daemon did, a step each ten seconds. */
export class Activity {
  readonly #options: ActivityOptions;
  #steps: Step[] = [];
  #before: RunCountsSnapshot;
  #beforeMs: number;
  #cancel: () => void;

  constructor(options: ActivityOptions) {
    this.#options = options;
    this.#before = options.snapshot();
    this.#beforeMs = options.clock.monotonicMs();
    this.#cancel = this.#wait();
  }

  /** All steps that there are. */
  answer(): ActivityColumns {
    return columnsOf(this.#steps);
  }

  /** The newest step alone; undefined before the first. */
  newest(): ActivityColumns | undefined {
    const last = this.#steps.slice(-1);
    return last.length === 0 ? undefined : columnsOf(last);
  }

  stop(): void {
    this.#cancel();
  }

  #wait(): () => void {
    const { clock } = this.#options;
    return clock.after(STEP_MS, () => this.#step(), { background: true });
  }

  #step(): void {
    const { clock, snapshot, exchangeNowMs } = this.#options;
    const [now, before] = [snapshot(), this.#before];
    const nowMs = clock.monotonicMs();
    // A process that was stopped for a while has a longer step.
    const seconds = Math.max(1, (nowMs - this.#beforeMs) / SECOND_MS);
    const stored = storedOf(before);
    const rows = [...storedOf(now)].map(([stream, count]): [string, number] => {
      return [stream, rate(count - (stored.get(stream) ?? 0), seconds)];
    });
    const newestMs = now.streams.find(({ stream }) => stream === 'trades')?.newestMs ?? null;
    const lagMs = newestMs === null ? null : Math.max(0, exchangeNowMs() - newestMs);
    this.#steps.push({
      ...{ atMs: Math.floor(clock.wallMs()), rowsPerS: Object.fromEntries(rows) },
      lagS: lagMs === null ? null : rate(lagMs, SECOND_MS),
      requestsPerS: rate(now.requests - before.requests, seconds),
      commitsPerS: rate(now.commits - before.commits, seconds),
      sockets: now.openSockets,
    });
    this.#steps = this.#steps.slice(-STEPS);
    [this.#before, this.#beforeMs] = [now, nowMs];
    this.#cancel = this.#wait();
    this.#options.onStep?.();
  }
}

function columnsOf(steps: readonly Step[]): ActivityColumns {
  const kinds = new Set(steps.flatMap(({ rowsPerS }) => Object.keys(rowsPerS)));
  const column = <K extends keyof Step>(name: K) => steps.map((step) => step[name]);
  const rows = [...kinds].map((kind): [string, (number | null)[]] => {
    return [kind, steps.map(({ rowsPerS }) => rowsPerS[kind] ?? null)];
  });
  return {
    ...{ stepS: STEP_MS / SECOND_MS, atMs: column('atMs'), rowsPerS: Object.fromEntries(rows) },
    ...{ lagS: column('lagS'), requestsPerS: column('requestsPerS') },
    ...{ commitsPerS: column('commitsPerS'), sockets: column('sockets') },
  };
}
