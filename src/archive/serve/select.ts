import type { Node, SelectStmt, SortBy } from 'libpg-query';
import { timeColumnOf } from '../../model/kinds.js';
import type { SeriesTable } from '../../model/series.js';
import { EndpointError, refused, SQLSTATE } from './errors.js';
import { conditionOf, expressionOf, namesOf, type Scope, wholeConstant } from './expressions.js';
import type { Sql } from './numbers.js';
import { type Output, outputOf } from './rows.js';
import type { Needed, Relation } from './tables.js';
import { readArray, readTimestamp } from './values.js';

/** SELECT statements as postgres_fdw sends them for one foreign table. */

/** Schema that foreign tables name; there is no other. */
const SCHEMA = 'cold';
/** Clauses that are refused, with their names. */
const REFUSED_CLAUSES = {
  withClause: 'WITH',
  intoClause: 'SELECT INTO',
  distinctClause: 'DISTINCT',
  windowClause: 'WINDOW',
  valuesLists: 'VALUES',
  larg: 'UNION, INTERSECT or EXCEPT',
  lockingClause: 'FOR UPDATE or FOR SHARE',
} as const satisfies Partial<Record<keyof SelectStmt, string>>;

/** A table that a statement reads. */
export interface Source {
  /** Name of the partition. */
  readonly name: string;
  /** Name by which its columns may be called. */
  readonly alias: string;
  /** Share of the rows to take by chance, 0 to 1; undefined for all. */
  readonly share: number | undefined;
}

/** The one table of a statement. @throws EndpointError for none, for several, and for what stands in its place */
export function sourceOf(select: SelectStmt): Source {
  for (const [clause, name] of Object.entries(REFUSED_CLAUSES)) {
    if (select[clause as keyof SelectStmt] !== undefined) throw refused(name);
  }
  const [from, ...more] = select.fromClause ?? [];
  if (from === undefined || more.length > 0) {
    throw refused(from === undefined ? 'SELECT without a table' : 'a list of tables');
  }
  if ('RangeTableSample' in from) {
    const { relation, method, args, repeatable } = from.RangeTableSample;
    const name = namesOf(method).at(-1) ?? '';
    if ((name !== 'bernoulli' && name !== 'system') || repeatable !== undefined) {
      throw refused(`TABLESAMPLE ${name}`);
    }
    const scope = { columns: new Map(), table: '', parameters: [] };
    const share = Number(expressionOf(args?.[0], scope).constant) / 100;
    if (!(share >= 0 && share <= 1)) throw refused('TABLESAMPLE of this share');
    return { ...rangeOf(relation), share };
  }
  return { ...rangeOf(from), share: undefined };
}

function rangeOf(node: Node | undefined): Omit<Source, 'share'> {
  if (node === undefined || !('RangeVar' in node)) {
    throw refused(node !== undefined && 'JoinExpr' in node ? 'a join' : 'a subquery');
  }
  const { schemaname, relname = '', alias } = node.RangeVar;
  if (schemaname !== SCHEMA) {
    const name = schemaname === undefined ? relname : `${schemaname}.${relname}`;
    const text = `relation "${name}" does not exist: only archived partitions are here`;
    throw new EndpointError(SQLSTATE.noTable, text);
  }
  return { name: relname, alias: alias?.aliasname ?? relname };
}

/** Conditions that all must hold. */
function conjuncts(node: Node | undefined): Node[] {
  if (node === undefined) return [];
  if ('BoolExpr' in node && node.BoolExpr.boolop === 'AND_EXPR') {
    return (node.BoolExpr.args ?? []).flatMap(conjuncts);
  }
  return [node];
}

