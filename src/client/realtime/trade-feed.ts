import { endpoints } from '../../contract/endpoints.js';
import {
  type FrameOf,
  REALTIME_ERRORS,
  type RealtimeWords,
  type ServerFrame,
  type TradeWords,
} from '../../contract/realtime.js';
import type { HistoryTrade } from '../../contract/resources.js';
import type { RejectedRow } from '../../contract/shape.js';
import { MINUTE_MS } from '../../kernel/durations.js';
import { type FrameOutcome, FrameSocket, type SocketEnd } from './frame-socket.js';
import {
  type FeedSettings,
  type FeedSink,
  type Followed,
  filledIn,
  ReconnectingFeed,
  type ReconnectingOptions,
} from './reconnecting.js';
import type { CloseReason } from './state-feed.js';
import { isOfWhatWasAsked, isSuccess, NamesToSubscribe } from './subscription-form.js';

/** Reports of a feed of trades, in order. All `…ExchangeMs` are estimates of exchange time. */
export type TradeFeedEvent =
  /** The subscription was acknowledged, or one that took its place: trades from now on are pushed. */
  | {
      readonly kind: 'opened';
      /** The header `x-tapekeep-exchange` of the handshake; null elsewhere. */
      readonly identity: string | null;
      readonly exchangeMs: number;
    }
  /** Trades of one market, in the order of the frame. */
  | {
      readonly kind: 'trades';
      /** `answer`: the newest ones, as they were asked for; a cache may have kept them. */
      readonly origin: 'update' | 'answer';
      readonly market: string;
      readonly trades: readonly HistoryTrade[];
      /** Rows that do not fit the contract. */
      readonly rejected: readonly RejectedRow[];
      /** This machine's wall clock. */
      readonly receivedAtMs: number;
      readonly exchangeMs: number;
    }
  /** A frame that is not known: trades of any market may have been in it. */
  | { readonly kind: 'unread'; readonly exchangeMs: number }
  /**
   * The markets changed, and another subscription is to take the place of the one that there is: until `opened`,
   * trades may be pushed or not.
   */
  | { readonly kind: 'resubscribing'; readonly exchangeMs: number }
  /** The connection ended; without an `opened` before it when it ended earlier than that. */
  | {
      readonly kind: 'closed';
      readonly code: number;
      readonly reason: CloseReason;
      readonly exchangeMs: number;
      readonly livedMs: number;
    }
  /** The next connection is tried after `waitMs`; `attempts` failed in a row. */
  | { readonly kind: 'retrying'; readonly waitMs: number; readonly attempts: number };

/** Options of {@link openTradeFeed}. */
export interface TradeFeedOptions extends ReconnectingOptions {
  /** How the exchange speaks. */
  readonly words: RealtimeWords;
  /** Names of the pairs that are wanted, asked at each subscription. */
  readonly markets: () => readonly string[];
}

/**
 * The trades of many markets over one connection at a time that is renewed for ever. Iterate once;
 * leaving the loop stops the feed.
 */
export interface TradeFeed extends AsyncIterable<TradeFeedEvent> {
  /** Asks for the newest trades of one market, within the limits, where the exchange has a word for it. */
  ask(market: string): void;
  /** The markets changed: subscribes anew on the connection that there is. */
  resubscribe(): void;
  /** Trades happen that are not pushed: ends the connection that there is, so that another is made. */
  renew(): void;
  /** Closes the connection and ends the iteration after the events that are queued. Idempotent. */
  stop(): Promise<void>;
}

const DEFAULT_MAX_FRAME_BYTES = 1024 * 1024;
/** Between two looks at whether trades are pushed by now, where they were not. */
const NOT_OFFERED_WAIT_MS = 600_000;
/** Questions for newest trades that are under way at the same time. */
const QUESTIONS_MAX = 8;
/** Name of the feed where others stand for a market. */
const ALL = { market: '*', periodS: 0 };

/**
 * Opens the feed of an exchange's trades and starts to connect at once.
 *
 * @throws InvalidAddressError when `url` is not a plain ws or wss address
 * @throws RangeError where the exchange's words have none for trades
 */
export function openTradeFeed(given: TradeFeedOptions): TradeFeed {
  const options = filledIn(given, DEFAULT_MAX_FRAME_BYTES);
  const words = options.words.trades;
  if (words === undefined) throw new RangeError('this exchange pushes no trades');
  let session: TradeSession | undefined;
  const feed = new ReconnectingFeed<TradeFeedEvent>(options, {
    needsConnection: () => options.markets().length > 0,
    async follow(sink, signal) {
      if (options.markets().length === 0) return { hadData: false };
      session = new TradeSession(options, words, sink);
      const followed = await session.run(signal);
      session = undefined;
      return followed;
    },
    retrying(waitMs, attempts) {
      options.telemetry.socketRetry({ ...ALL, waitMs });
      return { kind: 'retrying', waitMs, attempts };
    },
  });
  return {
    ask: (market) => session?.ask(market),
    resubscribe: () => session?.resubscribe(),
    renew: () => session?.renew(),
    stop: () => feed.stop(),
    [Symbol.asyncIterator]: () => feed[Symbol.asyncIterator](),
  };
}

