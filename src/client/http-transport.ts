import type { Socket } from 'node:net';
import { buildConnector, type Dispatcher, Pool } from 'undici';
import { hasSessionAtMost, SESSION_HEADER, SESSION_PARAMETER } from '../contract/extensions.js';
import { type Clock, startDeadline } from '../kernel/clock.js';
import { AbortedError, codeOf } from '../kernel/errors.js';
import { tlsRefusal } from '../kernel/tls.js';
import {
  type ErrorPlace,
  type ExchangeError,
  InvalidAddressError,
  NetworkError,
  ProxyRefusedError,
  ReplyTooLargeError,
  TimeoutError,
  TlsRefusedError,
} from './errors.js';
import type { ProxyAddress } from './exchange-client.js';
import { describeFailure, type HttpProxy, ProxyFailure, proxyAt } from './http-proxy.js';
import { skipInterimResponses } from './interim-responses.js';
import { headerText, type RawReply, type ReplyHead, type ReplyHeaders } from './reply-reader.js';

/** The largest honest answer, the tickers of 10,000 markets, takes some 3 MB. */
const DEFAULT_MAX_BODY_BYTES = 4 * 1024 * 1024;

export interface TransportOptions {
  /** Its query may name a session of a replay, which is sent with each request. */
  readonly baseUrl: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Default {@link DEFAULT_MAX_BODY_BYTES}. */
  readonly maxBodyBytes?: number | undefined;
  readonly connections: number;
  /** Proxy of requests; left out where the exchange is reached directly. */
  readonly proxy?: ProxyAddress | undefined;
}

export interface TransportRequest {
  /** Name for messages. */
  readonly endpoint: string;
  readonly method: 'GET' | 'POST';
  /** Path of the endpoint; a prefix of the base URL goes before it. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer;
}

/** Reports about a request while it is under way. */
export interface RequestWatch {
  /** Its first bytes are about to leave on a connection that stands; before, nothing was sent. */
  onLeaving?(): void;
  /** The answer's head is there, also if its body then fails. */
  onHead(head: ReplyHead): void;
}

/** A kept-alive connection was closed by the server before it answered anything. */
export class StaleConnectionError extends NetworkError {}

/** 407 Proxy Authentication Required (RFC 9110, section 15.5.8). */
const PROXY_LOGIN_REQUIRED = 407;

const CLOSED_CODES = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE']);

/** The connections that were open when a request left, with the bytes that each had received. */
type OpenConnections = ReadonlyMap<Socket, number>;

/**
 * Sends requests over kept-alive connections and reads bounded answers. It follows no redirect,
 * asks for no compression (so nothing can inflate), and ends every request at one total deadline,
 * whatever phase it is in.
 */
export class HttpTransport {
  readonly #options: TransportOptions;
  readonly #pool: Pool;
  readonly #prefix: string;
  readonly #memory: BodyMemory;
  readonly #underWay = new Set<ReplyHandler>();
  readonly #sockets = new Set<Socket>();
  readonly #proxy: HttpProxy | undefined;
  /** The proxy that reads and forwards requests; undefined where they go directly or through a tunnel. */
  readonly #forwarder: HttpProxy | undefined;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #ending = new AbortController();
  #closing: Promise<void> | undefined;

