import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type Credentials,
  createExchangeClient,
  createExchangeClock,
  type ExchangeApi,
  type NonceStore,
} from '../../src/client/index.js';
import type { EndpointName, ParamsOf, ResultOf } from '../../src/contract/endpoints.js';
import type { SignedContent } from '../../src/contract/signing.js';
import { RequestBudget } from '../../src/kernel/budget.js';
import type { Clock } from '../../src/kernel/clock.js';
import { messageOf } from '../../src/kernel/errors.js';
import { systemRandom } from '../../src/kernel/random.js';
import { silentClientEvents } from '../../src/observe/events.js';
import { blameFor, checkReading } from './client-reading.js';
import type { Answer, ExchangeProbe } from './exchange-probe.js';
import { SideError } from './outcome.js';

/** A request as the typed client sent it. */
export interface SentRequest {
  readonly method: string;
  readonly path: string;
  readonly query: Readonly<Record<string, string>>;
  readonly headers: IncomingMessage['headers'];
  readonly body: Buffer;
}

/** One call of the typed client with everything that it sent, was told and read. */
export interface Asked<N extends EndpointName> {
  readonly request: SentRequest;
  readonly answer: Answer;
  readonly data: ResultOf<N>;
}

/** How the client signs, as everything else in the run does. */
export interface Signing {
  readonly signedContent: SignedContent;
  readonly nonceStore: NonceStore;
}

/** What passed while the client made one call. */
interface Passing {
  request?: SentRequest;
  answer?: Answer;
  error?: Error;
}

const MAX_REQUEST_BYTES = 64 * 1024;
/** The probe has the deadlines; the client must only never wait for ever. */
const CLIENT_TIMEOUT_MS = 15 * 60_000;
/** Headers that belong to one connection, or to the body as it was framed there. */
const OF_CONNECTION = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length']);

/**
 * The typed client at work on the exchange, through a relay of this process that keeps what passes:
 * so one answer is judged as it came, and as the client read it. The relay sends by the probe, and
 * thus within the same budget.
 */
export class ClientProbe {
  readonly #probe: ExchangeProbe;
  readonly #relay: Server;
  readonly #client: ExchangeApi;
  #passing: Passing = {};

  private constructor(probe: ExchangeProbe, relay: Server, client: ExchangeApi) {
    this.#probe = probe;
    this.#relay = relay;
    this.#client = client;
    relay.on('request', (request, response) => {
      this.#pass(request, response).catch((error: unknown) => {
        this.#passing.error = error instanceof Error ? error : new Error(messageOf(error));
        response.destroy();
      });
    });
  }

  static async open(
    probe: ExchangeProbe,
    clock: Clock,
    signing: Signing,
    credentials: Credentials | undefined,
  ): Promise<ClientProbe> {
    const relay = createServer();
    relay.listen(0, '127.0.0.1');
    await once(relay, 'listening');
    const client = createExchangeClient({
      baseUrl: `http://127.0.0.1:${(relay.address() as AddressInfo).port}`,
      clock,
      random: systemRandom,
      telemetry: silentClientEvents,
      budget: new RequestBudget({ clock, ratePerS: 10_000, burst: 100, maxWaiting: 10 }),
      exchangeClock: createExchangeClock({ clock }),
      timeoutMs: CLIENT_TIMEOUT_MS,
      ...signing,
      ...(credentials === undefined ? {} : { credentials }),
    });
    return new ClientProbe(probe, relay, client);
  }

  /**
   * Lets the typed client call an endpoint; one call at a time.
   *
   * @throws SideError when one side broke the contract; what the probe threw when nothing came
   */
  async ask<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    form: 'get' | 'post',
    signal?: AbortSignal,
  ): Promise<Asked<N>> {
    this.#passing = {};
    const passing = this.#passing;
    try {
      const options = signal === undefined ? { form } : { form, signal };
      const reply = await this.#client.call(name, params, options);
      const { request, answer } = passing;
      if (request === undefined || answer === undefined) throw new Error('nothing was sent');
      return { request, answer, data: checkReading(name, answer, reply, params) };
    } catch (error) {
      if (error instanceof SideError) throw error;
      if (passing.error !== undefined) throw passing.error;
      if (passing.answer !== undefined) throw blameFor(name, passing.answer, error, params);
      throw new SideError('client', `${name} was not asked: ${messageOf(error)}`);
    }
  }

  /** What the exchange said to the last call, however that ended. */
  get lastAnswer(): Answer | undefined {
    return this.#passing.answer;
  }

  async close(): Promise<void> {
    await this.#client.close();
    this.#relay.closeAllConnections();
    this.#relay.close();
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const passing = this.#passing;
    const request = await readRequest(incoming);
    passing.request = request;
    const { method, path, query, headers, body } = request;
    const kept = Object.entries(headers).filter(
      ([name]) => name === 'content-type' || name.startsWith('x-txc-'),
    );
    const answer = await this.#probe.send({
      endpoint: path,
      method: method === 'POST' ? 'POST' : 'GET',
      path,
      query,
      headers: Object.fromEntries(kept) as Record<string, string>,
      ...(body.length === 0 ? {} : { body }),
    });
    passing.answer = answer;
    const told = Object.entries(answer.headers).filter(([name]) => !OF_CONNECTION.has(name));
    response.writeHead(answer.status, {
      ...(Object.fromEntries(told) as Record<string, string | string[]>),
      connection: 'close',
    });
    response.end(answer.body);
  }
}

async function readRequest(incoming: IncomingMessage): Promise<SentRequest> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > MAX_REQUEST_BYTES) throw new Error('the client sent a request without end');
    chunks.push(chunk);
  }
  const url = new URL(incoming.url ?? '', 'http://relay.invalid');
  return {
    method: incoming.method ?? '',
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: incoming.headers,
    body: Buffer.concat(chunks),
  };
}
