import type { IncomingHttpHeaders } from 'node:http';
import { NONCE_DIGITS } from '../../contract/limits.js';
import { signedFields } from '../../contract/params.js';
import { AUTH_HEADERS, isSignedBy, type SignedContent } from '../../contract/signing.js';
import { obtain } from '../../kernel/bounded.js';
import { parseJson } from '../../kernel/json.js';
import { Mutex } from '../../kernel/mutex.js';
import {
  AUTHENTICATION_FAILURE,
  type ErrorReply,
  isEncoded,
  ReplyError,
  tooManyRequests,
} from './replies.js';
import type { RawParams } from './validation.js';

/** Most requests of one key that may wait. */
const MAX_WAITING_PER_KEY = 64;

/** A signed request as it arrived. */
export interface SignedRequest {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** The received bytes; the signature is checked over exactly these. */
  readonly body: Uint8Array | undefined;
}

interface KeyState {
  readonly mutex: Mutex;
  waiting: number;
  lastNonce: number;
}

function failure(): ReplyError {
  return new ReplyError(AUTHENTICATION_FAILURE);
}

/** A body as text and as the JSON object that it is: any other does not say which request was meant. */
function parseObject(body: Uint8Array) {
  let text: string;
  let value: unknown;
  try {
    text = new TextDecoder('utf-8', { fatal: true }).decode(body);
    value = parseJson(text);
  } catch {
    throw failure();
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) throw failure();
  return { text, fields: value as RawParams };
}

/**
 * Establishes who sent a signed request (contract, Authentication). Until that is done every fault
 * is an `authentication failure`: a missing header, another content type or coding, an unknown key, a wrong
 * signature, a body that is no JSON object, a foreign path, a used nonce.
 *
 * Requests of one key run one after the other, so "greater than the nonce of the last completed
 * request" is decided by order of arrival, and of two requests with one nonce only one can pass. A
 * request is completed when its answer is ready; one on which the server itself failed is not, so
 * that it can be repeated as it was.
 *
 * State per key: *idle* or *busy with n waiting*; keys that the backend does not know leave none.
 *
 * @returns runs `work` with the sender's key and the fields of the body, one at a time for that key;
 *   `isCompleted` says whether an error of it is an answer like any other. Throws a ReplyError when the
 *   sender is not established.
 */
export function authenticator(
  secretOf: (apiKey: string) => string | undefined,
  content: SignedContent,
) {
  const keys = new Map<string, KeyState>();
  return async <T>(
    request: SignedRequest,
    isCompleted: (error: unknown) => boolean,
    work: (apiKey: string, fields: RawParams) => Promise<T>,
  ): Promise<T> => {
    const { apiKey, fields, nonce } = verify(request, secretOf, content);
    const state = obtain(keys, apiKey, () => ({ mutex: new Mutex(), waiting: 0, lastNonce: 0 }));
    if (state.waiting >= MAX_WAITING_PER_KEY) throw new ReplyError(BUSY);
    state.waiting += 1;
    return state.mutex.run(async () => {
      state.waiting -= 1;
      if (nonce <= state.lastNonce) throw failure();
      try {
        const result = await work(apiKey, fields);
        state.lastNonce = nonce;
        return result;
      } catch (error) {
        if (isCompleted(error)) state.lastNonce = nonce;
        throw error;
      }
    });
  };
}

function verify(
  { path, headers, body }: SignedRequest,
  secretOf: (apiKey: string) => string | undefined,
  content: SignedContent,
) {
  const apiKey = headers[AUTH_HEADERS.apiKey];
  const payload = headers[AUTH_HEADERS.payload];
  const signature = headers[AUTH_HEADERS.signature];
  const isComplete =
    typeof apiKey === 'string' && typeof payload === 'string' && typeof signature === 'string';
  if (!isComplete || body === undefined || !isJson(headers['content-type'])) throw failure();
  if (isEncoded(headers)) throw failure();
  const secret = secretOf(apiKey);
  if (secret === undefined || !isSignedBy(secret, body, payload, signature, content)) {
    throw failure();
  }
  const { text, fields } = parseObject(body);
  const signed = signedFields.safeParse(fields);
  if (!signed.success || signed.data.request !== path) throw failure();
  // In 13 digits, nothing else (contract, Limits).
  if (!DIGITS.test(nonceTextOf(text) ?? '')) throw failure();
  return { apiKey, fields, nonce: signed.data.nonce };
}

/** One second is the shortest wait that Retry-After can name. */
const BUSY: ErrorReply = tooManyRequests(1);

function isJson(contentType: string | string[] | undefined): boolean {
  if (typeof contentType !== 'string') return false;
  return contentType.split(';', 1)[0]?.trim().toLowerCase() === 'application/json';
}

/** The pieces of valid JSON: texts, brackets and signs between, and all other values. */
const TOKEN = /"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\]:,]|[^\s"{}[\]:,]+/gs;

const DIGITS = new RegExp(`^\\d{${NONCE_DIGITS}}$`);

/**
 * How a body writes its nonce: `1.9e12` is the number 1900000000000, but not the number of 13
 * characters that the contract asks for, and only the text distinguishes them.
 *
 * @param json a JSON object, known to be valid
 * @returns the digits as they stand there, without the quotes of a text; undefined without a nonce
 */
function nonceTextOf(json: string): string | undefined {
  let depth = 0;
  let key: string | undefined;
  let before = '';
  let found: string | undefined;
  for (const [token] of json.matchAll(TOKEN)) {
    if (token === '{' || token === '[') depth += 1;
    else if (token === '}' || token === ']') depth -= 1;
    else if (depth === 1 && token === ':') key = readText(before);
    else if (depth === 1 && token === ',') key = undefined;
    // The last of several counts, as everywhere in JSON.
    else if (depth === 1 && key === 'nonce') found = readText(token);
    before = token;
  }
  return found;
}

function readText(token: string): string {
  return token.startsWith('"') ? (JSON.parse(token) as string) : token;
}
