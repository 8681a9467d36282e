import { LIST_PERIOD_S } from '../../contract/realtime.js';
import {
  DEFAULT_ACKNOWLEDGE_TIMEOUT_MS,
  DEFAULT_QUERY_EVERY_MS,
  NORMAL_CLOSURE,
} from './frame-socket.js';
import { assertFeedAddress, type Following, ReconnectingFeed } from './reconnecting.js';
import type { StateEvent, StateFeed, StateFeedOptions } from './state-feed.js';
import { type SessionSettings, StateSession } from './state-session.js';
import { SubscriptionForm } from './subscription-form.js';

const DEFAULT_MAX_FRAME_BYTES = 64 * 1024;
/** Between two looks at whether a period is offered by now; most of them send nothing. */
const NOT_OFFERED_WAIT_MS = 60_000;

/**
 * Opens the feed of one market and period and starts to connect at once.
 *
 * @throws InvalidAddressError when `url` is not a plain ws or wss address
 */
export function openStateFeed(options: StateFeedOptions): StateFeed {
  assertFeedAddress(options.url);
  const { market, periodS } = options;
  const feed = new ReconnectingFeed(options, followStates(options));
  return {
    market,
    periodS,
    stop: () => feed.stop(),
    [Symbol.asyncIterator]: () => feed[Symbol.asyncIterator](),
  };
}

function followStates(options: StateFeedOptions): Following<StateEvent> {
  const { market, periodS, telemetry, exchangeClock } = options;
  const subscriptionForm = options.subscriptionForm ?? new SubscriptionForm(options.clock);
  const settings: SessionSettings = {
    ...options,
    subscriptionForm,
    acknowledgeTimeoutMs: options.acknowledgeTimeoutMs ?? DEFAULT_ACKNOWLEDGE_TIMEOUT_MS,
    queryEveryMs: options.queryEveryMs ?? DEFAULT_QUERY_EVERY_MS,
    maxFrameBytes: options.maxFrameBytes ?? DEFAULT_MAX_FRAME_BYTES,
  };
  const isKnownNotOffered = () => subscriptionForm.isList && periodS !== LIST_PERIOD_S;
  return {
    needsConnection: () => !isKnownNotOffered(),
    async follow(sink, signal) {
      if (isKnownNotOffered()) {
        // Reported in place of a connection that would end at once.
        const reason = 'period_not_offered';
        const nothing = { lastAliveExchangeMs: null, livedMs: 0 };
        const exchangeMs = exchangeClock.nowMs();
        sink.closed({ kind: 'closed', code: NORMAL_CLOSURE, reason, exchangeMs, ...nothing });
        return { hadData: false, waitMs: NOT_OFFERED_WAIT_MS };
      }
      const session = new StateSession(settings, sink);
      await session.run(signal);
      const isOffered = session.endReason !== 'period_not_offered';
      return { hadData: session.hadData, ...(!isOffered && { waitMs: NOT_OFFERED_WAIT_MS }) };
    },
    retrying(waitMs, attempts) {
      telemetry.socketRetry({ market, periodS, waitMs });
      return { kind: 'retrying', waitMs, attempts };
    },
  };
}
