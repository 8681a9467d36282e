import pg from 'pg';
import type { Span } from '../kernel/span.js';

/**
 * Times cross the border to Postgres as numbers of milliseconds, which both sides hold exactly.
 * These are the pieces of SQL that turn them into timestamps and ranges, and the readers of what
 * comes back.
 */

/** SQL for the timestamp that `expression` (a number of milliseconds) means. */
export function fromMs(expression: string): string {
  return `(timestamptz 'epoch' + ${expression}::float8 * interval '1 ms')`;
}

/** SQL for the milliseconds of a timestamp, as a JavaScript number. */
export function toMs(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000)::float8`;
}

/** SQL for the half-open range between two numbers of milliseconds. */
export function rangeSql(from: string, to: string): string {
  return `tstzrange(${fromMs(from)}, ${fromMs(to)})`;
}

/** SQL for the range of all that overlaps this one or touches it. */
export function touchingSql(from: string, to: string): string {
  return `tstzrange(${fromMs(from)} - interval '1 microsecond', ${fromMs(to)}, '[]')`;
}

/** The values of rows, an array for each column, as parameters of an `unnest`. */
export function unnested<Row, Name extends keyof Row>(
  rows: readonly Row[],
  ...names: readonly Name[]
): Row[Name][][] {
  return names.map((name) => rows.map((row) => row[name]));
}

const TIMESTAMPTZ = 1184;
const readDate = pg.types.getTypeParser(TIMESTAMPTZ) as (text: string) => Date | number;

/** Milliseconds with their microseconds, which a date would lose. */
function readMs(text: string): number {
  const fraction = /\.\d+/.exec(text)?.[0] ?? '';
  const us =
    Number(readDate(text.replace(fraction, ''))) * 1000 + Math.round(Number(fraction) * 1e6);
  return us / 1000;
}

/** Of a range with both bounds, such as `["2026-01-31 12:00:00+00","2026-02-01 00:00:00+00")`. */
function readSpan(text: string): Span {
  const bounds = text.slice(1, -1).replaceAll('"', '').split(',');
  const [fromMs, toMs] = bounds.map(readMs) as [number, number];
  return { fromMs, toMs };
}

const READERS = new Map<number, (text: string) => unknown>([
  [20, Number], // bigint: nothing above 2^53 is let in
  [TIMESTAMPTZ, readMs],
  [3910, readSpan], // tstzrange
]);

/** How the driver reads values: bigints and timestamps as numbers, ranges of time as spans. */
export const ROW_TYPES = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    READERS.get(oid) ?? pg.types.getTypeParser(oid, format),
} as pg.CustomTypesConfig;

/** Rows with the names of the program: `next_try_at`, a timestamp, becomes `nextTryAtMs`. */
export function namedRows({ rows, fields }: pg.QueryResult<Record<string, unknown>>): object[] {
  const names = fields.map(({ name, dataTypeID }) => {
    const camelCase = name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
    return [name, dataTypeID === TIMESTAMPTZ ? `${camelCase}Ms` : camelCase] as const;
  });
  if (names.every(([column, name]) => column === name)) return rows;
  return rows.map((row) => Object.fromEntries(names.map(([column, name]) => [name, row[column]])));
}

/**
 * Several statements in one message, because each message costs the way to the server and back, and
 * the server waits meanwhile.
 */

/** A statement that a connection of the writer knows by name, so that it can stand in a script. */
export interface NamedStatement {
  readonly name: string;
  /** Of its parameters, in order. */
  readonly types: readonly string[];
  readonly sql: string;
}

type Scalar = string | number | null;

/** A statement with its values. */
export type NamedCall = readonly [
  statement: NamedStatement,
  values: readonly (string | readonly Scalar[])[],
];

/** SQL that makes a connection know the statement. */
export function prepareSql({ name, types, sql }: NamedStatement): string {
  return `PREPARE ${name} (${types.join(', ')}) AS ${sql}`;
}

/** SQL that runs it. Values are written as hexadecimal digits: whatever is in them, it stays a value. */
export function executeSql(
  { name, types }: NamedStatement,
  values: readonly (string | readonly Scalar[])[],
): string {
  const given = values.map((value, index) => {
    const text = typeof value === 'string' ? value : arrayText(value);
    const digits = Buffer.from(text, 'utf8').toString('hex');
    return `convert_from(decode('${digits}', 'hex'), 'UTF8')::${types[index] ?? 'text'}`;
  });
  return `EXECUTE ${name}(${given.join(', ')})`;
}

/** The text form of an array (Postgres manual, Arrays). */
function arrayText(values: readonly Scalar[]): string {
  const elements = values.map((value) => {
    if (typeof value === 'string') return `"${value.replace(/[\\"]/g, '\\$&')}"`;
    return value === null ? 'NULL' : `${value}`;
  });
  return `{${elements.join(',')}}`;
}
