import { type Clock, sleep, unlessAborted } from '../../kernel/clock.js';
import { formatDuration } from '../../kernel/durations.js';
import { messageOf, TapekeepError } from '../../kernel/errors.js';
import { systemRandom } from '../../kernel/random.js';
import { Backoff } from '../../kernel/retry.js';
import type { StoreEvents } from '../../observe/events.js';
import { pingPostgres, StoreError } from '../../store/index.js';

const RETRY = { baseMs: 250, capMs: 2000 };
/** Interval of the log lines about the wait, and of the looks at work that takes long. */
const LOOK_EVERY_MS = 10_000;

export interface DatabaseWaitOptions {
  /** Asked beside the work; null: nothing to ask, and work that ends by itself when the signal comes. */
  readonly databaseUrl: string | null;
  readonly clock: Clock;
  /** Hears that it waits: at once, and again while that lasts. */
  readonly telemetry: Pick<StoreEvents, 'databaseAwaited'>;
  /** Time that the database may be away in one piece of work; 0: the first failure is the last. */
  readonly waitMs: number;
  readonly signal: AbortSignal;
}

/**
 * Does what a start needs of the database, again and again while the database is away: down, starting,
 * or frozen. Refusals such as a wrong password are no reason to wait. While the work takes long, and the
 * database answers others, it may take as long as it likes.
 *
 * @param work safe to repeat, also when only its answer was lost
 * @param discard lets go of what comes after the wait was given up
 * @throws the last failure, with the time that was waited; the signal's reason
 */
export async function whenDatabaseAnswers<T>(
  options: DatabaseWaitOptions,
  work: () => Promise<T>,
  discard?: (late: T) => Promise<void>,
): Promise<T> {
  const { clock, signal } = options;
  using wait = new Wait(options);
  const backoff = new Backoff(RETRY, systemRandom);
  for (;;) {
    try {
      const working = work();
      if (options.databaseUrl === null) return await working;
      return await unlessAborted(wait.signal, working, discard);
    } catch (error) {
      if (wait.signal.aborted || !isPassing(error)) throw error;
      wait.workFailed(error);
      await sleep(clock, backoff.nextMs(), wait.signal);
    }
    signal.throwIfAborted();
  }
}

/** What may change under a daemon that runs; at a start a person is there to read the message. */
const FOR_A_PERSON: ReadonlySet<string> = new Set([
  ...['database_tls_refused', 'database_login_refused', 'database_pooled'],
]);

function isPassing(error: unknown): boolean {
  if (!(error instanceof TapekeepError) || error.action !== 'retry') return false;
  return !FOR_A_PERSON.has(error.code);
}

/** Whether the server answered the work and refused it, as with a full disk, or was too slow at it: neither down, nor on its way. */
function isRefusal(error: unknown): boolean {
  const sqlstate = error instanceof StoreError ? error.sqlstate : undefined;
  return sqlstate !== undefined && !/^(08|57P)/.test(sqlstate);
}

/** One wait: what for, since when, and its end. */
class Wait {
  readonly #options: DatabaseWaitOptions;
  readonly #ending = new AbortController();
  readonly signal: AbortSignal;
  #awaySinceMs: number | undefined;
  #hasWorkFailed = false;
  /** A server may answer and yet store nothing, however long each try takes: no look takes that time back. */
  #refusedSinceMs: number | undefined;
  #loggedAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: DatabaseWaitOptions) {
    this.#options = options;
    this.signal = AbortSignal.any([options.signal, this.#ending.signal]);
    const { databaseUrl } = options;
    if (databaseUrl !== null) this.#look(databaseUrl).catch(() => undefined);
  }

  /** @throws when the time to wait is over */
  workFailed(error: unknown): void {
    this.#hasWorkFailed = true;
    this.#failed(error, isRefusal(error));
  }

  #failed(error: unknown, isRefused: boolean): void {
    const { clock, telemetry, waitMs } = this.#options;
    const nowMs = clock.monotonicMs();
    this.#awaySinceMs ??= nowMs;
    if (isRefused) this.#refusedSinceMs ??= this.#awaySinceMs;
    const sinceMs = isRefused ? this.#refusedSinceMs : undefined;
    const waitedMs = nowMs - (sinceMs ?? this.#awaySinceMs);
    if (waitedMs >= waitMs) {
      if (waitMs === 0) throw error;
      throw new TapekeepError(
        error instanceof TapekeepError ? error.code : 'database_unreachable',
        `${messageOf(error)}; waited ${formatDuration(waitMs)} for it (--wait-for-database)`,
        { action: 'retry', cause: error },
      );
    }
    if (nowMs - this.#loggedAtMs < LOOK_EVERY_MS) return;
    this.#loggedAtMs = nowMs;
    telemetry.databaseAwaited({ detail: messageOf(error), waitedMs, limitMs: waitMs });
  }

  [Symbol.dispose](): void {
    this.#ending.abort();
  }

  /** A server that is frozen fails nothing: it is asked beside the work. */
  async #look(databaseUrl: string): Promise<void> {
    const { clock } = this.#options;
    for (;;) {
      await sleep(clock, LOOK_EVERY_MS, this.signal);
      try {
        await pingPostgres({ databaseUrl, clock, timeoutMs: LOOK_EVERY_MS });
        if (!this.#hasWorkFailed) this.#awaySinceMs = undefined;
        this.#hasWorkFailed = false;
      } catch (error) {
        if (!isPassing(error) || this.signal.aborted) continue;
        try {
          this.#failed(error, false);
        } catch (last) {
          this.#ending.abort(last);
        }
      }
    }
  }
}
