import { randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, readFile, rename, rm, statfs, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { isThere } from '../../kernel/folders.js';
import { StoreError, sqlstateOf } from '../errors.js';
import { type Account, commandAs, fileOwner, runToEnd } from './accounts.js';
import type { Binaries } from './binaries.js';
import { EMBEDDED_SUPERUSER } from './logins.js';

/** Where things are below the data folder. */
export type ClusterPaths = Readonly<ReturnType<typeof clusterPaths>>;

export function clusterPaths(dataDir: string) {
  const clusterDir = join(dataDir, 'postgres');
  return {
    dataDir,
    clusterDir,
    /** The superuser's. */
    passwordFile: `${clusterDir}.password`,
    /** For people who connect by themselves; the program works it out. */
    programPasswordFile: `${clusterDir}.program.password`,
    /** Name and password of the login that only reads. */
    readerFile: `${clusterDir}.reader`,
    portFile: `${clusterDir}.port`,
    /** Names the process that owns the server, for as long as it does. */
    lockFile: `${clusterDir}.lock`,
  };
}

/** @throws {@link StoreError} where this user may not look: there may be one. */
export async function hasCluster({ clusterDir }: ClusterPaths): Promise<boolean> {
  return await isThere(join(clusterDir, 'PG_VERSION')).catch((error: unknown) => {
    throw new StoreError(
      'embedded_postgres_needs_user',
      `the database in ${clusterDir} cannot be looked at (${codeOf(error)}): run tapekeep as the user of its daemon or as root, or set TAPEKEEP_DATABASE_URL to what "tapekeep url" says there`,
      { cause: error },
    );
  });
}

/** @throws {@link StoreError} when a cluster exists whose password is gone. */
export async function readPassword({ passwordFile, clusterDir }: ClusterPaths): Promise<string> {
  const password = (await readFile(passwordFile, 'utf8').catch(() => '')).trim();
  if (password !== '') return password;
  throw new StoreError(
    'embedded_postgres_failed',
    `the database in ${clusterDir} has lost its password file ${passwordFile}: restore that file, or move the folder away to begin a new archive`,
  );
}

/**
 * Makes the cluster where there is none. It grows in a sibling folder and gets its name only when
 * complete, so that one that was interrupted is never taken for a cluster.
 */
export async function makeCluster(
  paths: ClusterPaths,
  binaries: Binaries,
  account: Account,
  signal?: AbortSignal,
): Promise<void> {
  await removeUnfinished(paths);
  const owner = fileOwner(account);
  await makePassword(paths, owner);
  const growing = `${paths.clusterDir}.new-${randomBytes(6).toString('hex')}`;
  await mkdir(growing, { mode: 0o700 });
  try {
    if (owner !== undefined) await chown(growing, owner.uid, owner.gid);
    const finished = await runToEnd(
      commandAs(account, binaries.initdb, [
        `--pgdata=${growing}`,
        '--auth=scram-sha-256',
        `--username=${EMBEDDED_SUPERUSER}`,
        `--pwfile=${paths.passwordFile}`,
        '--encoding=UTF8',
        '--locale=C',
        '--data-checksums',
        '--no-instructions',
      ]),
      { signal },
    );
    signal?.throwIfAborted();
    if (finished.code !== 0) throw await initFailed(paths, finished.output);
    await rename(growing, paths.clusterDir);
  } finally {
    await rm(growing, { recursive: true, force: true });
  }
}

async function makePassword(
  { passwordFile }: ClusterPaths,
  owner: { uid: number; gid: number } | undefined,
): Promise<void> {
  const password = `${randomBytes(32).toString('hex')}\n`;
  try {
    await writeFile(passwordFile, password, { flag: 'wx', mode: 0o600 });
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error;
    const kept = await readFile(passwordFile, 'utf8');
    // A crash between making the file and filling it.
    if (kept.trim() === '') await writeFile(passwordFile, password, { mode: 0o600 });
  }
  if (owner !== undefined) await chown(passwordFile, owner.uid, owner.gid);
}

async function removeUnfinished({ dataDir }: ClusterPaths): Promise<void> {
  for (const name of await readdir(dataDir)) {
    if (name.startsWith('postgres.new-')) {
      await rm(join(dataDir, name), { recursive: true, force: true });
    }
  }
}

async function initFailed(
  { clusterDir, dataDir }: ClusterPaths,
  output: string,
): Promise<StoreError> {
  const full = await fullDisk(dataDir, output);
  if (full !== undefined) return full;
  const detail = output.split('\n').slice(-4).join(' ');
  return new StoreError(
    'embedded_postgres_failed',
    `initdb could not make a database in ${clusterDir}: ${detail}`,
  );
}

/** What the C library says in English and Postgres passes on. */
const FULL_TEXT = /No space left on device|Disk quota exceeded/;
/** Of Node, and of Postgres. */
const FULL_CODES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', '53100']);

/**
 * One typed error for all that a full disk leads to, with the free bytes.
 *
 * @param dataDir the folder on that disk
 * @param error an error, or what a program printed
 * @returns undefined when the disk was not what it failed for
 */
export async function fullDisk(dataDir: string, error: unknown): Promise<StoreError | undefined> {
  const text = messageOf(error);
  const isFull = FULL_CODES.has(sqlstateOf(error) ?? codeOf(error)) || FULL_TEXT.test(text);
  if (!isFull) return undefined;
  const free = await statfs(dataDir).then(
    ({ bavail, bsize }) => `${bavail * bsize} bytes free`,
    () => 'free bytes unknown',
  );
  return new StoreError(
    'embedded_postgres_disk_full',
    `the disk of ${dataDir} is full (${free}): nothing stored is lost; make room there`,
    { cause: error },
  );
}
