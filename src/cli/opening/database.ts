import { join } from 'node:path';
import { BucketStorage } from '../../archive/cold/bucket/bucket.js';
import { coldFolder } from '../../archive/cold/folder.js';
import { coldOwnerConflict } from '../../archive/cold/owner.js';
import { type ColdStorage, FolderStorage } from '../../archive/cold/storage.js';
import { ColdError } from '../../archive/errors.js';
import type { Config } from '../../config/schema.js';
import { systemClock, unlessAborted } from '../../kernel/clock.js';
import { codeOf, messageOf, TapekeepError } from '../../kernel/errors.js';
import { systemRandom } from '../../kernel/random.js';
import { Share } from '../../model/share.js';
import {
  findEmbeddedPostgres,
  hasEmbeddedCluster,
  type MigrationReport,
  type MigrationStep,
  migrate,
  openStore,
  type PartitionInfo,
  type Store,
  type StoreOptions,
  startEmbeddedPostgres,
} from '../../store/index.js';
import type { Need } from '../command.js';
import { commandEnding, untilStopped } from '../ending.js';
import { openSession, type Session } from './session.js';

/** File of the data folder that holds the start of the built-in exchange, whose archive it is. */
export const ORIGIN_FILE = 'sandbox.json';

/** Where the archive is. */
export interface Database {
  readonly url: string;
  /** For people who only read; the same where the database is not ours. */
  readonly readerUrl: string;
  /** Aborts when the command is to end. */
  readonly signal: AbortSignal;
}

type EmbeddedOptions = Parameters<typeof startEmbeddedPostgres>[0];

/** Starts the embedded server as it is configured, or finds the one that runs. */
export function startEmbedded(
  { config: { dataDir, database }, clock, telemetry }: Session,
  own: Pick<EmbeddedOptions, 'signal' | 'onLost' | 'startTimeoutMs'>,
) {
  const { embeddedPort, readerName, readerPassword } = database;
  return startEmbeddedPostgres({
    ...{ dataDir, clock, telemetry: telemetry.store, ...own },
    reader: { name: readerName, password: readerPassword },
    ...(embeddedPort === 0 ? {} : { port: embeddedPort }),
  });
}

/** `existing` refuses to make an empty archive just to look at it; `any` makes one where there is none. */
export type ArchiveNeed = 'existing' | 'any';

/**
 * The configured Postgres for a command, or the embedded one: that of a daemon where one runs, else started, and
 * stopped at the end. As long as it is in use, a signal does not end the process, but aborts what the command does.
 *
 * @param onLost given by a command that is to stay, as {@link startEmbedded} says
 * @throws TapekeepError `no_archive`, `embedded_postgres_lost` where the process that ran it has ended; EndedError
 */
export async function withDatabase<T>(
  session: Session,
  need: ArchiveNeed,
  use: (database: Database) => Promise<T>,
  onLost?: (error: Error) => void,
): Promise<T> {
  const { config } = session;
  if (need === 'existing') await assertArchive(config);
  using ending = commandEnding.hold();
  const { signal } = ending;
  const { url } = config.database;
  if (url !== null) return await use({ url, readerUrl: url, signal });
  const embedded = await startEmbedded(session, { signal, onLost });
  try {
    return await use({ url: embedded.url, readerUrl: embedded.readerUrl, signal });
  } catch (error) {
    throw (await endedUnder(session, error)) ?? error;
  } finally {
    await embedded.stop();
  }
}

/** What a command reports whose server the owner has stopped meanwhile; undefined where it failed for another reason. */
async function endedUnder(
  { config: { dataDir }, clock }: Session,
  error: unknown,
): Promise<TapekeepError | undefined> {
  const isPassing = error instanceof TapekeepError && error.action === 'retry';
  if (!isPassing || (await findEmbeddedPostgres(dataDir, clock)) !== undefined) return undefined;
  const text = `the database in ${dataDir} no longer answers, as when the process that ran it has ended: run the command again (${error.message})`;
  return new TapekeepError('embedded_postgres_lost', text, { cause: error });
}

/** @throws TapekeepError `no_archive` where an embedded archive was never made */
export async function assertArchive({ database, dataDir }: Config): Promise<void> {
  if (database.url !== null || (await hasEmbeddedCluster(dataDir))) return;
  const text = `there is no archive in ${dataDir}: "tapekeep start" makes one; or name another folder by dataDir (TAPEKEEP_DATA_DIR), or a database by database.url (TAPEKEEP_DATABASE_URL)`;
  throw new TapekeepError('no_archive', text);
}

