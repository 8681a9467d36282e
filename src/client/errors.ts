import type { DialectName } from '../contract/dialects.js';
import type { EndpointName } from '../contract/endpoints.js';
import type { FieldErrors } from '../contract/error-shapes.js';
import type { Side } from '../contract/values.js';
import {
  type ErrorCode,
  type ErrorDetails,
  isAborted,
  messageOf,
  TapekeepError,
} from '../kernel/errors.js';
import type { RequestOutcome } from '../observe/events.js';

/** Context of an error: the request, and the response if there was one. */
export interface ErrorPlace {
  /** Name of the endpoint, such as `depth`. */
  readonly endpoint: string;
  /** HTTP status; absent when no answer came. */
  readonly status?: number;
  /** Returns a short piece of the answer, made safe by {@link safeExcerpt}. */
  readonly excerpt?: () => string;
  /** Clause that names the proxy in between; absent without one. */
  readonly via?: string;
}

/**
 * Something went wrong with a request. Subclasses say what; `action` says whether to repeat it,
 * to leave it, or to stop asking at all. The table of what becomes what is reply-reader.ts.
 */
export class ExchangeError extends TapekeepError {
  /** Name of the endpoint, such as `depth`. */
  readonly endpoint: string;
  /** HTTP status; undefined when no answer came. */
  readonly status: number | undefined;
  /** How the request is counted. */
  readonly outcome: RequestOutcome;

  constructor(
    code: ErrorCode,
    outcome: RequestOutcome,
    place: ErrorPlace,
    text: string,
    options?: ErrorDetails,
  ) {
    const status = place.status === undefined ? '' : ` (HTTP ${place.status})`;
    const shown = place.excerpt?.() ?? '';
    const excerpt = shown === '' ? '' : `; the answer began: ${shown}`;
    super(code, `${place.endpoint}${status}: ${text}${place.via ?? ''}${excerpt}`, options);
    this.endpoint = place.endpoint;
    this.status = place.status;
    this.outcome = outcome;
  }
}

/** The exchange calls the request invalid (contract, Errors: `invalid input`). */
export class InvalidInputError extends ExchangeError {
  constructor(place: ErrorPlace) {
    super('invalid_input', 'client_error', place, 'the exchange calls the input invalid');
  }
}

/** The exchange names the fields that it does not accept (contract, Errors: keyed by field). */
export class FieldErrorsError extends ExchangeError {
  /** Names and texts as the exchange wrote them. Match the names, never the words. */
  readonly fields: FieldErrors;

  constructor(place: ErrorPlace, fields: FieldErrors, code: ErrorCode = 'field_errors', hint = '') {
    const names = Object.keys(fields)
      .slice(0, 5)
      .map((name) => safeExcerpt(name))
      .join(', ');
    super(code, 'client_error', place, `the exchange refuses the fields ${names}${hint}`);
    this.fields = fields;
  }
}

/** The refused field is the market: it is unknown, delisted or not open (field notes, HTTP). */
export class MarketUnavailableError extends FieldErrorsError {
  constructor(place: ErrorPlace, fields: FieldErrors) {
    super(place, fields, 'market_unavailable', ': it does not offer this market now');
  }
}

/** Signature, nonce, key or path is wrong, or the key is not activated (contract, Authentication). */
export class AuthenticationError extends ExchangeError {
  constructor(place: ErrorPlace) {
    const advice = 'authentication failed: check the key, the secret, signedContent and the nonce';
    super('authentication_failed', 'client_error', place, advice);
  }
}

/** A signed call was asked for, but the client was built without credentials. */
export class MissingCredentialsError extends ExchangeError {
  constructor(endpoint: string) {
    const advice = 'this call is signed: give the client an apiKey and a secret';
    super('missing_credentials', 'client_error', { endpoint }, advice);
  }
}

/** The exchange has no such endpoint, or none that this program speaks (docs/reference/exchanges.md). */
export class NotOfferedError extends ExchangeError {
  constructor(endpoint: string, dialect: string) {
    const text = `not sent: this program knows no such endpoint of ${dialect}, see docs/reference/exchanges.md`;
    super('not_offered', 'client_error', { endpoint }, text);
  }
}

/** The exchange does not take orders for this pair now (contract, Errors). */
export class OperationBlockedError extends ExchangeError {
  constructor(place: ErrorPlace) {
    const text = 'the exchange blocks this operation for the pair';
    super('operation_blocked', 'client_error', place, text);
  }
}

/** The exchange speaks another dialect: it answers in its form, or to its questions only. */
export class WrongDialectError extends ExchangeError {
  constructor(place: ErrorPlace, shown: DialectName) {
    const text = `the exchange speaks the dialect ${shown}: set the dialect (exchange.dialect) to ${shown}`;
    super('wrong_dialect', 'client_error', place, text);
  }
}

