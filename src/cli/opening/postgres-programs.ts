import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { codeOf, TapekeepError } from '../../kernel/errors.js';

/** Programs of Postgres on the PATH of this machine, which the embedded server comes without. */

const KEPT_OUTPUT = 2_000;

interface Running {
  readonly url?: string;
  readonly signal: AbortSignal;
}

/** Runs a program, and gives what it writes as it comes. @throws as {@link run} says */
async function* output(
  name: string,
  args: readonly string[],
  { url, signal }: Running,
): AsyncGenerator<Buffer> {
  const address = url === undefined ? undefined : new URL(url);
  const password = decodeURIComponent(address?.password ?? '');
  if (address !== undefined) address.password = '';
  // Arguments are seen by every user of the machine.
  const env = { ...process.env, ...(password === '' ? {} : { PGPASSWORD: password }) };
  const all = address === undefined ? args : [...args, `--dbname=${address.href}`];
  const child = spawn(name, all, { stdio: ['ignore', 'pipe', 'pipe'], env });
  let said = '';
  child.stderr.on('data', (piece: Buffer) => {
    said = (said + piece.toString('utf8')).slice(-KEPT_OUTPUT);
  });
  const end = () => child.kill('SIGTERM');
  signal.addEventListener('abort', end, { once: true });
  const closed = once(child, 'close') as Promise<[number | null]>;
  closed.catch(() => undefined);
  try {
    yield* child.stdout as AsyncIterable<Buffer>;
    const [code] = await closed;
    signal.throwIfAborted();
    if (code === 0) return;
    const text = `${name} failed: ${said.trim().split('\n').slice(-4).join(' | ')}`;
    throw new TapekeepError('backup_refused', text);
  } catch (error) {
    // Output may break off first where it could not be started.
    const cause: unknown = await closed.then(
      () => error,
      (failure: unknown) => failure,
    );
    if (codeOf(cause) !== 'ENOENT') throw cause;
    throw missing(`${name} is not installed here`, cause);
  } finally {
    signal.removeEventListener('abort', end);
    // The reader may have stopped.
    end();
  }
}

/** @throws TapekeepError `program_missing`, `backup_refused` with the end of what it wrote; the signal's reason */
async function run(name: string, args: readonly string[], running: Running): Promise<string> {
  let text = '';
  for await (const piece of output(name, args, running)) {
    text = (text + piece.toString('utf8')).slice(-KEPT_OUTPUT);
  }
  return text;
}

function missing(text: string, cause?: unknown): TapekeepError {
  const advice =
    'install the client programs of Postgres as new as the server (postgresql-client), or back that server up by its own means, such as pgBackRest';
  return new TapekeepError('program_missing', `${text}: ${advice}`, { cause });
}

/**
 * Finds pg_dump for a server.
 *
 * @param serverVersion such as `18.4`
 * @returns a function that gives a dump in its custom format
 * @throws TapekeepError `program_missing` where there is none, or an older one
 */
export async function findPgDump(url: string, serverVersion: string, signal: AbortSignal) {
  const said = (await run('pg_dump', ['--version'], { signal })).trim();
  const major = Number(/\) (\d+)/.exec(said)?.[1] ?? 0);
  if (major < Number.parseInt(serverVersion, 10)) {
    throw missing(`${said} is older than the server (${serverVersion}), and cannot dump it`);
  }
  return () => output('pg_dump', ['--format=custom'], { url, signal });
}

/** Restores a dump into an empty database, with this login as the owner of all. */
export async function restoreDump(url: string, path: string, signal: AbortSignal): Promise<void> {
  const how = ['--no-owner', '--no-privileges', '--exit-on-error'];
  await run('pg_restore', [...how, path], { url, signal });
}