/** Brings the schema up to date. */
export function migrateDatabase(
  { telemetry: { store: telemetry } }: Session,
  databaseUrl: string,
  onStep?: (step: MigrationStep) => void,
): Promise<MigrationReport> {
  return migrate({ databaseUrl, telemetry, ...(onStep && { onStep }) });
}

/** Share of the markets that the settings name. */
export function shareOf({ collector }: Config): Share {
  return Share.parse(collector.share ?? '') ?? Share.whole;
}

/** Parts of the archive that a daemon has for itself: its share of the markets, and its spool. */
type Own = Required<Pick<StoreOptions, 'share' | 'spool'>>;

export function ownOf(config: Config): Own {
  const { dataDir, spool } = config;
  return {
    share: shareOf(config),
    spool: { dir: join(dataDir, 'spool'), maxBytes: spool.maxBytes },
  };
}

/** Opens the archive with the configured limits. @param own given by the daemon, which opens the spool as well */
export async function openArchive(
  { config, clock, telemetry, exchangeTime }: Session,
  databaseUrl: string,
  own?: Own,
): Promise<Store> {
  const { poolSize, statementTimeout } = config.database;
  const store: Store = await openStore({
    databaseUrl,
    clock,
    random: systemRandom,
    telemetry: telemetry.store,
    poolSize,
    statementTimeoutMs: statementTimeout,
    drainDeadlineMs: 4000,
    ...own,
    exchangeNowMs: () => exchangeTime.nowMs(),
    async *archivedTrades(marketId, span, signal) {
      const { openReading } = await import('../../archive/reading.js');
      const reading = await openReading(store, { cold: coldOf(config), signal });
      try {
        yield* reading.typed({ kind: 'trades', marketId, variantS: 0, span });
      } finally {
        await reading.close();
      }
    },
  });
  return store;
}

/** The place of cold partitions, as configured; one for each process, because readers share its cache. */
export function coldOf(config: Pick<Config, 'dataDir' | 'cold'>): ColdStorage {
  const { dataDir, cold } = config;
  const known = coldPlaces.get(cold);
  if (known !== undefined) return known;
  const { url } = cold;
  const place =
    url === null
      ? new FolderStorage(coldFolder(dataDir, cold.dir))
      : new BucketStorage({
          ...bucketOf({ ...cold, url }),
          ...{ cacheBytes: cold.cache, cacheDir: join(dataDir, 'cold-cache') },
        });
  coldPlaces.set(cold, place);
  return place;
}

/** Address of a bucket, with what its client needs. */
export function bucketOf({ url, endpoint, region, pathStyle }: BucketSettings & { url: string }) {
  // The SDK says on each start that later versions need a newer Node; docs/guides/cold-files.md says so once.
  process.env.AWS_SDK_JS_NODE_VERSION_SUPPORT_WARNING_DISABLED ??= 'true';
  return {
    ...{ url, endpoint, region, isPathStyle: pathStyle },
    ...{ clock: systemClock, random: systemRandom },
  };
}

export type BucketSettings = Pick<Config['cold'], 'endpoint' | 'region' | 'pathStyle'>;

const coldPlaces = new WeakMap<Config['cold'], ColdStorage>();

/** The folder of cold files; null where they are in a bucket. */
export function coldDirOf({ dataDir, cold }: Pick<Config, 'dataDir' | 'cold'>): string | null {
  return cold.url === null ? coldFolder(dataDir, cold.dir) : null;
}

/**
 * Returns what is wrong with archiving: files of an archived partition cannot be found, the folder belongs to another database,
 * or the database could not read archived rows. Null where nothing is, or nothing is archived.
 */
export async function coldFolderTrouble(
  config: Config,
  store: Store,
): Promise<{ readonly code: string; readonly found: string; readonly advice: string } | null> {
  const cold = coldOf(config);
  const partitions = await store.sealing.partitions();
  const archived = partitions.filter(({ state }) => state === 'archived');
  const lost = await findLost(cold, archived);
  if (lost !== undefined) {
    return {
      code: 'cold_files_missing',
      found: lost,
      advice: `${COLD_FILES_ADVICE}; until then what reads that time is refused`,
    };
  }
  if (archived.length === 0 && !config.cold.enabled) return null;
  const lack = await store.sealing.coldLack();
  if (lack !== null) return { code: 'sealing_refused', ...lack };
  const conflict = await coldOwnerConflict(cold, await store.sealing.identity()).catch(() => null);
  if (conflict === null) return await findUnwritable(cold);
  return {
    code: 'cold_refused',
    found: conflict.found,
    advice: `${conflict.advice}; until then it is only read`,
  };
}

