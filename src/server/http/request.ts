import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { SESSION_HEADER, SESSION_PARAMETER } from '../../contract/extensions.js';
import { type Backend, RefusedError } from '../backend.js';

/** Reads a query string. */
export type QueryReading =
  | { readonly kind: 'read'; readonly values: Readonly<Record<string, string>> }
  /** It cannot be decoded: the request as such is broken. */
  | { readonly kind: 'undecodable' }
  /** A parameter is given twice, or there are far too many: which value is meant is unknown. */
  | { readonly kind: 'ambiguous' };

/** More parameters than any endpoint knows, by far; bounds the work. */
const MAX_PARAMETERS = 64;

const ENCODED = /[%+]/;

function decode(text: string): string {
  return ENCODED.test(text) ? decodeURIComponent(text.replaceAll('+', ' ')) : text;
}

/** Reads the query of a request target such as `/path?market=BTC_USDT&limit=5`; never throws. */
export function readQuery(target: string): QueryReading {
  const mark = target.indexOf('?');
  const values: Record<string, string> = Object.create(null) as Record<string, string>;
  if (mark < 0) return { kind: 'read', values };
  const pairs = target.slice(mark + 1).split('&', MAX_PARAMETERS + 1);
  if (pairs.length > MAX_PARAMETERS) return { kind: 'ambiguous' };
  let isAmbiguous = false;
  try {
    for (const pair of pairs) {
      if (pair === '') continue;
      const equals = pair.indexOf('=');
      const name = decode(equals < 0 ? pair : pair.slice(0, equals));
      if (name in values) isAmbiguous = true;
      values[name] = equals < 0 ? '' : decode(pair.slice(equals + 1));
    }
  } catch {
    return { kind: 'undecodable' };
  }
  return isAmbiguous ? { kind: 'ambiguous' } : { kind: 'read', values };
}

/** The path of a request target, without its query. */
export function pathOf(target: string): string {
  const mark = target.indexOf('?');
  return mark < 0 ? target : target.slice(0, mark);
}

/** Backends as single requests see them, from their first hook until they are answered. */
const sessionBackends = new WeakMap<IncomingMessage, Backend>();

/**
 * The session that a request names; undefined when it names none.
 *
 * @throws RefusedError when header and parameter name two
 */
export function sessionOf(headers: IncomingHttpHeaders, target: string): string | undefined {
  const header = headers[SESSION_HEADER];
  const named = Array.isArray(header) ? header.join(',') : header;
  // Most requests name none; their query is read once, by the handler.
  if (!target.includes(SESSION_PARAMETER)) return named;
  const query = readQuery(target);
  const inQuery = query.kind === 'read' ? query.values[SESSION_PARAMETER] : undefined;
  if (named !== undefined && inQuery !== undefined && named !== inQuery) {
    throw new RefusedError(
      'badSession',
      `the header ${SESSION_HEADER} and the parameter ${SESSION_PARAMETER} name two sessions; name one`,
    );
  }
  return named ?? inQuery;
}

/** The backend as the sender of a request is to see it. @throws RefusedError */
export function openSession(
  backend: Backend,
  request: FastifyRequest,
  reply: FastifyReply,
): Backend {
  if (backend.sessionFor === undefined) return backend;
  const sessionBackend = backend.sessionFor({
    kind: 'request',
    session: sessionOf(request.headers, request.raw.url ?? ''),
    note: (header, value) => {
      reply.header(header, value);
    },
  });
  sessionBackends.set(request.raw, sessionBackend);
  return sessionBackend;
}

/** The session's backend of a request; `backend` itself without sessions. */
export function sessionBackendOf(backend: Backend, request: FastifyRequest): Backend {
  return backend.sessionFor === undefined ? backend : (sessionBackends.get(request.raw) ?? backend);
}
