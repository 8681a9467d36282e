import { OpenPivotError, StatementRefusedError } from '../../archive/errors.js';
import type { Statement } from '../../archive/query/statement.js';
import { isQuestion, QUERY_TABLES, QUESTIONS } from '../../archive/query/tables.js';
import { SERIES_TABLES } from '../../model/series.js';
import { UsageError } from '../failure.js';

/** What can run a statement. */
export const ENGINES = ['auto', 'postgres', 'duckdb'] as const;

/** Tables that are asked over hot and cold together and that the database does not have. */
const OWN_TABLES: ReadonlySet<string> = new Set(
  QUERY_TABLES.filter((name) => name !== 'coverage' && !SERIES_TABLES.some((one) => one === name)),
);
/** What only DuckDB takes: a misspelt name in it is no reason to ask Postgres. */
const OF_DUCK = /^[\s(]*(?:from|pivot|unpivot|describe|summarize)\b/i;
const MENTIONS_OWN = new RegExp(`\\b(?:${[...OWN_TABLES, ...QUESTIONS].join('|')})\\b`, 'i');

interface EngineOptions {
  readonly engine: (typeof ENGINES)[number] | undefined;
  readonly cold: string | undefined;
  readonly market: readonly string[] | undefined;
  readonly from: unknown;
  readonly to: unknown;
}

/**
 * What runs a statement: null is Postgres, and for DuckDB the statement is opened there. The words of the
 * statement decide, never what is hot or cold now, so that it means the same tomorrow. A table of
 * {@link OWN_TABLES}, or a question such as candles(…), without a schema before its name is asked by
 * DuckDB, and so is what begins as only its statements do; anything else is for Postgres.
 *
 * @throws UsageError for options that the chosen one cannot follow; what openStatement throws
 */
export async function chooseEngine(
  sql: string,
  options: EngineOptions,
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