/**
 * One connection that follows the trades of many markets.
 *
 * States: *connecting* → *subscribing* → *following* (acknowledged; `opened` reported; a ping now and then, the
 * newest trades of a market where they are wanted) ⇄ *subscribing anew* (the markets changed) → *ended*. Each of
 * them but *following*, each ping and each question has a deadline.
 */
class TradeSession {
  readonly #options: TradeFeedOptions & FeedSettings;
  readonly #words: TradeWords;
  readonly #sink: FeedSink<TradeFeedEvent>;
  readonly #socket: FrameSocket;
  #markets: ReadonlySet<string> = new Set();
  /** Request of the subscription in progress; undefined: none. */
  #names: NamesToSubscribe | undefined;
  #subscribeId = 0;
  /** The markets changed while a subscription was under way. */
  #isChanged = false;
  #pingId = 0;
  #identity: string | null = null;
  #isFollowing = false;
  #cancelPing: (() => void) | undefined;
  /** Markets whose newest trades are still to be asked for. */
  readonly #wanted = new Set<string>();
  /** Questions under way: the market of each, and how its deadline is lifted. */
  readonly #questions = new Map<number, { readonly market: string; readonly cancel: () => void }>();
  #askedCount = 0;
  /** When the next question may leave, monotonic. */
  #askableAtMs = 0;
  #cancelAsk: (() => void) | undefined;
  /** True if anything was pushed. */
  #hadData = false;
  /** False when the exchange refused to push trades, whichever markets it was asked for. */
  #isOffered = true;

