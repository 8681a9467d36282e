import type { EndpointName } from '../contract/endpoints.js';
import type { Side } from '../contract/values.js';
import { isAborted, messageOf } from '../kernel/errors.js';
import { ExchangeError } from './errors.js';

/** A limit order as it is asked for (contract, endpoint `order/new`). */
export type OrderRequest = {
  /** Name of the pair, such as `BTC_USDT`. */
  market: string;
  /** Limit price in the money currency, decimal text. */
  price: string;
  /** Amount in the stock currency, decimal text. */
  amount: string;
  /** Whether it buys or sells the stock. */
  side: Side;
};

/**
 * An order left, and no answer tells what became of it: it may rest in the book, may have been
 * executed, or may never have arrived. Its action is `fatal`, never `retry`: sent again unseen it
 * could be placed twice. Look first at what {@link UnknownOutcomeError.lookAt} names.
 */
export class UnknownOutcomeError extends ExchangeError {
  /** The order whose outcome is unknown. */
  readonly order: OrderRequest;
  /** The endpoints whose answers tell: active orders first, then the balances they changed. */
  readonly lookAt: readonly EndpointName[] = ['orders', 'balances'];

  /** @param cause what went wrong after the order left, such as a TimeoutError */
  constructor(order: OrderRequest, cause: unknown) {
    const isKnown = cause instanceof ExchangeError;
    const status = isKnown ? cause.status : undefined;
    super(
      'order_outcome_unknown',
      'fatal',
      isKnown ? cause.outcome : isAborted(cause) ? 'aborted' : 'malformed',
      { endpoint: 'orderNew', ...(status === undefined ? {} : { status }) },
      `the outcome of the order is UNKNOWN (${messageOf(cause)}). It was sent once and is not sent again; it may rest in the book or have been executed: look at activeOrders and balances of ${order.market} before placing it anew`,
      { cause },
    );
    this.order = order;
  }
}

/** Errors with which the exchange says that it did not take the order, under whatever status. */
const REFUSALS: ReadonlySet<string> = new Set([
  'authentication_failed',
  'field_errors',
  'invalid_input',
  'market_unavailable',
  'not_found',
  'operation_blocked',
  'rate_limited',
  'redirected',
  'request_refused',
]);

/**
 * Whether an order that had left was surely not taken: the exchange says so, or answers with a
 * status of the 400s. Not so with 408, which a server may send in the middle of the work.
 */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ExchangeError)) return false;
  const { code, status = 0 } = error;
  return REFUSALS.has(code) || (status >= 400 && status < 500 && status !== 408);
}
