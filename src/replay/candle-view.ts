import {
  type AsOfMarket,
  type BuiltCandle,
  comparePlaces,
  type KnownStream,
  startOfSecond,
  type TradePlace,
} from '../archive/as-of/reader.js';
import { joinCandles } from '../archive/candles.js';
import type { Candle } from '../contract/resources.js';
import { DAY_MS, SECOND_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, type Span, spanLengthMs } from '../kernel/span.js';
import { type KlineQuery, RefusedError } from '../server/backend.js';
import { FreshCache } from './caches.js';
import { type Catalog, knownAt, type Sight } from './catalog.js';
import type { ShownFrom } from './context.js';
import type { GapBook, LateGaps } from './gaps.js';
import type { TradeView } from './trade-view.js';

/** Candles of one request, more than the server lets a client ask for. */
const CANDLES_MAX = 20_000;
/** Open candles that are remembered, each as far as it was last needed. */
const OPEN_MAX = 1000;
/** Trades that candles of a length that was not collected may be made of, in one request. */
const MADE_SPAN_MAX_MS = 31 * DAY_MS;
const MADE_TOO_LONG =
  'candles of a length that was not collected are made of trades, of 31 days at most; ask for a shorter time range';

interface OpenCandle {
  readonly top: TradePlace;
  readonly candle: BuiltCandle | undefined;
}

interface CandleParts extends Sight {
  readonly catalog: Catalog;
  readonly shownFromMs: ShownFrom;
  readonly gaps: GapBook;
  readonly late: LateGaps;
  readonly trades: TradeView;
}

/**
 * Candles as they could be seen at some times: closed ones as the exchange gave them, the open one
 * made of the trades until then. Lengths that were not collected are made of trades altogether. What
 * has to be made and is not wholly covered by trades is left out. One exception where only what was
 * known counts: an open candle whose newest trades are still on their way is shown as far as it was known.
 */
export class CandleView {
  readonly #parts: CandleParts;
  readonly #open: FreshCache<OpenCandle>;

  constructor(parts: CandleParts) {
    this.#parts = parts;
    this.#open = new FreshCache(parts.clock, OPEN_MAX);
  }

  async seen(market: AsOfMarket, nowMs: number, query: KlineQuery): Promise<Candle[]> {
    const { intervalS } = query;
    const lengthMs = intervalS * SECOND_MS;
    const floor = (ms: number) => Math.floor(ms / lengthMs) * lengthMs;
    const openMs = floor(nowMs);
    const fromMs = floor(query.startS * SECOND_MS);
    const untilMs = Math.min(floor(query.endS * SECOND_MS) + lengthMs, openMs);
    const closed = { fromMs, toMs: Math.max(fromMs, untilMs) };
    const isOpenAsked = query.endS * SECOND_MS >= openMs && fromMs <= openMs;
    const stream = this.#parts.catalog.stream('candles', market.marketId, intervalS);
    if (
      stream === undefined &&
      this.#parts.catalog.stream('trades', market.marketId) === undefined
    ) {
      const text = `neither candles of ${intervalS} s nor trades of ${market.name} were collected`;
      throw new RefusedError('unavailable', text);
    }
    const found =
      stream === undefined
        ? await this.#made(market, nowMs, intervalS, closed)
        : await this.#stored(stream, nowMs, closed);
    const open = isOpenAsked ? await this.#openCandle(market, nowMs, intervalS, openMs) : [];
    return [...found, ...open].map((one) => candleOf(one, market.name));
  }

