import type { Market } from '../contract/resources.js';
import type { Clock } from '../kernel/clock.js';
import type { Random } from '../kernel/random.js';
import type { Span } from '../kernel/span.js';
import type {
  ActiveOrderRow,
  BalanceRow,
  Batch,
  CommitResult,
  Island,
  StartReason,
  StreamRef,
} from '../ledger/batch.js';
import type { GapReason } from '../ledger/gap-reasons.js';
import type { SeriesTable, StreamKind } from '../model/series.js';
import type { StoreEvents } from '../observe/events.js';
import type { CompletenessStore, GapState, RecordedGap } from './api-completeness.js';
import type { InspectionStore } from './api-inspection.js';
import type { ArchiveSnapshot } from './api-series.js';
import type { VerdictStore } from './api-verdicts.js';
import type { SealingStore } from './sealing/api-sealing.js';

/** How much time one partition holds. All boundaries are UTC. */
export type PartitionWidth = 'day' | 'month';

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
  /** Rows that may wait; beyond it `commit` waits for room. Default 200,000. */
  readonly maxQueuedRows?: number;
  /** Longest pause between two tries of a failed transaction. Default 2,000. */
  readonly retryCapMs?: number;
  /** How long {@link Store.stop} lets the queue drain. Default 8,000. */
  readonly drainDeadlineMs?: number;
  /**
   * Exchange time: no claim may end after it, and no row lie far beyond it. Default: this machine's
   * clock.
   */
  readonly exchangeNowMs?: () => number;
  /** Oldest storable moment. Default 2009-01-01. */
  readonly saneFromMs?: number;
  /** How far past {@link exchangeNowMs} a moment may lie. Default one day. */
  readonly saneAheadMs?: number;
  /** Partitions kept ready beyond the current one, per table. Default 3. */
  readonly partitionsAhead?: number;
  /** Quarantined rows kept, the newest ones; counts are never lost. Default 10,000. */
  readonly quarantineKeepRows?: number;
}

/** The exchange that an archive belongs to. */
export interface ArchiveIdentity {
  readonly name: string;
  readonly baseUrl: string;
  readonly isSandbox: boolean;
  /** Names the exchange's history (its header `x-tapekeep-exchange`); null where none is sent. */
  readonly identity: string | null;
}

/** Markets that are to be known: an exchange may list any number of others. */
export interface MarketChoice {
  /** None: all of them. */
  readonly wanted: readonly string[];
  /** Of those that are listed now. */
  readonly max: number;
}

/** What a complete list of markets changed. */
export interface MarketChanges {
  /** Market ids by name, of all markets that are listed now. */
  readonly ids: ReadonlyMap<string, number>;
  /** Seen for the first time, or again after a delisting. */
  readonly added: readonly string[];
  /** Absent from the list: delisted as of now. */
  readonly removed: readonly string[];
  /** Other precision or minimum than before. */
  readonly changed: readonly string[];
  /** Known from before and not listed now, whenever they left the list. */
  readonly delisted: readonly string[];
}

export interface StreamKey {
  readonly kind: StreamKind;
  readonly marketId: number;
  readonly variant: number;
  /** Used only when the stream is new. */
  readonly collectFromMs?: number | null;
}

/** What happened to a gap. It takes the place of what was remembered of its span; of memories that
 *  reach beyond it the rest stays. */
export interface GapRecord {
  readonly stream: StreamRef;
  readonly span: Span;
  readonly state: GapState;
  readonly reason: GapReason;
  readonly note?: string;
  /** When it was seen; exchange time. */
  readonly atMs: number;
  readonly nextAttemptAtMs?: number | null;
}

/** The key of a stored trade. */
export interface TradeKey {
  readonly tid: number;
  readonly tradedAtS: number;
}

export interface SessionClosing {
  readonly atMs: number;
  readonly code: number;
  readonly reason: string;
}

