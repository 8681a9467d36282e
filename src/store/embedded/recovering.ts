import { randomBytes } from 'node:crypto';
import { chown, mkdir, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { TapekeepError } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import { chooseAccount, fileOwner } from './accounts.js';
import { findBinaries } from './binaries.js';
import { type ClusterPaths, clusterPaths, hasCluster, readPassword } from './cluster.js';
import { joinServer, markAsCopy } from './logins.js';
import { readPostmaster } from './server.js';
import { type EmbeddedOptions, lockOf, startEmbeddedPostgres } from './supervisor.js';

/** The journal of a long backup takes its time. */
const REPLAY_TIMEOUT_MS = 3_600_000;

/**
 * Makes the embedded archive below `dataDir` from a base backup, whole or not at all: the files, and the server that
 * recovers from them, live in a folder aside, and get their names when that server has ended. The database is marked
 * as a copy, because it has all the oids of its original.
 *
 * @param fill puts the cluster's files into `postgres` below the folder, which is there, and the others beside it
 * @throws TapekeepError `backup_refused` where there is an archive; StoreError of a start; what `fill` throws
 */
export async function recoverCluster(
  options: Pick<EmbeddedOptions, 'dataDir' | 'clock' | 'telemetry' | 'signal'>,
  fill: (folder: string) => Promise<void>,
): Promise<void> {
  const paths = clusterPaths(resolve(options.dataDir));
  await makeFolder(paths.dataDir);
  const release = await lockOf(options, paths).acquire(options.signal);
  const folder = `${paths.clusterDir}.new-${randomBytes(6).toString('hex')}`;
  try {
    if (await hasCluster(paths)) throw occupied(paths.clusterDir);
    for (const name of await readdir(paths.dataDir)) {
      if (name.startsWith('postgres.new-')) {
        await rm(join(paths.dataDir, name), { recursive: true, force: true });
      }
    }
    await mkdir(folder, { mode: 0o755 });
    const aside = clusterPaths(folder);
    const account = await chooseAccount(await findBinaries(), folder, aside.clusterDir);
    await mkdir(aside.clusterDir, { mode: 0o700 });
    await fill(folder);
    const names = await besideIn(folder);
    for (const name of names) await assertOurs(paths, join(folder, name), name);
    const owner = fileOwner(account);
    if (owner !== undefined) await ownAll(aside.clusterDir, owner);
    await recover({ ...options, dataDir: folder }, aside);
    for (const name of names) await rename(join(folder, name), join(paths.dataDir, name));
    // The archive is there from here on.
    await rename(aside.clusterDir, paths.clusterDir);
  } finally {
    await rm(folder, { recursive: true, force: true });
    await release();
  }
}

/** Lets a server recover, marks the copy, and ends the server. */
async function recover(
  options: Pick<EmbeddedOptions, 'dataDir' | 'clock' | 'telemetry' | 'signal'>,
  paths: ClusterPaths,
): Promise<void> {
  const { clusterDir } = paths;
  const { clock } = options;
  const server = await startEmbeddedPostgres({ ...options, startTimeoutMs: REPLAY_TIMEOUT_MS });
  try {
    const found = await readPostmaster(clusterDir);
    const limits = { password: await readPassword(paths), clusterDir, clock };
    const running = found && (await joinServer(found, limits));
    if (running === undefined) throw new Error(`the server of ${clusterDir} has just answered`);
    await markAsCopy(running, randomBytes(6).toString('hex')).finally(() =>
      running.connection.close(),
    );
  } finally {
    await server.stop();
  }
}

async function besideIn(folder: string): Promise<string[]> {
  const names = await readdir(folder);
  return names.filter((name) => name !== 'postgres');
}

/** A file that is there already has to be the same: a password without its cluster is that of one that was moved away. */
async function assertOurs({ dataDir }: ClusterPaths, from: string, name: string): Promise<void> {
  const path = join(dataDir, name);
  const there = await readFile(path, 'utf8').catch(() => undefined);
  if (there !== undefined && there !== (await readFile(from, 'utf8'))) throw occupied(path);
}

function occupied(path: string): TapekeepError {
  const text = `${path} belongs to another archive, and nothing was changed: name an empty folder by dataDir (TAPEKEEP_DATA_DIR)`;
  return new TapekeepError('backup_refused', text);
}

async function ownAll(folder: string, { uid, gid }: { uid: number; gid: number }): Promise<void> {
  await chown(folder, uid, gid);
  for (const entry of await readdir(folder, { recursive: true })) {
    await chown(join(folder, entry), uid, gid);
  }
}
