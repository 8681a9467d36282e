/**
 * The store: the archive in Postgres. Nothing outside this room imports a Postgres package.
 */
export type {
  ArchiveIdentity,
  EmbeddedOptions,
  EmbeddedPostgres,
  GapRecord,
  MarketChanges,
  MigrateOptions,
  PartitionWidth,
  SessionClosing,
  SqlValue,
  Store,
  StoreOptions,
  StreamKey,
  StreamStatus,
  TradeKey,
} from './api.js';
export type {
  BeyondPresent,
  CompletenessStore,
  FillRequests,
  Gap,
  GapAttempt,
  GapFilter,
  GapState,
  GapTotals,
  PagedEndpoint,
  RecordedGap,
  SinceMode,
  StartTries,
  WantedSpan,
} from './api-completeness.js';
export type {
  Answer,
  CoverageNeighbour,
  GapDetail,
  InspectionStore,
  KnownStream,
  QuarantineCount,
  QuarantinedRow,
  QuarantineFilter,
  SpanProgress,
  StreamSpan,
} from './api-inspection.js';
export type {
  ArchiveSnapshot,
  DepartedPartition,
  DepthJson,
  LedgerTable,
  MergedSlice,
  MissingPart,
  RowForm,
  SeriesSlice,
  SpanCompleteness,
  TableSlice,
} from './api-series.js';
export type {
  Mismatch,
  PendingSpan,
  VerdictStore,
  VerdictTarget,
  VerdictTotals,
} from './api-verdicts.js';
export { FIGURE_SLOTS_MAX } from './api-verdicts.js';
export { pingPostgres } from './connection.js';
export { fullDisk } from './embedded/full-disk.js';
export {
  hasEmbeddedCluster,
  startEmbeddedPostgres,
} from './embedded/supervisor.js';
export { StoreError, type StoreErrorCode } from './errors.js';
export { openStore } from './open-store.js';
export { type MigrationReport, migrate, migrateAll } from './schema/migrate.js';
export type {
  LedgerDoubt,
  PartitionInfo,
  PartitionLife,
  PartitionMarket,
  SealFacts,
  SealingDesk,
  SealingStore,
  StreamCoverage,
  Unsettled,
} from './sealing/api-sealing.js';
