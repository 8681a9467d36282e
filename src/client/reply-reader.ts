import { z } from 'zod';
import { type DialectName, dialectShownBy } from '../contract/dialects.js';
import type { Endpoint } from '../contract/endpoints.js';
import {
  type BodyReading,
  cachedAtMsOf,
  ERROR_MESSAGES,
  readBody,
} from '../contract/error-shapes.js';
import { IDENTITY_HEADER } from '../contract/extensions.js';
import {
  type Asked,
  describeIssues,
  type ParsedPayload,
  parseAsWritten,
} from '../contract/shape.js';
import type { RateLimitHeaders } from '../kernel/budget.js';
import { JsonBoundsError, parseJson, parseNumbersAsText } from '../kernel/json.js';
import {
  AuthenticationError,
  type ErrorPlace,
  FieldErrorsError,
  InvalidInputError,
  MalformedReplyError,
  MarketUnavailableError,
  NotFoundError,
  OperationBlockedError,
  RateLimitedError,
  RedirectError,
  RequestRefusedError,
  ServerError,
  safeExcerpt,
  UnavailableError,
  UnexpectedPageError,
  WrongDialectError,
} from './errors.js';

/** The head of an answer, known before its body. */
export interface ReplyHead {
  readonly status: number;
  readonly headers: ReplyHeaders;
}

/** A complete answer as it came over the wire. */
export interface RawReply extends ReplyHead {
  readonly body: Uint8Array;
  /** Clause that names the proxy that forwarded it, or made it up; left out where none could. */
  readonly via?: string;
}

/** Facts about the request that the reader needs. */
export interface Question<R> {
  readonly name: string;
  readonly endpoint: Endpoint<Endpoint['params'], R>;
  /** In which it was asked. */
  readonly dialect: DialectName;
  /** Parameters of the request: a response need not repeat it. */
  readonly asked?: Asked;
  readonly isSigned: boolean;
  /** Texts that must not reach a message, even if the server echoes them. */
  readonly secrets: readonly string[];
  /** Wait that Retry-After asked for, if any. */
  readonly retryAfterMs: number | undefined;
}

/** Content of a response. */
export interface Reading<R> extends ParsedPayload<R> {
  /** When a cache took it up, UNIX milliseconds, where the answer says so. */
  readonly cachedAtMs: number | undefined;
}

const JSON_TYPE = /^(?:application|text)\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i;

/**
 * Reads an answer into the endpoint's rows, or throws the error that it means.
 *
 * In this order: redirects and 429 by their status alone, then anything that is not JSON, then what
 * the body says about itself (the status is only believed where the body is silent, because servers
 * of the family send errors under HTTP 200), then the endpoint's shape.
 *
 * @throws ExchangeError one of its subclasses, see errors.ts
 */
export function readReply<R>(question: Question<R>, reply: RawReply): Reading<R> {
  const { status, headers } = reply;
  const { via } = reply;
  const place: ErrorPlace = { endpoint: question.name, status, ...(via !== undefined && { via }) };
  if (status >= 300 && status < 400) {
    const location = headerText(headers, 'location');
    const shown = location === undefined ? undefined : safeExcerpt(location, question.secrets);
    throw new RedirectError(place, shown);
  }
  if (status === 429) throw new RateLimitedError(place, question.retryAfterMs);
  if (reply.body.length === 0) throw errorOfStatus(place, question, 'the body is empty');

  const coding = headerText(headers, 'content-encoding');
  if (coding !== undefined && coding.trim().toLowerCase() !== 'identity') {
    throw new MalformedReplyError(place, 'it is compressed, which was not asked for');
  }
  const contentType = headerText(headers, 'content-type');
  const opening = Buffer.from(reply.body.subarray(0, 1024)).toString('utf8');
  // A function and no getter: the engine keeps a getter of a literal, and with it the page, for the next literal.
  const errorPlace: ErrorPlace = {
    ...place,
    excerpt: () => safeExcerpt(opening, question.secrets),
  };
  if (contentType !== undefined && !JSON_TYPE.test(contentType.trim())) {
    throw new UnexpectedPageError(errorPlace, safeExcerpt(contentType, question.secrets));
  }
  if (opening.trimStart().startsWith('<')) throw new UnexpectedPageError(errorPlace, undefined);

  const [body, text] = decodeBody(errorPlace, question, reply);
  const reading = readBody(body, question.endpoint.envelope);
  if (reading.kind !== 'success' && reading.kind !== 'bare') {
    throw errorOfBody(reading, errorPlace, question);
  }
  if (status < 200 || status >= 300)
    throw errorOfStatus(errorPlace, question, 'a status without error');
  const asWritten = () => {
    const again = readBody(parseNumbersAsText(text), question.endpoint.envelope);
    return 'payload' in again ? again.payload : reading.payload;
  };
  const parsed = parsePayload(errorPlace, question, reading.payload, asWritten);
  if (reading.kind === 'bare' && !question.endpoint.result.isTelling(parsed)) {
    throw errorOfStatus(errorPlace, question, "not of this endpoint's shape");
  }
  return { ...parsed, cachedAtMs: cachedAtMsOf(body) };
}

