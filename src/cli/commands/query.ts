import { readFileSync } from 'node:fs';
import { messageOf } from '../../kernel/errors.js';
import { EXIT_CODES, type ExitCode } from '../exit-codes.js';
import { StatementError, UsageError } from '../failure.js';
import { type CommonOptions, openSession } from '../session.js';
import { formatTable } from '../table.js';
import { withArchive } from './status.js';

export interface QueryOptions extends CommonOptions {
  readonly json?: boolean;
  readonly file?: string;
}

/** Runs one read-only SQL statement against the archive and prints its rows. */
export async function queryCommand(
  argument: string | undefined,
  options: QueryOptions,
): Promise<ExitCode> {
  const sql = readStatement(argument, options.file);
  const session = openSession({ logLevel: 'warn', ...options });
  await withArchive(session, async (store) => {
    const rows = await store.query<Record<string, unknown>>(sql).catch((error: unknown) => {
      throw asUsageError(error);
    });
    if (options.json === true) {
      process.stdout.write(rows.map((row) => `${JSON.stringify(row)}\n`).join(''));
      return;
    }
    const names = Object.keys(rows[0] ?? {});
    const columns = names.map((title) => ({
      title,
      text: (row: Record<string, unknown>) => cell(row[title]),
    }));
    const count = `(${rows.length} ${rows.length === 1 ? 'row' : 'rows'})`;
    const table = names.length === 0 ? [] : formatTable(columns, rows);
    process.stdout.write(`${[...table, count].join('\n')}\n`);
  });
  return EXIT_CODES.ok;
}

/** What Postgres refuses in a statement is the asker's to mend, not a failure of the archive. */
function asUsageError(error: unknown): unknown {
  const sqlstate: unknown = (error as { sqlstate?: unknown }).sqlstate;
  if (typeof sqlstate !== 'string' || !/^(22|25006|42)/.test(sqlstate)) return error;
  const { cause } = error as Error;
  const said = messageOf(cause ?? error);
  if (sqlstate === '25006') return new StatementError(`query only reads: ${said}`, error);
  if (said.startsWith('cannot insert multiple commands')) {
    return new StatementError('query takes one statement at a time', error);
  }
  return new StatementError(`the statement is refused: ${said}`, error);
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

function cell(value: unknown): string {
  if (value === null || value === undefined) return '';
  if (value instanceof Date) return value.toISOString();
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}
