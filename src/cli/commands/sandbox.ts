import { randomBytes } from 'node:crypto';
import { isLoopback } from '../../config/rules.js';
import { systemClock } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';
import { BoundedOutput } from '../../observe/bounded-output.js';
import { createLogger } from '../../observe/logger.js';
import { createTelemetry } from '../../observe/telemetry.js';
import type { CandleOpen, EmptyCandles } from '../../sandbox/candles.js';
import { createFaults } from '../../sandbox/faults/faults.js';
import { LiveError } from '../../sandbox/live/live-error.js';
import { openLive } from '../../sandbox/live/open-live.js';
import type { LiveOptions } from '../../sandbox/live/options.js';
import { openTape } from '../../sandbox/open-tape.js';
import type { TapeOptions } from '../../sandbox/options.js';
import { marketsForGood } from '../../server/control/control.js';
import { startExchangeServer } from '../../server/exchange-server.js';
import type { ServerVariants } from '../../server/variants.js';
import { waitForStop } from '../daemon/shutdown.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { gatherFaultScript } from '../sandbox/fault-script.js';
import { readMarketsFile } from '../sandbox/markets-file.js';
import { gatherKeys, type NamedKey } from '../sandbox/sandbox-keys.js';

export interface SandboxOptions {
  readonly host: string;
  readonly port: number;
  readonly backend: 'live' | 'tape';
  /** Files of recorded trades, one per market in the same order; none: simulated traders. */
  readonly tape: readonly string[];
  readonly market: readonly string[];
  readonly speed: number | 'instant';
  readonly seed: number;
  readonly time?: 'tape' | 'now';
  readonly startOffsetMs?: number;
  readonly originMs?: number;
  readonly forMs?: number;
  readonly json?: boolean;
  /** API keys to make, as `NAME` or `NAME:CURRENCY=AMOUNT,…`. */
  readonly key: readonly string[];
  /** JSON file of API keys. */
  readonly keys?: string;
  /** Name of a run that can be changed from outside; true, and with keys the default: random. */
  readonly runId?: string | true;
  /** YAML or JSON file of markets. */
  readonly marketsFile?: string;
  readonly keepAll?: boolean;
  readonly takerFee?: string;
  readonly makerFee?: string;
  readonly emptyCandles?: EmptyCandles;
  readonly candleOpen?: CandleOpen;
  /** File of rules for faults, and rules as `key=value,…`. */
  readonly faults?: string;
  readonly fault: readonly string[];
  /** Whether the control paths are served; left out: only on a loopback address. */
  readonly control?: boolean;
  readonly variants: Partial<ServerVariants>;
}

/** Runs an exchange with simulated traders, or one that plays trades, until a signal. */
export async function sandboxCommand(options: SandboxOptions): Promise<ExitCode> {
  const clock = systemClock;
  const interference = createFaults({ rules: [], seed: options.seed, clock });
  const faultScript = gatherFaultScript(options.faults, options.fault);
  interference.control.replace(faultScript);
  const { made, read } = gatherKeys(options.key, options.keys);
  const opening =
    options.backend === 'live'
      ? openLive(liveOptions(options, [...made, ...read]), clock)
      : openTape(tapeOptions(options), clock);
  const backend = await opening.catch((error: unknown) => {
    throw namingOption(error, made.length);
  });
  interference.control.replace(faultScript, marketsForGood(backend));
  for (const market of interference.markets()) {
    if (backend.hasMarket(market)) continue;
    process.stderr.write(
      `tapekeep: a fault rule is for ${JSON.stringify(market)}, which is no market yet; it waits until one of this name is created\n`,
    );
  }
  const stderr = new BoundedOutput('stderr', process.stderr);
  const logger = createLogger({ level: 'warn', format: 'auto', clock, destination: stderr });
  const telemetry = createTelemetry({ logger, exchangeNowMs: () => backend.nowMs() });
  stderr.tellTo(telemetry.daemon);
  const { host, port, variants } = options;
  const server = await startExchangeServer({
    ...{ backend, clock, host, port, variants, interference },
    telemetry: telemetry.server,
    control: options.control ?? isLoopback(host),
  });
  const markets = backend.markets().map((market) => market.name);
  const { url, realtimeUrl } = server;
  const keys = made.map(({ name, key, secret }) => ({ name, key, secret }));
  const ready = { url, realtimeUrl, markets, identity: backend.identity, keys };
  const keyLines = keys.map(({ name, key, secret }) => `  ${name}: key ${key} secret ${secret}\n`);
  process.stdout.write(
    options.json === true
      ? `${JSON.stringify({ ready: true, ...ready, pid: process.pid })}\n`
      : `sandbox ready: ${url} (real-time ${realtimeUrl}) trades ${markets.join(', ')}\n${keyLines.join('')}`,
  );
  await waitForStop(clock, options.forMs, () => undefined);
  await server.stop();
  backend.stop();
  return EXIT_CODES.ok;
}

