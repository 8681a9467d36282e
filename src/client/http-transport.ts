import type { Socket } from 'node:net';
import { buildConnector, Pool } from 'undici';
import { type Clock, startDeadline } from '../kernel/clock.js';
import { AbortedError, codeOf, messageOf } from '../kernel/errors.js';
import { tlsRefusal } from '../kernel/tls-refusal.js';
import { readAddress } from './address.js';
import { BodyRoom } from './body-room.js';
import {
  type ErrorPlace,
  ExchangeError,
  InvalidAddressError,
  NetworkError,
  safeExcerpt,
  TimeoutError,
  TlsRefusedError,
} from './errors.js';
import { ReplyHandler, type RequestWatch } from './reply-handler.js';
import type { ReplyHeaders } from './reply-headers.js';
import type { RawReply } from './reply-reader.js';

/** The largest honest answer, the tickers of 10,000 markets, takes some 3 MB. */
const DEFAULT_MAX_BODY_BYTES = 4 * 1024 * 1024;

export interface TransportOptions {
  readonly baseUrl: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Default {@link DEFAULT_MAX_BODY_BYTES}. */
  readonly maxBodyBytes?: number | undefined;
  readonly connections: number;
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

/** The head of an answer, known before its body. */
export interface ReplyHead {
  readonly status: number;
  readonly headers: ReplyHeaders;
  readonly receivedMonotonicMs: number;
}

/** A kept-alive connection was closed by the server before it answered anything. */
export class StaleConnectionError extends NetworkError {}

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
  readonly #maxBodyBytes: number;
  readonly #room: BodyRoom;
  readonly #underWay = new Set<AbortController>();
  readonly #sockets = new Set<Socket>();
  #closing: Promise<void> | undefined;

  /** @throws InvalidAddressError when the base URL is not a plain http or https address */
  constructor(options: TransportOptions) {
    const url = readAddress('baseUrl', options.baseUrl, ['http:', 'https:']);
    if (url.search !== '' || url.hash !== '') {
      throw new InvalidAddressError('baseUrl', options.baseUrl, 'it must not have a query');
    }
    this.#options = options;
    this.#maxBodyBytes = options.maxBodyBytes ?? DEFAULT_MAX_BODY_BYTES;
    this.#room = new BodyRoom(this.#maxBodyBytes, options.connections);
    this.#prefix = url.pathname.replace(/\/+$/, '');
    const connector = buildConnector({ timeout: options.timeoutMs });
    this.#pool = new Pool(url.origin, {
      connections: options.connections,
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
   * @param onHead called when the answer's head is there, also if its body then fails
   * @param onLeaving called when the first bytes are about to leave; before, none was sent
   * @throws StaleConnectionError, NetworkError, TimeoutError, ReplyTooLargeError, or the signal's
   *   reason
   */
  async send(
    request: TransportRequest,
    signal: AbortSignal | undefined,
    onHead: (head: ReplyHead) => void,
    onLeaving: () => void = () => undefined,
  ): Promise<RawReply> {
    if (this.#closing !== undefined) throw new AbortedError('the exchange client is closed');
    const { clock, timeoutMs } = this.#options;
    const place = { endpoint: request.endpoint };
    const stop = new AbortController();
    this.#underWay.add(stop);
    const onAbort = () => stop.abort(signal?.reason);
    signal?.addEventListener('abort', onAbort, { once: true });
    if (signal?.aborted) onAbort();
    const onTimeout = () => new TimeoutError(place, timeoutMs);
    const deadline = startDeadline(clock, timeoutMs, onTimeout, stop.signal);
    const watch: RequestWatch = {
      onLeaving,
      onHead: (status, headers) =>
        onHead({ status, headers, receivedMonotonicMs: clock.monotonicMs() }),
    };
    try {
      return await this.#exchange(request, deadline.signal, watch);
    } catch (error) {
      // What was asked for explains more than how the connection then broke.
      if (deadline.signal.aborted) throw deadline.signal.reason as Error;
      throw error instanceof ExchangeError ? error : networkError(place, error);
    } finally {
      deadline.clear();
      signal?.removeEventListener('abort', onAbort);
      this.#underWay.delete(stop);
    }
  }

  /** Ends what is under way and closes all connections. Idempotent. */
  close(): Promise<void> {
    this.#closing ??= this.#pool.destroy();
    for (const stop of this.#underWay)
      stop.abort(new AbortedError('the exchange client is closed'));
    return this.#closing;
  }

  async #exchange(
    request: TransportRequest,
    signal: AbortSignal,
    watch: RequestWatch,
  ): Promise<RawReply> {
    const place = { endpoint: request.endpoint };
    const query = new URLSearchParams(request.query).toString();
    const open = new Map([...this.#sockets].map((socket) => [socket, socket.bytesRead]));
    const handler = new ReplyHandler(place, this.#maxBodyBytes, this.#room, watch);
    const onAbort = () => handler.abort(signal.reason as Error);
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    try {
      this.#pool.dispatch(
        {
          method: request.method,
          path: `${this.#prefix}${request.path}${query === '' ? '' : `?${query}`}`,
          headers: {
            accept: 'application/json',
            'accept-encoding': 'identity',
            'user-agent': 'tapekeep',
            ...request.headers,
          },
          body: request.body ?? null,
        },
        handler,
      );
      return await handler.complete;
    } catch (error) {
      if (signal.aborted || error instanceof ExchangeError) throw error;
      const { status, size } = handler;
      if (status === undefined) throw unanswered(place, error, open);
      const detail = `the connection broke after ${size} bytes of the answer: ${describe(error)}`;
      throw new NetworkError({ ...place, status }, detail, { cause: error });
    } finally {
      handler.release();
      signal.removeEventListener('abort', onAbort);
    }
  }

  #track(socket: Socket): void {
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
  const detail = `a kept-alive connection was closed before the answer: ${describe(error)}`;
  return new StaleConnectionError(place, detail, { cause: error });
}

function networkError(place: ErrorPlace, error: unknown): ExchangeError {
  const refusal = tlsRefusal(error);
  if (refusal !== undefined) return new TlsRefusedError(place, refusal, { cause: error });
  return new NetworkError(place, `no answer: ${describe(error)}`, { cause: error });
}

/** Code and text of a network failure; several addresses may have failed together. */
function describe(error: unknown): string {
  const shown = error instanceof AggregateError ? (error.errors[0] ?? error) : error;
  return safeExcerpt(`${codeOf(shown)} ${messageOf(shown)}`);
}
