/**
 * tapekeep as a library: the typed client of the exchange's contract, and the archive as a source of
 * backtests. Everything is exported by name; anything not exported here may change at any time.
 */
export {
  ArchiveError,
  type ArchiveGap,
  ArchiveGapsError,
  BadMomentError,
  ColdError,
} from './archive/errors.js';
export {
  type Archive,
  type ArchiveBucket,
  type ArchiveOptions,
  type MaybeGap,
  openArchive,
} from './archive/events/archive.js';
export type {
  ArchiveEvent,
  BookAt,
  CandleEvent,
  CandleQuery,
  CoverageQuery,
  DepthEvent,
  EventOf,
  EventOrder,
  EventQuery,
  GapEvent,
  GapPolicy,
  MarketQuery,
  Moment,
  NamedEvents,
  OtherKind,
  PriceLevel,
  RowEvent,
  SpanQuery,
  StateEvent as MarketStateEvent,
  TickerEvent,
  TradeEvent,
} from './archive/events/event.js';
export type { EventStream } from './archive/events/event-stream.js';
export type { SpanCoverage } from './archive/events/gaps.js';
export {
  type CollectedSeries,
  dateOf,
  type MarketContents,
  microsOf,
} from './archive/events/plan.js';
export * from './client.js';
export type { SeriesKind } from './model/kinds.js';
export { StoreError } from './store/index.js';
