import { createHash } from 'node:crypto';
import type { Clock } from '../kernel/clock.js';
import { type ReadTape, readCsvTape } from './csv-tape.js';
import {
  GENERATOR_VERSION,
  LAST_GENERATED_MS,
  MAX_GENERATED_MARKETS,
  TradeGenerator,
} from './generator.js';
import { MarketTape } from './market-tape.js';
import {
  DEFAULT_MARKETS,
  describeMarket,
  flowShapeOf,
  type GeneratedMarket,
  generatedMarketOf,
  splitPair,
} from './markets.js';
import type { GeneratedTapes, RecordedTape, RecordedTapes, TapeOptions } from './options.js';
import { formatScaled } from './scaled.js';
import { GeneratedSource, RecordedSource } from './sources.js';
import { TapeBackend } from './tape-backend.js';
import { TapeClock } from './tape-clock.js';
import { TapeError } from './tape-error.js';

const DEFAULT_SEED = 7;
const DEFAULT_GENERATED_HISTORY_S = 900;
const DEFAULT_GENERATED_HISTORY_MAX = 100_000;
/** A generated history is made second by second, at the start: a month is what that is good for. */
const MAX_GENERATED_HISTORY_S = 30 * 86_400;

/** The tapes with the start of the exchange's time. */
interface Opened {
  readonly tapes: readonly MarketTape[];
  readonly startMs: number;
  readonly pace: number;
  /** What the history depends on; hashed into the identity. */
  readonly definition: object;
}

function checkUnique(names: readonly string[]): void {
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new TapeError(`the market ${twice} has more than one tape`);
  if (names.length === 0) throw new TapeError('a tape exchange needs at least one market');
}

function checkNumbers({ pace, startOffsetS, historyMax }: TapeOptions): void {
  if (typeof pace === 'number' && !(pace > 0 && pace <= 1e6)) {
    throw new TapeError(
      `pace ${pace}: expected a number above 0 and up to 1,000,000, or "instant"`,
    );
  }
  if (startOffsetS !== undefined && !(Number.isFinite(startOffsetS) && startOffsetS >= 0)) {
    throw new TapeError(`start offset ${startOffsetS} s: expected a number of at least 0`);
  }
  if (historyMax !== undefined && !(Number.isSafeInteger(historyMax) && historyMax >= 1)) {
    throw new TapeError(`history of ${historyMax} trades: expected a whole number of at least 1`);
  }
}

async function openRecorded(
  source: RecordedTapes,
  options: TapeOptions,
  clock: Clock,
): Promise<Opened> {
  checkUnique(source.tapes.map(({ market }) => market));
  const read: Array<ReadTape & { readonly tape: RecordedTape }> = [];
  for (const tape of source.tapes) {
    splitPair(tape.market);
    read.push({ tape, ...(await readCsvTape(tape.path)) });
  }
  const timeMs = (position: 'base' | 'last') =>
    read.map(({ columns }) => {
      return columns.timeUsAt(position === 'base' ? columns.base : columns.end - 1) / 1000;
    });
  const firstMs = Math.min(...timeMs('base'));
  const lastMs = Math.max(...timeMs('last'));
  const isInstant = options.pace === 'instant';
  const startMs = isInstant ? lastMs : firstMs + Math.round((options.startOffsetS ?? 0) * 1000);
  const shiftMs = options.time === 'now' ? Math.round(clock.wallMs()) - startMs : 0;
  const historyMax = options.historyMax ?? Number.POSITIVE_INFINITY;
  const tapes = read.map(({ tape, columns, tickDigits }) => {
    if (shiftMs !== 0) columns.shiftTimes(shiftMs * 1000);
    const stockPrec = tape.stockPrec ?? columns.amountDigits;
    const moneyPrec = tape.moneyPrec ?? columns.priceDigits;
    const market = describeMarket(tape.market, stockPrec, moneyPrec, formatScaled(1n, stockPrec));
    const tick = 10n ** BigInt(columns.priceDigits - tickDigits);
    return new MarketTape(market, tick, new RecordedSource(columns), historyMax);
  });
  return {
    tapes,
    startMs: startMs + shiftMs,
    pace: typeof options.pace === 'number' ? options.pace : 1,
    definition: {
      kind: 'recorded',
      shiftMs,
      tapes: read.map(({ tape, digest }) => ({ market: tape.market, digest })),
    },
  };
}

