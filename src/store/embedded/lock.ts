import { type FileHandle, link, open, readFile, rename, rm } from 'node:fs/promises';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf } from '../../kernel/errors.js';
import { StoreError } from '../errors.js';
import type { ClusterPaths } from './cluster.js';
import { beginLife, isLived, type Life, lifeText, readLife } from './lives.js';

/**
 * Whoever starts, joins or leaves the server of a data folder does it alone, for as long as that takes
 * and no longer. The lock is a file that names its holder; a holder that is gone loses it. Postgres'
 * own `postmaster.pid` is what keeps two servers off one cluster, whatever becomes of this file.
 */
export interface DataDirLock {
  release(): Promise<void>;
}

interface LockLimits {
  readonly clock: Clock;
  /** Of the monotonic clock. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal | undefined;
}

/** A disk that is full or not ours to write must keep nobody from looking at a server that runs. */
export const NOT_TO_BE_WRITTEN: ReadonlySet<string> = new Set([
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
    // Somebody else was quicker; anything else keeps us from ever having it.
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
