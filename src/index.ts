/**
 * tapekeep as a library: the typed client of the exchange's contract. Everything is exported by
 * name; anything not exported here may change at any time.
 */
export * from './client/index.js';
export {
  type Endpoint,
  type EndpointName,
  type Endpoints,
  endpoints,
  type ParamsOf,
  type ResultOf,
} from './contract/endpoints.js';
export type { FieldErrors } from './contract/error-shapes.js';
export type * from './contract/resources.js';
export type { ParsedPayload, RejectedRow, ResultShape } from './contract/shape.js';
export type { SignedContent } from './contract/signing.js';
export type { Side } from './contract/values.js';
export {
  BudgetOverrunError,
  type RateLimitHeaders,
  RequestBudget,
  type RequestBudgetOptions,
  type RequestBudgetState,
} from './kernel/budget.js';
export { type Clock, systemClock } from './kernel/clock.js';
export { AbortedError, type ErrorAction, isAborted, TapekeepError } from './kernel/errors.js';
export { type Random, seededRandom, systemRandom } from './kernel/random.js';
export type { BackoffOptions } from './kernel/retry.js';
export type { BudgetState, ClientEvents, RequestEnded, RequestOutcome } from './observe/events.js';
