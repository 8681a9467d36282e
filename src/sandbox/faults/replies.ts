import { BAD_REQUEST_PAGE, errorEnvelope } from '../../contract/error-shapes.js';
import type { Random } from '../../kernel/random.js';
import type { HttpDelivery, HttpReply } from '../../server/faults.js';
import { drawBelow } from './rule-state.js';
import type { FaultRule } from './script.js';

const JSON_TYPE = 'application/json; charset=utf-8';
const HTML_TYPE = 'text/html; charset=utf-8';

function withBody(reply: HttpReply, status: number, type: string, body: string): HttpReply {
  return { status, headers: { ...reply.headers, 'content-type': type }, body };
}

function retryHeader({ retryAfterS, retryAfterForm }: FaultRule, atMs: number) {
  if (retryAfterS === undefined) return {};
  if (retryAfterForm === 'seconds') return { 'retry-after': String(retryAfterS) };
  // Dates end with the year 9999 on the wire; JavaScript's reach from 1970 backwards is of no use.
  const ms = Math.min(Math.max(atMs + retryAfterS * 1000, 0), Date.UTC(9999, 11, 31));
  return { 'retry-after': new Date(ms).toUTCString() };
}

function errorReply(reply: HttpReply, status: number, rule: FaultRule, atMs: number): HttpReply {
  // With status 200 only the body shows it, as some servers of the family do (field notes, HTTP).
  const code = status < 400 ? 500 : status;
  const text = status === 429 ? 'too many requests' : 'service unavailable';
  const error = withBody(reply, status, JSON_TYPE, JSON.stringify(errorEnvelope(code, text)));
  return { ...error, headers: { ...error.headers, ...retryHeader(rule, atMs) } };
}

/** JSON that ends too early: a true beginning, but never the whole. */
function brokenJson(body: string, bytes: number | undefined, random: Random): string {
  const length = Math.max(body.length - 1, 1);
  const kept = bytes === undefined ? 1 + drawBelow(random, length) : Math.min(bytes, length);
  return body.slice(0, kept);
}

/** Carries out the faults that need nothing but the reply; undefined for kinds that need more. */
export function spoilReply(
  rule: FaultRule,
  random: Random,
  reply: HttpReply,
  atMs: number,
): Omit<HttpDelivery, 'waitMs'> | undefined {
  const { bytes, ms } = rule;
  switch (rule.kind) {
    case 'status':
      return { reply: errorReply(reply, rule.status ?? 503, rule, atMs) };
    case 'rateLimit':
      return { reply: errorReply(reply, 429, rule, atMs) };
    case 'html':
      return { reply: withBody(reply, rule.status ?? 200, HTML_TYPE, BAD_REQUEST_PAGE) };
    case 'emptyBody':
      return { reply: withBody(reply, rule.status ?? 200, JSON_TYPE, '') };
    case 'malformed':
      return { reply: { ...reply, body: brokenJson(reply.body, bytes, random) } };
    case 'truncate': {
      const most = Math.max(Buffer.byteLength(reply.body) - 1, 0);
      const afterBytes = bytes === undefined ? drawBelow(random, most + 1) : Math.min(bytes, most);
      return { reply, ending: { kind: 'cut', afterBytes } };
    }
    case 'drip': {
      const part = rule.part === 'head' ? 'head' : 'body';
      return { reply, ending: { kind: 'drip', part, bytes: bytes ?? 16, pauseMs: ms ?? 100 } };
    }
    case 'hang':
      return { reply, ending: { kind: 'hang', ...(ms === undefined ? {} : { ms }) } };
    case 'reset':
      return { reply, ending: { kind: 'reset' } };
    default:
      return undefined;
  }
}
