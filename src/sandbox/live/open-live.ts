import { createHash } from 'node:crypto';
import type { Clock } from '../../kernel/clock.js';
import { type CandleRules, candleRulesOf } from '../candles.js';
import { LiveError } from '../errors.js';
import { ExchangeTime } from '../market-data.js';
import {
  DEFAULT_MARKETS,
  FEE_FORM,
  FEE_RATE,
  type MarketDescription,
  usualMarket,
} from '../markets.js';
import { SESSION_US, sessionOf, TRADERS_VERSION } from '../traders/traders.js';
import { LiveBackend, type LiveKey } from './live-backend.js';
import { HISTORY_SESSIONS, LiveExchange, MARKETS_MAX } from './live-exchange.js';

/** What a live exchange trades, and how its time runs. */
export interface LiveOptions extends Partial<CandleRules> {
  /** Draws everything that the simulated traders do; default 7. */
  readonly seed?: number;
  /** Markets by name, or described in full; default: four, from busy to quiet. */
  readonly markets?: readonly (string | MarketDescription)[];
  /** Seconds of the exchange per second of this machine; default 1, at most 1000. */
  readonly pace?: number;
  /** The exchange's time at the start, UNIX milliseconds; default: this machine's wall time. */
  readonly startMs?: number;
  /** Trading begins here, UNIX milliseconds; default: `startOffsetS` before the start. */
  readonly originMs?: number;
  /** How much history lies before the start, seconds; default 900. Left out when there is an origin. */
  readonly startOffsetS?: number;
  /** Most trades of a market that are served; default 100,000. */
  readonly historyMax?: number;
  /** Fee rates of all orders; default 0.002 and 0.001. */
  readonly takerFee?: string;
  readonly makerFee?: string;
  /**
   * Names this run of the exchange, and so allows what cannot be repeated: orders and funds from
   * outside, markets that come and go. It becomes part of the identity. Without it clients from
   * outside cannot change anything, and the same options show the same exchange after every start.
   */
  readonly runId?: string;
  /** API keys; they need a `runId`. Default none. */
  readonly keys?: readonly LiveKey[];
  /**
   * Nothing is ever forgotten, so that `truth` stays whole however long the exchange runs. For
   * tests: memory grows with every trade.
   */
  readonly keepAll?: boolean;
}

const DEFAULT_SEED = 7;
const DEFAULT_HISTORY_S = 900;
const DEFAULT_HISTORY_MAX = 100_000;
const DEFAULT_TAKER_FEE = '0.002';
const DEFAULT_MAKER_FEE = '0.001';
const MAX_PACE = 1000;
/** Ids and microseconds stay exact integers until then: the year 2255. */
const LAST_MS = 9_000_000_000_000;
const RUN_ID = /^[A-Za-z0-9-]{1,32}$/;

function checkOptions(options: LiveOptions, markets: readonly MarketDescription[]): void {
  const { pace = 1, startOffsetS = 0, historyMax = 1, runId, keys = [] } = options;
  const check = (option: keyof LiveOptions, holds: boolean, text: string) => {
    if (!holds) throw new LiveError(text, option);
  };
  const isPace = pace > 0 && pace <= MAX_PACE;
  check('pace', isPace, `pace ${pace}: expected above 0 and up to ${MAX_PACE}`);
  check(
    'startOffsetS',
    Number.isFinite(startOffsetS) && startOffsetS >= 0,
    `start offset ${startOffsetS} s: expected a number of at least 0`,
  );
  check(
    'historyMax',
    Number.isSafeInteger(historyMax) && historyMax >= 1,
    `history of ${historyMax} trades: expected a whole number of at least 1`,
  );
  for (const name of ['takerFee', 'makerFee'] as const) {
    const { [name]: fee } = options;
    const isRate = FEE_RATE.optional().safeParse(fee).success;
    check(name, isRate, `${name} ${fee}: expected ${FEE_FORM}`);
  }
  check(
    'markets',
    markets.length >= 1 && markets.length <= MARKETS_MAX,
    `${markets.length} markets: expected 1 to ${MARKETS_MAX}`,
  );
  check(
    'runId',
    runId === undefined || RUN_ID.test(runId),
    `run ${JSON.stringify(runId)}: expected 1 to 32 letters, digits and hyphens`,
  );
  check(
    'keys',
    keys.length === 0 || runId !== undefined,
    'API keys allow orders from outside, which cannot be repeated: they need a runId',
  );
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
 * @throws LiveError when an option is not possible.
 */
export async function openLive(options: LiveOptions, clock: Clock): Promise<LiveBackend> {
  const markets = (options.markets ?? DEFAULT_MARKETS).map((market) =>
    typeof market === 'string' ? usualMarket(market) : market,
  );
  checkOptions(options, markets);
  const { seed = DEFAULT_SEED, runId, pace = 1 } = options;
  const startMs = Math.round(options.startMs ?? clock.wallMs());
  const offsetMs = Math.round((options.startOffsetS ?? DEFAULT_HISTORY_S) * 1000);
  const originMs = options.originMs ?? startMs - offsetMs;
  if (!(originMs >= 0 && originMs <= startMs && startMs <= LAST_MS)) {
    const last = new Date(LAST_MS).toISOString();
    throw new LiveError(`a live exchange must start between its origin and ${last}`);
  }
  const keepAll = options.keepAll ?? false;
  const oldestUs = keepAll ? 0 : (sessionOf(startMs * 1000) - HISTORY_SESSIONS) * SESSION_US;
  const originUs = Math.max(originMs * 1000, oldestUs);
  // The exchange's time runs while its past is simulated.
  const time = new ExchangeTime(clock, startMs, pace);
  const exchange = new LiveExchange(
    {
      seed,
      originUs,
      isCut: originUs > originMs * 1000,
      historyMax: options.historyMax ?? DEFAULT_HISTORY_MAX,
      takerFee: options.takerFee ?? DEFAULT_TAKER_FEE,
      makerFee: options.makerFee ?? DEFAULT_MAKER_FEE,
      keepAll,
    },
    markets,
  );
  await simulatePast(exchange, originUs, startMs * 1000);
  const definition = { kind: 'live', version: TRADERS_VERSION, seed, markets: markets.map(traded) };
  const digest = createHash('sha256').update(JSON.stringify(definition)).digest('hex').slice(0, 32);
  return new LiveBackend({
    identity: ['sandbox-live', digest, ...(runId === undefined ? [] : [runId])].join('-'),
    exchange,
    clock,
    time,
    rules: candleRulesOf(options),
    isOpen: runId !== undefined,
    keys: options.keys ?? [],
  });
}

/** What the simulated traders' trades follow from: fees are not among it. */
function traded({ takerFee: _taker, makerFee: _maker, ...market }: MarketDescription): object {
  return market;
}

/** Session by session, so that other work goes on: a day takes seconds. */
async function simulatePast(
  exchange: LiveExchange,
  originUs: number,
  startUs: number,
): Promise<void> {
  for (let session = sessionOf(originUs) + 1; session * SESSION_US < startUs; session += 1) {
    exchange.advanceTo(session * SESSION_US);
    await new Promise<void>((resolve) => void setImmediate(resolve));
  }
  exchange.advanceTo(startUs);
}
