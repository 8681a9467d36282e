import { type IncomingHttpHeaders, type IncomingMessage, STATUS_CODES } from 'node:http';
import {
  BAD_REQUEST_PAGE,
  ERROR_MESSAGES,
  errorEnvelope,
  type FieldErrors,
  notFoundBody,
} from '../../contract/error-shapes.js';
import { IDENTITY_HEADER } from '../../contract/extensions.js';
import type { ServerVariants } from '../../contract/variants.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { ServerEvents } from '../../observe/events.js';
import type { Backend, RefusedError } from '../backend.js';

export const HTML_TYPE = 'text/html; charset=utf-8';
export const JSON_TYPE = 'application/json; charset=utf-8';

/** Writes times as HTTP dates (IMF-fixdate, whole seconds), each second's once. */
function httpDates(): (atMs: number) => string {
  let writtenS = Number.NaN;
  let text = '';
  return (atMs) => {
    const atS = Math.floor(atMs / 1000);
    if (atS !== writtenS) text = new Date(atS * 1000).toUTCString();
    writtenS = atS;
    return text;
  };
}

/** A time, UNIX milliseconds, as the Date header carries it. */
export const httpDate = httpDates();

/** If several headers have one of these names, node silently keeps the first. */
const HOST = 'host';
const CONTENT_TYPE = 'content-type';

/**
 * Returns true if the headers of a request are of one mind: exactly one says which host it is for, before
 * HTTP/1.1 at most one (RFC 9112, section 3.2), and at most one of what type the body is.
 */
export function isUnambiguous({ httpVersion, rawHeaders }: IncomingMessage): boolean {
  let hosts = 0;
  let types = 0;
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? '';
    // Few names are as long as these; the others are not worth a text in lower case.
    if (name.length === HOST.length && name.toLowerCase() === HOST) hosts += 1;
    else if (name.length === CONTENT_TYPE.length && name.toLowerCase() === CONTENT_TYPE) types += 1;
  }
  return types <= 1 && (hosts === 1 || (hosts === 0 && httpVersion !== '1.1'));
}

/** Returns true if a body is not what it says, but packed: no text of the contract may come so. */
export function isEncoded(headers: IncomingHttpHeaders): boolean {
  const { 'content-encoding': coding } = headers;
  return coding !== undefined && coding.trim().toLowerCase() !== 'identity';
}

/** A reply that is not a success: status, and a body that is either JSON or the HTML page. */
export interface ErrorReply {
  readonly status: number;
  readonly body: object | string;
  readonly retryAfterS?: number;
}

/**
 * The bytes of a last reply on its connection, with the headers that every reply has: sent without the
 * framework, where there is no request that it could answer.
 */