const OPTIONS: Readonly<Partial<Record<keyof LiveOptions, string>>> = {
  pace: '--speed',
  startOffsetS: '--start-offset',
  takerFee: '--fee-taker',
  makerFee: '--fee-maker',
  runId: '--run',
  markets: '--market',
  keys: '--key',
};

/** The option of the command line that an error is about, if it is about one. */
function optionOf(error: TapekeepError, madeKeys: number): string | undefined {
  if (error instanceof LiveError && error.option !== undefined) {
    const [option = '', at] = error.option.split('.');
    if (at !== undefined) return Number(at) < madeKeys ? '--key' : '--keys';
    return OPTIONS[option as keyof LiveOptions];
  }
  if (error.message.startsWith('market name')) return '--market';
  return error.code === 'tape_invalid' ? '--tape' : undefined;
}

/** Errors of an exchange speak of what they are; here it is an option that is wrong. */
function namingOption(error: unknown, madeKeys: number): unknown {
  if (!(error instanceof TapekeepError)) return error;
  const option = optionOf(error, madeKeys);
  if (option === undefined) return error;
  const { code, action, message } = error;
  return new TapekeepError(code, action, `${option}: ${message}`, { cause: error });
}

const RUN_ID_BYTES = 6;

function liveOptions(options: SandboxOptions, keys: readonly NamedKey[]): LiveOptions {
  const { tape, market, speed, seed, time, startOffsetMs, originMs } = options;
  if (tape.length > 0) {
    throw new UsageError('--tape', tape.join(' '), 'a tape needs --backend tape');
  }
  if (speed === 'instant') {
    throw new UsageError(
      '--speed',
      speed,
      'a live exchange has no end; only a tape can be instant',
    );
  }
  if (time === 'tape' && originMs === undefined) {
    throw new UsageError('--time', time, 'without a tape it needs --origin to start from');
  }
  const { takerFee, makerFee, emptyCandles, candleOpen, keepAll } = options;
  const { runId: named = keys.length > 0 ? true : undefined } = options;
  const runId = named === true ? randomBytes(RUN_ID_BYTES).toString('hex') : named;
  const described = options.marketsFile === undefined ? [] : readMarketsFile(options.marketsFile);
  const markets = [...described, ...market];
  return {
    seed,
    pace: speed,
    keys,
    ...(markets.length === 0 ? {} : { markets }),
    ...(keepAll === undefined ? {} : { keepAll }),
    ...(originMs === undefined ? {} : { originMs }),
    ...(startOffsetMs === undefined ? {} : { startOffsetS: startOffsetMs / 1000 }),
    ...(time === 'tape' && originMs !== undefined
      ? { startMs: originMs + (startOffsetMs ?? 0) }
      : {}),
    ...(takerFee === undefined ? {} : { takerFee }),
    ...(makerFee === undefined ? {} : { makerFee }),
    ...(emptyCandles === undefined ? {} : { emptyCandles }),
    ...(candleOpen === undefined ? {} : { candleOpen }),
    ...(runId === undefined ? {} : { runId }),
  };
}

function tapeOptions(options: SandboxOptions): TapeOptions {
  const { tape, market, speed, seed, time, startOffsetMs, originMs } = options;
  const { emptyCandles, candleOpen } = options;
  const { key, keys, runId } = options;
  const [option, value] = [
    ...key.map((text) => ['--key', text] as const),
    ...(keys === undefined ? [] : [['--keys', keys] as const]),
    ...(runId === undefined ? [] : [['--run', runId === true ? '' : runId] as const]),
  ][0] ?? [undefined, ''];
  if (option !== undefined) {
    const allowed = 'nobody can trade on a tape; leave out --tape and --backend tape';
    throw new UsageError(option, value, allowed);
  }
  if (options.marketsFile !== undefined) {
    const allowed = 'the markets of a tape are named by --market';
    throw new UsageError('--markets-file', options.marketsFile, allowed);
  }
  const shared = {
    seed,
    pace: speed,
    ...(emptyCandles === undefined ? {} : { emptyCandles }),
    ...(candleOpen === undefined ? {} : { candleOpen }),
    ...(time === undefined ? {} : { time }),
    ...(startOffsetMs === undefined ? {} : { startOffsetS: startOffsetMs / 1000 }),
  };
  if (tape.length === 0) {
    const markets = market.length === 0 ? {} : { markets: market };
    const origin = originMs === undefined ? {} : { originMs };
    return { ...shared, source: { kind: 'generated', ...markets, ...origin } };
  }
  if (tape.length !== market.length) {
    throw new UsageError(
      '--market',
      market.join(' '),
      `each --tape needs its own --market, in the same order (${tape.length} tapes, ${market.length} markets)`,
    );
  }
  const tapes = tape.map((path, index) => ({ path, market: market[index] ?? '' }));
  return { ...shared, source: { kind: 'recorded', tapes } };
}
