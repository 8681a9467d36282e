import { join } from 'node:path';
import { proxyAt } from '../../client/http-proxy.js';
import {
  createExchangeClient,
  type ExchangeApi,
  type ExchangeClock,
  ExchangeError,
  NonceFile,
  openTradeFeed,
  type StateFeed,
  StateFeeds,
  WrongDialectError,
} from '../../client/index.js';
import { calledBy, type ExchangePort, type OpenTradeFeed } from '../../collect/ports.js';
import { streamReport } from '../../collect/reports.js';
import { exchangeNameOf } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { type DialectName, dialectNames, dialectOf, paceWithin } from '../../contract/dialects.js';
import { inSession, sessionIn } from '../../contract/extensions.js';
import { variantsLike } from '../../contract/variants.js';
import { RequestBudget, type RequestBudgetOptions } from '../../kernel/budget.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import { exchangeKindOf, wholeKindsOf } from '../../kernel/exchange-kind.js';
import { systemRandom } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import type { ArchiveIdentity, Store } from '../../store/index.js';
import type { RunningExchange } from '../sandbox/built-in-exchange.js';
import type { Session } from './session.js';

/** Addresses of an exchange. */
export interface ExchangeAddress {
  /** Of a replay it may name a session, which then holds for both. */
  readonly url: string;
  /** Null when no states are collected. */
  readonly realtimeUrl: string | null;
}

/** Everything that speaks to one exchange: one budget, one clock. */
export interface ExchangeAccess {
  readonly client: ExchangeApi;
  /** How it is asked. */
  readonly dialect: DialectName;
  /** The same exchange asked otherwise, with limits of its own. */
  inDialect(dialect: DialectName): ExchangeAccess;
  readonly time: ExchangeClock;
  readonly openStateFeed: (market: string, periodS: number, coveredUntilMs?: number) => StateFeed;
  /** Undefined: the exchange pushes no trades, or they are not wanted. */
  readonly openTradeFeed: OpenTradeFeed | undefined;
  /** Requests that wait for the budget. */
  requestsWaiting(): number;
  /** Requests a second that the budget allows now. */
  requestsPerS(): number;
  /** The same of one endpoint, where the exchange limits each. */
  endpointRequestsPerS(): number;
  [Symbol.asyncDispose](): Promise<void>;
}

/** More callers than any configuration has streams and markets would be a fault of ours. */
const WAITING_MAX = 100_000;
/** Requests that may go out at once after a pause: two seconds' worth of the default rate. */
const BURST = 10;
/** No other client needs the capacity of the built-in exchange. */
const BUILT_IN_REQUESTS_PER_S = 50;
/** New connections a second: a restart with many markets stays below the connection limits that exchanges document. */
const CONNECTS_PER_S = 5;

/** When requests may start, beside the budget's own rules. */
export type Sending = Pick<RequestBudgetOptions, 'firstTokens' | 'isHeldBack'>;

/** The proxies in front of an exchange in words, without credentials; null where there are none. */
export function proxiesOf(session: Session, { url, realtimeUrl }: ExchangeAddress): string | null {
  const nameOf = (address: string) => proxyAt(session.proxyFor(address))?.name;
  const [first, second] = [nameOf(url), realtimeUrl === null ? undefined : nameOf(realtimeUrl)];
  if (realtimeUrl === null || first === second) return first ?? null;
  return `${first ?? 'none'} for requests, ${second ?? 'none'} for real time`;
}

/**
 * Opens the client side for an address, with the configured limits.
 *
 * @throws InvalidAddressError also for a proxy that cannot be used
 */
