import { DAY_US, SECOND_US } from '../../kernel/durations.js';
import { decimalSql } from '../parquet/columns.js';
import type { Cells } from '../parquet/session.js';
import { shortest } from '../parquet/values.js';
import { refused } from './errors.js';
import type { Writer } from './frames.js';
import { divide, type Quotient, roundDigits, type Sql, shownSql } from './numbers.js';
import { type Digits, decimalText, type PgType } from './values.js';

/** Values of a result as the text that Postgres has for them. */

/** One column of a result. */
export interface Output {
  readonly name: string;
  readonly type: PgType;
  /** SQL of the cells that it is made of. */
  readonly cells: readonly string[];
  /** Writes the value of a row with its length. */
  write(out: Writer, cells: readonly Cells[], row: number): void;
}

const [ZERO, POINT, MINUS, COLON, SPACE, PLUS] = [48, 46, 45, 58, 32, 43];
/** Bytes of the longest number or time. */
const ROOM = 64;
const HALF = 1_000_000_000;

/** Writes a whole number, exact in a float, with zeros before it. @returns where it ends */
function padded(block: Buffer, at: number, value: number, width: number): number {
  let rest = value;
  for (let place = at + width - 1; place >= at; place -= 1) {
    const next = Math.floor(rest / 10);
    block[place] = ZERO + (rest - next * 10);
    rest = next;
  }
  return at + width;
}

function whole(block: Buffer, at: number, value: number): number {
  if (value >= HALF) {
    const high = Math.floor(value / HALF);
    return padded(block, whole(block, at, high), value - high * HALF, 9);
  }
  let width = 1;
  for (let limit = 10; value >= limit; limit *= 10) width += 1;
  return padded(block, at, value, width);
}

/** Writes the value of a field by a function that returns where it ends. */
function field(out: Writer, put: (block: Buffer, at: number) => number): void {
  const block = out.room(ROOM + 4);
  const start = out.at;
  const end = put(block, start + 4);
  block.writeInt32BE(end - start - 4, start);
  out.at = end;
}

function text(out: Writer, value: string): void {
  const length = Buffer.byteLength(value);
  const block = out.room(length + 4);
  block.writeInt32BE(length, out.at);
  block.write(value, out.at + 4);
  out.at += length + 4;
}

const none = (out: Writer) => void out.int32(-1);

const isSafe = (value: bigint) =>
  value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER;

function integerOutput(out: Writer, value: bigint): void {
  if (!isSafe(value)) {
    text(out, String(value));
    return;
  }
  const number = Number(value);
  field(out, (block, at) => {
    if (number >= 0) return whole(block, at, number);
    block[at] = MINUS;
    return whole(block, at + 1, -number);
  });
}

/** Writes a decimal with as few digits after the point as it needs. */
function decimalOutput(out: Writer, value: bigint | number, scale: number, unit: number): void {
  if (typeof value === 'bigint' && !isSafe(value)) {
    text(out, shortest(decimalText(value, scale)));
    return;
  }
  const number = Number(value);
  field(out, (block, from) => {
    let at = from;
    if (number < 0) {
      block[at] = MINUS;
      at += 1;
    }
    const units = Math.abs(number);
    const ones = Math.floor(units / unit);
    const rest = units - ones * unit;
    at = whole(block, at, ones);
    if (rest === 0) return at;
    block[at] = POINT;
    at += 1;
    if (scale > 9) {
      const high = Math.floor(rest / HALF);
      at = padded(block, padded(block, at, high, scale - 9), rest - high * HALF, 9);
    } else {
      at = padded(block, at, rest, scale);
    }
    while (block[at - 1] === ZERO) at -= 1;
    return at;
  });
}

/** Writes times next to each other: their day is taken apart once. */
class Times {
  #day = Number.NaN;
  #date = '';

