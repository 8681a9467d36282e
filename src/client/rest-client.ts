import { type Dialect, dialectOf, type Params, type SpokenEndpoint } from '../contract/dialects.js';
import {
  type Endpoint,
  type EndpointName,
  endpointNames,
  endpoints,
  type FilledParamsOf,
  type ParamsOf,
  type ResultOf,
} from '../contract/endpoints.js';
import { type Asked, describeIssues, show } from '../contract/shape.js';
import { intervalText } from '../kernel/durations.js';
import { codeOf, messageOf } from '../kernel/errors.js';
import type { RequestOutcome } from '../observe/events.js';
import {
  ExchangeError,
  FieldErrorsError,
  InvalidParameterError,
  isRefusal,
  MissingCredentialsError,
  NotOfferedError,
  type OrderRequest,
  RateLimitedError,
  safeExcerpt,
  TimeoutError,
  UnknownOutcomeError,
} from './errors.js';
import {
  type CallOptions,
  DEFAULT_PRIORITY,
  type ExchangeClientOptions,
  type Reply,
  type RequestTurn,
} from './exchange-client.js';
import { HttpTransport, StaleConnectionError, type TransportRequest } from './http-transport.js';
import {
  DATE_RESOLUTION_MS,
  headerText,
  identityOf,
  parseHttpDate,
  parseRetryAfter,
  type ReplyHead,
  readRateLimit,
  readReply,
} from './reply-reader.js';
import { RequestGate, Semaphore } from './request-gate.js';
import { RequestSigner } from './request-signer.js';

const DEFAULT_TIMEOUT_MS = 10_000;
const DEFAULT_CONNECTIONS = 8;
/** How long to wait after a 429 that does not say how long. */
const UNSPOKEN_RETRY_AFTER_MS = 1000;
/** Waits that the exchange asks for are lengthened by up to this fraction. */
const WAIT_SPREAD = 0.1;

/** A request, and the question that it asks in the exchange's words. */
interface Built {
  readonly request: TransportRequest;
  readonly query: Params;
}

/** A request on its way: how it is made when its turn has come, and who is notified that it leaves. */
interface Sending<R> {
  readonly name: EndpointName;
  readonly endpoint: SpokenEndpoint<R>;
  readonly asked: Params;
  readonly options: CallOptions;
  readonly build: () => Built | Promise<Built>;
  readonly onLeaving?: () => void;
}

/** Calls endpoints of the table: checks, waits, signs, sends, reads, counts. */
export class EndpointCaller {
  readonly #options: ExchangeClientOptions;
  readonly #transport: HttpTransport;
  readonly #timeoutMs: number;
  readonly #gate: RequestGate;
  /** Signed requests go one at a time, so that nonces arrive in their order. */
  readonly #signing = new Semaphore(1);
  readonly #signer: RequestSigner | undefined;
  readonly #secrets: readonly string[];
  /** Endpoints at which the exchange refused an offset of 0. */
  readonly #raised = new Set<EndpointName>();
  readonly #dialect: Dialect;

