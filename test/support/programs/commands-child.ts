import { runCommand } from '../../../src/cli/run.js';

/**
 * Commands of the built program, one after another in one process: what is slow about a command is the
 * start of its process. Each sees the environment and the arguments that it would have, and what it
 * prints is sent to the parent with its exit code. Not for commands that are ended by a signal.
 */

/** What the parent asks for. */
export interface CommandOrder {
  readonly id: number;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

/** How it went. */
export interface CommandEnd {
  readonly code: number | null;
  /** What was printed, without the end of the last line. */
  readonly out: string;
  readonly err: string;
}

const printed = { stdout: '', stderr: '' };

/** Keeps what is written instead of writing it. */
function capture(name: 'stdout' | 'stderr'): void {
  const write = (chunk: string | Uint8Array, ...rest: readonly unknown[]) => {
    printed[name] += typeof chunk === 'string' ? chunk : Buffer.from(chunk).toString();
    const done = rest.at(-1);
    if (typeof done === 'function') process.nextTick(() => void done());
    return true;
  };
  Object.defineProperty(process[name], 'write', { value: write });
}

async function run({ args, env }: CommandOrder): Promise<CommandEnd> {
  process.env = { ...env };
  process.exitCode = undefined;
  printed.stdout = '';
  printed.stderr = '';
  await runCommand(args);
  const code = Number(process.exitCode ?? 0);
  process.exitCode = undefined;
  // Each command listens anew.
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.removeAllListeners(signal);
  const [out, err] = [printed.stdout, printed.stderr].map((text) => text.replace(/\n$/, ''));
  return { code, out: out ?? '', err: err ?? '' };
}

capture('stdout');
capture('stderr');
// Commands that are done end what is left of their process: here that would be the next command.
Object.defineProperty(process, 'exit', { value: () => undefined });
let last: Promise<unknown> = Promise.resolve();
process.on('message', (order: CommandOrder) => {
  last = last.then(() => run(order)).then((end) => process.send?.({ id: order.id, ...end }));
});
