import {
  BAD_REQUEST_PAGE,
  ERROR_MESSAGES,
  errorEnvelope,
  type FieldErrors,
  notFoundBody,
} from '../../contract/error-shapes.js';
import type { RefusedError } from '../backend.js';

/** A reply that is not a success: status, and a body that is either JSON or the HTML page. */
export interface ErrorReply {
  readonly status: number;
  readonly body: object | string;
  readonly retryAfterS?: number;
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

/** What a backend refuses, in the contract's words where it has any. */
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

/** The same in the family's words (field notes, HTTP). */
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

/** Of cousins whose every refusal has a good status; the page for what cannot be read has none. */
export function underGoodStatus({ status, body, ...rest }: ErrorReply): ErrorReply {
  return { ...rest, status: typeof body === 'string' ? status : 200, body };
}

/** How servers of the family answer where an offset is smaller than they take. */
export function familyOffsetTooSmall(field: string, min: number): ErrorReply {
  return enveloped(400, { [field]: [`The ${field} must be at least ${min}.`] });
}

/** How servers of the family answer for a limit beyond the maximum. */
export function familyLimitTooLarge(max: number): ErrorReply {
  return enveloped(400, { limit: [`The limit may not be greater than ${max}.`] });
}
