import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type Backend, RefusedError } from './backend.js';
import { readQuery } from './http/query.js';

/** Names the session of a client, at a backend that keeps several; so does the parameter. */
export const SESSION_HEADER = 'x-tapekeep-session';
const SESSION_PARAMETER = 'session';

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
