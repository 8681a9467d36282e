import { join } from 'node:path';
import {
  createExchangeClient,
  createExchangeClock,
  type ExchangeApi,
  type ExchangeClock,
  NonceFile,
  openStateFeed,
  type StateFeed,
  SubscriptionForm,
} from '../../client/index.js';
import type { Config } from '../../config/schema.js';
import { RequestBudget } from '../../kernel/budget.js';
import type { Clock } from '../../kernel/clock.js';
import { systemRandom } from '../../kernel/random.js';
import type { Telemetry } from '../../observe/events.js';

/** Addresses of an exchange. */
export interface ExchangeAddress {
  readonly url: string;
  /** Null when no states are collected. */
  readonly realtimeUrl: string | null;
}

/** Everything that speaks to one exchange: one budget, one clock. */
export interface ExchangeAccess {
  readonly client: ExchangeApi;
  readonly time: ExchangeClock;
  readonly openStateFeed: (market: string, periodS: number) => StateFeed;
  /** Requests a second that the budget allows now. */
  requestsPerS(): number;
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
    ...accountOf(config, clock),
  });
  const { queryEvery, acknowledgeTimeout, reconnectBase, reconnectCap, connectsPerS } =
    config.realtime;
  const connectBudget = new RequestBudget({
    clock,
    ratePerS: connectsPerS,
    burst: Math.max(1, Math.ceil(connectsPerS)),
    maxWaiting: WAITING_MAX,
  });
  const subscriptionForm = new SubscriptionForm(clock);
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
        subscriptionForm,
        acknowledgeTimeoutMs: acknowledgeTimeout,
        queryEveryMs: queryEvery,
        backoff: { baseMs: reconnectBase, capMs: reconnectCap },
      }),
    requestsPerS: () => budget.state().ratePerS,
    close: () => client.close(),
  };
}

/** What signed calls need; nothing where no key is set. Every program keeps the nonces in one place. */
function accountOf({ account, dataDir }: Config, clock: Clock) {
  const { key: apiKey, secret } = account;
  if (apiKey === null || secret === null) return {};
  const folder = join(dataDir, 'nonces');
  const nonceStore = new NonceFile({ folder, apiKey, clock, random: systemRandom });
  return { credentials: { apiKey, secret }, nonceStore };
}
