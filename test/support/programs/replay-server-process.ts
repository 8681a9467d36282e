import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { ReplayServerOrder, ReplayServerReport } from './replay-server-child.js';

/** A served replay (or a bare loop) in a process of its own, whose memory and time can be asked for. */
export class ReplayServerProcess {
  readonly #child: ChildProcess;
  readonly report: ReplayServerReport;

  private constructor(child: ChildProcess, report: ReplayServerReport) {
    this.#child = child;
    this.report = report;
  }

  static async start(order: ReplayServerOrder): Promise<ReplayServerProcess> {
    const child = fork(join(import.meta.dirname, 'replay-server-child.ts'));
    child.send(order);
    const [report] = (await once(child, 'message')) as [ReplayServerReport];
    return new ReplayServerProcess(child, report);
  }

  async usage(): Promise<Pick<ReplayServerReport, 'cpuMs' | 'maxRssMb'>> {
    this.#child.send({});
    const [usage] = (await once(this.#child, 'message')) as [ReplayServerReport];
    return usage;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}
