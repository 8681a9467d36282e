import { readFile, rename, rm, writeFile } from 'node:fs/promises';
import { codeOf } from '../../kernel/errors.js';
import { StoreError } from '../errors.js';
import { birthOf, isAlive } from './processes.js';

/**
 * One tapekeep at a time may start and stop the server of a data folder. The lock is a file with
 * the holder's process id; a holder that is gone loses it. It gives a clear sentence and nothing
 * more depends on it: Postgres' own `postmaster.pid` is what keeps two servers off one cluster.
 */
export interface DataDirLock {
  release(): Promise<void>;
}

interface Holder {
  readonly pid: number;
  readonly birth: string;
}

async function readHolder(path: string): Promise<Holder | undefined> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const [pid, birth] = text.trim().split(' ');
  return pid === undefined || !/^\d+$/.test(pid)
    ? undefined
    : { pid: Number(pid), birth: birth ?? '' };
}

async function isHeld({ pid, birth }: Holder): Promise<boolean> {
  if (!isAlive(pid)) return false;
  if (birth !== '') return birth === (await birthOf(pid));
  return pid !== process.pid;
}

/** @throws {@link StoreError} `embedded_postgres_locked` naming the process that has it. */
export async function lockDataDir(path: string, dataDir: string): Promise<DataDirLock> {
  const mine = `${process.pid} ${await birthOf(process.pid)}\n`;
  for (let attempt = 0; attempt < 5; attempt += 1) {
    try {
      await writeFile(path, mine, { flag: 'wx', mode: 0o644 });
      return { release: () => rm(path, { force: true }) };
    } catch (error) {
      if (codeOf(error) !== 'EEXIST') throw error;
    }
    const holder = await readHolder(path);
    if (holder !== undefined && (await isHeld(holder))) throw lockedBy(holder.pid, dataDir);
    // Moved away rather than removed: of two that find it dead, only one moves the same file.
    const aside = `${path}.${process.pid}.stale`;
    await rename(path, aside).catch(() => undefined);
    await rm(aside, { force: true });
  }
  throw lockedBy(0, dataDir);
}

function lockedBy(pid: number, dataDir: string): StoreError {
  return new StoreError(
    'embedded_postgres_locked',
    'fatal',
    `another tapekeep (process ${pid}) already runs the database in ${dataDir}: stop it first, or give this one another dataDir (TAPEKEEP_DATA_DIR)`,
  );
}
