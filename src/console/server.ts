import { readFile } from 'node:fs/promises';
import { STATUS_CODES } from 'node:http';
import { createSecureContext } from 'node:tls';
import {
  type FastifyInstance,
  type FastifyReply,
  type FastifyRequest,
  type FastifyServerOptions,
  fastify,
} from 'fastify';
import { type Clock, systemClock } from '../kernel/clock.js';
import { limitConnections, listeningPlace } from '../kernel/connections.js';
import { codeOf, messageOf, TapekeepError } from '../kernel/errors.js';
import { LoopShare } from '../kernel/loop-share.js';
import { nearestName } from '../kernel/nearest.js';
import { takeTurns } from '../kernel/request-turns.js';
import type { DaemonEvents } from '../observe/events.js';
import type { Handlers } from './api/endpoints.js';
import { Refusal, refusalOf } from './api/refusal.js';
import { addApi, addDescription, addEvents, untilShare } from './api/routes.js';
import { addGuards, refuse } from './guards.js';
import { type HealthReport, reportOf, shared } from './health.js';
import { Live, type LiveSources } from './live.js';
import { Logins } from './logins.js';
import { ASSETS_FOLDER, addLogin, addPages, readAssets } from './site.js';
import { type DiskSpace, StateWatch } from './state.js';
import {
  type DaemonStatus,
  type StatusDocument,
  type StatusReports,
  type StatusSelection,
  statusSchema,
} from './status-document.js';

/** The document of a daemon, which is the one that is served. */
export type ServedDocument = StatusDocument & { readonly daemon: DaemonStatus };

export interface StatusServerOptions {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Secret of operators; null: whoever asks by an address of this machine is one. */
  readonly token?: string | null;
  /** Secret of viewers, who read and change nothing. */
  readonly viewerToken?: string | null;
  /** PEM files of a certificate and its key, to serve https; null: http. */
  readonly tls?: { readonly certFile: string; readonly keyFile: string } | null;
  /** Version of the program. */
  readonly version: string;
  /** The metrics in Prometheus' text format. */
  readonly metricsText: () => Promise<string>;
  /** Is this process itself alive: do its loops run? Not ok means: restart it. */
  readonly health: () => Promise<HealthReport>;
  /** Can it do its work: database, exchange, lock? Not ok means: look, do not restart. */
  readonly ready: () => Promise<HealthReport>;
  readonly statusJson: (selection: StatusSelection, reports: StatusReports) => ServedDocument;
  /** Disks of the archive on this machine, as last measured. */
  readonly disks?: () => readonly DiskSpace[];
  /** That are configured, collected or stored; undefined before that is known. */
  readonly knownMarkets: () => ReadonlySet<string> | undefined;
  /** Sources of events beside the state. */
  readonly live: Omit<LiveSources, 'state'>;
  /** The exchange's time now. */
  readonly nowMs: () => number;
  /** The other endpoints of the API. */
  readonly handlers?: Partial<Omit<Handlers, 'who' | 'status'>>;
  /** Folder with the files of the pages; default: where the build puts them. */
  readonly assetsFolder?: string;
  readonly clock?: Clock;
  /** Receives requests, logins and failures. */
  readonly telemetry?: Pick<DaemonEvents, 'warned' | 'consoleAnswered' | 'loginTried'>;
}

export interface StatusServer {
  /** `http://127.0.0.1:9464` */
  readonly url: string;
  readonly port: number;
  /** Looks at the state, so that it is known since when it is as it is. Never rejects. */
  noteState(): Promise<void>;
  /** Closes the port and all connections. Safe to call twice. */
  stop(): Promise<void>;
}

/** The console cannot listen where it should. */
export class StatusServerError extends TapekeepError {
  constructor(message: string, cause: unknown) {
    super('status_server', message, { cause });
  }
}

