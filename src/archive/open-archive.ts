import { systemClock } from '../kernel/clock.js';
import { systemRandom } from '../kernel/random.js';
import { silentStoreEvents } from '../observe/events.js';
import { hasEmbeddedCluster, openStore, startEmbeddedPostgres } from '../store/index.js';
import { coldFolder } from './cold/layout.js';
import { Archive } from './events/archive.js';
import { ArchiveError } from './events/errors.js';

/** Where an archive is. */
export interface ArchiveOptions {
  /**
   * Address of its database, `postgres://user:password@host:port/database`. A login with no more than
   * the reader's rights is enough.
   */
  readonly databaseUrl?: string;
  /**
   * Data folder of the daemon, for an archive in the Postgres that comes with tapekeep: that of a
   * running daemon is shared, else it is started, and stopped by {@link Archive.close}. A program that
   * ends without that call, as by Ctrl-C, leaves the server running until the next user takes it over:
   * call it in a handler of the signal.
   */
  readonly dataDir?: string;
  /**
   * Folder of partitions that have left the database for files (`cold.dir`); `cold` below `dataDir`
   * when left out.
   */
  readonly coldDir?: string;
}

/** Connections for questions; events have their own. */
const POOL_SIZE = 4;

/**
 * Opens an archive for reading; a daemon may go on writing it meanwhile.
 *
 * ```ts
 * const archive = await openArchive({ databaseUrl: 'postgres://reader@localhost/tapekeep' });
 * ```
 *
 * @throws ArchiveError `no_archive` when nothing is there, `bad_option` when neither or both places
 * were named; StoreError when the database cannot be reached or is of another version
 */
export async function openArchive(options: ArchiveOptions): Promise<Archive> {
  const { databaseUrl, dataDir } = options;
  if ((databaseUrl === undefined) === (dataDir === undefined)) {
    throw new ArchiveError('bad_option', 'name the archive by one of databaseUrl and dataDir');
  }
  const server = dataDir === undefined ? undefined : await openEmbedded(dataDir);
  const stop = async () => server?.stop();
  try {
    const store = await openStore({
      databaseUrl: databaseUrl ?? server?.url ?? '',
      ...{ clock: systemClock, random: systemRandom, telemetry: silentStoreEvents },
      poolSize: POOL_SIZE,
    });
    const given = options.coldDir ?? null;
    return new Archive(store, dataDir === undefined ? given : coldFolder(dataDir, given), stop);
  } catch (error) {
    await stop();
    throw error;
  }
}

async function openEmbedded(dataDir: string) {
  if (!(await hasEmbeddedCluster(dataDir))) {
    throw new ArchiveError(
      'no_archive',
      `there is no archive in ${dataDir}: "tapekeep start" makes one; or name its database by databaseUrl`,
    );
  }
  return await startEmbeddedPostgres({ dataDir, clock: systemClock, telemetry: silentStoreEvents });
}
