import { type SeriesKind, tableOfKind, timeColumnOf } from '../../model/kinds.js';
import { type DuckSession, literal } from '../parquet/session.js';
import { type Bounds, EVER, intersect, unite } from './selection.js';
import type { Statement, SyntaxNode } from './statement.js';
import { isQuestion, seriesBehind } from './tables.js';

type Part = SyntaxNode | undefined;

/** SQL of a time without columns: a constant, a cast of one, or a sum; else undefined. */
function timeSql(node: Part): string | undefined {
  const { type, value, child, children = [], cast_type: to, function_name: name = '' } = node ?? {};
  if (type === 'VALUE_CONSTANT' && typeof value?.value === 'string') return literal(value.value);
  if (type === 'VALUE_CONSTANT' && value?.type?.id === 'INTEGER') return String(value.value);
  const parts = (child === undefined ? children : [child]).map(timeSql);
  if (parts.includes(undefined)) return undefined;
  if (type === 'OPERATOR_CAST' && /^[A-Z ]+$/.test(to?.id ?? '')) return `(${parts[0]})::${to?.id}`;
  if (type !== 'FUNCTION' || !/^([-+]|now|to_[a-z]+)$/.test(name)) return undefined;
  return /^\w/.test(name) ? `${name}(${parts.join(', ')})` : `(${parts.join(name)})`;
}

/** Rows between two times, both included; a time that is not understood leaves nothing out. */
async function between(duck: DuckSession, from?: string, to?: string): Promise<Bounds> {
  // The statement runs later than now: a bound below may rise with it, if now() comes first.
  const isFalling = from !== undefined && /[^(].*now\(/.test(from);
  const first = isFalling ? 'NULL' : (from ?? 'NULL');
  const last = to === undefined || to.includes('now(') ? 'NULL' : to;
  const sql = `SELECT epoch_ms((${first})::TIMESTAMPTZ), epoch_ms((${last})::TIMESTAMPTZ) + 1`;
  // An error in one is reported when the statement runs.
  const [row = []] = await duck.rows('reading a time', sql).catch(() => []);
  const [fromMs, toMs] = [Number(row[0] ?? EVER.fromMs), Number(row[1] ?? EVER.toMs)];
  return intersect(EVER, { markets: null, fromMs, toMs });
}

/** Rows that a condition lets through. @param isColumn of the table that it is about */
async function passed(
  duck: DuckSession,
  node: Part,
  time: string,
  isColumn: (node: Part, name: string) => boolean,
): Promise<Bounds> {
  const { type = '', left, right, input, lower, upper, children = [] } = node ?? {};
  if (type === 'CONJUNCTION_AND') {
    const all = await Promise.all(children.map((one) => passed(duck, one, time, isColumn)));
    return all.reduce(intersect, EVER);
  }
  const [subject, ...values] = type === 'COMPARE_IN' ? children : [left, right];
  if (/^COMPARE_(EQUAL|IN)$/.test(type) && isColumn(subject, 'market')) {
    const names = values.map((one) => one?.value?.value);
    return {
      ...EVER,
      markets: names.every((name) => typeof name === 'string') ? new Set(names) : null,
    };
  }
  if (type === 'COMPARE_BETWEEN' && isColumn(input, time))
    return await between(duck, timeSql(lower), timeSql(upper));
  const [, than] = /^COMPARE_(LESS|GREATER)THAN/.exec(type) ?? [];
  if (than === undefined || !isColumn(left, time)) return EVER;
  const sql = timeSql(right);
  if (than === 'GREATER') return await between(duck, sql);
  const isBefore = type === 'COMPARE_LESSTHAN' && sql !== undefined;
  return await between(
    duck,
    undefined,
    isBefore ? `(${sql})::TIMESTAMPTZ - to_microseconds(1)` : sql,
  );
}

/**
 * Rows of a series that a statement can see at most, by what its WHERE clauses and the arguments of its
 * questions say plainly: constants with AND between them, on a table that stands alone after FROM.
 */
export async function statementBounds(
  { duck, syntax: { nodes, isPlain } }: Statement,
  kind: SeriesKind,
): Promise<Bounds> {
  const isOf = (one: Part) =>
    one?.type === 'BASE_TABLE' && seriesBehind(one.table_name?.toLowerCase() ?? '') === kind;
  const alone = nodes.filter(({ sample, from_table: from }) => {
    return isOf(from) && !(sample ?? from?.sample ?? from?.column_name_alias);
  });
  if (!isPlain || alone.length < nodes.filter(isOf).length) return EVER;
  const each = alone.map(({ from_table: from, where_clause: where }) => {
    const names = ['', `${from?.alias ?? from?.table_name}.`.toLowerCase()];
    return passed(duck, where, timeColumnOf(tableOfKind(kind)), (node, name) =>
      names.some((table) => node?.column_names?.join('.').toLowerCase() === table + name),
    );
  });
  const questions = nodes.filter(({ type, function: called }) => {
    return (
      type === 'TABLE_FUNCTION' && kind === 'trades' && isQuestion(called?.function_name ?? '')
    );
  });
  const asked = questions.map(async ({ function: called }) => {
    const [market, step, from, to] = called?.children ?? [];
    const [length, end, name] = [timeSql(step), timeSql(to), market?.value?.value];
    const isNamed = called?.children?.some(({ alias }) => alias !== undefined) ?? true;
    if (isNamed || typeof name !== 'string' || !length || !end) return EVER;
    const last = `${end}::TIMESTAMPTZ + TRY_CAST(${length}::VARCHAR AS INTERVAL)`;
    return { ...(await between(duck, timeSql(from), last)), markets: new Set([name]) };
  });
  const all = await Promise.all([...each, ...asked]);
  return all.length === 0 ? EVER : all.reduce(unite);
}
