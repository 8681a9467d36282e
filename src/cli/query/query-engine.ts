import { join } from 'node:path';
import { isQuestion, QUESTIONS } from '../../archive/query/questions.js';
import { UsageError } from '../failure.js';

/** What can run a statement. */
export const ENGINES = ['auto', 'postgres', 'duckdb'] as const;
export type Engine = (typeof ENGINES)[number];

/** Tables that are asked over hot and cold together and that the database does not have. */
const OWN_TABLES: ReadonlySet<string> = new Set([
  ...['trades', 'klines', 'tickers', 'states', 'depth_levels', 'markets', 'gaps'],
]);
const MENTIONS_OWN = new RegExp(`\\b(?:${[...OWN_TABLES, ...QUESTIONS].join('|')})\\b`, 'i');

interface EngineOptions {
  readonly engine?: Engine;
  readonly cold?: string;
  readonly market?: readonly string[];
  readonly from?: unknown;
  readonly to?: unknown;
}

/**
 * What runs a statement: the words of the statement decide, never what is hot or cold at the moment,
 * so that it means the same tomorrow. A table of {@link OWN_TABLES}, or a question such as candles(…),
 * without a schema before its name is asked by DuckDB; anything else is for Postgres.
 *
 * @throws UsageError for options that the chosen one can not follow
 */
export async function chooseEngine(
  sql: string,
  options: EngineOptions,
): Promise<'postgres' | 'duckdb'> {
  const { engine = 'auto', cold, market, from, to } = options;
  const isNarrowed = market !== undefined || from !== undefined || to !== undefined;
  if (engine === 'postgres') {
    if (cold !== undefined)
      throw new UsageError('--cold', cold, 'only --engine duckdb reads files');
    if (isNarrowed) {
      const advice = '--market, --from and --to narrow what --engine duckdb reads; write WHERE';
      throw new UsageError('--engine', engine, advice);
    }
    return engine;
  }
  if (engine === 'duckdb' || cold !== undefined || isNarrowed) return 'duckdb';
  if (!MENTIONS_OWN.test(sql)) return 'postgres';
  return (await namesOwnTable(sql)) ? 'duckdb' : 'postgres';
}

async function namesOwnTable(sql: string): Promise<boolean> {
  const [{ Scratch }, { DuckSession }, { parseStatement }, { StatementRefusedError }] =
    await Promise.all([
      import('../../archive/parquet/scratch.js'),
      import('../../archive/parquet/session.js'),
      import('../../archive/query/syntax.js'),
      import('../../archive/query/errors.js'),
    ]);
  const scratch = await Scratch.make('query');
  const duck = await DuckSession.open(join(scratch.path, 'spill'));
  try {
    const { tables, functions } = await parseStatement(duck, sql);
    return (
      tables.some(({ schema, name }) => schema === '' && OWN_TABLES.has(name)) ||
      functions.some(({ schema, name }) => schema === '' && isQuestion(name))
    );
  } catch (error) {
    // What DuckDB can not read may be of the other's dialect; it will say what is wrong.
    if (error instanceof StatementRefusedError) return false;
    throw error;
  } finally {
    duck.close();
    await scratch.remove();
  }
}
