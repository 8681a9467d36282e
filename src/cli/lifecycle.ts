import { type Clock, sleep } from '../kernel/clock.js';
import { codeOf, messageOf } from '../kernel/errors.js';
import type { Telemetry } from '../observe/events.js';

/** One step of a stop: it may fail or be late, the next one comes all the same. */
export async function boundedStep(
  { clock, telemetry }: { readonly clock: Clock; readonly telemetry: Telemetry },
  name: string,
  ms: number,
  step: () => Promise<unknown> | undefined,
): Promise<void> {
  const patience = new AbortController();
  const late = sleep(clock, ms, patience.signal).then(() => {
    telemetry.daemon.warned({ code: 'stop_late', message: `${name}: not ended in time` });
  });
  try {
    await Promise.race([step(), late]);
  } catch (error) {
    telemetry.daemon.warned({ code: codeOf(error), message: `${name}: ${messageOf(error)}` });
  } finally {
    late.catch(() => undefined);
    patience.abort();
  }
}

/**
 * Waits for `work`, but no longer than until `signal` aborts. What is left of it is ended by closing
 * what it works on; `discard` lets go of what it brings too late.
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
    else signal.addEventListener('abort', give, { once: true, signal: waiting.signal });
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
