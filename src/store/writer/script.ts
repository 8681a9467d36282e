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
