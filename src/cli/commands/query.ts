import { readFileSync } from 'node:fs';
import type { Statement } from '../../archive/query/statement.js';
import { QUERY_TABLES } from '../../archive/query/tables.js';
import { systemClock } from '../../kernel/clock.js';
import { codeOf, isAborted, messageOf } from '../../kernel/errors.js';
import { nearestName } from '../../kernel/nearest.js';
import { SERIES, SERIES_TABLES, WRITTEN_SERIES } from '../../model/series.js';
import type { Answer, Store } from '../../store/index.js';
import { commandEnding } from '../ending.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { StatementError, UsageError } from '../failure.js';
import { coldDirOf } from '../opening/database.js';
import { type CommonOptions, openSession } from '../opening/session.js';
import { formatMoment, type Moment } from '../options/moments.js';
import { selectSpan } from '../options/selection.js';
import { printable } from '../output/printable.js';
import { Progress } from '../output/progress.js';
import { writeOut } from '../output/write-out.js';
import { chooseEngine, type Engine } from '../query/query-engine.js';
import { type AnswerFormat, type TellableAnswer, writeAnswer } from '../query/query-output.js';
import {
  DEFAULT_TIMEOUT_MS,
  QueryTimeoutError,
  StuckStatementError,
  TimeLimit,
  unlessStuck,
} from '../query/time-limit.js';
import { withArchive } from './status.js';

export interface QueryOptions extends CommonOptions {
  readonly json?: boolean;
  readonly format?: AnswerFormat;
  readonly file?: string;
  readonly engine?: Engine;
  /** Cold files that are asked without a database. */
  readonly cold?: string;
  readonly market?: readonly string[];
  readonly from?: Moment;
  readonly to?: Moment;
  /** Longest time of the statement, milliseconds. */
  readonly timeout?: number;
}

/** Runs one read-only SQL statement over the archive and prints its rows. */
export async function queryCommand(
  argument: string | undefined,
  options: QueryOptions,
): Promise<ExitCode> {
  const sql = readStatement(argument, options.file);
  using ending = commandEnding.hold();
  using limit = new TimeLimit(systemClock, options.timeout ?? DEFAULT_TIMEOUT_MS);
  try {
    const signal = AbortSignal.any([ending.signal, limit.signal]);
    const statement = await chooseEngine(sql, options, signal);
    if (statement === null) await askPostgres(sql, options);
    else await askNearby(statement, options, limit);
    return EXIT_CODES.ok;
  } catch (error) {
    if (ending.signal.aborted && isAborted(error)) return EXIT_CODES.forced;
    throw error;
  }
}

async function askPostgres(sql: string, options: QueryOptions): Promise<void> {
  const session = openSession({ logLevel: 'warn', ...options });
  const timeoutMs = options.timeout ?? DEFAULT_TIMEOUT_MS;
  await withArchive(session, async (store) => {
    const answer = await store.inspection.ask(sql, timeoutMs).catch((error: unknown) => {
      if (codeOf(error) === 'query_timeout') throw new QueryTimeoutError(timeoutMs, error);
      throw asUsageError(error);
    });
    for (const line of coldWarnings(answer)) note(line);
    await tell({ names: answer.names, chunks: [answer.rows] }, options, writeOut);
  });
}

/** What a table that was asked does not hold any more. */
function coldWarnings({ cold }: Answer): string[] {
  return cold.map(({ table, span }) => {
    const time = `${formatMoment(span.fromMs)} to ${formatMoment(span.toMs)}`;
    const other = otherName(table);
    const advice =
      other === undefined ? 'tapekeep restore brings them back' : `the table ${other} has all`;
    return `rows of ${table} have moved to cold files, within ${time}; what is read of that time from the database is not all. In this command ${advice}`;
  });
}

/** Tables that can be asked, of both engines. */
const KNOWN_TABLES: readonly string[] = [
  ...[...QUERY_TABLES, ...SERIES_TABLES, 'market', 'market_history', 'stream', 'gap'],
  ...['session', 'quarantine', 'verdict', 'partition_state', 'archive'],
];
const VIEWS: readonly string[] = [
  ...['trades', 'klines', 'tickers', 'depth_levels', 'states', 'markets', 'coverage', 'gaps'],
  ...['verdicts', 'refusals', 'partitions'],
];

/** The name by which both engines answer for rows in files too. */
function otherName(table: string): string | undefined {
  const own = WRITTEN_SERIES.find((one) => one === table && SERIES[one].retention !== 'account');
  if (own === undefined) return undefined;
  const { kind } = SERIES[own];
  return kind === own ? `${kind} (with --engine duckdb)` : kind;
}

