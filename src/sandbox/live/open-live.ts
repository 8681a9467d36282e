import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { Clock } from '../../kernel/clock.js';
import { CANDLE_RULES } from '../candles.js';
import { LiveError } from '../errors.js';
import { ExchangeTime } from '../market-data.js';
import {
  DEFAULT_MARKETS,
  FEE_FORM,
  FEE_RATE_PATTERN,
  type MarketDescription,
  refusing,
  usualMarket,
} from '../markets.js';
import { SESSION_US, sessionOf, TRADERS_VERSION } from '../traders/traders.js';
import { LiveBackend, type LiveKey } from './live-backend.js';
import { HISTORY_SESSIONS, LiveExchange, MARKETS_MAX } from './live-exchange.js';

const MAX_PACE = 1000;
/** Ids and microseconds stay exact integers until then: the year 2255. */
const LAST_MS = 9_000_000_000_000;

const PACE = refusing((pace) => `pace ${pace}: expected above 0 and up to ${MAX_PACE}`);
const OFFSET = refusing((s) => `start offset ${s} s: expected a number of at least 0`);
const HISTORY = refusing((n) => `history of ${n} trades: expected a whole number of at least 1`);
const MARKETS = { error: `expected 1 to ${MARKETS_MAX} markets` };
const RUN = refusing(
  (id) => `run ${JSON.stringify(id)}: expected 1 to 32 letters, digits and hyphens`,
);
const fee = (name: string) =>
  z.string().regex(
    FEE_RATE_PATTERN,
    refusing((rate) => `${name} ${rate}: expected ${FEE_FORM}`),
  );

const OPTIONS = z
  .object({
    ...CANDLE_RULES,
    /** Draws everything that the simulated traders do. */
    seed: z.number().default(7),
    /** Markets by name, or described in full; by default four, from busy to quiet. */
    markets: z
      .array(z.custom<string | MarketDescription>())
      .min(1, MARKETS)
      .max(MARKETS_MAX, MARKETS)
      .readonly()
      .default(DEFAULT_MARKETS),
    /** Seconds of the exchange per second of this machine. */
    pace: z.number(PACE).gt(0, PACE).max(MAX_PACE, PACE).default(1),
    /** The exchange's time at the start, UNIX milliseconds; default: this machine's wall time. */
    startMs: z.number().optional(),
    /** Trading begins here, UNIX milliseconds; default: `startOffsetS` before the start. */
    originMs: z.number().optional(),
    /** How much history lies before the start, seconds. Left out when there is an origin. */
    startOffsetS: z.number(OFFSET).min(0, OFFSET).default(900),
    /** Most trades of a market that are served. */
    historyMax: z.int(HISTORY).min(1, HISTORY).default(100_000),
    /** Fee rates of all orders. */
    takerFee: fee('takerFee').default('0.002'),
    makerFee: fee('makerFee').default('0.001'),
    /**
     * Names this run of the exchange, and so allows what cannot be repeated: orders and funds from
     * outside, markets that come and go. It becomes part of the identity. Without it clients from
     * outside cannot change anything, and the same options show the same exchange after every start.
     */
    runId: z
      .string()
      .regex(/^[A-Za-z0-9-]{1,32}$/, RUN)
      .optional(),
    /** API keys; they need a `runId`. */
    keys: z.array(z.custom<LiveKey>()).readonly().default([]),
    /**
     * Nothing is ever forgotten, so that `truth` stays whole however long the exchange runs. For
     * tests: memory grows with every trade.
     */
    keepAll: z.boolean().default(false),
  })
  .refine(({ keys, runId }) => keys.length === 0 || runId !== undefined, {
    path: ['keys'],
    error: 'API keys allow orders from outside, which cannot be repeated: they need a runId',
  });

/** Options of a live exchange: its markets and its time. */
export type LiveOptions = Readonly<z.input<typeof OPTIONS>>;

/** @throws LiveError with the text of what is refused first, and its option */
function readOptions(given: LiveOptions): z.output<typeof OPTIONS> {
  const { data, error } = OPTIONS.safeParse(given);
  if (error === undefined) return data;
  const [issue] = error.issues;
  throw new LiveError(issue?.message ?? error.message, String(issue?.path[0]));
}

/**
 * Opens a working exchange: simulated traders on a matching engine, with a history.
 *
 * The identity is `sandbox-live-` and a digest of what everything follows from: seed, markets and
 * the version of the traders; for an exchange that can be changed from outside, also its `runId`.
 * The same text means the same trades at the same times, whenever the exchange is opened.
 *
 * What is older than the running session and the {@link HISTORY_SESSIONS} before it is not part of
 * the history; nor is what lies before the origin.
 *
 * @param onPast hears, session by session, which share of the past is simulated
 * @throws LiveError when an option is not possible.
 */
export async function openLive(
  given: LiveOptions,
  clock: Clock,
  onPast: (share: number) => void = () => undefined,
): Promise<LiveBackend> {
  const { startMs: wantedMs = clock.wallMs(), ...options } = readOptions(given);
  const { seed, runId, keepAll, keys } = options;
  const markets = options.markets.map((market) =>
    typeof market === 'string' ? usualMarket(market) : market,
  );
  const startMs = Math.round(wantedMs);
  const originMs = options.originMs ?? startMs - Math.round(options.startOffsetS * 1000);
  if (!(originMs >= 0 && originMs <= startMs && startMs <= LAST_MS)) {
    const last = new Date(LAST_MS).toISOString();
    throw new LiveError(`a live exchange must start between its origin and ${last}`);
  }
  const oldestUs = keepAll ? 0 : (sessionOf(startMs * 1000) - HISTORY_SESSIONS) * SESSION_US;
  const originUs = Math.max(originMs * 1000, oldestUs);
  // The exchange's time runs while its past is simulated.
  const time = new ExchangeTime(clock, startMs, options.pace);
  const isCut = originUs > originMs * 1000;
  const exchange = new LiveExchange({ ...options, originUs, isCut }, markets);
  await simulatePast(exchange, originUs, startMs * 1000, onPast);
  const definition = { kind: 'live', version: TRADERS_VERSION, seed, markets: markets.map(traded) };
  const digest = createHash('sha256').update(JSON.stringify(definition)).digest('hex').slice(0, 32);
  return new LiveBackend({
    identity: ['sandbox-live', digest, ...(runId === undefined ? [] : [runId])].join('-'),
    ...{ exchange, clock, time, keys, rules: options, isOpen: runId !== undefined },
  });
}

/** Inputs of the simulated traders; fees are not among them. */
function traded({ takerFee: _taker, makerFee: _maker, ...market }: MarketDescription): object {
  return market;
}

/** Session by session, so that other work goes on: a day takes seconds. */
async function simulatePast(
  exchange: LiveExchange,
  originUs: number,
  startUs: number,
  onPast: (share: number) => void,
): Promise<void> {
  for (let session = sessionOf(originUs) + 1; session * SESSION_US < startUs; session += 1) {
    exchange.advanceTo(session * SESSION_US);
    onPast((session * SESSION_US - originUs) / (startUs - originUs));
    await new Promise<void>((resolve) => void setImmediate(resolve));
  }
  exchange.advanceTo(startUs);
}