/** What brings them back. */
const COLD_FILES_ADVICE =
  'bring them back from a copy, or name the right folder by cold.dir (TAPEKEEP_COLD_DIR) or bucket by cold.url';

/** Says why nothing could be archived; null: it could. */
async function findUnwritable(cold: ColdStorage) {
  try {
    await cold.assertWritable();
    return null;
  } catch (error) {
    if (!(error instanceof ColdError)) throw error;
    return { code: error.code, found: error.message, advice: 'nothing is archived until then' };
  }
}

/** Says which archived partition has no manifest; undefined: each has one. */
async function findLost(
  cold: ColdStorage,
  archived: readonly PartitionInfo[],
): Promise<string | undefined> {
  if (archived.length === 0) return undefined;
  const listed = new Set<string>();
  let reason = '';
  try {
    for await (const path of cold.list('manifests/')) listed.add(path);
  } catch (error) {
    reason = ` (${messageOf(error)})`;
  }
  for (const { name, uri } of archived) {
    if (listed.has(uri ?? '')) continue;
    // A bucket may list late.
    if (reason === '' && (await cold.isThere(uri ?? '').catch(() => false))) continue;
    return `${name} is in cold files, and ${cold.at(uri ?? '')} cannot be found${reason}`;
  }
  return undefined;
}

/** A database's address without its password. */
export function describeDatabase(url: string): string {
  const shown = new URL(url);
  shown.password = '';
  return shown.href;
}

/** What becomes of work on an archive when the command is to end: it is cut off, or ends `by itself`. */
type WorkEnds = 'cut off' | 'by itself';

/**
 * Opens the archive, whether or not a daemon runs, and closes it again, also when the command is ended
 * from outside.
 *
 * @param ends `by itself` for work that heeds the signal
 * @throws EndedError
 */
export async function withArchive<T>(
  session: Session,
  work: (store: Store, database: Database) => Promise<T>,
  ends: WorkEnds = 'cut off',
  need: ArchiveNeed = 'existing',
): Promise<T> {
  return await withDatabase(session, need, async (database) => {
    const { signal, url } = database;
    const opening = openArchive(session, url).catch(async (error: unknown) => {
      // A database without a schema is a new archive.
      if (codeOf(error) !== 'database_not_migrated' || need === 'existing') throw error;
      await migrateDatabase(session, url);
      return await openArchive(session, url);
    });
    const store = await unlessAborted(signal, opening, (late) => late.stop());
    try {
      const working = work(store, database);
      return await (ends === 'by itself' ? working : unlessAborted(signal, working));
    } finally {
      await store.stop();
    }
  });
}

/** What a command works with that looks at an archive. */
export interface Look {
  readonly session: Session;
  readonly store: Store;
  /** The exchange's time, as far as the ledger knows it. */
  readonly nowMs: number;
  /** Aborts when the command is to end. */
  readonly signal: AbortSignal;
}

/** The exchange's time, as far as the ledger knows it; else that of this machine. */
export async function nowOf(store: Store): Promise<number> {
  return Math.floor((await store.exchangeNowMs()) ?? systemClock.wallMs());
}

/** The need of a command that looks at the archive. */
export function archive(ends: WorkEnds = 'cut off'): Need<Look> {
  return async (common, use) => {
    const session = openSession({ logLevel: 'warn', ...common });
    const look = async (store: Store, { signal }: Database) =>
      await use({ session, store, signal, nowMs: await nowOf(store) });
    return await withArchive(session, look, ends);
  };
}

/** Notice about the work that was stopped. */
export interface Left {
  left: string;
}

/** The same of one whose work heeds the signal, and that says what it leaves behind when it is stopped. */
export function stoppable(left: string): Need<Look & Left> {
  const need = archive('by itself');
  return (common, use) => {
    const notice = { left };
    return untilStopped(
      () => need(common, (look) => use(Object.assign(notice, look))),
      () => `tapekeep: stopped; ${notice.left}\n`,
    );
  };
}

/**
 * Whether a daemon cannot listen because it is the second one of its archive.
 *
 * @throws StoreError `writer_lock_held` or `shares_differ` if so; nothing where that cannot be seen
 */
export async function refuseSecondWriter(session: Session): Promise<void> {
  const { config } = session;
  try {
    if (config.database.url === null && !(await hasEmbeddedCluster(config.dataDir))) return;
    await withDatabase(session, 'existing', async ({ url }) => {
      const store = await openArchive(session, url, ownOf(config));
      await store.acquireWriterLock().finally(() => store.stop());
    });
  } catch (error) {
    if (['writer_lock_held', 'shares_differ'].includes(codeOf(error))) throw error;
  }
}
