/**
 * The typed client of the exchange's contract, alone: neither the archive nor its database is loaded.
 * Everything is exported by name; anything not exported here may change at any time.
 */
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
export type { RealtimeMethod, RealtimeWords, TradeWords } from './contract/realtime.js';
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
  type ErrorDetails,
  isAborted,
  type StoreErrorCode,
  TapekeepError,
} from './kernel/errors.js';
export { type Random, seededRandom, systemRandom } from './kernel/random.js';
export type { BackoffOptions } from './kernel/retry.js';
export type { Span } from './kernel/span.js';
export { isoUs as isoOf } from './kernel/timestamp.js';
export type {
  BudgetState,
  ClientEvents,
  ClockDispute,
  RequestEnded,
  RequestOutcome,
} from './observe/events.js';
