import type { EndpointName } from '../contract/endpoints.js';
import { type Clock, sleep } from '../kernel/clock.js';
import { isAborted, TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import { Backoff, retry } from '../kernel/retry.js';
import type { ExchangePort } from './ports.js';
import { ARCHIVE_METHODS, type ArchivePort } from './ports.js';

const TRIES_MAX = 4;
const BACKOFF = { baseMs: 200, capMs: 2000 };
/** A call that failed so long after its beginning is left to its caller. */
const RETRY_WITHIN_MS = 15_000;
/** After so many failed calls of one endpoint in a row, each is tried once only. */
const AWAY_FAILURES = 10;
/** Failures that another try at once cannot mend: it would be as slow, or find no room either. */
const NOT_AT_ONCE: ReadonlySet<string> = new Set(['timeout', 'budget_overrun']);

/**
 * An exchange whose every call is made again at once when its answer is broken or refused, some times
 * and with a growing pause. One bad answer is no reason to leave a gap, and a call made again waits for
 * its turn in the request budget like any other. While an endpoint fails on and on it is asked once a
 * call, and its callers wait as they do for any failure.
 */
export function retryingExchange(
  exchange: ExchangePort,
  { clock, random }: { readonly clock: Clock; readonly random: Random },
): ExchangePort {
  const failuresInRow = new Map<EndpointName, number>();
  return {
    reserve: (priority, signal) => exchange.reserve(priority, signal),
    async call(name, params, options = {}) {
      const { signal, ...others } = options;
      const startMs = clock.monotonicMs();
      const backoff = new Backoff(BACKOFF, random);
      let how = options;
      for (;;) {
        try {
          const reply = await exchange.call(name, params, how);
          failuresInRow.delete(name);
          return reply;
        } catch (error) {
          if (signal?.aborted || isAborted(error)) throw error;
          const failures = failuresInRow.get(name) ?? 0;
          const isLast =
            backoff.attempts + 1 >= TRIES_MAX ||
            failures >= AWAY_FAILURES ||
            clock.monotonicMs() - startMs > RETRY_WITHIN_MS;
          const isPassing = error instanceof TapekeepError && error.action === 'retry';
          if (!isPassing || isLast || NOT_AT_ONCE.has(error.code)) {
            if (isPassing) failuresInRow.set(name, failures + 1);
            throw error;
          }
          await sleep(clock, backoff.nextMs(), signal);
          // The turn is used up: what follows waits in line.
          const { turn: _turn, ...again } = others;
          how = { ...again, ...(signal && { signal }) };
        }
      }
    },
  };
}

const BASE_MS = 200;
const CAP_MS = 2000;
/** With the cap above this is half a day without a database; then the caller sees the error. */
const ATTEMPTS_MAX = 40_000;

type Method = (...rest: unknown[]) => Promise<unknown>;

/**
 * An archive whose every method waits while the database is away, as `commit` does by itself. So a
 * collector that has data in hand keeps it until it can be stored.
 */
export function retryingArchive(
  archive: ArchivePort,
  options: { clock: Clock; random: Random; signal: AbortSignal },
): ArchivePort {
  const patiently = <T>(work: () => Promise<T>): Promise<T> =>
    retry(
      {
        ...options,
        baseMs: BASE_MS,
        capMs: CAP_MS,
        maxAttempts: ATTEMPTS_MAX,
        isRetryable: (error) => error instanceof TapekeepError && error.action === 'retry',
      },
      work,
    );
  const methods = archive as unknown as Record<keyof ArchivePort, Method>;
  const patient = ARCHIVE_METHODS.map((name): [string, Method] => {
    const call: Method = (...rest) => methods[name](...rest);
    return [name, name === 'commit' ? call : (...rest) => patiently(() => call(...rest))];
  });
  return Object.fromEntries(patient) as unknown as ArchivePort;
}
