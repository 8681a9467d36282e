import { type Command, Option } from 'commander';
import type { QueryOptions } from '../commands/query.js';
import type { ExitCode } from '../exit-codes.js';
import type { CommonOptions } from '../opening/session.js';
import { gather, timeoutArgument } from '../options/arguments.js';
import { momentArgument } from '../options/moments.js';
import { DEFAULT_TIMEOUT_MS } from './time-limit.js';

const HELP = `
  tapekeep query "select market, count(*), sum(total) from trades where traded_at >= '2026-01-01' group by 1"
  tapekeep query "select * from vwap('BTC_USDT', '1 hour', '2026-01-15', '2026-01-16')"
  tapekeep query --file spread.sql --format csv > spread.csv
  tapekeep query --cold /backup/cold "select market, min(traded_at) from trades group by 1"

One statement that reads. The names of its tables decide what runs it (or --engine does):

duckdb    trades, klines, tickers, depth, depth_levels, states, markets, coverage, gaps, and the functions
          candles, vwap and returns (market, step, from, to): rows in the database and rows in cold
          files as one. Rows of the database are brought to it first; those
          that a WHERE leaves out (market = or IN, and the time column against moments) are not. It can
          read nothing else: no other file, no network.
postgres  the tables of the archive (trade, kline, …), its functions and the schema analytics. Rows
          that have moved to cold files are not there: functions refuse such a span, and for tables a
          warning on stderr says which time is missing from the answer.

Without --engine, a table called trades, klines, tickers, depth_levels, states, markets or gaps, or one of
those functions, is asked by DuckDB when no schema stands before its name; all else goes to Postgres.

Postgres takes SELECT, VALUES, WITH, TABLE, SHOW and EXPLAIN, with the rights of the role tapekeep_query: it
reads what tapekeep_reader reads, and nothing else. --timeout ends what takes longer, in both; it does not
count the time in which the answer waits for its reader.

--cold DIR asks the cold files of a folder alone; no database is needed.
--market, --from and --to leave out rows of the DuckDB tables that the statement would not need.
Decimals are exact: sums and products too, and what has more than 38 digits is an error. A quotient or an
average in DuckDB is a floating-point number. Where decimals of two columns meet in CASE, coalesce, UNION or
a comparison, DuckDB may round the one with more digits after the point, if together they need more than 38:
cast first, or ask whether a - b is zero.`;

/** Adds `tapekeep query`. */
export function addQuery(
  program: Command,
  common: () => CommonOptions,
  finish: (code: ExitCode) => void,
): void {
  program
    .command('query')
    .description('run one read-only SQL statement over the archive, hot and cold')
    .argument('[sql]', 'the statement')
    .option('-f, --file <file>', 'read the statement from a file; - is standard input')
    .addOption(
      new Option('--format <format>', 'how the answer is written').choices([
        'table',
        'csv',
        'json',
      ]),
    )
    .option('--json', 'one JSON object a row; the same as --format json')
    .addOption(
      new Option('--engine <engine>', 'what runs it').choices(['auto', 'postgres', 'duckdb']),
    )
    .option('--cold <folder>', 'ask the cold files of this folder alone, without a database')
    .option('-m, --market <name>', 'only rows of this market; may be repeated', gather)
    .option('--from <time>', 'only rows from this time on, or this long back', momentArgument)
    .option('--to <time>', 'only rows up to this time', momentArgument)
    .addOption(
      new Option('--timeout <duration>', 'longest time of the statement')
        .argParser(timeoutArgument)
        .default(DEFAULT_TIMEOUT_MS, '2m'),
    )
    .addHelpText('after', HELP)
    .action(async (sql: string | undefined, options: Omit<QueryOptions, keyof CommonOptions>) => {
      const { queryCommand } = await import('../commands/query.js');
      finish(await queryCommand(sql, { ...common(), ...options }));
    });
}
