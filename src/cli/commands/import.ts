import { extname } from 'node:path';
import { InvalidArgumentError } from 'commander';
import type { FilesOptions } from '../../archive/import/direct.js';
import { parseDuration } from '../../kernel/durations.js';
import { type Instant, resolveInstant } from '../../kernel/instants.js';
import type { Span } from '../../kernel/span.js';
import { formatInstant } from '../../kernel/timestamp.js';
import {
  argument,
  choice,
  command,
  flag,
  ofWords,
  option,
  required,
  type Values,
  VERSION,
} from '../command.js';
import { EXIT_CODES, type ExitCode, UsageError } from '../failure.js';
import { lifeRulesOf } from '../life.js';
import { coldOf, type Look, stoppable } from '../opening/database.js';
import { instantArgument, JSON_DOCUMENT, oneOf } from '../options.js';
import { countOf, jsonLine, printable, writeOut } from '../output.js';
import { Progress } from '../progress.js';

const KINDS = ['trades', 'candles'] as const;

function lengthArgument(text: string): number {
  const seconds = (parseDuration(text) ?? 0) / 1000;
  if (Number.isInteger(seconds) && seconds >= 1) return seconds;
  throw new InvalidArgumentError('Write a length such as 1m, 1h or 1d.');
}

/** Reads `time=ts,price=px`, or the names of all columns in their order. */
function columnsArgument(text: string): ReadonlyMap<string, string | null> {
  const parts = text.split(',').map((part) => part.trim());
  const columns = new Map<string, string | null>();
  for (const part of parts) {
    const at = part.indexOf('=');
    const name = at < 0 ? part : part.slice(0, at);
    // Columns that are not wanted.
    const key = name === '_' ? `_${columns.size}` : name;
    if (name === '' || columns.has(key)) {
      throw new InvalidArgumentError(
        'Write field=column pairs with commas between, each field once.',
      );
    }
    columns.set(key, at < 0 ? null : part.slice(at + 1));
  }
  return columns;
}

const OPTIONS = {
  kind: required(
    '--kind <kind>',
    'what the rows are',
    ofWords(KINDS, (word) => oneOf(word, 'kind', KINDS)),
  ),
  market: option('-m, --market <name>', 'market of all rows, where no column names it'),
  interval: option('--interval <length>', 'length of candles, such as 1m', lengthArgument),
  columns: option(
    '--columns <list>',
    'field=column pairs, or all fields in order',
    columnsArgument,
  ),
  format: choice('--format <format>', 'form of the file; default: as it ends', ['csv', 'parquet']),
  completeFrom: option(
    '--complete-from <time>',
    'the file has all rows from this time on',
    instantArgument,
  ),
  completeTo: option('--complete-to <time>', 'and before this time', instantArgument),
  isDryRun: flag('--dry-run', 'read and check the file; store nothing'),
  json: JSON_DOCUMENT,
};

/** Stores trades or candles of a file. */
export default command({
  args: { file: argument<string>('CSV (also .gz) or Parquet') },
  options: OPTIONS,
  help: `
  tapekeep import trades-2024-08.csv.gz --kind trades --market BTC_USDT --dry-run
  tapekeep import btc.parquet --kind trades --market BTC_USDT --complete-from 2024-08-01 --complete-to 2024-09-01
  tapekeep import old.csv --kind candles --interval 1m --columns time=opened,quote_volume=turnover
  tapekeep import plain.csv --kind trades --market BTC_USDT --columns tid,price,amount,total,time,side

Usual column names are recognised; --columns names others, or all columns of a CSV without a heading (_ skips one).
Times are ISO 8601 in UTC, or numbers since 1970 in s, ms, us or ns. An unreadable row refuses the whole file. Rows
stored before are passed over: the same command continues after an interruption.

Rows alone prove nothing: --complete-from and --complete-to state that the file has everything between them. The
archive must know the market, and no daemon may collect meanwhile.`,
  needs: stoppable('rows so far are stored; the same command continues'),
  async run(look, { file, ...options }) {
    const { ImportSource } = await import('../../archive/import/source.js');
    const { importRows } = await import('../../archive/import/import.js');
    const { session, store, nowMs, signal } = look;
    const { config } = session;
    const { kind } = options;
    const intervalS = intervalOf(options);
    const claim = claimOf(options, nowMs);
    using progress = new Progress();
    progress.say(`reading ${printable(file)} …`);
    const format = options.format ?? formatOf(file);
    const columns = options.columns ?? new Map<string, string | null>();
    const { market } = options;
    const source = await ImportSource.open({
      path: file,
      format,
      kind,
      intervalS,
      market,
      columns,
      signal,
    });
    try {
      progress.end();
      const { facts } = source;
      if (options.isDryRun) return await report(options.json, { ...about(facts), dryRun: true });
      await store.acquireWriterLock();
      using bar = new Progress('rows', facts.rows);
      const outcome = await importRows({
        ...{ store, source, path: file, kind, intervalS, claim, signal },
        nowMs: session.clock.wallMs(),
        ...(config.cold.enabled && { files: filesOf(look) }),
        onProgress: (rows, of) => bar.at(rows, printable(of)),
      });
      bar.end();
      return await report(options.json, { ...about(facts), ...outcome });
    } finally {
      await source.close();
    }
  },
});

