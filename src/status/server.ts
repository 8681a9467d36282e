import { createHash, timingSafeEqual } from 'node:crypto';
import { type FastifyInstance, type FastifyReply, type FastifyRequest, fastify } from 'fastify';
import { type Clock, systemClock } from '../kernel/clock.js';
import {
  isFromOtherSite,
  isLocalHost,
  limitConnections,
  listeningPlace,
} from '../kernel/connections.js';
import { codeOf, messageOf, TapekeepError } from '../kernel/errors.js';
import { LoopShare } from '../kernel/loop-share.js';
import { nearestName } from '../kernel/nearest.js';
import { takeTurns } from '../kernel/request-turns.js';
import { nameMeant } from '../model/kinds.js';
import { STREAM_KINDS } from '../model/series.js';
import type { DaemonEvents } from '../observe/events.js';
import { type StatusReports, type StatusSelection, statusSchema } from './document.js';
import { type HealthReport, reportOf, shared } from './health.js';
import { PAGE_POLICY, PAGE_STREAMS, renderPage, type ServedDocument } from './page.js';

export interface StatusServerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /**
   * Secret that readers must send, except to /healthz and /readyz: as Bearer token, or, as browsers do
   * when asked, as the password of HTTP Basic under whatever name.
   */
  readonly token?: string | null;
  /** The metrics in Prometheus' text format. */
  readonly metricsText: () => Promise<string>;
  /** Is this process itself alive: do its loops run? Not ok means: restart it. */
  readonly health: () => Promise<HealthReport>;
  /** Can it do its work: database, exchange, lock? Not ok means: look, do not restart. */
  readonly ready: () => Promise<HealthReport>;
  readonly statusJson: (selection: StatusSelection, reports: StatusReports) => ServedDocument;
  /** That are configured, collected or stored; undefined before that is known. */
  readonly knownMarkets: () => ReadonlySet<string> | undefined;
  readonly clock?: Clock;
  /** Receives the failures of requests. */
  readonly telemetry?: Pick<DaemonEvents, 'warned'>;
}

export interface StatusServer {
  /** `http://127.0.0.1:9464` */
  readonly url: string;
  readonly port: number;
  /** Closes the port and all connections. Safe to call twice. */
  stop(): Promise<void>;
}

/** The status server cannot listen where it should. */
export class StatusServerError extends TapekeepError {
  constructor(message: string, cause: unknown) {
    super('status_server', message, { cause });
  }
}

/** Longest wait for an answer. */
const ANSWER_LIMIT_MS = 5000;
const MAX_CONNECTIONS = 64;
/** A request, which has no body here, must have arrived by then. */
const HEADERS_LIMIT_MS = 5000;
/** How often Node looks for those that have not; its own default is half a minute. */
const LOOK_EVERY_MS = 1000;
const MAX_HEADER_BYTES = 8192;
/** Of the event loop, for requests: to read them, refuse them, and answer health and readiness. */
const REQUESTS_SHARE = 0.05;
/** Of the event loop, for status, page and metrics, which take longer: health does not wait for them. */
const DOCUMENTS_SHARE = 0.05;
/** A reader of a loaded machine gets a late document rather than none. */
const DOCUMENT_WAIT_MS = 30_000;
const JSON_TYPE = 'application/json; charset=utf-8';
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';
/** Paths that orchestrators ask without a token. They show names and answers, no details. */
const OPEN_PATHS: ReadonlySet<string> = new Set(['/healthz', '/readyz']);

/** The first makes browsers ask their user for a login. */
const CHALLENGES = ['Basic realm="tapekeep", charset="UTF-8"', 'Bearer'];
const NEEDED = {
  error:
    'send the token of http.token as Authorization: Bearer, or in a browser as the password, with any user name',
};

const BUSY = { error: 'pages are asked for more often than there is time for; ask less often' };

const digest = (text: string) => createHash('sha256').update(text).digest();

function isAuthorized(request: FastifyRequest, token: string | null): boolean {
  if (token === null) return true;
  return timingSafeEqual(digest(secretOf(request.headers.authorization ?? '')), digest(token));
}

