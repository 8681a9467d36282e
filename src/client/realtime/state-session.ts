import { isReplay, TIME_NOTICE } from '../../contract/extensions.js';
import {
  type FrameOf,
  LIST_PERIOD_S,
  MARKETS_PER_CONNECTION,
  type ServerFrame,
} from '../../contract/realtime.js';
import { stateRecord } from '../../contract/resources.js';
import { sleep } from '../../kernel/clock.js';
import { DEFAULT_PRIORITY } from '../exchange-client.js';
import { type FrameOutcome, FrameSocket, NORMAL_CLOSURE, type SocketEnd } from './frame-socket.js';
import type { FeedSettings, FeedSink } from './reconnecting.js';
import type { CloseReason, FeedRecord, StateEvent, StateFeedOptions } from './state-feed.js';
import { StallDetector, StateQueries, type StateQueriesOptions } from './state-queries.js';
import { type SubscriptionForm, SubscriptionRequest } from './subscription-form.js';

/** Options of every connection for states of one exchange. */
export interface SessionSettings extends FeedSettings {
  readonly form: SubscriptionForm;
}

/** Subject: one market, over one period. */
type MarketPeriod = Pick<StateFeedOptions, 'market' | 'periodS'>;

/** How a connection ended for one of its markets. */
export interface LineEnd {
  readonly reason: CloseReason;
  /** The connection brought data, for this market or, where it ended as a whole, for another. */
  readonly hadData: boolean;
  /** In [0, 1), the same for all markets of a connection, so that they come back together. */
  readonly draw: number;
  /** One of those that ended together reports it. */
  readonly isTeller: boolean;
}

interface Member {
  readonly line: StateLine;
  readonly resolve: (end: LineEnd) => void;
}

const TIME_ID = 0;
/** So long after the last market that joined, a connection that takes a list is made. */
const GATHER_MS = 500;
/** The first market waits no longer than that for others: a start opens hundreds one after another. */
const GATHER_MAX_MS = 10_000;

/**
 * One connection that follows the states of one market and period or, where the exchange takes lists, of
 * many markets.
 *
 * States: *gathering* (of a list only: markets join, and the connect budget is waited for) → *connecting* →
 * *subscribing* (state.subscribe sent, until each market is accepted or refused) → *following* → *ended*.
 * Connecting and each question have a deadline. From every state it goes to *ended* exactly once.
 *
 * A market never joins a connection that follows others already: exchanges differ in what a second
 * subscription does to the first, and what was followed must be known to be whole.
 */
export class StateSession {
  readonly #settings: SessionSettings;
  readonly #isList: boolean;
  readonly #socket: FrameSocket;
  /** By market. */
  readonly #members = new Map<string, Member>();
  readonly #ending = new AbortController();
  readonly #startedMs: number;
  readonly #draw: number;
  #running: Promise<void> | undefined;
  #request: SubscriptionRequest | undefined;
  #subscribeId = TIME_ID;
  #isFollowing = false;
  #identity: string | null = null;
  /** How events call it. */
  #name: MarketPeriod;