  /** @throws InvalidAddressError when the base URL is not a plain http or https address, or the proxy's is none */
  constructor(options: TransportOptions) {
    const url = readAddress('baseUrl', options.baseUrl, ['http:', 'https:']);
    if (!hasSessionAtMost(url) || url.hash !== '') {
      const advice = `it must not have a query, but for the session of a replay (?${SESSION_PARAMETER}=NAME)`;
      throw new InvalidAddressError('baseUrl', options.baseUrl, advice);
    }
    const session = url.searchParams.get(SESSION_PARAMETER);
    this.#options = options;
    const { maxBodyBytes = DEFAULT_MAX_BODY_BYTES, connections } = options;
    const proxy = proxyAt(options.proxy);
    this.#proxy = proxy;
    this.#memory = new BodyMemory(maxBodyBytes, connections);
    this.#forwarder = proxy?.forwards(url.protocol) === true ? proxy : undefined;
    // Who forwards a request reads the whole address in it (RFC 9112, section 3.2.2).
    const prefix = url.pathname.replace(/\/+$/, '');
    this.#prefix = this.#forwarder === undefined ? prefix : url.origin + prefix;
    this.#headers = {
      accept: 'application/json',
      'accept-encoding': 'identity',
      'user-agent': 'tapekeep',
      ...(session !== null && { [SESSION_HEADER]: session }),
      ...(this.#forwarder && { host: url.host, ...this.#forwarder.headers }),
    };
    const connector = this.#connector();
    this.#pool = new Pool(this.#forwarder?.origin ?? url.origin, {
      connections,
      pipelining: 1,
      connect: (target, done) => {
        connector(target, (...result) => {
          // On failure the socket is left out, though its type says null.
          if (result[1]) this.#track(result[1]);
          done(...result);
        });
      },
      // Our own deadline covers these phases, in sum and by the injected clock.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  /**
   * Sends one request and reads the whole answer.
   *
   * @throws StaleConnectionError, NetworkError, TimeoutError, ReplyTooLargeError, or the signal's
   *   reason
   */
  async send(
    request: TransportRequest,
    signal: AbortSignal | undefined,
    watch: RequestWatch,
  ): Promise<RawReply> {
    if (this.#closing !== undefined) throw new AbortedError('the exchange client is closed');
    const { clock, timeoutMs } = this.#options;
    const { endpoint } = request;
    const proxy = this.#proxy;
    const place = { endpoint, ...(proxy && { via: proxy.via }) };
    const query = new URLSearchParams(request.query).toString();
    const open = new Map([...this.#sockets].map((socket) => [socket, socket.bytesRead]));
    const handler = new ReplyHandler({ endpoint }, this.#memory, watch);
    this.#underWay.add(handler);
    const onTimeout = () => new TimeoutError(place, timeoutMs);
    using deadline = startDeadline(clock, timeoutMs, onTimeout, signal);
    const onAbort = () => handler.abort(deadline.signal.reason as Error);
    deadline.signal.addEventListener('abort', onAbort, { once: true });
    if (deadline.signal.aborted) onAbort();
    try {
      this.#pool.dispatch(
        {
          method: request.method,
          path: `${this.#prefix}${request.path}${query === '' ? '' : `?${query}`}`,
          headers: { ...this.#headers, ...request.headers },
          body: request.body ?? null,
        },
        handler,
      );
      const reply = await handler.complete;
      if (this.#forwarder === undefined) return reply;
      const { status } = reply;
      if (status !== PROXY_LOGIN_REQUIRED) return { ...reply, via: this.#forwarder.via };
      const { message } = this.#forwarder.refusal(status, this.#options.baseUrl);
      throw new ProxyRefusedError({ endpoint, status }, message);
    } catch (error) {
      if (error instanceof ProxyRefusedError) throw error;
      // An error given before explains more than how the connection then broke.
      const { head, size, given } = handler;
      if (given !== undefined) throw given;
      if (head === undefined) throw unanswered(place, error, open);
      const detail = `the connection broke after ${size} bytes of the answer: ${describeFailure(error)}`;
      throw new NetworkError({ ...place, status: head.status }, detail, { cause: error });
    } finally {
      handler.release();
      this.#underWay.delete(handler);
    }
  }

  /** Ends what is under way and closes all connections. Idempotent. */
  close(): Promise<void> {
    this.#ending.abort();
    this.#closing ??= this.#pool.destroy();
    for (const handler of this.#underWay)
      handler.abort(new AbortedError('the exchange client is closed'));
    return this.#closing;
  }

  #connector(): buildConnector.connector {
    const { timeoutMs } = this.#options;
    const proxy = this.#proxy;
    const forwarder = this.#forwarder;
    if (proxy !== undefined && forwarder === undefined) {
      return proxy.connector({ timeoutMs, signal: this.#ending.signal });
    }
    const direct = buildConnector({ timeout: timeoutMs });
    if (forwarder === undefined) return direct;
    return (target, done) => {
      direct(target, (...result) => {
        if (result[0] === null) done(...result);
        else done(forwarder.unreachable(result[0]), null);
      });
    };
  }

  #track(socket: Socket): void {
    skipInterimResponses(socket);
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
  }
}

/**
 * No answer came. If the broken connection had carried an earlier answer and nothing since, the
 * server had given it up before it could see the request.
 */
function unanswered(place: ErrorPlace, error: unknown, open: OpenConnections): ExchangeError {
  const isStale = [...open].some(
    ([socket, bytesRead]) =>
      socket.errored === error && bytesRead > 0 && socket.bytesRead === bytesRead,
  );
  if (!isStale || !CLOSED_CODES.has(codeOf(error))) return networkError(place, error);
  const detail = `a kept-alive connection was closed before the answer: ${describeFailure(error)}`;
  return new StaleConnectionError(place, detail, { cause: error });
}

function networkError(place: ErrorPlace, error: unknown): ExchangeError {
  if (error instanceof ProxyFailure) {
    const { isRefusal, message } = error;
    const Named = isRefusal ? ProxyRefusedError : NetworkError;
    return new Named({ endpoint: place.endpoint }, message, { cause: error });
  }
  const refusal = tlsRefusal(error);
  if (refusal !== undefined) return new TlsRefusedError(place, refusal, { cause: error });
  return new NetworkError(place, `no answer: ${describeFailure(error)}`, { cause: error });
}

/** One for all requests: the stack of an Error of its own would keep the page in memory. */
const ENDED = new Error('the request has ended');

/**
 * Takes in the answer to one request, up to a limit.
 *
 * States: *waiting* (for a connection) → *sent* → *answered* (the head is there) → settled: either
 * the whole answer came, or it was given up, or the connection broke. Given up while waiting, it
 * leaves nothing behind that could still be sent.
 */
class ReplyHandler implements Dispatcher.DispatchHandler {
  /** The whole answer. Rejects with the reason of {@link abort}, or with the connection's error. */
  readonly complete: Promise<RawReply>;
  /** The answer's head; undefined as long as none came. */
  head: ReplyHead | undefined;
  /** Bytes of the body so far. */
  size = 0;
  /** Why the request was given up; undefined while it was not. */
  given: Error | undefined;
  readonly #place: ErrorPlace;
  readonly #memory: BodyMemory;
  readonly #watch: RequestWatch;
  /** The body so far, with room behind it: a server may send it byte by byte. */
  #body: Buffer = Buffer.alloc(0);
  #resolve: (reply: RawReply) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;
  #controller: Dispatcher.DispatchController | undefined;

  constructor(place: ErrorPlace, memory: BodyMemory, watch: RequestWatch) {
    this.#place = place;
    this.#memory = memory;
    this.#watch = watch;
    this.complete = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
  }

  /** Gives the body's memory back. To be called once, when the request has ended. */
  release(): void {
    this.#memory.giveBack(this.size);
    this.size = 0;
    this.given ??= ENDED;
  }

  /** Gives the request up, at once: the pool does not look up while it makes a connection. */
  abort(reason: Error): void {
    if (this.given !== undefined) return;
    this.given = reason;
    this.#controller?.abort(reason);
    this.#reject(reason);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.given === undefined) this.#watch.onLeaving?.();
    else controller.abort(this.given);
  }

  onResponseStart(_controller: unknown, status: number, headers: ReplyHeaders): void {
    if (this.given !== undefined) return;
    this.head = { status, headers };
    this.#watch.onHead(this.head);
    this.#bound(Number(headerText(headers, 'content-length') ?? 0));
  }

  onResponseData(_controller: unknown, chunk: Buffer): void {
    if (this.given !== undefined) return;
    const before = this.size;
    this.size += chunk.length;
    const hasMemory = this.#memory.take(chunk.length);
    if (!this.#bound(this.size)) return;
    if (!hasMemory) {
      this.#refuse(this.#memory.maxBytes, 'the answers that are read at once are');
      return;
    }
    if (before === 0) {
      this.#body = chunk;
      return;
    }
    if (this.size > this.#body.length) {
      const larger = Buffer.allocUnsafe(Math.max(this.size, 2 * this.#body.length));
      this.#body.copy(larger, 0, 0, before);
      this.#body = larger;
    }
    chunk.copy(this.#body, before);
  }

  onResponseEnd(): void {
    if (this.head === undefined) return;
    this.#resolve({ ...this.head, body: this.#body.subarray(0, this.size) });
  }

  onResponseError(_controller: unknown, error: Error): void {
    this.#reject(error);
  }

  #bound(size: number): boolean {
    const { maxBodyBytes } = this.#memory;
    if (size <= maxBodyBytes) return true;
    this.#refuse(maxBodyBytes, 'the answer is');
    return false;
  }

  #refuse(maxBytes: number, what: string): void {
    const place = { ...this.#place, ...(this.head && { status: this.head.status }) };
    this.abort(new ReplyTooLargeError(place, what, maxBytes));
  }
}

/** Size of honest pages of history, for each connection that reads one at the same time. */
const PER_CONNECTION_BYTES = 256 * 1024;
/** Number of responses of the largest accepted size that may be read at the same time. */
const LARGEST_AT_ONCE = 4;

/** Memory for the bodies that all connections are reading at once, bytes. */
class BodyMemory {
  /** Bytes of one body. */
  readonly maxBodyBytes: number;
  readonly maxBytes: number;
  #bytes = 0;

  constructor(maxBodyBytes: number, connections: number) {
    this.maxBodyBytes = maxBodyBytes;
    this.maxBytes = maxBodyBytes * LARGEST_AT_ONCE + connections * PER_CONNECTION_BYTES;
  }

  /** @returns whether there is enough; what was taken is given back in any case */
  take(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= this.maxBytes;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }
}

/**
 * Checks an address from the configuration.
 *
 * @param setting what to call it in the message
 * @param protocols the allowed schemes, such as `['http:', 'https:']`
 * @throws InvalidAddressError for another scheme, credentials, or anything that is not an address
 */
export function readAddress(setting: string, text: string, protocols: readonly string[]): URL {
  if (!URL.canParse(text)) {
    // Programs without types may pass anything, or leave it out.
    throw new InvalidAddressError(setting, String(text), 'it is not an address');
  }
  const url = new URL(text);
  if (url.username !== '' || url.password !== '') {
    throw new InvalidAddressError(setting, url.host, 'leave user name and password out of it');
  }
  if (!protocols.includes(url.protocol)) {
    const allowed = protocols.map((protocol) => `${protocol}//`).join(' or ');
    throw new InvalidAddressError(setting, text, `it must begin with ${allowed}`);
  }
  return url;
}
