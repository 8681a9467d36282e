import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import type { Config } from '../../config/schema.js';
import { variantsLike } from '../../contract/variants.js';
import type { Clock } from '../../kernel/clock.js';
import { codeOf, TapekeepError } from '../../kernel/errors.js';
import { makeFolder } from '../../kernel/folders.js';
import { parseJson } from '../../kernel/json.js';
import type { ServerEvents } from '../../observe/events.js';
import { Faults } from '../../sandbox/faults/faults.js';
import { openLive } from '../../sandbox/live/open-live.js';
import { type ExchangeServer, startExchangeServer } from '../../server/exchange-server.js';
import { ORIGIN_FILE } from '../opening/database.js';

/** A sandbox exchange with its server. */
export interface RunningExchange {
  readonly server: ExchangeServer;
  readonly identity: string;
  readonly markets: readonly string[];
  stop(): Promise<void>;
}

/**
 * Starts the exchange that a newcomer collects from. It trades on without any reader: its history
 * follows from seed and time, and began at the first start in this data folder, so a later start
 * finds the same exchange, with all that happened meanwhile. That is also why only its own
 * traders can trade on it: what others did could not be repeated.
 */
export async function startBuiltInExchange(
  config: Config,
  clock: Clock,
  telemetry: ServerEvents,
): Promise<RunningExchange> {
  const { seed, port } = config.sandbox;
  const originMs = await originOf(config.dataDir, seed, clock.wallMs() - config.sandbox.history);
  const { speed, like, markets } = config.sandbox;
  // A clock that was set back must not find an exchange that has not begun.
  const startMs = Math.max(originMs, clock.wallMs());
  const backend = await openLive(
    {
      ...{ seed, pace: speed, originMs, startMs },
      ...(markets.length > 0 ? { markets } : {}),
    },
    clock,
  );
  // At this exchange only the budget of the collector is to count.
  const variants = { ...variantsLike(like, {}), rateLimit: false } as const;
  const control = config.sandbox.control
    ? { control: true, interference: new Faults({ rules: [], seed, clock }) }
    : {};
  const server = await startExchangeServer({
    ...{ backend, clock, telemetry, port, variants, ...control },
  });
  return {
    server,
    identity: backend.identity,
    markets: backend.markets().map((market) => market.name),
    async stop() {
      await server.stop();
      backend.stop();
    },
  };
}

/** When the exchange of this data folder and seed began, remembered over restarts. */
async function originOf(dataDir: string, seed: number, newOriginMs: number): Promise<number> {
  const path = join(dataDir, ORIGIN_FILE);
  const origins = await readOrigins(path);
  const known = origins[String(seed)];
  if (known !== undefined) return known;
  // Whole hours make whole candles from the first one on.
  const originMs = Math.floor(newOriginMs / 1000) * 1000;
  await makeFolder(dataDir);
  const text = JSON.stringify({ origins: { ...origins, [seed]: originMs } }, null, 2);
  await writeFile(path, `${text}\n`);
  return originMs;
}

const ORIGINS = z.object({ origins: z.record(z.string(), z.int()) });

async function readOrigins(path: string): Promise<Readonly<Record<string, number>>> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return '{"origins": {}}';
    throw error;
  });
  try {
    return ORIGINS.parse(parseJson(text)).origins;
  } catch {
    throw new TapekeepError(
      'bad_sandbox_file',
      `${path} is damaged; it remembers when the built-in exchange began. Delete it and start with an empty database, or restore it.`,
    );
  }
}
