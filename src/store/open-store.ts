import { setMaxListeners } from 'node:events';
import { type Clock, endsInTime } from '../kernel/clock.js';
import { AbortedError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import type { Batch, CommitResult, StreamRef } from '../model/batch.js';
import { saneWindow } from '../model/columns.js';
import { Share } from '../model/share.js';
import type { StoreEvents } from '../observe/events.js';
import {
  PendingSearch,
  readContradicted,
  readExpected,
  readFigures,
  readTargets,
  readTotals,
} from './checks/inputs.js';
import {
  applySuspects,
  readDueMismatches,
  readMismatches,
  recordCheckResults,
  reportCheckResults,
} from './checks/results.js';
import {
  readCheckCounts,
  readCoveredUntil,
  readDays,
  readSessions,
  readStreamNames,
  readStreamPieces,
} from './completeness/days.js';
import { readFillRequests, want } from './completeness/fill-requests.js';
import {
  closeFilledGaps,
  listGaps,
  noteGaps,
  readGapTotals,
  recordGap,
  retryGaps,
  retryMemories,
} from './completeness/gaps.js';
import {
  closeOrphanSessions,
  notePresent,
  readBeyondPresent,
  readCoveredRanges,
  readExchangeNow,
  readMissing,
  recordIdEpoch,
  type SessionClosing,
  type StreamPlace,
  touchSession,
} from './completeness/ledger.js';
import { replaceRemovedPartitions, revokeBeyond } from './completeness/revocation.js';
import { checkDatabase } from './connection.js';
import { Database } from './database.js';
import { readDatabaseIdentity } from './identity.js';
import { changesSince, journalNumber } from './journal.js';
import { refuseSharedSession } from './pooling.js';
import {
  readDatabaseBytes,
  readGap,
  readIsCollecting,
  readIsWritten,
  readMayWrite,
  readProgress,
  readQuarantine,
  readQuarantineCounts,
  readQuarantinedRow,
  readStatus,
  readStreams,
  tryStoring,
} from './reading/inspection.js';
import { OwnStatements } from './reading/own-statements.js';
import { readPieces } from './reading/pieces.js';
import { openSnapshot } from './reading/snapshot.js';
import {
  hasTradeBefore,
  readStoredAbove,
  readStoredTrades,
  readTradedSlots,
  readUntimedTrades,
} from './reading/stored-rows.js';
import { noteRun, type RunFacts, readRuns } from './runs.js';
import {
  claimArchive,
  ensureMarkets,
  ensureStream,
  noteStartTry,
  readArchive,
  readListedMarkets,
  readOffsetModes,
  readStartTries,
  rememberOffsetMode,
} from './schema/catalog.js';
import {
  isOwnBackend,
  pointColdServer,
  readColdLack,
  readColdServerTrouble,
} from './schema/cold-server.js';
import { checkMigrated } from './schema/migrate.js';
import { Partitions } from './schema/partitions.js';
import { readLongHolders } from './sealing/holders.js';
import { readArchived, readPartitions, SealingAdmin } from './sealing/partitions.js';
import { Spool, type SpoolSettings } from './spool/spool.js';
import type { ArchivedTrades } from './writer/final-partitions.js';
import { type HeldLeaseOptions, Lease } from './writer/lease.js';
import type { LeaseOptions } from './writer/lease-wire.js';
import {
  askHandover,
  readHolders,
  readStandbys,
  type StandByOptions,
  StandingBy,
} from './writer/standing-by.js';
import { Writer } from './writer/writer.js';

/** For the writer's goodbye to the server, after its drain. */
const GOODBYE_MS = 500;
/** Rows that may wait; beyond it `commit` waits for room. */
const QUEUED_ROWS_MAX = 200_000;

/** What {@link openStore} needs. Everything optional has a default; times are milliseconds. */
export interface StoreOptions {
  /** `postgres://user:password@host:port/database?sslmode=…` */
  readonly databaseUrl: string;
  readonly clock: Clock;
  readonly random: Random;
  readonly telemetry: StoreEvents;
  /** Connections for reading and the ledger; the writer has one more of its own. Default 4. */
  readonly poolSize?: number;
  /** Deadline of connecting. Default 10,000. */
  readonly connectTimeoutMs?: number;
  /** Deadline of one statement, at the server and (a little later) at the client. Default 30,000. */
  readonly statementTimeoutMs?: number;
  /** How long a batch may wait for others to share its transaction. Default 100. */
  readonly commitLatencyMs?: number;
  /** Rows that close a group before its time. Default 20,000. */
  readonly maxGroupRows?: number;
  /** Batches that may wait; beyond it `commit` waits for room. Default 1,000. */
  readonly maxQueuedBatches?: number;
  /** Longest pause between two tries of a failed transaction. Default 2,000. */
  readonly retryCapMs?: number;
  /** How long `stop` lets the queue drain. Default 8,000. */
  readonly drainDeadlineMs?: number;
  /**
   * Exchange time: no claim may end after it, and no row lie far beyond it. Default: this machine's
   * clock.
   */
  readonly exchangeNowMs?: () => number;
  /** Partitions kept ready beyond the current one, per table. Default 3. */
  readonly partitionsAhead?: number;
  /** Quarantined rows kept, the newest ones; counts are never lost. Default 10,000. */
  readonly quarantineKeepRows?: number;
  /** Reads trades that have left the database, to know those that come once more. Default: none is known. */
  readonly archivedTrades?: ArchivedTrades;
  /** Share of the markets that a daemon collects. Default: all of them, however daemons divide them. */
  readonly share?: Share | undefined;
  /** Keeps what cannot be asked for again while the database is away. Default: such a commit waits like any other. */
  readonly spool?: SpoolSettings;
}

/** Limits of statements that may take long, as for charts. */
const LONG_LIMITS = { atOnce: 3, waiting: 32, timeoutMs: 10_000, bytes: 64 * 1_048_576 };

const DEFAULTS = {
  ...{ poolSize: 4, connectTimeoutMs: 10_000, statementTimeoutMs: 30_000 },
  commitLatencyMs: 100,
  maxGroupRows: 20_000,
  maxQueuedBatches: 1_000,
  retryCapMs: 2_000,
  drainDeadlineMs: 8_000,
  partitionsAhead: 3,
  quarantineKeepRows: 10_000,
};

/** A value that can be passed as a parameter of a query. */
export type SqlValue = string | number | boolean | null | readonly string[] | readonly number[];

/** Functions over the database, called without it. */
type Bound<Functions> = {
  readonly [Name in keyof Functions]: Functions[Name] extends (
    database: never,
    ...rest: infer Rest
  ) => infer Result
    ? (...rest: Rest) => Result
    : never;
};

/**
 * @param open gives the database, or throws when the store is stopped
 * @param after called when one has succeeded
 */
function bind<
  Functions extends Record<string, (database: Database, ...rest: never[]) => Promise<unknown>>,
>(open: () => Database, functions: Functions, after?: () => void): Bound<Functions> {
  const bound = Object.entries(functions).map(([name, work]) => [
    name,
    async (...rest: never[]) => {
      const result = await work(open(), ...rest);
      after?.();
      return result;
    },
  ]);
  return Object.fromEntries(bound) as Bound<Functions>;
}

/** The archive's catalog and its ledger: what is collected, what is complete, what is to be filled. */
const LEDGER = {
  ...{ archive: readArchive, claimArchive },
  ...{ offsetModes: readOffsetModes, startTries: readStartTries },
  ...{ coveredRanges: readCoveredRanges, statusRows: readStatus },
  ...{ databaseBytes: readDatabaseBytes },
  ...{ gaps: readMissing, listGaps, gapTotals: readGapTotals, retryGaps },
  ...{ retryMemories, closeFilledGaps, fillRequests: readFillRequests },
  ...{ replaceRemovedPartitions },
  ...{ notePresent, beyondPresent: readBeyondPresent, exchangeNowMs: readExchangeNow },
  ...{ storedTrades: readStoredTrades, storedAbove: readStoredAbove },
  ...{ hasTradeBefore, tradedSlots: readTradedSlots, untimedTrades: readUntimedTrades },
  ...{ touchSession, askHandover, standbys: readStandbys, holders: readHolders },
  listedMarkets: readListedMarkets,
};

/** Changes of catalog and ledger that the program remembers, in transactions beside the writer's. */
const CHANGES = {
  ...{ ensureMarkets, ensureStream, rememberOffsetMode, noteStartTry, recordIdEpoch },
  ...{ recordGap, want },
};

/** What people look at, and write to, beside the series: the ledger in detail, and what was refused. */
const INSPECTION = {
  ...{ streams: readStreams, progress: readProgress, pieces: readPieces, gap: readGap },
  ...{ streamNames: readStreamNames, streamPieces: readStreamPieces, days: readDays },
  coveredUntil: readCoveredUntil,
  ...{ sessions: readSessions, checkCounts: readCheckCounts, runs: readRuns },
  ...{
    note: noteGaps,
    isWritten: readIsWritten,
    isCollecting: readIsCollecting,
    mayWrite: readMayWrite,
    tryStoring,
  },
  quarantined: readQuarantine,
  quarantinedRow: readQuarantinedRow,
  quarantineCounts: readQuarantineCounts,
};

/** Check results of trades against candles, and their inputs. */
const CHECKS = {
  ...{
    targets: readTargets,
    figures: readFigures,
    expected: readExpected,
    contradicted: readContradicted,
  },
  ...{ record: recordCheckResults, report: reportCheckResults, applySuspects, totals: readTotals },
  ...{ mismatches: readMismatches, dueMismatches: readDueMismatches },
};

/**
 * The archive in Postgres.
 *
 * States: *open* → *stopping* → *stopped*. While the database is away, `commit` keeps waiting and
 * repeating; the other methods fail with a `retry` error. After `stop` everything is refused with an
 * `AbortedError`.
 */
export type Store = Awaited<ReturnType<typeof openStore>>;

/**
 * Opens the archive in a database that `migrate` has prepared.
 *
 * @throws {@link StoreError} naming host, port and database when it cannot be reached, is older
 * than Postgres 15, or does not fit this program.
 */
export async function openStore(options: StoreOptions) {
  const { share = Share.whole } = options;
  const settings = { ...DEFAULTS, exchangeNowMs: () => options.clock.wallMs(), ...options };
  const { databaseUrl, clock, connectTimeoutMs, statementTimeoutMs } = settings;
  const connection = { databaseUrl, clock, connectTimeoutMs, statementTimeoutMs };
  const { poolSize, random, telemetry } = settings;
  const database = new Database({ ...connection, poolSize, random, telemetry });
  try {
    await checkDatabase(database, databaseUrl);
    await database.session((one) => refuseSharedSession(one, connection));
    await checkMigrated(database, databaseUrl);
  } catch (error) {
    await database.close();
    throw error;
  }
  const partitions = new Partitions(database, telemetry);
  const long = new OwnStatements(databaseUrl, clock, LONG_LIMITS);
  /** Ends what reads a snapshot: any number at once. */
  const ending = new AbortController();
  setMaxListeners(0, ending.signal);
  let pending = new PendingSearch();
  const onWentBack = new Set<() => void>();
  const writer = new Writer({
    ...{ ...settings, connection, partitions },
    limits: { maxBatches: settings.maxQueuedBatches, maxRows: QUEUED_ROWS_MAX },
    presentMs: () => settings.exchangeNowMs() + 1,
    saneWindow: () => saneWindow(settings.exchangeNowMs()),
    onWentBack: () => {
      pending = new PendingSearch();
      spool.wentBack();
      for (const listener of onWentBack) listener();
    },
    onOutage: () => spool.away(),
  });
  const spool: Spool = new Spool({
    ...(settings.spool ?? { dir: '', maxBytes: 0 }),
    ...{ share, clock, random, telemetry, database, writer },
  });
  /** Commits that have not ended, the oldest first. */
  const underWay = new Set<{ readonly sinceMs: number }>();
  let stopped: Promise<void> | undefined;
  const open = (): Database => {
    if (stopped !== undefined) throw new AbortedError('the store is stopped');
    return database;
  };

  return {
    ...bind(open, LEDGER),
    ...bind(open, CHANGES, () => writer.changedBeside()),
    inspection: bind(open, INSPECTION),
    /** Returns the time ranges that were changed, in the order of commits. */
    journal: bind(open, { number: journalNumber, changesSince }),
    checks: {
      ...bind(open, CHECKS),
      /** For each market and interval its newest unchecked span, newest first. */
      pending: async (limit: number) => await pending.find(open(), limit),
    },
    /** Where partitions are, and a connection to work on them. */
    sealing: {
      ...bind(open, {
        partitions: readPartitions,
        identity: readDatabaseIdentity,
        pointColdServer,
        longHolders: readLongHolders,
        coldLack: readColdLack,
        coldServerTrouble: readColdServerTrouble,
        isOwnBackend,
        archived: readArchived,
      }),
      /**
       * Opens a connection that alone may change partition states.
       *
       * @param signal gives up whatever runs on it
       * @throws StoreError `sealing_busy` while another one is open, `sealing_refused` on a Citus cluster
       */
      open: async (signal: AbortSignal): Promise<SealingAdmin> => {
        open();
        return await SealingAdmin.open(connection, signal);
      },
    },

    /**
     * Applies one decision: what it revokes, its rows and the coverage that they prove, what was learned of gaps and
     * where expectation begins, in one transaction shared with other batches
     * that arrive at about the same time. Resolves after COMMIT; storing the same batch twice is
     * harmless. Waits while the queue is full.
     *
     * @param how.signal gives up waiting; the batch may then have been stored or not.
     * @param how.era in which the batch was made: of an older one only the rows are stored. Default: the first
     * @param how.once says that it cannot be asked for again, with the stream of its rows: while the database is away
     *   it is kept in the spool, and resolves then. Undefined stream: pushed trades
     * @throws {@link StoreError} when the batch itself cannot be stored; AbortedError when stopped.
     */
    async commit(
      batch: Batch,
      how?: {
        readonly signal?: AbortSignal;
        readonly era?: number;
        readonly once?: { readonly stream?: StreamPlace };
      },
    ): Promise<CommitResult> {
      const entry = { sinceMs: clock.monotonicMs() };
      underWay.add(entry);
      try {
        const { signal, era = 0, once } = how ?? {};
        if (once !== undefined) return await spool.commit(batch, era, once.stream, signal);
        return await writer.commit(batch, era, signal);
      } finally {
        underWay.delete(entry);
      }
    },

    /**
     * Revokes what is covered of its share beyond the exchange's present, by the writer; see the function of that name.
     *
     * @throws {@link StoreError}
     */
    async revokeBeyond(untilMs: number, how: Parameters<typeof revokeBeyond>[3]) {
      const commit = (batch: Batch) => writer.commit(batch, writer.era);
      return await revokeBeyond(open(), commit, untilMs, how, (stream) => share.keeps(stream));
    },

    /** How long the oldest commit under way has been waiting, milliseconds; 0 when there is none. */
    oldestCommitMs(): number {
      const [oldest] = underWay;
      return oldest === undefined ? 0 : clock.monotonicMs() - oldest.sinceMs;
    },

    /**
     * Grows each time that the database turned out to be older than it was left, or another one. Whoever remembers
     * what is stored has to read it again then.
     */
    era: () => writer.era,

    /** Calls a listener at each new era. */
    onWentBack(listener: () => void): void {
      onWentBack.add(listener);
    },

    /** Opens a session of the ledger. @returns its number; below zero while the database is away */
    async openSession(stream: StreamRef, atMs: number): Promise<number> {
      open();
      return await spool.openSession(stream, atMs);
    },

    async closeSession(id: number, end: SessionClosing): Promise<void> {
      open();
      await spool.closeSession(id, end);
    },

    /**
     * Opens the spool, and stores what an earlier process left in it. To be called with the lock, before anything is
     * collected.
     *
     * @throws {@link StoreError} `spool_refused`
     */
    async openSpool(signal: AbortSignal): Promise<void> {
      open();
      if (settings.spool !== undefined) await spool.open(signal);
    },

    /** Bytes that wait in the spool. */
    spooledBytes: () => spool.bytes,

    /** Why nothing can be stored at present, such as a full disk; undefined while that is possible. */
    outage: () => writer.outage,

    /**
     * Makes this store the only writer of its share of the database. Held until `stop`; taken again before anything
     * else is written when its connection was lost.
     *
     * @param application what the server is to call it, such as {@link FILLER}
     * @throws {@link StoreError} `writer_lock_held` when another daemon has it; `shares_differ` when others divide it into
     *   another number of shares.
     */
    async acquireWriterLock(application?: string): Promise<void> {
      open();
      await writer.acquireLock(application);
    },

    /** Shows from here on that this store holds the writer's lock; see {@link Lease}. */
    keepLease(hears: Omit<HeldLeaseOptions, keyof LeaseOptions | 'token'>): Lease {
      open();
      return new Lease({ connection, clock, share, token: () => writer.lockToken, ...hears });
    },

    /** Watches the process that holds the writer's lock; see {@link StandingBy}. */
    standBy(how: Omit<StandByOptions, keyof LeaseOptions>): StandingBy {
      open();
      return new StandingBy({ connection, clock, share, ...how });
    },

    /** Closes sessions of its share that a crash left open. Returns how many. */
    async closeOrphanSessions(): Promise<number> {
      return await closeOrphanSessions(open(), share);
    },

    /** Remembers that a program begins to collect its share. */
    async noteRun(facts: RunFacts): Promise<void> {
      await noteRun(open(), facts, share);
    },

    /** Keeps partitions ready beyond `nowExchangeMs`. */
    async makePartitionsAhead(nowExchangeMs: number): Promise<void> {
      open();
      await partitions.makeAhead(nowExchangeMs, settings.partitionsAhead);
    },

    /** Opens the archive as it is now, for reading series whole. @throws {@link StoreError} */
    async snapshot() {
      open();
      return await openSnapshot(connection, ending.signal);
    },

    /** Runs one read-only statement for the archive's readers. Values only as parameters. */
    async query<Row extends object>(sql: string, values: readonly SqlValue[] = []): Promise<Row[]> {
      return await open().transaction(
        (connection) => connection.single<Row>(sql, values),
        'READ ONLY',
      );
    },

    /** Runs one read-only statement of this program that takes milliseconds, with rows as {@link queryLong} gives them. */
    async queryQuick<Row extends object>(sql: string, values: readonly SqlValue[]): Promise<Row[]> {
      return await open().transaction((one) => one.rows<Row>(sql, values), 'READ ONLY');
    },

    /**
     * Runs one read-only statement that may take long, on a connection of its own.
     *
     * @throws as {@link OwnStatements.run}
     */
    async queryLong<Row extends object>(
      sql: string,
      values: readonly SqlValue[],
      signal: AbortSignal,
    ): Promise<Row[]> {
      open();
      return await long.rows<Row>(sql, values, AbortSignal.any([signal, ending.signal]));
    },

    /** One round trip. @throws {@link StoreError} */
    async ping(): Promise<void> {
      await open().rows('SELECT 1');
    },

    /** Drains the queue up to a deadline, then closes every connection. Safe to call twice. */
    stop(): Promise<void> {
      stopped ??= (async () => {
        const spooled = spool.stop();
        // The writer's goodbye to a server that hangs must not keep the pool open.
        await endsInTime(clock, settings.drainDeadlineMs + GOODBYE_MS, writer.stop());
        await spooled;
        ending.abort(new AbortedError('the store is stopped'));
        await database.close();
      })();
      return stopped;
    },
  };
}
