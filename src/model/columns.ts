import { decimalSign, equalDecimals, isDecimalText } from '../kernel/decimal.js';
import { DAY_MS } from '../kernel/durations.js';
import type { Span } from '../kernel/span.js';
import { isoMs, isoUs, timestampUs } from '../kernel/timestamp.js';

/**
 * The types of columns, a record each: what a value is in a row of this program, in Postgres and in files,
 * how it crosses between them, and what of it can be stored. Series (series.ts) are made of these.
 */

/** Type of a column, as files and reports name it. Decimals are exact; `decimals` is a list of them. */
export type ColumnForm = 'timestamp' | 'integer' | 'text' | 'decimal' | 'decimals';

/** The names of a form in files. The types of decimals in DuckDB depend on their digits. */
interface FormNames {
  readonly duck: string | null;
  readonly csv: string;
  readonly ndjson: string;
}

export const FORM_NAMES: Readonly<Record<ColumnForm, FormNames>> = {
  timestamp: {
    duck: 'TIMESTAMPTZ',
    csv: 'timestamp as 2026-01-31 12:00:00.5+00',
    ndjson: 'timestamp, ISO 8601',
  },
  integer: { duck: 'BIGINT', csv: 'integer', ndjson: 'integer' },
  text: { duck: 'VARCHAR', csv: 'text', ndjson: 'text' },
  decimal: {
    duck: null,
    csv: 'decimal, all digits as stored',
    ndjson: 'decimal in quotes, all digits as stored',
  },
  decimals: {
    duck: null,
    csv: 'JSON array of decimals',
    ndjson: 'array of decimals in quotes',
  },
};

/**
 * Source of the digits of a decimal: those of the market's prices or amounts, of both together, or of sums,
 * which have the digits of several numbers.
 */
export type Measure = 'price' | 'amount' | 'product' | 'sum';

/** One type of column. */
export interface ColumnType<Value> {
  readonly form: ColumnForm;
  /** Bytes in a row of Postgres: what is of one width lies together. 0: of any length. */
  readonly width: 8 | 4 | 0;
  /** Digits of decimals. */
  readonly measure?: Measure;
  /** True if a value may be unknown. */
  readonly isNullable?: true;
  /** The text of a value for COPY, before escapes. */
  encode(value: Value): string;
  /** Value from its JSON form: text, a number (of timestamps: microseconds), or a list of texts. */
  decode(json: unknown): Value;
  /** Reason that keeps a value from being stored, to be read after the name of its column. */
  faultOf(value: Value): string | undefined;
  /** Returns true if two texts of {@link ColumnType.encode} mean the same. */
  isSame(a: string, b: string): boolean;
  /** Reads a timestamp: UNIX milliseconds of a value, cut down to whole ones. */
  toMs?(value: Value): number;
}

const NOT_STORABLE = 'not storable';
/** The end of ISO's calendar. */
const MAX_TIMESTAMP_MS = 253_402_300_799_999;
const MAX_INT4 = 2 ** 31 - 1;
/** Most levels a side of a book. */
const MAX_LEVELS = 10_000;

const isSameText = (a: string, b: string) => a === b;

/** Returns true if a number is a timestamp that can be stored, UNIX milliseconds. */
export function isTimestampMs(ms: number): boolean {
  return Number.isInteger(ms) && ms >= 0 && ms <= MAX_TIMESTAMP_MS;
}

/**
 * Times that can be real, both ends inclusive: from the first exchanges to a day past the present, so that
 * a mistake of unit or clock makes neither rows nor partitions.
 *
 * @param presentMs exchange time
 */
export function saneWindow(presentMs: number): Span {
  return { fromMs: Date.UTC(2009, 0, 1), toMs: presentMs + DAY_MS };
}

/** Returns true if a number fits into four bytes and is not below zero. */
export function isInt4(value: number): boolean {
  return Number.isInteger(value) && value >= 0 && value <= MAX_INT4;
}

const unless = (isStorable: boolean) => (isStorable ? undefined : NOT_STORABLE);

function timestamp(
  unitUs: number,
  faultOf: (value: number) => string | undefined,
): ColumnType<number> {
  return {
    ...{ form: 'timestamp', width: 8, faultOf, isSame: isSameText },
    toMs: (value) => (unitUs < 1000 ? Math.floor(value / 1000) : value * (unitUs / 1000)),
    encode: (value) => (unitUs < 1000 ? isoUs(value) : isoMs(value * (unitUs / 1000))),
    decode: (json) => (typeof json === 'number' ? json : timestampUs(String(json))) / unitUs,
  };
}

