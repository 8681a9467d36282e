import type { Clock } from '../kernel/clock.js';
import type { MarketTape } from './market-tape.js';
import type { TapeClock } from './tape-clock.js';

/** Shortest time of this machine between two calls of one listener. */
const MIN_GAP_MS = 50;

interface Watched {
  readonly tape: MarketTape;
  readonly listeners: Set<() => void>;
  end: number;
}

/**
 * Tells listeners when new trades of their market have become visible. One timer, set for the next
 * trade of any watched market; while nobody watches there is none.
 *
 * States: *idle* (no listener), *waiting* (timer set), *stopped* for good.
 */
export class TradeWatchers {
  readonly #clock: Clock;
  readonly #time: TapeClock;
  readonly #watched = new Map<string, Watched>();
  #cancelTimer: (() => void) | undefined;
  #isStopped = false;

  constructor(clock: Clock, time: TapeClock) {
    this.#clock = clock;
    this.#time = time;
  }

  /** Returns a function that ends the watch. */
  add(tape: MarketTape, listener: () => void): () => void {
    if (this.#isStopped) return () => {};
    const { name } = tape.market;
    const watched = this.#watched.get(name) ?? {
      tape,
      listeners: new Set(),
      end: tape.visible(this.#time.nowMs()).end,
    };
    this.#watched.set(name, watched);
    // One function may watch twice; each watch has its own end.
    const own = () => listener();
    watched.listeners.add(own);
    this.#schedule(0);
    return () => {
      watched.listeners.delete(own);
      if (watched.listeners.size === 0 && this.#watched.get(name) === watched) {
        this.#watched.delete(name);
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
    for (const { tape, end } of this.#watched.values()) {
      const isBehind = tape.visible(nowMs).end !== end;
      nextMs = Math.min(nextMs, isBehind ? nowMs : (tape.nextAfterMs(nowMs) ?? nextMs));
    }
    if (nextMs === Number.POSITIVE_INFINITY) return;
    const waitMs = Math.max(minWaitMs, this.#time.delayMs(nextMs));
    this.#cancelTimer = this.#clock.after(waitMs, () => this.#tell(), { background: true });
  }

  #tell(): void {
    const nowMs = this.#time.nowMs();
    for (const watched of this.#watched.values()) {
      const { end } = watched.tape.visible(nowMs);
      if (end === watched.end) continue;
      watched.end = end;
      for (const listener of watched.listeners) listener();
    }
    this.#schedule(MIN_GAP_MS);
  }
}
