import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { dialectOf } from '../../contract/dialects.js';
import {
  asyncApiDocument,
  realtimeServers,
  type Speech,
} from '../../contract/documents/asyncapi.js';
import type { JsonObject } from '../../contract/documents/json-schema.js';
import { openApiDocument } from '../../contract/documents/openapi.js';
import { type EndpointName, endpointNames } from '../../contract/endpoints.js';
import { IDENTITY_HEADER } from '../../contract/extensions.js';
import { REQUEST_BODY_MAX_BYTES } from '../../contract/limits.js';
import { type Backend, RefusedError } from '../backend.js';
import { REALTIME_PATH, type ServerContext } from '../context.js';
import { addControl } from '../control/control.js';
import { isControlPath } from '../control/control-replies.js';
import { answerText, sendAnswer, sendJson } from './answers.js';
import { authenticator } from './authentication.js';
import { addInterference } from './faults-http.js';
import { endpointBlocks, rateWindows } from './rate-window.js';
import {
  AUTHENTICATION_FAILURE,
  BAD_REQUEST,
  bareReplyText,
  ERROR_SHAPES,
  type ErrorReply,
  failureOf,
  familyNotFound,
  HTML_TYPE,
  httpDate,
  INTERNAL_ERROR,
  INVALID_INPUT,
  isUnambiguous,
  notFound,
  ReplyError,
  ROUTE_NOT_FOUND,
  refusedReply,
  tooManyRequests,
} from './replies.js';
import { openSession, pathOf, readQuery, sessionBackendOf } from './request.js';
import { type RawParams, validateParams } from './validation.js';

const MAX_HEADER_BYTES = 16 * 1024;
/** A request's headers, and the whole request, must have arrived by then. */
const HEADERS_TIMEOUT_MS = 5_000;
/** How often Node looks for those that have not; its own default is half a minute. */
const LOOK_EVERY_MS = 1_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Longer than a client's pool keeps an idle socket, so that none is closed under a request. */
const KEEP_ALIVE_TIMEOUT_MS = 75_000;

/** Version of the contract that is served: the one in its paths. */
const API_VERSION = '1';

const OPENAPI_PATH = '/openapi.json';
const ASYNCAPI_PATH = '/asyncapi.json';
/** Paths beside the contract's own that this server answers. */
const DOCUMENT_PATHS = [OPENAPI_PATH, ASYNCAPI_PATH] as const;

/** Name under which a request is counted, by the path of its route. */
function endpointOf(endpointOfPath: ReadonlyMap<string, string>, request: FastifyRequest): string {
  const url = request.routeOptions.url ?? '';
  const isDocument = DOCUMENT_PATHS.some((path) => path === url);
  const other = isControlPath(url) ? 'control' : 'unknown';
  return endpointOfPath.get(url) ?? (isDocument ? 'documents' : other);
}

/** The endpoints that are served, by their path; of two that share one the first. */
function servedEndpoints({ variants }: ServerContext): ReadonlyMap<string, EndpointName> {
  const spoken = dialectOf(variants.dialect).endpoints;
  const paths = new Map<string, EndpointName>();
  for (const name of endpointNames) {
    const path = spoken[name]?.path;
    if (path !== undefined && !paths.has(path)) paths.set(path, name);
  }
  return paths;
}

/** Message of an error to the client; undefined where the server itself failed. */
function refusalIn(error: unknown): ErrorReply | undefined {
  if (error instanceof ReplyError) return error.reply;
  return error instanceof RefusedError ? refusedReply(error) : undefined;
}

function send(reply: FastifyReply, { status, body, retryAfterS }: ErrorReply): FastifyReply {
  if (retryAfterS !== undefined) reply.header('retry-after', String(retryAfterS));
  reply.status(status);
  return typeof body === 'string'
    ? reply.type(HTML_TYPE).send(body)
    : sendJson(reply, JSON.stringify(body));
}

