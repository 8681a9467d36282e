import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Latency } from '../../archive/interchange/feed-file.js';
import { TOOLS, type Tool } from '../../archive/interchange/request.js';
import { parseDuration } from '../../config/durations.js';
import { nearestName } from '../../kernel/nearest.js';
import type { ExportOptions } from '../commands/export.js';
import type { ExportForOptions } from '../commands/export-for.js';
import type { ExitCode } from '../exit-codes.js';
import { UsageError } from '../failure.js';
import type { CommonOptions } from '../opening/session.js';
import { durationArgument, gather } from '../options/arguments.js';
import { momentArgument } from '../options/moments.js';

const HELP = `
  tapekeep export --kind trades --market BTC_USDT --from 2026-01-01 --to 2026-02-01 --out btc.parquet
  tapekeep export --kind klines --interval 1h --market BTC_USDT --from 30d --out hours.csv
  tapekeep export --kind depth --market BTC_USDT --from 2h --format ndjson | gzip > depth.ndjson.gz

Without --from and --to all that is covered is written. Rows are in the order of market, time and id.
Numbers keep every digit. Beside the file comes FILE.manifest.json: counts, checksum, coverage, columns.
Both take their place only when they are whole. A span with gaps is refused with exit code 8, unless
--allow-gaps is given; the manifest lists them.

csv      RFC 4180 with a heading; begins of formulas in texts are made harmless
ndjson   an object a line, decimals in quotes
parquet  zstd, exact decimals, moments in UTC; the total of a trade where it is not price × amount
arrow    IPC file (a stream on standard output), columns as in Parquet

With --for the files are those of another program, in its folder (--dir), one for each market, each
with its manifest. They take klines of the exchange, or candles computed from trades:

  tapekeep export --for freqtrade --market BTC_USDT --interval 1m --dir user_data/data/myexchange
  tapekeep export --for freqtrade --market BTC_USDT --kind trades --dir user_data/data/myexchange
  tapekeep export --for backtrader --market BTC_USDT --interval 1h --dir data
  tapekeep export --for vectorbt --market BTC_USDT --interval 15m --candles trades --dir data
  tapekeep export --for hftbacktest --market BTC_USDT --from 1d --latency 100ms --dir data

freqtrade    PAIR-1m.feather, PAIR-trades.feather; absent candles are its own to fill
backtrader   PAIR-1h.csv as GenericCSVData reads it; slots without trades have the close before
vectorbt     PAIR-1h.csv as pandas reads it; slots without trades have the close before
hftbacktest  PAIR.npz: trades and the book; --latency received takes the times of the collector

freqtrade and hftbacktest keep doubles: there, and nowhere before, decimals are rounded to the nearest.`;

const KINDS = ['trades', 'klines', 'tickers', 'depth', 'states'] as const;
const SINGULAR: Readonly<Record<string, (typeof KINDS)[number]>> = {
  trade: 'trades',
  kline: 'klines',
  candles: 'klines',
  ticker: 'tickers',
  depths: 'depth',
  state: 'states',
};
const FORMATS = ['csv', 'ndjson', 'parquet', 'arrow'] as const;

/** Options that only one of the two ways to export has. */
const FOR_OPTIONS = ['dir', 'candles', 'latency'] as const;
const FILE_OPTIONS = ['out', 'format', 'manifest', 'period'] as const;

type ProgramOptions = Partial<Pick<ExportForOptions, 'for'>> &
  Omit<ExportForOptions, keyof CommonOptions | 'for'> &
  Omit<ExportOptions, keyof CommonOptions | 'kind'>;

/** @throws UsageError naming the first option that would do nothing */
function refuseOthers(command: Command, names: readonly string[], tool: Tool | undefined): void {
  const given = names.find((name) => command.getOptionValueSource(name) === 'cli');
  if (given === undefined) return;
  const value = String(command.getOptionValue(given));
  const why = tool === undefined ? 'it belongs to --for' : `--for ${tool} has no use for it`;
  throw new UsageError(`--${given}`, value, why);
}

