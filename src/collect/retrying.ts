import type { EndpointName } from '../contract/endpoints.js';
import type { Clock } from '../kernel/clock.js';
import { isAborted, TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import { retry } from '../kernel/retry.js';
import type { CollectEvents } from '../observe/events.js';
import { ARCHIVE_METHODS, type ArchivePort, calledBy, type ExchangePort } from './ports.js';
import { streamReport } from './reports.js';

const TRIES_MAX = 4;
const BACKOFF = { baseMs: 200, capMs: 2000 };
/** A call that failed so long after its beginning is left to its caller. */
const RETRY_WITHIN_MS = 15_000;
/** After so many failed calls of one endpoint in a row, each is tried once only. */
const AWAY_FAILURES = 10;
/** Failures that another try at once cannot mend: it would be as slow, or find no room either. */
const NOT_AT_ONCE: ReadonlySet<string> = new Set(['timeout', 'budget_overrun']);

function isPassing(error: unknown): error is TapekeepError {
  return error instanceof TapekeepError && error.action === 'retry';
}

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
  return calledBy(exchange, async (name, params, options = {}) => {
    const { turn: _turn, ...again } = options;
    const { signal } = options;
    const startMs = clock.monotonicMs();
    const failures = () => failuresInRow.get(name) ?? 0;
    let how = options;
    const ask = () => {
      const asked = exchange.call(name, params, how);
      // The turn is used up: what follows waits in line.
      how = again;
      return asked;
    };
    const isWorthIt = (error: unknown) =>
      isPassing(error) &&
      !NOT_AT_ONCE.has(error.code) &&
      failures() < AWAY_FAILURES &&
      clock.monotonicMs() - startMs <= RETRY_WITHIN_MS;
    const limits = {
      clock,
      random,
      ...BACKOFF,
      maxAttempts: TRIES_MAX,
      ...(signal && { signal }),
    };
    try {
      const reply = await retry({ ...limits, isRetryable: isWorthIt }, ask);
      failuresInRow.delete(name);
      return reply;
    } catch (error) {
      if (isPassing(error) && !signal?.aborted) failuresInRow.set(name, failures() + 1);
      throw error;
    }
  });
}

/** With the longest pause this is half a day without a database; then the caller sees the error. */
const ATTEMPTS_MAX = 40_000;

/** About twice a minute. */
const REPORT_EVERY = 30;

type Method = (...rest: unknown[]) => Promise<unknown>;

/**
 * An archive whose every method waits while the database is away, as `commit` does by itself. So a
 * collector that has data in hand keeps it until it can be stored.
 */
export function retryingArchive(
  archive: ArchivePort,
  options: { clock: Clock; random: Random; signal: AbortSignal; telemetry: CollectEvents },
): ArchivePort {
  const { telemetry, ...of } = options;
  const limits = { ...of, ...BACKOFF, maxAttempts: ATTEMPTS_MAX, isRetryable: isPassing };
  // A database that is away is reported by the writer; one that refuses this alone is reported here.
  const onRetry = (error: unknown, attempt: number) => {
    if (attempt % REPORT_EVERY === 0) streamReport(telemetry, 'archive', '*').failed(error);
  };
  const methods = archive as unknown as Record<keyof ArchivePort, Method>;
  const patient = ARCHIVE_METHODS.filter((name) => name !== 'commit').map(
    (name): [string, Method] => [
      name,
      async (...rest) => {
        const call = () => methods[name](...rest);
        try {
          return await retry({ ...limits, onRetry }, call);
        } catch (error) {
          // A stop ends a pause: the database may be back, and data in hand wait for this.
          if (options.signal.aborted && isAborted(error)) return await call();
          throw error;
        }
      },
    ],
  );
  const commit: ArchivePort['commit'] = (...batch) => archive.commit(...batch);
  return { ...(Object.fromEntries(patient) as unknown as ArchivePort), commit };
}