/** Longest wait for health, readiness and metrics. */
const ANSWER_LIMIT_MS = 5000;
const MAX_CONNECTIONS = 64;
/** A request must have arrived by then. */
const HEADERS_LIMIT_MS = 5000;
/** How often Node looks for those that have not; its own default is half a minute. */
const LOOK_EVERY_MS = 1000;
const MAX_HEADER_BYTES = 8192;
/** Body of a request, where its route does not allow more. */
const BODY_MAX = 1024;
/** Longest part of a path, such as the name of a market. */
const PARAM_MAX = 512;
/** Share of the event loop for requests: to read them, refuse them, and answer health and readiness. */
const REQUESTS_SHARE = 0.05;
/** Share of the event loop for documents and metrics, which take longer: health does not wait for them. */
const DOCUMENTS_SHARE = 0.1;
/** Answers of Node to bytes that are no request, by the code of the error; 400 else. */
const UNREAD_STATUS: Readonly<Record<string, number>> = {
  HPE_HEADER_OVERFLOW: 431,
  ERR_HTTP_REQUEST_TIMEOUT: 408,
};
/** Selection that a headline needs. */
const HEADLINE: StatusSelection = { worst: 0 };
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8';

function listenFault(options: StatusServerOptions, error: unknown): StatusServerError {
  const where = `port ${options.port} on ${options.host}`;
  const texts: Readonly<Record<string, string>> = {
    EADDRINUSE: `${where} is in use, perhaps by a tapekeep that runs already: stop that, or set http.port (TAPEKEEP_HTTP_PORT) to a free port, or to 0 to have one picked`,
    EACCES: `${where} may not be opened by this user: set http.port to 1024 or above`,
    EADDRNOTAVAIL: `${options.host} is no address of this machine: correct http.host`,
    ENOTFOUND: `${options.host} is not known: correct http.host`,
  };
  const text = texts[codeOf(error)] ?? `cannot listen: ${messageOf(error)}`;
  return new StatusServerError(`Console (http.host, http.port): ${text}.`, error);
}

type Guarded = () => Promise<HealthReport>;

/** Adds what orchestrators ask without a login; strangers see the names of the checks alone. */
function addHealth(app: FastifyInstance, health: Guarded, ready: Guarded): void {
  const answer = async (ask: Guarded, { caller }: FastifyRequest, reply: FastifyReply) => {
    const report = await reportOf(ask);
    const isKnown = caller === 'viewer' || caller === 'operator';
    const checks = isKnown ? report.checks : report.checks.map(({ name, ok }) => ({ name, ok }));
    return reply.code(report.ok ? 200 : 503).send({ ...report, checks });
  };
  const options = (name: string) => ({ config: { name, needs: 'open' } }) as const;
  app.get('/healthz', options('healthz'), (request, reply) => answer(health, request, reply));
  app.get('/readyz', options('readyz'), (request, reply) => answer(ready, request, reply));
}

function addMetrics(app: FastifyInstance, share: LoopShare, metrics: () => Promise<string>): void {
  app.get('/metrics', { config: { name: 'metrics' } }, async (_request, reply) => {
    await untilShare(share);
    return reply.type(METRICS_TYPE).send(await metrics());
  });
}

/** @throws Refusal for a market of which there is nothing: it would look like one without rows */
function refuseUnknown(markets: readonly string[], known: ReadonlySet<string> | undefined): void {
  const unknown = markets.find((name) => known?.has(name) === false);
  if (known === undefined || unknown === undefined) return;
  const nearest = nearestName(unknown, known);
  const advice =
    nearest === undefined ? 'without market= all are listed' : `did you mean ${nearest}?`;
  const text = `nothing is collected or stored of a market ${JSON.stringify(unknown)}; ${advice}`;
  throw new Refusal(400, text);
}

/** Makes what rests on the document of status: the endpoint, the headline, and who asks. */
function ownSources(
  options: StatusServerOptions,
  logins: Logins,
  reports: () => Promise<StatusReports>,
) {
  const watch = new StateWatch(options.clock ?? systemClock);
  const state = async () => {
    return watch.stateOf(options.statusJson(HEADLINE, await reports()), options.disks?.());
  };
  const handlers: Pick<Handlers, 'who' | 'status'> = {
    who: async (_input, _signal, role) => {
      return { role, isLoginNeeded: logins.isNeeded, version: options.version };
    },
    status: async ({ market, kind, worst }) => {
      refuseUnknown(market ?? [], options.knownMarkets());
      const selection = { markets: market, kinds: kind, worst };
      const document = options.statusJson(selection, await reports());
      // The state is of all, whatever was selected.
      return { ...document, state: await state() };
    },
  };
  return { handlers, state };
}

