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
  type ArchiveOptions,
  type MaybeGap,
  openArchive,
} from './archive/events/archive.js';
export type {
  ArchiveEvent,
  BookAt,
  CandleQuery,
  CoverageQuery,
  DepthEvent,
  EventOf,
  EventOrder,
  EventQuery,
  GapEvent,
  GapPolicy,
  KlineEvent,
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
export * from './client/index.js';
export type { DialectName } from './contract/dialects.js';
export {
  type Endpoint,
  type EndpointName,
  type Endpoints,
  endpoints,
  type ParamsOf,
  type ResultOf,
} from './contract/endpoints.js';
export type { FieldErrors } from './contract/error-shapes.js';
export type { RealtimeMethod, RealtimeWords } from './contract/realtime.js';
export type {
  ActiveOrder,
  Balance,
  BookOrder,
  Candle,
  CreatedOrder,
  Depth,
  HistoryTrade,
  Market,
  OrderProgress,
  Product,
  ResultTrade,
  Side,
  StateRecord,
  Ticker,
  TickerEntry,
  TradeFields,
} from './contract/resource-types.js';
export type { Asked, ParsedPayload, RejectedRow, ResultShape } from './contract/shape.js';
export type { SignedContent } from './contract/signing.js';
export {
  BudgetOverrunError,
  type RateLimitHeaders,
  RequestBudget,
  type RequestBudgetOptions,
  type RequestBudgetState,
} from './kernel/budget.js';
export { type Clock, systemClock } from './kernel/clock.js';
export {
  addDecimals,
  compareDecimals,
  divideDecimals,
  equalDecimals,
  multiplyDecimals,
  roundDecimal,
  subtractDecimals,
} from './kernel/decimal.js';
export {
  AbortedError,
  type ArchiveErrorCode,
  type ColdErrorCode,
  type ErrorAction,
  type ErrorCode,
  isAborted,
  type StoreErrorCode,
  TapekeepError,
} from './kernel/errors.js';
export { type Random, seededRandom, systemRandom } from './kernel/random.js';
export type { BackoffOptions } from './kernel/retry.js';
export type { Span } from './kernel/span.js';
export { timestampTextUs as isoOf } from './kernel/timestamp.js';
export type { SeriesKind } from './model/kinds.js';
export type {
  BudgetState,
  ClientEvents,
  ClockDispute,
  RequestEnded,
  RequestOutcome,
} from './observe/events.js';
export { StoreError } from './store/index.js';
