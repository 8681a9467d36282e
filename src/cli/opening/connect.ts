import { reportFailure } from '../../collect/reports.js';
import { exchangeNameOf } from '../../config/load.js';
import type { Config } from '../../config/schema.js';
import { type Clock, sleep } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { systemRandom } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import type { Telemetry } from '../../observe/events.js';
import type { ArchiveIdentity } from '../../store/index.js';
import type { RunningExchange } from '../sandbox/built-in-exchange.js';
import type { ExchangeAccess, ExchangeAddress } from './exchange.js';

/** How a program that collects comes to its exchange, and learns whose archive it writes. */

const RETRY = { baseMs: 500, capMs: 15_000 };
/** Answers that are asked for so that they agree about the time: the first ones without a pause. */
const SETTLE_ANSWERS_MAX = 8;
const SETTLE_AT_ONCE = 2;
const SETTLE_EVERY_MS = 700;
/** What is no real exchange names itself so: a sandbox, or the replay of an archive. */
const PLAYED_IDENTITY = /^(sandbox|replay)-/;

interface Surroundings {
  readonly clock: Clock;
  readonly telemetry: Telemetry;
}

/** Where the exchange is; the built-in one is started for it. */
export async function exchangeAddress(
  config: Config,
  { clock, telemetry }: Surroundings,
): Promise<{ readonly address: ExchangeAddress; readonly builtIn?: RunningExchange }> {
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
 * @throws the error of the last try, or one after which no other try can succeed
 */
export async function firstAnswer(
  access: ExchangeAccess,
  signal: AbortSignal,
  { clock, telemetry }: Surroundings,
  triesMax = Number.POSITIVE_INFINITY,
): Promise<string | null> {
  const backoff = new Backoff(RETRY, systemRandom);
  for (let tries = 1; ; tries += 1) {
    try {
      const reply = await access.client.call('markets', {}, { signal, priority: 0 });
      return reply.identity;
    } catch (error) {
      if (signal.aborted || tries >= triesMax) throw error;
      if (error instanceof TapekeepError && isForAPerson(error)) throw error;
      reportFailure(telemetry.collect, 'markets', '*', error, 'retry');
      await sleep(clock, backoff.nextMs(), signal);
    }
  }
}

/**
 * Asks on until several answers agree about the time, so that what is collected can be claimed. An
 * exchange whose answers do not agree does not keep the daemon from collecting: only claims wait for it.
 */
export async function settleTime(
  { client, time }: ExchangeAccess,
  signal: AbortSignal,
  { clock }: Surroundings,
): Promise<void> {
  for (let asked = 0; asked < SETTLE_ANSWERS_MAX && time.lived === undefined; asked += 1) {
    // The wall clock is a second source; without it, answers of some seconds are needed.
    if (asked >= SETTLE_AT_ONCE) await sleep(clock, SETTLE_EVERY_MS, signal);
    await client.call('markets', {}, { signal, priority: 0 }).catch((error: unknown) => {
      if (signal.aborted) throw error;
    });
  }
}

/** No other try helps at a start; a daemon that runs waits for a certificate to be renewed. */
function isForAPerson({ action, code }: TapekeepError): boolean {
  return action === 'fatal' || code === 'tls_refused';
}

/** What an archive is bound to, see `Store.claimArchive`. */
export function archiveIdentityOf(config: Config, identity: string | null): ArchiveIdentity {
  return {
    name: exchangeNameOf(config),
    baseUrl: config.exchange.url ?? 'built-in',
    isSandbox: PLAYED_IDENTITY.test(identity ?? ''),
    identity,
  };
}