  /** @throws InvalidAddressError when `baseUrl` is not a plain http or https address */
  constructor(options: ExchangeClientOptions) {
    this.#options = options;
    this.#dialect = dialectOf(options.dialect ?? 'contract');
    const connections = options.connections ?? DEFAULT_CONNECTIONS;
    this.#timeoutMs = options.timeoutMs ?? DEFAULT_TIMEOUT_MS;
    this.#transport = new HttpTransport({
      baseUrl: options.baseUrl,
      clock: options.clock,
      timeoutMs: this.#timeoutMs,
      maxBodyBytes: options.maxBodyBytes,
      connections,
      proxy: options.proxy,
    });
    const { endpointLimit } = this.#dialect;
    this.#gate = new RequestGate(options.budget, options.clock, connections, endpointLimit);
    const { credentials, clock, signedContent, nonceStore } = options;
    this.#signer = credentials && new RequestSigner(credentials, clock, signedContent, nonceStore);
    this.#secrets = credentials ? [credentials.secret, credentials.apiKey] : [];
  }

  /**
   * Calls any endpoint of the table by its name (contract, Endpoints).
   *
   * @param name such as `depth` or `orderNew`; {@link endpoints} lists them with their limits
   * @param params the endpoint's parameters; those with a default may be left out
   * @returns what the endpoint answers, checked row by row
   * @throws every error of {@link ExchangeApi}; for `orderNew` also what its `placeOrder` throws
   */
  async call<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    options: CallOptions = {},
  ): Promise<Reply<ResultOf<N>>> {
    const checked = checkParams(name, params);
    const field = OFFSET_FIELDS[name];
    const isNewest = field !== undefined && checked[field] === 0;
    return isNewest
      ? await this.#callNewest(name, checked, field, options)
      : await this.#call(name, checked, options);
  }

  /**
   * Asks with an offset of 1 where an exchange refuses 0 by name, and remembers it. Where the offset is
   * an id that is the same page. Where it counts trades, the newest one is not on it: what was sent is
   * reported with the answer.
   */
  async #callNewest<N extends EndpointName>(
    name: N,
    params: Params,
    field: string,
    options: CallOptions,
  ): Promise<Reply<ResultOf<N>>> {
    const raised = { ...params, [field]: LOWEST };
    if (this.#raised.has(name)) {
      return { ...(await this.#call(name, raised, options)), isRaised: true };
    }
    try {
      return await this.#call(name, params, options);
    } catch (error) {
      const isRefused = error instanceof FieldErrorsError && Object.hasOwn(error.fields, field);
      if (!isRefused) throw error;
      const { turn: _used, ...again } = options;
      const reply = await this.#call(name, raised, again);
      this.#raised.add(name);
      return { ...reply, isRaised: true };
    }
  }

  async #call<N extends EndpointName>(
    name: N,
    params: Params,
    options: CallOptions,
  ): Promise<Reply<ResultOf<N>>> {
    const endpoint = this.#spoken(name, params);
    if (endpoint.access === 'private' || options.form === 'post') {
      return this.#callSigned(name, endpoint, params, options);
    }
    const build = (): Built => {
      const query = this.#queryOf(endpoint, params);
      const texts = Object.entries(query).map(([key, value]) => [key, String(value)]);
      const { path } = endpoint;
      const request = {
        endpoint: name,
        method: 'GET' as const,
        path,
        query: Object.fromEntries(texts),
      };
      return { request, query };
    };
    const sending = { name, endpoint, asked: params, options, build };
    try {
      return await this.#sendOnce(sending);
    } catch (error) {
      // The server had closed the idle connection meanwhile: no answer is lost by asking again.
      if (!(error instanceof StaleConnectionError)) throw error;
      return await this.#sendOnce(sending);
    }
  }

  /** As of the time at which the request leaves: some count from the present. */
  #queryOf(endpoint: SpokenEndpoint, params: Params): Params {
    return endpoint.ask(params, this.#options.exchangeClock.nowMs() / 1000);
  }

  /** @throws NotOfferedError, InvalidParameterError for what the exchange's dialect has no question for */
  #spoken<N extends EndpointName>(name: N, params: Params): SpokenEndpoint<ResultOf<N>> {
    const { name: dialect, endpoints: spoken, intervalsS, candlesMax, levelsMax } = this.#dialect;
    const endpoint = spoken[name];
    if (endpoint === undefined) throw new NotOfferedError(name, dialect);
    if (name === 'kline') {
      const { interval, start, end } = params as FilledParamsOf<'kline'>;
      if (intervalsS?.includes(interval) === false) {
        const detail = `interval: ${dialect} has candles of ${intervalsS.map(intervalText).join(', ')}, not of ${intervalText(interval)}`;
        throw new InvalidParameterError(name, detail);
      }
      const count = Math.floor((end - start) / interval) + 1;
      if (dialect !== 'contract' && count > candlesMax) {
        const detail = `end: ${count} candles are asked for, and ${dialect} gives ${candlesMax} at most`;
        throw new InvalidParameterError(name, detail);
      }
    }
    if (name === 'depth' && Number(params.limit) > levelsMax) {
      const detail = `limit: ${dialect} is known to answer ${levelsMax} levels at most`;
      throw new InvalidParameterError(name, detail);
    }
    return endpoint as SpokenEndpoint<ResultOf<N>>;
  }

  /** Returns true if the exchange has an endpoint, as far as its dialect says. */
  offers(name: EndpointName): boolean {
    return this.#dialect.endpoints[name] !== undefined;
  }

  /** Candles that `kline` may be asked for at once. */
  get candlesMax(): number {
    return this.#dialect.candlesMax;
  }

  /**
   * 24-hour figures of all markets at once. Contract: Ticker entry (endpoint tickers). They also carry the
   * time, for exchanges that send no Date header.
   *
   * @returns by name of the market: `at` in UNIX seconds, prices in money, `vol` in stock, `deal` in
   *   money, `change` in percent
   */
  async tickers(options?: CallOptions): Promise<Reply<ResultOf<'tickers'>>> {
    const { clock, exchangeClock } = this.#options;
    const reply = await this.call('tickers', {}, options);
    const atMs = newestTickerMs(reply.data);
    if (reply.dateMs !== null || atMs === undefined) return reply;
    const receivedMonotonicMs = clock.monotonicMs();
    const sentMonotonicMs = receivedMonotonicMs - reply.durationMs;
    const resolutionMs = DATE_RESOLUTION_MS;
    exchangeClock.observe({ dateMs: atMs, sentMonotonicMs, receivedMonotonicMs, resolutionMs });
    const sentAtMs = exchangeClock.atMonotonicMs(sentMonotonicMs);
    const answeredAtMs = exchangeClock.atMonotonicMs(receivedMonotonicMs);
    return { ...reply, sentAtMs, answeredAtMs };
  }

  /**
   * Waits until one request may be sent, so that what to ask for can be chosen then. Use the turn or
   * give it back at once: it holds a connection.
   *
   * @param name the endpoint that is likely to be called; an exchange may limit each
   * @param priority as {@link CallOptions.priority}
   * @returns the turn, for {@link CallOptions.turn}
   * @throws BudgetOverrunError when too many wait already; the signal's reason when it aborts first
   */
  reserve(name: EndpointName, priority: number, signal?: AbortSignal): Promise<RequestTurn> {
    return this.#gate.reserve(name, priority, signal);
  }

  /**
   * Ends all requests under way with an AbortedError and closes the connections. Idempotent.
   *
   * An order under way ends with an UnknownOutcomeError instead.
   */
  close(): Promise<void> {
    return this.#transport.close();
  }

  async #callSigned<R>(
    name: EndpointName,
    endpoint: SpokenEndpoint<R>,
    params: Params,
    options: CallOptions,
  ): Promise<Reply<R>> {
    const signer = this.#signer;
    if (signer === undefined) throw new MissingCredentialsError(name);
    const leave = await this.#signing.enter(0, options.signal);
    let release: () => Promise<void> = () => Promise.resolve();
    let hasLeft = false;
    try {
      // Signed last, when nothing but the sending is left: a request that waits holds no nonce.
      const build = async (): Promise<Built> => {
        const query = this.#queryOf(endpoint, params);
        const signed = await signer.sign(endpoint.path, query, options.signal);
        release = signed.release;
        const { body, headers } = signed;
        const request = {
          endpoint: name,
          method: 'POST' as const,
          path: endpoint.path,
          body,
          headers,
        };
        return { request, query };
      };
      const onLeaving = () => {
        hasLeft = true;
      };
      return await this.#sendOnce({ name, endpoint, asked: params, options, build, onLeaving });
    } catch (error) {
      // Whatever went wrong, it must not be taken for an order that can be sent again.
      const isUnknown = name === 'orderNew' && hasLeft && !isRefusal(error);
      throw isUnknown ? new UnknownOutcomeError(params as OrderRequest, error) : error;
    } finally {
      await release();
      leave();
    }
  }

  /** One request, from the budget to the checked answer. */
  async #sendOnce<R>(sending: Sending<R>): Promise<Reply<R>> {
    const { priority = DEFAULT_PRIORITY, signal, turn } = sending.options;
    const leave = await this.#gate.take(sending.name, priority, signal, turn);
    try {
      return await this.#send(await sending.build(), sending);
    } finally {
      leave();
    }
  }

  /** Sends, reads and counts; whatever happens, exactly one `requestEnded` reports it. */
  async #send<R>(
    { request, query }: Built,
    { name, endpoint, asked, options, onLeaving }: Sending<R>,
  ): Promise<Reply<R>> {
    const { clock, exchangeClock, telemetry } = this.#options;
    const sentMonotonicMs = clock.monotonicMs();
    let bytes = 0;
    const ended = (outcome: RequestOutcome, error?: unknown) => {
      const durationMs = clock.monotonicMs() - sentMonotonicMs;
      const reported =
        error === undefined ? {} : { error: { code: codeOf(error), message: messageOf(error) } };
      telemetry.requestEnded({ endpoint: name, outcome, durationMs, bytes, ...reported });
      return durationMs;
    };
    try {
      let retryAfterMs: number | undefined;
      const onHead = (head: ReplyHead) => {
        retryAfterMs = this.#learnFromHead(head, sentMonotonicMs);
      };
      const watch = { onHead, ...(onLeaving && { onLeaving }) };
      const reply = await this.#transport.send(request, options.signal, watch);
      const receivedMonotonicMs = clock.monotonicMs();
      const receivedAtMs = clock.wallMs();
      bytes = reply.body.length;
      // A process that stood still reads what waited before its timers run. What became of an order counts all the same.
      const isLate = receivedMonotonicMs - sentMonotonicMs > this.#timeoutMs;
      if (isLate && name !== 'orderNew')
        throw new TimeoutError({ endpoint: name }, this.#timeoutMs);
      const question = {
        name,
        endpoint,
        dialect: this.#dialect.name,
        asked: { ...asked, query } as Asked,
        isSigned: request.method === 'POST',
        secrets: this.#secrets,
        retryAfterMs,
      };
      const { data, rejected, cachedAtMs } = readReply<R>(question, reply);
      this.#options.budget.served();
      const durationMs = ended(rejected.length === 0 ? 'ok' : 'rejected_rows');
      const offset = OFFSET_FIELDS[name] ?? '';
      const sentAtMs = exchangeClock.atMonotonicMs(sentMonotonicMs);
      const { headers } = reply;
      return {
        isRaised: Number(query[offset]) > Number(asked[offset]),
        data,
        rejected,
        sentAtMs: Math.min(sentAtMs, cachedAtMs ?? Number.POSITIVE_INFINITY),
        answeredAtMs: exchangeClock.atMonotonicMs(receivedMonotonicMs),
        cachedAtMs: cachedAtMs ?? null,
        dateMs: parseHttpDate(headerText(headers, 'date')),
        identity: identityOf(headers),
        receivedAtMs,
        durationMs,
        bytes,
      };
    } catch (error) {
      // Some say it only in the body, under a good status.
      const isUnseen = error instanceof RateLimitedError && error.status !== 429;
      if (isUnseen) this.#slowDown(error.retryAfterMs, 'rate limit');
      ended(error instanceof ExchangeError ? error.outcome : 'aborted', error);
      throw error;
    }
  }

  /** Feeds the clock and the budget. @returns what Retry-After asks for, if this is a refusal */
  #learnFromHead(head: ReplyHead, sentMonotonicMs: number): number | undefined {
    const { budget, clock, exchangeClock } = this.#options;
    const dateMs = parseHttpDate(headerText(head.headers, 'date'));
    const receivedMonotonicMs = clock.monotonicMs();
    if (dateMs !== null) {
      const resolutionMs = DATE_RESOLUTION_MS;
      exchangeClock.observe({ dateMs, sentMonotonicMs, receivedMonotonicMs, resolutionMs });
    } else exchangeClock.observeUndated(sentMonotonicMs, receivedMonotonicMs);
    const limit = readRateLimit(head.headers, exchangeClock.nowMs());
    if (limit !== undefined) budget.observeHeaders(limit);
    if (head.status !== 429 && head.status !== 503) return undefined;
    const retryAfter = headerText(head.headers, 'retry-after');
    const waitMs = parseRetryAfter(retryAfter, dateMs ?? exchangeClock.nowMs(), exchangeClock.pace);
    if (head.status === 429) {
      this.#slowDown(waitMs, 'HTTP 429');
    } else if (waitMs !== undefined) {
      budget.pause(this.#spread(waitMs), 'HTTP 503 with Retry-After');
    }
    return waitMs;
  }

  #slowDown(waitMs: number | undefined, reason: string): void {
    this.#options.budget.refused();
    this.#options.budget.pause(this.#spread(waitMs ?? UNSPOKEN_RETRY_AFTER_MS), reason);
  }

  /** Never shorter than asked for, and not the same for all who were asked. */
  #spread(waitMs: number): number {
    return waitMs * (1 + WAIT_SPREAD * this.#options.random());
  }
}

