import type { SeriesColumn } from '../../model/kinds.js';
import { type DuckSession, identifier, literal } from './session.js';

/** Rows as text in a file: CSV without header, as the store writes it, a text column or more before. */
export interface StagedRows {
  readonly path: string;
  readonly columns: readonly SeriesColumn[];
}

/** A column as it is written: its type in SQL, which holds every value of the rows exactly. */
export interface TypedColumn extends SeriesColumn {
  readonly sqlType: string;
  /** Digits after the point of decimals that are not kept as text; else null. */
  readonly scale: number | null;
}

/** A decimal type: digits in all, and digits after the point. */
export interface DecimalForm {
  readonly precision: number;
  readonly scale: number;
}

/**
 * The only types that a column may have, by its name: the first of them that holds every value is
 * taken, and where none does it stays text. What is not named gets the digits that its rows need.
 */
export type DecimalForms = Readonly<Record<string, readonly DecimalForm[]>>;

/** Up to this many digits a decimal is one 64-bit integer in the file. */
const SMALL_PRECISION = 18;
/** No file format has exact decimals with more. */
const MAX_PRECISION = 38;

/** The rows of a staged file, with decimals still as text. */
export function stagedSql({ path, columns }: StagedRows): string {
  const types = columns.map(({ name, type }) => {
    const read = type === 'timestamp' ? 'TIMESTAMPTZ' : type === 'integer' ? 'BIGINT' : 'VARCHAR';
    return `${identifier(name)}: ${literal(read)}`;
  });
  return `read_csv(${literal(path)}, auto_detect = false, header = false, delim = ',', quote = '"',
    escape = '"', nullstr = '', columns = {${types.join(', ')}})`;
}

const integerDigits = (text: string) => `length(split_part(ltrim(${text}, '-'), '.', 1))`;
const fractionDigits = (text: string) => `length(rtrim(split_part(${text}, '.', 2), '0'))`;

function digitsSql({ name, type }: SeriesColumn): string[] {
  const column = identifier(name);
  return [integerDigits, fractionDigits].map((digits) => {
    const one =
      type === 'decimals'
        ? `list_max(list_transform(${column}::VARCHAR[], lambda x: ${digits('x')}))`
        : digits(column);
    return `coalesce(max(${one}), 0)::INTEGER`;
  });
}

/** The digits before and after the point that the values of a column need. */
interface Digits {
  readonly integer: number;
  readonly fraction: number;
}

function leastForm({ integer, fraction }: Digits): DecimalForm | undefined {
  const digits = integer + fraction;
  if (digits > MAX_PRECISION) return undefined;
  return {
    scale: fraction,
    precision: digits <= SMALL_PRECISION ? SMALL_PRECISION : MAX_PRECISION,
  };
}

function typeDecimal(
  column: SeriesColumn,
  digits: Digits,
  allowed: readonly DecimalForm[] | undefined,
): TypedColumn {
  const form =
    allowed === undefined
      ? leastForm(digits)
      : allowed.find(
          ({ precision, scale }) => digits.fraction <= scale && digits.integer <= precision - scale,
        );
  const suffix = column.type === 'decimals' ? '[]' : '';
  if (form === undefined) return { ...column, sqlType: `VARCHAR${suffix}`, scale: null };
  const { precision, scale } = form;
  return { ...column, sqlType: `DECIMAL(${precision},${scale})${suffix}`, scale };
}

/**
 * Chooses types that hold every value exactly. Decimals get the digits that the rows need, without
 * zeros at their ends, as far as the choice is free; what no decimal can hold stays text.
 */
export async function typeColumns(
  duck: DuckSession,
  rows: StagedRows,
  forms: DecimalForms = {},
): Promise<TypedColumn[]> {
  const decimals = rows.columns.filter(({ type }) => type === 'decimal' || type === 'decimals');
  const digits =
    decimals.length === 0
      ? []
      : await duck.rows(
          'measuring the decimals',
          `SELECT ${decimals.flatMap(digitsSql).join(', ')} FROM ${stagedSql(rows)}`,
        );
  return rows.columns.map((column): TypedColumn => {
    if (column.type === 'timestamp') return { ...column, sqlType: 'TIMESTAMPTZ', scale: null };
    if (column.type === 'integer') return { ...column, sqlType: 'BIGINT', scale: null };
    if (column.type === 'text') return { ...column, sqlType: 'VARCHAR', scale: null };
    const at = decimals.indexOf(column) * 2;
    const [integer, fraction] = [digits[0]?.[at], digits[0]?.[at + 1]].map(Number);
    const needed = { integer: integer ?? 0, fraction: fraction ?? 0 };
    return typeDecimal(column, needed, forms[column.name]);
  });
}

/** The rows of a staged file in their types. */
export function typedSql(rows: StagedRows, columns: readonly TypedColumn[]): string {
  const selected = columns.map(({ name, sqlType }) => {
    const column = identifier(name);
    return `CAST(${column} AS ${sqlType}) AS ${column}`;
  });
  return `SELECT ${selected.join(', ')} FROM ${stagedSql(rows)}`;
}

const normalText = (text: string) =>
  `CASE WHEN contains(${text}, '.') THEN rtrim(rtrim(${text}, '0'), '.') ELSE ${text} END`;

/**
 * One text for the value of a column, the same however it is written: of `1.50` as text and of
 * `1.5000` as DECIMAL.
 */
export function valueText({ name, type }: SeriesColumn): string {
  const column = identifier(name);
  switch (type) {
    case 'timestamp':
      return `epoch_us(${column})::VARCHAR`;
    case 'integer':
    case 'text':
      return `${column}::VARCHAR`;
    case 'decimal':
      return normalText(`${column}::VARCHAR`);
    case 'decimals':
      return `list_transform(${column}::VARCHAR[], lambda x: ${normalText('x')})::VARCHAR`;
  }
}
