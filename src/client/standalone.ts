import { z } from 'zod';
import { dialectNames, dialectOf } from '../contract/dialects.js';
import { inSession, sessionIn } from '../contract/extensions.js';
import { onlyKeys, refusedOptions } from '../contract/shape.js';
import { RequestBudget } from '../kernel/budget.js';
import { systemClock } from '../kernel/clock.js';
import { AbortedError, TapekeepError } from '../kernel/errors.js';
import { systemRandom } from '../kernel/random.js';
import { type ClientEvents, silentClientEvents } from '../observe/events.js';
import { MissingRealtimeError } from './errors.js';
import { ExchangeApi } from './exchange-api.js';
import type { ExchangeClientOptions, ProxyAddress } from './exchange-client.js';
import { createExchangeClock, type ExchangeClock } from './exchange-clock.js';
import { readAddress } from './http-transport.js';
import { defaultNonceFolder, type NoncePlace, openNonces } from './nonces.js';
import type { StateFeed } from './realtime/state-feed.js';
import { StateFeeds } from './realtime/state-feeds.js';
import { openTradeFeed, type TradeFeed } from './realtime/trade-feed.js';
import { checkCredentials } from './request-signer.js';

/** How to reach an exchange. Everything but the address has a default. */
export interface ExchangeClientSettings
  extends Pick<ExchangeClientOptions, 'credentials' | 'dialect' | 'signedContent' | 'timeoutMs'> {
  /** `https://api.example.com`, without `/api/v1`; of a replay it may name a session, `?session=mine`. */
  readonly baseUrl: string;
  /** `wss://…`, for {@link ExchangeClient.watch}. */
  readonly realtimeUrl?: string;
  /**
   * Place of the key's last nonce, so that nonces rise over restarts and among all clients of
   * the key; default a file in {@link defaultNonceFolder}. Clients that use one key must name one
   * place, or an exchange may see their nonces in the wrong order and refuse the lower one.
   */
  readonly nonces?: NoncePlace;
  /**
   * A proxy in front of both addresses, `http://user:password@host:3128`; default none. Variables such as
   * HTTPS_PROXY are not read.
   */
  readonly proxy?: string;
  /** Requests per second on average; default 5. The server's own limits lower it by themselves. */
  readonly requestsPerS?: number;
  /** Requests that may start at once after a quiet time; default 10. */
  readonly burst?: number;
  /** Name of the session at a replay in whose time all is asked and followed; default the one that all share. */
  readonly session?: string;
  /** Hears of requests, pauses and connections; default none. */
  readonly telemetry?: ClientEvents;
}

const atLeast = (min: number, error: string) => z.number({ error }).min(min, { error });
const marketName = z.string({ error: 'the name of a market' });

function isNoncePlace(given: unknown): boolean {
  if (typeof given !== 'object' || given === null) return given === undefined || given === 'memory';
  return 'load' in given || ('folder' in given && typeof given.folder === 'string');
}

/** Addresses, key and secret are checked where they are used. */
const SETTINGS = onlyKeys({
  ...{ baseUrl: z.unknown(), realtimeUrl: z.unknown(), credentials: z.unknown() },
  nonces: z.custom(isNoncePlace, {
    error: '"memory", { folder } with the path of a folder, or a NonceStore',
  }),
  dialect: z.enum(dialectNames, { error: `one of ${dialectNames.join(', ')}` }),
  signedContent: z.enum(['payload', 'body'], { error: 'payload or body' }),
  proxy: z.string({ error: 'the address of a proxy' }),
  requestsPerS: atLeast(Number.MIN_VALUE, 'a number above 0'),
  burst: atLeast(1, 'a number of at least 1'),
  timeoutMs: atLeast(1, 'milliseconds, at least 1'),
  session: z.string({ error: 'the name of a session' }),
  telemetry: z.looseObject({}, { error: 'an object with the events of ClientEvents' }),
}).partial();
const WATCHED = z.object({
  market: marketName,
  periodS: atLeast(1, 'seconds, at least 1'),
});
const MARKETS = z.object({ markets: z.array(marketName, { error: 'a list of names' }).min(1) });

function checkOptions(schema: z.ZodType, given: unknown): void {
  const refused = refusedOptions(schema, given);
  if (refused !== undefined) throw new TapekeepError('bad_option', refused);
}

const DEFAULT_REQUESTS_PER_S = 5;
const DEFAULT_BURST = 10;
/** Calls that may wait for the budget; a program that has more waiting asks for too much. */
const WAITING_MAX = 10_000;

/**
 * The exchange for programs: every endpoint of the contract as a typed method, and the real-time
 * states as an async iterable.
 *
 * ```ts
 * const exchange = new ExchangeClient({ baseUrl: 'https://api.example.com' });
 * const { data } = await exchange.depth({ market: 'BTC_USDT', limit: 10 });
 * await exchange.close();
 * ```
 *
 * Times are UNIX seconds as in the contract, prices and amounts decimal text. Errors are typed:
 * their `code` is stable, their `action` says whether to retry. Signed requests of one key go one
 * at a time, and orders are never sent twice.
 */
