import type { Clock } from '../kernel/clock.js';
import type { MarketTape } from './market-tape.js';
import type { TapeClock } from './tape-clock.js';

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
 */
export class TradeWatchers {
  readonly #clock: Clock;
  readonly #time: TapeClock;
  readonly #tapeOf: (market: string) => MarketTape;
  readonly #watched = new Map<string, Watched>();
  #cancelTimer: (() => void) | undefined;
  #isStopped = false;

  /** @param tapeOf asked at every look: a market that is listed again may have another tape */
  constructor(clock: Clock, time: TapeClock, tapeOf: (market: string) => MarketTape) {
    this.#clock = clock;
    this.#time = time;
    this.#tapeOf = tapeOf;
  }

  /** Returns a function that ends the watch. */
  add(market: string, listener: () => void): () => void {
    if (this.#isStopped) return () => {};
    const watched = this.#watched.get(market) ?? {
      listeners: new Set(),
      end: this.#tapeOf(market).visible(this.#time.nowMs()).end,
    };
    this.#watched.set(market, watched);
    // One function may watch twice; each watch has its own end.
    const own = () => listener();
    watched.listeners.add(own);
    this.#schedule(0);
    return () => {
      watched.listeners.delete(own);
      if (watched.listeners.size === 0 && this.#watched.get(market) === watched) {
        this.#watched.delete(market);
      }
      if (this.#watched.size === 0) this.#cancelTimer?.();
    };
  }

  /** Looks at once, because trades may have come that could not be foreseen. */
  look(): void {
    if (this.#watched.size > 0) this.#schedule(0);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelTimer?.();
    this.#watched.clear();
  }

  #schedule(minWaitMs: number): void {
    this.#cancelTimer?.();
    this.#cancelTimer = undefined;
    if (this.#isStopped) return;
    const nowMs = this.#time.nowMs();
    let nextMs = Number.POSITIVE_INFINITY;
    for (const [market, { end }] of this.#watched) {
      const tape = this.#tapeOf(market);
      const isBehind = tape.visible(nowMs).end !== end;
      nextMs = Math.min(nextMs, isBehind ? nowMs : (tape.nextAfterMs(nowMs) ?? nextMs));
    }
    if (nextMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.max(minWaitMs, this.#time.delayMs(nextMs));
    this.#cancelTimer = this.#clock.after(waitMs, () => this.#notify(), { background: true });
  }

  #notify(): void {
    const nowMs = this.#time.nowMs();
    for (const [market, watched] of this.#watched) {
      const { end } = this.#tapeOf(market).visible(nowMs);
      if (end === watched.end) continue;
      watched.end = end;
      for (const listener of watched.listeners) listener();
    }
    this.#schedule(MIN_GAP_MS);
  }
}
