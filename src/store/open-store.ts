import type { Market } from '../contract/resources.js';
import { sleep } from '../kernel/clock.js';
import { AbortedError } from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type {
  Batch,
  CommitResult,
  IdEpoch,
  StartReason,
  StreamRef,
  TradeExposure,
} from '../ledger/batch.js';
import type { SeriesTable } from '../model/series.js';
import { readKnownBalances, readOpenOrders } from './accounts.js';
import type {
  ArchiveIdentity,
  GapRecord,
  SessionClosing,
  SqlValue,
  Store,
  StoreOptions,
  StreamKey,
} from './api.js';
import type {
  GapAttempt,
  GapFilter,
  PagedEndpoint,
  SinceMode,
  StartTry,
} from './api-completeness.js';
import * as exposure from './completeness/exposure.js';
import * as memories from './completeness/gap-memories.js';
import * as gaps from './completeness/gaps.js';
import * as ledger from './completeness/ledger.js';
import { readMissing } from './completeness/missing.js';
import * as present from './completeness/present.js';
import * as tries from './completeness/start-tries.js';
import { readStatus } from './completeness/status-rows.js';
import { type Doubt, revokeBeyond, uncover } from './completeness/uncover.js';
import * as requests from './completeness/wanted.js';
import type { ConnectionOptions } from './connection.js';
import { Database } from './database.js';
import { PostgresInspection } from './reading/inspection.js';
import { Snapshots } from './reading/snapshot.js';
import * as catalog from './schema/catalog.js';
import { checkMigrated } from './schema/migrate.js';
import { Partitions } from './schema/partitions.js';
import { PostgresSealing } from './sealing/partitions.js';
import { type Settings, settingsOf } from './settings.js';
import * as modes from './since-modes.js';
import { readTradedSlots } from './verdicts/traded-slots.js';
import { PostgresVerdicts } from './verdicts/verdicts.js';
import { Writer } from './writer/writer.js';

/** For the writer's goodbye to the server, after its drain. */
const GOODBYE_MS = 500;

/**
 * Opens the archive in a database that {@link migrate} has prepared.
 *
 * @throws {@link StoreError} naming host, port and database when it can not be reached, is older
 * than Postgres 15, or does not fit this program.
 */
export async function openStore(options: StoreOptions): Promise<Store> {
  const settings = settingsOf(options);
  const { databaseUrl, clock, connectTimeoutMs, statementTimeoutMs } = settings;
  const connection = { databaseUrl, clock, connectTimeoutMs, statementTimeoutMs };
  const { poolSize, random, telemetry } = settings;
  const database = new Database({ ...connection, poolSize, random, telemetry });
  try {
    await database.check();
    await checkMigrated(database, databaseUrl);
  } catch (error) {
    await database.close();
    throw error;
  }
  return new PostgresStore(settings, connection, database);
}