export function bareReplyText({ status, body }: ErrorReply, backend: Backend): string {
  const isPage = typeof body === 'string';
  const text = isPage ? body : JSON.stringify(body);
  return [
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}`,
    `Content-Type: ${isPage ? HTML_TYPE : JSON_TYPE}`,
    `Content-Length: ${Buffer.byteLength(text)}`,
    `Date: ${httpDate(backend.nowMs())}`,
    `${IDENTITY_HEADER}: ${backend.identity}`,
    'Connection: close',
    '',
    text,
  ].join('\r\n');
}

/** Thrown by the steps of a request when the answer is an error of the contract. */
export class ReplyError extends Error {
  readonly reply: ErrorReply;

  constructor(reply: ErrorReply) {
    super(`refused with HTTP ${reply.status}`);
    this.name = 'ReplyError';
    this.reply = reply;
  }
}

function enveloped(status: number, message: string | FieldErrors): ErrorReply {
  return { status, body: errorEnvelope(status, message) };
}

/** A value is invalid, or a parameter is not one that the exchange knows (contract, Errors). */
export const INVALID_INPUT = enveloped(400, ERROR_MESSAGES.invalidInput);
/** The sender is not established (contract, Authentication, rule 7). */
export const AUTHENTICATION_FAILURE = enveloped(400, ERROR_MESSAGES.authenticationFailure);
/** Orders are not taken for this pair now. */
const OPERATION_BLOCKED = enveloped(400, ERROR_MESSAGES.operationBlocked);
/** The request cannot be read as HTTP. */
export const BAD_REQUEST: ErrorReply = { status: 400, body: BAD_REQUEST_PAGE };
/** The backend failed; the contract shows no status for this. */
export const INTERNAL_ERROR = enveloped(500, 'internal error');

/** Refusals of a backend, in the contract's words where it has any. */
export function refusedReply({ refusal, message }: RefusedError): ErrorReply {
  switch (refusal) {
    case 'operationBlocked':
      return OPERATION_BLOCKED;
    case 'badSession':
      return enveloped(400, message);
    case 'unavailable':
      return enveloped(503, message);
    case 'invalidInput':
      return INVALID_INPUT;
  }
}

/** Required fields that are missing or malformed, each with its text. */
export function fieldErrors(fields: FieldErrors): ErrorReply {
  return enveloped(400, fields);
}

/** Too many requests; `retryAfterS` seconds until the next window (field notes, HTTP). */
export function tooManyRequests(retryAfterS: number): ErrorReply {
  return { ...enveloped(429, 'too many requests'), retryAfterS };
}

/** No such path or method. */
export function notFound(path: string, atMs: number): ErrorReply {
  return { status: 404, body: notFoundBody(path, atMs) };
}

/** Refusals in the family's words (field notes, HTTP). */
export function familyNotFound(method: string, path: string): ErrorReply {
  return {
    status: 404,
    body: { status: 'error', message: `Cannot ${method} ${path}`, result: null },
  };
}

/** How servers of the family answer for an unknown market on depth: a success that is none. */
export const FAMILY_DEPTH_UNAVAILABLE: ErrorReply = {
  status: 200,
  body: errorEnvelope(500, 'service unavailable'),
};

/** How servers of the family answer for an unknown market elsewhere. */
export const FAMILY_UNKNOWN_MARKET = enveloped(400, { market: ['Market is not available'] });

/** Refusals of cousins whose every refusal has a good status; the page for what cannot be read has none. */
function underGoodStatus({ status, body, ...rest }: ErrorReply): ErrorReply {
  return { ...rest, status: typeof body === 'string' ? status : 200, body };
}

function numberedReply(status: number, errorCode: number, message: string): ErrorReply {
  return { status, body: { success: false, errorCode, message, result: [] } };
}

/** No such path, at an exchange that numbers its errors. */
export const ROUTE_NOT_FOUND = numberedReply(400, 1019, 'Route not found.');

/** Refusals of an exchange that numbers its errors. */
function numbered(reply: ErrorReply): ErrorReply {
  if (reply === FAMILY_UNKNOWN_MARKET) return numberedReply(400, 2021, 'Unknown market.');
  if (reply === INVALID_INPUT) return numberedReply(422, 3100, 'Invalid value.');
  return reply;
}

/** The reply to a refusal in each form. */
export const ERROR_SHAPES: Readonly<
  Record<ServerVariants['errorShapes'], (reply: ErrorReply) => ErrorReply>
> = {
  contract: (reply) => reply,
  family: (reply) => reply,
  ok: underGoodStatus,
  numbered,
};

/** How servers of the family answer where an offset is smaller than they take. */
export function familyOffsetTooSmall(field: string, min: number): ErrorReply {
  return enveloped(400, { [field]: [`The ${field} must be at least ${min}.`] });
}

/** How servers of the family answer for a limit beyond the maximum. */
export function familyLimitTooLarge(max: number): ErrorReply {
  return enveloped(400, { limit: [`The limit may not be greater than ${max}.`] });
}

type HandlerFailure = Parameters<ServerEvents['handlerFailed']>[0];

/** Report of an error that a client only sees as an internal one. */
export function failureOf(endpoint: string, error: unknown): HandlerFailure {
  const stack = error instanceof Error ? error.stack : undefined;
  return {
    ...{ endpoint, code: codeOf(error), message: messageOf(error) },
    ...(stack === undefined ? {} : { stack }),
  };
}