/** No such path, or no data to be found (contract, Errors: 404; or a cousin's form of it). */
export class NotFoundError extends ExchangeError {
  /** @param dialect in which was asked */
  constructor(place: ErrorPlace, dialect: DialectName) {
    const other = `the dialect (exchange.dialect is ${dialect}; "tapekeep doctor" checks which one fits)`;
    const hint = dialect === 'contract' ? '' : `, and ${other}`;
    const text = `not found: check the base URL and the market${hint}`;
    super('not_found', 'client_error', place, text);
  }
}

/** Refused for a reason that the contract does not know. */
export class RequestRefusedError extends ExchangeError {
  constructor(place: ErrorPlace) {
    super('request_refused', 'client_error', place, 'the exchange refuses the request');
  }
}

/** Too fast for the exchange (field notes, HTTP: 429). The shared budget waits already. */
export class RateLimitedError extends ExchangeError {
  /** Wait that Retry-After asked for, at most a day; undefined when it did not say anything sane. */
  readonly retryAfterMs: number | undefined;

  constructor(place: ErrorPlace, retryAfterMs: number | undefined) {
    const wait = retryAfterMs === undefined ? '' : `, asked to wait ${retryAfterMs} ms`;
    super('rate_limited', 'rate_limited', place, `too many requests${wait}`);
    this.retryAfterMs = retryAfterMs;
  }
}

/** The exchange failed: a 5xx status. */
export class ServerError extends ExchangeError {
  /** @param why as the answer says it in words, made safe by {@link safeExcerpt}; empty where it does not */
  constructor(place: ErrorPlace, why = '') {
    const { excerpt: _, ...where } = place;
    const [shown, words] = why === '' ? [place, ''] : [where, `: ${why}`];
    super('server_error', 'server_error', shown, `the exchange failed${words}`);
  }
}

/** An envelope that says failure under HTTP 200, as for an unknown market on depth (field notes). */
export class UnavailableError extends ExchangeError {
  constructor(place: ErrorPlace) {
    const text = 'the exchange answers "unavailable" under a good status';
    super('service_unavailable', 'server_error', place, text);
  }
}

/**
 * Not the API speaking: a web page, or another content type, under any status. With a status of the
 * 400s it means that the request could not be read (contract, Errors: invalid query parameters,
 * headers or address), so the same request is not worth repeating. Any other page may pass.
 */
export class UnexpectedPageError extends ExchangeError {
  constructor(place: ErrorPlace, contentType: string | undefined) {
    const { status = 0 } = place;
    const found = contentType === undefined ? 'a web page' : `content type ${contentType}`;
    const isRefusal = status >= 400 && status < 500 && status !== 408;
    const advice = isRefusal
      ? ': the request could not be read; check the base URL and values'
      : '';
    const outcome = isRefusal ? 'client_error' : status >= 500 ? 'server_error' : 'malformed';
    const text = `expected JSON, got ${found}${advice}`;
    super('unexpected_page', outcome, place, text, { action: isRefusal ? 'skip' : 'retry' });
  }
}

/** Empty, cut off, not UTF-8, not JSON, or not of the endpoint's shape. */
export class MalformedReplyError extends ExchangeError {
  constructor(place: ErrorPlace, detail: string, options?: { cause?: unknown }) {
    super('malformed_reply', 'malformed', place, `unreadable answer: ${detail}`, options);
  }
}

/** The body, or all that are read at once, are larger than the client accepts; reading was stopped. */
export class ReplyTooLargeError extends ExchangeError {
  /** @param what that is too large, with its verb: the answer, or all that are read at once */
  constructor(place: ErrorPlace, what: string, maxBytes: number) {
    const text = `${what} larger than ${maxBytes} bytes; ask for less, or raise maxBodyBytes`;
    super('reply_too_large', 'malformed', place, text);
  }
}

/** Redirects are never followed: they could point anywhere, also inward. */
export class RedirectError extends ExchangeError {
  /** @param location where to, made safe by {@link safeExcerpt} */
  constructor(place: ErrorPlace, location: string | undefined) {
    const target = location === undefined ? 'elsewhere' : `to ${location}`;
    const advice = `redirected ${target}, which is not followed; set the base URL to the right address`;
    super('redirected', 'client_error', place, advice);
  }
}

/** The total deadline passed before the answer was complete. */
export class TimeoutError extends ExchangeError {
  constructor(place: ErrorPlace, timeoutMs: number) {
    super('timeout', 'timeout', place, `no complete answer within ${timeoutMs} ms`);
  }
}

