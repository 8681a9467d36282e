import { join } from 'node:path';
import { multiplyDecimals } from '../kernel/decimal.js';
import {
  type MergedKind,
  type SeriesColumn,
  seriesColumns,
  seriesOrder,
  seriesVariant,
} from '../model/kinds.js';
import type { RowForm, SeriesSlice } from '../store/index.js';
import { type DecimalForm, decimalForm, productSql } from './parquet/columns.js';
import { Scratch } from './parquet/scratch.js';
import { DuckSession, identifier, literal } from './parquet/session.js';
import type { PlacedFile } from './segments.js';

/**
 * The statements by which rows of cold files become the same text that the database writes. They are
 * shaped by what is quick in DuckDB: one pattern instead of two trims, and no time zones.
 */

/** The types of a file's columns by their names. */
export type FileTypes = ReadonlyMap<string, string>;

/** Up to this many digits together, a product of two decimals is exact. */
const EXACT_DIGITS = 38;

/** The text of a decimal without zeros at its end. */
function shortest(text: string, type: DecimalForm | null): string {
  if (type?.scale === 0) return text;
  const trimmed = `regexp_replace(${text}, '\\.?0+$', '')`;
  return type === null
    ? `CASE WHEN contains(${text}, '.') THEN ${trimmed} ELSE ${text} END`
    : trimmed;
}

/** `2026-01-31 12:00:00.5`; all times are UTC, so no zone needs to be looked up. */
const timeText = (column: string) => `make_timestamp(epoch_us(${column}))::VARCHAR`;

/** Whether totals that are left out can be worked out by the statement itself. */
export function hasExactProduct(types: FileTypes): boolean {
  const price = decimalForm(types.get('price') ?? '');
  const amount = decimalForm(types.get('amount') ?? '');
  return price !== null && amount !== null && price.precision + amount.precision <= EXACT_DIGITS;
}

/** The text of a value, null where it is null. Lists of decimals are the texts with commas between. */
function valueText({ name, type }: SeriesColumn, types: FileTypes, quote: string): string {
  const column = identifier(name);
  const decimal = decimalForm(types.get(name) ?? '');
  if (type === 'timestamp') return timeText(column);
  if (type === 'decimal') return shortest(`${column}::VARCHAR`, decimal);
  if (type !== 'decimals') return `${column}::VARCHAR`;
  const one = shortest('x::VARCHAR', decimal);
  const quoted = quote === '' ? one : `concat('${quote}', ${one}, '${quote}')`;
  return `array_to_string(list_transform(${column}, lambda x: ${quoted}), ',')`;
}

function totalText(types: FileTypes): string {
  const price = decimalForm(types.get('price') ?? '');
  const amount = decimalForm(types.get('amount') ?? '');
  const scale = (price?.scale ?? 0) + (amount?.scale ?? 0);
  const text = `${productSql(price?.scale ?? 0)}::VARCHAR`;
  const product = shortest(text, { precision: EXACT_DIGITS, scale });
  const given = shortest('total::VARCHAR', decimalForm(types.get('total') ?? ''));
  return `CASE WHEN total IS NULL THEN ${product} ELSE ${given} END`;
}

function csvPart(column: SeriesColumn, types: FileTypes): string {
  const text = valueText(column, types, '');
  if (column.type === 'timestamp') return `${text} || '+00'`;
  if (column.type !== 'decimals') return text;
  // Postgres puts quotes around what holds a comma, and around nothing else.
  return `CASE WHEN len(${identifier(column.name)}) > 1 THEN concat('"[', ${text}, ']"') ELSE concat('[', ${text}, ']') END`;
}

function jsonPart(column: SeriesColumn, text: string): string {
  const value = { timestamp: `concat('"', replace(${text}, ' ', 'T'), '+00:00"')`, text: '' };
  const quoted = `concat('"', ${text}, '"')`;
  const shown =
    column.type === 'timestamp'
      ? value.timestamp
      : column.type === 'integer'
        ? text
        : column.type === 'decimals'
          ? `concat('[', ${text}, ']')`
          : quoted;
  if (!column.isNullable) return shown;
  return `CASE WHEN ${identifier(column.name)} IS NULL THEN 'null' ELSE ${shown} END`;
}

/** Stands for the total of a trade that has to be worked out outside of the statement. */
export const TOTAL_MARK = '\u0001';