export function openExchange(
  session: Session,
  address: ExchangeAddress,
  sending: Sending = {},
): ExchangeAccess {
  const { config, clock, telemetry, exchangeTime: time } = session;
  const { timeout, signedContent, requestsPerS } = config.exchange;
  const isBuiltIn = config.exchange.url === null;
  const dialect = dialectOfConfig(config);
  const budget = new RequestBudget({
    clock,
    ratePerS: isBuiltIn ? BUILT_IN_REQUESTS_PER_S : requestsPerS,
    burst: BURST,
    ...sending,
    maxWaiting: WAITING_MAX,
    onChange: (state) => telemetry.client.budgetChanged(state),
    onPause: (event) => telemetry.client.budgetPaused(event),
    onShared: (waiting) => telemetry.client.budgetShared({ waiting }),
  });
  const client = createExchangeClient({
    baseUrl: address.url,
    clock,
    random: systemRandom,
    telemetry: telemetry.client,
    budget,
    exchangeClock: time,
    timeoutMs: timeout,
    signedContent,
    dialect,
    proxy: session.proxyFor(address.url),
    ...accountOf(config, clock),
  });
  const connectBudget = new RequestBudget({
    clock,
    ratePerS: CONNECTS_PER_S,
    burst: CONNECTS_PER_S,
    maxWaiting: WAITING_MAX,
  });
  const { realtime, endpointLimit } = dialectOf(dialect);
  const endpointRatePerS = endpointLimit ? paceWithin(endpointLimit).ratePerS : Infinity;
  const feedOptions = {
    url: inSession(address.realtimeUrl ?? '', sessionIn(address.url)),
    clock,
    random: systemRandom,
    telemetry: telemetry.client,
    exchangeClock: time,
    connectBudget,
    words: realtime,
    proxy: session.proxyFor(address.realtimeUrl ?? ''),
  };
  let states: StateFeeds | undefined;
  const { feed } = config.streams.trades;
  const isFed = feed === 'auto' ? realtime.trades?.isDocumented === true : feed === 'always';
  const canBeFed = isFed && realtime.trades !== undefined && address.realtimeUrl !== null;
  return {
    client,
    dialect,
    inDialect: (other) => {
      const exchange = { ...config.exchange, dialect: other };
      return openExchange({ ...session, config: { ...config, exchange } }, address, sending);
    },
    time,
    openStateFeed: (market, periodS) => {
      states ??= new StateFeeds(feedOptions);
      return states.open(market, periodS);
    },
    openTradeFeed: canBeFed ? (of) => openTradeFeed({ ...feedOptions, ...of }) : undefined,
    requestsPerS: () => budget.state().ratePerS,
    endpointRequestsPerS: () => Math.min(budget.state().ratePerS, endpointRatePerS),
    requestsWaiting: () => budget.state().waiting,
    [Symbol.asyncDispose]: () => client.close(),
  };
}

/** How the exchange is asked: the built-in one as the exchange that it is like. */
export function dialectOfConfig({ exchange, sandbox }: Config): DialectName {
  if (exchange.url !== null) return exchange.dialect;
  return variantsLike(sandbox.like, {}).dialect ?? 'contract';
}

/** What signed calls need; nothing where no key is set. Every program keeps the nonces in one place. */
function accountOf({ account, dataDir }: Config, clock: Clock) {
  const { key: apiKey, secret } = account;
  if (apiKey === null || secret === null) return {};
  const folder = join(dataDir, 'nonces');
  const nonceStore = new NonceFile({ folder, apiKey, clock, random: systemRandom });
  return { credentials: { apiKey, secret }, nonceStore };
}

/** How a program that collects comes to its exchange, and learns whose archive it writes. */

const FOR_A_PERSON: ReadonlySet<string> = new Set(['tls_refused', 'proxy_refused']);
const RETRY = { baseMs: 500, capMs: 15_000 };
/** Answers that are asked for so that they agree about the time: the first ones without a pause. */
const SETTLE_ANSWERS_MAX = 8;
const SETTLE_AT_ONCE = 2;
const SETTLE_EVERY_MS = 700;

/** Where the exchange is; the built-in one is started for it. */
export async function exchangeAddress({ config, clock, telemetry }: Session): Promise<{
  readonly address: ExchangeAddress;
  readonly builtIn?: RunningExchange;
}> {
  if (config.exchange.url !== null) {
    return { address: { url: config.exchange.url, realtimeUrl: config.realtime.url } };
  }
  const { startBuiltInExchange } = await import('../sandbox/built-in-exchange.js');
  const builtIn = await startBuiltInExchange(config, clock, telemetry.server);
  const { url, realtimeUrl } = builtIn.server;
  return { address: { url, realtimeUrl }, builtIn };
}

/**
 * Asks until the exchange answers; its answer sets the clock and identifies it.
 *
 * @param triesMax how often it is asked; default: as long as it takes
 * @throws the error of the last try, or one after which no other try can succeed, as WrongDialectError
 */
export async function firstAnswer(
  access: ExchangeAccess,
  signal: AbortSignal,
  { clock, telemetry }: Session,
  triesMax = Number.POSITIVE_INFINITY,
): Promise<string | null> {
  const backoff = new Backoff(RETRY, systemRandom);
  for (let tries = 1; ; tries += 1) {
    try {
      const reply = await access.client.call('markets', {}, { signal, priority: 0 });
      return reply.identity;
    } catch (error) {
      if (signal.aborted) throw error;
      if (tries === 1 && codeOf(error) === 'not_found') await refuseOtherDialect(access, signal);
      // No other try helps at a start; a daemon that runs waits for a certificate, or a login, to be renewed.
      const isForAPerson =
        error instanceof TapekeepError &&
        (error.action === 'fatal' || FOR_A_PERSON.has(error.code));
      if (tries >= triesMax || isForAPerson) throw error;
      streamReport(telemetry.collect, 'markets', '*').failed(error, 'retry');
      await sleep(clock, backoff.nextMs(), signal);
    }
  }
}

