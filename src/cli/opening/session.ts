import { hostname } from 'node:os';
import { createExchangeClock, type ExchangeClock } from '../../client/exchange-clock.js';
import {
  type ConfigTree,
  configHash,
  type LoadedSettings,
  loadSettings,
} from '../../config/load.js';
import { type ProxyChoice, proxyFor } from '../../config/proxy.js';
import type { Config } from '../../config/schema.js';
import { type Clock, systemClock } from '../../kernel/clock.js';
import { STREAM_KINDS } from '../../model/series.js';
import { BoundedOutput } from '../../observe/bounded-output.js';
import { createLogger, type LogDestination, RecentLines } from '../../observe/logger.js';
import { createTelemetry, type ObservedTelemetry } from '../../observe/telemetry.js';
import type { RunFacts } from '../../store/index.js';
import { type CommonOptions, sourcesOf, VERSION } from '../command.js';

/** What a command works with. The one clock of its exchange is learnt from the answers. */
export interface Session {
  readonly config: Config;
  /** All settings as they may be shown. */
  readonly shownSettings: LoadedSettings['shown'];
  /** Newest lines of the log. */
  readonly recentLog: RecentLines;
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
  const settings = loadSettings({
    env,
    ...sourcesOf(options, more.overrides),
  });
  const { config } = settings;
  const clock = systemClock;
  const stderr = new BoundedOutput('stderr', process.stderr);
  const { http, account, database, alerts } = config;
  const all = [
    ...[http.token, http.viewerToken, account.key, account.secret, database.readerPassword],
    alerts.webhook,
  ];
  const secrets = all.filter((secret) => secret !== null);
  const recentLog = new RecentLines();
  const logger = createLogger({
    ...config.log,
    clock,
    secrets,
    recent: recentLog,
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
  const shownSettings = settings.shown;
  return { config, shownSettings, recentLog, clock, telemetry, exchangeTime, proxyFor: proxyOf };
}

/** Facts by which the archive remembers that this program collected. */
export function runOf({ config }: Pick<Session, 'config'>): RunFacts {
  return { host: hostname(), version: VERSION, configHash: configHash(config) };
}
