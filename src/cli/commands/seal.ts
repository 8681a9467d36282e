import { liveOn, previewSealing } from '../../archive/sealing/life.js';
import { shownDuration } from '../../kernel/durations.js';
import { command, flag, option } from '../command.js';
import { EXIT_CODES, UsageError } from '../failure.js';
import { isOfKind, lifeKindsArgument, lifeRulesOf, partitions, workOnLives } from '../life.js';
import { type Instant, instantArgument, JSON_DOCUMENT, resolveInstant } from '../options.js';

/**
 * Seals partitions whose time is over, and moves sealed ones into files if asked. Gives nothing up: that
 * is for the daemon, by its settings.
 */
export default command({
  options: {
    kinds: option('--kind <list>', 'only these; separate several by commas', lifeKindsArgument),
    before: option(
      '--before <time>',
      'those that end by this time (default: as old as the settings say)',
      instantArgument,
    ),
    isArchiving: flag(
      '--archive',
      'afterwards move what is sealed into files, out of the database',
    ),
    isDryRun: flag(
      '--dry-run',
      'only tell what would be sealed, why not, and when the rest is due',
    ),
    json: JSON_DOCUMENT,
  },
  help: `
A running daemon does this by itself (partitions, cold in the settings). A partition is sealed when its
time is over, nothing of it is missing that can still be had, and its candles are verified.

  tapekeep seal --dry-run
  tapekeep seal --kind trades --before 2026-02-01
  tapekeep seal --archive --before 2026-01-01

--dry-run lists what would be done, what keeps a partition that is due (a gap, a suspect span, a candle that is
not verified yet), and from when on the others are due: their end and partitions.sealAfter after it.
A run that had to leave a partition as it was says why and ends with exit code 7. Ctrl-C stops it at any
point; the next run goes on from there.`,
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
        sealAfterMs: isGiven ? 0 : config.partitions.sealAfter,
        coldAfterMs: isArchiving ? (isGiven ? 0 : config.cold.after) : null,
        restMs: isGiven ? 0 : rules.restMs,
        retentionMs: {},
        needsChecks: config.verification.enabled,
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
