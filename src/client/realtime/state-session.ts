import { GAP_NOTICES_METHOD } from '../../contract/gap-notices.js';
import type { ServerFrame } from '../../contract/realtime.js';
import { stateRecord } from '../../contract/resources.js';
import { isReplay } from '../reply-reader.js';
import { FrameSocket, type SocketEnd } from './frame-socket.js';
import type { FeedSink } from './reconnecting.js';
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
  readonly #sink: FeedSink<StateEvent>;
  /** Made with the subscription: it depends on who is at the other end. */
  #stalls: StallDetector | undefined;
  readonly #socket: FrameSocket;
  #isFollowing = false;
  readonly #queries: StateQueries;
  #subscribeId = GAPS_ID;
  readonly #request: SubscriptionRequest;
  #identity: string | null = null;
  #lastAliveExchangeMs: number | null = null;
  #hadData = false;
  #hadUpdates = false;
  #wasSilent = false;
  #endReason: CloseReason | undefined;
  /** At a replay: it has not said that it knows the states of this time. */
  #isUnknown = false;
  /** Since when it knows them; our guess of its time must not lie before. */
  #knownFromMs = Number.NEGATIVE_INFINITY;

  constructor(settings: SessionSettings, sink: FeedSink<StateEvent>) {
    this.#settings = settings;
    this.#sink = sink;
    const { subscriptionForm, market, periodS } = settings;
    const { words } = subscriptionForm;
    this.#socket = new FrameSocket(
      { ...settings, words },
      {
        opened: (identity) => this.#subscribe(identity),
        received: (frame) => this.#received(frame),
        ended: (end) => this.#ended(end),
      },
    );
    this.#request = new SubscriptionRequest(subscriptionForm, market, periodS);
    this.#queries = new StateQueries({
      ...settings,
      send: () => this.#send('state.query', [market, periodS]),
      end: (reason) => this.#socket.end(reason),
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
    return this.#socket.run(signal);
  }

  /** @returns the id of the request */
  #send(method: 'state.subscribe' | 'state.query', params: readonly unknown[]): number {
    const word = this.#settings.subscriptionForm.words.methods?.[method] ?? method;
    return this.#socket.send(word, params);
  }

  #subscribe(identity: string | null): void {
    const { acknowledgeTimeoutMs } = this.#settings;
    this.#identity = identity;
    this.#stalls = new StallDetector(acknowledgeTimeoutMs, isReplay(identity));
    if (isReplay(identity)) {
      this.#isUnknown = true;
      this.#socket.send(GAP_NOTICES_METHOD, [], GAPS_ID);
    }
    this.#askToSubscribe();
  }

  #askToSubscribe(): void {
    this.#socket.setDeadline('subscribe_ignored');
    this.#subscribeId = this.#send('state.subscribe', this.#request.params);
  }

  #received(frame: ServerFrame): boolean {
    if (frame.kind === 'response') this.#answered(frame);
    else if (frame.kind === 'update') this.#updated(frame);
    else if (frame.kind === 'gap' && isReplay(this.#identity)) this.#gapTold(frame);
    else return false;
    return true;
  }

  #answered(frame: Extract<ServerFrame, { kind: 'response' }>): void {
    if (!this.#isFollowing && frame.id === this.#subscribeId) {
      this.#count('response');
      const step = this.#request.answered(frame);
      if (step === 'follow') this.#follow();
      else if (step === 'ask again') this.#askToSubscribe();
      else this.#socket.end(step);
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
    if (!this.#isFollowing) return;
    if (isGap && !wasUnknown) this.#report({ kind: 'gap', fromExchangeMs: atMs });
    // What is known again is reported in full, as on a new connection.
    if (!isGap && wasUnknown && !this.#queries.isWaiting) this.#queries.ask();
  }

  #follow(): void {
    const { clock, exchangeClock, telemetry, market, periodS } = this.#settings;
    this.#isFollowing = true;
    this.#socket.clearDeadline();
    telemetry.socketOpened({ market, periodS });
    this.#report({
      kind: 'opened',
      identity: this.#identity,
      atMs: clock.wallMs(),
      exchangeMs: exchangeClock.nowMs(),
    });
    if (!this.#socket.isEnded) this.#queries.ask();
  }

  #queryAnswered(sentMonotonicMs: number, frame: Extract<ServerFrame, { kind: 'response' }>): void {
    const { clock, exchangeClock } = this.#settings;
    const record = frame.error === null ? queryResult.safeParse(frame.result) : undefined;
    const isAnswer = record?.success === true && this.#isOurs(record.data.period);
    this.#queries.settled(isAnswer);
    if (!isAnswer || this.#isUnknown) return;
    const result = this.#stalls?.observeQuery(asFeedRecord(record.data), clock.monotonicMs());
    this.#record('query', asFeedRecord(record.data));
    if (this.#socket.isEnded) return;
    // The answer was true at some time after the question left.
    if (result === 'agrees') this.#alive(exchangeClock.atMonotonicMs(sentMonotonicMs), true);
    if (result === 'stalled') this.#socket.end('stalled');
  }

  #updated(frame: Extract<ServerFrame, { kind: 'update' }>): void {
    const { clock, exchangeClock, market } = this.#settings;
    const isOurs = frame.market === undefined || frame.market === market;
    const isDue = this.#isFollowing && !this.#isUnknown;
    if (!isDue || !isOurs || !this.#isOurs(frame.record.period)) {
      this.#count('dropped');
      return;
    }
    if (this.#stalls?.observeUpdate(frame.record, clock.monotonicMs()) === false) {
      // Others may have been lost before it: what is sure begins with a new connection.
      this.#count('dropped');
      this.#socket.end('stalled');
      return;
    }
    this.#count('update');
    this.#hadUpdates = true;
    this.#queries.updated();
    this.#record('update', frame.record);
    if (!this.#socket.isEnded) this.#alive(exchangeClock.nowMs(), false);
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
    if (!this.#sink.offer(event)) this.#socket.end('overflow');
  }

  #count(outcome: 'update' | 'response' | 'dropped'): void {
    this.#socket.count(outcome);
  }

  #ended(end: SocketEnd): void {
    const { exchangeClock, telemetry, market, periodS } = this.#settings;
    const { code, reason, livedMs } = end;
    this.#isFollowing = false;
    this.#endReason = reason;
    this.#wasSilent = reason === 'stalled' && !this.#hadUpdates;
    this.#queries.end();
    telemetry.socketClosed({ market, periodS, ...end });
    const lastAliveExchangeMs = this.#lastAliveExchangeMs;
    const exchangeMs = exchangeClock.nowMs();
    this.#sink.closed({ kind: 'closed', code, reason, lastAliveExchangeMs, exchangeMs, livedMs });
  }
}

/** The result of a state.query: some servers leave the period out. */
const queryResult = stateRecord.partial({ period: true });

/** A record with or without its period, as the feed reports it. */
function asFeedRecord(
  record: Omit<FeedRecord, 'period'> & { period?: number | undefined },
): FeedRecord {
  return { ...record, period: record.period };
}
