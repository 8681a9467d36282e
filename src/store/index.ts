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
export type { FillRequests, WantedSpan } from './completeness/fill-requests.js';
export type {
  Gap,
  GapFilter,
  GapRecord,
  GapState,
  GapTotals,
  MissingPart,
  SpanCompleteness,
} from './completeness/gaps.js';
export { type BeyondPresent, LAST_SEEN_ALIVE, type SessionClosing } from './completeness/ledger.js';
export { pingPostgres } from './connection.js';
export { fullDisk } from './embedded/cluster.js';
export {
  type EmbeddedAddresses,
  type EmbeddedOptions,
  type EmbeddedPostgres,
  findEmbeddedPostgres,
  hasEmbeddedCluster,
  startEmbeddedPostgres,
} from './embedded/supervisor.js';
export { StoreError } from './errors.js';
export { openStore, type SqlValue, type Store, type StoreOptions } from './open-store.js';
export type { Answer } from './reading/answers.js';
export type {
  CoverageNeighbour,
  GapDetail,
  KnownStream,
  QuarantineCount,
  QuarantinedRow,
  QuarantineFilter,
  SpanProgress,
  StreamSpan,
  StreamStatus,
} from './reading/inspection.js';
export type {
  ArchiveSnapshot,
  LedgerTable,
  MergedSlice,
  RemovedPartition,
  RowForm,
  SeriesSlice,
  TableSlice,
} from './reading/snapshot.js';
export type { TradeKey } from './reading/stored-rows.js';
export type {
  ArchiveIdentity,
  MarketChanges,
  MarketChoice,
  OffsetMode,
  PagedEndpoint,
  StartTries,
  StartTry,
  StreamKey,
} from './schema/catalog.js';
export {
  type MigrateOptions,
  type MigrationReport,
  type MigrationStep,
  migrate,
  migrateAll,
  type PartitionWidth,
} from './schema/migrate.js';
export type {
  PartitionInfo,
  PartitionLife,
  PartitionMarket,
  SealFacts,
  SealingAdmin,
} from './sealing/partitions.js';
export { findLacks, findLedgerSuspects, findUnsettled, readCoverage } from './sealing/settled.js';

export { fromMs as timestampSql, toMs as millisSql } from './sql.js';

export type SealingStore = Store['sealing'];
export type CheckStore = Store['checks'];