/** A whole second, as a number of seconds. */
export const seconds = timestamp(1_000_000, (value) =>
  Number.isInteger(value) ? unless(isTimestampMs(value * 1000)) : 'not a whole second',
);
/** A number of milliseconds. */
export const millis = timestamp(1000, (value) => unless(isTimestampMs(value)));
/** A number of microseconds. */
export const micros = timestamp(1, (value) =>
  unless(Number.isSafeInteger(value) && isTimestampMs(Math.floor(value / 1000))),
);

function whole(width: 8 | 4, isStorable: (value: number) => boolean): ColumnType<number> {
  return {
    ...{ form: 'integer', width, encode: String, decode: Number, isSame: isSameText },
    faultOf: (value) => unless(isStorable(value)),
  };
}

/** A whole number of eight bytes, as far as JavaScript holds it exactly. */
export const int8 = whole(8, Number.isSafeInteger);
/** Ids above zero, as exchanges give them. */
export const positiveInt8 = whole(8, (value) => Number.isSafeInteger(value) && value > 0);
/** A whole number of four bytes from zero on. */
export const int4 = whole(4, isInt4);
/** Seconds above zero, as a length in seconds is. */
export const positiveInt4 = whole(4, (value) => isInt4(value) && value > 0);

/** One of a few words. */
export function oneOf<const Word extends string>(...words: readonly Word[]): ColumnType<Word> {
  return {
    ...{ form: 'text', width: 0, encode: String, isSame: isSameText },
    decode: (json) => String(json) as Word,
    faultOf: (value) => (words.includes(value) ? undefined : 'not known'),
  };
}

/** How nearly all decimals look; short enough for every limit, and not below zero. */
const USUAL_DECIMAL = /^\d{1,39}(?:\.\d{1,39})?$/;
const HAS_VALUE = /[1-9]/;

/** Sign that a decimal must have: 1 above zero, 0 from zero on, −1 any. */
export type LeastSign = -1 | 0 | 1;

/** Why a text is no decimal that can be stored. */
export function decimalFault(text: string, least: LeastSign): string | undefined {
  if (USUAL_DECIMAL.test(text) && (least < 1 || HAS_VALUE.test(text))) return undefined;
  if (!isDecimalText(text)) return 'is not a decimal number';
  if (decimalSign(text) < least) return `is ${least === 1 ? 'not above zero' : 'negative'}`;
  return undefined;
}

const isSameDecimal = (a: string, b: string) =>
  a === b || (isDecimalText(a) && isDecimalText(b) && equalDecimals(a, b));

/** An exact number, as text in plain notation. */
export function decimal(measure: Measure, least: LeastSign = 0): ColumnType<string> {
  return {
    ...{ form: 'decimal', width: 0, measure, encode: String, decode: String },
    faultOf: (value) => decimalFault(value, least),
    isSame: isSameDecimal,
  };
}

const elements = (text: string) => (text === '{}' ? [] : text.slice(1, -1).split(','));

/** A list of exact numbers above zero, one for each level of a side of a book. */
export function levels(measure: Measure): ColumnType<readonly string[]> {
  return {
    ...{ form: 'decimals', width: 0, measure, encode: (values) => `{${values.join(',')}}` },
    decode: (json) => (json as readonly unknown[]).map(String),
    faultOf: (values) => {
      if (values.length > MAX_LEVELS) return 'has too many levels';
      for (const one of values) {
        const fault = decimalFault(one, 1);
        if (fault !== undefined) return `has a level that ${fault}`;
      }
      return undefined;
    },
    isSame: (a, b) => {
      const [of, others] = [elements(a), elements(b)];
      return (
        of.length === others.length && of.every((one, at) => isSameDecimal(one, others[at] ?? ''))
      );
    },
  };
}

/** A type whose values may be unknown. */
export function nullable<Value>(type: ColumnType<Value>): ColumnType<Value | null> {
  return {
    ...{ ...type, isNullable: true },
    encode: (value) => (value === null ? '' : type.encode(value)),
    decode: (json) => (json === null || json === undefined ? null : type.decode(json)),
    faultOf: (value) => (value === null ? undefined : type.faultOf(value)),
  };
}