/** The field that says from where on an endpoint's page of trades is to be. */
const OFFSET_FIELDS: Readonly<Partial<Record<EndpointName, string>>> = {
  history: 'lastId',
  historyResult: 'since',
};

/** The offset that stands for the newest page where 0 is refused: no trade's id is below it. */
const LOWEST = 1;

/**
 * The newest `at` among tickers, UNIX milliseconds, or undefined when there is none: the exchange's
 * time where a server sends no Date header. It may lag on a quiet exchange, never lead.
 */
function newestTickerMs(tickers: ResultOf<'tickers'>): number | undefined {
  let newestS = 0;
  for (const { at } of Object.values(tickers)) newestS = Math.max(newestS, at);
  return newestS > 0 ? Math.floor(newestS * 1000) : undefined;
}

/** Made once: zod compiles a schema on its first use, which costs more than a whole page of rows. */
const SCHEMAS = Object.fromEntries(
  endpointNames.map((name) => [name, endpoints[name].params.strict()]),
) as Readonly<Record<EndpointName, ReturnType<Endpoint['params']['strict']>>>;

/**
 * Checks parameters against the table and fills in defaults.
 *
 * @throws InvalidParameterError naming the field and the value
 */
function checkParams<N extends EndpointName>(name: N, given: ParamsOf<N>): Params {
  if (!Object.hasOwn(SCHEMAS, name)) {
    const detail = `there is no such endpoint; endpoints are ${endpointNames.join(', ')}`;
    throw new InvalidParameterError(safeExcerpt(String(name)), detail);
  }
  const checked = SCHEMAS[name].safeParse(given);
  if (checked.success) return checked.data;
  const { issues } = checked.error;
  const known = Object.keys(SCHEMAS[name].shape).join(', ') || 'none';
  if (issues[0]?.path.length === 0 && issues[0].code === 'invalid_type') {
    const what = given === undefined ? 'nothing' : safeExcerpt(show(given));
    throw new InvalidParameterError(name, `${what} was given; expected an object with ${known}`);
  }
  const [unknown] = issues.flatMap((issue) =>
    issue.code === 'unrecognized_keys' ? issue.keys : [],
  );
  if (unknown !== undefined) {
    throw new InvalidParameterError(name, `there is no parameter ${unknown}; it takes ${known}`);
  }
  const fields = issues.slice(0, 5).flatMap((issue) => issue.path.slice(0, 1));
  const values = fields.map((field) => {
    const value = (given as Record<PropertyKey, unknown>)[field];
    return value === undefined
      ? `${String(field)} is missing`
      : `${String(field)} = ${safeExcerpt(JSON.stringify(value) ?? String(value))}`;
  });
  throw new InvalidParameterError(name, `${describeIssues(checked.error)} (${values.join(', ')})`);
}
