import { createExchangeClock, type ExchangeClock } from '../../client/exchange-clock.js';
import { type ConfigTree, loadConfig } from '../../config/load.js';
import { type ProxyChoice, proxyFor } from '../../config/proxy.js';
import type { Config } from '../../config/schema.js';
import { type Clock, systemClock } from '../../kernel/clock.js';
import { STREAM_KINDS } from '../../model/series.js';
import { BoundedOutput } from '../../observe/bounded-output.js';
import { createLogger, type LogDestination } from '../../observe/logger.js';
import { createTelemetry, type ObservedTelemetry } from '../../observe/telemetry.js';
import { type CommonOptions, sourcesOf, VERSION } from '../command.js';

/** What a command works with. The one clock of its exchange is learnt from the answers. */
export interface Session {
  readonly config: Config;
  readonly clock: Clock;
  readonly telemetry: ObservedTelemetry;
  readonly exchangeTime: ExchangeClock;
  /** The proxy that the environment names for an address; undefined where it is reached directly. */
  readonly proxyFor: (address: string) => ProxyChoice | undefined;
}

/**
 * Reads the settings and opens the log. The clock of the exchange is made here, because both the
 * lags in the metrics and the client need it.
 *
 * @throws ConfigError naming every wrong setting
 */
export function openSession(
  options: CommonOptions,
  more: {
    readonly overrides?: ConfigTree;
    /** What draws around the lines of the log. */
    readonly destination?: (stderr: BoundedOutput) => LogDestination;
    /** Default: the environment of this process. */
    readonly env?: NodeJS.ProcessEnv;
  } = {},
): Session {
  const { env = process.env } = more;
  const config = loadConfig({
    env,
    ...sourcesOf(options, more.overrides),
  });
  const clock = systemClock;
  const stderr = new BoundedOutput('stderr', process.stderr);
  const { http, account, database } = config;
  const all = [http.token, account.key, account.secret, database.readerPassword];
  const secrets = all.filter((secret) => secret !== null);
  const logger = createLogger({
    ...config.log,
    clock,
    secrets,
    destination: more.destination?.(stderr) ?? stderr,
  });
  let exchangeTime: ExchangeClock | undefined;
  const telemetry = createTelemetry({
    logger,
    ...{ clock, version: VERSION, streams: STREAM_KINDS },
    exchangeNowMs: () => exchangeTime?.nowMs() ?? clock.wallMs(),
  });
  stderr.reportTo(telemetry.daemon);
  exchangeTime = createExchangeClock({ clock, telemetry: telemetry.client });
  const proxyOf = (address: string) => proxyFor(address, env);
  return { config, clock, telemetry, exchangeTime, proxyFor: proxyOf };
}
