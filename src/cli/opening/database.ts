import { coldFolder } from '../../archive/cold/layout.js';
import type { Config } from '../../config/schema.js';
import type { Clock } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { systemRandom } from '../../kernel/random.js';
import type { StoreEvents } from '../../observe/events.js';
import {
  hasEmbeddedCluster,
  type MigrationReport,
  migrate,
  migrateAll,
  openStore,
  type Store,
  startEmbeddedPostgres,
} from '../../store/index.js';
import { commandEnding } from '../ending.js';

/** Where the archive is, and how to let go of it. */
export interface Database {
  readonly url: string;
  readonly isEmbedded: boolean;
  /** Aborts when the command is to end: from the outside, until {@link stop} has ended. */
  readonly signal: AbortSignal;
  stop(): Promise<void>;
}

/** The configured Postgres, or the embedded one, started if need be. */
async function openDatabase(
  config: Config,
  clock: Clock,
  telemetry: StoreEvents,
  signal: AbortSignal,
): Promise<Pick<Database, 'url' | 'isEmbedded' | 'stop'>> {
  const { url } = config.database;
  if (url !== null) return { url, isEmbedded: false, stop: async () => undefined };
  const { dataDir } = config;
  const embedded = await startEmbeddedPostgres({ dataDir, clock, telemetry, signal });
  return { url: embedded.url, isEmbedded: true, stop: () => embedded.stop() };
}

/** There is nothing to look at in the data folder. */
export class NoArchiveError extends TapekeepError {
  constructor(dataDir: string) {
    super(
      'no_archive',
      'fatal',
      `there is no archive in ${dataDir}: "tapekeep start" makes one; or name another folder by dataDir (TAPEKEEP_DATA_DIR), or a database by database.url (TAPEKEEP_DATABASE_URL)`,
    );
  }
}

/**
 * The same for a command beside a daemon: it shares the server, which the last of them ends. As long
 * as it is held, a signal does not end the process, but aborts what the command does.
 *
 * @param need `existing` refuses to make an empty archive just to look at it
 * @throws NoArchiveError; EndedError
 */
export async function borrowDatabase(
  config: Config,
  clock: Clock,
  telemetry: StoreEvents,
  need: 'existing' | 'any',
): Promise<Database> {
  const { dataDir } = config;
  const isOwn = config.database.url === null;
  if (isOwn && need === 'existing' && !(await hasEmbeddedCluster(dataDir))) {
    throw new NoArchiveError(dataDir);
  }
  const ending = commandEnding.hold();
  try {
    const database = await openDatabase(config, clock, telemetry, ending.signal);
    const stop = () => database.stop().finally(ending.release);
    return { ...database, signal: ending.signal, stop };
  } catch (error) {
    ending.release();
    throw error;
  }
}

/** Brings the schema up to date. Returns the names of the migrations that were applied. */
export function migrateDatabase(
  config: Config,
  databaseUrl: string,
  telemetry: StoreEvents,
): Promise<string[]> {
  const partitionWidths = config.database.partitionWidth;
  return migrate({ databaseUrl, telemetry, partitionWidths });
}

/** The same, with all that became of it. */
export function migrateDatabaseWholly(
  config: Config,
  databaseUrl: string,
  telemetry: StoreEvents,
): Promise<MigrationReport> {
  const partitionWidths = config.database.partitionWidth;
  return migrateAll({ databaseUrl, telemetry, partitionWidths });
}

/** Opens the archive with the configured limits. */
export function openArchive(
  config: Config,
  databaseUrl: string,
  clock: Clock,
  telemetry: StoreEvents,
  exchangeNowMs?: () => number,
): Promise<Store> {
  const { poolSize, statementTimeout, commitLatency, partitionsAheadDays, quarantineMax } =
    config.database;
  return openStore({
    databaseUrl,
    clock,
    random: systemRandom,
    telemetry,
    poolSize,
    statementTimeoutMs: statementTimeout,
    commitLatencyMs: commitLatency,
    partitionsAhead: partitionsAheadDays,
    quarantineKeepRows: quarantineMax,
    drainDeadlineMs: 4000,
    ...(exchangeNowMs === undefined ? {} : { exchangeNowMs }),
  });
}

/** The folder of cold partitions, as configured. */
export function coldDirOf({ dataDir, cold }: Pick<Config, 'dataDir' | 'cold'>): string {
  return coldFolder(dataDir, cold.dir);
}

/** A database's address without its password. */
export function describeDatabase(url: string): string {
  const shown = new URL(url);
  shown.password = '';
  return shown.href;
}
