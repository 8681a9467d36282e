import type { A_Expr, CaseExpr, FuncCall, Node, TypeName } from 'libpg-query';
import { decimalSql, MAX_PRECISION } from '../parquet/columns.js';
import { EndpointError, refused, SQLSTATE } from './errors.js';
import { call, cast, choose, element } from './functions.js';
import { asNumeric, constantDigits, type Sql, shownSql, strip, widen } from './numbers.js';
import { COMPARISONS, compare, compute, constantOf, distinct, negate } from './operators.js';
import { INT_TYPES, type PgType, readArray, typeNamed } from './values.js';

/** Things that an expression may refer to. */
export interface Scope {
  /** Columns by their names. */
  readonly columns: ReadonlyMap<string, Sql>;
  /** Name of the table, or its alias. */
  readonly table: string;
  /** Values of `$1`, `$2` …; null for NULL. */
  readonly parameters: readonly (string | null)[];
}

/** Constants of a list that are compared one by one. */
const LIST_MAX = 1_000;
/** Constants of a list that is looked up. */
const LOOKUP_MAX = 100_000;

/** Names of a dotted name. */
export function namesOf(nodes: readonly Node[] | undefined): string[] {
  return (nodes ?? []).map((one) => ('String' in one ? (one.String.sval ?? '') : '*'));
}

/** The name without pg_catalog. @throws EndpointError for one of another schema */
function builtIn(nodes: readonly Node[] | undefined, what: string): string {
  const names = namesOf(nodes);
  const [schema, name] = names;
  if (names.length === 1) return schema ?? '';
  if (names.length !== 2 || schema !== 'pg_catalog') throw refused(`${what} ${names.join('.')}`);
  return name ?? '';
}

/** Letters of an expression in SQL. Some parts are written several times. */
const LETTERS_MAX = 4_000_000;

function assertLength(letters: number): void {
  if (letters > LETTERS_MAX) throw refused('an expression of this length');
}

/**
 * Says the meaning of an expression of Postgres in SQL of DuckDB.
 *
 * @throws EndpointError 0A000 naming what is outside of the allow-list
 */
export function expressionOf(node: Node | undefined, scope: Scope): Sql {
  const made = meaningOf(node, scope);
  assertLength(made.sql.length + String(made.shown ?? '').length);
  return made;
}

function meaningOf(node: Node | undefined, scope: Scope): Sql {
  if (node === undefined) throw refused('an empty expression');
  if ('ColumnRef' in node) return columnOf(namesOf(node.ColumnRef.fields), scope);
  if ('A_Const' in node) return literalOf(node.A_Const);
  if ('ParamRef' in node) return constantOf(parameterOf(node.ParamRef.number, scope), 'unknown');
  if ('TypeCast' in node) {
    const { type, modifiers } = typeOf(node.TypeCast.typeName);
    const { arg } = node.TypeCast;
    if (arg !== undefined && 'ParamRef' in arg) {
      return cast(constantOf(parameterOf(arg.ParamRef.number, scope), type), type, modifiers);
    }
    const one = expressionOf(arg, scope);
    // A text without a type is read by that type.
    if (one.type === 'unknown')
      return cast(constantOf(one.constant ?? null, type), type, modifiers);
    return cast(one, type, modifiers);
  }
  if ('A_Expr' in node) return operationOf(node.A_Expr, scope);
  if ('BoolExpr' in node) {
    const all = (node.BoolExpr.args ?? []).map((one) => conditionOf(one, scope));
    const isAggregate = all.some((one) => one.isAggregate === true);
    const sqls = all.map(({ sql }) => sql);
    const { boolop } = node.BoolExpr;
    const sql =
      boolop === 'NOT_EXPR'
        ? `(NOT ${sqls[0]})`
        : `(${sqls.join(boolop === 'AND_EXPR' ? ' AND ' : ' OR ')})`;
    return { sql, type: 'bool', isAggregate };
  }
  if ('NullTest' in node) {
    const one = expressionOf(node.NullTest.arg, scope);
    if (one.quotient !== undefined || one.sql === '') throw refused('IS NULL of this number');
    const is = node.NullTest.nulltesttype === 'IS_NULL' ? 'IS NULL' : 'IS NOT NULL';
    return {
      sql: `(${one.raw ?? one.sql} ${is})`,
      type: 'bool',
      isAggregate: one.isAggregate ?? false,
    };
  }
  if ('CaseExpr' in node) return caseOf(node.CaseExpr, scope);
  if ('FuncCall' in node) return functionOf(node.FuncCall, scope);
  if ('A_Indirection' in node) {
    const { arg, indirection = [] } = node.A_Indirection;
    const [index] = indirection;
    if (indirection.length === 1 && index !== undefined && 'A_Indices' in index) {
      const { uidx, is_slice: isSlice } = index.A_Indices;
      if (isSlice !== true) return element(expressionOf(arg, scope), expressionOf(uidx, scope));
    }
    throw refused('a part of an array');
  }
  throw refused(Object.keys(node)[0] ?? 'this expression');
}

