import type { Span } from '../kernel/span.js';

/**
 * Times cross the border to Postgres as numbers of milliseconds, which both sides hold exactly.
 * These are the pieces of SQL that turn them into timestamps and ranges, and back.
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

/** SQL for the bounds of a range as the columns `fromMs` and `toMs`. */
export function boundsSql(range: string): string {
  return `${toMs(`lower(${range})`)} AS "fromMs", ${toMs(`upper(${range})`)} AS "toMs"`;
}

/** The values of rows, an array for each column, as parameters of an `unnest`. */
export function unnested<Row, Name extends keyof Row>(
  rows: readonly Row[],
  ...names: readonly Name[]
): Row[Name][][] {
  return names.map((name) => rows.map((row) => row[name]));
}

/** A row with the columns of {@link boundsSql} in place of its span. */
export type Flat<T extends { readonly span: Span }> = Omit<T, 'span'> & Span;

/** Puts the span of a row together. */
export function withSpan<T extends Span>({ fromMs, toMs, ...rest }: T) {
  return { ...rest, span: { fromMs, toMs } };
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