/** One stream at a glance, from the ledger alone. */
export interface StreamStatus {
  readonly streamId: number;
  readonly kind: StreamKind;
  readonly marketId: number;
  /** `*` for streams that cover all markets together. */
  readonly market: string;
  readonly variant: number;
  /** Rows stored under coverage. */
  readonly rows: number;
  /** End of the newest covered span; null while nothing is covered. */
  readonly newestCoveredMs: number | null;
  readonly coveredS: number;
  /** Spans expected but not covered, up to the newest covered moment: what is newer is lag. */
  readonly gaps: number;
  readonly gapS: number;
  /** Seconds of them that are recorded as unfillable: nobody can fetch them any more. */
  readonly unfillableS: number;
  /**
   * Seconds of the unfillable that lie before all that is covered, because the exchange's history began
   * later: they were wished for and never there to be had, so a share of what is complete leaves them out.
   */
  readonly beforeHistoryS: number;
  /** Gaps that are left when what lies before history is taken out. */
  readonly gapsWithinHistory: number;
  /** Gaps that are left when the unfillable spans are taken out. */
  readonly openGaps: number;
  readonly collectFromMs: number | null;
  /** Null where the start was chosen, or is not known. */
  readonly startReason: StartReason | null;
}

/** A value that can be passed as a parameter of a query. */
export type SqlValue = string | number | boolean | null | readonly string[] | readonly number[];

/**
 * The archive in Postgres.
 *
 * States: *open* → *stopping* → *stopped*. While the database is away, {@link Store.commit} keeps
 * waiting and repeating; the other methods fail with a `retry` error. After {@link Store.stop}
 * everything is refused with an `AbortedError`.
 */
export interface Store extends CompletenessStore {
  /** Verdicts of trades against candles. */
  readonly verdicts: VerdictStore;
  /** What people look at beside the series. */
  readonly inspection: InspectionStore;
  /** The lives of partitions: sealing, leaving, coming back. */
  readonly sealing: SealingStore;

  /**
   * Stores rows and the coverage that they prove, in one transaction shared with other batches
   * that arrive at about the same time. Resolves after COMMIT; storing the same batch twice is
   * harmless. Waits while the queue is full.
   *
   * @param options.signal gives up waiting; the batch may then have been stored or not.
   * @throws {@link StoreError} when the batch itself can not be stored; AbortedError when stopped.
   */
  commit(batch: Batch, options?: { readonly signal?: AbortSignal }): Promise<CommitResult>;

  /**
   * Binds this archive to an exchange, or checks that it is bound to this one.
   *
   * @throws {@link StoreError} `archive_of_another_exchange`
   */
  claimArchive(archive: ArchiveIdentity): Promise<void>;
  /** The exchange that this archive is bound to, or null before the first claim. */
  archive(): Promise<ArchiveIdentity | null>;

  /**
   * Makes this store the only writer of its database. Held until {@link Store.stop}; taken again
   * before anything else is written when its connection was lost.
   *
   * @throws {@link StoreError} `writer_lock_held` when another daemon has it.
   */
  acquireWriterLock(): Promise<void>;

  /**
   * Upserts a list of markets. Those absent from a complete list (the default) are marked as
   * delisted; those absent from an incomplete one stay as they are known, and keep their ids. New ones are
   * taken in by name, as long as no more are listed of those that are wanted than `take.max`.
   */
  ensureMarkets(
    markets: readonly Market[],
    atMs: number,
    list?: { readonly isComplete: boolean; readonly take?: MarketChoice },
  ): Promise<MarketChanges>;
  ensureStream(key: StreamKey): Promise<StreamRef>;
  /** Moves the start of expected coverage, as when the start of history was found. */
  setCollectFrom(streamId: number, collectFromMs: number, reason?: StartReason): Promise<void>;

