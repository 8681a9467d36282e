import { HttpTransport, type TransportRequest } from '../../src/client/http-transport.js';
import {
  headerText,
  parseHttpDate,
  parseRetryAfter,
  type ReplyHead,
  type ReplyHeaders,
  readRateLimit,
} from '../../src/client/reply-reader.js';
import { type EndpointName, endpoints } from '../../src/contract/endpoints.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import type { Clock } from '../../src/kernel/clock.js';

/** An answer as it came: nothing about it is judged yet. */
export interface Answer {
  /** What was asked, for remarks. */
  readonly target: string;
  readonly status: number;
  readonly contentType: string;
  readonly headers: ReplyHeaders;
  readonly body: Uint8Array;
  readonly text: string;
  /** The decoded body; undefined when it is not JSON. */
  readonly json: unknown;
}

export type Query = Readonly<Record<string, string | number>>;

export interface ProbeOptions {
  readonly url: string;
  readonly clock: Clock;
  /** Requests per second on average. */
  readonly ratePerS: number;
  /** Requests in all; the next one is refused. */
  readonly maxRequests: number;
  readonly timeoutMs: number;
  readonly signal?: AbortSignal;
}

/** The run has used up its requests. */
export class RequestsUsedUpError extends Error {
  constructor(maxRequests: number) {
    super(`the run has used up its ${maxRequests} requests`);
    this.name = 'RequestsUsedUpError';
  }
}

const MAX_BODY_BYTES = 16 * 1024 * 1024;
/** How often a request is repeated that was refused for haste. */
const MAX_REPEATS = 3;
const UNSPOKEN_RETRY_AFTER_MS = 2000;
const PRIORITY = 0;

/**
 * Asks an exchange and returns what it says, whatever it is: the client's transport (bounded, no
 * redirects, one deadline) below the client's budget, which obeys rate-limit headers, 429 and
 * Retry-After.
 */
export class ExchangeProbe {
  readonly #options: ProbeOptions;
  readonly #budget: RequestBudget;
  readonly #transport: HttpTransport;
  readonly #known = new Map<string, Promise<Answer>>();
  #sent = 0;

  /** @throws InvalidAddressError when the address is not a plain http or https one */
  constructor(options: ProbeOptions) {
    const { url, clock, timeoutMs, ratePerS } = options;
    this.#options = options;
    this.#budget = new RequestBudget({ clock, ratePerS, burst: 1, maxWaiting: 1000 });
    const limits = { timeoutMs, maxBodyBytes: MAX_BODY_BYTES, connections: 1 };
    this.#transport = new HttpTransport({ baseUrl: url, clock, ...limits });
  }

  /** Requests sent so far. */
  get sent(): number {
    return this.#sent;
  }

  /** The open form of an endpoint; asked once a run, further callers get the same answer. */
  get(name: EndpointName, query: Query = {}): Promise<Answer> {
    const key = `${name} ${JSON.stringify(query)}`;
    const known = this.#known.get(key) ?? this.fresh(name, query);
    this.#known.set(key, known);
    return known;
  }

  /** The open form of an endpoint, asked now. */
  fresh(name: EndpointName, query: Query = {}): Promise<Answer> {
    const values = Object.entries(query).map(([key, value]) => [key, String(value)] as const);
    const { path } = endpoints[name];
    return this.send({ endpoint: name, method: 'GET', path, query: Object.fromEntries(values) });
  }

  /** Any request. Refusals for haste are waited out. */
  async send(request: TransportRequest): Promise<Answer> {
    for (let repeats = 0; ; repeats += 1) {
      const answer = await this.#sendOnce(request);
      if (answer.status !== 429 || repeats === MAX_REPEATS) return answer;
    }
  }

  close(): Promise<void> {
    return this.#transport.close();
  }

  async #sendOnce(request: TransportRequest): Promise<Answer> {
    const { signal, maxRequests } = this.#options;
    if (this.#sent >= maxRequests) throw new RequestsUsedUpError(maxRequests);
    this.#sent += 1;
    await this.#budget.take(PRIORITY, signal);
    await this.#budget.whenNotPaused(signal);
    const { status, headers, body } = await this.#transport.send(request, signal, {
      onHead: (head) => this.#learn(head),
    });
    const text = new TextDecoder().decode(body);
    const query = new URLSearchParams(request.query).toString();
    return {
      target: `${request.method} ${request.path}${query === '' ? '' : `?${query}`}`,
      status,
      headers,
      contentType: headerText(headers, 'content-type') ?? '',
      body,
      text,
      json: parseJson(text),
    };
  }

  #learn({ headers, status }: ReplyHead): void {
    const nowMs = parseHttpDate(headerText(headers, 'date')) ?? this.#options.clock.wallMs();
    const limit = readRateLimit(headers, nowMs);
    if (limit !== undefined) this.#budget.observeHeaders(limit);
    if (status !== 429 && status !== 503) return;
    const waitMs = parseRetryAfter(headerText(headers, 'retry-after'), nowMs, 1);
    this.#budget.refused();
    this.#budget.pause(waitMs ?? UNSPOKEN_RETRY_AFTER_MS, `HTTP ${status}`);
  }
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