/** An expression that is true, false or NULL. */
export function conditionOf(node: Node | undefined, scope: Scope): Sql {
  const one = expressionOf(node, scope);
  if (one.type === 'bool') return one;
  if (one.type === 'unknown') return constantOf(one.constant ?? null, 'bool');
  throw new EndpointError(SQLSTATE.syntax, `a condition is of type ${one.type}`);
}

function columnOf(names: readonly string[], { columns, table }: Scope): Sql {
  const name = names.at(-1) ?? '';
  const column = columns.get(name);
  const isHere = names.length === 1 || (names.length === 2 && names[0] === table);
  if (column !== undefined && isHere) return column;
  if (name === '*') throw refused('a whole row');
  const text = `column "${names.join('.')}" does not exist in archived rows`;
  throw new EndpointError(SQLSTATE.noColumn, text);
}

function literalOf(constant: Extract<Node, { A_Const: unknown }>['A_Const']): Sql {
  const { ival, fval, sval, boolval, isnull } = constant;
  if (isnull === true) return constantOf(null, 'unknown');
  if (ival !== undefined) return constantOf(String(ival.ival ?? 0), 'int4');
  if (boolval !== undefined) return constantOf(boolval.boolval === true ? 't' : 'f', 'bool');
  if (sval !== undefined) return constantOf(sval.sval ?? '', 'unknown');
  if (fval === undefined) throw refused('a constant of bits');
  const text = fval.fval ?? '0';
  const isInt = /^\d+$/.test(text) && BigInt(text) < 2n ** 63n;
  return constantOf(text, isInt ? 'int8' : 'numeric');
}

function parameterOf(number: number | undefined, { parameters }: Scope): string | null {
  const value = parameters[(number ?? 0) - 1];
  if (value !== undefined) return value;
  throw new EndpointError('42P02', `there is no parameter $${number ?? 0}`);
}

function typeOf(named: TypeName | undefined): {
  type: PgType;
  modifiers: number[];
  isArray: boolean;
} {
  const name = builtIn(named?.names, 'type');
  const type = typeNamed(name);
  const isArray = (named?.arrayBounds ?? []).length > 0;
  if (type === undefined) throw refused(`type ${name}`);
  const modifiers = (named?.typmods ?? []).map((one) =>
    'A_Const' in one ? (one.A_Const.ival?.ival ?? 0) : Number.NaN,
  );
  return { type, modifiers, isArray };
}

function operationOf({ kind, name, lexpr, rexpr }: A_Expr, scope: Scope): Sql {
  const op = builtIn(name, 'operator').replace('!=', '<>');
  switch (kind) {
    case 'AEXPR_OP': {
      const right = expressionOf(rexpr, scope);
      if (lexpr === undefined) {
        if (op === '-') return negate(right);
        if (op === '+') return right;
        throw refused(`operator ${op}${right.type}`);
      }
      return operate(op, expressionOf(lexpr, scope), right);
    }
    case 'AEXPR_DISTINCT':
      return distinct(expressionOf(lexpr, scope), expressionOf(rexpr, scope));
    case 'AEXPR_OP_ANY':
    case 'AEXPR_OP_ALL':
      return listed(
        op,
        kind === 'AEXPR_OP_ANY',
        expressionOf(lexpr, scope),
        elementsOf(rexpr, scope),
      );
    default:
  }
  throw refused(`${kind ?? 'operator'} ${op}`);
}