  async #stored(stream: KnownStream, nowMs: number, span: Span) {
    const { asOf, shownFromMs } = this.#parts;
    const shown = { ...span, fromMs: Math.max(span.fromMs, shownFromMs(stream)) };
    if (isEmptySpan(shown)) return [];
    const { marketId, variant } = stream;
    return await asOf.klines(marketId, variant, shown, CANDLES_MAX, knownAt(this.#parts, nowMs));
  }

  /** Candles of a length that was not collected, from trades. */
  async #made(market: AsOfMarket, nowMs: number, intervalS: number, asked: Span) {
    const { marketId } = market;
    const { catalog, shownFromMs } = this.#parts;
    const trades = catalog.stream('trades', marketId);
    // Before the oldest thing that is known of it there is nothing to be made.
    const oldestMs = Math.max(catalog.knownFromMs(marketId) ?? asked.toMs, shownFromMs(trades));
    const lengthMs = intervalS * SECOND_MS;
    const span = { ...asked, fromMs: Math.max(asked.fromMs, floorToMs(oldestMs, lengthMs)) };
    if (isEmptySpan(span)) return [];
    if (spanLengthMs(span) > Math.max(lengthMs, MADE_SPAN_MAX_MS))
      throw new RefusedError('unavailable', MADE_TOO_LONG);
    const missing = await this.#parts.gaps.touched(trades, span);
    const made = await this.#parts.asOf.runs.candles(
      ...([marketId, intervalS, startOfSecond(span.fromMs / SECOND_MS)] as const),
      startOfSecond(span.toMs / SECOND_MS),
      knownAt(this.#parts, nowMs),
    );
    const late = this.#parts.late.candles(intervalS, made.lateOpenAtS);
    const gaps = [...missing, ...late];
    const isWhole = ({ openAtS }: BuiltCandle) => {
      const [startMs, endMs] = [openAtS * SECOND_MS, (openAtS + intervalS) * SECOND_MS];
      return gaps.every(({ fromMs, toMs }) => toMs <= startMs || fromMs >= endMs);
    };
    return made.candles.filter(isWhole);
  }

  async #openCandle(market: AsOfMarket, nowMs: number, intervalS: number, openMs: number) {
    const { marketId } = market;
    const trades = this.#parts.catalog.stream('trades', marketId);
    const span = { fromMs: openMs, toMs: nowMs };
    const start = startOfSecond(openMs / SECOND_MS);
    const run = { from: start, before: startOfSecond(Math.floor(nowMs / SECOND_MS) + 1) };
    const { lowest } = await this.#parts.late.trades(marketId, run, [], nowMs);
    const isCut = openMs < this.#parts.shownFromMs(trades);
    const missing = await this.#parts.gaps.touched(trades, span);
    if (isCut || missing.length > 0 || (await this.#isKnownAbove(marketId, lowest, nowMs)))
      return [];
    const top = await this.#parts.trades.top(marketId, nowMs);
    const built = await this.#upTo(marketId, intervalS, start, top, nowMs);
    return built === undefined ? [] : [built];
  }

  /** Whether a trade above a place that came late was known already: there was a gap, not only a delay. */
  async #isKnownAbove(marketId: number, late: TradePlace | undefined, nowMs: number) {
    if (late === undefined) return false;
    const [newest] = await this.#parts.trades.page(marketId, nowMs, 0, 1);
    return newest !== undefined && comparePlaces(newest, late) > 0;
  }

  /** The candle as far as its trades go; only those that came since it was last needed are read. */
  async #upTo(
    marketId: number,
    intervalS: number,
    start: TradePlace,
    top: TradePlace,
    nowMs: number,
  ): Promise<BuiltCandle | undefined> {
    const { asOf, isKnownOnly } = this.#parts;
    const known = knownAt(this.#parts, nowMs);
    const read = async (from: TradePlace) => {
      if (comparePlaces(from, top) >= 0) return undefined;
      const made = await asOf.runs.candles(marketId, intervalS, from, top, known);
      return made.candles[0];
    };
    if (isKnownOnly) return read(start);
    const key = `${marketId} ${intervalS} ${start.tradedAtS}`;
    const whole = async () => ({ top, candle: await read(start) });
    const before = await this.#open.get(key, whole);
    if (comparePlaces(before.top, top) > 0) return read(start);
    const more = await read(before.top);
    if (more === undefined) return before.candle;
    const candle = before.candle === undefined ? more : joinCandles(before.candle, more);
    this.#open.put(key, { top, candle });
    return candle;
  }
}

function candleOf(built: BuiltCandle, market: string): Candle {
  const { openAtS: time, open, close, high: highest, low: lowest, volume, amount } = built;
  return { time, open, close, highest, lowest, volume, amount, market };
}
