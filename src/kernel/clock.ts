/// <reference lib="esnext.disposable" preserve="true" />
// For programs that check the declarations of the package and have no types of Node.

/**
 * The only place that reads the machine's clocks and sets its timers. Everything else is handed a
 * {@link Clock}, so that tests can move time by hand and nothing depends on when it runs.
 */
export interface Clock {
  /** Wall time of this machine, UNIX milliseconds. It may jump; never measure a duration with it. */
  wallMs(): number;
  /** Milliseconds since an arbitrary start. It never goes back; use it for durations and deadlines. */
  monotonicMs(): number;
  /**
   * Calls `callback` once after `ms` milliseconds and returns a function that cancels the call.
   * A pending timer does not keep the process alive when `background` is true.
   */
  after(ms: number, callback: () => void, options?: { background?: boolean }): () => void;
}

/** Longest delay that Node's timers accept; beyond it they fire at once, which would be a hot loop. */
const MAX_TIMER_MS = 2 ** 31 - 1;

/** The clock of this machine. */
export const systemClock: Clock = {
  wallMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  after(ms, callback, options) {
    const timer = setTimeout(callback, Math.min(Math.max(ms, 0), MAX_TIMER_MS));
    if (options?.background === true) timer.unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Waits `ms` milliseconds.
 *
 * @param options of {@link Clock.after}
 * @throws the signal's reason when `signal` aborts first; the timer is then cleared.
 */
export function sleep(
  clock: Clock,
  ms: number,
  signal?: AbortSignal,
  options?: { readonly background?: boolean },
): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason as Error);
      return;
    }
    const onAbort = () => {
      cancel();
      reject(signal?.reason as Error);
    };
    const cancel = clock.after(
      ms,
      () => {
        signal?.removeEventListener('abort', onAbort);
        resolve();
      },
      options,
    );
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

/**
 * Waits for work, but no longer than `ms` milliseconds.
 *
 * @returns whether it ended in time
 * @throws what the work throws
 */
export async function endsInTime(
  clock: Clock,
  ms: number,
  work: Promise<unknown>,
): Promise<boolean> {
  const waiting = new AbortController();
  const late = () => false;
  try {
    return await Promise.race([
      work.then(() => true),
      sleep(clock, ms, waiting.signal).then(late, late),
    ]);
  } finally {
    waiting.abort();
  }
}

/** A deadline in the form that Node's I/O understands: an AbortSignal. */
export interface Deadline extends Disposable {
  /** Aborts with `reason()` when time is up, or with the parent's reason when the parent aborts. */
  readonly signal: AbortSignal;
  /** Frees the timer. Call it as soon as the guarded work has ended. */
  clear(): void;
}

/**
 * Starts a deadline of `ms` milliseconds.
 *
 * @param reason builds the error that waiters see, so that it can say what took too long.
 */
export function startDeadline(
  clock: Clock,
  ms: number,
  reason: () => Error,
  parent?: AbortSignal,
): Deadline {
  const controller = new AbortController();
  const onParent = () => {
    clear();
    controller.abort(parent?.reason);
  };
  const cancel = clock.after(ms, () => {
    parent?.removeEventListener('abort', onParent);
    controller.abort(reason());
  });
  const clear = () => {
    cancel();
    parent?.removeEventListener('abort', onParent);
  };
  if (parent?.aborted) onParent();
  else parent?.addEventListener('abort', onParent, { once: true });
  return { signal: controller.signal, clear, [Symbol.dispose]: clear };
}

/**
 * Waits for `work`, but no longer than until `signal` aborts. What is left of it is ended by closing
 * what it works on; `discard` lets go of what it brings too late.
 *
 * Of many pieces of work nothing is kept alive by a signal that outlives them. A race against one
 * promise that stands for the signal would keep every result there ever was.
 *
 * @throws the signal's reason
 */
export async function unlessAborted<T>(
  signal: AbortSignal,
  work: Promise<T>,
  discard?: (late: T) => Promise<void>,
): Promise<T> {
  const waiting = new AbortController();
  const stopped = new Promise<never>((_, reject) => {
    const give = () => reject(signal.reason as Error);
    if (signal.aborted) give();
    else signal.addEventListener('abort', give, { signal: waiting.signal });
  });
  try {
    return await Promise.race([work, stopped]);
  } catch (error) {
    if (signal.aborted) work.then(discard).catch(() => undefined);
    throw error;
  } finally {
    waiting.abort();
  }
}

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
    // To abort once more what is aborted would make an error each time.
    if (this.#pending) return;
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
