import { FORM_NAMES } from '../../model/columns.js';
import type { SeriesColumn } from '../../model/kinds.js';
import { type DuckSession, identifier, literal } from './session.js';

/** Rows as text in a file: CSV without header, as the store writes it, a text column or more before. */
export interface StagedFile {
  readonly path: string;
  readonly columns: readonly SeriesColumn[];
}

/** Rows of a file, or of a relation of DuckDB that has decimals as text and all else in its type. */
export type StagedRows = StagedFile | StagedRelation;

export interface StagedRelation extends Omit<StagedFile, 'path'> {
  readonly relation: string;
  /** At least those of the decimals, by column; these are text, or decimals already. */
  readonly digits: ReadonlyMap<string, Digits>;
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
export const SMALL_PRECISION = 18;
/** No file format has exact decimals with more. */
export const MAX_PRECISION = 38;

/** The form of `DECIMAL(18,2)`, or of a list of them; null for any other type. */
export function decimalForm(sqlType: string): DecimalForm | null {
  const [, precision, scale] = /^DECIMAL\((\d+),(\d+)\)(?:\[\])?$/.exec(sqlType) ?? [];
  return precision === undefined ? null : { precision: Number(precision), scale: Number(scale) };
}

/** The type of a form in SQL. */
export function decimalSql({ precision, scale }: DecimalForm): string {
  return `DECIMAL(${precision},${scale})`;
}

/** The type of the most digits, of them so many after the point. */
export function longestSql(scale: number): string {
  return decimalSql({ precision: MAX_PRECISION, scale: Math.trunc(scale) });
}

/** The staged rows, with decimals still as text. */
export function stagedSql(rows: StagedRows): string {
  if ('relation' in rows) return rows.relation;
  const types = rows.columns.map(({ name, type }) => {
    return `${identifier(name)}: ${literal(FORM_NAMES[type].duck ?? 'VARCHAR')}`;
  });
  return csvSql(rows.path, types.join(', '));
}

/** A file as COPY writes it. @param columns with their types, as fields of a struct */
export function csvSql(path: string, columns: string): string {
  return `read_csv(${literal(path)}, auto_detect = false, header = false, delim = ',', quote = '"',
    escape = '"', nullstr = '', columns = {${columns}})`;
}

/** Digits before the point. By places, which takes half the time of parts that are cut out. */
const integerDigits = (text: string) =>
  `CASE WHEN contains(${text}, '.') THEN strpos(${text}, '.') - 1 ELSE strlen(${text}) END
    - starts_with(${text}, '-')::INTEGER`;
/** Digits after the point, without zeros at their end. */
const fractionDigits = (text: string) =>
  `CASE WHEN NOT contains(${text}, '.') THEN 0
    WHEN suffix(${text}, '0') THEN strlen(rtrim(${text}, '0')) - strpos(${text}, '.')
    ELSE strlen(${text}) - strpos(${text}, '.') END`;

/** SQL for the most digits of a column, before and after the point. */
export function digitsSql({ name, type }: SeriesColumn): string[] {
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
export interface Digits {
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
  return { ...column, sqlType: `${decimalSql(form)}${suffix}`, scale: form.scale };
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
  const known = 'relation' in rows ? rows.digits : undefined;
  const digits =
    decimals.length === 0 || known !== undefined
      ? []
      : await duck.rows(
          'measuring the decimals',
          `SELECT ${decimals.flatMap(digitsSql).join(', ')} FROM ${stagedSql(rows)}`,
        );
  return rows.columns.map((column): TypedColumn => {
    const sqlType = FORM_NAMES[column.type].duck;
    if (sqlType !== null) return { ...column, sqlType, scale: null };
    const at = decimals.indexOf(column) * 2;
    const [integer, fraction] = [digits[0]?.[at], digits[0]?.[at + 1]].map(Number);
    const measured = { integer: integer ?? 0, fraction: fraction ?? 0 };
    const needed = known?.get(column.name) ?? measured;
    return typeDecimal(column, needed, forms[column.name]);
  });
}

/**
 * A text as a decimal that holds it. DuckDB's own cast to more than 18 digits takes 30 times as long as
 * one to fewer, so the parts before and after the point are cast alone where they are short.
 */
export function castText(text: string, form: DecimalForm): string {
  const type = decimalSql(form);
  if (form.precision <= SMALL_PRECISION) return `CAST(${text} AS ${type})`;
  const [whole, fraction] = [1, 2].map((part) => `split_part(${text}, '.', ${part})`);
  const isShort = `NOT starts_with(${text}, '-') AND length(${whole}) <= ${SMALL_PRECISION} AND length(${fraction}) <= ${SMALL_PRECISION}`;
  const digits = decimalSql({ precision: SMALL_PRECISION, scale: SMALL_PRECISION });
  const sum = `CAST(${whole} AS BIGINT)::${type} + CAST(concat('0.', ${fraction}) AS ${digits})::${type}`;
  return `CASE WHEN ${isShort} THEN CAST(${sum} AS ${type}) ELSE CAST(${text} AS ${type}) END`;
}

/** A decimal, as text or not, in its form; null: as its shortest text. */
function castDecimal(column: string, form: DecimalForm | null): string {
  const text = `${column}::VARCHAR`;
  if (form === null) return shortestSql(text, null);
  return castText(form.precision <= SMALL_PRECISION ? column : text, form);
}

/**
 * A decimal, or the text of one, in a type; an error where that does not hold it, never another number.
 *
 * @param name for the error
 * @param from the SQL type of the value
 */
export function castSql(name: string, value: string, from: string, to: DecimalForm): string {
  if (!from.startsWith('VARCHAR')) return `CAST(${value} AS ${decimalSql(to)})`;
  // Text would be rounded. Most is short enough as it is, zeros at its end included.
  const point = `strpos(${value}, '.')`;
  const isExact = `${value} IS NULL OR strlen(${value}) - ${point} <= ${to.scale} OR ${point} = 0
    OR strlen(rtrim(${value}, '0')) - ${point} <= ${to.scale}`;
  const said = `concat(${literal(`the ${name} `)}, ${value}, ${literal(` ${TOO_LONG}`)})`;
  return `CASE WHEN ${isExact} THEN ${castText(value, to)} ELSE error(${said}) END`;
}

/** The rows of a staged file in their types; an error where one does not fit. */
export function typedSql(rows: StagedRows, columns: readonly TypedColumn[]): string {
  const selected = columns.map(({ name, type, sqlType }) => {
    const column = identifier(name);
    const form = decimalForm(sqlType);
    if (type === 'decimal') {
      // Rows of a table were measured; text of a file is checked as it is read.
      const isText = 'path' in rows && form !== null;
      const value = isText ? castSql(name, column, 'VARCHAR', form) : castDecimal(column, form);
      return `${value} AS ${column}`;
    }
    if (form === null) return `CAST(${column} AS ${sqlType}) AS ${column}`;
    const cast = (value: string) => castSql(name, value, 'VARCHAR', form);
    return `list_transform(${column}::VARCHAR[], lambda x: ${cast('x')}) AS ${column}`;
  });
  return `SELECT ${selected.join(', ')} FROM ${stagedSql(rows)}`;
}

/** The text of a decimal without zeros at its end. @param form null where it may have no point */
export function shortestSql(text: string, form: DecimalForm | null): string {
  if (form?.scale === 0) return text;
  const trimmed = `regexp_replace(${text}, '\\.?0+$', '')`;
  return form === null
    ? `CASE WHEN contains(${text}, '.') THEN ${trimmed} ELSE ${text} END`
    : trimmed;
}

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
      return shortestSql(`${column}::VARCHAR`, null);
    case 'decimals':
      return `list_transform(${column}::VARCHAR[], lambda x: ${shortestSql('x', null)})::VARCHAR`;
  }
}

/** Message about a value that no type here holds, after its name. */
const TOO_LONG = 'has more digits than a number has here; tapekeep export writes it in full';
