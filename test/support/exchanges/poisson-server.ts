import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { PoissonMarket } from './poisson-exchange.js';

/** Options of the child process. */
export interface PoissonOrder {
  readonly seed: number;
  readonly markets: readonly PoissonMarket[];
  readonly historyMax: number;
  readonly pastMs: number;
}

/** Messages of the child process. */
export interface PoissonReport {
  readonly url: string;
  readonly realtimeUrl: string;
  /** Id and time in microseconds of every trade that was ever issued. */
  readonly trades: ReadonlyArray<readonly [id: number, timeUs: number]>;
  /** Requests answered so far, by endpoint. */
  readonly requests: Readonly<Record<string, number>>;
}

/** An exchange of random trades in a process of its own; see poisson-server-child.ts. */
export class PoissonServer {
  readonly url: string;
  readonly realtimeUrl: string;
  readonly #child: ChildProcess;

  private constructor({ url, realtimeUrl }: PoissonReport, child: ChildProcess) {
    this.url = url;
    this.realtimeUrl = realtimeUrl;
    this.#child = child;
  }

  static async start(order: PoissonOrder): Promise<PoissonServer> {
    const child = fork(join(import.meta.dirname, 'poisson-server-child.ts'));
    child.send(order);
    const [report] = (await once(child, 'message')) as [PoissonReport];
    return new PoissonServer(report, child);
  }

  async report(): Promise<PoissonReport> {
    this.#child.send({});
    const [report] = (await once(this.#child, 'message')) as [PoissonReport];
    return report;
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await once(this.#child, 'exit');
  }
}