/** Adds `tapekeep export`. */
export function addExport(
  program: Command,
  common: () => CommonOptions,
  finish: (code: ExitCode) => void,
): void {
  program
    .command('export')
    .description('write what is archived into a file: csv, ndjson, parquet or arrow')
    .option('--kind <kind>', `${KINDS.join(', ')}; needed without --for`, kindArgument)
    .option('-m, --market <name>', 'only this market; may be repeated', gather)
    .option('--interval <length>', 'length of klines, such as 60 or 1h', lengthArgument)
    .option('--period <length>', 'length of what states sum up, such as 1d', lengthArgument)
    .option('--from <time>', 'from this time on, or this long back, such as 2h', momentArgument)
    .option('--to <time>', 'up to this time', momentArgument)
    .addOption(
      new Option(
        '--format <format>',
        `${FORMATS.join(', ')} (default: as the file is called, else csv)`,
      ).argParser(formatArgument),
    )
    .option('-o, --out <file>', 'where to; - is standard output', '-')
    .option('--manifest <file>', 'where the manifest goes (default: beside the file)')
    .option('--allow-gaps', 'write what there is of a span with gaps')
    .option('--force', 'replace files that are there')
    .option('--for <program>', `write files of ${TOOLS.join(', ')}`, toolArgument)
    .option('--dir <folder>', 'with --for: the folder of that program')
    .option('--candles <source>', 'with --for: exchange (default), or trades', candlesArgument)
    .option(
      '--latency <length>',
      'with --for hftbacktest: how long after it happened an event is seen, or received',
      latencyArgument,
    )
    .addHelpText('after', HELP)
    .action(async (options: ProgramOptions, command: Command) => {
      const { for: tool, kind } = options;
      refuseOthers(command, tool === undefined ? FOR_OPTIONS : FILE_OPTIONS, tool);
      if (tool !== undefined) {
        const { exportForCommand } = await import('../commands/export-for.js');
        finish(await exportForCommand({ ...common(), ...options, for: tool }));
        return;
      }
      if (kind === undefined) command.error("error: required option '--kind <kind>' not specified");
      const { exportCommand } = await import('../commands/export.js');
      finish(await exportCommand({ ...common(), ...options, kind }));
    });
}

function oneOf<T extends string>(word: string, what: string, allowed: readonly T[]): T {
  const found = allowed.find((one) => one === word.trim().toLowerCase());
  if (found !== undefined) return found;
  const nearest = nearestName(word, allowed);
  const advice = nearest === undefined ? '' : ` Did you mean "${nearest}"?`;
  throw new InvalidArgumentError(
    `There is no ${what} "${word}".${advice} Allowed: ${allowed.join(', ')}.`,
  );
}

function kindArgument(word: string) {
  return SINGULAR[word.trim().toLowerCase()] ?? oneOf(word, 'kind', KINDS);
}

function formatArgument(word: string) {
  return oneOf(word, 'format', FORMATS);
}

function toolArgument(word: string) {
  return oneOf(word, 'program', TOOLS);
}

function candlesArgument(word: string) {
  return oneOf(word, 'source of candles', ['exchange', 'trades']);
}

/** @throws InvalidArgumentError */
function latencyArgument(text: string): Latency {
  if (text.trim().toLowerCase() === 'received') return { kind: 'received' };
  return { kind: 'fixed', latencyUs: durationArgument(text) * 1000 };
}

/** A length as whole seconds: plain seconds, or a duration. */
function lengthArgument(text: string): number {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (parseDuration(text) ?? 0) / 1000;
  if (Number.isInteger(seconds) && seconds >= 1) return seconds;
  throw new InvalidArgumentError('Write seconds such as 60, or a length such as 1m, 1h or 1d.');
}
