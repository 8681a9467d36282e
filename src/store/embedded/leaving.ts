import { codeOf, messageOf } from '../../kernel/errors.js';
import type { EmbeddedOptions } from '../api.js';
import { findBinaries } from './binaries.js';
import type { ClusterPaths } from './cluster.js';
import { type DataDirLock, lockUnlessReadOnly } from './lock.js';
import { type Postmaster, probeServer, readPostmaster } from './probe.js';
import { endServer } from './server.js';
import type { ServerUser } from './users.js';

/** Whoever has the lock for longer than this is doing more than leaving. */
const LEAVE_LOCK_MS = 2_000;

/** A server that serves. */
export interface Running {
  readonly pid: number;
  readonly port: number;
  readonly password: string;
}

/** Leaves the server to those who still use it; the last one ends it. */
export async function leave(
  { clock, telemetry }: EmbeddedOptions,
  paths: ClusterPaths,
  user: ServerUser,
  running: Running,
  timeoutMs?: number,
): Promise<void> {
  const begunMs = clock.monotonicMs();
  const limitMs = Math.min(LEAVE_LOCK_MS, (timeoutMs ?? LEAVE_LOCK_MS) / 2);
  let lock: DataDirLock | undefined;
  try {
    lock = await lockUnlessReadOnly(paths, { clock, deadlineMs: begunMs + limitMs });
    await user.leave();
    const others = await user.others();
    if (others.length > 0) {
      const detail = `still used by ${others.map((pid) => `process ${pid}`).join(', ')}`;
      telemetry.embeddedPostgres({ phase: 'left', detail });
      return;
    }
    telemetry.embeddedPostgres({ phase: 'stopping' });
    const leftMs =
      timeoutMs === undefined ? undefined : timeoutMs - (clock.monotonicMs() - begunMs);
    // Only what still is this cluster's server: ids are reused, and it may have been started anew.
    const current = await readPostmaster(paths.clusterDir);
    if (current !== undefined && (await isServer(current, running, paths))) {
      await endServer(current.pid, await findBinaries(), paths.clusterDir, clock, leftMs);
    }
    telemetry.embeddedPostgres({ phase: 'stopped' });
  } catch (error) {
    if (codeOf(error) !== 'embedded_postgres_locked') throw error;
    // Somebody is coming in, or going out: the server is theirs.
    await user.leave();
    telemetry.embeddedPostgres({ phase: 'left', detail: messageOf(error) });
  } finally {
    await lock?.release();
  }
}

async function isServer(
  current: Postmaster,
  running: Running,
  { clusterDir }: ClusterPaths,
): Promise<boolean> {
  if (current.pid === running.pid) return true;
  return (await probeServer(current.port, running.password, clusterDir)) === 'serving';
}
