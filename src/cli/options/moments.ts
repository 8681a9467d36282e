import { InvalidArgumentError } from 'commander';
import { DURATION_FORM, parseDuration } from '../../config/durations.js';

/** A moment as an option tells it: fixed, or counted back from now. */
export type Moment = { readonly atMs: number } | { readonly backMs: number };

const FORM = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d{1,3})?)?)(Z|[+-]\d\d:\d\d)?)?$/;

/**
 * Reads a moment of an option: a day or a time in ISO 8601 (UTC unless it names its zone), or a
 * duration back from now.
 *
 * @throws InvalidArgumentError saying what is allowed; commander adds option and value
 */
export function momentArgument(text: string): Moment {
  const backMs = parseDuration(text);
  if (backMs !== undefined) return { backMs };
  const [, day, time, zone] = FORM.exec(text.trim()) ?? [];
  if (day !== undefined) {
    const ms = Date.parse(`${day}T${time ?? '00:00'}${zone ?? 'Z'}`);
    const isDay = new Date(Date.parse(`${day}T00:00Z`)).toJSON()?.slice(0, 10) === day;
    if (!Number.isNaN(ms) && isDay) return { atMs: ms };
  }
  throw new InvalidArgumentError(
    `Write a day such as 2026-01-31, a time such as 2026-01-31T12:00:00Z (UTC unless a zone follows), or ${DURATION_FORM} back from now.`,
  );
}

/** The moment in UNIX milliseconds, with the exchange's time as now. */
export function resolveMoment(moment: Moment, nowMs: number): number {
  return 'atMs' in moment ? moment.atMs : nowMs - moment.backMs;
}

/** `2026-01-31 12:00:00`, UTC; milliseconds only where there are any. */
export function formatMoment(ms: number): string {
  const text = new Date(ms).toISOString().replace('T', ' ').slice(0, -1);
  return text.endsWith('.000') ? text.slice(0, -4) : text;
}
