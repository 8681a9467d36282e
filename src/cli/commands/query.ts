import { readFileSync } from 'node:fs';
import { spreadsheetField } from '../../archive/lines.js';
import type { QueryAnswer } from '../../archive/query/answer.js';
import type { Statement } from '../../archive/query/statement.js';
import { systemClock } from '../../kernel/clock.js';
import { messageOf } from '../../kernel/errors.js';
import type { Store } from '../../store/index.js';
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
import { coldOf, nowOf, withArchive } from '../opening/database.js';
import { BUCKET_OPTIONS, bucketSettings, coldPlace } from '../opening/places.js';
import { openSession } from '../opening/session.js';
import { gather, instantArgument, spanStartArgument, timeoutArgument } from '../options.js';
import {
  type Column,
  formatTable,
  jsonLine,
  printable,
  shownText,
  widestTexts,
  writeOut,
} from '../output.js';
import { Progress } from '../progress.js';
import {
  DEFAULT_TIMEOUT_MS,
  StuckStatementError,
  TimeLimit,
  unlessStuck,
} from '../query/time-limit.js';
import { selectSpan } from '../selection.js';

/** The forms of an answer. */
const ANSWER_FORMATS = ['table', 'csv', 'json'] as const;
type AnswerFormat = (typeof ANSWER_FORMATS)[number];

const OPTIONS = {
  file: option('-f, --file <file>', 'file with the statement; - is standard input'),
  format: choice('--format <format>', 'output format', ANSWER_FORMATS),
  json: flag('--json', 'one JSON object a row; the same as --format json'),
  cold: option(
    '--cold <place>',
    'read the cold files of a folder or bucket only, without a database',
  ),
  ...BUCKET_OPTIONS,
  market: option('-m, --market <name>', 'only rows of this market; repeatable', gather),
  from: option(
    '--from <time>',
    'only rows from this time, such as 2h ago as 2h',
    spanStartArgument,
  ),
  to: option('--to <time>', 'only rows before this time', instantArgument),
  timeoutMs: option(
    '--timeout <duration>',
    'time limit',
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

Runs one SELECT in DuckDB over hot and archived rows. Tables: trades, klines, tickers, depth, depth_levels, states,
markets, coverage, gaps. Functions: candles, vwap, returns (market, step, from, to). Everything else:
"tapekeep psql". Sealed and archived partitions are read from their files. Other rows are copied first, with the
columns that the statement names; so name columns instead of *. WHERE market = '…' and constant times with AND limit
what is read, and so do --market, --from and --to. Decimals are exact up to 38 digits (docs/guides/sql.md).`,
  needs: nothing,
  async run(common, { sql: given, ...selected }) {
    const format = selected.format ?? (selected.json ? 'json' : 'table');
    const options = { ...common, ...selected, format };
    const sql = readStatement(given, options);
    return await untilStopped(async (ending) => {
      using limit = new TimeLimit(systemClock, options.timeoutMs);
      const { openStatement } = await import('../../archive/query/statement.js');
      const statement = await openStatement(sql, AbortSignal.any([ending, limit.signal]));
      await answerStatement(statement, options, limit).catch(async (error: unknown) => {
        if (!(error instanceof StuckStatementError)) await statement.close();
        throw error;
      });
      return EXIT_CODES.ok;
    });
  },
});

async function answerStatement(
  statement: Statement,
  options: QueryOptions,
  limit: TimeLimit,
): Promise<void> {
  const { signal } = statement;
  const { market, format } = options;
  const session = openSession({ logLevel: 'warn', ...options });
  const { answerQuestion } = await import('../../archive/query/answer.js');
  const { openReading } = await import('../../archive/reading.js');
  const isFilesOnly = options.cold !== undefined;
  const cold =
    options.cold === undefined
      ? coldOf(session.config)
      : coldPlace(options.cold, '--cold', session.config, bucketSettings(session.config, options));
  using progress = new Progress();
  const onPhase = (phase: string) => progress.say(`${phase} …`);
  const onNote = (text: string) => progress.write(noteLine(text));
  const write = (text: string) => {
    // The answer comes to the same terminal.
    progress.end();
    return limit.without(writeOut(text));
  };
  const ask = async (store: Store | null, nowMs: number) => {
    const reader = store === null ? null : await openReading(store, { cold, signal });
    const selection = { ...selectSpan(options, nowMs), ...(market && { markets: market }) };
    const question = { reader, cold, selection, onPhase, onNote };
    try {
      const answering = answerQuestion(statement, question, (one) =>
        writeAnswer(one, format, write),
      );
      await unlessStuck(systemClock, signal, answering);
    } finally {
      await reader?.close();
    }
  };
  if (isFilesOnly) return await ask(null, systemClock.wallMs());
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
      cold === undefined ? '' : `; ${JSON.stringify(cold)} was taken as the place of --cold`;
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

/** Rows that settle how wide the columns of a table are. */
const MEASURED_ROWS = 1_000;

/**
 * Writes an answer out, some rows at a time: memory does not grow with their number.
 *
 * @param write resolves when more may come
 */
async function writeAnswer(
  { names, chunks }: QueryAnswer,
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
  chunks: QueryAnswer['chunks'],
  write: (text: string) => Promise<void>,
): Promise<void> {
  const columnsOf = (rows: readonly (readonly string[])[]) =>
    names.map((title, at): Column<readonly string[]> => {
      const isFigure = rows.every((row) => NUMBER.test(row[at] ?? '') || row[at] === '');
      const text = (row: readonly string[]) => row[at] ?? '';
      return { title, text, align: isFigure ? 'right' : 'left' };
    });
  let columns = columnsOf([]);
  const put = async (lines: readonly string[]) => {
    if (lines.length > 0) await write(`${lines.join('\n')}\n`);
  };
  let count = 0;
  let first: (readonly string[])[] | undefined = [];
  // What comes later is laid out as if it stood beneath the widest text of each column.
  let widest: readonly string[] = [];
  const putFirst = async (rows: readonly (readonly string[])[]) => {
    columns = columnsOf(rows);
    if (rows.length > 0) await put(formatTable(columns, rows, Number.POSITIVE_INFINITY));
    widest = widestTexts(names.length, rows);
    first = undefined;
  };
  for await (const values of chunks) {
    count += values.length;
    const rows = values.map((row) => row.map((value) => shownText(cell(value))));
    if (first === undefined) {
      await put(formatTable(columns, [widest, ...rows], Number.POSITIVE_INFINITY).slice(2));
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
/** Nor is a length of time: `-00:00:00.25`, `-1 day 02:03:04`. */
const INTERVAL = /^(-?\d+ (year|month|day)s?( (?=.)|$))*(-?\d+:\d\d:\d\d(\.\d+)?)?$/;

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