/** Parts for rows that are so old that they are archived at once. */
function filesOf({ session, nowMs }: Look): FilesOptions {
  const { config, clock } = session;
  const nothing = () => undefined;
  return {
    ...{ cold: coldOf(config), rules: lifeRulesOf(config), version: VERSION, nowMs, clock },
    watcher: { onStep: nothing, onRows: nothing },
  };
}

type Facts = Awaited<
  ReturnType<typeof import('../../archive/import/source.js')['ImportSource']['open']>
>['facts'];

function about({ rows, markets, fromUs, toUs, sha256, recognised }: Facts) {
  const iso = (us: number | null) => (us === null ? null : new Date(us / 1000).toISOString());
  return {
    rows,
    markets,
    from: iso(fromUs),
    to: iso(toUs),
    sha256,
    columns: Object.fromEntries(recognised),
  };
}

interface Report extends ReturnType<typeof about> {
  readonly dryRun?: boolean;
  readonly stored?: number;
  readonly updated?: number;
  readonly duplicate?: number;
  readonly conflict?: number;
  readonly rejected?: number;
}

async function report(isJson: boolean, of: Report): Promise<ExitCode> {
  if (isJson) await writeOut(jsonLine(of));
  else {
    const span =
      of.from === null || of.to === null
        ? ''
        : ` from ${formatInstant(Date.parse(of.from))} to ${formatInstant(Date.parse(of.to))}`;
    const columns = Object.entries(of.columns)
      .map(([name, column]) => `${name}=${column}`)
      .join(', ');
    const lines = [
      `${countOf(of.rows, 'row')} of ${of.markets.map(printable).join(', ')}${span} (${printable(columns)})`,
      of.dryRun
        ? 'Nothing was stored: this was a dry run.'
        : `${countOf(of.stored ?? 0, 'row')} stored, ${of.updated} completed, ${of.duplicate} known already, ${of.conflict} contradict stored ones and ${of.rejected} cannot be stored (both: tapekeep quarantine)`,
    ];
    await writeOut(`${lines.join('\n')}\n`);
  }
  return (of.conflict ?? 0) + (of.rejected ?? 0) > 0 ? EXIT_CODES.incomplete : EXIT_CODES.ok;
}

/** @throws UsageError */
function formatOf(path: string): 'csv' | 'parquet' {
  const ending = extname(path.replace(/\.(gz|zst)$/i, '')).toLowerCase();
  if (ending === '.parquet') return 'parquet';
  if (['.csv', '.tsv', '.txt'].includes(ending)) return 'csv';
  throw new UsageError(
    '<file>',
    path,
    'its name ends with neither .csv nor .parquet: say by --format what it is',
  );
}

/** @throws UsageError */
function intervalOf({ kind, interval }: Values<typeof OPTIONS>): number {
  if (kind === 'trades') {
    if (interval === undefined) return 0;
    throw new UsageError('--interval', String(interval), 'trades have none: leave it out');
  }
  if (interval !== undefined) return interval;
  throw new UsageError('--interval', '', 'candles need their length, such as --interval 1m');
}

/** @throws UsageError */
function claimOf(
  { completeFrom, completeTo }: Values<typeof OPTIONS>,
  nowMs: number,
): Span | undefined {
  if (completeFrom === undefined && completeTo === undefined) return undefined;
  const [from, to] = [completeFrom, completeTo].map((one) =>
    one === undefined ? undefined : resolveInstant(one, nowMs),
  );
  const name = from === undefined ? '--complete-from' : '--complete-to';
  const text = (one: Instant | undefined) => one?.text ?? '';
  if (from === undefined || to === undefined)
    throw new UsageError(name, '', 'give both, or neither');
  if (from >= to)
    throw new UsageError('--complete-to', text(completeTo), 'it is not after --complete-from');
  if (to > nowMs)
    throw new UsageError('--complete-to', text(completeTo), "it lies after the exchange's present");
  return { fromMs: from, toMs: to };
}
