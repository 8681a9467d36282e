import type { Clock } from './clock.js';

/** Time that may be spent at once after a pause, milliseconds. */
const BURST_MS = 50;
/**
 * Least that a piece of work is taken to cost, milliseconds: what it does after its first `await`, and what
 * Node does for a request, cannot be measured.
 */
const LEAST_COST_MS = 0.25;
/** Most that one piece is taken to cost: on a machine that others load, most of its time may be theirs. */
const MOST_COST_MS = 500;

/** A share of the event loop: work beyond it waits until enough time has passed. */
export class LoopShare {
  readonly #clock: Clock;
  readonly #share: number;
  /** Time that may be spent; below 0 after work that took longer. */
  #leftMs = BURST_MS;
  #atMs: number;

  /** @param share of the event loop's time, such as 0.1 */
  constructor(clock: Clock, share: number) {
    this.#clock = clock;
    this.#share = share;
    this.#atMs = clock.monotonicMs();
  }

  get isFree(): boolean {
    return this.#left() > 0;
  }

  /** Calls back when the share is probably free. */
  whenFree(callback: () => void, limitMs = Number.POSITIVE_INFINITY): void {
    const waitMs = 1 + Math.max(0, -this.#left()) / this.#share;
    this.#clock.after(Math.ceil(Math.min(waitMs, limitMs)), callback, { background: true });
  }

  /** Waits for the share. @returns whether it is free, after `limitMs` at the most */
  async untilFree(limitMs: number): Promise<boolean> {
    const endMs = this.#clock.monotonicMs() + limitMs;
    while (!this.isFree) {
      const leftMs = endMs - this.#clock.monotonicMs();
      if (leftMs <= 0) return false;
      await new Promise<void>((resolve) => this.whenFree(resolve, leftMs));
    }
    return true;
  }

  /** Does work, and counts how long it held the event loop. */
  spend<T>(work: () => T): T {
    const startedMs = this.#clock.monotonicMs();
    try {
      return work();
    } finally {
      this.charge(this.#clock.monotonicMs() - startedMs);
    }
  }

  /** Counts work that took so long. */
  charge(tookMs: number): void {
    this.#leftMs = this.#left() - Math.min(MOST_COST_MS, Math.max(LEAST_COST_MS, tookMs));
  }

  #left(): number {
    const nowMs = this.#clock.monotonicMs();
    this.#leftMs = Math.min(BURST_MS, this.#leftMs + (nowMs - this.#atMs) * this.#share);
    this.#atMs = nowMs;
    return this.#leftMs;
  }
}