/** Returns true if a path is one of a route, such as `/market/:market` or `/assets/*`. */
function isOf(route: string, path: string): boolean {
  const [wanted, given] = [route.split('/'), path.split('/')];
  if (wanted.length !== given.length) return false;
  return wanted.every((part, at) => part === given[at] || /^[:*]/.test(part));
}

/** Notes every route, to tell the methods that a path has. */
function noteRoutes(app: FastifyInstance): (path: string) => string[] {
  const routes: { readonly url: string; readonly methods: readonly string[] }[] = [];
  app.addHook('onRoute', ({ url, method }) => {
    routes.push({ url, methods: [method].flat() });
  });
  return (path) => [
    ...new Set(routes.filter(({ url }) => isOf(url, path)).flatMap(({ methods }) => methods)),
  ];
}

/** Words for failures of the framework, which has its own for programmers. */
const FRAMEWORK_TEXTS: Readonly<Record<number, string>> = {
  400: 'the body is no valid JSON; send one JSON object',
  413: 'the body is too large; ask in parts',
  415: 'send the body as content-type: application/json',
};

function addFailures(app: FastifyInstance, { telemetry }: StatusServerOptions): void {
  const methodsOf = noteRoutes(app);
  app.setNotFoundHandler((request, reply) => {
    const methods = methodsOf(request.url.split('?')[0] ?? '');
    if (methods.length === 0) return refuse(reply, 404, 'no such page');
    void reply.header('allow', methods.join(', '));
    return refuse(reply, 405, `this address answers ${methods.join(' and ')} only`);
  });
  app.setErrorHandler((error: Error & { readonly statusCode?: number }, request, reply) => {
    const refusal = refusalOf(error);
    if (refusal !== undefined) {
      if (refusal.retryAfterS !== undefined) {
        void reply.header('retry-after', String(refusal.retryAfterS));
      }
      return refuse(reply, refusal.status, refusal.message);
    }
    const { statusCode = 500 } = error;
    if (statusCode >= 400 && statusCode < 500) {
      const text = FRAMEWORK_TEXTS[statusCode] ?? STATUS_CODES[statusCode] ?? 'refused';
      return refuse(reply, statusCode, text);
    }
    const name = request.routeOptions.config.name ?? 'request';
    telemetry?.warned({ code: codeOf(error), message: `console: ${name}: ${messageOf(error)}` });
    return refuse(reply, 503, 'cannot be answered at present; see the log');
  });
}

/** Reads bodies of JSON and of forms, and no others. */
function addBodies(app: FastifyInstance): void {
  app.removeContentTypeParser('text/plain');
  app.addContentTypeParser(
    'application/x-www-form-urlencoded',
    { parseAs: 'string' },
    (request, body, done) => {
      const isForm = /^\/log(?:in|out)$/.test(request.routeOptions.url ?? '');
      if (isForm) done(null, new URLSearchParams(String(body)));
      else done(Object.assign(new Error('no form'), { statusCode: 415 }), undefined);
    },
  );
}

/** Fastify has a type for each kind of server; here all are used alike. */
const makeApp = fastify as unknown as (options: FastifyServerOptions) => FastifyInstance;

/** @throws StatusServerError for files that cannot be read, or that do not belong together */
async function readTls(files: { readonly certFile: string; readonly keyFile: string }) {
  const read = async (key: keyof typeof files) =>
    await readFile(files[key]).catch((error: unknown) => {
      const text = `http.tls.${key} cannot be read (${messageOf(error)}); correct the path or its permissions`;
      throw new StatusServerError(`Console: ${text}.`, error);
    });
  const pair = { cert: await read('certFile'), key: await read('keyFile') };
  try {
    createSecureContext(pair);
  } catch (error) {
    const text = `http.tls.certFile and http.tls.keyFile are no certificate and its key in PEM form (${messageOf(error)})`;
    throw new StatusServerError(`Console: ${text}; name the right files.`, error);
  }
  return pair;
}

