import { liveOn } from '../../archive/sealing/life.js';
import { previewSealing } from '../../archive/sealing/preview.js';
import type { ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import { isOfKind, workOnLives } from '../life/life-desk.js';
import { type LifeKind, lifeRulesOf } from '../life/life-rules.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import { type Moment, resolveMoment } from '../options/moments.js';

export interface SealOptions extends CommonOptions {
  readonly kind?: readonly LifeKind[];
  readonly before?: Moment;
  readonly archive?: boolean;
  readonly dryRun?: boolean;
  readonly json?: boolean;
}

/**
 * Seals partitions whose time is over, and moves sealed ones into files if asked. Gives nothing up: that
 * is for the daemon, by its settings.
 *
 * @throws UsageError for a time in the future
 */
export async function sealCommand(options: SealOptions): Promise<ExitCode> {
  const session = openSession({ logLevel: 'warn', ...options });
  const { partitions, cold, verification } = session.config;
  const { before } = options;
  const rules = lifeRulesOf(session.config);
  const isGiven = before !== undefined;
  return await workOnLives(session, {
    isJson: options.json === true,
    nothing: 'Nothing to do: no partition is old enough ("tapekeep partitions" lists them).',
    rules: () => ({
      sealAfterMs: isGiven ? 0 : partitions.sealAfter,
      coldAfterMs: options.archive === true ? (isGiven ? 0 : cold.after) : null,
      restMs: isGiven ? 0 : rules.restMs,
      retentionMs: {},
      needsVerdicts: verification.enabled,
    }),
    isChosen: (partition, nowMs) => {
      const beforeMs = isGiven ? beforeOf(before, nowMs) : Number.POSITIVE_INFINITY;
      return isOfKind(partition, options.kind) && partition.span.toMs <= beforeMs;
    },
    run: options.dryRun === true ? previewSealing : liveOn,
  });
}

function beforeOf(before: Moment, nowMs: number): number {
  const ms = resolveMoment(before, nowMs);
  if (ms <= nowMs) return ms;
  const now = new Date(nowMs).toISOString();
  const text = `it lies in the future: the exchange's time is ${now}`;
  throw new UsageError('--before', new Date(ms).toISOString(), text);
}
