import type { ServerFrame } from '../../contract/realtime.js';
import { stateRecord } from '../../contract/resources.js';
import { isReplay } from '../reply-reader.js';
import type { FrameOutcome, SocketEnd } from './frame-socket.js';
import type { FeedSink } from './reconnecting.js';
import type { CloseReason, FeedRecord, StateEvent, StateFeedOptions } from './state-feed.js';
import { type QueryResult, StallDetector, StateQueries } from './state-queries.js';

/** The options of a feed with everything filled in that a connection needs. */
export interface LineSettings
  extends Pick<StateFeedOptions, 'market' | 'periodS' | 'clock' | 'exchangeClock'> {
  readonly acknowledgeTimeoutMs: number;
  readonly queryEveryMs: number;
}

/** What a line asks of its connection. */
export interface LineCarrier {
  /** Sends a state.query; gives its id. */
  query(): number;
  /** Ends this line, and with the last one the connection. */
  leave(reason: CloseReason): void;
}

type FrameOf<Kind extends ServerFrame['kind']> = Extract<ServerFrame, { kind: Kind }>;

/**
 * The state of one market and period on one connection, which may carry several.
 *
 * States: *waiting* for the subscription → *following* (`opened` reported; a state.query now and every
 * `queryEveryMs`) → *ended*, from either and exactly once, which clears all timers and reports `closed`.
 */
export class StateLine {
  readonly #settings: LineSettings;
  readonly #sink: FeedSink<StateEvent>;
  readonly #carrier: LineCarrier;
  /** Made with the connection: it depends on who is at the other end. */
  #stalls: StallDetector | undefined;
  readonly #queries: StateQueries;
  #phase: 'waiting' | 'following' | 'ended' = 'waiting';
  #identity: string | null = null;
  #lastAliveExchangeMs: number | null = null;
  #hadData = false;
  #hadUpdates = false;
  #wasSilent = false;
  /** At a replay: whether it knows the states of this time; undefined until it says so. */
  #isKnown: boolean | undefined = true;
  /** Since when that is so; our guess of its time must not lie before. */
  #sinceMs = Number.NEGATIVE_INFINITY;

  constructor(settings: LineSettings, sink: FeedSink<StateEvent>, carrier: LineCarrier) {
    this.#settings = settings;
    this.#sink = sink;
    this.#carrier = carrier;
    this.#queries = new StateQueries({
      ...settings,
      send: () => carrier.query(),
      end: (reason) => carrier.leave(reason),
    });
  }

  get market(): string {
    return this.#settings.market;
  }

  get periodS(): number {
    return this.#settings.periodS;
  }

  /** Whether any record came, and not only answers that show a dead subscription. */
  get hadData(): boolean {
    return this.#hadData && !this.#wasSilent;
  }

  /** The connection is open. At a replay nothing counts before it says what it knows. */
  connected(identity: string | null): void {
    this.#identity = identity;
    this.#isKnown = isReplay(identity) ? undefined : true;
    this.#stalls = new StallDetector(this.#settings.acknowledgeTimeoutMs, isReplay(identity));
  }

  /** The subscription is acknowledged. */
  follow(): void {
    const { clock, exchangeClock } = this.#settings;
    this.#phase = 'following';
    this.#report({
      kind: 'opened',
      identity: this.#identity,
      atMs: clock.wallMs(),
      exchangeMs: exchangeClock.nowMs(),
    });
    if (this.#isKnown === false) this.#reportGap(exchangeClock.nowMs());
    if (this.#isFollowing) this.#queries.ask();
  }

  get #isFollowing(): boolean {
    return this.#phase === 'following';
  }

  /** @returns whether it is the answer to this line's question */
  answered(frame: FrameOf<'response'>): boolean {
    const sentMonotonicMs = this.#queries.answered(frame.id);
    if (sentMonotonicMs === undefined) return false;
    const { clock, exchangeClock } = this.#settings;
    const record = frame.error === null ? queryResult.safeParse(frame.result) : undefined;
    const isAnswer = record?.success === true && this.#isOurs(record.data.period);
    this.#queries.settled(isAnswer);
    if (!isAnswer || this.#isKnown !== true || !this.#isFollowing) return true;
    const found = asFeedRecord(record.data);
    const result: QueryResult | undefined = this.#stalls?.observeQuery(found, clock.monotonicMs());
    this.#record('query', found);
    if (!this.#isFollowing) return true;
    // The answer was true at some time after the question left.
    if (result === 'agrees') this.#alive(exchangeClock.atMonotonicMs(sentMonotonicMs), true);
    if (result === 'stalled') this.#carrier.leave('stalled');
    return true;
  }

  updated({ market, record }: FrameOf<'update'>): FrameOutcome {
    const { clock, exchangeClock } = this.#settings;
    const isOurs = market === undefined || market === this.market;
    const isKnown = this.#isKnown === true;
    if (!this.#isFollowing || !isKnown || !isOurs || !this.#isOurs(record.period)) {
      return 'dropped';
    }
    if (this.#stalls?.observeUpdate(record, clock.monotonicMs()) === false) {
      // Others may have been lost before it: what is sure begins with a new connection.
      this.#carrier.leave('stalled');
      return 'dropped';
    }
    this.#hadUpdates = true;
    this.#queries.updated();
    this.#record('update', record);
    if (this.#isFollowing) this.#alive(exchangeClock.nowMs(), false);
    return 'update';
  }

  /** A gap of the archive that is replayed begins or ends. */
  gapTold({ isGap, atMs }: FrameOf<'gap'>): void {
    const wasKnown = this.#isKnown;
    this.#isKnown = !isGap;
    this.#sinceMs = atMs;
    if (!this.#isFollowing) return;
    const now = this.#settings.exchangeClock.nowMs();
    if (isGap && wasKnown !== false) this.#reportGap(wasKnown === undefined ? now : atMs);
    // What is known again is reported in full, as on a new connection.
    if (!isGap && wasKnown !== true && !this.#queries.isWaiting) this.#queries.ask();
  }

  /** A replay that knows nothing of gaps has none to report. */
  gapsRefused(): void {
    this.#isKnown = true;
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
      exchangeMs: Math.max(exchangeClock.nowMs(), this.#sinceMs),
    });
  }

  /** @param fromMs where the connection begins, of a gap that was there before it */
  #reportGap(fromMs: number): void {
    this.#report({ kind: 'gap', fromExchangeMs: Math.max(fromMs, this.#sinceMs) });
  }

  #alive(exchangeMs: number, isReported: boolean): void {
    this.#lastAliveExchangeMs = Math.max(this.#lastAliveExchangeMs ?? exchangeMs, exchangeMs);
    if (isReported) this.#report({ kind: 'alive', exchangeMs });
  }

  #report(event: StateEvent): void {
    if (!this.#sink.offer(event)) this.#carrier.leave('overflow');
  }

  /** Called by the connection alone, see {@link LineCarrier.leave}. */
  ended({ code, reason, livedMs }: SocketEnd): void {
    this.#phase = 'ended';
    this.#wasSilent = reason === 'stalled' && !this.#hadUpdates;
    this.#queries.end();
    const lastAliveExchangeMs = this.#lastAliveExchangeMs;
    const exchangeMs = this.#settings.exchangeClock.nowMs();
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
