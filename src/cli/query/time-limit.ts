import { type Clock, sleep } from '../../kernel/clock.js';
import { TapekeepError } from '../../kernel/errors.js';

/** A statement may take this long where nothing else is asked for. */
export const DEFAULT_TIMEOUT_MS = 120_000;
/** What is asked to stop and does not, is left running for this long. */
const STUCK_MS = 5_000;

/** A statement took longer than it may. */
export class QueryTimeoutError extends TapekeepError {
  constructor(limitMs: number, cause?: unknown) {
    super(
      'query_timeout',
      `the statement took longer than ${limitMs / 1000} s: ask for less, or give it more time by --timeout`,
      { cause },
    );
  }
}

/** A statement was to end and cannot be stopped: only the end of the process ends it. */
export class StuckStatementError extends TapekeepError {
  constructor(cause: unknown) {
    const why = cause instanceof QueryTimeoutError ? `${cause.message}; ` : '';
    super('query_stuck', `${why}the statement cannot be stopped, so the process is killed`, {
      cause,
    });
  }
}

/** The time of a statement, without what the reader of its answer takes. */
export class TimeLimit implements Disposable {
  readonly #clock: Clock;
  readonly #limitMs: number;
  readonly #over = new AbortController();
  #leftMs: number;
  #sinceMs = 0;
  #cancel: () => void = () => undefined;

  constructor(clock: Clock, limitMs: number) {
    this.#clock = clock;
    this.#limitMs = limitMs;
    this.#leftMs = limitMs;
    this.#run();
  }

  /** Aborts with a {@link QueryTimeoutError} when the time is over. */
  get signal(): AbortSignal {
    return this.#over.signal;
  }

  /** Waits for a reader; that is not the statement's time. */
  async without<T>(work: Promise<T>): Promise<T> {
    this.#cancel();
    this.#leftMs -= this.#clock.monotonicMs() - this.#sinceMs;
    try {
      return await work;
    } finally {
      this.#run();
    }
  }

  [Symbol.dispose](): void {
    this.#cancel();
  }

  #run(): void {
    this.#sinceMs = this.#clock.monotonicMs();
    const end = () => this.#over.abort(new QueryTimeoutError(this.#limitMs));
    this.#cancel = this.#clock.after(Math.max(0, this.#leftMs), end);
  }
}

/**
 * Waits for work that should end soon after `signal` has aborted, and not for ever if it does not.
 *
 * @throws StuckStatementError
 */
export async function unlessStuck<T>(
  clock: Clock,
  signal: AbortSignal,
  work: Promise<T>,
): Promise<T> {
  const ended = new AbortController();
  const stuck = new Promise<never>((_, reject) => {
    const wait = () => {
      sleep(clock, STUCK_MS, ended.signal).then(
        () => reject(new StuckStatementError(signal.reason)),
        () => undefined,
      );
    };
    if (signal.aborted) wait();
    else signal.addEventListener('abort', wait, { once: true, signal: ended.signal });
  });
  try {
    return await Promise.race([work, stuck]);
  } finally {
    work.catch(() => undefined);
    ended.abort();
  }
}
