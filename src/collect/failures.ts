import { codeOf, type ErrorAction, messageOf, TapekeepError } from '../kernel/errors.js';
import type { CollectEvents } from '../observe/events.js';

/**
 * Reports a failed piece of collecting.
 *
 * @param stream what was asked for: the name of a stream, or of the work
 * @param market `*` when it was none in particular
 * @param action what follows, where the error itself does not say; by default it is tried again
 */
export function reportFailure(
  telemetry: Pick<CollectEvents, 'pollFailed'>,
  stream: string,
  market: string,
  error: unknown,
  action: ErrorAction = error instanceof TapekeepError ? error.action : 'retry',
): void {
  const [code, message] = [codeOf(error), messageOf(error)];
  telemetry.pollFailed({ stream, market, code, message, action });
}
