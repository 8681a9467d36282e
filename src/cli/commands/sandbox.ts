import { isLoopback } from '../../config/rules.js';
import { systemClock } from '../../kernel/clock.js';
import { createLogger } from '../../observe/logger.js';
import { createTelemetry } from '../../observe/telemetry.js';
import { createFaults } from '../../sandbox/faults/faults.js';
import { openTape } from '../../sandbox/open-tape.js';
import type { TapeOptions } from '../../sandbox/options.js';
import { startExchangeServer } from '../../server/exchange-server.js';
import type { ServerVariants } from '../../server/variants.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { gatherFaultScript } from '../fault-script.js';
import { waitForStop } from '../shutdown.js';

export interface SandboxOptions {
  readonly host: string;
  readonly port: number;
  /** Files of recorded trades, one per market in the same order; none: generated trades. */
  readonly tape: readonly string[];
  readonly market: readonly string[];
  readonly speed: number | 'instant';
  readonly seed: number;
  readonly time?: 'tape' | 'now';
  readonly startOffsetMs?: number;
  readonly originMs?: number;
  readonly forMs?: number;
  readonly json?: boolean;
  /** File of rules for faults, and rules as `key=value,…`. */
  readonly faults?: string;
  readonly fault: readonly string[];
  /** Whether the control paths are served; left out: only on a loopback address. */
  readonly control?: boolean;
  readonly variants: Partial<ServerVariants>;
}

/** Runs an exchange that plays recorded or generated trades, until a signal. */
export async function sandboxCommand(options: SandboxOptions): Promise<ExitCode> {
  const clock = systemClock;
  const interference = createFaults({ rules: [], seed: options.seed, clock });
  interference.control.replace(gatherFaultScript(options.faults, options.fault));
  const backend = await openTape(tapeOptions(options), clock);
  const logger = createLogger({ level: 'warn', format: 'auto', clock });
  const telemetry = createTelemetry({ logger, exchangeNowMs: () => backend.nowMs() }).server;
  const { host, port, variants } = options;
  const server = await startExchangeServer({
    ...{ backend, clock, telemetry, host, port, variants, interference },
    control: options.control ?? isLoopback(host),
  });
  const markets = backend.markets().map((market) => market.name);
  const { url, realtimeUrl } = server;
  const ready = { url, realtimeUrl, markets, identity: backend.identity };
  process.stdout.write(
    options.json === true
      ? `${JSON.stringify({ ready: true, ...ready, pid: process.pid })}\n`
      : `sandbox ready: ${url} (real-time ${realtimeUrl}) plays ${markets.join(', ')}\n`,
  );
  await waitForStop(clock, options.forMs);
  await server.stop();
  backend.stop();
  return EXIT_CODES.ok;
}

function tapeOptions(options: SandboxOptions): TapeOptions {
  const { tape, market, speed, seed, time, startOffsetMs, originMs } = options;
  const shared = {
    seed,
    pace: speed,
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
