import { type RawData, WebSocket } from 'ws';
import {
  readServerFrame,
  type ServerFrame,
  withAmountsAsWritten,
} from '../../contract/realtime.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { parseJson, parseNumbersAsText } from '../../kernel/json.js';
import { tlsRefusal } from '../../kernel/tls.js';
import { type HttpProxy, ProxyFailure, proxyAt } from '../http-proxy.js';
import { DATE_RESOLUTION_MS, headerText, identityOf, parseHttpDate } from '../reply-reader.js';
import type { FeedSettings } from './reconnecting.js';
import type { CloseReason } from './state-feed.js';

/** Options of every real-time connection. */
type FrameSocketSettings = Pick<
  FeedSettings,
  | 'url'
  | 'clock'
  | 'exchangeClock'
  | 'telemetry'
  | 'words'
  | 'acknowledgeTimeoutMs'
  | 'maxFrameBytes'
  | 'proxy'
>;

/** How a connection ended. */
export interface SocketEnd {
  readonly code: number;
  readonly reason: CloseReason;
  readonly livedMs: number;
  /** Why no connection came about, in words. */
  readonly detail?: string;
}

/** Outcome of a frame, as it is counted. */
export type FrameOutcome = 'update' | 'response' | 'unrecognised' | 'dropped';

/** Who speaks over a connection. */
export interface FrameHandler {
  /** @param identity the header `x-tapekeep-exchange` of the handshake; null elsewhere */
  opened(identity: string | null): void;
  /**
   * @param raw the frame as it came
   * @returns what became of it; few are borne that mean nothing here
   */
  received(frame: ServerFrame, raw: unknown): FrameOutcome;
  /** Called exactly once, as the last thing. */
  ended(end: SocketEnd): void;
}

/** Close code of an end that we wish for (RFC 6455, 7.4.1). */
export const NORMAL_CLOSURE = 1000;
/** Close code where no close frame came (RFC 6455, 7.1.5). */
const ABNORMAL_CLOSURE = 1006;
/** This process looks at its own pace so often while a connection is open. */
const BEAT_MS = 1000;
/** One that stood still for so long (stopped, suspended, starved) cannot say when what it reads then came. */
const STOOD_STILL_MS = 5000;
/** Frames without meaning that one connection may send. */
const MAX_UNRECOGNISED = 10;

/** Why a connection ends whose library gave up, by the library's own code. */
function reasonOfFailure(code: string, isOpen: boolean): CloseReason {
  if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') return 'oversized';
  if (code.startsWith('WS_ERR_')) return 'protocol_error';
  return isOpen ? 'remote' : 'connect_failed';
}

/**
 * One connection of the real-time interface, and the frames that it carries.
 *
 * States: *connecting* (with a deadline) → *open* → *ended*. From each it goes to *ended* exactly once, which
 * clears its timers, destroys the socket and reports how it ended.
 */
export class FrameSocket {
  readonly #settings: FrameSocketSettings;
  readonly #handler: FrameHandler;
  readonly #proxy: HttpProxy | undefined;
  #socket: WebSocket | undefined;
  #phase: 'connecting' | 'open' | 'ended' = 'connecting';
  #startedMs: number;
  #cancelDeadline: (() => void) | undefined;
  #beatAtMs = 0;
  #cancelBeat: (() => void) | undefined;
  #lastId = 0;
  #identity: string | null = null;
  #unrecognised = 0;
  #detail: string | undefined;
  /** Ends what the connection itself cannot end. */
  readonly #ending = new AbortController();
  #finish: () => void = () => {};

  constructor(settings: FrameSocketSettings, handler: FrameHandler) {
    this.#settings = settings;
    this.#proxy = proxyAt(settings.proxy);
    this.#handler = handler;
    this.#startedMs = settings.clock.monotonicMs();
  }

  get isEnded(): boolean {
    return this.#phase === 'ended';
  }

  /** Connects, and resolves when something has ended it. Never rejects. Call it once. */
  run(signal: AbortSignal): Promise<void> {
    const { clock, url, maxFrameBytes, acknowledgeTimeoutMs: timeoutMs } = this.#settings;
    const proxy = this.#proxy;
    this.#startedMs = clock.monotonicMs();
    return new Promise((resolve) => {
      const onAbort = () => this.end('stopped');
      this.#finish = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const socket = new WebSocket(url, {
        maxPayload: maxFrameBytes,
        perMessageDeflate: false,
        followRedirects: false,
        ...(proxy && {
          createConnection: proxy.connectionTo(new URL(url), {
            timeoutMs,
            signal: this.#ending.signal,
          }),
        }),
      });
      this.#socket = socket;
      socket.on('upgrade', ({ headers }) => {
        this.#identity = identityOf(headers);
        this.#observeDate(parseHttpDate(headerText(headers, 'date')));
      });
      socket.on('open', () => {
        this.#phase = 'open';
        this.clearDeadline();
        this.#beatAtMs = clock.monotonicMs();
        this.#beatLater();
        this.#handler.opened(this.#identity);
      });
      socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
      socket.on('error', (error) => this.#fail(error));
      socket.on('close', (code) => this.end(this.#isOpen ? 'remote' : 'connect_failed', code));
      this.setDeadline('connect_timeout');
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
    });
  }

  get #isOpen(): boolean {
    return this.#phase !== 'connecting';
  }