/** As {@link askTogether}, with the table that was meant, if its name comes near. */
async function askNearby(
  statement: Statement,
  options: QueryOptions,
  limit: TimeLimit,
): Promise<void> {
  const { NoSuchTableError } = await import('../../archive/query/statement.js');
  try {
    await askTogether(statement, options, limit);
  } catch (error) {
    if (!(error instanceof StuckStatementError)) await statement.close();
    if (!(error instanceof NoSuchTableError)) throw error;
    throw new StatementError(`${messageOf(error)}${nearestAdvice(error.table)}`, error);
  }
}

async function askTogether(
  statement: Statement,
  options: QueryOptions,
  limit: TimeLimit,
): Promise<void> {
  const { signal } = statement;
  const write = (text: string) => limit.without(writeOut(text));
  const session = openSession({ logLevel: 'warn', ...options });
  const { answerQuestion } = await import('../../archive/query/answer.js');
  const { openReading } = await import('../../archive/reading.js');
  const coldDir = options.cold ?? coldDirOf(session.config);
  const progress = new Progress(process.stderr, systemClock, '', 0);
  const ask = async (store: Store | null, nowMs: number) => {
    const reading = store === null ? null : await openReading(store, { coldDir, signal });
    const { market } = options;
    const selection = {
      ...selectSpan(options, nowMs),
      ...(market === undefined ? {} : { markets: market }),
    };
    const onPhase = (phase: string) => {
      if (process.stderr.isTTY) progress.say(`${phase} …`);
    };
    const question = { reading, coldDir, selection, onPhase, onNote: note };
    try {
      const answering = answerQuestion(statement, question, (one) => tell(one, options, write));
      await unlessStuck(systemClock, signal, answering);
    } finally {
      await reading?.close();
    }
  };
  if (options.cold !== undefined) return await ask(null, systemClock.wallMs());
  const askStore = async (store: Store) => {
    await ask(store, Math.floor((await store.exchangeNowMs()) ?? systemClock.wallMs()));
  };
  await withArchive(session, askStore, 'by itself');
}

async function tell(
  answer: TellableAnswer,
  { format, json }: QueryOptions,
  write: (text: string) => Promise<void>,
): Promise<void> {
  await writeAnswer(answer, format ?? (json === true ? 'json' : 'table'), write);
}

function note(text: string): void {
  process.stderr.write(`tapekeep: ${printable(text)}\n`);
}

/** What Postgres refuses in a statement is the asker's to mend, not a failure of the archive. */
function asUsageError(error: unknown): unknown {
  const sqlstate: unknown = (error as { sqlstate?: unknown }).sqlstate;
  if (typeof sqlstate !== 'string' || !/^(22|25006|42|TK)/.test(sqlstate)) return error;
  const { cause } = error as Error;
  const said = messageOf(cause ?? error);
  if (sqlstate === '25006') return new StatementError(`query only reads: ${said}`, error);
  if (said.startsWith('cannot insert multiple commands')) {
    return new StatementError('query takes one statement at a time', error);
  }
  if (sqlstate === '42P01') {
    const [, schema, table = ''] = /"(?:([^".]+)\.)?([^".]+)"/.exec(said) ?? [];
    const advice = nearestAdvice(table, schema === 'analytics' ? VIEWS : KNOWN_TABLES);
    return new StatementError(`the statement is refused: ${said}${advice}`, error);
  }
  const hint: unknown = (cause as { hint?: unknown } | undefined)?.hint;
  const advice = typeof hint === 'string' ? `. ${hint}` : '';
  return new StatementError(`the statement is refused: ${said}${advice}`, error);
}

/** The table whose name comes nearest to one that there is not. */
function nearestAdvice(table: string, known: readonly string[] = KNOWN_TABLES): string {
  const nearest = nearestName(table, known);
  return nearest === undefined ? '' : `. Did you mean ${nearest}?`;
}

/** @throws UsageError unless exactly one of argument and file is given */
function readStatement(argument: string | undefined, file: string | undefined): string {
  if (file === undefined) {
    if (argument !== undefined) return argument;
    throw new UsageError('<sql>', '', 'write the statement, or name a file with --file');
  }
  if (argument !== undefined) {
    throw new UsageError('--file', file, 'leave it out when the statement is on the command line');
  }
  try {
    return readFileSync(file === '-' ? 0 : file, 'utf8');
  } catch (error) {
    throw new UsageError('--file', file, `it can not be read (${messageOf(error)})`);
  }
}
