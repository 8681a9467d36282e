import type { Config } from '../config/schema.js';
import type { Clock } from '../kernel/clock.js';
import { systemRandom } from '../kernel/random.js';
import type { StoreEvents } from '../observe/events.js';
import {
  findEmbeddedPostgres,
  migrate,
  openStore,
  type Store,
  startEmbeddedPostgres,
} from '../store/index.js';

/** Where the archive is, and how to let go of it. */
export interface Database {
  readonly url: string;
  readonly isEmbedded: boolean;
  stop(): Promise<void>;
}

/** The configured Postgres, or the embedded one, started if need be. */
export async function openDatabase(
  config: Config,
  clock: Clock,
  telemetry: StoreEvents,
): Promise<Database> {
  const { url } = config.database;
  if (url !== null) return { url, isEmbedded: false, stop: async () => undefined };
  const embedded = await startEmbeddedPostgres({ dataDir: config.dataDir, clock, telemetry });
  return { url: embedded.url, isEmbedded: true, stop: () => embedded.stop() };
}

/** The same for a command that only looks: it shares the server of a running daemon. */
export async function borrowDatabase(
  config: Config,
  clock: Clock,
  telemetry: StoreEvents,
): Promise<Database> {
  if (config.database.url === null) {
    const running = await findEmbeddedPostgres({ dataDir: config.dataDir, clock });
    if (running !== undefined) {
      return { url: running.url, isEmbedded: true, stop: async () => undefined };
    }
  }
  return openDatabase(config, clock, telemetry);
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
