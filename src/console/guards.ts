import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { isFromOtherSite, isLocalHost } from '../kernel/connections.js';
import type { Role } from './api/endpoints.js';
import type { Caller, Logins } from './logins.js';

declare module 'fastify' {
  interface FastifyRequest {
    caller: Caller;
  }
  interface FastifyContextConfig {
    /** Name under which requests are counted. */
    name?: string;
    /** Least role that is answered; default viewer. `open`: everybody is answered. */
    needs?: Role | 'open';
    /** Shows a page: a browser without a login is led to the form. */
    isPage?: boolean;
  }
}

/** The first makes browsers ask their user for a login. */
const CHALLENGES = ['Basic realm="tapekeep", charset="UTF-8"', 'Bearer'];
const NEEDED =
  'send the token of http.token or http.viewerToken as Authorization: Bearer, or log in at /login';

/** Refuses several Host headers: Node keeps the first; a proxy before us may have read another. */
function hasOneHost({ raw }: FastifyRequest): boolean {
  return (raw.headersDistinct.host ?? []).length <= 1;
}

const isReading = ({ method }: FastifyRequest) => method === 'GET' || method === 'HEAD';

/** A browser that opens an address, rather than a script of a page or a program. */
function isNavigation({ headers }: FastifyRequest): boolean {
  const mode = headers['sec-fetch-mode'];
  // Browsers tell the mode to addresses that they trust: https and localhost.
  return mode === undefined ? (headers.accept ?? '').includes('text/html') : mode === 'navigate';
}

/** A page of another site; one that only leads here is not shown what comes. Browsers add a login by themselves. */
function isFromOtherPage(request: FastifyRequest): boolean {
  return isFromOtherSite(request.headers) && !(isReading(request) && isNavigation(request));
}

/**
 * Returns true if a request that changes something is of our own page, or of a program. A browser names the page in
 * one of two headers; one that sends a login by itself and neither of these is not believed.
 */
function isOwnPage({ headers, host }: FastifyRequest): boolean {
  const { origin, cookie, authorization } = headers;
  if (headers['sec-fetch-site'] !== undefined) return !isFromOtherSite(headers);
  if (origin !== undefined) return URL.canParse(origin) && new URL(origin).host === host;
  return cookie === undefined && !/^basic/i.test(authorization ?? '');
}

/** Address that a limit counts: of the peer, or of the client of a proxy on this machine. */
export function addressOf({ ip, headers }: FastifyRequest): string {
  const forwarded = headers['x-forwarded-for'];
  const isLocal = /^(?:127\.|::1$|::ffff:127\.)/.test(ip);
  if (!isLocal || typeof forwarded !== 'string') return ip;
  return forwarded.split(',').at(-1)?.trim().slice(0, 60) || ip;
}

/** Answers that a request is refused, in a sentence. */
export function refuse(reply: FastifyReply, status: number, error: string): FastifyReply {
  return reply.code(status).send({ error });
}

function refuseStranger(request: FastifyRequest, reply: FastifyReply): FastifyReply {
  const { isPage } = request.routeOptions.config;
  // A cookie does not come along from another site: the page itself, which holds nothing, asks with it.
  if (isPage === true && isNavigation(request)) {
    return reply.redirect(`/login?next=${encodeURIComponent(request.url)}`, 303);
  }
  const isScript = !isNavigation(request) && request.headers['sec-fetch-site'] !== undefined;
  // A script's page has its own form: the browser must not ask as well.
  const challenge = isScript ? CHALLENGES.slice(1) : CHALLENGES;
  return refuse(reply.header('www-authenticate', challenge), 401, NEEDED);
}

/** Refuses requests before anything of them is looked at: of other sites, without a login, without the role. */
export function addGuards(app: FastifyInstance, logins: Logins): void {
  app.decorateRequest('caller', 'nobody');
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    });
    if (!hasOneHost(request)) return refuse(reply, 400, 'send one Host header');
    if (!logins.isNeeded && !isLocalHost(request.host)) {
      return refuse(reply, 403, 'ask by address or localhost, or set http.token');
    }
    if (isFromOtherPage(request) || !(isReading(request) || isOwnPage(request))) {
      return refuse(reply, 403, 'pages of other sites are not answered');
    }
    const { needs = 'viewer', isPage } = request.routeOptions.config;
    const address = addressOf(request);
    request.caller = logins.callerOf(request.headers, address);
    if (needs === 'open') return;
    if (request.caller === 'limited') {
      void reply.header('retry-after', String(logins.retryAfterS(address)));
      return refuse(reply, 429, 'too many wrong tokens; wait and try again');
    }
    if (request.caller === 'nobody') {
      if (isPage === true && isNavigation(request) && isFromOtherSite(request.headers)) return;
      return refuseStranger(request, reply);
    }
    if (needs === 'operator' && request.caller === 'viewer') {
      return refuse(
        reply,
        403,
        'this needs the token of http.token; yours is that of http.viewerToken',
      );
    }
  });
}
