import { type Clock, sleep } from './clock.js';

/**
 * Lets one loop sleep until there is something to do. A notification that comes while nothing waits
 * is remembered, so that none is missed between a look and the wait after it.
 */
export class Wakeup {
  readonly #clock: Clock;
  #pending = false;
  #waiting: AbortController | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  notify(): void {
    this.#pending = true;
    this.#waiting?.abort();
  }

  /** Returns when notified, after `ms` milliseconds, or when `signal` aborts; never throws. */
  async wait(ms: number, signal: AbortSignal): Promise<void> {
    if (!this.#pending && !signal.aborted) {
      const waiting = new AbortController();
      this.#waiting = waiting;
      const onAbort = () => waiting.abort();
      signal.addEventListener('abort', onAbort, { once: true });
      await sleep(this.#clock, ms, waiting.signal).catch(() => undefined);
      signal.removeEventListener('abort', onAbort);
      this.#waiting = undefined;
    }
    this.#pending = false;
  }
}
