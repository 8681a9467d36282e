import type { Clock } from '../kernel/clock.js';

/**
 * The time of a sandbox exchange: starts at a chosen instant and runs at a chosen pace, carried by
 * the machine's monotonic clock, so that corrections of the wall clock do not touch it.
 */
export class TapeClock {
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

  /** Milliseconds of this machine until the exchange's time has reached `momentMs`. */
  delayMs(timeMs: number): number {
    return Math.max(0, (timeMs - this.nowMs()) / this.#pace);
  }
}
