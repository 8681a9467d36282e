import { type Clock, sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { Telemetry } from '../../observe/events.js';

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
