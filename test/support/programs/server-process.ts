import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';

/** A server in a process of its own. It reports once it serves, and whenever it is asked. */
export class ServerProcess<Report extends object> {
  readonly #child: ChildProcess;
  /** The first one. */
  readonly report: Report;

  private constructor(child: ChildProcess, report: Report) {
    this.#child = child;
    this.report = report;
  }

  /** @param path of a program that calls {@link serveParent} */
  static async start<Report extends object>(
    path: string,
    order: object,
  ): Promise<ServerProcess<Report>> {
    const child = fork(path);
    child.send(order);
    const [report] = (await once(child, 'message')) as [Report];
    return new ServerProcess(child, report);
  }

  async ask(): Promise<Report> {
    this.#child.send({});
    const [report] = (await once(this.#child, 'message')) as [Report];
    return report;
  }

  async stop(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, 'exit');
    this.#child.kill();
    await ended;
  }
}

/** The other end: begins to serve what the parent orders, and reports. It ends with its parent. */
export async function serveParent<Order, Report extends object>(
  begin: (order: Order) => Promise<() => Report>,
): Promise<void> {
  process.once('disconnect', () => process.exit());
  const [order] = (await once(process, 'message')) as [Order];
  const report = await begin(order);
  process.send?.(report());
  process.on('message', () => process.send?.(report()));
}
