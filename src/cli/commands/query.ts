import { readFileSync } from 'node:fs';
import { OpenPivotError, StatementRefusedError } from '../../archive/errors.js';
import { spreadsheetField } from '../../archive/lines.js';
import type { Statement } from '../../archive/query/statement.js';
import { isQuestion, QUERY_TABLES, QUESTIONS } from '../../archive/query/tables.js';
import { systemClock } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import { formatInstant } from '../../kernel/timestamp.js';
import { SERIES, SERIES_TABLES, WRITTEN_SERIES } from '../../model/series.js';
import type { Answer, Store } from '../../store/index.js';
import {
  argument,
  type CommonOptions,
  choice,
  command,
  flag,
  nothing,
  option,
  type Values,
} from '../command.js';
import { untilStopped } from '../ending.js';
import { EXIT_CODES, UsageError } from '../failure.js';
import { coldDirOf, nowOf, withArchive } from '../opening/database.js';
import { openSession } from '../opening/session.js';
import { gather, instantArgument, spanStartArgument, timeoutArgument } from '../options.js';
import { formatTable, jsonLine, printable, shownText, widestTexts, writeOut } from '../output.js';
import { Progress } from '../progress.js';
import { asOwnRefusal, asRefusal } from '../query/refusals.js';
import {
  DEFAULT_TIMEOUT_MS,
  QueryTimeoutError,
  StuckStatementError,
  TimeLimit,
  unlessStuck,
} from '../query/time-limit.js';
import { selectSpan } from '../selection.js';

/** The forms of an answer. */
const ANSWER_FORMATS = ['table', 'csv', 'json'] as const;
type AnswerFormat = (typeof ANSWER_FORMATS)[number];

/** What can run a statement. */
const ENGINES = ['auto', 'postgres', 'duckdb'] as const;

