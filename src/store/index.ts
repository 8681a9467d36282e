/**
 * The store: the archive in Postgres. Nothing outside this room imports a Postgres package.
 */
import type { Store } from './open-store.js';

export type { CheckTotals, PendingSpan } from './checks/inputs.js';
export {
  type CheckTarget,
  FIGURE_SLOTS_MAX,
} from './checks/inputs.js';
export type { Mismatch } from './checks/results.js';
export type {
  SessionTime,
  StreamChoice,
  StreamDay,
  StreamName,
  StreamPiece,
} from './completeness/days.js';
export type { FillRequests } from './completeness/fill-requests.js';
export type { Gap, GapFilter, GapState, GapTotals } from './completeness/gaps.js';
export {
  type BeyondPresent,
  LAST_SEEN_ALIVE,
  type Present,
  type StreamPlace,
  type StreamSpan,
} from './completeness/ledger.js';
export { isEmptyDatabase, pingPostgres } from './connection.js';
export { type BaseBackup, listClusterFiles, startBaseBackup } from './embedded/base-backup.js';
export { fullDisk } from './embedded/cluster.js';
export { recoverCluster } from './embedded/recovering.js';
export {
  findEmbeddedPostgres,
  hasEmbeddedCluster,
  startEmbeddedPostgres,
} from './embedded/supervisor.js';
export { StoreError } from './errors.js';
export { type DatabaseIdentity, isSameDatabase, nameOfDatabase } from './identity.js';
export type { JournalChanges, JournalEntry } from './journal.js';
export { FILLER } from './locks.js';
export { openStore, type SqlValue, type Store, type StoreOptions } from './open-store.js';
export type {
  GapDetail,
  QuarantineCount,
  QuarantinedRow,
  SpanProgress,
  StreamStatus,
} from './reading/inspection.js';
export {
  ReaderStatements,
  type StatementLimits,
  type StatementRows,
} from './reading/own-statements.js';
export type {
  ArchiveSnapshot,
  LedgerTable,
  MergedSlice,
  PlacedPartition,
  RowForm,
  SeriesSlice,
  StoredRows,
  TableSlice,
} from './reading/snapshot.js';
export { storedSql } from './reading/snapshot.js';
export type { UntimedTrades } from './reading/stored-rows.js';
export type { Run, RunFacts } from './runs.js';
export {
  type ArchiveIdentity,
  type ListedMarkets,
  type MarketChanges,
  type OffsetMode,
  otherExchange,
  type PagedEndpoint,
  type StartTry,
  type StreamKey,
} from './schema/catalog.js';
export type { ColdServer } from './schema/cold-server.js';
export {
  type MigrationReport,
  type MigrationStep,
  migrate,
} from './schema/migrate.js';
export type { Reach } from './schema/partitions.js';
export type {
  CountedFile,
  FilePlace,
  PartitionInfo,
  PartitionMarket,
  SealFacts,
  SealingAdmin,
} from './sealing/partitions.js';
export {
  type ClaimedSpan,
  findLacks,
  findMiscount,
  findUnsettled,
  readCoverage,
  type SealNeeds,
} from './sealing/settled.js';
export type { SpoolSettings } from './spool/spool.js';
export { fromMs as timestampSql, toMs as millisSql } from './sql.js';
export type { Lease } from './writer/lease.js';
export type { Freed, Standby } from './writer/standing-by.js';
export { type Holders, sharesWithoutHolder } from './writer/standing-by.js';

export type CheckStore = Store['checks'];