  write(out: Writer, value: bigint): void {
    const us = Number(value);
    const day = Math.floor(us / DAY_US);
    if (day !== this.#day) {
      this.#day = day;
      this.#date = dateText(day);
    }
    field(out, (block, from) => {
      let at = from + block.write(this.#date, from, 'latin1');
      const ofDay = us - day * DAY_US;
      const seconds = Math.floor(ofDay / SECOND_US);
      const fraction = ofDay - seconds * SECOND_US;
      block[at] = SPACE;
      at = clock(block, at + 1, seconds, fraction);
      block[at] = PLUS;
      return padded(block, at + 1, 0, 2);
    });
  }
}

/** `02:03:04.5` */
function clock(block: Buffer, from: number, seconds: number, fraction: number): number {
  const hours = Math.floor(seconds / 3600);
  let at = hours < 100 ? padded(block, from, hours, 2) : whole(block, from, hours);
  block[at] = COLON;
  at = padded(block, at + 1, Math.floor(seconds / 60) % 60, 2);
  block[at] = COLON;
  at = padded(block, at + 1, seconds % 60, 2);
  if (fraction === 0) return at;
  block[at] = POINT;
  at = padded(block, at + 1, fraction, 6);
  while (block[at - 1] === ZERO) at -= 1;
  return at;
}

/** `2026-01-31` of days since 1970. */
function dateText(day: number): string {
  return new Date((day * DAY_US) / 1000).toISOString().slice(0, 10);
}

/** A difference of two times: days and a time of one sign. */
export function intervalText(us: bigint): string {
  const size = us < 0n ? -us : us;
  const days = Number(size / BigInt(DAY_US));
  const ofDay = Number(size % BigInt(DAY_US));
  const sign = us < 0n ? '-' : '';
  const named = days === 0 ? '' : `${sign}${days} day${days === 1 && sign === '' ? '' : 's'}`;
  if (ofDay === 0 && days > 0) return named;
  const block = Buffer.alloc(ROOM);
  const seconds = Math.floor(ofDay / SECOND_US);
  const end = clock(block, 0, seconds, ofDay - seconds * SECOND_US);
  return `${named}${days === 0 ? '' : ' '}${sign}${block.toString('latin1', 0, end)}`;
}

/** Decimal exponents from which on Postgres writes a float with an exponent. */
const [FLOAT_LEAST, FLOAT_MOST] = [-4, 15];

/** The shortest text of a `double precision`, in the form of Postgres. */
export function doubleText(value: number): string {
  if (!Number.isFinite(value))
    return Number.isNaN(value) ? 'NaN' : value > 0 ? 'Infinity' : '-Infinity';
  if (value === 0) return Object.is(value, -0) ? '-0' : '0';
  const [mantissa = '', power = '0'] = value.toExponential().split('e');
  const exponent = Number(power);
  if (exponent < FLOAT_LEAST || exponent >= FLOAT_MOST) {
    const digits = String(Math.abs(exponent)).padStart(2, '0');
    return `${mantissa}e${exponent < 0 ? '-' : '+'}${digits}`;
  }
  const sign = value < 0 ? '-' : '';
  const digits = mantissa.replace(/[-.]/g, '');
  if (exponent < 0) return `${sign}0.${'0'.repeat(-exponent - 1)}${digits}`;
  const ones = digits.slice(0, exponent + 1).padEnd(exponent + 1, '0');
  const rest = digits.slice(exponent + 1);
  return `${sign}${ones}${rest === '' ? '' : `.${rest}`}`;
}

const bigOf = (cell: Cells | undefined, row: number): bigint | null => {
  const value = cell?.getItem(row) ?? null;
  return value === null ? null : BigInt(value as bigint | number);
};
const unitsOf = (cell: Cells | undefined, row: number): bigint | null => {
  const value = cell?.getScaledValue?.(row) ?? null;
  return value === null ? null : BigInt(value);
};

/** Number with the digits that it shows, from two cells. */
function digitsOfCells(
  cells: readonly Cells[],
  at: number,
  scale: number,
  row: number,
): Digits | null {
  const units = unitsOf(cells[at], row);
  if (units === null) return null;
  const shown = Number(bigOf(cells[at + 1], row) ?? 0n);
  return { units, scale, shown };
}

type Make = Pick<Output, 'cells' | 'write'>;

function whenThere<T>(
  read: (cells: readonly Cells[], row: number) => T | null,
  put: (out: Writer, value: T) => void,
) {
  return (out: Writer, cells: readonly Cells[], row: number) => {
    const value = read(cells, row);
    if (value === null) none(out);
    else put(out, value);
  };
}

function numericOutput({ sql, form, shown, raw }: Sql): Make {
  if (raw !== undefined) {
    const read = (cells: readonly Cells[], row: number) =>
      (cells[0]?.getItem(row) ?? null) as string | null;
    return { cells: [raw], write: whenThere(read, (out, value) => text(out, shortest(value))) };
  }
  if (form === undefined) throw refused('this number as a result');
  const { scale } = form;
  const typed = `CAST(${sql} AS ${decimalSql(form)})`;
  if (shown === undefined) {
    const unit = 10 ** scale;
    return {
      cells: [typed],
      write(out, cells, row) {
        const value = cells[0]?.getScaledValue?.(row) ?? null;
        if (value === null) none(out);
        else decimalOutput(out, value, scale, unit);
      },
    };
  }
  return {
    cells: [typed, `CAST(${shown} AS BIGINT)`],
    write: whenThere(
      (cells, row) => digitsOfCells(cells, 0, scale, row),
      (out, { units, shown: places }) => {
        const { units: cut } = roundDigits(units, scale, places);
        text(out, decimalText(cut, places));
      },
    ),
  };
}

function quotientOutput({ over, under, places }: Quotient): Make {
  const [a, b] = [over, under].map((one) => {
    const form = one.form ?? { precision: 1, scale: 0 };
    const cells = [`CAST(${one.sql} AS ${decimalSql(form)})`, `CAST(${shownSql(one)} AS BIGINT)`];
    return { scale: form.scale, cells };
  });
  const [scaleA, scaleB] = [a?.scale ?? 0, b?.scale ?? 0];
  return {
    cells: [...(a?.cells ?? []), ...(b?.cells ?? [])],
    write(out, cells, row) {
      const [one, other] = [
        digitsOfCells(cells, 0, scaleA, row),
        digitsOfCells(cells, 2, scaleB, row),
      ];
      if (one === null || other === null) return none(out);
      const quotient = divide(one, other);
      const made =
        places === undefined ? quotient : roundDigits(quotient.units, quotient.scale, places);
      text(out, decimalText(made.units, made.scale));
    },
  };
}

function makerOf(one: Sql): Make {
  const { sql, type } = one;
  const ofBig = (made: string, put: (out: Writer, value: bigint) => void): Make => ({
    cells: [made],
    write: whenThere((cells, row) => bigOf(cells[0], row), put),
  });
  const times = new Times();
  switch (type) {
    case 'int4':
    case 'int8':
      return ofBig(`CAST(${sql} AS BIGINT)`, integerOutput);
    case 'timestamptz':
      return ofBig(`epoch_us(${sql})`, (out, us) => times.write(out, us));
    case 'interval':
      return ofBig(`CAST(${sql} AS BIGINT)`, (out, us) => text(out, intervalText(us)));
    case 'numeric':
      return one.quotient === undefined ? numericOutput(one) : quotientOutput(one.quotient);
    case 'bool':
      return {
        cells: [`CAST(${sql} AS BOOLEAN)`],
        write: whenThere(
          (cells, row) => (cells[0]?.getItem(row) ?? null) as boolean | null,
          (out, value) => text(out, value ? 't' : 'f'),
        ),
      };
    case 'float8':
      return {
        cells: [`CAST(${sql} AS DOUBLE)`],
        write: whenThere(
          (cells, row) => (cells[0]?.getItem(row) ?? null) as number | null,
          (out, value) => text(out, doubleText(value)),
        ),
      };
    case 'numeric[]':
      return {
        cells: [
          `CASE WHEN ${sql} IS NOT NULL THEN array_to_string(CAST(${sql} AS VARCHAR[]), ',') END`,
        ],
        write: whenThere(
          (cells, row) => (cells[0]?.getItem(row) ?? null) as string | null,
          (out, value) =>
            text(out, `{${value === '' ? '' : value.split(',').map(shortest).join(',')}}`),
        ),
      };
    case 'enum':
      return {
        cells: [`CAST(${sql} AS VARCHAR)`],
        write: whenThere((cells, row) => (cells[0]?.getItem(row) ?? null) as string | null, text),
      };
    case 'unknown':
      if (one.constant === null) return { cells: [], write: none };
      throw refused('a text as a result');
  }
}

/** The column of a result for an expression. @throws EndpointError where its text cannot be said */
export function outputOf(name: string, one: Sql): Output {
  if (one.type === 'interval' && one.constant !== undefined)
    throw refused('an interval as a result');
  return { name, type: one.type, ...makerOf(one) };
}

/** Describes the columns of a result. */
export function describe(
  out: Writer,
  outputs: readonly Output[],
  oidOf: (type: PgType) => number,
): void {
  out.begin('T').int16(outputs.length);
  for (const { name, type } of outputs) {
    out.text(name).int32(0).int16(0).int32(oidOf(type)).int16(-1).int32(-1).int16(0);
  }
  out.end();
}

/** Writes one row. @throws EndpointError for a division by zero; nothing of the row is left then */
export function writeRow(
  out: Writer,
  outputs: readonly Output[],
  cells: readonly (readonly Cells[])[],
  row: number,
): void {
  const start = out.at;
  try {
    out.begin('D').int16(outputs.length);
    for (let at = 0; at < outputs.length; at += 1) outputs[at]?.write(out, cells[at] ?? [], row);
    out.end();
  } catch (error) {
    out.at = start;
    throw error;
  }
}
