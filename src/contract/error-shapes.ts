import { z } from 'zod';
import { isObject } from '../kernel/json.js';
import type { DialectName } from './dialects.js';
import { unixSeconds } from './values.js';

/**
 * The bodies that carry errors (contract, Errors; field notes, HTTP): how a server of the contract
 * writes them, and how a client recognises every variant that the family shows.
 */

/** Texts per field, as in `{"market": ["The market field is required."]}`. */
export type FieldErrors = Record<string, string[]>;

/** Messages of the contract's Errors table. */
export const ERROR_MESSAGES = {
  invalidInput: 'invalid input',
  authenticationFailure: 'authentication failure',
  operationBlocked: 'operation blocked',
} as const;

/** The sentence for a required field that is missing or malformed; the side has its own wording. */
export function requiredFieldText(field: string): string {
  return field === 'side' ? 'The side is required.' : `The ${field} field is required.`;
}

export function successEnvelope(result: unknown) {
  return { code: 200, success: true, message: '', result } as const;
}

export function errorEnvelope(code: number, message: string | FieldErrors) {
  return { code, success: false, message, result: [] } as const;
}

/**
 * The 404 body, which has no envelope. `atMs` is the exchange's time; it is sent in whole seconds, like
 * every time of the contract.
 */
export function notFoundBody(path: string, atMs: number) {
  return { timestamp: Math.floor(atMs / 1000), status: 404, error: 'Not Found', message: '', path };
}

/** The page for a request that cannot be parsed as HTTP or has invalid headers. */
export const BAD_REQUEST_PAGE =
  '<!doctype html><html lang="en"><head><title>HTTP Status 400 – Bad Request</title></head>' +
  '<body><h1>HTTP Status 400 – Bad Request</h1></body></html>';

const envelopeShape = z.object({
  success: z.boolean(),
  // `success` alone decides: a code of another type must not make an error look like a payload.
  code: z.number().optional().catch(undefined),
  /** A cousin's own numbering of errors, beside the status. */
  errorCode: z.number().optional().catch(undefined),
  message: z.unknown().optional(),
  result: z.unknown().optional(),
});

/** Errors of a cousin by their own numbers: they are more exact than any text. */
const COUSIN_CODES: Readonly<Record<number, 'market' | 'input' | 'path'>> = {
  2021: 'market',
  2022: 'market',
  3060: 'input',
  3100: 'input',
  3110: 'input',
  1019: 'path',
};
const fieldErrorsShape = z.record(z.string(), z.array(z.string()));
const notFoundShape = z.object({ status: z.literal(404), error: z.string(), path: z.string() });
const cousinErrorShape = z.object({ status: z.literal('error'), message: z.string() });

/** Meaning of a JSON body. */
export type BodyReading =
  | { readonly kind: 'success'; readonly payload: unknown }
  /** No envelope, though one was due: what it is must show in its form. */
  | { readonly kind: 'bare'; readonly payload: unknown }
  | { readonly kind: 'error'; readonly code: number | undefined; readonly text: string }
  | { readonly kind: 'fieldErrors'; readonly fields: FieldErrors }
  | {
      readonly kind: 'notFound';
      /** The exchange that says it so, by its dialect. */
      readonly dialect?: DialectName;
    }
  | { readonly kind: 'unrecognised' };

/**
 * Reads a decoded JSON body. `success`, not the status, decides on envelopes, because servers of
 * the family answer errors with HTTP 200 too. Some send a payload bare that is due in an envelope, or
 * the other way round.
 *
 * @param isEnveloped whether this endpoint's success comes inside the envelope
 */
export function readBody(body: unknown, isEnveloped: boolean): BodyReading {
  // Schemas are asked only about what may be of their form: a refusal of zod is an Error with a
  // stack, which keeps whole pages alive into the old generation of the heap.
  if (Array.isArray(body)) {
    return { kind: isEnveloped ? 'bare' : 'success', payload: body };
  }
  if (!isObject(body)) return { kind: 'unrecognised' };
  return (
    ('success' in body ? readEnvelope(body, isEnveloped) : undefined) ??
    ('status' in body ? readStatusBody(body) : undefined) ??
    readBareFields(body) ?? { kind: isEnveloped ? 'bare' : 'success', payload: body }
  );
}

function readEnvelope(body: object, isEnveloped: boolean): BodyReading | undefined {
  const envelope = envelopeShape.safeParse(body);
  if (!envelope.success) return undefined;
  const { success, code, errorCode, message, result } = envelope.data;
  // Neither a depth nor a list of trades has such fields of its own.
  const isWrapped = isEnveloped || isObject(result) || Array.isArray(result);
  if (success) return { kind: 'success', payload: isWrapped ? result : body };
  const fields = fieldErrorsShape.safeParse(message);
  if (fields.success) return { kind: 'fieldErrors', fields: fields.data };
  const text = typeof message === 'string' ? message : '';
  const meaning = errorCode === undefined ? undefined : COUSIN_CODES[errorCode];
  if (meaning === 'market') return { kind: 'fieldErrors', fields: { market: [text] } };
  if (meaning === 'input') return { kind: 'error', code, text: ERROR_MESSAGES.invalidInput };
  if (meaning === 'path') return { kind: 'notFound', dialect: 'p2b' };
  return { kind: 'error', code, text };
}

/**
 * When a cache took up the answer, UNIX milliseconds, where it says so (`cache_time`, seconds): then it
 * shows that time, not its own.
 */
export function cachedAtMsOf(body: unknown): number | undefined {
  if (!isObject(body) || !('cache_time' in body)) return undefined;
  const seconds = unixSeconds.safeParse(body.cache_time).data;
  return seconds === undefined ? undefined : seconds * 1000;
}

/** Bodies without `success` that name a status: the contract's 404, or a cousin's error. */
function readStatusBody(body: object): BodyReading | undefined {
  if (notFoundShape.safeParse(body).success) return { kind: 'notFound' };
  const cousin = cousinErrorShape.safeParse(body);
  if (!cousin.success) return undefined;
  return cousin.data.message.startsWith('Cannot ')
    ? { kind: 'notFound' }
    : { kind: 'error', code: undefined, text: cousin.data.message };
}

/** An object of field texts is an error where an envelope was due. Without any text it is not. */
function readBareFields(body: object): BodyReading | undefined {
  // Depth may look like one, and is too large to be tried in vain.
  if ('asks' in body || 'bids' in body) return undefined;
  const fields = fieldErrorsShape.safeParse(body).data;
  const hasText = fields !== undefined && Object.values(fields).some((texts) => texts.length > 0);
  return hasText ? { kind: 'fieldErrors', fields } : undefined;
}
