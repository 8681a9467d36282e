import { type Command, InvalidArgumentError } from 'commander';
import { nearestName } from '../../kernel/nearest.js';
import type { PartitionsOptions } from '../commands/partitions.js';
import type { RestoreOptions } from '../commands/restore.js';
import type { SealOptions } from '../commands/seal.js';
import type { ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../opening/session.js';
import { momentArgument } from '../options/moments.js';
import { LIFE_KIND_NAMES, type LifeKind } from './life-rules.js';

const PARTITIONS_HELP = `
hot       being written
sealed    final: checked, counted, summed up; late rows open it again, and that is told
archived  its rows are in files below cold.dir; "tapekeep restore" brings them back
expired   older than its retention: gone for good

next and expires tell when a daemon with these settings seals a partition, moves it into files, and gives
it up for good. A partition that is due may still wait for gaps: "tapekeep seal --dry-run" says why.

  tapekeep partitions --kind trades
  tapekeep partitions --json | jq '.partitions[] | select(.state == "archived")'`;

const SEAL_HELP = `
A running daemon does this by itself (partitions, cold in the settings). A partition is sealed when its
time is over, nothing of it is missing that can still be had, and its candles are verified.

  tapekeep seal --dry-run
  tapekeep seal --kind trades --before 2026-02-01
  tapekeep seal --archive --before 2026-01-01

--dry-run lists what would be done, what keeps a partition that is due (a gap, a doubt, a candle that is
not verified yet), and from when on the others are due: their end and partitions.sealAfter after it.
Ctrl-C stops it at any point; the next run goes on from there.`;

const RESTORE_HELP = `
  tapekeep restore --kind trades --from 2026-01-01 --to 2026-02-01
  tapekeep restore --kind klines --from 2025-12-01 --to 2026-01-01 --remove-files

Whole partitions come back: all that hold a moment of the span. Their rows must add up to the checksum
that they were sealed with. A daemon leaves them in the database for the time of cold.after.

Their files stay: nobody reads them any more, and they serve again, unwritten, when the partition leaves
once more with the same rows; rows that come late make them void, and the next run deletes them. With
--remove-files they are deleted at once, when the rows in the database have been held against the
checksum; for partitions that are back already the same command does that too.`;

/** Adds `tapekeep partitions`, `tapekeep seal` and `tapekeep restore`. */
export function addLife(
  program: Command,
  common: () => CommonOptions,
  finish: (code: ExitCode) => void,
): void {
  program
    .command('partitions')
    .description('list the partitions: state, rows, size, and how far they are made ahead')
    .option('--kind <list>', `only these: ${LIFE_KIND_NAMES.join(', ')}`, kindsArgument)
    .option('--json', 'one JSON document')
    .addHelpText('after', PARTITIONS_HELP)
    .action(async (options: Omit<PartitionsOptions, keyof CommonOptions>) => {
      const { partitionsCommand } = await import('../commands/partitions.js');
      finish(await partitionsCommand({ ...common(), ...options }));
    });
  program
    .command('seal')
    .description('make partitions final whose time is over, and move them into files if asked')
    .option('--kind <list>', `only these: ${LIFE_KIND_NAMES.join(', ')}`, kindsArgument)
    .option(
      '--before <time>',
      'those that end by this time (default: as old as the settings say)',
      momentArgument,
    )
    .option('--archive', 'afterwards move what is sealed into files, out of the database')
    .option('--dry-run', 'only tell what would be sealed, why not, and when the rest is due')
    .option('--json', 'one JSON document')
    .addHelpText('after', SEAL_HELP)
    .action(async (options: Omit<SealOptions, keyof CommonOptions>) => {
      const { sealCommand } = await import('../commands/seal.js');
      finish(await sealCommand({ ...common(), ...options }));
    });
  program
    .command('restore')
    .description('bring archived partitions back into the database')
    .requiredOption('--kind <list>', LIFE_KIND_NAMES.join(', '), kindsArgument)
    .requiredOption('--from <time>', 'from this time on', momentArgument)
    .requiredOption('--to <time>', 'up to this time', momentArgument)
    .option('--remove-files', 'delete the files, once the rows in the database have been counted')
    .option('--json', 'one JSON document')
    .addHelpText('after', RESTORE_HELP)
    .action(async (options: Omit<RestoreOptions, keyof CommonOptions>) => {
      const { restoreCommand } = await import('../commands/restore.js');
      finish(await restoreCommand({ ...common(), ...options }));
    });
}

const SINGULAR: Readonly<Record<string, LifeKind>> = {
  ...{ trade: 'trades', kline: 'klines', candles: 'klines', ticker: 'tickers', state: 'states' },
  ...{ balances: 'account', orders: 'account' },
};

function kindsArgument(text: string, earlier: readonly LifeKind[] = []): LifeKind[] {
  const words = text.split(',').map((word) => word.trim().toLowerCase());
  const kinds = words.map((word) => {
    const kind = SINGULAR[word] ?? LIFE_KIND_NAMES.find((one) => one === word);
    if (kind !== undefined) return kind;
    const nearest = nearestName(word, LIFE_KIND_NAMES);
    const advice = nearest === undefined ? '' : ` Did you mean "${nearest}"?`;
    throw new InvalidArgumentError(
      `There is no kind "${word}".${advice} Allowed: ${LIFE_KIND_NAMES.join(', ')}.`,
    );
  });
  return [...new Set([...earlier, ...kinds])];
}