  constructor(
    options: TradeFeedOptions & FeedSettings,
    words: TradeWords,
    sink: FeedSink<TradeFeedEvent>,
  ) {
    this.#options = options;
    this.#words = words;
    this.#sink = sink;
    this.#socket = new FrameSocket(options, {
      opened: (identity) => {
        this.#identity = identity;
        this.#subscribe();
      },
      received: (frame) => this.#received(frame),
      ended: (end) => this.#ended(end),
    });
  }

  /** Connects, and resolves when something has ended the connection. Never rejects. */
  async run(signal: AbortSignal): Promise<Followed> {
    await this.#socket.run(signal);
    return {
      hadData: this.#hadData,
      ...(!this.#isOffered && { waitMs: NOT_OFFERED_WAIT_MS }),
    };
  }

  /** Does nothing before the first subscription, which asks for the markets of then. */
  resubscribe(): void {
    if (this.#names !== undefined) this.#isChanged = true;
    else if (this.#isFollowing) this.#subscribe();
  }

  ask(market: string): void {
    const isAsked = [...this.#questions.values()].some((one) => one.market === market);
    if (!this.#isFollowing || isAsked || this.#words.request === undefined) return;
    this.#wanted.add(market);
    this.#ask();
  }

  renew(): void {
    if (this.#isFollowing) this.#socket.end('stalled');
  }

  /** A second subscription takes the place of the first. */
  #subscribe(): void {
    const markets = this.#options.markets();
    this.#isChanged = false;
    this.#markets = new Set(markets);
    if (markets.length === 0) return;
    this.#cancelPing?.();
    const exchangeMs = this.#options.exchangeClock.nowMs();
    if (this.#isFollowing) this.#offer({ kind: 'resubscribing', exchangeMs });
    this.#names = new NamesToSubscribe(this.#words.isAll === true ? [] : markets);
    this.#askToSubscribe(this.#names);
  }

  #askToSubscribe({ asked }: NamesToSubscribe): void {
    this.#subscribeId = this.#socket.send(this.#words.subscribe, asked);
    this.#socket.setDeadline('subscribe_ignored');
  }

  #received(frame: ServerFrame): FrameOutcome {
    if (frame.kind === 'response') return this.#answered(frame);
    if (frame.kind === 'trades') return this.#updated(frame);
    const exchangeMs = this.#options.exchangeClock.nowMs();
    if (this.#isFollowing) this.#offer({ kind: 'unread', exchangeMs });
    return 'unrecognised';
  }

  #answered(frame: FrameOf<'response'>): FrameOutcome {
    const { id, result, error } = frame;
    const question = this.#questions.get(Number(id));
    if (this.#names !== undefined && id === this.#subscribeId) {
      this.#subscriptionAnswered(this.#names, frame);
    } else if (id === this.#pingId) {
      if (this.#names === undefined) this.#pingLater();
    } else if (question !== undefined) {
      question.cancel();
      this.#questions.delete(Number(id));
      if (error === null && Array.isArray(result)) this.#report('answer', question.market, result);
      this.#ask();
    } else return 'dropped';
    return 'response';
  }

  #subscriptionAnswered(names: NamesToSubscribe, { result, error }: FrameOf<'response'>): void {
    const isForGood = isOfWhatWasAsked(error);
    if (error === null && isSuccess(result)) {
      if (names.took()) this.#askToSubscribe(names);
      else this.#follow();
      return;
    }
    const isUnknown = error?.code === REALTIME_ERRORS.methodNotFound.code;
    if (isForGood && !isUnknown && names.narrow()) {
      this.#askToSubscribe(names);
      return;
    }
    this.#isOffered = this.#isFollowing || !isForGood;
    this.#socket.end('subscribe_refused');
  }

  #follow(): void {
    const { telemetry, exchangeClock } = this.#options;
    this.#names = undefined;
    if (!this.#isFollowing) telemetry.socketOpened(ALL);
    this.#isFollowing = true;
    if (this.#isChanged) {
      this.#subscribe();
      if (this.#names !== undefined) return;
    }
    this.#offer({ kind: 'opened', identity: this.#identity, exchangeMs: exchangeClock.nowMs() });
    if (!this.#socket.isEnded) this.#pingLater();
  }

  #pingLater(): void {
    const { clock, queryEveryMs, words } = this.#options;
    const word = words.methods?.['server.ping'] ?? 'server.ping';
    this.#socket.clearDeadline();
    this.#cancelPing?.();
    this.#cancelPing = clock.after(queryEveryMs, () => {
      this.#pingId = this.#socket.send(word, []);
      this.#socket.setDeadline('silent');
    });
  }

  /** Asks for what is wanted, as far as the limits allow it now. */
  #ask(): void {
    const { request, requestMax = 100 } = this.#words;
    const { clock, acknowledgeTimeoutMs } = this.#options;
    this.#cancelAsk?.();
    for (const market of this.#wanted) {
      if (request === undefined || this.#questions.size >= QUESTIONS_MAX) return;
      const waitMs = this.#askableAtMs - clock.monotonicMs();
      if (waitMs > 0) {
        this.#cancelAsk = clock.after(waitMs, () => this.#ask());
        return;
      }
      this.#wanted.delete(market);
      this.#asked();
      const id = this.#socket.send(request, [market, requestMax, 0]);
      // One that is never answered is left to the pages of history.
      const cancel = clock.after(acknowledgeTimeoutMs, () => {
        this.#questions.delete(id);
        this.#ask();
      });
      this.#questions.set(id, { market, cancel });
    }
  }

  /** Share of an exchange's limit for a connection: a quarter may leave at once, and half of it each minute. */
  #asked(): void {
    const { words, clock } = this.#options;
    const { requestsPerMinute: limit = Infinity } = words;
    this.#askedCount += 1;
    if (this.#askedCount >= limit / 4) {
      this.#askableAtMs = clock.monotonicMs() + MINUTE_MS / (limit / 2);
    }
  }

  #updated({ market, rows }: FrameOf<'trades'>): FrameOutcome {
    const isOurs = this.#markets.has(market);
    if (!this.#isFollowing || !(isOurs || this.#words.isAll === true)) return 'dropped';
    if (isOurs) this.#report('update', market, rows);
    return 'update';
  }

  #report(origin: 'update' | 'answer', market: string, rows: readonly unknown[]): void {
    const { clock, exchangeClock } = this.#options;
    const { data: trades, rejected } = endpoints.history.result.parse(rows, { market });
    this.#hadData ||= origin === 'update' && trades.length > 0;
    const at = { receivedAtMs: clock.wallMs(), exchangeMs: exchangeClock.nowMs() };
    this.#offer({ kind: 'trades', origin, market, trades, rejected, ...at });
  }

  #offer(event: TradeFeedEvent): void {
    if (!this.#sink.offer(event)) this.#socket.end('overflow');
  }

  #ended(end: SocketEnd): void {
    const { telemetry, exchangeClock } = this.#options;
    const { code, reason, livedMs } = end;
    this.#isFollowing = false;
    this.#cancelPing?.();
    this.#cancelAsk?.();
    this.#wanted.clear();
    for (const { cancel } of this.#questions.values()) cancel();
    this.#questions.clear();
    telemetry.socketClosed({ ...ALL, ...end });
    this.#sink.closed({ kind: 'closed', code, reason, exchangeMs: exchangeClock.nowMs(), livedMs });
  }
}
