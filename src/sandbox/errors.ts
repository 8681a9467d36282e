import { TapekeepError } from '../kernel/errors.js';
import { type Refusal, RefusedError } from '../server/backend.js';

/** A tape file or the options of a tape are not usable; the message says where and what is allowed. */
export class TapeError extends TapekeepError {
  constructor(message: string, options?: { cause?: unknown }) {
    super('tape_invalid', message, options);
  }
}

/** The options of a live exchange, or a change asked of it, are not possible. */
export class LiveError extends TapekeepError {
  /** The option that is at fault, where there is one; of keys also which, such as `keys.0`. */
  readonly option: string | undefined;

  constructor(message: string, option?: string, cause?: unknown) {
    super('live_invalid', message, { cause });
    this.option = option;
  }
}

/** A fault script is not usable; the message names the rule, the key, the value and what is allowed. */
export class FaultScriptError extends TapekeepError {
  constructor(message: string) {
    super('fault_script_invalid', message);
  }
}

/** The engine was set up or called in a way that no request of a client can cause. */
export class EngineError extends TapekeepError {
  constructor(message: string) {
    super('engine_misused', message);
  }
}

/** Why the engine did not do what it was asked for. */
export type RejectionReason =
  | 'unknownMarket'
  | 'unknownOrder'
  | 'blocked'
  | 'notDecimal'
  | 'notPositive'
  | 'precisionExceeded'
  | 'tooManyDigits'
  | 'belowMinAmount'
  | 'fundsShort'
  | 'tooManyOrders';

/** Errors of the contract (section Errors); whatever is not named here is `invalidInput`. */
const REFUSALS: Partial<Record<RejectionReason, Refusal>> = { blocked: 'operationBlocked' };

/**
 * The answer of an operation that was refused and changed nothing. A value, not an exception:
 * refusals are everyday business of an exchange.
 */
export class Rejection {
  readonly reason: RejectionReason;
  readonly message: string;

  constructor(reason: RejectionReason, message: string) {
    this.reason = reason;
    this.message = message;
  }

  /** The error that makes the server answer as the contract says. */
  toError(): RefusedError {
    return new RefusedError(REFUSALS[this.reason] ?? 'invalidInput', this.message);
  }
}
