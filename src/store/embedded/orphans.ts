import { readdir, readlink, realpath } from 'node:fs/promises';
import { type Clock, sleep } from '../../kernel/clock.js';
import { birthOf, mayBePostgres, signalIfAlive } from './processes.js';

const LOOK_EVERY_MS = 25;
/** They end by themselves at once, unless they are frozen or busy. */
const GRACE_MS = 500;
const ASKED_MS = 500;
const KILLED_MS = 5_000;

/**
 * Ends what a killed server left behind: a backend that has not noticed holds the shared memory, and
 * Postgres starts no server beside it. To be called when no server runs on these files, under the lock of
 * the data folder. Where the system does not tell who they are (not Linux), it waits for nothing.
 */
export async function endOrphans(clusterDir: string, clock: Clock): Promise<void> {
  if (await areGone(clusterDir, clock, GRACE_MS)) return;
  for (const [signal, waitMs] of [
    ['SIGQUIT', ASKED_MS],
    // Nothing is lost by it: the next server recovers from the journal anyway.
    ['SIGKILL', KILLED_MS],
  ] as const) {
    for (const { pid, birth } of await orphansOf(clusterDir)) {
      if ((await birthOf(pid)) === birth) signalIfAlive(pid, signal);
    }
    if (await areGone(clusterDir, clock, waitMs)) return;
  }
}

async function areGone(clusterDir: string, clock: Clock, waitMs: number): Promise<boolean> {
  const deadlineMs = clock.monotonicMs() + waitMs;
  for (;;) {
    if ((await orphansOf(clusterDir)).length === 0) return true;
    if (clock.monotonicMs() >= deadlineMs) return false;
    await sleep(clock, LOOK_EVERY_MS);
  }
}

/** Processes of Postgres whose working folder is that of the cluster, as that of all its backends is. */
async function orphansOf(clusterDir: string): Promise<{ pid: number; birth: string }[]> {
  const folder = await realpath(clusterDir).catch(() => clusterDir);
  const found: { pid: number; birth: string }[] = [];
  for (const name of await readdir('/proc').catch(() => [])) {
    if (!/^\d+$/.test(name)) continue;
    const cwd = await readlink(`/proc/${name}/cwd`).catch(() => undefined);
    if (cwd !== folder || !(await mayBePostgres(Number(name)))) continue;
    found.push({ pid: Number(name), birth: await birthOf(Number(name)) });
  }
  return found;
}
