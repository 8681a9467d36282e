import { restore } from '../../archive/sealing/life.js';
import type { ExitCode } from '../exit-codes.js';
import { isOfKind, workOnLives } from '../life/life-desk.js';
import { type LifeKind, lifeRulesOf } from '../life/life-rules.js';
import { coldDirOf } from '../opening/database.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import type { Moment } from '../options/moments.js';
import { selectSpan } from '../options/selection.js';

export interface RestoreOptions extends CommonOptions {
  readonly kind: readonly LifeKind[];
  readonly from: Moment;
  readonly to: Moment;
  readonly removeFiles?: boolean;
  readonly json?: boolean;
}

/**
 * Brings the archived partitions of a span back into the database, and deletes their files if asked:
 * also of those that came back earlier.
 *
 * @throws UsageError for a span that ends before it begins
 */
export async function restoreCommand(options: RestoreOptions): Promise<ExitCode> {
  const session = openSession({ logLevel: 'warn', ...options });
  return await workOnLives(session, {
    isJson: options.json === true,
    nothing:
      'Nothing to do: no partition of this span is archived ("tapekeep partitions" lists them).',
    inTheEnd: ({ outcomes }) =>
      options.removeFiles !== true && outcomes.some(({ became }) => became === 'restored')
        ? `Their files stay in ${coldDirOf(session.config)}: nobody reads them now, and they serve again when the partitions leave. The same command with --remove-files deletes them.`
        : null,
    rules: (nowMs) => {
      // A mistake in the span is told before anything is touched.
      selectSpan(options, nowMs);
      return lifeRulesOf(session.config);
    },
    isChosen: (partition, nowMs) => {
      const { fromMs = 0, toMs = nowMs } = selectSpan(options, nowMs);
      const { span } = partition;
      return isOfKind(partition, options.kind) && span.fromMs < toMs && fromMs < span.toMs;
    },
    run: (work) => restore(work, options.removeFiles === true),
  });
}