class PostgresStore implements Store {
  readonly verdicts = new PostgresVerdicts(() => this.#open());
  readonly inspection = new PostgresInspection(() => this.#open());
  readonly sealing: PostgresSealing;
  readonly #settings: Settings;
  /** Commits that have not ended, the oldest first. */
  readonly #underWay = new Set<{ readonly sinceMs: number }>();
  readonly #database: Database;
  readonly #partitions: Partitions;
  readonly #writer: Writer;
  readonly #snapshots: Snapshots;
  #stopped: Promise<void> | undefined;

  constructor(settings: Settings, connection: ConnectionOptions, database: Database) {
    this.#settings = settings;
    this.#database = database;
    this.#partitions = new Partitions(database, settings.telemetry);
    this.#snapshots = new Snapshots(connection);
    this.sealing = new PostgresSealing(() => this.#open(), connection);
    this.#writer = new Writer({
      ...settings,
      connection,
      partitions: this.#partitions,
      limits: { maxBatches: settings.maxQueuedBatches, maxRows: settings.maxQueuedRows },
      presentMs: () => settings.exchangeNowMs() + 1,
      saneWindow: () => ({
        fromMs: settings.saneFromMs,
        toMs: settings.exchangeNowMs() + settings.saneAheadMs,
      }),
    });
  }

  async commit(batch: Batch, options?: { readonly signal?: AbortSignal }): Promise<CommitResult> {
    const entry = { sinceMs: this.#settings.clock.monotonicMs() };
    this.#underWay.add(entry);
    try {
      return await this.#writer.commit(batch, options?.signal);
    } finally {
      this.#underWay.delete(entry);
    }
  }

  oldestCommitMs(): number {
    const [oldest] = this.#underWay;
    return oldest === undefined ? 0 : this.#settings.clock.monotonicMs() - oldest.sinceMs;
  }

  async claimArchive(wanted: ArchiveIdentity): Promise<void> {
    await catalog.claimArchive(this.#open(), wanted);
  }

  async archive(): Promise<ArchiveIdentity | null> {
    return await catalog.readArchive(this.#open());
  }

  async acquireWriterLock(): Promise<void> {
    this.#open();
    await this.#writer.acquireLock();
  }

  async ensureMarkets(
    markets: readonly Market[],
    atMs: number,
    list: Parameters<Store['ensureMarkets']>[2] = { isComplete: true },
  ) {
    return await catalog.ensureMarkets(this.#open(), markets, atMs, list);
  }

  async ensureStream(key: StreamKey): Promise<StreamRef> {
    return await catalog.ensureStream(this.#open(), key);
  }

  async setCollectFrom(
    streamId: number,
    collectFromMs: number,
    reason: StartReason | null = null,
  ): Promise<void> {
    await catalog.setCollectFrom(this.#open(), streamId, collectFromMs, reason);
  }

  async islands(stream: StreamRef, limit: number) {
    return await ledger.readIslands(this.#open(), stream, limit);
  }

  async gaps(stream: StreamRef, untilMs: number): Promise<Span[]> {
    return await readMissing(this.#open(), stream, untilMs);
  }

  async recordGap(gap: GapRecord): Promise<void> {
    await memories.recordGap(this.#open(), gap);
  }

  async closeFilledGaps(): Promise<number> {
    return await memories.closeFilledGaps(this.#open());
  }

  async recordedGaps(stream: StreamRef, limit: number) {
    return await memories.readRecordedGaps(this.#open(), stream, limit);
  }

  async listGaps(filter: GapFilter, untilMs: number) {
    return await gaps.listGaps(this.#open(), filter, untilMs);
  }

  async gapTotals(untilMs: number) {
    return await gaps.readGapTotals(this.#open(), untilMs);
  }

  async recordAttempt(attempt: GapAttempt): Promise<void> {
    await memories.recordAttempt(this.#open(), attempt);
  }

  async startTries(streamId: number) {
    return await tries.readStartTries(this.#open(), streamId);
  }

  async noteStartTry(streamId: number, failed: StartTry | null): Promise<void> {
    await tries.noteStartTry(this.#open(), streamId, failed);
  }

  async noteGaps(filter: GapFilter, untilMs: number, note: string): Promise<number> {
    return await gaps.noteGaps(this.#open(), filter, untilMs, note);
  }

  async retryGaps(filter: GapFilter, untilMs: number, isUnfillableToo: boolean): Promise<number> {
    return await gaps.retryGaps(this.#open(), filter, untilMs, isUnfillableToo);
  }

  async want(stream: StreamRef, span: Span) {
    return await requests.want(this.#open(), stream, span);
  }

  async fillRequests(nowExchangeMs: number) {
    return await requests.readFillRequests(this.#open(), nowExchangeMs);
  }

  async uncover(stream: StreamRef, span: Span, doubt: Doubt) {
    return await uncover(this.#open(), stream, span, doubt);
  }

  async storedTrades(marketId: number, span: Span, limit: number) {
    return await exposure.readStoredTrades(this.#open(), marketId, span, limit);
  }

  async exposeTrades(found: TradeExposure): Promise<void> {
    await exposure.exposeTrades(this.#open(), found);
  }

  async recordIdEpoch(epoch: IdEpoch): Promise<boolean> {
    return await exposure.recordIdEpoch(this.#open(), epoch);
  }

  async revokeBeyond(presentMs: number, how: { readonly isStart: boolean }) {
    return await revokeBeyond(this.#open(), presentMs, how);
  }

  async notePresent(presentMs: number, pace: number): Promise<void> {
    await present.notePresent(this.#open(), presentMs, pace);
  }

  async beyondPresent() {
    return await present.readBeyondPresent(this.#open());
  }

  async islandsWithin(stream: StreamRef, span: Span, limit: number) {
    return await ledger.readIslandsWithin(this.#open(), stream, span, limit);
  }

  async sinceModes() {
    return await modes.readSinceModes(this.#open());
  }

  async rememberSinceMode(endpoint: PagedEndpoint, mode: SinceMode): Promise<void> {
    await modes.rememberSinceMode(this.#open(), endpoint, mode);
  }

  async openSession(stream: StreamRef, atMs: number): Promise<number> {
    return await ledger.openSession(this.#open(), stream, atMs);
  }

  async touchSession(sessionId: number, lastMessageAtMs: number): Promise<void> {
    await ledger.touchSession(this.#open(), sessionId, lastMessageAtMs);
  }

  async closeSession(sessionId: number, closing: SessionClosing): Promise<void> {
    await ledger.closeSession(this.#open(), sessionId, closing);
  }

  async closeOrphanSessions(): Promise<number> {
    return await ledger.closeOrphanSessions(this.#open());
  }

  async newestTrades(marketId: number, count: number) {
    return await ledger.readNewestTrades(this.#open(), marketId, count);
  }

  async tradedSlots(marketId: number, spans: readonly Span[], stepMs: number) {
    return await readTradedSlots(this.#open(), marketId, spans, stepMs);
  }

  async statusRows(untilMs: number) {
    return await readStatus(this.#open(), untilMs);
  }

  async exchangeNowMs(): Promise<number | null> {
    return await present.readExchangeNow(this.#open());
  }

  async knownBalances() {
    return await readKnownBalances(this.#open());
  }

  async openOrders(marketId: number) {
    return await readOpenOrders(this.#open(), marketId);
  }

  async ensurePartitions(table: SeriesTable, span: Span): Promise<string[]> {
    this.#open();
    return await this.#partitions.ensure(table, span);
  }

  async makePartitionsAhead(nowExchangeMs: number): Promise<void> {
    this.#open();
    await this.#partitions.makeAhead(nowExchangeMs, this.#settings.partitionsAhead);
  }

  async snapshot() {
    this.#open();
    return await this.#snapshots.open();
  }

  async query<Row extends object>(sql: string, values: readonly SqlValue[] = []): Promise<Row[]> {
    return await this.#open().transaction((runner) => runner.single<Row>(sql, values), 'READ ONLY');
  }

  async ping(): Promise<void> {
    await this.#open().rows('SELECT 1');
  }

  stop(): Promise<void> {
    this.#stopped ??= (async () => {
      const { clock, drainDeadlineMs } = this.#settings;
      const patience = new AbortController();
      // The writer's goodbye to a server that hangs must not keep the pool open.
      const late = sleep(clock, drainDeadlineMs + GOODBYE_MS, patience.signal).catch(
        () => undefined,
      );
      await Promise.race([this.#writer.stop(), late]);
      patience.abort();
      this.#snapshots.stop();
      await this.#database.close();
    })();
    return this.#stopped;
  }

  #open(): Database {
    if (this.#stopped !== undefined) throw new AbortedError('the store is stopped');
    return this.#database;
  }
}
