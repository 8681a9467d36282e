import type { ColumnForm } from '../../model/columns.js';
import type { Column } from '../../model/series.js';
import { type DecimalForm, decimalSql, MAX_PRECISION } from '../parquet/columns.js';
import { literal } from '../parquet/session.js';
import { EndpointError, refused, SQLSTATE } from './errors.js';

/**
 * Types of Postgres that the endpoint knows, and their values as text. No series has a column of text, so that
 * Postgres never sends an expression over text: those depend on a collation, which it keeps at home.
 */

export type PgType =
  | 'bool'
  | 'int4'
  | 'int8'
  | 'numeric'
  | 'float8'
  | 'timestamptz'
  | 'interval'
  | 'enum'
  | 'numeric[]'
  | 'unknown';

/** Object ids of the types in a description of rows. An enum's differs between databases: that of text. */
export const TYPE_OIDS: Readonly<Record<PgType, number>> = {
  ...{ bool: 16, int8: 20, int4: 23, float8: 701, timestamptz: 1184, interval: 1186 },
  ...{ numeric: 1700, 'numeric[]': 1231, enum: 25, unknown: 25 },
};

/** Names that the parser gives to types, with and without pg_catalog. */
const TYPE_NAMES: Readonly<Record<string, PgType>> = {
  ...{ bool: 'bool', int2: 'int4', int4: 'int4', int8: 'int8', numeric: 'numeric' },
  ...{ float8: 'float8', timestamptz: 'timestamptz', interval: 'interval' },
} as const;

/** Type of a name; undefined for what is not known here. */
export function typeNamed(name: string): PgType | undefined {
  return TYPE_NAMES[name];
}

const FORM_TYPES: Readonly<Record<ColumnForm, PgType>> = {
  ...{ timestamp: 'timestamptz', integer: 'int8', text: 'enum', decimal: 'numeric' },
  decimals: 'numeric[]',
} as const;

/** Type of a column of a series in Postgres. */
export function typeOfColumn({ type }: Column): PgType {
  return type.form === 'integer' && type.width === 4 ? 'int4' : FORM_TYPES[type.form];
}

export const INT_TYPES: ReadonlySet<PgType> = new Set(['int4', 'int8']);
export const NUMBER_TYPES: ReadonlySet<PgType> = new Set(['int4', 'int8', 'numeric', 'float8']);

/** An exact number by its digits: `−12.50` has the units −125, the scale 1, and shows 2 digits. */
export interface Digits {
  readonly units: bigint;
  /** Digits after the point, without zeros at their end. */
  readonly scale: number;
  /** Digits after the point as Postgres shows them. */
  readonly shown: number;
}

const NUMBER = /^([+-]?)(\d*)\.?(\d*)(?:e([+-]?\d{1,4}))?$/i;
/** Beyond this neither side has numbers. */
const MAX_EXPONENT = 400;

/** Reads a number; undefined for none, such as NaN. */
export function digitsOf(text: string): Digits | undefined {
  const [, sign, whole = '', fraction = '', power = '0'] = NUMBER.exec(text.trim()) ?? [];
  if (whole + fraction === '' || Math.abs(Number(power)) > MAX_EXPONENT) return undefined;
  let units = BigInt(whole + fraction) * (sign === '-' ? -1n : 1n);
  let scale = fraction.length - Number(power);
  if (scale < 0) {
    units *= 10n ** BigInt(-scale);
    scale = 0;
  }
  const shown = scale;
  while (scale > 0 && units % 10n === 0n) {
    units /= 10n;
    scale -= 1;
  }
  return { units, scale, shown };
}

/** Text of a number of so many units after the point. */
export function decimalText(units: bigint, scale: number): string {
  const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, '0');
  const text =
    scale === 0 ? digits : `${digits.slice(0, -scale)}.${digits.slice(digits.length - scale)}`;
  return units < 0n ? `-${text}` : text;
}

/** Least type that holds a number; undefined if none does. */
export function formOf({ units, scale }: Digits): DecimalForm | undefined {
  const digits = (units < 0n ? -units : units).toString().length;
  const precision = Math.max(digits, scale + 1);
  return precision > MAX_PRECISION ? undefined : { precision, scale };
}