function operate(op: string, left: Sql, right: Sql): Sql {
  if (COMPARISONS.has(op)) return compare(op, left, right);
  if (op === '/' && (left.type === 'numeric' || right.type === 'numeric')) {
    const [over, under] = [asNumeric(left), asNumeric(right)];
    const isAggregate = over.isAggregate === true || under.isAggregate === true;
    return { sql: '', type: 'numeric', isAggregate, quotient: { over, under } };
  }
  return compute(op, left, right);
}

/** Elements of `ANY` or `ALL`. */
function elementsOf(node: Node | undefined, scope: Scope): Sql[] | null {
  if (node !== undefined && 'A_ArrayExpr' in node) {
    return (node.A_ArrayExpr.elements ?? []).map((one) => expressionOf(one, scope));
  }
  if (node === undefined || !('TypeCast' in node)) throw refused('ANY of this expression');
  const { arg, typeName } = node.TypeCast;
  const { type, isArray } = typeOf(typeName);
  if (!isArray) throw refused('ANY of this expression');
  if (arg !== undefined && 'A_ArrayExpr' in arg) {
    return (arg.A_ArrayExpr.elements ?? []).map((one) => cast(expressionOf(one, scope), type));
  }
  const { constant } = expressionOf(arg, scope);
  if (constant === undefined) throw refused('ANY of this expression');
  return constant === null ? null : readArray(constant).map((one) => constantOf(one, type));
}

/** `op ANY` and `op ALL` over elements; null for an array that is NULL. */
function listed(op: string, isAny: boolean, one: Sql, all: readonly Sql[] | null): Sql {
  const made = (sql: string): Sql => ({ sql, type: 'bool', isAggregate: one.isAggregate ?? false });
  if (all === null) return made('CAST(NULL AS BOOLEAN)');
  if (all.length === 0) return made(String(!isAny));
  const isLookup =
    INT_TYPES.has(one.type) &&
    all.every(({ type, constant }) => INT_TYPES.has(type) && constant !== undefined) &&
    op === (isAny ? '=' : '<>');
  const max = isLookup ? LOOKUP_MAX : LIST_MAX;
  if (all.length > max) throw refused(`a list of ${all.length} values (of ${max} at most)`);
  if (isLookup) {
    return made(
      `(${one.sql} ${isAny ? 'IN' : 'NOT IN'} (${all.map(({ sql }) => sql).join(', ')}))`,
    );
  }
  assertLength(one.sql.length * all.length);
  const each = all.map((other) => operate(op, one, other).sql);
  return made(`(${each.join(isAny ? ' OR ' : ' AND ')})`);
}

function caseOf({ arg, args = [], defresult }: CaseExpr, scope: Scope): Sql {
  const subject = arg === undefined ? undefined : expressionOf(arg, scope);
  const branches = args.map((node): readonly [Sql, Sql] => {
    if (!('CaseWhen' in node)) throw refused('CASE');
    const { expr, result } = node.CaseWhen;
    const when =
      subject === undefined
        ? conditionOf(expr, scope)
        : compare('=', subject, expressionOf(expr, scope));
    return [when, expressionOf(result, scope)];
  });
  const otherwise =
    defresult === undefined ? constantOf(null, 'unknown') : expressionOf(defresult, scope);
  return choose(branches, otherwise);
}

const AGGREGATES: ReadonlySet<string> = new Set(['count', 'sum', 'min', 'max', 'avg']);