  /** Who asks nothing else of the exchange has no other hint of its time. */
  #observeDate(dateMs: number | null): void {
    const { clock, exchangeClock } = this.#settings;
    if (dateMs === null) return;
    const window = { sentMonotonicMs: this.#startedMs, receivedMonotonicMs: clock.monotonicMs() };
    exchangeClock.observe({ dateMs, ...window, resolutionMs: DATE_RESOLUTION_MS });
  }

  /** Ends the connection for this reason, unless the deadline is cleared or set anew. */
  setDeadline(reason: CloseReason): void {
    const { clock, acknowledgeTimeoutMs } = this.#settings;
    this.clearDeadline();
    this.#cancelDeadline = clock.after(acknowledgeTimeoutMs, () => this.end(reason));
  }

  clearDeadline(): void {
    this.#cancelDeadline?.();
    this.#cancelDeadline = undefined;
  }

  /** @returns the id of the request, above 0 and given once, unless one is given here */
  send(method: string, params: readonly unknown[], id = this.#nextId()): number {
    // A failed sending shows as an error or a close of the socket.
    this.#socket?.send(JSON.stringify({ method, params, id }), () => {});
    return id;
  }

  #nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  #count(outcome: FrameOutcome): void {
    this.#settings.telemetry.frameReceived({ outcome });
  }

  /** After a standstill what waited in the connection is read before any timer runs. */
  #endIfStoodStill(): void {
    const stillMs = this.#settings.clock.monotonicMs() - this.#beatAtMs;
    if (stillMs > STOOD_STILL_MS) this.end('stood_still');
  }

  #beatLater(): void {
    const { clock } = this.#settings;
    const beat = () => {
      this.#endIfStoodStill();
      if (this.#phase === 'ended') return;
      this.#beatAtMs = clock.monotonicMs();
      this.#beatLater();
    };
    this.#cancelBeat = clock.after(BEAT_MS, beat, { background: true });
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#phase === 'open') this.#endIfStoodStill();
    if (this.#phase === 'ended') return;
    const raw = isBinary ? undefined : parseFrame(data);
    // An unreadable frame means nothing in any words.
    const outcome = this.#handler.received(readServerFrame(raw, this.#settings.words), raw);
    this.#count(outcome);
    if (outcome !== 'unrecognised') return;
    this.#unrecognised += 1;
    if (this.#unrecognised >= MAX_UNRECOGNISED) this.end('garbage');
  }

  #fail(error: Error): void {
    if (this.#phase === 'ended') return;
    const reason = reasonOfFailure(codeOf(error), this.#isOpen);
    if (reason === 'connect_failed') this.#detail = this.#whyNot(error);
    // The library names what a peer did wrong.
    if (reason === 'oversized' || reason === 'protocol_error') this.#count('unrecognised');
    this.end(reason);
  }

  #whyNot(error: Error): string {
    const why = tlsRefusal(error) ?? messageOf(error);
    return error instanceof ProxyFailure ? why : why + (this.#proxy?.via ?? '');
  }

  /** @param received the close code of the peer, where it is the peer that ended it */
  end(reason: CloseReason, received?: number): void {
    if (this.#phase === 'ended') return;
    const { clock } = this.#settings;
    this.#phase = 'ended';
    this.#ending.abort();
    this.clearDeadline();
    this.#cancelBeat?.();
    const isOurs = this.#socket?.readyState === WebSocket.OPEN;
    if (isOurs) this.#socket?.close(NORMAL_CLOSURE);
    this.#socket?.terminate();
    const code = received ?? (isOurs ? NORMAL_CLOSURE : ABNORMAL_CLOSURE);
    const livedMs = Math.round(clock.monotonicMs() - this.#startedMs);
    if (reason === 'connect_timeout' && this.#proxy !== undefined) {
      this.#detail ??= `no connection in time${this.#proxy.via}`;
    }
    const detail = this.#detail === undefined ? {} : { detail: this.#detail };
    this.#handler.ended({ code, reason, livedMs, ...detail });
    this.#finish();
  }
}

/** A frame of the server; undefined when it is not JSON that can be read. */
function parseFrame(data: RawData): unknown {
  try {
    // Text of at most `maxFrameBytes`, valid UTF-8: ws has checked both.
    const text = String(data);
    return withAmountsAsWritten(parseJson(text), () => parseNumbersAsText(text));
  } catch {
    return undefined;
  }
}
