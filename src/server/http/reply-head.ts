import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import { BAD_REQUEST_PAGE } from '../../contract/error-shapes.js';
import type { Backend } from '../backend.js';

/** Carries {@link Backend.identity}, so that archives of two exchanges are never mixed. */
export const IDENTITY_HEADER = 'x-tapekeep-exchange';

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

/** A reply to be sent without the framework, because there is no request that it could answer. */
export interface BareReply {
  /** `400 Bad Request` */
  readonly status: string;
  readonly type: string;
  readonly body: string;
}

export const BARE_BAD_REQUEST: BareReply = {
  status: '400 Bad Request',
  type: HTML_TYPE,
  body: BAD_REQUEST_PAGE,
};

/** The bytes of a last reply on its connection, with the headers that every reply has. */
export function bareReplyText({ status, type, body }: BareReply, backend: Backend): string {
  return [
    `HTTP/1.1 ${status}`,
    `Content-Type: ${type}`,
    `Content-Length: ${Buffer.byteLength(body)}`,
    `Date: ${httpDate(backend.nowMs())}`,
    `${IDENTITY_HEADER}: ${backend.identity}`,
    'Connection: close',
    '',
    body,
  ].join('\r\n');
}

/** Of several headers of these names node silently keeps the first. */
const HOST = 'host';
const CONTENT_TYPE = 'content-type';

/**
 * Whether the headers of a request are of one mind: exactly one says which host it is for, before
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

/** Whether a body is not what it says, but packed: no text of the contract may come so. */
export function isEncoded(headers: IncomingHttpHeaders): boolean {
  const { 'content-encoding': coding } = headers;
  return coding !== undefined && coding.trim().toLowerCase() !== 'identity';
}
