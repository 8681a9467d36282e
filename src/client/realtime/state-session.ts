import { type RawData, WebSocket } from 'ws';
import { LIST_PERIOD_S, REALTIME_ERRORS, type ServerFrame } from '../../contract/realtime.js';
import { TELL_GAPS } from '../../contract/told-gaps.js';
import { codeOf } from '../../kernel/errors.js';
import { identityOf, isReplay } from '../reply-headers.js';
import { asFeedRecord, isSuccess, parseFrame, queryResult } from './session-frames.js';
import { StallDetector } from './stall-detector.js';
import type { CloseReason, FeedRecord, StateEvent, StateFeedOptions } from './state-feed.js';
import type { SubscriptionForm } from './subscription-form.js';

/** The options of a feed with everything filled in that a connection needs. */
export interface SessionSettings
  extends Pick<
    StateFeedOptions,
    'url' | 'market' | 'periodS' | 'clock' | 'telemetry' | 'exchangeClock'
  > {
  readonly subscriptionForm: SubscriptionForm;
  readonly acknowledgeTimeoutMs: number;
  readonly queryEveryMs: number;
  readonly maxFrameBytes: number;
}

export type ClosedEvent = Extract<StateEvent, { kind: 'closed' }>;

/** Where a connection tells its events. */
export interface SessionSink {
  /** Everything but `closed`; false when there is no room, which ends the connection. */
  offer(event: StateEvent): boolean;
  /** Called exactly once, as the last thing, in the very moment of the end. */
  closed(event: ClosedEvent): void;
}

/** Frames without meaning that one connection may send. */
const MAX_UNRECOGNISED = 10;
/** Refused queries in a row that end a connection. */
const MAX_REFUSED_QUERIES = 3;
/** Close code of an end that we wish for (RFC 6455, 7.4.1). */
const NORMAL_CLOSURE = 1000;
/** Close code where no close frame came (RFC 6455, 7.1.5). */
const ABNORMAL_CLOSURE = 1006;
const GAPS_ID = 0;
const SUBSCRIBE_ID = 1;

/**
 * One connection that follows the state of one market and period.
 *
 * States: *connecting* → *subscribing* (state.subscribe sent, once more as a list of markets where the
 * contract's form is refused as an invalid argument) → *following* (acknowledged;
 * `opened` told; a state.query now and every `queryEveryMs`) → *ended*. Each of the first two, and
 * each query, has a deadline. From every state it goes to *ended* exactly once, which clears all
 * timers, destroys the socket and tells `closed`.
 */
export class StateSession {
  readonly #settings: SessionSettings;
  readonly #sink: SessionSink;
  /** Made with the subscription: it depends on who is at the other end. */
  #stalls: StallDetector | undefined;
  #socket: WebSocket | undefined;
  #phase: 'connecting' | 'subscribing' | 'following' | 'ended' = 'connecting';
  #startedMs = 0;
  #cancelDeadline: (() => void) | undefined;
  #cancelQuery: (() => void) | undefined;
  /** The query that waits for its answer. */
  #asked: { readonly id: number; readonly sentMonotonicMs: number } | undefined;
  #lastId = SUBSCRIBE_ID;
  #subscribeId = SUBSCRIBE_ID;
  #usesList = false;
  #identity: string | null = null;
  #refusedQueries = 0;
  #unrecognised = 0;
  #lastAliveExchangeMs: number | null = null;
  #hadData = false;
  #hadUpdates = false;
  #wasSilent = false;
  /** Updates since the last query left. */
  #updatesSinceAsked = 0;
  #endReason: CloseReason | undefined;
  /** At a replay: it has not said that it knows the states of this time. */
  #isUnknown = false;
  /** Since when it knows them; our guess of its time must not lie before. */
  #knownFromMs = Number.NEGATIVE_INFINITY;
  #finish: () => void = () => {};

  constructor(settings: SessionSettings, sink: SessionSink) {
    this.#settings = settings;
    this.#sink = sink;
  }

  /** Whether any record came, and not only answers that show a dead subscription. */
  get hadData(): boolean {
    return this.#hadData && !this.#wasSilent;
  }

  /** Why it ended; undefined while it lives. */
  get endReason(): CloseReason | undefined {
    return this.#endReason;
  }