/** How far back candles are asked for that show how an exchange is asked. */
const SHOWN_MS = 600_000;
const SHOWN_INTERVAL_S = 60;
/** Markets that are asked about: the first may be closed. */
const SHOWN_MARKETS = 3;

/**
 * Refuses an exchange that speaks another dialect than is set, before an archive is bound to it: some of its paths may
 * be those of the one that is set, and what they tell would be stored. Candles are asked for otherwise by each: where
 * they are refused, and given in another dialect, it is that one.
 *
 * @throws WrongDialectError
 */
export async function refuseOtherDialect(
  access: ExchangeAccess,
  signal: AbortSignal,
): Promise<void> {
  const refusal = await askForCandles(access, signal);
  if (refusal === 'given' || refusal === 'unclear') return;
  if (refusal instanceof WrongDialectError) throw refusal;
  for (const dialect of dialectNames.filter((one) => one !== access.dialect)) {
    await using other = access.inDialect(dialect);
    if ((await askForCandles(other, signal)) !== 'given') continue;
    throw new WrongDialectError({ endpoint: refusal.endpoint }, dialect);
  }
}

/** Whether an error says nothing of how the exchange is to be asked, because the next request may succeed. */
export function mayPass(error: unknown): boolean {
  return (
    error instanceof ExchangeError && error.action === 'retry' && error.code !== 'malformed_reply'
  );
}

/** Whether an exchange gives candles when it is asked in a dialect, or how it refuses them. */
async function askForCandles(
  { client, time }: ExchangeAccess,
  signal: AbortSignal,
): Promise<'given' | 'unclear' | ExchangeError> {
  const options = { signal, priority: 0 };
  const isGiven = async (market: string): Promise<boolean> => {
    const end = Math.floor(time.nowMs() / 1000);
    const span = { start: end - SHOWN_MS / 1000, end, interval: SHOWN_INTERVAL_S };
    try {
      await client.call('kline', { market, ...span }, options);
      return true;
    } catch (error) {
      if (codeOf(error) === 'market_unavailable') return false;
      throw error;
    }
  };
  try {
    const { data: markets } = await client.call('markets', {}, options);
    for (const { name } of markets.slice(0, SHOWN_MARKETS)) {
      if (await isGiven(name)) return 'given';
    }
  } catch (error) {
    if (signal.aborted || !(error instanceof ExchangeError)) throw error;
    // What may pass says nothing of the dialect, and shows when it is collected.
    if (!mayPass(error)) return error;
  }
  return 'unclear';
}

/**
 * Asks on until several answers agree about the time, so that what is collected can be claimed. An
 * exchange whose answers do not agree does not keep the daemon from collecting: only claims wait for it.
 */
export async function settleTime(
  { client, time }: ExchangeAccess,
  signal: AbortSignal,
  { clock }: Session,
): Promise<void> {
  for (let asked = 0; asked < SETTLE_ANSWERS_MAX && time.lived === undefined; asked += 1) {
    // The wall clock is a second source; without it, answers of some seconds are needed.
    if (asked >= SETTLE_AT_ONCE) await sleep(clock, SETTLE_EVERY_MS, signal);
    await client.call('markets', {}, { signal, priority: 0 }).catch((error: unknown) => {
      if (signal.aborted) throw error;
    });
  }
}

/** What an archive is bound to, see `Store.claimArchive`. */
export function archiveIdentityOf(config: Config, identity: string | null): ArchiveIdentity {
  return {
    name: exchangeNameOf(config),
    baseUrl: config.exchange.url ?? 'built-in',
    isSandbox: exchangeKindOf(identity) !== 'exchange',
    dialect: dialectOfConfig(config),
    identity,
  };
}

/**
 * What can be known before the exchange answers of whether an archive is another one's. A name differs
 * from that of the archive where the same exchange has moved, too: then its identity decides.
 *
 * @returns what differs; undefined where nothing does
 * @throws StoreError `archive_of_another_exchange` where no answer could change it
 */
