import { StatementRefusedError } from '../errors.js';
import { type DuckSession, literal, openDuck } from '../parquet/session.js';
import { asStatementError } from './refusals.js';
import { isQueryTable, isQuestion } from './tables.js';

export type Statement = Awaited<ReturnType<typeof openStatement>>;

/** Look-ahead of an answer. It does not count the length of texts: a few thousand rows at most. */
const AHEAD_KB = 32;

/**
 * A statement in the DuckDB that is to run it, parsed and not run yet.
 *
 * @param signal ends whatever is done for it
 * @throws StatementRefusedError unless it is one statement that reads; the signal's reason
 */
export async function openStatement(sql: string, signal: AbortSignal) {
  const { session: duck, scratch, close } = await openDuck('query', { aheadKb: AHEAD_KB }, signal);
  try {
    const syntax = await parseStatement(duck, sql);
    return { sql, syntax, duck, signal, scratch, close };
  } catch (error) {
    await close();
    throw asStatementError(error);
  }
}

type SyntaxName =
  | ('type' | 'schema_name' | 'table_name' | 'alias' | 'ref_type')
  | ('schema' | 'function_name');
type SyntaxPart =
  | ('function' | 'from_table' | 'where_clause' | 'child' | 'left' | 'right')
  | ('input' | 'lower' | 'upper');

/** A node of a statement as DuckDB's own parser has it, with what is looked at here. */
export interface SyntaxNode
  extends Readonly<Partial<Record<SyntaxPart, SyntaxNode>>>,
    Readonly<Partial<Record<SyntaxName, string>>> {
  readonly sample?: unknown;
  readonly column_name_alias?: unknown;
  /** Names of a reference to a column; its own is the last. */
  readonly column_names?: readonly string[];
  readonly children?: readonly SyntaxNode[];
  readonly value?: { readonly type?: { readonly id?: string }; readonly value?: unknown };
  readonly cast_type?: { readonly id?: string };
  /** Tables that it makes itself, by name. */
  readonly cte_map?: { readonly map?: readonly { readonly key: string }[] };
}

/** All of a statement, or why it is none that reads. */
interface Parsed {
  readonly error?: boolean;
  readonly error_type?: string;
  readonly error_message?: string;
  /** Place in the statement, counted in characters from 0. */
  readonly position?: string;
  readonly statements?: readonly unknown[];
}

/** A table or a function that is named in a statement, in lower case. */
interface Named {
  readonly schema: string;
  readonly name: string;
}

/** Parts of a parsed statement. */
export interface Syntax {
  /** Tables that it names, those aside that it makes itself with WITH. */
  readonly tables: readonly Named[];
  /** Functions that it uses as tables. */
  readonly functions: readonly Named[];
  /** False if a table function may read a text as a statement. */
  readonly isPlain: boolean;
  /** True if it reads columns that it does not name. */
  readonly isOfAll: boolean;
  /** Parts of any depth. */
  readonly nodes: readonly SyntaxNode[];
}

const named = (schema = '', name = ''): Named => ({
  schema: schema.toLowerCase(),
  name: name.toLowerCase(),
});

/** Table functions that read nothing. */
const HARMLESS = /^(unnest|range|generate_series)$/;
/** Parts that read columns without their names. */
const OF_ALL = /^(STAR|POSITIONAL_REFERENCE|PIVOT|SHOW_REF)$/;

const NO_SELECT = 'query runs one SELECT and nothing else; use "tapekeep psql" for EXPLAIN';
/** DuckDB would have to look up the values first, by a statement of its own. */
const OPEN_PIVOT =
  "query takes one SELECT, and a PIVOT that has to look up its values is more than one statement: name them, as in PIVOT trades ON side IN ('buy', 'sell') USING count(*)";

/**
 * Takes a statement apart without running it.
 *
 * @throws StatementRefusedError unless it is one statement that reads
 */
async function parseStatement(duck: DuckSession, sql: string): Promise<Syntax> {
  const [row] = await duck.rows(
    'reading the statement',
    `SELECT json_serialize_sql(${literal(sql)}, skip_null := true, skip_empty := true)`,
  );
  const nodes: SyntaxNode[] = [];
  // A number beyond all doubles, as 1e400, stands there in a way that is not JSON.
  const text = String(row?.[0] ?? '{}').replace(/(?<="value":)-?Infinity\b/g, 'null');
  const parsed = JSON.parse(text, (_, value: unknown) => {
    if (typeof value === 'object' && value !== null) nodes.push(value);
    return value;
  }) as Parsed;
  if (parsed.error === true) {
    const isParsed = parsed.error_type === 'not implemented';
    if (isParsed) throw new StatementRefusedError(/\bpivot\b/i.test(sql) ? OPEN_PIVOT : NO_SELECT);
    const { error_message: message, position } = parsed;
    const place = position === undefined ? '' : pointAt(sql, Number(position));
    throw new StatementRefusedError(`the statement is refused: ${message}${place}`);
  }
  const count = parsed.statements?.length ?? 0;
  if (count === 0) throw new StatementRefusedError('there is no statement');
  if (count > 1) throw new StatementRefusedError('query takes one statement at a time');
  const own = new Set(
    nodes.flatMap(({ cte_map: made }) => (made?.map ?? []).map(({ key }) => key.toLowerCase())),
  );
  const functions = nodes.flatMap(({ type, function: called }) =>
    type === 'TABLE_FUNCTION' ? [named(called?.schema, called?.function_name)] : [],
  );
  const isPlain = functions.every(({ name }) => isQuestion(name) || HARMLESS.test(name));
  // A row as a whole is named by its table.
  const rows = new Set(
    nodes.map((one) => one.table_name && (one.alias ?? one.table_name).toLowerCase()),
  );
  const isOfAll = ({ type = '', ref_type: joined, ...node }: SyntaxNode) =>
    OF_ALL.test(type) ||
    joined === 'NATURAL' ||
    node.column_name_alias !== undefined ||
    (node.column_names !== undefined && rows.has(node.column_names.at(-1)?.toLowerCase()));
  return {
    nodes,
    functions,
    isPlain,
    isOfAll: !isPlain || nodes.some(isOfAll),
    tables: nodes
      .filter(({ type }) => type === 'BASE_TABLE')
      .map((node) => named(node.schema_name, node.table_name))
      // A name that is both may mean either: then it counts as a table.
      .filter(({ schema, name }) => schema !== '' || !own.has(name) || isQueryTable(name)),
  };
}

/** Longest part of a line that is shown. */
const SHOWN_LETTERS = 100;
const BEFORE_LETTERS = 60;

/**
 * The line of a statement that an error is about, with a mark beneath the place.
 *
 * @param at place in the statement, counted in characters from 0
 */
function pointAt(sql: string, at: number): string {
  const before = [...sql].slice(0, at);
  const lineStart = before.lastIndexOf('\n') + 1;
  const line = [...([...sql].slice(lineStart).join('').split('\n')[0] ?? '')];
  const column = before.length - lineStart;
  const from = line.length <= SHOWN_LETTERS ? 0 : Math.max(0, column - BEFORE_LETTERS);
  const shown = line
    .slice(from, from + SHOWN_LETTERS)
    .join('')
    .replaceAll('\t', ' ');
  const head = `LINE ${before.filter((letter) => letter === '\n').length + 1}: ${from > 0 ? '…' : ''}`;
  return `\n\n${head}${shown}\n${' '.repeat(head.length + column - from)}^`;
}
