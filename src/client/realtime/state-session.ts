import { type RawData, WebSocket } from 'ws';
import { GAP_NOTICES_METHOD } from '../../contract/gap-notices.js';
import { type RealtimeWords, readServerFrame, type ServerFrame } from '../../contract/realtime.js';
import { stateRecord } from '../../contract/resources.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { parseJson } from '../../kernel/json.js';
import { tlsRefusal } from '../../kernel/tls-refusal.js';
import { identityOf, isReplay } from '../reply-reader.js';
import type { CloseReason, FeedRecord, StateEvent, StateFeedOptions } from './state-feed.js';
import { StallDetector, StateQueries } from './state-queries.js';
import { type SubscriptionForm, SubscriptionRequest } from './subscription-form.js';

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

/** Where a connection reports its events. */
export interface SessionSink {
  /** Everything but `closed`; false when there is no room, which ends the connection. */
  offer(event: StateEvent): boolean;
  /** Called exactly once, as the last thing, synchronously at the end. */
  closed(event: ClosedEvent): void;
}

/** Close code of an end that we wish for (RFC 6455, 7.4.1). */
export const NORMAL_CLOSURE = 1000;

/** Why a connection ends whose library gave up, by the library's own code. */
export function reasonOfFailure(code: string, isOpen: boolean): CloseReason {
  if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH') return 'oversized';
  if (code.startsWith('WS_ERR_')) return 'protocol_error';
  return isOpen ? 'remote' : 'connect_failed';
}

/** Frames without meaning that one connection may send. */
const MAX_UNRECOGNISED = 10;
/** Close code where no close frame came (RFC 6455, 7.1.5). */
const ABNORMAL_CLOSURE = 1006;
const GAPS_ID = 0;

