import { type Command, InvalidArgumentError } from 'commander';
import type { BackfillOptions } from '../commands/backfill.js';
import type { GapsFillOptions } from '../commands/gaps-fill.js';
import type { GapsListOptions } from '../commands/gaps-list.js';
import type { QuarantineOptions } from '../commands/quarantine.js';
import type { ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../opening/session.js';
import { countArgument, gather } from '../options/arguments.js';
import {
  fetchedKindsArgument,
  kindsArgument,
  reasonsArgument,
  statesArgument,
} from '../options/kinds.js';
import { momentArgument } from '../options/moments.js';

type Finish = (code: ExitCode) => void;

const LIST_LIMIT = 50;

const GAPS_HELP = `
A gap is a span that is expected and not covered. Its id is a number, or stream and begin.

  tapekeep gaps --market BTC_USDT --kind trades,klines --from 2d
  tapekeep gaps explain 17
  tapekeep gaps explain BTC_USDT trades 2026-01-31T12:00:00Z
  tapekeep gaps note 17 "maintenance of the exchange, announced on its status page"
  tapekeep gaps fill 17 --again
  tapekeep gaps fill --market BTC_USDT

A running daemon fills gaps by itself. "fill" ends their pauses, shows how it goes, and exits with 0
when all of them are filled, with 7 when some could not be.`;

const BACKFILL_HELP = `
  tapekeep backfill --market BTC_USDT --from 2026-01-01 --to 2026-02-01
  tapekeep backfill --market BTC_USDT --market ETH_USDT --from 30d --kinds klines

Trades come with their exact times where these are collected, candles in all configured intervals.
Beside a running daemon, the daemon does the work; without one, this command does it itself. Ctrl-C
stops it; what is stored stays, and the same command goes on from there. It exits with 0 only when
all of the span is covered, with 7 when some of it can not be had, and says why.`;

const QUARANTINE_HELP = `
  tapekeep quarantine --endpoint kline --reason "not a number"
  tapekeep quarantine show 4711`;

/** Adds `tapekeep gaps`, `tapekeep backfill` and `tapekeep quarantine`. */
export function addCompleteness(
  program: Command,
  common: () => CommonOptions,
  finish: Finish,
): void {
  addGaps(program, common, finish);
  addBackfill(program, common, finish);
  addQuarantine(program, common, finish);
}

/** The options by which gaps are selected. */
function withSelection(command: Command): Command {
  return command
    .option('-m, --market <name>', 'only this market; may be repeated', gather)
    .option('--kind, --kinds <list>', 'only these: trades,times,klines,…', kindsArgument)
    .option('--from <time>', 'from this time on, or this long back, such as 2h', momentArgument)
    .option('--to <time>', 'up to this time', momentArgument)
    .option('--state <list>', 'only these: open,filling,unfillable', statesArgument)
    .option('--reason <list>', 'only these, such as "head moved"', reasonsArgument);
}

function addGaps(program: Command, common: () => CommonOptions, finish: Finish): void {
  const gaps = program
    .command('gaps')
    .description('list, explain, note and fill what is missing')
    // Its commands take this over; those of the program itself are told later.
    .exitOverride()
    .addHelpText('after', GAPS_HELP);
  withSelection(gaps.command('list', { isDefault: true }))
    .description('show what is missing, the newest first')
    .option('--limit <count>', 'show at most this many', countArgument, LIST_LIMIT)
    .option('--json', 'one JSON document')
    .action(async (options: Omit<GapsListOptions, keyof CommonOptions>) => {
      const { gapsListCommand } = await import('../commands/gaps-list.js');
      finish(await gapsListCommand({ ...common(), ...options }));
    });
  gaps
    .command('explain')
    .description('tell why something is missing, and what can be done')
    .argument('<gap...>', 'an id, or a market, a kind and a time')
    .action(async (words: string[]) => {
      const { gapsExplainCommand } = await import('../commands/gaps-explain.js');
      finish(await gapsExplainCommand(words, common()));
    });
  gaps
    .command('note')
    .description('keep what you know about a gap')
    .argument('<words...>', 'ids, and the text last, in quotes')
    .action(async (words: string[]) => {
      const { gapsNoteCommand } = await import('../commands/gaps-note.js');
      finish(await gapsNoteCommand(words, common()));
    });
  withSelection(gaps.command('fill'))
    .description('fill gaps now, and see how it goes')
    .argument('[ids...]', 'gaps; without any, all that the options select')
    .option('--again', 'also those that were given up')
    .option('--json', 'one JSON document')
    .action(async (ids: string[], options: Omit<GapsFillOptions, keyof CommonOptions>) => {
      const { gapsFillCommand } = await import('../commands/gaps-fill.js');
      finish(await gapsFillCommand(ids, { ...common(), ...options }));
    });
}

function addBackfill(program: Command, common: () => CommonOptions, finish: Finish): void {
  program
    .command('backfill')
    .description('fetch a span of the past, whatever is collected anyway')
    .requiredOption('-m, --market <name>', 'the market; may be repeated', gather)
    .requiredOption('--from <time>', 'begin, or this long back, such as 7d', momentArgument)
    .option('--to <time>', 'end (default: now)', momentArgument)
    .option('--kind, --kinds <list>', 'trades, klines or both (the default)', fetchedKindsArgument)
    .option('--again', 'also try again what was given up')
    .option('--json', 'one JSON document')
    .addHelpText('after', BACKFILL_HELP)
    .action(async (options: Omit<BackfillOptions, keyof CommonOptions>) => {
      const { backfillCommand } = await import('../commands/backfill.js');
      finish(await backfillCommand({ ...common(), ...options }));
    });
}

function addQuarantine(program: Command, common: () => CommonOptions, finish: Finish): void {
  const quarantine = program
    .command('quarantine')
    .description('show what the exchange sent and was refused')
    .exitOverride()
    .addHelpText('after', QUARANTINE_HELP);
  quarantine
    .command('list', { isDefault: true })
    .description('counts by endpoint and reason, and the newest samples')
    .option('--endpoint <name>', 'only of this endpoint', onlyText)
    .option('-m, --market <name>', 'only of this market', onlyText)
    .option('--reason <text>', 'only with this in the reason', onlyText)
    .option('--limit <count>', 'show at most this many samples', countArgument, 20)
    .option('--json', 'one JSON document')
    .action(async (options: Omit<QuarantineOptions, keyof CommonOptions>) => {
      const { quarantineListCommand } = await import('../commands/quarantine.js');
      finish(await quarantineListCommand({ ...common(), ...options }));
    });
  quarantine
    .command('show')
    .description('show one refused piece of data as it came')
    .argument('<id>', 'as the list shows it')
    .option('--json', 'one JSON document')
    .action(async (id: string, options: { readonly json?: boolean }) => {
      const { quarantineShowCommand } = await import('../commands/quarantine.js');
      finish(await quarantineShowCommand(id, { ...common(), ...options }));
    });
}

function onlyText(text: string): string {
  if (text === '') throw new InvalidArgumentError('Write a text.');
  return text;
}