export async function identityConflictOf(
  store: Pick<Store, 'archive' | 'claimArchive'>,
  config: Config,
): Promise<TapekeepError | undefined> {
  const bound = await store.archive();
  const wanted = archiveIdentityOf(config, null);
  if (bound === null || bound.name === wanted.name) return undefined;
  if (bound.identity === null) await store.claimArchive(wanted);
  const whose = `this database is the archive of the ${exchangeKindOf(bound.identity)} "${bound.name}" at ${bound.baseUrl}, and the settings name "${wanted.name}" at ${wanted.baseUrl}`;
  const text = `${whose}, which has not shown that it is the same: name another database (database.url) or dataDir, or the exchange that it belongs to`;
  return new TapekeepError('archive_of_another_exchange', text);
}

/** The archive would claim what the replayed archive lacks. */
class ReplayHasGapsError extends TapekeepError {
  constructor(text: string) {
    super('replay_has_gaps', text);
  }
}

/**
 * Refuses a replay whose time range has gaps in what the settings collect.
 *
 * @throws ReplayHasGapsError
 */
function refuseGaps(identity: string | null, { streams }: Config): void {
  if (identity === null || exchangeKindOf(identity) !== 'replay') return;
  const whole = wholeKindsOf(identity);
  if (whole === null) {
    throw new ReplayHasGapsError(
      'this exchange is a replay that allows gaps, so nothing is collected from it; replay a time range without gaps (no --allow-gaps), or choose another exchange',
    );
  }
  const { trades, candles, depth, tickers, states } = streams;
  const isCollected = {
    ...{ trades: trades.enabled, candles: candles.enabled },
    ...{ depth: depth.enabled, tickers: tickers.enabled, states: states.enabled },
  };
  const lacking = Object.entries(isCollected).flatMap(([kind, isWanted]) =>
    isWanted && !whole.includes(kind) ? [kind] : [],
  );
  if (lacking.length === 0) return;
  const switches = lacking.map((kind) => `streams.${kind}.enabled`);
  throw new ReplayHasGapsError(
    `this replay does not have all ${lacking.join(', ')} of its time range and markets: set ${switches.join(', ')} to false, or replay a time range that has them`,
  );
}

/**
 * Binds an archive to the exchange that has answered, once its time is settled: rows can be stored from here on.
 *
 * @param retrying runs a piece of work on the database again while that is away; default: once
 * @throws StoreError `archive_of_another_exchange`; WrongDialectError; ReplayHasGapsError
 */
export async function bindArchive(
  store: Store,
  access: ExchangeAccess,
  identity: string | null,
  signal: AbortSignal,
  session: Session,
  retrying: <T>(work: () => Promise<T>) => Promise<T> = (work) => work(),
): Promise<void> {
  refuseGaps(identity, session.config);
  await settleTime(access, signal, session);
  if ((await retrying(() => store.archive())) === null) await refuseOtherDialect(access, signal);
  await retrying(() => store.claimArchive(archiveIdentityOf(session.config, identity)));
  await retrying(() => store.makePartitionsAhead(session.exchangeTime.nowMs()));
}

/** The server behind the address is suddenly another exchange: its rows must not be mixed in. */
export class ExchangeChangedError extends TapekeepError {
  constructor(expected: string | null, found: string | null) {
    const [wanted, other] = [expected, found].map((one) => one ?? 'one that names no identity');
    const text = `the exchange at the configured address is another one (expected ${wanted}, found ${other}; check that exchange.url and realtime.url belong together). Its data are not mixed into this archive; use another database, or bring the former exchange back.`;
    super('exchange_changed', text);
  }
}

/**
 * Lets only answers of the exchange through that the archive belongs to.
 *
 * @param onChange called once per foreign answer, so that the daemon can end
 */
export function guardIdentity(
  exchange: ExchangeApi,
  expected: string | null,
  onChange: (error: ExchangeChangedError) => void,
): ExchangePort {
  return calledBy(exchange, async (name, params, options) => {
    const reply = await exchange.call(name, params, options);
    if (reply.identity !== expected) {
      const error = new ExchangeChangedError(expected, reply.identity);
      onChange(error);
      throw error;
    }
    return reply;
  });
}

/**
 * The same for the real-time interface, which has an address of its own: a connection to another
 * exchange is closed before anything of it is read.
 */
export function guardFeedIdentity<
  Event extends { readonly kind: string; readonly identity?: string | null },
  Feed extends AsyncIterable<Event>,
>(feed: Feed, expected: string | null, onChange: (error: ExchangeChangedError) => void): Feed {
  return {
    ...feed,
    async *[Symbol.asyncIterator](): AsyncGenerator<Event> {
      for await (const event of feed) {
        const found = event.kind === 'opened' ? (event.identity ?? null) : expected;
        if (found !== expected) {
          onChange(new ExchangeChangedError(expected, found));
          return;
        }
        yield event;
      }
    },
  };
}
