import { readdir, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import type { Clock } from '../../kernel/clock.js';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import { StoreError } from '../errors.js';
import { clusterPaths, readPassword } from './cluster.js';
import { joinServer } from './logins.js';
import { readPostmaster } from './server.js';

/**
 * Base backup of the running embedded server. Its files are copied while it writes to them; what a copy caught halfway
 * is written again from the journal (WAL) between start and stop, which belongs to the backup.
 *
 * States: *started* → *stopped* or *abandoned*. The server holds the journal back for the connection, and ends backup
 * mode with it: a program that is killed leaves nothing behind in the server.
 */
export interface BaseBackup {
  readonly clusterDir: string;
  /** Files beside the cluster that it cannot be opened without, by their paths. */
  readonly beside: readonly string[];
  /** Version of the server, such as `18.4`. */
  readonly version: string;
  readonly startLsn: string;
  /** Ends backup mode. All that committed before this call is in the backup. */
  stop(): Promise<BaseBackupEnd>;
  /** Ends the connection. Safe to call twice. */
  close(): Promise<void>;
}

export interface BaseBackupEnd {
  readonly stopLsn: string;
  /** Text of the file `backup_label`, which makes a server begin its recovery at the start. */
  readonly label: string;
  /** Files of the journal that the recovery needs, by their names in `pg_wal`. */
  readonly segments: readonly string[];
}

const ELSEWHERE = `
  SELECT spcname AS name FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global')`;
/** Ends with the connection; until then a checkpoint removes nothing of the journal that is needed. */
const KEEP_JOURNAL = `
  SELECT pg_create_physical_replication_slot('tapekeep_backup_' || pg_backend_pid(), true, true)`;
const START = `
  SELECT pg_backup_start('tapekeep backup', true)::text AS lsn, current_setting('server_version') AS version`;
const STOP = 'SELECT lsn::text AS lsn, labelfile AS label FROM pg_backup_stop(true)';
/** Names by an address within each segment: at the border of two, versions of Postgres name different ones. */
const SEGMENTS = `
  SELECT pg_walfile_name('0/0'::pg_lsn + (n * size + 1)) AS name
  FROM (SELECT setting::numeric AS size FROM pg_settings WHERE name = 'wal_segment_size') one,
    generate_series(floor(($1::pg_lsn - '0/0'::pg_lsn) / size),
                    floor(($2::pg_lsn - '0/0'::pg_lsn - 1) / size)) AS n
  ORDER BY 1`;

/**
 * Begins a base backup of the server that runs on the files below `dataDir`, with a checkpoint.
 *
 * @throws StoreError where none answers; TapekeepError `backup_refused` where a part of it lies elsewhere
 */
export async function startBaseBackup(dataDir: string, clock: Clock): Promise<BaseBackup> {
  const paths = clusterPaths(resolve(dataDir));
  const { clusterDir } = paths;
  const found = await readPostmaster(clusterDir);
  const password = await readPassword(paths);
  const server = found && (await joinServer(found, { password, clusterDir, clock }));
  if (server === undefined) {
    const text = `the embedded Postgres in ${clusterDir} does not answer its superuser: run the command again`;
    throw new StoreError('database_unreachable', text);
  }
  const { connection } = server;
  try {
    const elsewhere = await connection.rows<{ name: string }>(ELSEWHERE);
    if (elsewhere.length > 0) {
      const names = elsewhere.map(({ name }) => name).join(', ');
      const text = `the server in ${clusterDir} has tablespaces (${names}), which a backup does not follow: move their tables to pg_default and drop them`;
      throw new TapekeepError('backup_refused', text);
    }
    await connection.rows(KEEP_JOURNAL);
    const [begun] = await connection.rows<{ lsn: string; version: string }>(START);
    const { lsn: startLsn = '', version = '' } = begun ?? {};
    return {
      ...{ clusterDir, startLsn, version: version.split(' ')[0] ?? '' },
      beside: [paths.passwordFile, paths.readerFile],
      async stop() {
        const [ended] = await connection.rows<{ lsn: string; label: string }>(STOP);
        const { lsn: stopLsn = '', label = '' } = ended ?? {};
        const named = await connection.rows<{ name: string }>(SEGMENTS, [startLsn, stopLsn]);
        return { stopLsn, label, segments: named.map(({ name }) => name) };
      },
      close: () => connection.close(),
    };
  } catch (error) {
    await connection.close();
    throw error;
  }
}

/** Folders that a server needs, and whose content it makes again. */
const EMPTIED: ReadonlySet<string> = new Set([
  ...['pg_wal', 'pg_replslot', 'pg_dynshmem', 'pg_notify', 'pg_serial', 'pg_snapshots'],
  ...['pg_stat_tmp', 'pg_subtrans', 'log'],
]);
/** Files of the running server alone, files of an earlier backup, and temporary ones. */
const PASSED_OVER =
  /^(?:postmaster\.(?:pid|opts)|backup_label|tablespace_map|backup_manifest|current_logfiles|pg_internal\.init|pgsql_tmp|t\d+_\d+)/;

/** Content of a cluster's folder, relative to it with `/`. */
export interface ClusterFiles {
  readonly folders: readonly string[];
  readonly files: readonly { readonly path: string; readonly bytes: number }[];
}

/** Returns what a base backup copies of a cluster. Files that go meanwhile are not needed. */
export async function listClusterFiles(clusterDir: string): Promise<ClusterFiles> {
  const folders: string[] = [];
  const files: { path: string; bytes: number }[] = [];
  const visit = async (at: string): Promise<void> => {
    for (const name of await namesIn(join(clusterDir, at))) {
      const path = at === '' ? name : `${at}/${name}`;
      if (PASSED_OVER.test(basename(path))) continue;
      const found = await stat(join(clusterDir, path)).catch(unlessGone);
      if (found?.isDirectory() === true) {
        folders.push(path);
        if (!EMPTIED.has(path)) await visit(path);
      } else if (found?.isFile() === true) {
        files.push({ path, bytes: found.size });
      }
    }
  };
  await visit('');
  return { folders, files };
}

async function namesIn(folder: string): Promise<string[]> {
  return (await readdir(folder).catch(unlessGone)) ?? [];
}

function unlessGone(error: unknown): undefined {
  if (codeOf(error) !== 'ENOENT') throw error;
}
