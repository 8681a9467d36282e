import { type Command, InvalidArgumentError, Option } from 'commander';
import { parseDuration } from '../config/durations.js';
import { nearestName } from '../config/nearest.js';
import { gather } from './arguments.js';
import type { ExportOptions } from './commands/export.js';
import type { ExitCode } from './exit-codes.js';
import { momentArgument } from './moments.js';
import type { CommonOptions } from './session.js';

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
arrow    IPC file (a stream on standard output), columns as in Parquet`;

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

/** Adds `tapekeep export`. */
export function addExport(
  program: Command,
  common: () => CommonOptions,
  finish: (code: ExitCode) => void,
): void {
  program
    .command('export')
    .description('write what is archived into a file: csv, ndjson, parquet or arrow')
    .requiredOption('--kind <kind>', KINDS.join(', '), kindArgument)
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
    .addHelpText('after', HELP)
    .action(async (options: Omit<ExportOptions, keyof CommonOptions>) => {
      const { exportCommand } = await import('./commands/export.js');
      finish(await exportCommand({ ...common(), ...options }));
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

/** A length as whole seconds: plain seconds, or a duration. */
function lengthArgument(text: string): number {
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : (parseDuration(text) ?? 0) / 1000;
  if (Number.isInteger(seconds) && seconds >= 1) return seconds;
  throw new InvalidArgumentError('Write seconds such as 60, or a length such as 1m, 1h or 1d.');
}