function decodeBody(
  place: ErrorPlace,
  question: Question<unknown>,
  reply: RawReply,
): readonly [body: unknown, text: string] {
  let text: string;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(reply.body);
  } catch (cause) {
    throw errorOfStatus(place, question, 'it is not valid UTF-8', cause);
  }
  try {
    return [parseJson(text), text];
  } catch (cause) {
    const isBeyond = cause instanceof JsonBoundsError;
    const detail = isBeyond ? cause.message : 'it is not valid JSON, or was cut off';
    throw errorOfStatus(place, question, detail, cause);
  }
}

function parsePayload<R>(
  place: ErrorPlace,
  question: Question<R>,
  payload: unknown,
  asWritten: () => unknown,
): ParsedPayload<R> {
  try {
    return parseAsWritten(question.endpoint.result, payload, asWritten, question.asked);
  } catch (cause) {
    if (!(cause instanceof z.ZodError)) throw cause;
    const shown = dialectShownBy(question.name, payload);
    if (shown !== undefined && shown !== question.dialect)
      throw new WrongDialectError(place, shown);
    const detail = safeExcerpt(describeIssues(cause), question.secrets);
    throw new MalformedReplyError(place, `not of this endpoint's shape: ${detail}`, { cause });
  }
}

/** The error that a body declares. */
function errorOfBody(
  reading: Exclude<BodyReading, { kind: 'success' | 'bare' }>,
  place: ErrorPlace,
  question: Question<unknown>,
): Error {
  switch (reading.kind) {
    case 'fieldErrors':
      // Every market that is sent has a well-formed name, so a complaint about the field means the
      // market itself, whatever the words are.
      return Object.hasOwn(reading.fields, 'market')
        ? new MarketUnavailableError(place, reading.fields)
        : new FieldErrorsError(place, reading.fields);
    case 'notFound':
      return reading.dialect !== undefined && reading.dialect !== question.dialect
        ? new WrongDialectError(place, reading.dialect)
        : new NotFoundError(place, question.dialect);
    case 'unrecognised':
      return errorOfStatus(place, question, "not of this endpoint's shape");
    case 'error':
      return errorOfEnvelope(reading, place, question);
  }
}

function errorOfEnvelope(
  { code, text }: Extract<BodyReading, { kind: 'error' }>,
  place: ErrorPlace,
  question: Question<unknown>,
): Error {
  const message = text.trim().toLowerCase();
  if (message === ERROR_MESSAGES.invalidInput) return new InvalidInputError(place);
  if (message === ERROR_MESSAGES.authenticationFailure) return new AuthenticationError(place);
  if (message === ERROR_MESSAGES.operationBlocked) return new OperationBlockedError(place);
  const status = place.status ?? 0;
  // Only the values can be wrong with a request that was understood (RFC 9110, 15.5.21).
  if (status === 422) return new InvalidInputError(place);
  if (status >= 500) return new ServerError(place, safeExcerpt(text, question.secrets));
  if (status >= 300) return errorOfStatus(place, question, 'an error without a known text');
  if (code === 429) return new RateLimitedError(place, question.retryAfterMs);
  if (code === 404) return new NotFoundError(place, question.dialect);
  // A failure under a good status, without a text that the contract knows: only a code of the
  // 400s says that asking again is pointless.
  const isRefusal = code !== undefined && code >= 400 && code < 500;
  return isRefusal ? new RequestRefusedError(place) : new UnavailableError(place);
}