/** A number as a literal of its form. */
export function decimalLiteral(digits: Digits, form: DecimalForm): string {
  return `CAST(${literal(decimalText(digits.units, digits.scale))} AS ${decimalSql(form)})`;
}

const TIMESTAMP =
  /^(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?(?:([+-])(\d\d)(?::(\d\d))?(?::(\d\d))?)?$/;

/**
 * Reads a timestamp as Postgres writes it for another server, style ISO, with any offset.
 *
 * @returns microseconds, or an infinity
 * @throws EndpointError for any other text
 */
export function readTimestamp(text: string): bigint | 'infinity' | '-infinity' {
  if (text === 'infinity' || text === '-infinity') return text;
  const parts = TIMESTAMP.exec(text);
  if (parts === null) throw refused(`the timestamp ${literal(text)}`);
  const [year = 1, month = 1, day = 1, hour = 0, minute = 0, second = 0] = parts
    .slice(1, 7)
    .map((one) => Number(one ?? 0));
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  date.setUTCHours(hour, minute, second);
  const sign = parts[8];
  const [hours = 0, minutes = 0, seconds = 0] = parts.slice(9, 12).map((one) => Number(one ?? 0));
  const offset = BigInt((hours * 60 + minutes) * 60 + seconds) * 1_000_000n;
  const us = BigInt(date.getTime()) * 1000n + BigInt((parts[7] ?? '').padEnd(6, '0'));
  return sign === '-' ? us + offset : us - offset;
}

const INTERVAL =
  /^(?:(-?\d+) years? ?)?(?:(-?\d+) mons? ?)?(?:(-?\d+) days? ?)?(?:([+-]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?$/;
export const DAY_IN_US = 86_400_000_000n;

/** An interval as Postgres keeps it. */
export interface Interval {
  readonly months: bigint;
  readonly days: bigint;
  readonly us: bigint;
}

/** Reads an interval in the style of Postgres. @throws EndpointError for any other text */
export function readInterval(text: string): Interval {
  const parts = text === '' ? null : INTERVAL.exec(text);
  if (parts === null) throw refused(`the interval ${literal(text)}`);
  const [years, months, days] = parts.slice(1, 4).map((one) => BigInt(one ?? 0));
  const [hours, minutes, seconds] = parts.slice(5, 8).map((one) => BigInt(one ?? 0));
  const time = ((hours ?? 0n) * 60n + (minutes ?? 0n)) * 60n + (seconds ?? 0n);
  const us = time * 1_000_000n + BigInt((parts[8] ?? '').padEnd(6, '0'));
  return {
    months: (years ?? 0n) * 12n + (months ?? 0n),
    days: days ?? 0n,
    us: parts[4] === '-' ? -us : us,
  };
}

/** Length by which Postgres compares intervals: months of 30 days of 24 hours. */
export function comparedUs({ months, days, us }: Interval): bigint {
  return (months * 30n + days) * DAY_IN_US + us;
}

/** Elements of an array of one dimension as Postgres writes it; null for NULL. @throws EndpointError */
export function readArray(text: string): (string | null)[] {
  const malformed = () => new EndpointError(SQLSTATE.badValue, `malformed array ${literal(text)}`);
  if (!text.startsWith('{') || !text.endsWith('}')) throw malformed();
  const elements: (string | null)[] = [];
  let at = 1;
  const end = text.length - 1;
  while (at < end) {
    let element = '';
    const isQuoted = text[at] === '"';
    if (isQuoted) {
      for (at += 1; text[at] !== '"'; at += 1) {
        if (text[at] === '\\') at += 1;
        if (at >= end) throw malformed();
        element += text[at];
      }
      at += 1;
    } else {
      while (at < end && text[at] !== ',') {
        if ('{}"\\'.includes(text[at] ?? '')) throw refused(`the array ${literal(text)}`);
        element += text[at];
        at += 1;
      }
    }
    elements.push(!isQuoted && element === 'NULL' ? null : element);
    if (at < end && text[at] !== ',') throw malformed();
    at += 1;
  }
  return elements;
}
