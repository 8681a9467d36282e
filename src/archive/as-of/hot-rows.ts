import type { Span } from '../../kernel/span.js';
import {
  type MergedKind,
  orderOf,
  type RowOfKind,
  tableOfKind,
  timeColumnOf,
} from '../../model/kinds.js';
import { type Column, type SeriesTable, seriesOf } from '../../model/series.js';
import { millisSql, type SqlValue, type Store, timestampSql } from '../../store/index.js';

/**
 * Rows of the database that meet conditions, by statements of their own: any number at once, beside the
 * reader that holds them there. Times cross as numbers: seconds, milliseconds and microseconds are exact in
 * a double. Every statement names the piece of time that it looks at, so that the planner opens those
 * partitions and no others.
 */

/** Puts a value among those of a statement. @returns what stands for it */
export type Add = (value: SqlValue) => string;

/** Conditions on rows, the same for those in the database and of those in files. */
export interface Condition<Row> {
  readonly sql: (add: Add) => string;
  readonly isMet: (row: Row) => boolean;
}

/** Series and rows that are requested. */
export interface RowQuestion<Kind extends MergedKind> {
  readonly kind: Kind;
  readonly marketId: number;
  /** Interval or period in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly where: readonly Condition<RowOfKind<Kind>>[];
}

function columnOf(table: SeriesTable, name: string): Column {
  const column = seriesOf(table).columns.find((one) => one.name === name || one.field === name);
  if (column === undefined) throw new RangeError(`${table} has no column ${name}`);
  return column;
}

/** Form in which values of a column are compared: a number where it has an order, else itself. */
function rankOf({ type }: Column, value: unknown): unknown {
  return type.toMs === undefined ? value : type.toMs(value);
}

function valueSql(column: Column, value: unknown, add: Add): string {
  const place = add(rankOf(column, value) as SqlValue);
  if (column.type.form === 'timestamp') return timestampSql(place);
  return column.type.form === 'integer' ? `${place}::bigint` : place;
}

type Comparison = '<' | '>' | '>=';

const holds = (order: number, comparison: Comparison) =>
  order === 0 ? comparison === '>=' : comparison[0] === (order < 0 ? '<' : '>');

/** Rows of which a field has a value. */
export function fieldIs<Kind extends MergedKind>(
  kind: Kind,
  field: string,
  value: string,
): Condition<RowOfKind<Kind>> {
  const column = columnOf(tableOfKind(kind), field);
  return {
    sql: (add) => `${column.name} = ${add(value)}`,
    isMet: (row) => row[column.field as keyof typeof row] === value,
  };
}

/** Rows that lie before or behind a place in the order of their series. */
export function placeIs<Kind extends MergedKind>(
  kind: Kind,
  comparison: Comparison,
  place: Partial<RowOfKind<Kind>>,
): Condition<RowOfKind<Kind>> {
  const table = tableOfKind(kind);
  const columns = orderOf(table).map((name) => columnOf(table, name));
  const fields = columns.map(({ field }) => field as keyof RowOfKind<Kind>);
  return {
    sql: (add) => {
      const names = columns.map(({ name }) => name).join(', ');
      const values = columns.map((one) =>
        valueSql(one, place[one.field as keyof typeof place], add),
      );
      return `(${names}) ${comparison} (${values.join(', ')})`;
    },
    isMet: (row) => {
      for (const field of fields) {
        const difference = (row[field] as number) - (place[field] as number);
        if (difference !== 0) return holds(difference, comparison);
      }
      return holds(0, comparison);
    },
  };
}

/** The values of a statement that is being put together. */
function values(): { readonly all: SqlValue[]; readonly add: Add } {
  const all: SqlValue[] = [];
  return { all, add: (value) => `$${all.push(value)}` };
}

function selectedSql(table: SeriesTable): string {
  const columns = seriesOf(table).columns.flatMap(({ name, field, type }) => {
    if (field === null) return [];
    if (type.form === 'timestamp')
      return [`(extract(epoch FROM ${name}) * 1000000)::float8 AS ${name}`];
    if (type.form === 'integer') return [`${name}::float8 AS ${name}`];
    return [type.form === 'decimals' ? `${name}::text[] AS ${name}` : name];
  });
  return ['market_id', ...columns].join(', ');
}

/** By the columns themselves, as the index has them: a bare name means the number that is selected. */
function orderSql(table: SeriesTable, end: 'newest' | 'oldest'): string {
  const direction = end === 'newest' ? ' DESC' : '';
  return orderOf(table)
    .map((name) => `${table}.${name}${direction}`)
    .join(', ');
}

function rowOf<Kind extends MergedKind>(
  kind: Kind,
  fields: Readonly<Record<string, unknown>>,
): RowOfKind<Kind> {
  const row: Record<string, unknown> = { marketId: fields.market_id };
  for (const { name, field, type } of seriesOf(tableOfKind(kind)).columns) {
    if (field !== null) row[field] = type.decode(fields[name]);
  }
  return row as RowOfKind<Kind>;
}

/** Conditions of a statement about one market. @param market and variant as they stand in it */
function whereSql<Kind extends MergedKind>(
  table: SeriesTable,
  of: { readonly market: string; readonly variant: () => string },
  { fromMs, toMs }: Span,
  where: readonly Condition<RowOfKind<Kind>>[],
  add: Add,
): string {
  const { variant } = seriesOf(table);
  const time = timeColumnOf(table);
  return [
    `market_id = ${of.market}`,
    ...(variant === null ? [] : [`${variant} = ${of.variant()}`]),
    `${time} >= ${timestampSql(add(fromMs))}`,
    `${time} < ${timestampSql(add(toMs))}`,
    ...where.map(({ sql }) => sql(add)),
  ].join(' AND ');
}

type Querying = Pick<Store, 'query'>;

/** Rows at one end of a span, from there on. */
export async function hotRows<Kind extends MergedKind>(
  store: Querying,
  { kind, marketId, variantS, where }: RowQuestion<Kind>,
  span: Span,
  end: 'newest' | 'oldest',
  limit: number,
): Promise<RowOfKind<Kind>[]> {
  const table = tableOfKind(kind);
  const { all, add } = values();
  const of = { market: add(marketId), variant: () => add(variantS) };
  const order = orderSql(table, end);
  const sql = `SELECT ${selectedSql(table)} FROM ${table}
    WHERE ${whereSql(table, of, span, where, add)} ORDER BY ${order} LIMIT ${add(limit)}`;
  const rows = await store.query<Readonly<Record<string, unknown>>>(sql, all);
  return rows.map((fields) => rowOf(kind, fields));
}

/** Returns the newest row of each market in a span. */
export async function newestOfMarkets<Kind extends MergedKind>(
  store: Querying,
  { kind, variantS, where }: Omit<RowQuestion<Kind>, 'marketId'>,
  marketIds: readonly number[],
  span: Span,
): Promise<RowOfKind<Kind>[]> {
  const table = tableOfKind(kind);
  const { all, add } = values();
  const of = { market: 'm.id', variant: () => add(variantS) };
  const order = orderSql(table, 'newest');
  const sql = `SELECT found.* FROM unnest(${add(marketIds)}::int[]) AS m(id), LATERAL (
    SELECT ${selectedSql(table)} FROM ${table}
    WHERE ${whereSql(table, of, span, where, add)} ORDER BY ${order} LIMIT 1) found`;
  const rows = await store.query<Readonly<Record<string, unknown>>>(sql, all);
  return rows.map((fields) => rowOf(kind, fields));
}

/** An observed series. */
export interface Series {
  readonly marketId: number;
  /** Period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
}

/** When a row can be seen, where that is not its own time. UNIX milliseconds. */
export interface SeenAt<Row> {
  readonly sql: string;
  readonly of: (row: Row) => number;
}

/** UNIX milliseconds of the first row of any of several series that meets conditions; null: there is none. */
export async function firstHot<Kind extends MergedKind>(
  store: Querying,
  kind: Kind,
  series: readonly Series[],
  where: readonly Condition<RowOfKind<Kind>>[],
  span: Span,
  seenAt: string | undefined,
): Promise<number | null> {
  const table = tableOfKind(kind);
  const time = timeColumnOf(table);
  const { all, add } = values();
  const lists = [
    `${add(series.map(({ marketId }) => marketId))}::int[]`,
    `${add(series.map(({ variantS }) => variantS))}::int[]`,
  ];
  const of = { market: 'm.id', variant: () => 'm.variant' };
  const sql = `SELECT min(found.at) AS "atMs"
    FROM unnest(${lists.join(', ')}) AS m(id, variant), LATERAL (
      SELECT ${millisSql(seenAt ?? time)} AS at FROM ${table}
      WHERE ${whereSql(table, of, span, where, add)}
      ORDER BY ${orderOf(table).join(', ')} LIMIT 1) found`;
  const [row] = await store.query<{ readonly atMs: number | null }>(sql, all);
  return row?.atMs ?? null;
}

/** UNIX milliseconds at which a row of files happened. */
export function timeOfRow<Kind extends MergedKind>(kind: Kind): (row: RowOfKind<Kind>) => number {
  const table = tableOfKind(kind);
  const column = columnOf(table, timeColumnOf(table));
  return (row) => rankOf(column, row[column.field as keyof RowOfKind<Kind>]) as number;
}