/** Part of a partition that can hold rows for a WHERE, by its simple conditions. Others do not matter. */
export function neededFor(
  table: SeriesTable,
  { whereClause }: SelectStmt,
  parameters: Scope['parameters'],
): Needed {
  const scope: Scope = { columns: new Map(), table: '', parameters };
  const time = timeColumnOf(table);
  let marketIds: readonly number[] | undefined;
  let [fromMs, toMs] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  for (const node of conjuncts(whereClause)) {
    if (!('A_Expr' in node)) continue;
    const { lexpr, rexpr, kind } = node.A_Expr;
    const op = namesOf(node.A_Expr.name).at(-1);
    const constant = constantText(rexpr, scope);
    const isAny = kind === 'AEXPR_OP_ANY';
    if (lexpr === undefined || !('ColumnRef' in lexpr) || constant === undefined) continue;
    if (kind !== 'AEXPR_OP' && !isAny) continue;
    const column = namesOf(lexpr.ColumnRef.fields).at(-1);
    if (column === 'market_id' && op === '=') {
      const ids = isAny ? readArray(constant) : [constant];
      const asked = new Set(ids.map(Number));
      marketIds = (marketIds ?? [...asked]).filter((id) => asked.has(id));
    }
    if (column !== time || isAny) continue;
    const us = readTimestamp(constant);
    if (typeof us === 'string') continue;
    const ms = Number(us / 1000n);
    // A millisecond more on each side: whole days are chosen by it.
    if (op === '>=' || op === '>' || op === '=') fromMs = Math.max(fromMs, ms - 1);
    if (op === '<=' || op === '<' || op === '=') toMs = Math.min(toMs, ms + 1);
  }
  return { ...(marketIds === undefined ? {} : { marketIds }), fromMs, toMs };
}

/** Text of a constant; undefined for anything else, which is read later. */
function constantText(node: Node | undefined, scope: Scope): string | undefined {
  if (node === undefined) return undefined;
  const isConstant = 'A_Const' in node || 'ParamRef' in node || 'TypeCast' in node;
  if (!isConstant) return undefined;
  const inner = 'TypeCast' in node ? node.TypeCast.arg : node;
  if (inner === undefined || !('A_Const' in inner || 'ParamRef' in inner)) return undefined;
  return expressionOf(inner, scope).constant ?? undefined;
}

/** A statement for DuckDB, and what its columns become. */
export interface Plan {
  readonly sql: string;
  readonly outputs: readonly Output[];
}

/** Translates a SELECT. @throws EndpointError naming what cannot be translated */
export function planSelect(
  select: SelectStmt,
  { alias, share }: Source,
  { sql: from, columns }: Relation,
  parameters: Scope['parameters'],
): Plan {
  const scope: Scope = { columns, table: alias, parameters };
  const targets = (select.targetList ?? []).map((node) => {
    if (!('ResTarget' in node)) throw refused('this column');
    const { val, name } = node.ResTarget;
    return { name: name ?? columnName(val), one: expressionOf(val, scope) };
  });
  const outputs = targets.map(({ name, one }) => outputOf(name, one));
  const conditions = [
    ...(select.whereClause === undefined ? [] : [whereSql(select.whereClause, scope)]),
    ...(share === undefined ? [] : [`random() < ${share}`]),
  ];
  const cells = outputs.flatMap((one) => one.cells);
  const groups = (select.groupClause ?? []).map((node) => groupSql(node, targets, scope));
  const having =
    select.havingClause === undefined ? [] : [conditionOf(select.havingClause, scope).sql];
  const order = (select.sortClause ?? []).map((node) => {
    if (!('SortBy' in node)) throw refused('this order');
    return orderSql(node.SortBy, targets, scope);
  });
  const clause = (word: string, parts: readonly string[], by = ', ') =>
    parts.length === 0 ? '' : ` ${word} ${parts.join(by)}`;
  const sql =
    `SELECT ${cells.length === 0 ? '1' : cells.join(', ')} FROM ${from} AS t` +
    clause('WHERE', conditions, ' AND ') +
    clause('GROUP BY', groups) +
    clause('HAVING', having) +
    clause('ORDER BY', order) +
    limitSql(select, scope);
  return { sql, outputs };
}

const columnName = (node: Node | undefined): string =>
  node !== undefined && 'ColumnRef' in node
    ? (namesOf(node.ColumnRef.fields).at(-1) ?? '')
    : '?column?';

function whereSql(node: Node, scope: Scope): string {
  const one = conditionOf(node, scope);
  if (one.isAggregate === true) throw refused('an aggregate in WHERE');
  return one.sql;
}

type Targets = readonly { readonly one: Sql }[];

/** An expression of GROUP BY or ORDER BY; a number is the place of a column of the result. */
function itemOf(node: Node | undefined, targets: Targets, scope: Scope): Sql {
  const place = node !== undefined && 'A_Const' in node ? node.A_Const.ival?.ival : undefined;
  const one = place === undefined ? expressionOf(node, scope) : targets[place - 1]?.one;
  if (one === undefined || one.sql === '' || one.type === 'numeric[]') {
    throw refused('GROUP BY or ORDER BY of this expression');
  }
  return one;
}

