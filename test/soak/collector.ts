import { systemClock } from '../../src/kernel/clock.js';
import { messageOf } from '../../src/kernel/errors.js';
import { Program } from '../support/programs/program.js';
import { readFigures, readProcess, type Sample } from './sample.js';

const METRICS_TIMEOUT_MS = 10_000;
const MINUTE_MS = 60_000;

/** The daemon of the run: started again after each kill, and watched through its metrics. */
export class Collector {
  readonly #env: Readonly<Record<string, string>>;
  #daemon: Program | undefined;
  #startedMs = 0;
  #address = '';
  #requests = { count: 0, atMs: 0 };
  kills = 0;
  trouble = '';
  /** What must not happen to a daemon. */
  readonly faults: string[] = [];

  constructor(env: Readonly<Record<string, string>>) {
    this.#env = env;
  }

  /** Resolves when it serves its metrics. */
  async start(): Promise<void> {
    const daemon = new Program(['start'], { env: this.#env });
    this.#daemon = daemon;
    this.#startedMs = systemClock.monotonicMs();
    this.#requests = { count: 0, atMs: this.#startedMs };
    this.#address = `${await daemon.page()}/metrics`;
  }

  /** Kills it without warning, and starts the next one. */
  async kill(): Promise<void> {
    this.#daemon?.kill('SIGKILL');
    await this.#daemon?.ended();
    this.kills += 1;
    await this.start();
  }

  /** @returns what was wrong about its end */
  async stop(): Promise<string[]> {
    this.#daemon?.kill('SIGTERM');
    const ended = await this.#daemon?.ended();
    return ended?.code === 0 ? [] : [`the daemon ended with ${JSON.stringify(ended)}`];
  }

  async dispose(): Promise<void> {
    await this.#daemon?.dispose();
  }

  async metrics(): Promise<string> {
    const signal = AbortSignal.timeout(METRICS_TIMEOUT_MS);
    return await (await fetch(this.#address, { signal })).text();
  }

  /** Undefined when it does not answer; `trouble` then says why. */
  async figures(): Promise<ReturnType<typeof readFigures> | undefined> {
    try {
      return readFigures(await this.metrics());
    } catch (error) {
      this.trouble = messageOf(error);
      this.faults.push(`no metrics: ${this.trouble}`);
      return undefined;
    }
  }

  async sample(minute: number): Promise<Sample | undefined> {
    const figures = await this.figures();
    if (figures === undefined) return undefined;
    const nowMs = systemClock.monotonicMs();
    const count = figures('tapekeep_requests_total');
    const requestsPerS =
      (1000 * (count - this.#requests.count)) / Math.max(1, nowMs - this.#requests.atMs);
    this.#requests = { count, atMs: nowMs };
    return {
      ...{ minute, requestsPerS, lifeMinutes: (nowMs - this.#startedMs) / MINUTE_MS },
      ...(await readProcess(this.#daemon?.pid ?? 0)),
      lagP99Ms: 1000 * figures('nodejs_eventloop_lag_p99_seconds'),
      openGaps: figures('tapekeep_open_gaps'),
      rows: figures('tapekeep_rows_total', 'outcome="stored"'),
    };
  }
}
