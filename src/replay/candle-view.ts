import {
  type AsOfMarket,
  type BuiltCandle,
  comparePlaces,
  startOfSecond,
  type TradePlace,
} from '../archive/as-of/reader.js';
import { joinCandles } from '../archive/candles.js';
import type { Candle } from '../contract/resources.js';
import { DAY_MS, intervalText, SECOND_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, type Span, spanLengthMs } from '../kernel/span.js';
import type { KnownStream } from '../model/explain.js';
import { type KlineQuery, RefusedError } from '../server/backend.js';
import { FreshCache } from './caches.js';
import type { Catalog, Sight } from './catalog.js';
import type { ShownFrom } from './coverage.js';
import type { GapBook } from './gaps.js';
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
  readonly trades: TradeView;
}

/**
 * Candles as they could be seen at some times: closed ones as the exchange gave them, the open one
 * made of the trades until then. Lengths that were not collected are made of trades altogether. What
 * has to be made and is not wholly covered by trades is left out.
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
      const text = `neither candles of ${intervalText(intervalS)} nor trades of ${market.name} were collected`;
      throw new RefusedError('unavailable', text);
    }
    const found =
      stream === undefined
        ? await this.#made(market, intervalS, closed)
        : await this.#stored(stream, closed);
    const open = isOpenAsked ? await this.#openCandle(market, nowMs, intervalS, openMs) : [];
    return [...found, ...open].map((one) => candleOf(one, market.name));
  }

  async #stored(stream: KnownStream, span: Span) {
    const { asOf, shownFromMs } = this.#parts;
    const shown = { ...span, fromMs: Math.max(span.fromMs, shownFromMs(stream)) };
    if (isEmptySpan(shown)) return [];
    const { marketId, variant } = stream;
    return await asOf.klines(marketId, variant, shown, CANDLES_MAX);
  }

  /** Candles of a length that was not collected, from trades. */
  async #made(market: AsOfMarket, intervalS: number, asked: Span) {
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
    );
    const isWhole = ({ openAtS }: BuiltCandle) => {
      const [startMs, endMs] = [openAtS * SECOND_MS, (openAtS + intervalS) * SECOND_MS];
      return missing.every(({ fromMs, toMs }) => toMs <= startMs || fromMs >= endMs);
    };
    return made.filter(isWhole);
  }

  async #openCandle(market: AsOfMarket, nowMs: number, intervalS: number, openMs: number) {
    const { marketId } = market;
    const trades = this.#parts.catalog.stream('trades', marketId);
    const isCut = openMs < this.#parts.shownFromMs(trades);
    const missing = await this.#parts.gaps.touched(trades, { fromMs: openMs, toMs: nowMs });
    if (isCut || missing.length > 0) return [];
    const start = startOfSecond(openMs / SECOND_MS);
    const top = await this.#parts.trades.top(marketId, nowMs);
    const built = await this.#upTo(marketId, intervalS, start, top);
    return built === undefined ? [] : [built];
  }

  /** The candle as far as its trades go; only those that came since it was last needed are read. */
  async #upTo(
    marketId: number,
    intervalS: number,
    start: TradePlace,
    top: TradePlace,
  ): Promise<BuiltCandle | undefined> {
    const { asOf } = this.#parts;
    const read = async (from: TradePlace) => {
      if (comparePlaces(from, top) >= 0) return undefined;
      const made = await asOf.runs.candles(marketId, intervalS, from, top);
      return made[0];
    };
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
  const {
    openAtS: time,
    open,
    close,
    high: highest,
    low: lowest,
    volume,
    quoteVolume: amount,
  } = built;
  return { time, open, close, highest, lowest, volume, amount, market };
}
