import { readdir, readFile, stat } from 'node:fs/promises';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf } from '../../kernel/errors.js';
import { birthOf, isAlive, isZombie } from '../../kernel/processes.js';
import { runToEnd } from './accounts.js';
import { findBinaries } from './binaries.js';

/**
 * Processes of a cluster: whose a process is, and how a server and what it left behind are ended. An id that a file
 * names proves nothing: after a loss of power it may be that of any program, also of another Postgres.
 */

/** How often an ending process is looked at. */
const LOOK_EVERY_MS = 25;
/** A fast shutdown that takes longer is followed by an immediate one (recovery at next start). */
export const STOP_TIMEOUT_MS = 30_000;
const IMMEDIATE_STOP_MS = 1_000;
const KILL_STOP_MS = 500;
/** A fast shutdown is tried for this long even when the time is over. */
const SHORTEST_STOP_MS = 500;

/** A process of the server on these files, one that is not, or one of which the system does not show it. */
export type Whose = 'ours' | 'other' | 'unknown';

/**
 * Tells by its working folder whose a process is: all processes of Postgres have that of their data. Only Linux shows it,
 * and to root in a container not always.
 */
export async function whose(pid: number, clusterDir: string): Promise<Whose> {
  const unproven = () => (isAlive(pid) ? 'unknown' : 'other');
  if (process.platform !== 'linux') return unproven();
  const shown = `/proc/${pid}`;
  try {
    if (!(await readFile(`${shown}/cmdline`, 'utf8')).includes('postgres')) return 'other';
    // By their numbers: the folder may be reached, and may have been mounted, under more than one name.
    const folder = await stat(clusterDir, { bigint: true });
    const own = await stat(`${shown}/cwd`, { bigint: true }).catch((error: unknown) => {
      if (codeOf(error) !== 'EACCES') throw error;
    });
    if (own !== undefined) {
      return own.dev === folder.dev && own.ino === folder.ino ? 'ours' : 'other';
    }
    // Postgres serves no files of another user.
    const { uid } = await stat(shown, { bigint: true });
    return uid === folder.uid ? 'unknown' : 'other';
  } catch {
    return unproven();
  }
}

/**
 * Ends the server: a fast shutdown, then an immediate one, then SIGKILL, which a server that is
 * frozen cannot ignore. After the last two it recovers at its next start; nothing committed is
 * lost. Returns when the process is gone.
 *
 * @param pid proven to be that of the server
 * @param timeoutMs time for all of it; the hard ways get the last part
 */
export async function endServer(
  pid: number,
  clusterDir: string,
  clock: Clock,
  timeoutMs = STOP_TIMEOUT_MS,
): Promise<void> {
  const hardMs = IMMEDIATE_STOP_MS + KILL_STOP_MS;
  const fastMs = Math.max(timeoutMs - hardMs, SHORTEST_STOP_MS);
  if (process.platform === 'win32') {
    // Windows has no signals to ask with.
    const { pg_ctl: file } = await findBinaries();
    const stop = (mode: string, waitMs: number) => {
      const wait = ['-w', '-t', String(Math.max(1, Math.round(waitMs / 1000)))];
      const args = ['stop', '-D', clusterDir, '-m', mode, ...wait];
      return runToEnd({ file, args });
    };
    if ((await stop('fast', fastMs)).code !== 0) await stop('immediate', hardMs);
    return;
  }
  const birth = await birthOf(pid);
  if (await signalAndWait(pid, 'SIGINT', fastMs, clock)) return;
  // Ids are reused, so the harder signals go only to the very process that was asked before.
  if ((await birthOf(pid)) !== birth) return;
  if (await signalAndWait(pid, 'SIGQUIT', IMMEDIATE_STOP_MS, clock)) return;
  if ((await birthOf(pid)) !== birth) return;
  const children = await childrenOf(pid);
  // A frozen backend would outlive its parent, and then no server could start on these files.
  const ended = signalAndWait(pid, 'SIGKILL', KILL_STOP_MS, clock);
  for (const child of children) await signalAndWait(child, 'SIGKILL', 0, clock);
  await ended;
}

async function signalAndWait(
  pid: number,
  signal: NodeJS.Signals,
  waitMs: number,
  clock: Clock,
): Promise<boolean> {
  if (!signalIfAlive(pid, signal)) return true;
  return await comesTrue(clock, waitMs, async () => !isAlive(pid) || (await isZombie(pid)));
}

/** Whether something is so, or comes to be in time. */
async function comesTrue(
  clock: Clock,
  waitMs: number,
  isSo: () => Promise<boolean>,
): Promise<boolean> {
  const deadlineMs = clock.monotonicMs() + waitMs;
  for (;;) {
    if (await isSo()) return true;
    if (clock.monotonicMs() >= deadlineMs) return false;
    await sleep(clock, LOOK_EVERY_MS);
  }
}

/** The direct children of a process, where the system lists them (Linux). */
export async function childrenOf(pid: number): Promise<number[]> {
  const text = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '');
  return text
    .trim()
    .split(/\s+/)
    .map(Number)
    .filter((child) => child > 0);
}

/** Sends a signal to a process that may be gone by now. False when it is, or is not ours. */
export function signalIfAlive(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal);
  } catch {
    return false;
  }
}

/** They end by themselves at once, unless they are frozen or busy. */
const GRACE_MS = 500;
const ASKED_MS = 500;
const KILLED_MS = 5_000;

/**
 * Ends what a killed server left behind: a backend that has not noticed holds the shared memory, and
 * Postgres starts no server beside it. To be called when no server runs on these files, under the lock of
 * the data folder. Where the system does not list them (not Linux), it waits for nothing.
 */
export async function endOrphans(clusterDir: string, clock: Clock): Promise<void> {
  const areGone = async () => (await orphansOf(clusterDir)).length === 0;
  if (await comesTrue(clock, GRACE_MS, areGone)) return;
  for (const [signal, waitMs] of [
    ['SIGQUIT', ASKED_MS],
    // Nothing is lost by it: the next server recovers from the journal anyway.
    ['SIGKILL', KILLED_MS],
  ] as const) {
    for (const { pid, birth } of await orphansOf(clusterDir)) {
      if ((await birthOf(pid)) === birth) signalIfAlive(pid, signal);
    }
    if (await comesTrue(clock, waitMs, areGone)) return;
  }
}

/** Processes of Postgres whose working folder is that of the cluster, as that of all its backends is. */
async function orphansOf(clusterDir: string): Promise<{ pid: number; birth: string }[]> {
  const found: { pid: number; birth: string }[] = [];
  for (const name of await readdir('/proc').catch(() => [])) {
    const pid = Number(name);
    if (!/^\d+$/.test(name) || (await whose(pid, clusterDir)) !== 'ours') continue;
    found.push({ pid, birth: await birthOf(pid) });
  }
  return found;
}
