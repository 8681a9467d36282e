import type { BuiltCandle, PastMarket } from '../archive/past.js';
import type { Candle } from '../contract/resources.js';
import { DAY_MS, intervalText, SECOND_MS } from '../kernel/durations.js';
import { floorToMs, isEmptySpan, type Span, spanLengthMs } from '../kernel/span.js';
import type { KnownStream } from '../model/explain.js';
import { type KlineQuery, RefusedError } from '../server/backend.js';
import { type Catalog, lastSeen, type Sight } from './catalog.js';
import type { ShownFrom } from './coverage.js';
import type { GapBook } from './gaps.js';

/** Candles of one request, more than the server lets a client ask for. */
const CANDLES_MAX = 20_000;
/** Trades that candles of a length that was not collected may be made of, in one request. */
const MADE_SPAN_MAX_MS = 31 * DAY_MS;
const MADE_TOO_LONG =
  'candles of a length that was not collected are made of trades, of 31 days at most; ask for a shorter time range';

interface CandleParts extends Sight {
  readonly catalog: Catalog;
  readonly shownFromMs: ShownFrom;
  readonly gaps: GapBook;
}

/**
 * Candles as they could be seen at some times: closed ones as the exchange gave them, the open one
 * made of the trades until then. Lengths that were not collected are made of trades altogether. What
 * has to be made and is not wholly covered by trades is left out.
 */
export class CandleView {
  readonly #parts: CandleParts;

  constructor(parts: CandleParts) {
    this.#parts = parts;
  }

  async seen(market: PastMarket, nowMs: number, query: KlineQuery): Promise<Candle[]> {
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
    const { past, shownFromMs } = this.#parts;
    const shown = { ...span, fromMs: Math.max(span.fromMs, shownFromMs(stream)) };
    if (isEmptySpan(shown)) return [];
    const { marketId, variant } = stream;
    return await past.klines(marketId, variant, shown, CANDLES_MAX);
  }

  /** Candles of a length that was not collected, from trades. */
  async #made(market: PastMarket, intervalS: number, asked: Span) {
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
    const made = await this.#parts.past.candlesOfTrades(
      marketId,
      intervalS,
      span,
      span.toMs * 1000,
    );
    const isWhole = ({ openAtS }: BuiltCandle) => {
      const [startMs, endMs] = [openAtS * SECOND_MS, (openAtS + intervalS) * SECOND_MS];
      return missing.every(({ fromMs, toMs }) => toMs <= startMs || fromMs >= endMs);
    };
    return made.filter(isWhole);
  }

  async #openCandle(market: PastMarket, nowMs: number, intervalS: number, openMs: number) {
    const { marketId } = market;
    const trades = this.#parts.catalog.stream('trades', marketId);
    const isCut = openMs < this.#parts.shownFromMs(trades);
    const missing = await this.#parts.gaps.touched(trades, { fromMs: openMs, toMs: nowMs });
    if (isCut || missing.length > 0) return [];
    const span = { fromMs: openMs, toMs: openMs + intervalS * SECOND_MS };
    const { us } = lastSeen(this.#parts, nowMs);
    return await this.#parts.past.candlesOfTrades(marketId, intervalS, span, us);
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