export class ExchangeClient extends ExchangeApi {
  /** Time of the exchange, estimated from its answers. */
  readonly time: ExchangeClock;
  readonly #settings: ExchangeClientSettings;
  readonly #proxy: ProxyAddress | undefined;
  readonly #feeds = new Set<StateFeed | TradeFeed>();
  #states: StateFeeds | undefined;
  #isClosed = false;

  /**
   * @throws InvalidAddressError when `baseUrl` or `proxy` is no plain http or https address
   * @throws TapekeepError `bad_option` when a setting is none of those allowed, or key or secret are not
   *   set, or no text that a header carries
   */
  constructor(settings: ExchangeClientSettings) {
    checkOptions(SETTINGS, settings);
    const { credentials, nonces, requestsPerS, burst, telemetry } = settings;
    const baseUrl = inSession(settings.baseUrl, settings.session);
    const proxy =
      settings.proxy === undefined ? undefined : { url: settings.proxy, setting: 'proxy' };
    const place = nonces ?? { folder: defaultNonceFolder() };
    const exchangeClock = createExchangeClock({ clock: systemClock });
    super({
      ...settings,
      ...{ baseUrl, proxy },
      ...(credentials && { nonceStore: openNonces(place, checkCredentials(credentials).apiKey) }),
      clock: systemClock,
      random: systemRandom,
      telemetry: telemetry ?? silentClientEvents,
      exchangeClock,
      budget: new RequestBudget({
        clock: systemClock,
        ratePerS: requestsPerS ?? DEFAULT_REQUESTS_PER_S,
        burst: burst ?? DEFAULT_BURST,
        maxWaiting: WAITING_MAX,
      }),
    });
    this.#settings = { ...settings, baseUrl };
    this.#proxy = proxy;
    this.time = exchangeClock;
  }

  /**
   * Follows the state of one market over the last `periodS` seconds, over a connection that renews
   * itself for ever. Leaving the loop ends it. Contract: Real-time methods, Events, Market status
   * record.
   *
   * Trouble with the connection is no error but an event: `closed` with its reason, then `retrying`.
   * The full record comes first, by a state.query; updates carry no `change` (null or left out).
   *
   * @param market name of a pair, `<STOCK>_<MONEY>`
   * @param periodS length of the window in seconds, 1 or more: such as 60, 900, 1800, 3600, 14400,
   *   86400
   * @returns the events in order; iterate once
   * @throws TapekeepError `bad_option` for what names no market or period
   * @throws AbortedError when the client is closed
   * @throws MissingRealtimeError when no `realtimeUrl` was given
   * @throws InvalidAddressError when it is no plain ws or wss address
   */
  watch(market: string, periodS: number): StateFeed {
    checkOptions(WATCHED, { market, periodS });
    const settings = this.#feedSettings();
    this.#states ??= new StateFeeds(settings);
    const feed = this.#states.open(market, periodS);
    this.#feeds.add(feed);
    return feed;
  }

  #feedSettings() {
    if (this.#isClosed) throw new AbortedError('the exchange client is closed');
    const { baseUrl, realtimeUrl, telemetry, dialect = 'contract' } = this.#settings;
    if (realtimeUrl === undefined) throw new MissingRealtimeError();
    const url = readAddress('realtimeUrl', realtimeUrl, ['ws:', 'wss:']);
    return {
      url: inSession(url.href, sessionIn(baseUrl)),
      clock: systemClock,
      random: systemRandom,
      telemetry: telemetry ?? silentClientEvents,
      exchangeClock: this.time,
      words: dialectOf(dialect).realtime,
      proxy: this.#proxy,
    };
  }

  /**
   * Follows the trades of some markets as the exchange pushes them, over a connection that renews itself
   * for ever. Leaving the loop ends it. The contract has no such feed: servers of the family do (field
   * notes, Real-time), and one that does not ends each connection as `subscribe_refused` or
   * `subscribe_ignored`.
   *
   * Trades that happened between two connections are not among the events: compare with {@link history}.
   *
   * @param markets names of pairs, `<STOCK>_<MONEY>`, at least one
   * @returns the events in order; iterate once
   * @throws TapekeepError `bad_option` for what names no market or period
   * @throws AbortedError when the client is closed
   * @throws MissingRealtimeError when no `realtimeUrl` was given
   * @throws InvalidAddressError when it is no plain ws or wss address
   * @throws RangeError where the dialect knows no words for it
   */
  watchTrades(markets: readonly string[]): TradeFeed {
    checkOptions(MARKETS, { markets });
    const feed = openTradeFeed({ ...this.#feedSettings(), markets: () => markets });
    this.#feeds.add(feed);
    return feed;
  }

  /** Ends requests under way and feeds, and closes all connections. Idempotent. */
  override async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#feeds].map((feed) => feed.stop()));
    this.#feeds.clear();
    await super.close();
  }
}