/** Every endpoint of the table: GET for public ones, and the signed POST form for all. */
function addRoutes(
  app: FastifyInstance,
  context: ServerContext,
  endpointOfPath: ReadonlyMap<string, EndpointName>,
): void {
  const { backend, variants } = context;
  const spoken = dialectOf(variants.dialect).endpoints;
  const isWatched = context.interference !== undefined;
  const authenticated = authenticator(
    (apiKey) => backend.accounts?.secretOf(apiKey),
    variants.signedContent,
  );
  const isAnswer = (error: unknown) => refusalIn(error) !== undefined;
  for (const [path, name] of endpointOfPath) {
    const endpoint = spoken[name];
    if (endpoint === undefined) continue;
    /** @param apiKey of the sender of a signed request; empty on the open GET form */
    const answer = (sessionBackend: Backend, raw: RawParams, apiKey: string) => {
      const asked = endpoint.read(raw, sessionBackend.nowMs() / 1000);
      const params = validateParams(name, asked, sessionBackend, variants);
      return answerText(name, { backend: sessionBackend, variants, endpoint, apiKey }, params);
    };
    if (endpoint.access === 'public') {
      app.get(path, (request, reply) => {
        const query = readQuery(request.raw.url ?? '');
        if (query.kind === 'undecodable') throw new ReplyError(BAD_REQUEST);
        if (query.kind === 'ambiguous') throw new ReplyError(INVALID_INPUT);
        const text = answer(sessionBackendOf(backend, request), query.values, '');
        // Sent synchronously where possible: a tick of promises costs as much as the answer.
        return text instanceof Promise
          ? text.then((later) => sendAnswer(reply, later, isWatched))
          : sendAnswer(reply, text, isWatched);
      });
    }
    app.post(path, async (request, reply) => {
      const body = Buffer.isBuffer(request.body) ? request.body : undefined;
      const signed = { path, headers: request.headers, body };
      const sessionBackend = sessionBackendOf(backend, request);
      const text = await authenticated(signed, isAnswer, async (apiKey, fields) =>
        answer(sessionBackend, fields, apiKey),
      );
      return sendAnswer(reply, text, isWatched);
    });
  }
}

/** Date, identity and rate-limit headers on every reply; refuses beyond an enforced limit. */
function addHeaders(app: FastifyInstance, context: ServerContext): void {
  const { backend, clock, variants } = context;
  const { rateLimit } = variants;
  const rule = typeof rateLimit === 'object' ? rateLimit : undefined;
  const countOf = rule && rateWindows(clock, rule);
  const limit = rateLimit === 'dialect' ? dialectOf(variants.dialect).endpointLimit : undefined;
  const blockedSOf = limit && endpointBlocks(clock, limit);
  app.addHook('onRequest', (request, reply, done) => {
    // Node would write this machine's time; clients estimate the exchange's time from this header.
    reply.raw.sendDate = false;
    reply.header(IDENTITY_HEADER, backend.identity);
    // Control requests come from no client of the exchange.
    const isClient = !isControlPath(request.url);
    try {
      const sessionBackend = isClient ? openSession(backend, request, reply) : backend;
      reply.header('date', httpDate(sessionBackend.nowMs()));
    } catch (error) {
      reply.header('date', httpDate(backend.nowMs()));
      return done(error as Error);
    }
    if (countOf && isClient) {
      const standing = countOf(request.ip);
      reply.header('x-ratelimit-limit', String(standing.limit));
      reply.header('x-ratelimit-remaining', String(standing.remaining));
      reply.header('x-ratelimit-reset', String(standing.resetS));
      if (rule?.enforce === true && standing.isExceeded) {
        return done(new ReplyError(tooManyRequests(standing.resetS)));
      }
    }
    const blockedS = isClient ? (blockedSOf?.(request.ip, pathOf(request.url)) ?? 0) : 0;
    if (blockedS > 0) return done(new ReplyError(tooManyRequests(blockedS)));
    if (!isUnambiguous(request.raw)) return done(new ReplyError(BAD_REQUEST));
    return done();
  });
}

/** A request that node's parser gave up on has no reply object: the page goes to the socket. */
function answerUnparsable(context: ServerContext, socket: Socket): void {
  if (socket.writable) {
    socket.end(bareReplyText(BAD_REQUEST, context.backend));
    context.telemetry.served({ endpoint: 'unparsable', status: 400, durationMs: 0 });
  }
  // The peer may never close its side; what it still sends is not read any more.
  socket.once('finish', () => socket.destroy());
  if (!socket.writable) socket.destroy();
}

