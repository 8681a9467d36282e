/** Somebody who waits for a turn. Lower priorities go first, equals in the order of arrival. */
interface Waiter {
  readonly priority: number;
  readonly admit: () => void;
}

/**
 * A line of waiters, served by priority and, within one priority, first come first served.
 * Whoever owns the line decides when the next one goes. Each waiter leaves when its signal aborts.
 */
export class WaitingLine {
  #waiters: Waiter[] = [];

  get size(): number {
    return this.#waiters.length;
  }

  /**
   * Resolves when {@link WaitingLine.admitNext} reaches this waiter.
   *
   * @param onLeave called after a waiter left without having been served
   * @throws the signal's reason when it aborts first
   */
  join(priority: number, signal?: AbortSignal, onLeave?: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) {
        reject(signal.reason as Error);
        return;
      }
      const onAbort = () => {
        this.#waiters = this.#waiters.filter((other) => other !== waiter);
        onLeave?.();
        reject(signal?.reason as Error);
      };
      const waiter: Waiter = {
        priority,
        admit: () => {
          signal?.removeEventListener('abort', onAbort);
          resolve();
        },
      };
      signal?.addEventListener('abort', onAbort, { once: true });
      const behind = this.#waiters.findIndex((other) => other.priority > priority);
      if (behind === -1) this.#waiters.push(waiter);
      else this.#waiters.splice(behind, 0, waiter);
    });
  }

  /** Serves the first in line; false when nobody waits. */
  admitNext(): boolean {
    const next = this.#waiters.shift();
    next?.admit();
    return next !== undefined;
  }
}
