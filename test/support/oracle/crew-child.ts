import { Daemon } from '../../../src/cli/daemon/daemon.js';
import { openSession } from '../../../src/cli/opening/session.js';
import { systemClock } from '../../../src/kernel/clock.js';
import { isAborted } from '../../../src/kernel/errors.js';

/**
 * Daemons of the built program, several in one process: what is slow about a process is its start.
 * Each has its own settings, log and archive. The parent says by messages what to do, and kills all
 * of them at once.
 */

/** What the parent says. */
export type CrewOrder =
  | { readonly do: 'start'; readonly id: number; readonly env: Readonly<Record<string, string>> }
  | { readonly do: 'stop'; readonly id: number }
  | { readonly do: 'leave' };

/** Messages of the child. */
export type CrewWord =
  | { readonly is: 'line'; readonly id: number; readonly text: string }
  /** The address of its status pages. */
  | { readonly is: 'open'; readonly id: number; readonly url: string }
  | { readonly is: 'stopped'; readonly id: number }
  | { readonly is: 'failed'; readonly id: number; readonly text: string };

const daemons = new Map<number, Daemon>();

function tell(word: CrewWord): void {
  process.send?.(word);
}

async function start(id: number, env: Readonly<Record<string, string>>): Promise<void> {
  const write = (text: string) => tell({ is: 'line', id, text });
  const session = openSession(
    { logLevel: 'debug', logFormat: 'json' },
    { env, destination: () => ({ isTTY: false, write }) },
  );
  const onFatal = (error: Error) => fail(id, error);
  const daemon = new Daemon({ ...session, clock: systemClock, onFatal });
  daemons.set(id, daemon);
  const { status } = await daemon.open();
  if (status !== null) tell({ is: 'open', id, url: status });
  await daemon.connect();
  await daemon.collect();
}

async function stop(id: number): Promise<void> {
  await daemons.get(id)?.stop();
  tell({ is: 'stopped', id });
}

function fail(id: number, error: unknown): void {
  const text = error instanceof Error ? (error.stack ?? error.message) : String(error);
  tell({ is: 'failed', id, text });
}

process.on('message', (order: CrewOrder) => {
  if (order.do === 'leave') process.exit();
  const { id } = order;
  const work = order.do === 'start' ? start(id, order.env) : stop(id);
  work.catch((error: unknown) => {
    // It was stopped while it was still starting.
    if (!isAborted(error)) fail(id, error);
  });
});
