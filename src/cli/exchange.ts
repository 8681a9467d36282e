import type { ExchangeClient, ExchangeClock } from '../client/index.js';
import { createExchangeClient, createExchangeClock, openStateFeed } from '../client/index.js';
import type { OpenStateFeed } from '../collect/ports.js';
import type { Config } from '../config/schema.js';
import { RequestBudget } from '../kernel/budget.js';
import type { Clock } from '../kernel/clock.js';
import { systemRandom } from '../kernel/random.js';
import type { Telemetry } from '../observe/events.js';

/** Addresses of an exchange. */
export interface ExchangeAddress {
  readonly url: string;
  /** Null when no states are collected. */
  readonly realtimeUrl: string | null;
}

/** Everything that speaks to one exchange: one budget, one clock. */
export interface ExchangeAccess {
  readonly client: ExchangeClient;
  readonly time: ExchangeClock;
  readonly openStateFeed: OpenStateFeed;
  close(): Promise<void>;
}

/** More callers than any configuration has streams and markets would be a fault of ours. */
const WAITING_MAX = 100_000;

/** Opens the client side for an address, with the configured limits. */
export function openExchange(
  config: Config,
  address: ExchangeAddress,
  clock: Clock,
  telemetry: Telemetry,
  time: ExchangeClock = createExchangeClock({ clock, telemetry: telemetry.client }),
): ExchangeAccess {
  const { burst, timeout, maxBodyBytes, connections, signedContent } = config.exchange;
  const isBuiltIn = config.exchange.url === null;
  const { requestsPerS } = isBuiltIn ? config.sandbox : config.exchange;
  const budget = new RequestBudget({
    clock,
    ratePerS: requestsPerS,
    burst,
    maxWaiting: WAITING_MAX,
    onChange: (state) => telemetry.client.budgetChanged(state),
    onPause: (event) => telemetry.client.budgetPaused(event),
  });
  const client = createExchangeClient({
    baseUrl: address.url,
    clock,
    random: systemRandom,
    telemetry: telemetry.client,
    budget,
    exchangeClock: time,
    timeoutMs: timeout,
    maxBodyBytes,
    connections,
    signedContent,
  });
  const { queryEvery, acknowledgeTimeout, reconnectBase, reconnectCap, connectsPerS } =
    config.realtime;
  const connectBudget = new RequestBudget({
    clock,
    ratePerS: connectsPerS,
    burst: Math.max(1, Math.ceil(connectsPerS)),
    maxWaiting: WAITING_MAX,
  });
  return {
    client,
    time,
    openStateFeed: (market, periodS) =>
      openStateFeed({
        url: address.realtimeUrl ?? '',
        market,
        periodS,
        clock,
        random: systemRandom,
        telemetry: telemetry.client,
        exchangeClock: time,
        connectBudget,
        acknowledgeTimeoutMs: acknowledgeTimeout,
        queryEveryMs: queryEvery,
        backoff: { baseMs: reconnectBase, capMs: reconnectCap },
      }),
    close: () => client.close(),
  };
}
