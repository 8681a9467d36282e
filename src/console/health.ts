import { z } from 'zod';
import { type Clock, startDeadline, unlessAborted } from '../kernel/clock.js';
import { messageOf, TapekeepError } from '../kernel/errors.js';

/** One thing that was looked at. `detail` says in words what was seen, above all when not ok. */
const CHECK = z.object({ name: z.string(), ok: z.boolean(), detail: z.string().exactOptional() });

/** The sum of some checks: ok when all are. */
export const REPORT = z.object({
  ok: z.boolean(),
  state: z
    .literal('standby')
    .exactOptional()
    .describe('of readiness: another daemon holds the archive, and this one is ready to take it'),
  checks: z.array(CHECK).readonly(),
});
export type HealthReport = z.infer<typeof REPORT>;

/** Adds checks up. */
export function healthReport(checks: HealthReport['checks']): HealthReport {
  return { ok: checks.every((check) => check.ok), checks };
}

/**
 * Guards a question that many may ask at once: one asking is under way at a time and shared by all
 * who wait, and no caller waits longer than `limitMs`. A question that hangs is not asked again until
 * it ends, so slow checks do not pile up.
 */
export function shared<T>(clock: Clock, limitMs: number, ask: () => Promise<T>): () => Promise<T> {
  let underWay: Promise<T> | undefined;
  return async () => {
    underWay ??= Promise.resolve()
      .then(ask)
      .finally(() => {
        underWay = undefined;
      });
    const late = () => new TapekeepError('status_timeout', `no answer within ${limitMs / 1000} s`);
    using deadline = startDeadline(clock, limitMs, late);
    return await unlessAborted(deadline.signal, underWay);
  };
}

/** Turns a check that failed to answer into a report that says so. */
export async function reportOf(ask: () => Promise<HealthReport>): Promise<HealthReport> {
  try {
    return await ask();
  } catch (error) {
    return healthReport([{ name: 'check', ok: false, detail: messageOf(error) }]);
  }
}