  /** Connects and follows until something ends it. Never rejects. Call it once. */
  run(signal: AbortSignal): Promise<void> {
    const { clock, url, maxFrameBytes } = this.#settings;
    this.#startedMs = clock.monotonicMs();
    return new Promise((resolve) => {
      const onAbort = () => this.#end('stopped');
      this.#finish = () => {
        signal.removeEventListener('abort', onAbort);
        resolve();
      };
      const socket = new WebSocket(url, {
        maxPayload: maxFrameBytes,
        perMessageDeflate: false,
        followRedirects: false,
      });
      this.#socket = socket;
      socket.on('upgrade', ({ headers }) => {
        this.#identity = identityOf(headers);
      });
      socket.on('open', () => this.#subscribe());
      socket.on('message', (data, isBinary) => this.#receive(data, isBinary));
      socket.on('error', (error) => this.#fail(error));
      socket.on('close', (code) => this.#end(this.#isOpen() ? 'remote' : 'connect_failed', code));
      this.#setDeadline('connect_timeout');
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
    });
  }

  #isOpen(): boolean {
    return this.#phase !== 'connecting';
  }

  #setDeadline(reason: CloseReason, onMissed = () => this.#end(reason)): void {
    const { clock, acknowledgeTimeoutMs } = this.#settings;
    this.#cancelDeadline?.();
    this.#cancelDeadline = clock.after(acknowledgeTimeoutMs, onMissed);
  }

  #send(method: 'state.subscribe' | 'state.query', id: number): void {
    const { market, periodS } = this.#settings;
    const isList = method === 'state.subscribe' && this.#usesList;
    const params = isList ? [market] : [market, periodS];
    // A failed sending shows as an error or a close of the socket.
    this.#socket?.send(JSON.stringify({ method, params, id }), () => {});
  }

  #subscribe(): void {
    this.#phase = 'subscribing';
    this.#setDeadline('subscribe_ignored');
    const { acknowledgeTimeoutMs } = this.#settings;
    this.#stalls = new StallDetector(acknowledgeTimeoutMs, isReplay(this.#identity));
    if (isReplay(this.#identity)) {
      this.#isUnknown = true;
      this.#socket?.send(JSON.stringify({ method: TELL_GAPS, params: [], id: GAPS_ID }), () => {});
    }
    this.#usesList = this.#settings.subscriptionForm.isList;
    this.#send('state.subscribe', this.#subscribeId);
  }

