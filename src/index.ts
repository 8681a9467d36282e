/**
 * tapekeep as a library: the typed client of the exchange's contract. Everything is exported by
 * name; anything not exported here may change at any time.
 */
export * from './client/index.js';
export {
  type EndpointName,
  endpoints,
  type ParamsOf,
  type ResultOf,
} from './contract/endpoints.js';
export type * from './contract/resources.js';
export type { RejectedRow } from './contract/shape.js';
export { RequestBudget, type RequestBudgetOptions } from './kernel/budget.js';
export { type Clock, systemClock } from './kernel/clock.js';
export { type ErrorAction, TapekeepError } from './kernel/errors.js';
export { type Random, seededRandom, systemRandom } from './kernel/random.js';
