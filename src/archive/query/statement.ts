import { asStatementError, StatementRefusedError } from '../errors.js';
import { type DuckSession, literal, openDuck } from '../parquet/session.js';
import { isQueryTable } from './tables.js';

export type Statement = Awaited<ReturnType<typeof openStatement>>;

/**
 * A statement in the DuckDB that is to run it, parsed and not run yet.
 *
 * @param signal ends whatever is done for it
 * @throws StatementRefusedError unless it is one statement that reads; the signal's reason
 */
export async function openStatement(sql: string, signal: AbortSignal) {
  const { session: duck, scratch, close } = await openDuck('query', {}, signal);
  try {
    const syntax = await parseStatement(duck, sql);
    return { sql, syntax, duck, signal, scratch, close };
  } catch (error) {
    await close();
    throw asStatementError(error);
  }
}

/**
 * A statement as DuckDB's own parser has it: objects with a `type`, and lists of them. Only statements
 * that read come so far; all others its serializer refuses.
 */
export type SyntaxNode = Readonly<Record<string, unknown>>;

export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Nodes that are direct parts of a node, through lists. */
function partsOf(node: SyntaxNode): SyntaxNode[] {
  const spread = (value: unknown): SyntaxNode[] =>
    Array.isArray(value) ? value.flatMap(spread) : isNode(value) ? [value] : [];
  return Object.values(node).flatMap(spread);
}

/** A node and everything below it, outer before inner. */
export function* nodesOf(root: SyntaxNode): Generator<SyntaxNode> {
  const waiting = [root];
  for (let node = waiting.pop(); node !== undefined; node = waiting.pop()) {
    yield node;
    waiting.push(...partsOf(node).toReversed());
  }
}

export function textOf(node: SyntaxNode, name: string): string {
  const value = node[name];
  return typeof value === 'string' ? value : '';
}

export function listOf(node: SyntaxNode, name: string): SyntaxNode[] {
  const value = node[name];
  return Array.isArray(value) ? value.filter(isNode) : [];
}

/** A table that is named in a statement, in lower case. */
export interface NamedTable {
  readonly schema: string;
  readonly name: string;
}

export function namedTable(node: SyntaxNode): NamedTable {
  const schema = textOf(node, 'schema_name').toLowerCase();
  return { schema, name: textOf(node, 'table_name').toLowerCase() };
}

/** What a parsed statement is made of. */
export interface Syntax {
  readonly root: SyntaxNode;
  /** Tables that it names, those aside that it makes itself with WITH. */
  readonly tables: readonly NamedTable[];
  /** Functions that it uses as tables. */
  readonly functions: readonly NamedTable[];
}

/** The function behind a table; undefined for anything else. */
export function namedFunction(node: SyntaxNode): NamedTable | undefined {
  if (node.type !== 'TABLE_FUNCTION' || !isNode(node.function)) return undefined;
  const called = node.function;
  return {
    schema: textOf(called, 'schema').toLowerCase(),
    name: textOf(called, 'function_name').toLowerCase(),
  };
}

/**
 * Takes a statement apart without running it.
 *
 * @throws StatementRefusedError unless it is one statement that reads
 */
export async function parseStatement(duck: DuckSession, sql: string): Promise<Syntax> {
  const [row] = await duck.rows(
    'reading the statement',
    `SELECT json_serialize_sql(${literal(sql)}, skip_null := true, skip_empty := true)`,
  );
  const parsed = JSON.parse(String(row?.[0] ?? '{}')) as SyntaxNode;
  if (parsed.error === true) {
    const isOther = textOf(parsed, 'error_type') === 'not implemented';
    const said = textOf(parsed, 'error_message');
    throw new StatementRefusedError(
      isOther ? 'query only reads: write a SELECT' : `the statement is refused: ${said}`,
    );
  }
  const statements = listOf(parsed, 'statements');
  const [root] = statements;
  if (root === undefined) throw new StatementRefusedError('there is no statement');
  if (statements.length > 1) throw new StatementRefusedError('query takes one statement at a time');
  const own = new Set<string>();
  const tables: NamedTable[] = [];
  const functions: NamedTable[] = [];
  for (const node of nodesOf(root)) {
    for (const { key } of isNode(node.cte_map) ? listOf(node.cte_map, 'map') : []) {
      if (typeof key === 'string') own.add(key.toLowerCase());
    }
  }
  for (const node of nodesOf(root)) {
    const called = namedFunction(node);
    if (called !== undefined) functions.push(called);
    if (node.type !== 'BASE_TABLE') continue;
    const table = namedTable(node);
    // A name that is both may mean either: then it counts as a table.
    if (table.schema === '' && own.has(table.name) && !isQueryTable(table.name)) continue;
    tables.push(table);
  }
  return { root, tables, functions };
}