  /** The newest `limit` islands of coverage, newest first. */
  islands(stream: StreamRef, limit: number): Promise<Island[]>;
  /**
   * Expected minus covered, oldest first: from `collectFromMs` (or, while that is null, from the
   * oldest moment that is covered or wanted) up to `untilMs`, and what was wanted before that.
   */
  gaps(stream: StreamRef, untilMs: number): Promise<Span[]>;
  recordGap(gap: GapRecord): Promise<void>;
  /**
   * Marks remembered gaps that coverage holds by now as filled; suspects only once they were
   * uncovered. Returns how many.
   */
  closeFilledGaps(): Promise<number>;
  /** Remembered gaps of a stream, newest first, at most `limit`. */
  recordedGaps(stream: StreamRef, limit: number): Promise<RecordedGap[]>;

  /** Opens a session and returns its id. */
  openSession(stream: StreamRef, atMs: number): Promise<number>;
  touchSession(sessionId: number, lastMessageAtMs: number): Promise<void>;
  closeSession(sessionId: number, closing: SessionClosing): Promise<void>;
  /** Closes, at their last message, sessions that a crash left open. Returns how many. */
  closeOrphanSessions(): Promise<number>;

  /** Keys of the newest stored trades, newest first. */
  newestTrades(marketId: number, count: number): Promise<TradeKey[]>;
  statusRows(untilMs: number): Promise<StreamStatus[]>;
  /** What the account holds as far as the archive knows, one row a currency. */
  knownBalances(): Promise<BalanceRow[]>;
  /** The account's orders in a market that the archive knows as open, each in its newest version. */
  openOrders(marketId: number): Promise<ActiveOrderRow[]>;

  /** Makes every partition that holds a moment of `span`. Returns the names of the new ones. */
  ensurePartitions(table: SeriesTable, span: Span): Promise<string[]>;
  /** Keeps partitions ready beyond `nowExchangeMs`. */
  makePartitionsAhead(nowExchangeMs: number): Promise<void>;

  /** How long the oldest commit under way has been waiting, milliseconds; 0 when there is none. */
  oldestCommitMs(): number;
  /**
   * The exchange's time now, as far as the ledger tells: its newest covered moment, and what has
   * passed since that was written. Null while nothing is covered.
   */
  exchangeNowMs(): Promise<number | null>;

  /** Opens the archive as it is now, for reading series whole. @throws {@link StoreError} */
  snapshot(): Promise<ArchiveSnapshot>;
  /** Runs one read-only statement for the archive's readers. Values only as parameters. */
  query<Row extends object>(sql: string, values?: readonly SqlValue[]): Promise<Row[]>;
  /** One round trip. @throws {@link StoreError} */
  ping(): Promise<void>;
  /** Drains the queue up to a deadline, then closes every connection. Safe to call twice. */
  stop(): Promise<void>;
}

/** What {@link migrate} needs. */
export interface MigrateOptions {
  readonly databaseUrl: string;
  readonly connectTimeoutMs?: number;
  readonly telemetry?: StoreEvents;
  /** Other than the default partition widths; settled once, when the table is first made. */
  readonly partitionWidths?: Partial<Readonly<Record<SeriesTable, PartitionWidth>>>;
}

/** What {@link startEmbeddedPostgres} needs. */
export interface EmbeddedOptions {
  /** Folder of the installation; the cluster lives in `postgres` below it. */
  readonly dataDir: string;
  readonly clock: Clock;
  readonly telemetry: StoreEvents;
  /** Receives the server's own log lines. */
  readonly log?: (line: string) => void;
  /** Whole environment of the server's processes. */
  readonly env?: Readonly<Record<string, string>>;
  /** Deadline of start and of stop. Default 60,000. */
  readonly startTimeoutMs?: number;
  /** Called when the server was killed and cannot be started again. */
  readonly onLost?: (error: Error) => void;
}

export interface EmbeddedPostgres {
  /** Connection string, with the password. Loopback only. */
  readonly url: string;
  /** Leaves the server; the last one to do so ends it and waits until it is gone. Safe to call twice. */
  stop(): Promise<void>;
}
