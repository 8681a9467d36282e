import { createHash } from 'node:crypto';
import { z } from 'zod';
import type { BookOrder, Depth } from '../../contract/resources.js';
import type { Side } from '../../contract/values.js';
import type { Clock } from '../../kernel/clock.js';
import type { Backend, Slice } from '../../server/backend.js';
import { formatScaled } from '../amounts.js';
import { CANDLE_RULES } from '../candles.js';
import { TapeError } from '../errors.js';
import { ExchangeTime, MarketData, type MarketDataParts, type Touch } from '../market-data.js';
import { MarketTape } from '../market-tape.js';
import { describeMarket, refusing, splitPair } from '../markets.js';
import { type ReadTape, readCsvTape } from './recorded-tape.js';
import { drawBook, type TapeBook } from './tape-book.js';

/** A recorded tape in a file; see `readCsvTape` for its format. */
export interface RecordedTape {
  readonly market: string;
  readonly path: string;
}

const PACE = refusing(
  (pace) => `pace ${pace}: expected a number above 0 and up to 1,000,000, or "instant"`,
);
const OFFSET = refusing((s) => `start offset ${s} s: expected a number of at least 0`);

const HISTORY = refusing((trades) => `history ${trades}: expected a whole number of at least 1`);

const OPTIONS = z.object({
  ...CANDLE_RULES,
  /** One tape per market; all run on one clock. */
  tapes: z
    .array(z.custom<RecordedTape>())
    .min(1, 'a tape exchange needs at least one market')
    .readonly(),
  /** Draws the order books. */
  seed: z.number().default(7),
  /**
   * Seconds of the exchange per second of this machine. `instant` shows the tapes whole at once, and
   * the exchange's time stands at their end and runs on from there at pace 1.
   */
  pace: z.union([z.number(PACE).gt(0, PACE).max(1e6, PACE), z.literal('instant')], PACE).default(1),
  /**
   * `tape`: the tape's own time. `now`: times are moved so that the exchange's start is this machine's
   * wall time.
   */
  time: z.enum(['tape', 'now']).default('tape'),
  /** How much history lies before the start, seconds. */
  startOffsetS: z.number(OFFSET).min(0, OFFSET).default(0),
  /** Most trades of a market that are served, the newest; default: all. */
  historyMax: z.int(HISTORY).min(1, HISTORY).optional(),
});

/** Options of a tape exchange: its tapes and its time. */
export type TapeOptions = Readonly<z.input<typeof OPTIONS>>;

function readOptions(given: TapeOptions): z.output<typeof OPTIONS> {
  const { data, error } = OPTIONS.safeParse(given);
  if (error !== undefined) throw new TapeError(error.issues[0]?.message ?? error.message);
  const names = data.tapes.map(({ market }) => market);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new TapeError(`the market ${twice} has more than one tape`);
  for (const name of names) splitPair(name);
  return data;
}

/**
 * Opens one or several tapes as one exchange with one clock.
 *
 * The identity is `sandbox-tape-` and a digest of what defines the history: each file's digest with
 * its market, and by how much times were moved. Pace, offset and order books do not enter: the same
 * text means the same trades at the same times, seen sooner or later.
 *
 * @throws TapeError when a file or an option is not usable.
 */
export async function openTape(given: TapeOptions, clock: Clock): Promise<TapeBackend> {
  const options = readOptions(given);
  const { pace, startOffsetS, seed, historyMax = Number.POSITIVE_INFINITY } = options;
  const isInstant = pace === 'instant';
  const read = [];
  for (const { market, path } of options.tapes) read.push({ market, ...(await readCsvTape(path)) });
  const timeMs = ({ columns }: ReadTape, at: number) => columns.timeUsAt(at) / 1000;
  const startMs = isInstant
    ? Math.max(...read.map((tape) => timeMs(tape, tape.columns.end - 1)))
    : Math.min(...read.map((tape) => timeMs(tape, 0))) + Math.round(startOffsetS * 1000);
  const shiftMs = options.time === 'now' ? Math.round(clock.wallMs()) - startMs : 0;
  const tapes = read.map(({ market, columns, tickDigits }) => {
    if (shiftMs !== 0) columns.shiftTimes(shiftMs * 1000);
    const { amountDigits, priceDigits } = columns;
    const minAmount = formatScaled(1n, amountDigits);
    const described = describeMarket(market, amountDigits, priceDigits, minAmount);
    const tick = 10n ** BigInt(priceDigits - tickDigits);
    return new MarketTape(described, tick, columns, historyMax);
  });
  const digests = read.map(({ market, digest }) => ({ market, digest }));
  const definition = JSON.stringify({ kind: 'recorded', shiftMs, tapes: digests });
  const digest = createHash('sha256').update(definition).digest('hex');
  return new TapeBackend({
    ...{ identity: `sandbox-tape-${digest.slice(0, 32)}`, tapes, clock, seed },
    time: new ExchangeTime(clock, startMs + shiftMs, isInstant ? 1 : pace),
    rules: options,
  });
}

/** Parts of a tape backend. */
interface TapeParts extends MarketDataParts {
  readonly tapes: readonly MarketTape[];
  /** Draws the order books. */
  readonly seed: number;
}

/** An exchange that plays tapes. There is no engine behind it, and so there are no accounts. */
export class TapeBackend extends MarketData implements Backend {
  readonly #tapes: ReadonlyMap<string, MarketTape>;
  readonly #seed: number;
  readonly #books = new Map<string, { readonly lastId: number; readonly book: TapeBook }>();

  constructor(parts: TapeParts) {
    super(parts);
    this.#tapes = new Map(parts.tapes.map((tape) => [tape.market.name, tape]));
    this.#seed = parts.seed;
  }

  hasMarket(market: string): boolean {
    return this.#tapes.has(market);
  }

  depth(market: string, limit: number): Depth {
    const { buy, sell } = this.#book(this.tapeOf(market));
    const side = (levels: TapeBook[Side]) =>
      levels.slice(0, limit).map(({ price, amount }): [string, string] => [price, amount]);
    return { asks: side(sell), bids: side(buy) };
  }

  book(market: string, side: Side, offset: number, limit: number): Slice<BookOrder> {
    const orders = this.#book(this.tapeOf(market))[side].flatMap((level) => level.orders);
    return { total: orders.length, rows: orders.slice(offset, offset + limit) };
  }

  protected override tapes(): Iterable<MarketTape> {
    return this.#tapes.values();
  }

  protected override tapeOf(market: string): MarketTape {
    const tape = this.#tapes.get(market);
    if (tape === undefined)
      throw new TapeError(`market ${JSON.stringify(market)}: no tape of it is open`);
    return tape;
  }

  protected override touchOf(market: string): Touch {
    const { buy, sell } = this.#book(this.tapeOf(market));
    return { bid: buy[0]?.price ?? '0', ask: sell[0]?.price ?? '0' };
  }

  #book(tape: MarketTape): TapeBook {
    const visible = tape.visible(this.nowMs());
    if (visible.first === visible.end) return { buy: [], sell: [] };
    const lastId = tape.columns.idAt(visible.end - 1);
    const known = this.#books.get(tape.market.name);
    if (known?.lastId === lastId) return known.book;
    const book = drawBook(tape, this.#seed, visible);
    this.#books.set(tape.market.name, { lastId, book });
    return book;
  }
}