function generatedTape(
  shape: GeneratedMarket,
  seed: number,
  index: number,
  count: number,
  span: { readonly fromS: number; readonly nowS: number; readonly historyMax: number },
): MarketTape {
  const { name, stockPrec, moneyPrec, minAmount } = shape;
  const source = new GeneratedSource(
    new TradeGenerator(seed, flowShapeOf(shape), index, count),
    { price: moneyPrec, amount: stockPrec },
    span.fromS,
    span.nowS,
    span.historyMax,
  );
  const market = describeMarket(name, stockPrec, moneyPrec, minAmount);
  return new MarketTape(market, 1n, source, span.historyMax);
}

function openGenerated(source: GeneratedTapes, options: TapeOptions, clock: Clock): Opened {
  if (options.pace === 'instant') {
    throw new TapeError('pace "instant" needs a recorded tape: a generated one has no end');
  }
  const shapes = (source.markets ?? DEFAULT_MARKETS).map((market) =>
    typeof market === 'string' ? generatedMarketOf(market) : market,
  );
  checkUnique(shapes.map(({ name }) => name));
  if (shapes.length > MAX_GENERATED_MARKETS) {
    throw new TapeError(`${shapes.length} generated markets: at most ${MAX_GENERATED_MARKETS}`);
  }
  const offsetMs = Math.round((options.startOffsetS ?? DEFAULT_GENERATED_HISTORY_S) * 1000);
  if (options.time === 'tape' && source.originMs === undefined) {
    throw new TapeError('a generated tape in its own time needs an origin to start from');
  }
  const startMs =
    options.time === 'tape' && source.originMs !== undefined
      ? source.originMs + offsetMs
      : Math.round(clock.wallMs());
  const originMs = source.originMs ?? startMs - offsetMs;
  if (originMs < 0 || startMs > LAST_GENERATED_MS || originMs > startMs) {
    const last = new Date(LAST_GENERATED_MS).toISOString();
    throw new TapeError(`a generated tape must start between its origin and ${last}`);
  }
  const earliestMs = startMs - MAX_GENERATED_HISTORY_S * 1000;
  const span = {
    fromS: Math.ceil(Math.max(originMs, earliestMs) / 1000),
    nowS: Math.floor(startMs / 1000),
    historyMax: options.historyMax ?? DEFAULT_GENERATED_HISTORY_MAX,
  };
  const seed = options.seed ?? DEFAULT_SEED;
  return {
    tapes: shapes.map((shape, index) => generatedTape(shape, seed, index, shapes.length, span)),
    startMs,
    pace: options.pace ?? 1,
    definition: { kind: 'generated', version: GENERATOR_VERSION, seed, markets: shapes },
  };
}

/**
 * Opens one or several tapes as one exchange with one clock.
 *
 * The identity is `sandbox-tape-` and a digest of what defines the history: for recorded tapes each
 * file's digest with its market, and by how much times were moved; for generated ones seed, markets
 * and the version of the generator. Pace, offset and order books do not enter: the same text means
 * the same trades at the same times, seen sooner or later.
 *
 * @throws TapeError when a file or an option is not usable.
 */
export async function openTape(options: TapeOptions, clock: Clock): Promise<TapeBackend> {
  checkNumbers(options);
  const { source } = options;
  const { tapes, startMs, pace, definition } =
    source.kind === 'recorded'
      ? await openRecorded(source, options, clock)
      : openGenerated(source, options, clock);
  const digest = createHash('sha256').update(JSON.stringify(definition)).digest('hex');
  return new TapeBackend({
    identity: `sandbox-tape-${digest.slice(0, 32)}`,
    tapes,
    clock,
    time: new TapeClock(clock, startMs, pace),
    seed: options.seed ?? DEFAULT_SEED,
    rules: {
      emptyCandles: options.emptyCandles ?? 'omitted',
      candleOpen: options.candleOpen ?? 'first',
    },
    keys: new Map(Object.entries(options.keys ?? {})),
  });
}
