import { randomBytes } from 'node:crypto';
import {
  type FileHandle,
  link,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  writeFile,
} from 'node:fs/promises';
import { join } from 'node:path';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { isAlive } from '../../kernel/processes.js';
import type { StoreEvents } from '../../observe/events.js';
import { StoreError } from '../errors.js';
import { findBinaries } from './binaries.js';
import type { ClusterPaths } from './cluster.js';
import { birthOf } from './processes.js';
import { endServer, type Postmaster, probeServer, readPostmaster } from './server.js';

/**
 * A process that does something, for others to see whether it still does: its id, what distinguishes this use
 * of the id from an earlier one, and a token that distinguishes uses by the same process.
 */
interface Life {
  readonly pid: number;
  /** Empty where the system does not report it. */
  readonly birth: string;
  readonly token: string;
}

/** Identity of this process. */
interface OwnLife extends Life {
  /** From here on it counts as over. */
  end(): void;
}

const ownTokens = new Set<string>();
const NO_BIRTH = '-';

/** Creates an identity of this process. */
async function beginLife(): Promise<OwnLife> {
  const token = randomBytes(6).toString('hex');
  const birth = await birthOf(process.pid);
  ownTokens.add(token);
  return { pid: process.pid, birth, token, end: () => ownTokens.delete(token) };
}

/** As text without spaces at its ends or anything that a file name must not have. */
function lifeText({ pid, birth, token }: Life): string {
  return `${pid} ${birth === '' ? NO_BIRTH : birth.replaceAll('/', '_')} ${token}`;
}

/** Undefined when the text is none of {@link lifeText}; that of earlier versions had no token. */
function readLife(text: string): Life | undefined {
  const [, pid, birth = NO_BIRTH, token = ''] =
    /^(\d{1,10})(?: (\S+))?(?: ([0-9a-f]+))?\n?$/.exec(text) ?? [];
  if (pid === undefined) return undefined;
  return { pid: Number(pid), birth: birth === NO_BIRTH ? '' : birth, token };
}

/** Whether the process still lives and has not ended this use itself. */
async function isLived({ pid, birth, token }: Life): Promise<boolean> {
  // Our own id: it is ours, or of an earlier process that had the same.
  if (pid === process.pid) return ownTokens.has(token);
  if (!isAlive(pid)) return false;
  return birth === '' || birth.replaceAll('/', '_') === (await birthOf(pid)).replaceAll('/', '_');
}

/**
 * A process that starts, joins or leaves the server of a data folder does it alone, for as long as that takes
 * and no longer. The lock is a file that names its holder; a holder that is gone loses it. Postgres'
 * own `postmaster.pid` is what keeps two servers off one cluster, whatever becomes of this file.
 */
interface DataDirLock {
  release(): Promise<void>;
}

