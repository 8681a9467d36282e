import type { Clock } from '../../kernel/clock.js';
import { EXIT_CODES } from '../exit-codes.js';

/** Why a run ends. */
export type StopReason = 'SIGINT' | 'SIGTERM' | 'SIGHUP' | 'time is up';

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/**
 * Waits for the wish to stop: a signal, or the end of `forMs`. After the first signal a second one
 * ends the process at once. The timer does not keep a process alive that ends for another reason.
 */
export function waitForStop(clock: Clock, forMs: number | undefined): Promise<StopReason> {
  return new Promise((resolve) => {
    let isStopping = false;
    const stop = (reason: StopReason) => {
      if (isStopping) {
        if (reason !== 'time is up') {
          process.stderr.write('tapekeep: ended at once; what was under way is collected again\n');
          process.exit(EXIT_CODES.forced);
        }
        return;
      }
      isStopping = true;
      resolve(reason);
    };
    for (const signal of SIGNALS) process.on(signal, () => stop(signal));
    if (forMs !== undefined) clock.after(forMs, () => stop('time is up'), { background: true });
  });
}
