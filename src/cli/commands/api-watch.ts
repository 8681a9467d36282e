import { systemClock } from '../../kernel/clock.js';
import { AbortedError, isAborted, TapekeepError } from '../../kernel/errors.js';
import { unlessAborted } from '../../kernel/unless-aborted.js';
import { type ApiOptions, ApiUsageError, openApiSession } from '../api/access.js';
import { lineOf } from '../api/watch-lines.js';
import { waitForStop } from '../daemon/shutdown.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { openExchange } from '../opening/exchange.js';
import { writeOut } from '../output/write-out.js';

export interface WatchOptions extends Omit<ApiOptions, 'url'> {
  readonly period: number;
  /** Address in place of the setting `realtime.url`. */
  readonly realtimeUrl?: string;
  readonly forMs?: number;
}

/** The exchange answered and does not let anybody subscribe to this. */
class SubscriptionRefusedError extends TapekeepError {
  constructor(market: string, periodS: number) {
    super(
      'subscription_refused',
      'skip',
      `the exchange refuses to subscribe to ${market} over ${periodS} s: check the market's name and the period`,
    );
  }
}

/** Nothing could be watched in the time given. */
class NeverConnectedError extends TapekeepError {
  constructor(url: string, reason: string) {
    super('network', 'retry', `${url}: no subscription came about (${reason})`);
  }
}

/** Follows the state of a market, one line an event, until a signal or the end of `--for`. */
export async function watchCommand(market: string, options: WatchOptions): Promise<ExitCode> {
  const { config, telemetry, exchangeTime } = openApiSession(options);
  const realtimeUrl = options.realtimeUrl ?? config.realtime.url;
  if (realtimeUrl === null) {
    throw new ApiUsageError(
      'no real-time address is named: add --realtime-url ADDRESS (ws:// or wss://), or set realtime.url (TAPEKEEP_REALTIME_URL) beside exchange.url',
    );
  }
  const url = config.exchange.url ?? 'http://localhost';
  const access = openExchange(config, { url, realtimeUrl }, systemClock, telemetry, exchangeTime);
  const feed = access.openStateFeed(market, options.period);
  let isTimeUp = false;
  const stopping = new AbortController();
  void waitForStop(systemClock, options.forMs).then((reason) => {
    isTimeUp = reason === 'time is up';
    stopping.abort(new AbortedError());
    return feed.stop();
  });
  let hasOpened = false;
  let lastReason = 'no answer';
  try {
    for await (const event of feed) {
      const line =
        options.json === true ? JSON.stringify(event) : lineOf(event, systemClock.wallMs());
      // As fast as it is read, and the feed's own queue is bounded; the end does not wait for a reader.
      await unlessAborted(stopping.signal, writeOut(`${line}\n`)).catch((error: unknown) => {
        if (!isAborted(error)) throw error;
      });
      if (event.kind === 'opened') hasOpened = true;
      if (event.kind !== 'closed' || hasOpened) continue;
      if (event.reason === 'subscribe_refused' || event.reason === 'period_not_offered') {
        throw new SubscriptionRefusedError(market, options.period);
      }
      if (event.reason !== 'stopped') lastReason = event.reason;
    }
  } finally {
    await access.close();
  }
  if (isTimeUp && !hasOpened) throw new NeverConnectedError(realtimeUrl, lastReason);
  return EXIT_CODES.ok;
}
