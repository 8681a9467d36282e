import { randomUUID } from 'node:crypto';
import { type FileHandle, link, open, readFile, rename, rm } from 'node:fs/promises';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf } from '../../kernel/errors.js';
import { isAlive } from '../../kernel/processes.js';
import { StoreError } from '../errors.js';
import { birthOf } from './accounts.js';
import type { ClusterPaths } from './cluster.js';

interface LockLimits {
  readonly clock: Clock;
  /** Of the monotonic clock. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * A full or read-only disk must not prevent reading from a server that runs, nor a folder that was moved away its end.
 */
const NOT_TO_BE_WRITTEN: ReadonlySet<string> = new Set([
  ...['EACCES', 'EPERM', 'EROFS', 'ENOSPC', 'EDQUOT', 'ENOENT'],
]);
const LOOK_EVERY_MS = 25;
/** A file exists shortly before its text does; one that stays empty was left by a crash. */
const EMPTY_LOOKS = 40;
/** Texts of the locks that this process holds: its id in any other text is that of an earlier process. */
const heldHere = new Set<string>();

/**
 * Lock of a data folder, for as long as a process starts, joins or ends its server. The file names its
 * holder, and a holder that is gone loses it. Postgres' own `postmaster.pid` is what keeps two servers
 * off one cluster.
 *
 * @returns undefined where no lock can be written
 * @throws {@link StoreError} `embedded_postgres_locked` naming the holder at the deadline
 */
export async function lockDataDir(
  { lockFile, dataDir }: Pick<ClusterPaths, 'lockFile' | 'dataDir'>,
  { clock, deadlineMs, signal }: LockLimits,
): Promise<AsyncDisposable | undefined> {
  // Each lock has a text of its own, so that a new one is never taken for the stale one before it.
  const own = `${process.pid} ${await birthOf(process.pid)} ${randomUUID()}\n`;
  let emptyLooks = 0;
  for (;;) {
    signal?.throwIfAborted();
    try {
      if (await writeNew(lockFile, own)) break;
    } catch (error) {
      if (NOT_TO_BE_WRITTEN.has(codeOf(error))) return undefined;
      throw error;
    }
    const text = await readFile(lockFile, 'utf8').catch(() => undefined);
    const [pid, birth] = (text ?? '').trim().split(' ');
    emptyLooks = text === '' ? emptyLooks + 1 : 0;
    const isStale = text === '' ? emptyLooks >= EMPTY_LOOKS : !(await isHeld(text, pid, birth));
    if (text !== undefined && isStale) await takeAway(lockFile, text);
    if (clock.monotonicMs() >= deadlineMs) throw lockedBy(pid, dataDir);
    if (!isStale) await sleep(clock, LOOK_EVERY_MS, signal);
  }
  return {
    async [Symbol.asyncDispose]() {
      await rm(lockFile, { force: true });
      heldHere.delete(own);
    },
  };
}

async function isHeld(text = '', holder = '', birth = ''): Promise<boolean> {
  const pid = Number(holder);
  if (pid === process.pid && birth === '') return heldHere.has(text);
  return isAlive(pid) && (birth === '' || birth === (await birthOf(pid)));
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
  heldHere.add(text);
  try {
    await file.writeFile(text);
    return true;
  } catch (error) {
    heldHere.delete(text);
    await rm(path, { force: true });
    throw error;
  } finally {
    await file.close();
  }
}

/** Of two that find a stale lock, the slower must not remove the new lock of the quicker. */
async function takeAway(path: string, staleText: string): Promise<void> {
  const aside = `${path}.${randomUUID()}.stale`;
  try {
    await rename(path, aside);
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return;
    throw error;
  }
  const taken = await readFile(aside, 'utf8').catch(() => staleText);
  if (taken !== staleText) await link(aside, path).catch(() => undefined);
  await rm(aside, { force: true });
}

function lockedBy(pid: string | undefined, dataDir: string): StoreError {
  return new StoreError(
    'embedded_postgres_locked',
    `another tapekeep (process ${pid || 'unknown'}) has been starting or stopping the database in ${dataDir} for long: try again when it has ended, end it if it hangs, or give this one another dataDir (TAPEKEEP_DATA_DIR)`,
  );
}
