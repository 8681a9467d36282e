import type { Clock } from '../kernel/clock.js';
import { TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import { retry } from '../kernel/retry.js';
import { ARCHIVE_METHODS, type ArchivePort } from './ports.js';

const BASE_MS = 200;
const CAP_MS = 2000;
/** With the cap above this is half a day without a database; then the caller sees the error. */
const ATTEMPTS_MAX = 40_000;

type Method = (...rest: unknown[]) => Promise<unknown>;

/**
 * An archive whose every method waits while the database is away, as `commit` does by itself. So a
 * collector that has data in hand keeps it until it can be stored.
 */
export function patientArchive(
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