function functionOf(node: FuncCall, scope: Scope): Sql {
  const name = builtIn(node.funcname, 'function');
  const isOdd = node.over ?? node.agg_order ?? node.agg_within_group ?? node.func_variadic;
  if (isOdd !== undefined) throw refused(`function ${name} with OVER, ORDER BY or VARIADIC`);
  const args = (node.args ?? []).map((one) => expressionOf(one, scope));
  if (AGGREGATES.has(name)) return aggregateOf(name, node, args, scope);
  if (node.agg_distinct === true || node.agg_filter !== undefined)
    throw refused(`function ${name}`);
  if (name === 'random' && args.length === 0) return { sql: 'random()', type: 'float8' };
  const [first, places] = args;
  if (name === 'round' && first?.quotient !== undefined) {
    const to = Number(places?.constant ?? '0');
    if (!Number.isInteger(to) || first.quotient.places !== undefined)
      throw refused('round of round');
    return { ...first, quotient: { ...first.quotient, places: to } };
  }
  return call(name, args);
}

function aggregateOf(name: string, node: FuncCall, args: readonly Sql[], scope: Scope): Sql {
  const [one] = args;
  if (args.some(({ isAggregate }) => isAggregate)) throw refused(`${name} of an aggregate`);
  if (one?.sql === '' || args.length > 1) throw refused(`${name} of this expression`);
  const filter =
    node.agg_filter === undefined
      ? ''
      : ` FILTER (WHERE ${conditionOf(node.agg_filter, scope).sql})`;
  const distinctly = node.agg_distinct === true ? 'DISTINCT ' : '';
  const over = (sql: string) => `${name}(${distinctly}${sql})${filter}`;
  if (name === 'count') {
    const what = one === undefined || node.agg_star === true ? '*' : counted(one, distinctly);
    return { sql: over(what), type: 'int8', isAggregate: true };
  }
  if (one === undefined) throw refused(`${name}()`);
  if (name === 'sum') return sumOf(one, distinctly, filter);
  if (name === 'avg') {
    if (!INT_TYPES.has(one.type) && one.type !== 'numeric') throw refused(`avg(${one.type})`);
    const sum = asNumeric(sumOf(one, distinctly, filter));
    const times: Sql = { sql: `count(${distinctly}${one.sql})${filter}`, type: 'int8' };
    const quotient = { over: sum, under: asNumeric(times) };
    return { sql: '', type: 'numeric', isAggregate: true, quotient };
  }
  const isShownOnce = one.type !== 'numeric' || typeof one.shown !== 'string';
  if (!EXTREMES.has(one.type) || !isShownOnce || one.constant !== undefined)
    throw refused(`${name} of this ${one.type}`);
  return { ...strip(one), sql: over(one.sql), isAggregate: true };
}

/** Chooses what is counted: as text a number has several forms, such as `1.5` and `1.50`. */
const counted = ({ raw, sql }: Sql, distinctly: string) => (distinctly === '' ? (raw ?? sql) : sql);

/** Types whose least and greatest value shows in one way. */
const EXTREMES: ReadonlySet<PgType> = new Set([
  ...(['int4', 'int8', 'numeric', 'timestamptz', 'interval'] as const),
]);

function sumOf(one: Sql, distinctly: string, filter: string): Sql {
  const sum = (sql: string) => `sum(${distinctly}${sql})${filter}`;
  if (one.type === 'int4') {
    return { sql: `CAST(${sum(one.sql)} AS BIGINT)`, type: 'int8', isAggregate: true };
  }
  if (one.type !== 'int8' && one.type !== 'numeric') throw refused(`sum(${one.type})`);
  const number = asNumeric(one);
  if (distinctly !== '' && number.shown !== undefined && typeof number.shown !== 'number') {
    throw refused('sum(DISTINCT …) of this expression');
  }
  const form = { precision: MAX_PRECISION, scale: number.form.scale };
  const sql = `CAST(${sum(widen(number, form))} AS ${decimalSql(form)})`;
  const shown =
    typeof number.shown === 'number' ? number.shown : `max(${shownSql(number)})${filter}`;
  return { sql, type: 'numeric', form, shown, isAggregate: true };
}

/** A whole constant, such as that of LIMIT; null for NULL. */
export function wholeConstant(node: Node, scope: Scope, what: string): bigint | null {
  const one = expressionOf(node, scope);
  if (one.constant === null) return null;
  const digits = constantDigits(one);
  if (digits === undefined || digits.scale > 0 || digits.units < 0n) {
    throw refused(`${what} of this expression`);
  }
  return digits.units;
}