function addErrors(
  app: FastifyInstance,
  context: ServerContext,
  endpointOfPath: ReadonlyMap<string, EndpointName>,
): void {
  const { backend, variants } = context;
  const inShape = ERROR_SHAPES[variants.errorShapes];
  const missing = (request: FastifyRequest, reply: FastifyReply) => {
    const path = pathOf(request.raw.url ?? '');
    if (variants.errorShapes === 'contract') return send(reply, notFound(path, backend.nowMs()));
    const isNumbered = variants.errorShapes === 'numbered';
    return send(reply, isNumbered ? ROUTE_NOT_FOUND : familyNotFound(request.method, path));
  };
  app.setNotFoundHandler(missing);
  app.setErrorHandler((error: unknown, request, reply) => {
    const refusal = refusalIn(error);
    if (refusal !== undefined) return send(reply, inShape(refusal));
    if (request.is404) return missing(request, reply);
    // Fastify itself refuses a body that is too long or broken off: it could not be
    // authenticated.
    const status: unknown = (error as { statusCode?: unknown }).statusCode;
    const isBodyFault = typeof status === 'number' && status >= 400 && status < 500;
    if (isBodyFault) return send(reply, AUTHENTICATION_FAILURE);
    context.telemetry.handlerFailed(failureOf(endpointOf(endpointOfPath, request), error));
    return send(reply, INTERNAL_ERROR);
  });
}

/** The contract over HTTP, not listening yet. */
export function buildHttpServer(context: ServerContext): FastifyInstance {
  const { telemetry } = context;
  const endpointOfPath = servedEndpoints(context);
  const app = fastify({
    logger: false,
    bodyLimit: REQUEST_BODY_MAX_BYTES,
    requestTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS,
    forceCloseConnections: true,
    // A GET without its body (RFC 9110, section 9.3.2).
    exposeHeadRoutes: true,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: LOOK_EVERY_MS,
      // Node would answer a missing Host by itself, and not with the contract's page.
      requireHostHeader: false,
    },
    clientErrorHandler: (_error, socket) => answerUnparsable(context, socket),
    frameworkErrors: (_error, _request, reply) => {
      reply.raw.sendDate = false;
      reply.header('date', httpDate(context.backend.nowMs()));
      reply.header(IDENTITY_HEADER, context.backend.identity);
      send(reply, BAD_REQUEST);
    },
  });
  app.removeAllContentTypeParsers();
  // Bodies stay bytes: the signature is over what was received, whatever it claims to be.
  app.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body));
  app.addHook('onResponse', (request, reply, done) => {
    telemetry.served({
      endpoint: endpointOf(endpointOfPath, request),
      status: reply.statusCode,
      durationMs: reply.elapsedTime,
    });
    done();
  });
  // Node would answer an expectation that it does not know with a 417 that the contract lacks.
  app.server.on('checkExpectation', ({ socket }: IncomingMessage) =>
    answerUnparsable(context, socket),
  );
  addHeaders(app, context);
  addErrors(app, context, endpointOfPath);
  addRoutes(app, context, endpointOfPath);
  addControl(app, context);
  addInterference(app, context, endpointOfPath);
  addDocuments(app, context);
  return app;
}

/** Made at the first request, since most servers are never asked. */
function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

/** The WebSocket under the name by which the caller reached us; nothing when it gave none. */
function serversFor(host: string | undefined): JsonObject {
  const url = `ws://${host ?? ''}${REALTIME_PATH}`;
  return host !== undefined && URL.canParse(url) ? { servers: realtimeServers(url) } : {};
}

/**
 * Serves the descriptions of both interfaces, made from the tables of the contract: OpenAPI for
 * HTTP, AsyncAPI for the WebSocket.
 */
function addDocuments(app: FastifyInstance, speech: Speech): void {
  const { dialect } = speech.variants;
  const openApi = once(() => JSON.stringify(openApiDocument({ version: API_VERSION, dialect })));
  const asyncApi = once(() => asyncApiDocument({ version: API_VERSION }, speech));
  app.get(OPENAPI_PATH, (_request, reply) => sendJson(reply, openApi()));
  app.get(ASYNCAPI_PATH, (request, reply) => {
    const document = { ...asyncApi(), ...serversFor(request.headers.host) };
    return sendJson(reply, JSON.stringify(document));
  });
}
