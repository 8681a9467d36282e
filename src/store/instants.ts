/**
 * Times cross the border to Postgres as numbers of milliseconds, which both sides hold exactly.
 * These are the pieces of SQL that turn them into timestamps and back.
 */

/** SQL for the timestamp that `expression` (a number of milliseconds) means. */
export function fromMs(expression: string): string {
  return `(timestamptz 'epoch' + ${expression}::float8 * interval '1 ms')`;
}

/** SQL for the milliseconds of a timestamp, as a JavaScript number. */
export function toMs(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000)::float8`;
}