  /** @param number among all connections of these feeds: markets of a list may move to another one */
  constructor(settings: SessionSettings, number: number) {
    const { form, clock, random } = settings;
    this.#settings = settings;
    this.#isList = form.isList;
    this.#startedMs = clock.monotonicMs();
    this.#draw = random();
    this.#name = { market: `list ${number}`, periodS: LIST_PERIOD_S };
    this.#socket = new FrameSocket(settings, {
      opened: (identity) => this.#opened(identity),
      received: (frame) => this.#received(frame),
      ended: (end) => this.#ended(end),
    });
  }

  /** Asks for the state of a market now. */
  ask(market: string): void {
    this.#members.get(market)?.line.ask();
  }

  /** Returns true if this market may join. */
  hasRoomFor(market: string): boolean {
    const isGathering = this.#isList && this.#request === undefined && !this.#socket.isEnded;
    return isGathering && this.#members.size < MARKETS_PER_CONNECTION && !this.#members.has(market);
  }

  /**
   * Follows one market until that or the connection ends. Never rejects.
   *
   * @param signal ends this market's line alone
   */
  async join(
    { market, periodS }: MarketPeriod,
    sink: FeedSink<StateEvent>,
    signal: AbortSignal,
  ): Promise<LineEnd> {
    const ended = new Promise<LineEnd>((resolve) => {
      const send = () => this.#send('state.query', [market, periodS]);
      const leave = (reason: CloseReason) => this.#leave(market, reason);
      const line = new StateLine({ ...this.#settings, market, periodS, send, end: leave }, sink);
      const onAbort = () => leave('stopped');
      if (!this.#isList) this.#name = { market, periodS };
      this.#members.set(market, {
        line,
        resolve: (end) => {
          signal.removeEventListener('abort', onAbort);
          resolve(end);
        },
      });
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
    });
    this.#running ??= this.#run();
    const end = await ended;
    // One that leaves earlier does not wait for the others.
    if (this.#socket.isEnded) await this.#running;
    return end;
  }

  /** Never rejects. */
  async #run(): Promise<void> {
    const { signal } = this.#ending;
    if (this.#isList) await this.#gather(signal);
    if (!this.#socket.isEnded) await this.#socket.run(signal);
  }

  async #gather(signal: AbortSignal): Promise<void> {
    const { clock, connectBudget } = this.#settings;
    try {
      const members = this.#members;
      let [known, waitedMs] = [0, 0];
      while (known < members.size && members.size < MARKETS_PER_CONNECTION) {
        if (waitedMs >= GATHER_MAX_MS) break;
        known = members.size;
        await sleep(clock, GATHER_MS, signal);
        waitedMs += GATHER_MS;
      }
      await connectBudget?.take(DEFAULT_PRIORITY, signal);
    } catch {
      // All have left meanwhile, or too many connections wait already: then the next try is later.
      this.#socket.end('connect_timeout');
    }
  }

  /** @returns the id of the request */
  #send(method: 'state.subscribe' | 'state.query', params: readonly unknown[]): number {
    return this.#socket.send(this.#settings.words.methods?.[method] ?? method, params);
  }

  #opened(identity: string | null): void {
    this.#identity = identity;
    const lines = [...this.#members.values()].map(({ line }) => line);
    const [first] = lines;
    if (first === undefined) return;
    for (const line of lines) line.connected(identity);
    if (isReplay(identity)) this.#socket.send(TIME_NOTICE, [], TIME_ID);
    const markets = lines.map(({ market }) => market);
    this.#request = new SubscriptionRequest(this.#settings.form, markets, first.periodS);
    this.#askToSubscribe(this.#request);
  }

  #askToSubscribe({ params }: SubscriptionRequest): void {
    this.#socket.setDeadline('subscribe_ignored');
    this.#subscribeId = this.#send('state.subscribe', params);
  }

  #received(frame: ServerFrame): FrameOutcome {
    if (frame.kind === 'response') return this.#answered(frame);
    if (frame.kind === 'update') return this.#updated(frame);
    if (frame.kind !== 'time' || !isReplay(this.#identity)) return 'unrecognised';
    this.#settings.exchangeClock.noticed(frame);
    return 'response';
  }

  #answered(frame: FrameOf<'response'>): FrameOutcome {
    if (!this.#isFollowing && frame.id === this.#subscribeId && this.#request !== undefined) {
      this.#subscriptionAnswered(this.#request, frame);
      return 'response';
    }
    const members = [...this.#members.values()];
    const isAnswer = members.some(({ line }) => line.answered(frame));
    return isAnswer ? 'response' : 'dropped';
  }

  #subscriptionAnswered(request: SubscriptionRequest, frame: FrameOf<'response'>): void {
    const step = request.answered(frame);
    if (step === 'follow') this.#follow();
    else if (step === 'ask again') this.#askToSubscribe(request);
    else this.#socket.end(step);
    for (const market of request.refused) this.#leave(market, 'subscribe_refused');
  }

  #follow(): void {
    this.#isFollowing = true;
    this.#socket.clearDeadline();
    this.#settings.telemetry.socketOpened(this.#name);
    for (const { line } of [...this.#members.values()]) line.follow();
  }

  #updated(frame: FrameOf<'update'>): FrameOutcome {
    // The contract's name no market: there the connection has but one.
    const [only] = this.#members.size === 1 ? this.#members.values() : [];
    const member = frame.market === undefined ? only : this.#members.get(frame.market);
    return member?.line.updated(frame) ?? 'dropped';
  }

  #leave(market: string, reason: CloseReason): void {
    const member = this.#members.get(market);
    if (member === undefined) return;
    if (this.#members.size === 1) {
      this.#socket.end(reason);
      return;
    }
    this.#members.delete(market);
    const livedMs = Math.round(this.#settings.clock.monotonicMs() - this.#startedMs);
    this.#release([member], { code: NORMAL_CLOSURE, reason, livedMs });
  }

  #ended(end: SocketEnd): void {
    this.#ending.abort();
    const { telemetry } = this.#settings;
    telemetry.socketClosed({ ...this.#name, ...end });
    const members = [...this.#members.values()];
    this.#members.clear();
    this.#release(members, end);
  }

  #release(members: readonly Member[], end: SocketEnd): void {
    for (const { line } of members) line.ended(end);
    const hadData = members.some(({ line }) => line.hadData);
    const { reason } = end;
    for (const [at, { resolve }] of members.entries()) {
      resolve({ reason, hadData, draw: this.#draw, isTeller: at === 0 });
    }
  }
}

/** Calls of a line to its connection, and parts that both share. */
type LineSettings = FeedSettings & MarketPeriod & StateQueriesOptions;

/**
 * The state of one market and period on one connection, which may carry several.
 *
 * States: *waiting* for the subscription → *following* (`opened` reported; a state.query now and every
 * `queryEveryMs`) → *ended*, from either and exactly once, which clears all timers and reports `closed`.
 */
class StateLine {
  readonly #settings: LineSettings;
  readonly #sink: FeedSink<StateEvent>;
  readonly #stalls: StallDetector;
  readonly #queries: StateQueries;
  #isFollowing = false;
  #identity: string | null = null;
  #lastAliveExchangeMs: number | null = null;
  #hadData = false;
  #hadUpdates = false;
  #wasSilent = false;

  constructor(settings: LineSettings, sink: FeedSink<StateEvent>) {
    this.#settings = settings;
    this.#sink = sink;
    this.#queries = new StateQueries(settings);
    this.#stalls = new StallDetector(settings.acknowledgeTimeoutMs);
  }

  get market(): string {
    return this.#settings.market;
  }

  get periodS(): number {
    return this.#settings.periodS;
  }

  /** Returns true if any record came, and not only answers that show a dead subscription. */
  get hadData(): boolean {
    return this.#hadData && !this.#wasSilent;
  }

  /** Asks now, unless an answer is owed already. */
  ask(): void {
    if (this.#isFollowing && !this.#queries.isWaiting) this.#queries.ask();
  }

  /** The connection is open. */
  connected(identity: string | null): void {
    this.#identity = identity;
  }

  /** The subscription is acknowledged. */
  follow(): void {
    const { clock, exchangeClock } = this.#settings;
    this.#isFollowing = true;
    this.#report({
      kind: 'opened',
      identity: this.#identity,
      atMs: clock.wallMs(),
      exchangeMs: exchangeClock.nowMs(),
    });
    if (this.#isFollowing) this.#queries.ask();
  }

  /** @returns whether it is the answer to this line's question */
  answered(frame: FrameOf<'response'>): boolean {
    const sentMonotonicMs = this.#queries.answered(frame.id);
    if (sentMonotonicMs === undefined) return false;
    const { clock, exchangeClock } = this.#settings;
    const record = frame.error === null ? queryResult.safeParse(frame.result) : undefined;
    const isAnswer = record?.success === true && this.#isOurs(record.data.period);
    // A replay refuses to answer before its first state, and pushes that when its time has come.
    this.#queries.settled(isAnswer || isReplay(this.#identity));
    if (!isAnswer || !this.#isFollowing) return true;
    const found = { ...record.data, period: record.data.period };
    const result = this.#stalls.observeQuery(found, clock.monotonicMs());
    this.#record('query', found);
    if (!this.#isFollowing) return true;
    // The answer was true at some time after the question left.
    if (result === 'agrees') this.#alive(exchangeClock.atMonotonicMs(sentMonotonicMs), true);
    if (result === 'stalled') this.#settings.end('stalled');
    return true;
  }

  updated({ record }: FrameOf<'update'>): FrameOutcome {
    const { clock, exchangeClock } = this.#settings;
    if (!this.#isFollowing || !this.#isOurs(record.period)) return 'dropped';
    if (this.#stalls.observeUpdate(record, clock.monotonicMs()) === false) {
      // Others may have been lost before it: what is sure begins with a new connection.
      this.#settings.end('stalled');
      return 'dropped';
    }
    this.#hadUpdates = true;
    this.#queries.updated();
    this.#record('update', record);
    if (this.#isFollowing) this.#alive(exchangeClock.nowMs(), false);
    return 'update';
  }

  #isOurs(periodS: number | undefined): boolean {
    return periodS === undefined || periodS === this.periodS;
  }

  #record(origin: 'query' | 'update', record: FeedRecord): void {
    const { clock, exchangeClock } = this.#settings;
    this.#hadData = true;
    this.#report({
      kind: 'record',
      origin,
      record,
      receivedAtMs: clock.wallMs(),
      exchangeMs: exchangeClock.nowMs(),
    });
  }

  #alive(exchangeMs: number, isReported: boolean): void {
    this.#lastAliveExchangeMs = Math.max(this.#lastAliveExchangeMs ?? exchangeMs, exchangeMs);
    if (isReported) this.#report({ kind: 'alive', exchangeMs });
  }

  #report(event: StateEvent): void {
    if (!this.#sink.offer(event)) this.#settings.end('overflow');
  }

  /** Called by the connection alone: a line that is to end asks for it by `end` of its settings. */
  ended({ code, reason, ...end }: SocketEnd): void {
    this.#isFollowing = false;
    this.#wasSilent = reason === 'stalled' && !this.#hadUpdates;
    this.#queries.end();
    const lastAliveExchangeMs = this.#lastAliveExchangeMs;
    const exchangeMs = this.#settings.exchangeClock.nowMs();
    this.#sink.closed({ kind: 'closed', code, reason, lastAliveExchangeMs, exchangeMs, ...end });
  }
}

/** The result of a state.query: some servers leave the period out. */
const queryResult = stateRecord.partial({ period: true });