/** The connection could not be made, or broke. */
export class NetworkError extends ExchangeError {
  constructor(place: ErrorPlace, detail: string, options?: { cause?: unknown }) {
    super('network', 'network', place, detail, options);
  }
}

/** The exchange's certificate is not to be believed, or it speaks no TLS. It may be renewed. */
export class TlsRefusedError extends ExchangeError {
  constructor(place: ErrorPlace, refusal: string, options?: { cause?: unknown }) {
    super('tls_refused', 'network', place, `no TLS connection: ${refusal}`, options);
  }
}

/** The proxy asks for another login, or does not allow connections to the exchange. */
export class ProxyRefusedError extends ExchangeError {
  constructor(place: ErrorPlace, refusal: string, options?: { cause?: unknown }) {
    super('proxy_refused', 'network', place, refusal, options);
  }
}

/** A parameter is outside the contract's limits; nothing was sent. */
export class InvalidParameterError extends ExchangeError {
  constructor(endpoint: string, detail: string) {
    super('invalid_parameter', 'client_error', { endpoint }, `not sent: ${detail}`);
  }
}

/** An address in the configuration cannot be used. */
export class InvalidAddressError extends TapekeepError {
  constructor(setting: string, shown: string, advice: string) {
    super('invalid_address', `${setting} ${safeExcerpt(shown)}: ${advice}`);
  }
}

/** The real-time interface was asked for without its address. */
export class MissingRealtimeError extends TapekeepError {
  constructor() {
    super(
      'missing_realtime_url',
      'this client was made without a realtimeUrl (ws:// or wss://), which states are followed by',
    );
  }
}

/** No nonce is left below the contract's 13 digits: the saved one must be wrong. */
export class NonceError extends TapekeepError {
  /** @param place where the last nonce is kept, if the store says so */
  constructor(nonce: number, place = 'the saved nonce') {
    super(
      'nonce_exhausted',
      `the next nonce ${nonce} is not a number of 13 digits: check the wall clock, and delete ${place} if the clock is right; an exchange that has seen so high a nonce takes only a new key`,
    );
  }
}

/** Longest excerpt in a message, in characters. */
const EXCERPT_LENGTH = 160;

/** A bounded, printable piece of foreign text; `secrets` are blotted out wherever they occur. */
export function safeExcerpt(text: string, secrets: readonly string[] = []): string {
  let safe = text.slice(0, EXCERPT_LENGTH * 4);
  for (const secret of secrets) {
    if (secret !== '') safe = safe.replaceAll(secret, '[redacted]');
  }
  const printable = safe.replace(/[\p{C}\s]+/gu, ' ').trim();
  return printable.length > EXCERPT_LENGTH ? `${printable.slice(0, EXCERPT_LENGTH)}…` : printable;
}

/** A limit order as it is asked for (contract, endpoint `order/new`). */
export type OrderRequest = {
  /** Name of the pair, such as `BTC_USDT`. */
  market: string;
  /** Limit price in the quote currency, decimal text. */
  price: string;
  /** Amount in the base currency, decimal text. */
  amount: string;
  /** True if it buys or sells the stock. */
  side: Side;
};

/**
 * An order left, and no answer says what became of it: it may rest in the book, may have been
 * executed, or may never have arrived. Its action is `fatal`, never `retry`: sent again unseen it
 * could be placed twice. Look first at what {@link UnknownOutcomeError.lookAt} names.
 */
export class UnknownOutcomeError extends ExchangeError {
  /** The order whose outcome is unknown. */
  readonly order: OrderRequest;
  /** The endpoints whose answers show it: active orders first, then the balances they changed. */
  readonly lookAt: readonly EndpointName[] = ['orders', 'balances'];

  /** @param cause what went wrong after the order left, such as a TimeoutError */
  constructor(order: OrderRequest, cause: unknown) {
    const isKnown = cause instanceof ExchangeError;
    const status = isKnown ? cause.status : undefined;
    super(
      'order_outcome_unknown',
      isKnown ? cause.outcome : isAborted(cause) ? 'aborted' : 'malformed',
      { endpoint: 'orderNew', ...(status === undefined ? {} : { status }) },
      `the outcome of the order is UNKNOWN (${messageOf(cause)}). It was sent once and is not sent again; it may rest in the book or have been executed: look at activeOrders and balances of ${order.market} before placing it again`,
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
 * Returns true if an order that had left was surely not taken: the exchange says so, or answers with a
 * status of the 400s. Not so with 408, which a server may send in the middle of the work.
 */
export function isRefusal(error: unknown): boolean {
  if (!(error instanceof ExchangeError)) return false;
  const { code, status = 0 } = error;
  return REFUSALS.has(code) || (status >= 400 && status < 500 && status !== 408);
}