function secretOf(authorization: string): string {
  const [, scheme = '', value = ''] = /^(Bearer|Basic) +(\S{1,2048})$/i.exec(authorization) ?? [];
  if (scheme.toLowerCase() !== 'basic') return value;
  const login = Buffer.from(value, 'base64').toString('utf8');
  return login.slice(login.indexOf(':') + 1);
}

/** A page of another site; one that only leads here is not shown what comes. Browsers add a login by themselves. */
function isFromOtherPage({ headers }: FastifyRequest): boolean {
  return isFromOtherSite(headers) && headers['sec-fetch-mode'] !== 'navigate';
}

/** Of several Host headers Node keeps the first; a proxy before us may have read another. */
function hasOneHost({ raw }: FastifyRequest): boolean {
  return (raw.headersDistinct.host ?? []).length <= 1;
}

function listenFault(options: StatusServerOptions, error: unknown): StatusServerError {
  const where = `port ${options.port} on ${options.host}`;
  const texts: Readonly<Record<string, string>> = {
    EADDRINUSE: `${where} is in use, perhaps by a tapekeep that runs already: stop that, or set http.port (TAPEKEEP_HTTP_PORT) to a free port, or to 0 to have one picked`,
    EACCES: `${where} may not be opened by this user: set http.port to 1024 or above`,
    EADDRNOTAVAIL: `${options.host} is no address of this machine: correct http.host`,
    ENOTFOUND: `${options.host} is not known: correct http.host`,
  };
  const text = texts[codeOf(error)] ?? `cannot listen: ${messageOf(error)}`;
  return new StatusServerError(`Status server (http.host, http.port): ${text}.`, error);
}

function addGuards(app: FastifyInstance, token: string | null): void {
  app.addHook('onRequest', async (request, reply) => {
    void reply.headers({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
    });
    if (request.method !== 'GET' && request.method !== 'HEAD') {
      const allowed = { error: 'only GET and HEAD are served here' };
      return reply.code(405).header('allow', 'GET, HEAD').send(allowed);
    }
    if (!hasOneHost(request)) {
      return reply.code(400).send({ error: 'send one Host header' });
    }
    if (token === null && !isLocalHost(request.host)) {
      return reply.code(403).send({ error: 'ask by address or localhost, or set http.token' });
    }
    if (isFromOtherPage(request)) {
      return reply.code(403).send({ error: 'pages of other sites are not answered' });
    }
    const path = request.url.split('?')[0] ?? '';
    if (!OPEN_PATHS.has(path) && !isAuthorized(request, token)) {
      return reply.code(401).header('www-authenticate', CHALLENGES).send(NEEDED);
    }
  });
}

/** What a query asks of the document: `?market=A&kind=candles&worst=20`, or a sentence on what is wrong. */
function selectionOf(
  query: URLSearchParams,
  known: ReadonlySet<string> | undefined,
): StatusSelection | string {
  const unknown = [...query.keys()].find((name) => !/^(market|kind|worst)$/.test(name));
  if (unknown !== undefined) return 'only market, kind (both may be repeated) and worst are taken';
  const list = (name: string) => (query.has(name) ? query.getAll(name) : undefined);
  const worst = query.get('worst');
  if (worst !== null && !/^\d{1,6}$/.test(worst))
    return 'write worst as a whole number; 0 lists none';
  const limit = worst === null ? undefined : Number(worst);
  const kinds = list('kind')?.map((word) => nameMeant(word, STREAM_KINDS));
  // Else it would look like a stream without rows.
  if (kinds?.includes(undefined) === true) return `kind is one of ${STREAM_KINDS.join(', ')}`;
  const markets = list('market');
  const unknownMarket = markets?.find((name) => known?.has(name) === false);
  if (known !== undefined && unknownMarket !== undefined) {
    const nearest = nearestName(unknownMarket, known);
    const advice =
      nearest === undefined ? 'without market= all are listed' : `did you mean ${nearest}?`;
    return `nothing is collected or stored of a market ${JSON.stringify(unknownMarket)}; ${advice}`;
  }
  return {
    markets,
    kinds: kinds?.filter((kind) => kind !== undefined),
    worst: limit,
  };
}

