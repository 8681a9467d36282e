import { liveOn, previewSealing } from '../../archive/sealing/life.js';
import { isOfKind } from '../../archive/sealing/plan.js';
import { shownDuration } from '../../kernel/durations.js';
import { type Instant, resolveInstant } from '../../kernel/instants.js';
import { command, flag, option } from '../command.js';
import { EXIT_CODES, UsageError } from '../failure.js';
import { lifeKindsArgument, lifeRulesOf, partitions, workOnLives } from '../life.js';
import { instantArgument, JSON_DOCUMENT } from '../options.js';

/**
 * Seals partitions whose time is over, and moves sealed ones into files if asked. Gives nothing up: that
 * is for the daemon, by its settings.
 */
export default command({
  options: {
    kinds: option('--kind <list>', 'only these; separate several by commas', lifeKindsArgument),
    before: option(
      '--before <time>',
      'partitions that end by this time (default: by the settings)',
      instantArgument,
    ),
    isArchiving: flag('--archive', 'then move sealed partitions into files'),
    isDryRun: flag('--dry-run', 'show what would be sealed and what the rest waits for'),
    json: JSON_DOCUMENT,
  },
  help: `
A running daemon does this by itself. A partition is sealed when its time is over, only unfillable gaps are
left in it, and its candles are verified. --dry-run says what the others wait for.

  tapekeep seal --dry-run
  tapekeep seal --kind trades --before 2026-02-01
  tapekeep seal --archive --before 2026-01-01

Exit code 7: some partitions were not sealed, with the reason. Ctrl-C stops it; the next run continues.`,
  needs: partitions,
  async run(look, { kinds, before, isArchiving, isDryRun, json }) {
    const { config } = look.session;
    const rules = lifeRulesOf(config);
    const isGiven = before !== undefined;
    const beforeMs = isGiven ? beforeOf(before, look.nowMs) : Number.POSITIVE_INFINITY;
    return await workOnLives(look, {
      isJson: json,
      nothing: `Nothing to do: no partition that ended ${
        isGiven
          ? 'before that time'
          : `${shownDuration(config.partitions.sealAfter)} ago, as partitions.sealAfter asks,`
      } is left to be sealed${isArchiving ? ' or moved' : ''} ("tapekeep partitions" lists them, and when each is due).`,
      isPreview: isDryRun,
      rules: {
        ...rules,
        sealAfterMs: isGiven ? 0 : config.partitions.sealAfter,
        coldAfterMs: isArchiving ? (isGiven ? 0 : config.cold.after) : null,
        restMs: isGiven ? 0 : rules.restMs,
        retentionMs: {},
      },
      isChosen: (partition) => isOfKind(partition, kinds) && partition.span.toMs <= beforeMs,
      ...(isDryRun ? { run: previewSealing } : { run: liveOn, keptExit: EXIT_CODES.incomplete }),
    });
  },
});

/** @throws UsageError for a time in the future */
function beforeOf(before: Instant, nowMs: number): number {
  const ms = resolveInstant(before, nowMs);
  if (ms <= nowMs) return ms;
  const now = new Date(nowMs).toISOString();
  const text = `it lies in the future: the exchange's time is ${now}`;
  throw new UsageError('--before', before.text, text);
}
