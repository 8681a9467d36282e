import { BadMomentError } from './errors.js';

/** An instant: ISO 8601 text (UTC where it names no zone), a Date, or whole UNIX microseconds. */
export type Moment = string | Date | number;

const FORM =
  /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?(Z|[+-]\d\d(?::?\d\d)?)?)?$/;
/** Microseconds of 1973: what is less was meant to be milliseconds or seconds. */
const LEAST_US = 1e14;

/**
 * An instant as whole UNIX microseconds.
 *
 * @throws BadMomentError for text that is no instant, and for numbers that are not microseconds of a
 * year between 1973 and 2255
 */
export function microsOf(time: Moment): number {
  if (typeof time === 'number') {
    if (time < LEAST_US) throw new BadMomentError(String(time));
    return exact(time, String(time));
  }
  if (typeof time !== 'string') {
    const ms = time.getTime();
    if (Number.isNaN(ms)) throw new BadMomentError('an invalid Date');
    return exact(ms * 1000, time.toISOString());
  }
  const [, day, minutes = '00:00', seconds = '00', fraction = '', zone = 'Z'] =
    FORM.exec(time.trim()) ?? [];
  if (day === undefined) throw new BadMomentError(JSON.stringify(time));
  const offset = zone.length === 3 ? `${zone}:00` : zone;
  const ms = Date.parse(`${day}T${minutes}:${seconds}${offset}`);
  const isDay = new Date(Date.parse(`${day}T00:00Z`)).toJSON()?.slice(0, 10) === day;
  if (Number.isNaN(ms) || !isDay) throw new BadMomentError(JSON.stringify(time));
  return exact(ms * 1000 + Number(fraction.padEnd(6, '0')), time);
}

/** Integers are exact up to the year 2255. */
function exact(us: number, given: string): number {
  if (Number.isSafeInteger(us)) return us;
  throw new BadMomentError(given);
}

/** `2026-01-31T12:00:00.000001Z`, of UNIX microseconds. */
export function isoOf(us: number): string {
  const seconds = Math.floor(us / 1_000_000);
  const fraction = String(us - seconds * 1_000_000).padStart(6, '0');
  return `${new Date(seconds * 1000).toISOString().slice(0, 19)}.${fraction}Z`;
}

/** The Date of UNIX microseconds; what is less than a millisecond is cut off. */
export function dateOf(us: number): Date {
  return new Date(Math.floor(us / 1000));
}
