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
export type { FillRequests } from './completeness/fill-requests.js';
export type { Gap, GapFilter, GapState, GapTotals } from './completeness/gaps.js';
export {
  type BeyondPresent,
  LAST_SEEN_ALIVE,
  type Present,
  type StreamPlace,
  type StreamSpan,
} from './completeness/ledger.js';
export { pingPostgres } from './connection.js';
export { fullDisk } from './embedded/cluster.js';
export {
  findEmbeddedPostgres,
  hasEmbeddedCluster,
  startEmbeddedPostgres,
} from './embedded/supervisor.js';
export { StoreError } from './errors.js';
export { FILLER } from './locks.js';
export { openStore, type SqlValue, type Store, type StoreOptions } from './open-store.js';
export type {
  GapDetail,
  QuarantineCount,
  QuarantinedRow,
  SpanProgress,
  StreamStatus,
} from './reading/inspection.js';
export type {
  ArchiveSnapshot,
  LedgerTable,
  MergedSlice,
  RemovedPartition,
  RowForm,
  SeriesSlice,
} from './reading/snapshot.js';
export type { UntimedTrades } from './reading/stored-rows.js';
export {
  type ArchiveIdentity,
  type MarketChanges,
  type OffsetMode,
  otherExchange,
  type PagedEndpoint,
  type StartTry,
  type StreamKey,
} from './schema/catalog.js';
export {
  type MigrationReport,
  type MigrationStep,
  migrate,
} from './schema/migrate.js';
export type {
  DatabaseIdentity,
  PartitionInfo,
  PartitionMarket,
  SealFacts,
  SealingAdmin,
} from './sealing/partitions.js';
export {
  findLacks,
  findMiscount,
  findUnsettled,
  readCoverage,
  type SealNeeds,
} from './sealing/settled.js';

export { fromMs as timestampSql, toMs as millisSql } from './sql.js';

export type CheckStore = Store['checks'];