/**
 * One connection that follows the state of one market and period.
 *
 * States: *connecting* → *subscribing* (state.subscribe sent, once more as a list of markets where the
 * contract's form is refused as an invalid argument) → *following* (acknowledged;
 * `opened` reported; a state.query now and every `queryEveryMs`) → *ended*. Each of the first two, and
 * each query, has a deadline. From every state it goes to *ended* exactly once, which clears all
 * timers, destroys the socket and reports `closed`.
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
  readonly #queries: StateQueries;
  #lastId = GAPS_ID;
  #subscribeId = GAPS_ID;
  readonly #request: SubscriptionRequest;
  #identity: string | null = null;
  #unrecognised = 0;
  #lastAliveExchangeMs: number | null = null;
  #hadData = false;
  #hadUpdates = false;
  #wasSilent = false;
  #endReason: CloseReason | undefined;
  /** Why no connection came about, in words. */
  #detail: string | undefined;
  /** At a replay: it has not said that it knows the states of this time. */
  #isUnknown = false;
  /** Since when it knows them; our guess of its time must not lie before. */
  #knownFromMs = Number.NEGATIVE_INFINITY;
  #finish: () => void = () => {};

  constructor(settings: SessionSettings, sink: SessionSink) {
    this.#settings = settings;
    this.#sink = sink;
    const { subscriptionForm, market, periodS } = settings;
    this.#request = new SubscriptionRequest(subscriptionForm, market, periodS);
    this.#queries = new StateQueries({
      ...settings,
      send: () => this.#send('state.query', [market, periodS]),
      end: (reason) => this.#end(reason),
    });
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

  #setDeadline(reason: CloseReason): void {
    const { clock, acknowledgeTimeoutMs } = this.#settings;
    this.#cancelDeadline?.();
    this.#cancelDeadline = clock.after(acknowledgeTimeoutMs, () => this.#end(reason));
  }

  /** @returns the id of the request */
  #send(method: 'state.subscribe' | 'state.query', params: readonly unknown[]): number {
    this.#lastId += 1;
    const id = this.#lastId;
    const word = this.#settings.subscriptionForm.words.methods?.[method] ?? method;
    // A failed sending shows as an error or a close of the socket.
    this.#socket?.send(JSON.stringify({ method: word, params, id }), () => {});
    return id;
  }

  #subscribe(): void {
    this.#phase = 'subscribing';
    const { acknowledgeTimeoutMs } = this.#settings;
    this.#stalls = new StallDetector(acknowledgeTimeoutMs, isReplay(this.#identity));
    if (isReplay(this.#identity)) {
      this.#isUnknown = true;
      this.#socket?.send(
        JSON.stringify({ method: GAP_NOTICES_METHOD, params: [], id: GAPS_ID }),
        () => {},
      );
    }
    this.#askToSubscribe();
  }

  #askToSubscribe(): void {
    this.#setDeadline('subscribe_ignored');
    this.#subscribeId = this.#send('state.subscribe', this.#request.params);
  }

  #receive(data: RawData, isBinary: boolean): void {
    if (this.#phase === 'ended') return;
    const frame = isBinary ? undefined : parseFrame(data, this.#settings.subscriptionForm.words);
    if (frame?.kind === 'response') this.#answered(frame);
    else if (frame?.kind === 'update') this.#updated(frame);
    else if (frame?.kind === 'gap' && isReplay(this.#identity)) this.#gapTold(frame);
    else this.#countUnrecognised();
  }

  #answered(frame: Extract<ServerFrame, { kind: 'response' }>): void {
    if (this.#phase === 'subscribing' && frame.id === this.#subscribeId) {
      this.#count('response');
      const step = this.#request.answered(frame);
      if (step === 'follow') this.#follow();
      else if (step === 'ask again') this.#askToSubscribe();
      else this.#end(step);
      return;
    }
    const sentMonotonicMs = this.#queries.answered(frame.id);
    if (sentMonotonicMs !== undefined) {
      this.#count('response');
      this.#queryAnswered(sentMonotonicMs, frame);
    } else {
      // One that knows nothing of gaps has none to report.
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
    if (isGap && !wasUnknown) this.#report({ kind: 'gap', fromExchangeMs: atMs });
    // What is known again is reported in full, as on a new connection.
    if (!isGap && wasUnknown && !this.#queries.isWaiting) this.#queries.ask();
  }

  #follow(): void {
    const { clock, exchangeClock, telemetry, market, periodS } = this.#settings;
    this.#phase = 'following';
    this.#cancelDeadline?.();
    telemetry.socketOpened({ market, periodS });
    this.#report({
      kind: 'opened',
      identity: this.#identity,
      atMs: clock.wallMs(),
      exchangeMs: exchangeClock.nowMs(),
    });
    if (this.#phase === 'following') this.#queries.ask();
  }

  #queryAnswered(sentMonotonicMs: number, frame: Extract<ServerFrame, { kind: 'response' }>): void {
    const { clock, exchangeClock } = this.#settings;
    const record = frame.error === null ? queryResult.safeParse(frame.result) : undefined;
    const isAnswer = record?.success === true && this.#isOurs(record.data.period);
    this.#queries.settled(isAnswer);
    if (!isAnswer || this.#isUnknown) return;
    const result = this.#stalls?.observeQuery(asFeedRecord(record.data), clock.monotonicMs());
    this.#record('query', asFeedRecord(record.data));
    if (this.#phase !== 'following') return;
    // The answer was true at some time after the question left.
    if (result === 'agrees') this.#alive(exchangeClock.atMonotonicMs(sentMonotonicMs), true);
    if (result === 'stalled') this.#end('stalled');
  }

  #updated(frame: Extract<ServerFrame, { kind: 'update' }>): void {
    const { clock, exchangeClock, market } = this.#settings;
    const isOurs = frame.market === undefined || frame.market === market;
    const isDue = this.#phase === 'following' && !this.#isUnknown;
    if (!isDue || !isOurs || !this.#isOurs(frame.record.period)) {
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
    this.#queries.updated();
    this.#record('update', frame.record);
    if (this.#phase === 'following') this.#alive(exchangeClock.nowMs(), false);
  }

  #isOurs(periodS: number | undefined): boolean {
    return periodS === undefined || periodS === this.#settings.periodS;
  }

  #record(origin: 'query' | 'update', record: FeedRecord): void {
    const { clock, exchangeClock } = this.#settings;
    this.#hadData = true;
    this.#report({
      kind: 'record',
      origin,
      record,
      receivedAtMs: clock.wallMs(),
      exchangeMs: Math.max(exchangeClock.nowMs(), this.#knownFromMs),
    });
  }

  #alive(exchangeMs: number, isReported: boolean): void {
    this.#lastAliveExchangeMs = Math.max(this.#lastAliveExchangeMs ?? exchangeMs, exchangeMs);
    if (isReported) this.#report({ kind: 'alive', exchangeMs });
  }

  #report(event: StateEvent): void {
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
    const reason = reasonOfFailure(codeOf(error), this.#isOpen());
    if (reason === 'connect_failed') this.#detail = tlsRefusal(error) ?? messageOf(error);
    // The library names what a peer did wrong.
    if (reason === 'oversized' || reason === 'protocol_error') this.#count('unrecognised');
    this.#end(reason);
  }

  /** @param received the close code of the peer, where it is the peer that ended it */
  #end(reason: CloseReason, received?: number): void {
    if (this.#phase === 'ended') return;
    const { clock, exchangeClock, telemetry, market, periodS } = this.#settings;
    this.#phase = 'ended';
    this.#endReason = reason;
    this.#wasSilent = reason === 'stalled' && !this.#hadUpdates;
    this.#cancelDeadline?.();
    this.#queries.end();
    const isOurs = this.#socket?.readyState === WebSocket.OPEN;
    if (isOurs) this.#socket?.close(NORMAL_CLOSURE);
    this.#socket?.terminate();
    const code = received ?? (isOurs ? NORMAL_CLOSURE : ABNORMAL_CLOSURE);
    const livedMs = Math.round(clock.monotonicMs() - this.#startedMs);
    const detail = this.#detail === undefined ? {} : { detail: this.#detail };
    telemetry.socketClosed({ market, periodS, code, reason, livedMs, ...detail });
    const lastAliveExchangeMs = this.#lastAliveExchangeMs;
    const exchangeMs = exchangeClock.nowMs();
    this.#sink.closed({ kind: 'closed', code, reason, lastAliveExchangeMs, exchangeMs, livedMs });
    this.#finish();
  }
}

/** The result of a state.query: some servers leave the period out. */
const queryResult = stateRecord.partial({ period: true });

/** A frame of the server; undefined when it is not JSON that can be read. */
function parseFrame(data: RawData, words: RealtimeWords): ServerFrame | undefined {
  try {
    // Text of at most `maxFrameBytes`, valid UTF-8: ws has checked both.
    return readServerFrame(parseJson(String(data)), words);
  } catch {
    return undefined;
  }
}

/** A record with or without its period, as the feed reports it. */
function asFeedRecord(
  record: Omit<FeedRecord, 'period'> & { period?: number | undefined },
): FeedRecord {
  return { ...record, period: record.period };
}