function addRoutes(app: FastifyInstance, options: StatusServerOptions): void {
  const clock = options.clock ?? systemClock;
  const token = options.token ?? null;
  const guarded = <T>(ask: () => Promise<T>) => shared(clock, ANSWER_LIMIT_MS, ask);
  const documents = new LoopShare(clock, DOCUMENTS_SHARE);
  const metrics = guarded(async () => {
    const startedMs = clock.monotonicMs();
    const text = await options.metricsText();
    documents.charge(clock.monotonicMs() - startedMs);
    return text;
  });
  const health = guarded(options.health);
  const ready = guarded(options.ready);

  const answer = async (
    ask: () => Promise<HealthReport>,
    request: FastifyRequest,
    reply: FastifyReply,
  ) => {
    const report = await reportOf(ask);
    const checks = isAuthorized(request, token)
      ? report.checks
      : report.checks.map(({ name, ok }) => ({ name, ok }));
    return reply.code(report.ok ? 200 : 503).send({ ok: report.ok, checks });
  };
  app.get('/healthz', (request, reply) => answer(health, request, reply));
  app.get('/readyz', (request, reply) => answer(ready, request, reply));
  const isBusy = async () => !(await documents.untilFree(DOCUMENT_WAIT_MS));
  const refuse = (reply: FastifyReply) => reply.code(503).header('retry-after', '5').send(BUSY);
  /** Undefined when there was no time for it. */
  const status = async (
    selection: StatusSelection,
    write: (document: ServedDocument) => string,
  ): Promise<string | undefined> => {
    const [alive, able] = await Promise.all([reportOf(health), reportOf(ready)]);
    const reports = { health: alive, ready: able };
    // Of those that wait the first may have used the share up.
    while (!documents.isFree) if (await isBusy()) return undefined;
    return documents.spend(() => write(options.statusJson(selection, reports)));
  };
  app.get('/metrics', async (_request, reply) => {
    if (await isBusy()) return refuse(reply);
    return reply.type(METRICS_TYPE).send(await metrics());
  });
  app.get('/status', async (request, reply) => {
    const { searchParams } = new URL(request.url, 'http://localhost');
    const selection = selectionOf(searchParams, options.knownMarkets());
    if (typeof selection === 'string') return reply.code(400).send({ error: selection });
    const text = await status(selection, JSON.stringify);
    return text === undefined ? refuse(reply) : reply.type(JSON_TYPE).send(text);
  });
  app.get('/status/schema', (_request, reply) =>
    reply.type('application/schema+json').send(statusSchema()),
  );
  app.get('/', async (_request, reply) => {
    const page = await status({ worst: PAGE_STREAMS }, renderPage);
    if (page === undefined) return refuse(reply);
    return reply
      .type('text/html; charset=utf-8')
      .header('content-security-policy', PAGE_POLICY)
      .send(page);
  });
}

/**
 * Opens the HTTP interface for operators: `/`, `/status`, `/metrics`, `/healthz`, `/readyz`; all of
 * them read-only.
 *
 * @throws StatusServerError when the address cannot be listened on; it names the key to change.
 */
export async function startStatusServer(options: StatusServerOptions): Promise<StatusServer> {
  const app = fastify({
    logger: false,
    exposeHeadRoutes: true,
    bodyLimit: 1024,
    connectionTimeout: 15_000,
    requestTimeout: HEADERS_LIMIT_MS,
    keepAliveTimeout: 10_000,
    forceCloseConnections: true,
    http: {
      maxHeaderSize: MAX_HEADER_BYTES,
      headersTimeout: HEADERS_LIMIT_MS,
      connectionsCheckingInterval: LOOK_EVERY_MS,
    },
  });
  limitConnections(app.server, MAX_CONNECTIONS);
  takeTurns(app.server, new LoopShare(options.clock ?? systemClock, REQUESTS_SHARE));
  addGuards(app, options.token ?? null);
  addRoutes(app, options);
  app.setNotFoundHandler((_request, reply) => reply.code(404).send({ error: 'no such page' }));
  app.setErrorHandler((error, _request, reply) => {
    options.telemetry?.warned({ code: codeOf(error), message: `status: ${messageOf(error)}` });
    return reply.code(503).send({ error: 'cannot be answered at present; see the log' });
  });
  await app.listen({ host: options.host, port: options.port }).catch((error: unknown) => {
    throw listenFault(options, error);
  });
  const { port, authority } = listeningPlace(app.server, options.host);
  return { url: `http://${authority}`, port, stop: () => app.close() };
}
