import type { Clock } from '../../kernel/clock.js';
import { commandEnding, type EndCause, EndedError, type OutputLost } from '../ending.js';

/** Why a run ends. */
export type StopReason = EndCause | 'time is up';

/**
 * Waits for the wish to stop: a signal, output that nobody reads any more, or the end of `forMs`. A
 * second signal ends the process at once. The timer does not keep a process alive that ends for
 * another reason.
 *
 * @param goesOn called when an output is lost, which then ends nothing
 */
export function waitForStop(
  clock: Clock,
  forMs: number | undefined,
  goesOn?: OutputLost,
): Promise<StopReason> {
  return new Promise((resolve) => {
    // Held until the process ends: a stop is not to be cut short.
    const { signal } = commandEnding.hold(goesOn);
    const onEnd = () => {
      if (signal.reason instanceof EndedError) resolve(signal.reason.why);
    };
    if (signal.aborted) onEnd();
    else signal.addEventListener('abort', onEnd, { once: true });
    if (forMs !== undefined) clock.after(forMs, () => resolve('time is up'), { background: true });
  });
}