/**
 * Opens the HTTP interface for people and programs: pages, API, metrics, health.
 *
 * @throws StatusServerError when the address cannot be listened on; it names the key to change.
 */
export async function startStatusServer(options: StatusServerOptions): Promise<StatusServer> {
  const { clock = systemClock, telemetry, token = null, viewerToken = null } = options;
  const limits = {
    maxHeaderSize: MAX_HEADER_BYTES,
    headersTimeout: HEADERS_LIMIT_MS,
    connectionsCheckingInterval: LOOK_EVERY_MS,
  };
  const tls = options.tls ? await readTls(options.tls) : undefined;
  const app = makeApp({
    ...(tls === undefined
      ? { http: limits }
      : { https: { ...limits, ...tls, handshakeTimeout: HEADERS_LIMIT_MS } }),
    logger: false,
    exposeHeadRoutes: true,
    bodyLimit: BODY_MAX,
    connectionTimeout: 15_000,
    requestTimeout: HEADERS_LIMIT_MS,
    keepAliveTimeout: 10_000,
    forceCloseConnections: true,
    routerOptions: { maxParamLength: PARAM_MAX },
  });
  limitConnections(app.server, MAX_CONNECTIONS);
  takeTurns(app.server, new LoopShare(clock, REQUESTS_SHARE));
  app.addHook('onResponse', async (request, { statusCode: status }) => {
    telemetry?.consoleAnswered({ endpoint: request.routeOptions.config.name ?? 'other', status });
  });
  // Node itself answers these, before there is a request.
  app.server.on('clientError', (error) => {
    const status = UNREAD_STATUS[codeOf(error)] ?? 400;
    if (codeOf(error) !== 'ECONNRESET') telemetry?.consoleAnswered({ endpoint: 'other', status });
  });
  const logins = new Logins(clock, { operator: token, viewer: viewerToken }, telemetry);
  addGuards(app, logins);
  addBodies(app);
  addFailures(app, options);
  const guarded = <T>(ask: () => Promise<T>) => shared(clock, ANSWER_LIMIT_MS, ask);
  const share = new LoopShare(clock, DOCUMENTS_SHARE);
  const [health, ready] = [guarded(options.health), guarded(options.ready)];
  addHealth(app, health, ready);
  const metrics = guarded(async () => {
    const startedMs = clock.monotonicMs();
    const text = await options.metricsText();
    share.charge(clock.monotonicMs() - startedMs);
    return text;
  });
  addMetrics(app, share, metrics);
  app.get('/status/schema', { config: { name: 'status/schema' } }, (_request, reply) =>
    reply.type('application/schema+json').send(statusSchema()),
  );
  const reports = async () => {
    const [alive, able] = await Promise.all([reportOf(health), reportOf(ready)]);
    return { health: alive, ready: able };
  };
  const own = ownSources(options, logins, reports);
  addApi(app, { handlers: { ...options.handlers, ...own.handlers }, clock, share });
  const sources = { ...options.live, state: own.state };
  const live = new Live({ clock, sources, nowMs: options.nowMs, telemetry });
  addEvents(app, live);
  addDescription(app, options.version);
  const assets = readAssets(options.assetsFolder ?? ASSETS_FOLDER);
  addPages(app, assets);
  addLogin(app, logins, assets);
  await app.listen({ host: options.host, port: options.port }).catch((error: unknown) => {
    throw listenFault(options, error);
  });
  const { port, authority } = listeningPlace(app.server, options.host);
  const stop = async () => {
    live.stop();
    await app.close();
  };
  const noteState = async () => {
    await own.state().catch(() => undefined);
  };
  const scheme = tls === undefined ? 'http' : 'https';
  return { url: `${scheme}://${authority}`, port, noteState, stop };
}
