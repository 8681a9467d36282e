import type { Candle, Market, StateRecord, Ticker, TickerEntry } from '../contract/resources.js';
import type { Clock } from '../kernel/clock.js';
import { DAY_MS } from '../kernel/durations.js';
import type { BackendTrade, KlineQuery, TradeForm } from '../server/backend.js';
import { type CandleRules, candlesOf } from './candles.js';
import { rollingFigures } from './figures.js';
import type { MarketTape } from './market-tape.js';
import type { TapeClock } from './tape-clock.js';
import { TradeTexts } from './trade-texts.js';
import { TradeWatchers } from './watchers.js';

/** Best prices of a book; `0` where a side is empty. */
export interface Touch {
  readonly bid: string;
  readonly ask: string;
}

/** What an exchange in memory shows of its trades is put together from this. */
export interface MarketDataParts {
  /** Names the exchange's history; see `Backend.identity`. */
  readonly identity: string;
  readonly clock: Clock;
  readonly time: TapeClock;
  readonly rules: CandleRules;
}

/**
 * Everything public that follows from the trades of an exchange alone: history, tickers, candles,
 * states. Nothing later than {@link MarketData.nowMs} is ever shown.
 */
export abstract class MarketData {
  readonly identity: string;
  readonly #time: TapeClock;
  readonly #rules: CandleRules;
  readonly #watchers: TradeWatchers;
  readonly #texts = new TradeTexts();

  constructor({ identity, clock, time, rules }: MarketDataParts) {
    this.identity = identity;
    this.#time = time;
    this.#rules = rules;
    this.#watchers = new TradeWatchers(clock, time, (market) => this.tapeOf(market));
  }

  /** All markets that are listed now. */
  protected abstract tapes(): Iterable<MarketTape>;
  /** The trades of a listed market. */
  protected abstract tapeOf(market: string): MarketTape;
  protected abstract touchOf(market: string): Touch;
  abstract hasMarket(market: string): boolean;

  nowMs(): number {
    return this.#time.nowMs();
  }

  markets(): Market[] {
    return Array.from(this.tapes(), (tape) => tape.market);
  }

  tickers(): Record<string, TickerEntry> {
    const at = Math.floor(this.nowMs() / 1000);
    const entries = Array.from(this.tapes(), ({ market: { name } }) => {
      const { volume: vol, ...rest } = this.ticker(name);
      return [name, { at, ticker: { ...rest, vol } }] as const;
    });
    return Object.fromEntries(entries);
  }

  ticker(market: string): Ticker {
    const nowMs = this.nowMs();
    const { close: _close, ...figures } = rollingFigures(this.tapeOf(market), nowMs, DAY_MS);
    const { bid, ask } = this.touchOf(market);
    return { name: market, bid, ask, ...figures };
  }

  kline({ market, ...span }: KlineQuery): Candle[] {
    return candlesOf(this.tapeOf(market), this.nowMs(), span, this.#rules);
  }

  trades(market: string, skip: number, limit: number): BackendTrade[] {
    const tape = this.tapeOf(market);
    const { first, end } = tape.visible(this.nowMs());
    const trades: BackendTrade[] = [];
    for (let at = end - 1 - skip; at >= first && trades.length < limit; at -= 1) {
      trades.push(tape.columns.tradeAt(at));
    }
    return trades;
  }

  tradesText(form: TradeForm, market: string, skip: number, limit: number): Buffer[] {
    const tape = this.tapeOf(market);
    const { first, end } = tape.visible(this.nowMs());
    const to = Math.max(first, end - skip);
    return this.#texts.page(form, tape.columns, Math.max(first, to - limit), to);
  }

  state(market: string, periodS: number): StateRecord {
    const figures = rollingFigures(this.tapeOf(market), this.nowMs(), periodS * 1000);
    return { period: periodS, ...figures };
  }

  /** Listeners are called when trades have become visible, at most 20 times a second. */
  watch(market: string, listener: () => void): () => void {
    return this.#watchers.add(market, listener);
  }

  /**
   * Every trade of a market that became visible by now, oldest first, also those that are beyond
   * the served history: what a collector is measured against.
   *
   * @param fromUs leaves out what is older, UNIX microseconds
   * @throws TapekeepError when there never was such a market, or some of the trades are forgotten
   */
  truth(market: string, fromUs = Number.NEGATIVE_INFINITY): Iterable<BackendTrade> {
    return this.tapeOf(market).issued(this.nowMs(), fromUs);
  }

  /** Ends all watches and their timer. May be called more than once. */
  stop(): void {
    this.#watchers.stop();
  }

  /** Checks at once for news to listeners, instead of when it was expected. */
  protected recheck(): void {
    this.#watchers.look();
  }
}
