import {
  LIST_PERIOD_S,
  MARKETS_PER_CONNECTION,
  type RealtimeWords,
} from '../../contract/realtime.js';
import { MINUTE_MS } from '../../kernel/durations.js';
import { NORMAL_CLOSURE } from './frame-socket.js';
import { type Following, filledIn, ReconnectingFeed } from './reconnecting.js';
import type { StateEvent, StateFeed, StateFeedOptions } from './state-feed.js';
import { type SessionSettings, StateSession } from './state-session.js';
import { SubscriptionForm } from './subscription-form.js';

/** Parts shared by all feeds of states of one exchange. */
export type StateFeedsOptions = Omit<StateFeedOptions, 'market' | 'periodS' | 'signal'>;

const DEFAULT_MAX_FRAME_BYTES = 64 * 1024;
/** Between two looks at whether a period is offered by now; most of them send nothing. */
const NOT_OFFERED_WAIT_MS = 60_000;

/**
 * The feeds of states of one exchange. Where it takes lists of markets, as its dialect says or as one of
 * the feeds finds out, those that connect at the same time share connections.
 */
export class StateFeeds {
  readonly #settings: SessionSettings;
  /** The connection that markets may join. */
  #gathering: StateSession | undefined;
  #made = 0;

  /** @throws InvalidAddressError when `url` is not a plain ws or wss address */
  constructor(options: StateFeedsOptions) {
    const settings = filledIn(options, DEFAULT_MAX_FRAME_BYTES);
    const { clock, words, queryEveryMs } = settings;
    this.#settings = {
      ...settings,
      queryEveryMs: Math.max(queryEveryMs, leastBetweenQueriesMs(words)),
      form: new SubscriptionForm(clock, words),
    };
  }

  /**
   * Opens the feed of one market and period and starts to connect at once.
   *
   * @param signal ends the feed like its `stop`
   */
  open(market: string, periodS: number, signal?: AbortSignal): StateFeed {
    const joined: { session?: StateSession } = {};
    const following = this.#following(market, periodS, joined);
    const feed = new ReconnectingFeed({ ...this.#settings, ...(signal && { signal }) }, following);
    return {
      market,
      periodS,
      ask: () => joined.session?.ask(market),
      stop: () => feed.stop(),
      [Symbol.asyncIterator]: () => feed[Symbol.asyncIterator](),
    };
  }

  /** @param joined hears of the connection that the market has at present */
  #following(
    market: string,
    periodS: number,
    joined: { session?: StateSession },
  ): Following<StateEvent> {
    const { telemetry, exchangeClock, form } = this.#settings;
    let isTeller = true;
    return {
      // A connection that takes a list waits for the budget once, for all its markets.
      needsConnection: () => !form.isList,
      follow: async (sink, signal) => {
        if (form.isList && periodS !== LIST_PERIOD_S) {
          // Reported in place of a connection that would end at once.
          const reason = 'period_not_offered';
          const nothing = { lastAliveExchangeMs: null, livedMs: 0 };
          const exchangeMs = exchangeClock.nowMs();
          sink.closed({ kind: 'closed', code: NORMAL_CLOSURE, reason, exchangeMs, ...nothing });
          return { hadData: false, waitMs: NOT_OFFERED_WAIT_MS };
        }
        const session = this.#sessionFor(market);
        joined.session = session;
        const end = await session.join({ market, periodS }, sink, signal);
        isTeller = end.isTeller;
        const isOffered = end.reason !== 'period_not_offered';
        return { ...end, ...(!isOffered && { waitMs: NOT_OFFERED_WAIT_MS }) };
      },
      retrying(waitMs, attempts) {
        if (isTeller) telemetry.socketRetry({ market, periodS, waitMs });
        return { kind: 'retrying', waitMs, attempts };
      },
    };
  }

  /** Joins the connection that is being made, or makes one. */
  #sessionFor(market: string): StateSession {
    if (this.#gathering?.hasRoomFor(market) !== true) {
      this.#made += 1;
      this.#gathering = new StateSession(this.#settings, this.#made);
    }
    return this.#gathering;
  }
}

/** Share of the requests that a connection may send: the first answers and other questions take the rest. */
const SHARE_OF_QUERIES = 0.6;

/** How long each market of a full list waits for its next question, so that the connection keeps a limit. */
function leastBetweenQueriesMs({ requestsPerMinute = Infinity }: RealtimeWords): number {
  return (MARKETS_PER_CONNECTION * MINUTE_MS) / (SHARE_OF_QUERIES * requestsPerMinute);
}

/**
 * Opens the feed of one market and period and starts to connect at once. Several feeds of one exchange
 * are better opened by {@link StateFeeds}.
 *
 * @throws InvalidAddressError when `url` is not a plain ws or wss address
 */
export function openStateFeed({ market, periodS, signal, ...shared }: StateFeedOptions): StateFeed {
  return new StateFeeds(shared).open(market, periodS, signal);
}
