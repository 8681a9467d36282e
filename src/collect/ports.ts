import type {
  CallOptions,
  ExchangeClock,
  Reply,
  RequestTurn,
  StateFeed,
  TradeFeed,
  TradeFeedOptions,
} from '../client/index.js';
import type { EndpointName, ParamsOf, ResultOf } from '../contract/endpoints.js';
import type { Clock } from '../kernel/clock.js';
import { AbortedError } from '../kernel/errors.js';
import type { StreamRef } from '../model/batch.js';
import type { CollectEvents } from '../observe/events.js';
import type { Store } from '../store/index.js';

/** An answer of the exchange with what shows how old and complete it is. */
export type ExchangeReply<T> = Pick<
  Reply<T>,
  'data' | 'rejected' | 'sentAtMs' | 'answeredAtMs' | 'dateMs' | 'receivedAtMs'
> &
  Partial<Pick<Reply<T>, 'cachedAtMs' | 'isRaised'>>;

/** The client as collectors see it. */
export interface ExchangePort {
  /** Candles that may be asked for at once. */
  readonly candlesMax: number;
  /** Whether the exchange has an endpoint, as far as its dialect says. */
  offers(name: EndpointName): boolean;
  /**
   * Waits until one request may start, so that what to ask for can be chosen then and not before.
   * The holder of the turn uses it or gives it back at once.
   *
   * @param name the endpoint that is likely to be asked
   */
  reserve(name: EndpointName, priority: number, signal: AbortSignal): Promise<RequestTurn>;
  call<N extends EndpointName>(
    name: N,
    params: ParamsOf<N>,
    options?: CallOptions,
  ): Promise<ExchangeReply<ResultOf<N>>>;
}

/** The same exchange, called in another way. */
export function calledBy(
  exchange: Omit<ExchangePort, 'call'>,
  call: ExchangePort['call'],
): ExchangePort {
  return {
    candlesMax: exchange.candlesMax,
    offers: (name) => exchange.offers(name),
    reserve: (name, priority, signal) => exchange.reserve(name, priority, signal),
    call,
  };
}

/** The exchange's time, never this machine's unless both agree. */
export type ExchangeTime = Pick<ExchangeClock, 'nowMs'>;

/** The exchange's time as far as coverage may be claimed of it. */
export type ClaimTime = Pick<ExchangeClock, 'nowMs' | 'jumps' | 'lived' | 'pace' | 'witness'>;

export type StateFeedPort = Pick<StateFeed, 'stop' | typeof Symbol.asyncIterator> &
  Partial<Pick<StateFeed, 'ask'>>;

/** `coveredUntilMs`: exchange time from which on it may bring what was pushed before it was opened. */
export type OpenStateFeed = (
  market: string,
  periodS: number,
  coveredUntilMs?: number,
) => StateFeedPort;

export type TradeFeedPort = Pick<
  TradeFeed,
  'ask' | 'resubscribe' | 'renew' | 'stop' | typeof Symbol.asyncIterator
>;

/** Opens the feed of all trades; see `openTradeFeed` of the client. */
export type OpenTradeFeed = (of: Pick<TradeFeedOptions, 'markets'>) => TradeFeedPort;

/** What collectors ask of the store, and nothing more. */
export const ARCHIVE_METHODS = [
  ...(['commit', 'ensureMarkets', 'listedMarkets', 'ensureStream', 'coveredRanges'] as const),
  ...(['want', 'fillRequests', 'listGaps', 'startTries', 'noteStartTry'] as const),
  ...(['revokeBeyond', 'notePresent', 'storedTrades', 'storedAbove', 'untimedTrades'] as const),
  ...(['hasTradeBefore', 'tradedSlots', 'recordIdEpoch'] as const),
  ...(['offsetModes', 'rememberOffsetMode', 'openSession', 'closeSession'] as const),
] as const;

/** The store as collectors see it. The tests' model of an archive stands in for it. */
export type ArchivePort = Pick<Store, (typeof ARCHIVE_METHODS)[number]>;

/** What the collector of one stream works with. */
export interface StreamContext {
  /** `*` for a stream of all of them. */
  readonly market: string;
  readonly stream: StreamRef;
  readonly archive: ArchivePort;
  readonly time: ExchangeTime;
  readonly clock: Clock;
  readonly telemetry: CollectEvents;
}

/**
 * Kinds of work that share the request budget (kernel, `WaitingLine`). Where they ask for more than there is, the
 * newest trades have half of it, tickers and depth two fifths, newest candles and history a tenth.
 */
export const PRIORITY = {
  head: -1,
  sweep: 0,
  markets: 0,
  snapshot: 1,
  klines: 2,
  fill: 3,
} as const;

/** A turn that is waited for, and may be given up before it comes. */
export class Reservation {
  readonly turn: Promise<RequestTurn>;
  readonly #controller = new AbortController();

  constructor(
    exchange: Pick<ExchangePort, 'reserve'>,
    endpoint: EndpointName,
    priority: number,
    signal: AbortSignal,
  ) {
    const giveUp = () => this.giveUp();
    signal.addEventListener('abort', giveUp, { once: true });
    if (signal.aborted) giveUp();
    this.turn = exchange
      .reserve(endpoint, priority, this.#controller.signal)
      .finally(() => signal.removeEventListener('abort', giveUp));
  }

  giveUp(): void {
    this.#controller.abort(new AbortedError());
  }
}
