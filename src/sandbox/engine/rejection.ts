import { type Refusal, RefusedError } from '../../server/backend.js';

/** Why the engine did not do what it was asked for. */
export type RejectionReason =
  | 'unknownMarket'
  | 'unknownOrder'
  | 'blocked'
  | 'notDecimal'
  | 'notPositive'
  | 'precisionExceeded'
  | 'tooManyDigits'
  | 'badFee'
  | 'belowMinAmount'
  | 'fundsShort'
  | 'tooManyOrders';

/** What the contract answers (section Errors); whatever is not named here is `invalidInput`. */
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
