import type { Candle, Market, StateRecord, Ticker, TickerEntry } from '../contract/resources.js';
import { obtain } from '../kernel/bounded.js';
import type { Clock } from '../kernel/clock.js';
import { DAY_MS } from '../kernel/durations.js';
import type { BackendTrade, KlineQuery, TradeForm } from '../server/backend.js';
import { type CandleRules, candlesOf } from './candles.js';
import type { MarketTape } from './market-tape.js';
import { TradeTexts } from './trade-texts.js';

/**
 * The time of a sandbox exchange: starts at a chosen instant and runs at a chosen pace, carried by
 * the machine's monotonic clock, so that corrections of the wall clock do not touch it.
 */
export class ExchangeTime {
  readonly #clock: Clock;
  readonly #startMs: number;
  readonly #startedAtMs: number;
  readonly #pace: number;

  /** @param pace seconds of the exchange per second of this machine, above 0 */
  constructor(clock: Clock, startMs: number, pace: number) {
    this.#clock = clock;
    this.#startMs = startMs;
    this.#startedAtMs = clock.monotonicMs();
    this.#pace = pace;
  }

  /** The exchange's time, whole UNIX milliseconds; it never goes back. */
  nowMs(): number {
    const elapsedMs = this.#clock.monotonicMs() - this.#startedAtMs;
    return Math.floor(this.#startMs + elapsedMs * this.#pace);
  }

  /** Milliseconds of this machine until the exchange's time has reached `timeMs`. */
  delayMs(timeMs: number): number {
    return Math.max(0, (timeMs - this.nowMs()) / this.#pace);
  }
}

/** Best prices of a book; `0` where a side is empty. */
export interface Touch {
  readonly bid: string;
  readonly ask: string;
}

/** Parts of the market data of an exchange in memory. */
export interface MarketDataParts {
  /** Names the exchange's history; see `Backend.identity`. */
  readonly identity: string;
  readonly clock: Clock;
  readonly time: ExchangeTime;
  readonly rules: CandleRules;
}

/**
 * Everything public that follows from the trades of an exchange alone: history, tickers, candles,
 * states. Nothing later than {@link MarketData.nowMs} is ever shown.
 */
export abstract class MarketData {
  readonly identity: string;
  readonly #time: ExchangeTime;
  readonly #rules: CandleRules;
  readonly #watchers: ReturnType<typeof tradeWatchers>;
  readonly #texts = new TradeTexts();

  constructor({ identity, clock, time, rules }: MarketDataParts) {
    this.identity = identity;
    this.#time = time;
    this.#rules = rules;
    this.#watchers = tradeWatchers(clock, time, (market) => this.tapeOf(market));
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
    const { close: _close, ...figures } = this.tapeOf(market).rollingFigures(nowMs, DAY_MS);
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
    const figures = this.tapeOf(market).rollingFigures(this.nowMs(), periodS * 1000);
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
    this.#watchers.check();
  }
}

/** Shortest time of this machine between two calls of one listener. */
const MIN_GAP_MS = 50;

interface Watched {
  readonly listeners: Set<() => void>;
  end: number;
}

/**
 * Notifies listeners when new trades of their market have become visible. One timer, set for the next
 * trade of any watched market; without watchers there is none.
 *
 * States: *idle* (no listener), *waiting* (timer set), *stopped* for good.
 *
 * @param tapeOf read at every check: a market that is listed again may have another tape
 */
function tradeWatchers(clock: Clock, time: ExchangeTime, tapeOf: (market: string) => MarketTape) {
  const watchedMarkets = new Map<string, Watched>();
  let cancelTimer: (() => void) | undefined;
  let isStopped = false;
  const schedule = (minWaitMs: number) => {
    cancelTimer?.();
    cancelTimer = undefined;
    if (isStopped) return;
    const nowMs = time.nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [market, { end }] of watchedMarkets) {
      const tape = tapeOf(market);
      const isBehind = tape.visible(nowMs).end !== end;
      nextMs = Math.min(nextMs, isBehind ? nowMs : (tape.nextAfterMs(nowMs) ?? nextMs));
    }
    if (nextMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.max(minWaitMs, time.delayMs(nextMs));
    cancelTimer = clock.after(waitMs, notify, { background: true });
  };
  const notify = () => {
    const nowMs = time.nowMs();
    for (const [market, watched] of watchedMarkets) {
      const { end } = tapeOf(market).visible(nowMs);
      if (end === watched.end) continue;
      watched.end = end;
      for (const listener of watched.listeners) listener();
    }
    schedule(MIN_GAP_MS);
  };
  return {
    /** Returns a function that ends the watch. */
    add(market: string, listener: () => void): () => void {
      if (isStopped) return () => {};
      const watched = obtain(watchedMarkets, market, () => ({
        listeners: new Set<() => void>(),
        end: tapeOf(market).visible(time.nowMs()).end,
      }));
      // One function may watch twice; each watch has its own end.
      const own = () => listener();
      watched.listeners.add(own);
      schedule(0);
      return () => {
        watched.listeners.delete(own);
        if (watched.listeners.size === 0 && watchedMarkets.get(market) === watched) {
          watchedMarkets.delete(market);
        }
        if (watchedMarkets.size === 0) cancelTimer?.();
      };
    },
    /** Checks at once, because trades may have come that could not be foreseen. */
    check() {
      if (watchedMarkets.size > 0) schedule(0);
    },
    stop() {
      isStopped = true;
      cancelTimer?.();
      watchedMarkets.clear();
    },
  };
}