  /** An invalid argument may be the form itself. Another refusal is one whatever the form. */
  #subscribeByList(): void {
    this.#usesList = true;
    this.#lastId += 1;
    this.#subscribeId = this.#lastId;
    this.#setDeadline('subscribe_ignored');
    this.#send('state.subscribe', this.#subscribeId);
  }

  #subscribed({ error, result }: Extract<ServerFrame, { kind: 'response' }>): void {
    const { subscriptionForm, periodS } = this.#settings;
    const isDone = error === null && isSuccess(result);
    if (this.#usesList) {
      if (isDone) subscriptionForm.tookList();
      else subscriptionForm.refusedList();
    }
    if (isDone) {
      if (this.#usesList && periodS !== LIST_PERIOD_S) this.#end('period_not_offered');
      else this.#follow();
    } else if (!this.#usesList && error?.code === REALTIME_ERRORS.invalidArgument.code) {
      this.#subscribeByList();
    } else this.#end('subscribe_refused');
  }

  #query(): void {
    this.#lastId += 1;
    this.#asked = { id: this.#lastId, sentMonotonicMs: this.#settings.clock.monotonicMs() };
    this.#updatesSinceAsked = 0;
    this.#setDeadline('silent', () => this.#unanswered());
    this.#send('state.query', this.#lastId);
  }

  /** Not every server knows the question: one that goes on with updates lives without an answer. */
  #unanswered(): void {
    this.#asked = undefined;
    if (this.#updatesSinceAsked === 0) this.#end('silent');
    else this.#queryLater();
  }

  #queryLater(): void {
    const { clock, queryEveryMs } = this.#settings;
    this.#cancelQuery = clock.after(queryEveryMs, () => this.#query());
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#phase === 'ended') return;
    const frame = isBinary ? undefined : parseFrame(data);
    if (frame?.kind === 'response') this.#answered(frame);
    else if (frame?.kind === 'update') this.#updated(frame);
    else if (frame?.kind === 'gap' && isReplay(this.#identity)) this.#gapTold(frame);
    else this.#countUnrecognised();
  }

  #answered(frame: Extract<ServerFrame, { kind: 'response' }>): void {
    if (this.#phase === 'subscribing' && frame.id === this.#subscribeId) {
      this.#count('response');
      this.#subscribed(frame);
    } else if (this.#phase === 'following' && frame.id === this.#asked?.id) {
      this.#count('response');
      this.#queryAnswered(this.#asked.sentMonotonicMs, frame);
    } else {
      // One that knows nothing of gaps has none to tell of.
      if (frame.id === GAPS_ID && frame.error !== null) this.#isUnknown = false;
      this.#count('dropped');
    }
  }

  /** A gap of the archive that is replayed begins or ends. */
  #gapTold({ isGap, atMs }: Extract<ServerFrame, { kind: 'gap' }>): void {
    const wasUnknown = this.#isUnknown;
    this.#isUnknown = isGap;
    if (!isGap) this.#knownFromMs = atMs;
    this.#count('response');
    if (this.#phase !== 'following') return;
    if (isGap && !wasUnknown) this.#tell({ kind: 'gap', fromExchangeMs: atMs });
    // What is known again is told in full, as on a new connection.
    if (isGap || !wasUnknown || this.#asked !== undefined) return;
    this.#cancelQuery?.();
    this.#query();
  }

  #follow(): void {
    const { clock, exchangeClock, telemetry, market, periodS } = this.#settings;
    this.#phase = 'following';
    telemetry.socketOpened({ market, periodS });
    this.#tell({
      kind: 'opened',
      identity: this.#identity,
      atMs: clock.wallMs(),
      exchangeMs: exchangeClock.nowMs(),
    });
    if (this.#phase === 'following') this.#query();
  }

  #queryAnswered(sentMonotonicMs: number, frame: Extract<ServerFrame, { kind: 'response' }>): void {
    const { clock, exchangeClock } = this.#settings;
    this.#asked = undefined;
    this.#cancelDeadline?.();
    this.#queryLater();
    const record = frame.error === null ? queryResult.safeParse(frame.result) : undefined;
    if (!record?.success || !this.#isOurs(record.data.period)) {
      this.#refusedQueries = this.#updatesSinceAsked > 0 ? 0 : this.#refusedQueries + 1;
      if (this.#refusedQueries >= MAX_REFUSED_QUERIES) this.#end('query_refused');
      return;
    }
    this.#refusedQueries = 0;
    if (this.#isUnknown) return;
    const verdict = this.#stalls?.observeQuery(asFeedRecord(record.data), clock.monotonicMs());
    this.#record('query', asFeedRecord(record.data));
    if (this.#phase !== 'following') return;
    // The answer was true at some moment after the question left.
    if (verdict === 'agrees') this.#alive(exchangeClock.atMonotonicMs(sentMonotonicMs), true);
    if (verdict === 'stalled') this.#end('stalled');
  }

  #updated(frame: Extract<ServerFrame, { kind: 'update' }>): void {
    const { clock, exchangeClock, market } = this.#settings;
    const isOurs = frame.market === undefined || frame.market === market;
    if (this.#phase !== 'following' || !isOurs || !this.#isOurs(frame.record.period)) {
      this.#count('dropped');
      return;
    }
    if (this.#isUnknown) {
      this.#count('dropped');
      return;
    }
    if (this.#stalls?.observeUpdate(frame.record, clock.monotonicMs()) === false) {
      // Others may have been lost before it: what is sure begins with a new connection.
      this.#count('dropped');
      this.#end('stalled');
      return;
    }
    this.#count('update');
    this.#hadUpdates = true;
    this.#updatesSinceAsked += 1;
    this.#record('update', frame.record);
    if (this.#phase === 'following') this.#alive(exchangeClock.nowMs(), false);
  }

  #isOurs(periodS: number | undefined): boolean {
    return periodS === undefined || periodS === this.#settings.periodS;
  }

  #record(origin: 'query' | 'update', record: FeedRecord): void {
    const { clock, exchangeClock } = this.#settings;
    this.#hadData = true;
    this.#tell({
      kind: 'record',
      origin,
      record,
      receivedAtMs: clock.wallMs(),
      exchangeMs: Math.max(exchangeClock.nowMs(), this.#knownFromMs),
    });
  }

  #alive(exchangeMs: number, isTold: boolean): void {
    this.#lastAliveExchangeMs = Math.max(this.#lastAliveExchangeMs ?? exchangeMs, exchangeMs);
    if (isTold) this.#tell({ kind: 'alive', exchangeMs });
  }

  #tell(event: StateEvent): void {
    if (!this.#sink.offer(event)) this.#end('overflow');
  }

  #count(outcome: 'update' | 'response' | 'unrecognised' | 'dropped'): void {
    this.#settings.telemetry.frameReceived({ outcome });
  }

  #countUnrecognised(): void {
    this.#count('unrecognised');
    this.#unrecognised += 1;
    if (this.#unrecognised >= MAX_UNRECOGNISED) this.#end('garbage');
  }

  #fail(error: Error): void {
    if (this.#phase === 'ended') return;
    const code = codeOf(error);
    // ws names what a peer did wrong with codes of its own.
    if (code.startsWith('WS_ERR_')) {
      this.#count('unrecognised');
      const isOversized = code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH';
      this.#end(isOversized ? 'oversized' : 'protocol_error');
    } else {
      this.#end(this.#isOpen() ? 'remote' : 'connect_failed');
    }
  }

  /** @param received the close code of the peer, where it is the peer that ended it */
  #end(reason: CloseReason, received?: number): void {
    if (this.#phase === 'ended') return;
    const { clock, exchangeClock, telemetry, market, periodS } = this.#settings;
    this.#phase = 'ended';
    this.#endReason = reason;
    this.#wasSilent = reason === 'stalled' && !this.#hadUpdates;
    this.#cancelDeadline?.();
    this.#cancelQuery?.();
    const isOurs = this.#socket?.readyState === WebSocket.OPEN;
    if (isOurs) this.#socket?.close(NORMAL_CLOSURE);
    this.#socket?.terminate();
    const code = received ?? (isOurs ? NORMAL_CLOSURE : ABNORMAL_CLOSURE);
    const livedMs = Math.round(clock.monotonicMs() - this.#startedMs);
    telemetry.socketClosed({ market, periodS, code, reason, livedMs });
    const lastAliveExchangeMs = this.#lastAliveExchangeMs;
    const exchangeMs = exchangeClock.nowMs();
    this.#sink.closed({ kind: 'closed', code, reason, lastAliveExchangeMs, exchangeMs, livedMs });
    this.#finish();
  }
}