interface LockLimits {
  readonly clock: Clock;
  /** Of the monotonic clock. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** A disk that is full or not ours to write must not prevent looking at a server that runs. */
const NOT_TO_BE_WRITTEN: ReadonlySet<string> = new Set([
  ...['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT'],
]);
const LOOK_EVERY_MS = 25;
/** A file is there a moment before its text is; one that stays empty was left by a crash. */
const EMPTY_LOOKS = 40;

/**
 * Undefined where no lock can be written: a server that runs may be looked at all the same.
 *
 * @throws {@link StoreError} `embedded_postgres_locked` naming who has had it for so long
 */
export async function lockUnlessReadOnly(
  { lockFile, dataDir }: Pick<ClusterPaths, 'lockFile' | 'dataDir'>,
  limits: LockLimits,
): Promise<DataDirLock | undefined> {
  try {
    return await lockDataDir(lockFile, dataDir, limits);
  } catch (error) {
    if (NOT_TO_BE_WRITTEN.has(codeOf(error))) return undefined;
    throw error;
  }
}

async function lockDataDir(
  path: string,
  dataDir: string,
  { clock, deadlineMs, signal }: LockLimits,
): Promise<DataDirLock> {
  const life = await beginLife();
  let emptyLooks = 0;
  for (;;) {
    signal?.throwIfAborted();
    if (await writeNew(path, `${lifeText(life)}\n`)) {
      return {
        async release() {
          life.end();
          await rm(path, { force: true });
        },
      };
    }
    const text = await readFile(path, 'utf8').catch(() => undefined);
    const holder = readLife(text ?? '');
    emptyLooks = text === undefined || holder !== undefined ? 0 : emptyLooks + 1;
    const isDead = holder === undefined ? emptyLooks >= EMPTY_LOOKS : !(await isLived(holder));
    if (text !== undefined && isDead) await takeAway(path, text, life);
    if (clock.monotonicMs() >= deadlineMs) throw lockedBy(holder?.pid ?? 0, dataDir);
    if (!isDead) await sleep(clock, LOOK_EVERY_MS, signal);
  }
}

/** False when the file is there already. One that could not be filled does not stay. */
async function writeNew(path: string, text: string): Promise<boolean> {
  let file: FileHandle;
  try {
    file = await open(path, 'wx', 0o644);
  } catch (error) {
    if (codeOf(error) === 'EEXIST') return false;
    throw error;
  }
  try {
    await file.writeFile(text);
    return true;
  } catch (error) {
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

/** Of two that find a holder dead, the slower must not take the lock of the quicker away. */
async function takeAway(path: string, deadText: string, { pid, token }: Life): Promise<void> {
  const aside = `${path}.${pid}-${token}.stale`;
  try {
    await rename(path, aside);
  } catch (error) {
    // Another process was quicker; anything else keeps us from ever having it.
    if (codeOf(error) === 'ENOENT') return;
    throw error;
  }
  const taken = await readFile(aside, 'utf8').catch(() => deadText);
  if (taken !== deadText) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

function lockedBy(pid: number, dataDir: string): StoreError {
  return new StoreError(
    'embedded_postgres_locked',
    'fatal',
    `another tapekeep (process ${pid}) has been starting or stopping the database in ${dataDir} for long: try again when it has ended, end it if it hangs, or give this one another dataDir (TAPEKEEP_DATA_DIR)`,
  );
}

/**
 * Who uses the server of a data folder: an empty file for each, named for the process. Who is gone
 * counts no longer, with or without its file. Files are read by the process that holds the lock of the
 * folder, so that no process joins while the last one stops the server.
 */
export interface ServerUser {
  /** The processes of the others that use the server now. */
  others(): Promise<readonly number[]>;
  /** Takes the own file away. Safe to call twice. */
  leave(): Promise<void>;
}

/** Joins the users of a server, before it is looked for. */
export async function joinUsers(usersDir: string): Promise<ServerUser> {
  const life = await beginLife();
  const own = lifeText(life);
  try {
    await mkdir(usersDir, { recursive: true });
    await writeFile(join(usersDir, own), '', { mode: 0o644 });
  } catch (error) {
    if (!NOT_TO_BE_WRITTEN.has(codeOf(error))) throw error;
  }
  return {
    async others() {
      const pids: number[] = [];
      for (const name of await readdir(usersDir).catch(() => [])) {
        const one = readLife(name);
        if (one === undefined || name === own) continue;
        if (await isLived(one)) pids.push(one.pid);
        else await rm(join(usersDir, name), { force: true }).catch(() => undefined);
      }
      return pids;
    },
    async leave() {
      life.end();
      await rm(join(usersDir, own), { force: true }).catch(() => undefined);
    },
  };
}

/** A process that has the lock for longer than this is doing more than leaving. */
const LEAVE_LOCK_MS = 2_000;

/** A server that serves. */
export interface Running {
  readonly pid: number;
  readonly port: number;
  readonly password: string;
}

/** Leaves the server to those who still use it; the last one ends it. */
export async function leave(
  { clock, telemetry }: { readonly clock: Clock; readonly telemetry: StoreEvents },
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
    // Another process joins or leaves: the server is its own.
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