function groupSql(node: Node, targets: Targets, scope: Scope): string {
  const one = itemOf(node, targets, scope);
  // Numbers that are equal may show different digits.
  if (one.type === 'numeric' && (typeof one.shown === 'string' || one.raw !== undefined)) {
    throw refused('GROUP BY of this number');
  }
  return one.sql;
}

/** The order of these is that of an enum's declaration, or of texts. */
const UNORDERED: ReadonlySet<string> = new Set(['enum', 'unknown', 'numeric[]']);

function orderSql(
  { node, sortby_dir: direction, sortby_nulls: nulls, useOp }: SortBy,
  targets: Targets,
  scope: Scope,
): string {
  const one = itemOf(node, targets, scope);
  if (UNORDERED.has(one.type) || useOp !== undefined) throw refused(`ORDER BY of ${one.type}`);
  const isDescending = direction === 'SORTBY_DESC';
  const isFirst = nulls === 'SORTBY_NULLS_DEFAULT' ? isDescending : nulls === 'SORTBY_NULLS_FIRST';
  return `${one.sql} ${isDescending ? 'DESC' : 'ASC'} NULLS ${isFirst ? 'FIRST' : 'LAST'}`;
}

function limitSql({ limitCount, limitOffset, limitOption }: SelectStmt, scope: Scope): string {
  if (limitOption === 'LIMIT_OPTION_WITH_TIES') throw refused('FETCH FIRST … WITH TIES');
  const part = (word: string, node: Node | undefined) => {
    const count = node === undefined ? null : wholeConstant(node, scope, word);
    return count === null ? '' : ` ${word} ${count}`;
  };
  return part('LIMIT', limitCount) + part('OFFSET', limitOffset);
}

/** Bytes of a page of Postgres. */
const PAGE_BYTES = 8192;

/** A question of ANALYZE about a table. */
export interface AnalyzeQuestion {
  readonly name: string;
  readonly asks: 'size' | 'rows';
}

/** Reads what ANALYZE asks about a foreign table; undefined for any other statement. */
export function analyzeQuestion(select: SelectStmt): AnalyzeQuestion | undefined {
  const [target, second] = (select.targetList ?? []).map((node) =>
    'ResTarget' in node ? node.ResTarget.val : undefined,
  );
  const [from] = select.fromClause ?? [];
  if (from === undefined && target !== undefined && 'A_Expr' in target) {
    const { lexpr, name } = target.A_Expr;
    if (lexpr === undefined || !('FuncCall' in lexpr) || namesOf(name)[0] !== '/') return undefined;
    const [arg] = lexpr.FuncCall.args ?? [];
    const isSize = namesOf(lexpr.FuncCall.funcname).at(-1) === 'pg_relation_size';
    const table = regclass(arg);
    return isSize && table !== undefined ? { name: table, asks: 'size' } : undefined;
  }
  if (from === undefined || !('RangeVar' in from) || from.RangeVar.relname !== 'pg_class')
    return undefined;
  const names = [target, second].map((one) => columnName(one));
  const { whereClause } = select;
  if (
    names.join() !== 'reltuples,relkind' ||
    whereClause === undefined ||
    !('A_Expr' in whereClause)
  )
    return undefined;
  const table = regclass(whereClause.A_Expr.rexpr);
  return table === undefined ? undefined : { name: table, asks: 'rows' };
}

/** `'cold.trade_20260131'::pg_catalog.regclass` */
function regclass(node: Node | undefined): string | undefined {
  if (node === undefined || !('TypeCast' in node)) return undefined;
  const { arg, typeName } = node.TypeCast;
  if (arg === undefined || !('A_Const' in arg) || namesOf(typeName?.names).at(-1) !== 'regclass')
    return undefined;
  const [, schema, name] = /^"?([^".]+)"?\."?([^".]+)"?$/.exec(arg.A_Const.sval?.sval ?? '') ?? [];
  return schema === SCHEMA ? name : undefined;
}

/** Pages that a table of so many bytes would have. */
export function pagesOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / PAGE_BYTES));
}
