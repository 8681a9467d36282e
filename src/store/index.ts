/**
 * The store: the archive in Postgres. Nothing outside this room imports a Postgres package.
 */
export type {
  ArchiveIdentity,
  EmbeddedOptions,
  EmbeddedPostgres,
  GapRecord,
  GapState,
  MarketChanges,
  MigrateOptions,
  PartitionedTable,
  PartitionWidth,
  RecordedGap,
  SessionClosing,
  SqlValue,
  Store,
  StoreOptions,
  StreamKey,
  StreamStatus,
  TradeKey,
} from './api.js';
export { PARTITIONED_TABLES } from './api.js';
export type {
  CompletenessStore,
  FillRequests,
  Gap,
  GapAttempt,
  GapFilter,
  GapTotals,
  PagedEndpoint,
  SinceMode,
  WantedSpan,
} from './api-completeness.js';
export type {
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
  Mismatch,
  PendingSpan,
  VerdictStore,
  VerdictTarget,
  VerdictTotals,
} from './api-verdicts.js';
export { FIGURE_SLOTS_MAX } from './api-verdicts.js';
export {
  findEmbeddedPostgres,
  hasEmbeddedCluster,
  startEmbeddedPostgres,
} from './embedded/supervisor.js';
export { type MigrationReport, migrate, migrateAll } from './migrate.js';
export { openStore } from './open-store.js';