/** The error that a status means when the body does not say it better. */
function errorOfStatus(
  place: ErrorPlace,
  question: Question<unknown>,
  detail: string,
  cause?: unknown,
): Error {
  const status = place.status ?? 0;
  if (status >= 500 || status === 408) return new ServerError(place);
  if (status === 404) return new NotFoundError(place, question.dialect);
  if ((status === 401 || status === 403) && question.isSigned)
    return new AuthenticationError(place);
  if (status >= 400) return new RequestRefusedError(place);
  return new MalformedReplyError(place, detail, { cause });
}

/** Response headers as undici gives them, names in lower case. */
export type ReplyHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** The text of a header; of a repeated one the first. */
export function headerText(headers: ReplyHeaders, name: string): string | undefined {
  const value = headers[name];
  return typeof value === 'string' || value === undefined ? value : value[0];
}

/** Which exchange's history this is; null where the server does not say. */
export function identityOf(headers: ReplyHeaders): string | null {
  return headerText(headers, IDENTITY_HEADER)?.slice(0, MAX_VALUE_LENGTH) ?? null;
}

/** Header values longer than this are not looked at. */
const MAX_VALUE_LENGTH = 200;
/** `Sun, 06 Nov 1994 08:49:37 GMT`: the only form of an HTTP date still in use (RFC 9110, 5.6.7). */
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** Resolution of the Date header. */
export const DATE_RESOLUTION_MS = 1000;

/** An HTTP date as UNIX milliseconds; null when absent or not one. */
export function parseHttpDate(text: string | undefined): number | null {
  if (text === undefined || !HTTP_DATE.test(text)) return null;
  const atMs = Date.parse(text);
  return Number.isNaN(atMs) ? null : atMs;
}

/** A Retry-After beyond this is a mistake, and says nothing. */
const RETRY_AFTER_SANE_MS = 86_400_000;

/**
 * Reads the wait of Retry-After, as milliseconds here, 0 when it is negative; undefined when the header
 * is absent, unreadable, or asks for more than a day.
 *
 * @param nowMs the exchange's time, to which a date relates
 * @param pace how fast the exchange's time runs
 */
export function parseRetryAfter(
  text: string | undefined,
  nowMs: number,
  pace: number,
): number | undefined {
  if (text === undefined || text.length > MAX_VALUE_LENGTH) return undefined;
  const trimmed = text.trim();
  const dateMs = parseHttpDate(trimmed);
  let waitMs: number;
  if (dateMs !== null) waitMs = (dateMs - nowMs) / pace;
  else if (/^[+-]?\d+(\.\d+)?$/.test(trimmed)) waitMs = Number(trimmed) * 1000;
  else return undefined;
  return waitMs > RETRY_AFTER_SANE_MS ? undefined : Math.max(waitMs, 0);
}

/** A reset above this many seconds is a timestamp, not a duration. */
const RESET_IS_MOMENT_S = 1e9;

function headerNumber(headers: ReplyHeaders, name: string): number | undefined {
  const text = headerText(headers, name)?.trim();
  return text !== undefined && /^-?\d{1,15}(\.\d{1,6})?$/.test(text) ? Number(text) : undefined;
}

/**
 * The family's `x-ratelimit-…` headers (field notes, HTTP), or undefined when incomplete. A reset
 * given as a UNIX time is turned into the time until then.
 */
export function readRateLimit(
  headers: ReplyHeaders,
  exchangeNowMs: number,
): RateLimitHeaders | undefined {
  const remaining = headerNumber(headers, 'x-ratelimit-remaining');
  const reset = headerNumber(headers, 'x-ratelimit-reset');
  if (remaining === undefined || reset === undefined) return undefined;
  const resetS = reset > RESET_IS_MOMENT_S ? reset - exchangeNowMs / 1000 : reset;
  return { limit: headerNumber(headers, 'x-ratelimit-limit'), remaining, resetS };
}