/** Tables that are asked over hot and cold together and that the database does not have. */
const OWN_TABLES: ReadonlySet<string> = new Set(
  QUERY_TABLES.filter((name) => name !== 'coverage' && !SERIES_TABLES.some((one) => one === name)),
);
/** What only DuckDB takes: a misspelt name in it is no reason to ask Postgres. */
const OF_DUCK = /^(?:[\s(]|--[^\n]*\n)*(?:from|pivot|unpivot|describe|summarize)\b/i;
const MENTIONS_OWN = new RegExp(`\\b(?:${[...OWN_TABLES, ...QUESTIONS].join('|')})\\b`, 'i');

const OPTIONS = {
  file: option('-f, --file <file>', 'read the statement from a file; - is standard input'),
  format: choice('--format <format>', 'how the answer is written', ANSWER_FORMATS),
  json: flag('--json', 'one JSON object a row; the same as --format json'),
  engine: choice('--engine <engine>', 'what runs it', ENGINES),
  cold: option('--cold <folder>', 'ask the cold files of this folder alone, without a database'),
  market: option('-m, --market <name>', 'only rows of this market; may be repeated', gather),
  from: option(
    '--from <time>',
    'only rows from this time on, or this long back',
    spanStartArgument,
  ),
  to: option('--to <time>', 'only rows up to this time', instantArgument),
  timeoutMs: option(
    '--timeout <duration>',
    'longest time of the statement',
    timeoutArgument,
    DEFAULT_TIMEOUT_MS,
    '2m',
  ),
};

interface QueryOptions extends CommonOptions, Values<typeof OPTIONS> {
  readonly format: AnswerFormat;
}

/** Runs one read-only SQL statement over the archive and prints its rows. */
export default command({
  args: { sql: argument<string | undefined>('the statement') },
  options: OPTIONS,
  help: `
  tapekeep query "select market, count(*), sum(total) from trades where traded_at >= '2026-01-01' group by 1"
  tapekeep query "select * from vwap('BTC_USDT', '1 hour', '2026-01-15', '2026-01-16')"
  tapekeep query --file spread.sql --format csv > spread.csv
  tapekeep query --cold /backup/cold "select market, min(traded_at) from trades group by 1"

One statement that reads. The names of its tables decide what runs it (or --engine does):

duckdb    trades, klines, tickers, depth, depth_levels, states, markets, coverage, gaps, and the functions
          candles, vwap and returns (market, step, from, to): rows in the database and rows in cold
          files as one. Rows of the database are brought to it first; those
          that a WHERE leaves out (market = or IN, and the time column against constants) are not. It can
          read nothing else: no other file, no network.
postgres  the tables of the archive (trade, kline, …), its functions and the schema analytics. Rows
          that have moved to cold files are not there: functions refuse such a span, and for tables a
          warning on stderr says of which time they can be missing in the answer.

Without --engine, a table called trades, klines, tickers, depth_levels, states, markets or gaps, or one of
those functions, is asked by DuckDB when no schema stands before its name, and so is a statement that begins
with FROM, PIVOT, UNPIVOT, DESCRIBE or SUMMARIZE; all else goes to Postgres.

Postgres takes SELECT, VALUES, WITH, TABLE, SHOW and EXPLAIN, with the rights of the role tapekeep_query: it
reads what tapekeep_reader reads, and nothing else. --timeout ends what takes longer, in both; it does not
count the time in which the answer waits for its reader.

--cold DIR asks the cold files of a folder alone; no database is needed.
--market, --from and --to leave out rows of the DuckDB tables that the statement would not need.
Decimals are exact: sums and products too, and what has more than 38 digits is an error. A quotient or an
average in DuckDB is a floating-point number. Where decimals of two columns meet in CASE, coalesce, UNION or
a comparison, DuckDB may round the one with more digits after the point, if together they need more than 38:
cast first, or ask whether a - b is zero.`,
  needs: nothing,
  async run(common, { sql: given, ...selected }) {
    const format = selected.format ?? (selected.json ? 'json' : 'table');
    const options = { ...common, ...selected, format };
    const sql = readStatement(given, options);
    return await untilStopped(async (ending) => {
      using limit = new TimeLimit(systemClock, options.timeoutMs);
      const signal = AbortSignal.any([ending, limit.signal]);
      const statement = await chooseEngine(sql, options, signal);
      if (statement === null) await askPostgres(sql, options);
      else {
        await askTogether(statement, options, limit).catch(async (error: unknown) => {
          if (!(error instanceof StuckStatementError)) await statement.close();
          throw asOwnRefusal(error);
        });
      }
      return EXIT_CODES.ok;
    });
  },
});

/**
 * What runs a statement: null is Postgres, and for DuckDB the statement is opened there. The words of the
 * statement decide, never what is hot or cold now, so that it means the same tomorrow. A table of
 * {@link OWN_TABLES}, or a question such as candles(…), without a schema before its name is asked by
 * DuckDB, and so is what begins as only its statements do; anything else is for Postgres.
 *
 * @throws UsageError for options that the chosen one cannot follow; what openStatement throws
 */
async function chooseEngine(
  sql: string,
  options: QueryOptions,
  signal: AbortSignal,
): Promise<Statement | null> {
  const { engine = 'auto', cold, market, from, to } = options;
  const isNarrowed = market !== undefined || from !== undefined || to !== undefined;
  if (engine === 'postgres') {
    if (cold !== undefined)
      throw new UsageError('--cold', cold, 'only --engine duckdb reads files');
    if (isNarrowed) {
      const advice = '--market, --from and --to narrow what --engine duckdb reads; write WHERE';
      throw new UsageError('--engine', engine, advice);
    }
    return null;
  }
  const isChosen = engine === 'duckdb' || cold !== undefined || isNarrowed || OF_DUCK.test(sql);
  if (!isChosen && !MENTIONS_OWN.test(sql)) return null;
  const { openStatement } = await import('../../archive/query/statement.js');
  try {
    const statement = await openStatement(sql, signal);
    if (isChosen || namesOwnTable(statement)) return statement;
    await statement.close();
    return null;
  } catch (error) {
    // What DuckDB cannot read may be of the other's dialect, but for PIVOT; it will say what is wrong.
    const isForOther = error instanceof StatementRefusedError && !(error instanceof OpenPivotError);
    if (!isChosen && isForOther) return null;
    throw error;
  }
}

function namesOwnTable({ syntax: { tables, functions } }: Statement): boolean {
  return (
    tables.some(({ schema, name }) => schema === '' && OWN_TABLES.has(name)) ||
    functions.some(({ schema, name }) => schema === '' && isQuestion(name))
  );
}

async function askPostgres(sql: string, options: QueryOptions): Promise<void> {
  const session = openSession({ logLevel: 'warn', ...options });
  const { timeoutMs } = options;
  await withArchive(session, async (store) => {
    const take = async (answer: Answer) => {
      for (const line of coldWarnings(answer)) process.stderr.write(noteLine(line));
      await writeAnswer(answer, options.format, writeOut);
    };
    await store.inspection.ask(sql, timeoutMs, take).catch(async (error: unknown) => {
      if (codeOf(error) === 'query_timeout') throw new QueryTimeoutError(timeoutMs, error);
      const isChosen = options.engine === 'postgres';
      throw await asRefusal(error, sql, { store, isChosen });
    });
  });
}

/** What a table that was asked does not hold any more. */
function coldWarnings({ cold }: Answer): string[] {
  return cold.map(({ table, span }) => {
    const time = `${formatInstant(span.fromMs)} to ${formatInstant(span.toMs)}`;
    const own = WRITTEN_SERIES.find((one) => one === table && SERIES[one].retention !== 'account');
    // The name by which both engines answer for rows in files too.
    const kind = own && SERIES[own].kind;
    const other = kind === own ? `${kind} (with --engine duckdb)` : kind;
    const advice = own ? `the table ${other} has all` : 'tapekeep restore brings them back';
    return `rows of ${table} have moved to cold files, within ${time}; what is read of that time from the table itself is not all (analytics refuses such a time, unless tapekeep.missing is set). In this command ${advice}`;
  });
}

async function askTogether(
  statement: Statement,
  options: QueryOptions,
  limit: TimeLimit,
): Promise<void> {
  const { signal } = statement;
  const { cold, market, format } = options;
  const session = openSession({ logLevel: 'warn', ...options });
  const { answerQuestion } = await import('../../archive/query/answer.js');
  const { openReading } = await import('../../archive/reading.js');
  const coldDir = cold ?? coldDirOf(session.config);
  using progress = new Progress();
  const onPhase = (phase: string) => progress.say(`${phase} …`);
  const onNote = (text: string) => progress.write(noteLine(text));
  const write = (text: string) => {
    // The answer comes to the same terminal.
    progress.end();
    return limit.without(writeOut(text));
  };
  const ask = async (store: Store | null, nowMs: number) => {
    const reader = store === null ? null : await openReading(store, { coldDir, signal });
    const selection = { ...selectSpan(options, nowMs), ...(market && { markets: market }) };
    const question = { reader, coldDir, selection, onPhase, onNote };
    try {
      const answering = answerQuestion(statement, question, (one) =>
        writeAnswer(one, format, write),
      );
      await unlessStuck(systemClock, signal, answering);
    } finally {
      await reader?.close();
    }
  };
  if (cold !== undefined) return await ask(null, systemClock.wallMs());
  const askStore = async (store: Store) => await ask(store, await nowOf(store));
  await withArchive(session, askStore, 'by itself');
}

const noteLine = (text: string) => `tapekeep: ${printable(text)}\n`;

/** @throws UsageError unless exactly one of argument and file is given */
function readStatement(
  argument: string | undefined,
  { file, cold }: Pick<QueryOptions, 'file' | 'cold'>,
): string {
  if (file === undefined) {
    if (argument !== undefined) return argument;
    const taken =
      cold === undefined ? '' : `; ${JSON.stringify(cold)} was taken as the folder of --cold`;
    throw new UsageError('<sql>', '', `write the statement, or name a file with --file${taken}`);
  }
  if (argument !== undefined) {
    throw new UsageError('--file', file, 'leave it out when the statement is on the command line');
  }
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new UsageError('--file', file, `it cannot be read (${messageOf(error)})`);
  }
}