/**
 * One line of text for a row. Where the product of price and amount cannot be relied upon, the
 * line has {@link TOTAL_MARK}, price, mark, amount, mark in the place of a total that was left out.
 */
export function lineSql(kind: MergedKind, form: RowForm, types: FileTypes): string {
  const columns = seriesColumns(kind, false);
  const isWorkedOut = kind === 'trades' && form !== 'lean';
  const total = hasExactProduct(types) ? totalText(types) : markedTotal(types);
  const parts = columns.map((column) => {
    const isTotal = isWorkedOut && column.name === 'total';
    if (form !== 'json') return isTotal ? total : csvPart(column, types);
    const text = isTotal ? total : valueText(column, types, '"');
    return `${literal(`"${column.name}":`)}, ${jsonPart(column, text)}`;
  });
  const lines = parts.join(`, ',', `);
  return form === 'json' ? `concat('{', ${lines}, '}')` : `concat(${lines})`;
}

function markedTotal(types: FileTypes): string {
  const given = shortest('total::VARCHAR', decimalForm(types.get('total') ?? ''));
  const mark = literal(TOTAL_MARK);
  const marked = `concat(${mark}, price::VARCHAR, ${mark}, amount::VARCHAR, ${mark})`;
  return `CASE WHEN total IS NULL THEN ${marked} ELSE ${given} END`;
}

const timestamp = (ms: number) => `TIMESTAMPTZ ${literal(new Date(ms).toISOString())}`;

/** What of a file belongs to a slice. */
export function sliceConditions({ kind, variantS, span }: SeriesSlice): string {
  const [time = ''] = seriesOrder(kind);
  const variant = seriesVariant(kind);
  return [
    `${identifier(time)} >= ${timestamp(span.fromMs)}`,
    `${identifier(time)} < ${timestamp(span.toMs)}`,
    ...(variant === undefined ? [] : [`${identifier(variant)} = ${Math.trunc(variantS)}`]),
  ].join(' AND ');
}

/** The rows of a slice in a file, as lines in the file's order, which is that of time and id. */
export function rowsSql(path: string, slice: SeriesSlice, form: RowForm, types: FileTypes): string {
  const line = lineSql(slice.kind, form, types);
  return `SELECT ${line} FROM read_parquet(${literal(path)}, hive_partitioning = false)
    WHERE ${sliceConditions(slice)}`;
}

/** A file of a day has few rows at the edge of a page: enough for what one group holds. */
const LIMITS = { memoryMb: 256, threads: 2 };

/** Rows of cold files as lines of text, by a DuckDB that lives as long as a reading. */
export class ColdLines {
  readonly #signal: AbortSignal | undefined;
  #opened: Promise<{ readonly duck: DuckSession; readonly scratch: Scratch }> | undefined;

  constructor(signal: AbortSignal | undefined) {
    this.#signal = signal;
  }

  /** @throws ParquetError, or the signal's reason */
  async *of(
    { absolutePath: path }: PlacedFile,
    slice: SeriesSlice,
    form: RowForm,
  ): AsyncGenerator<Buffer> {
    const { duck } = await this.#open();
    const described = `DESCRIBE SELECT * FROM read_parquet(${literal(path)}, hive_partitioning = false)`;
    const columns = await duck.rows(`reading ${path}`, described);
    const types = new Map(columns.map(([name, type]) => [String(name), String(type)]));
    for await (const [lines] of duck.columns(
      `reading ${path}`,
      rowsSql(path, slice, form, types),
    )) {
      const text = `${(lines as readonly string[]).join('\n')}\n`;
      yield Buffer.from(text.includes(TOTAL_MARK) ? withTotals(text) : text);
    }
  }

  async close(): Promise<void> {
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    if (opened === undefined) return;
    opened.duck.close();
    await opened.scratch.remove();
  }

  #open() {
    this.#opened ??= (async () => {
      const scratch = await Scratch.make('reading');
      const duck = await DuckSession.open(join(scratch.path, 'spill'), LIMITS, this.#signal);
      return { duck, scratch };
    })();
    return this.#opened;
  }
}

const MARKED = new RegExp(
  `${TOTAL_MARK}([^${TOTAL_MARK}]*)${TOTAL_MARK}([^${TOTAL_MARK}]*)${TOTAL_MARK}`,
  'g',
);

/** Works out the totals that the statement could not. */
function withTotals(text: string): string {
  return text.replace(MARKED, (_, price: string, amount: string) =>
    multiplyDecimals(price, amount),
  );
}