/** An answer as it comes: values as for JSON, decimals in text. */
interface PrintableAnswer {
  readonly names: readonly string[];
  readonly chunks: AsyncIterable<ReadonlyArray<readonly unknown[]>>;
}

/** Rows that settle how wide the columns of a table are. */
const MEASURED_ROWS = 1_000;

/**
 * Writes an answer out, some rows at a time: memory does not grow with their number.
 *
 * @param write resolves when more may come
 */
async function writeAnswer(
  { names, chunks }: PrintableAnswer,
  format: AnswerFormat,
  write: (text: string) => Promise<void>,
): Promise<void> {
  if (format === 'table') return await writeTable(names, chunks, write);
  if (format === 'csv') {
    if (names.length > 0) await write(`${names.map(spreadsheetField).join(',')}\r\n`);
    for await (const rows of chunks) {
      await write(rows.map((row) => `${row.map(csvCell).join(',')}\r\n`).join(''));
    }
    return;
  }
  const keys = distinct(names);
  for await (const rows of chunks) {
    const objects = rows.map((row) => Object.fromEntries(keys.map((key, at) => [key, row[at]])));
    await write(objects.map(jsonLine).join(''));
  }
}

async function writeTable(
  names: readonly string[],
  chunks: PrintableAnswer['chunks'],
  write: (text: string) => Promise<void>,
): Promise<void> {
  const columns = names.map((title, at) => ({
    title,
    text: (row: readonly string[]) => row[at] ?? '',
  }));
  const put = async (lines: readonly string[]) => {
    if (lines.length > 0) await write(`${lines.join('\n')}\n`);
  };
  let count = 0;
  let first: (readonly string[])[] | undefined = [];
  // What comes later is laid out as if it stood beneath the widest text of each column.
  let widest: readonly string[] = [];
  const putFirst = async (rows: readonly (readonly string[])[]) => {
    if (rows.length > 0) await put(formatTable(columns, rows));
    widest = widestTexts(names.length, rows);
    first = undefined;
  };
  for await (const values of chunks) {
    count += values.length;
    const rows = values.map((row) => row.map((value) => shownText(cell(value))));
    if (first === undefined) {
      await put(formatTable(columns, [widest, ...rows]).slice(2));
      continue;
    }
    first.push(...rows);
    if (first.length >= MEASURED_ROWS) await putFirst(first);
  }
  if (first !== undefined) await putFirst(first);
  await put([`(${count} ${count === 1 ? 'row' : 'rows'})`]);
}

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** A number is none of a formula, also below zero. */
const NUMBER = /^-?(\d+(\.\d+)?(e[+-]?\d+)?|infinity)$/i;
/** Nor is a length of time, as both engines write it: `-00:00:00.25`, `-1 days +02:03:04`. */
const INTERVAL = /^(-?\d+ (year|mon|month|day)s?( (?=.)|$))*([+-]?\d+:\d\d:\d\d(\.\d+)?)?$/;

function csvCell(value: unknown): string {
  if (value === null || value === undefined) return '';
  const text = cell(value);
  return text !== '' && (NUMBER.test(text) || INTERVAL.test(text)) ? text : spreadsheetField(text);
}

/** Names of which none hides another in an object. */
function distinct(names: readonly string[]): string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    let free = name;
    for (let more = 2; taken.has(free); more += 1) free = `${name}_${more}`;
    taken.add(free);
    return free;
  });
}
