import { rm } from 'node:fs/promises';
import type { Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import { type ColumnForm, FORM_NAMES } from '../model/columns.js';
import {
  MARKET_COLUMN,
  type SeriesKind,
  seriesColumns,
  shownColumns,
  tableOfKind,
  timeColumnOf,
} from '../model/kinds.js';
import type { TableSlice } from '../store/index.js';
import { asDiskFull, ParquetError } from './errors.js';
import { fillFile } from './files.js';
import {
  castSql,
  type DecimalForm,
  type DecimalForms,
  decimalForm,
  decimalSql,
  MAX_PRECISION,
  type TypedColumn,
  typeColumns,
  typedSql,
} from './parquet/columns.js';
import { type DuckSession, identifier, literal, literals } from './parquet/session.js';
import type { ArchiveReader } from './reading.js';

/** A series as one relation of DuckDB: cold files as they lie in their folder, and other rows. */

/** Places of the rows of a series. */
export interface SeriesRows {
  /** Absolute paths of cold files, with the market in their path. */
  readonly cold: readonly string[];
  /** Rows that are elsewhere. */
  readonly others: readonly Group[];
}

/**
 * Copies rows that only the database has into a table of DuckDB, in no order, with some of their columns.
 * A value that does not fit its type widens the types.
 *
 * @param path of a file for the text of the rows, which is removed
 * @param forms of decimals that are to be expected
 */
export async function loadTail(
  duck: DuckSession,
  { snapshot }: ArchiveReader,
  { kind, marketIds, columns: read }: Omit<TableSlice, 'span'>,
  spans: readonly Span[],
  { path, forms, signal }: { path: string; forms: DecimalForms; signal: AbortSignal },
): Promise<Group> {
  const copying = fillFile(path, async (add) => {
    for (const span of spans) {
      for await (const piece of snapshot.table({ kind, columns: read, marketIds, span }, signal))
        await add(piece);
    }
  });
  await copying.catch((error: unknown) => {
    throw asDiskFull(error, path);
  });
  // DuckDB counts rows by their first column.
  const columns = [MARKET_COLUMN, ...read];
  const from = identifier(`tail of ${kind}`);
  const load = async (typed: readonly TypedColumn[]): Promise<Group> => {
    const sql = typedSql({ path, columns }, typed);
    await duck.run(`reading ${kind}`, `CREATE OR REPLACE TABLE ${from} AS ${sql}`);
    const types = new Map(typed.map(({ name, sqlType }) => [name, sqlType]));
    return { from, types, columns: columns.map(({ name }) => name) };
  };
  try {
    return await load(
      columns.map((one): TypedColumn => {
        const form = forms[one.name]?.[0] ?? NO_ROWS;
        return { ...one, sqlType: typeSql(one.type, form), scale: form.scale };
      }),
    );
  } catch (error) {
    const isMisfit =
      error instanceof ParquetError && /Conversion|Invalid Input/.test(error.message);
    if (!isMisfit) throw error;
    return await load(await typeColumns(duck, { path, columns }));
  } finally {
    await rm(path, { force: true });
  }
}

/** Digits of text in files that are let through. */
const OF_TEXTS: DecimalForm = { precision: MAX_PRECISION, scale: 18 };
/** Digits of a total: those of price and amount together. */
const OF_TOTALS: DecimalForm = { precision: MAX_PRECISION, scale: 24 };
/** Digits of a column without file metadata. */
const NO_ROWS: DecimalForm = { precision: 18, scale: 8 };

/** Rows whose columns have the same types. */
export interface Group {
  /** SQL that reads them. */
  readonly from: string;
  /** SQL types of the decimal columns. */
  readonly types: ReadonlyMap<string, string>;
  /** True if the decimals come as text that fits into these types, or is an error when it is met. */
  readonly isText?: true;
  /** Columns that there are, `market` among them, at least one; default: all. Reading another is an error. */
  readonly columns?: readonly string[];
}

/**
 * The statement that reads a relation. Each file has decimals of as many digits as its own rows need.
 * They are cast here, one by one, to a type that holds all of them: left to itself DuckDB would take
 * one that cuts digits off where they are many.
 *
 * @param span UNIX milliseconds between which rows are let through, as far as it was asked for
 */
export async function relationSql(
  duck: DuckSession,
  kind: SeriesKind,
  { cold, others }: SeriesRows,
  span: { readonly fromMs?: number; readonly toMs?: number },
): Promise<string> {
  const groups = [...(await groupFiles(duck, cold)), ...others];
  const targets = new Map(
    seriesColumns(kind)
      .filter(({ type }) => type === 'decimal' || type === 'decimals')
      .map(({ name }) => {
        const names = [name, SAME_TYPE[name] ?? name];
        const types = groups.flatMap((group) => names.map((one) => group.types.get(one) ?? ''));
        return [name, commonForm(name, types)];
      }),
  );
  const selects = groups.map((group) => groupSql(kind, group, targets));
  if (selects.length === 0) selects.push(emptySql(kind, targets));
  const time = identifier(timeColumnOf(tableOfKind(kind)));
  const at = (ms: number) => `TIMESTAMPTZ ${literal(isoMs(ms))}`;
  const conditions = [
    ...(span.fromMs === undefined ? [] : [`${time} >= ${at(span.fromMs)}`]),
    ...(span.toMs === undefined ? [] : [`${time} < ${at(span.toMs)}`]),
  ];
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  return `SELECT ${shownColumns(kind).map(identifier).join(', ')} FROM (${selects.join(' UNION ALL ')})${where}`;
}

async function groupFiles(duck: DuckSession, paths: readonly string[]): Promise<Group[]> {
  if (paths.length === 0) return [];
  const rows = await duck.rows(
    'reading the columns of cold files',
    `SELECT file_name, name, type, converted_type, precision, scale
     FROM parquet_schema([${literals(paths)}])`,
  );
  const byFile = new Map<string, Map<string, string>>();
  let column = '';
  for (const [file, name, type, converted, precision, scale] of rows) {
    const types = byFile.get(String(file)) ?? new Map<string, string>();
    byFile.set(String(file), types);
    const isInner = name === 'list' || name === 'element';
    if (!isInner) column = String(name);
    if (converted === 'DECIMAL') {
      types.set(column, `DECIMAL(${precision},${scale})${isInner ? '[]' : ''}`);
    } else if (type === 'BYTE_ARRAY') {
      types.set(column, `VARCHAR${isInner ? '[]' : ''}`);
    }
  }
  const groups = new Map<string, { paths: string[]; types: Map<string, string> }>();
  for (const [path, types] of byFile) {
    const key = JSON.stringify([...types].sort());
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { paths: [path], types });
    else group.paths.push(path);
  }
  return [...groups.values()].map((group) => ({
    from: `read_parquet([${literals(group.paths)}], hive_partitioning = true,
      hive_types = {'kind': VARCHAR, 'market': VARCHAR, 'date': VARCHAR})`,
    types: group.types,
  }));
}

/**
 * The type that holds what all of these hold. Text is what no type held of the rows of a file: of them
 * those are let through that fit, and the others are an error when they are met. As text they would be
 * put in order like words.
 */
export function commonForm(name: string, types: readonly string[]): DecimalForm {
  const known = types.map(decimalForm).filter((one) => one !== null);
  const texts = types.some((one) => one.startsWith('VARCHAR'))
    ? [name === 'total' ? OF_TOTALS : OF_TEXTS]
    : [];
  const all = [...known, ...texts];
  if (all.length === 0) return NO_ROWS;
  const scale = Math.max(...all.map((one) => one.scale));
  const whole = Math.max(...all.map((one) => one.precision - one.scale));
  const least = MULTIPLIED.has(name) ? LEAST_MULTIPLIED : 0;
  // A value that does not fit is an error when it is met, never another number. No wider than it must be:
  // where two types need all digits between them DuckDB rounds what has more after the point.
  return { precision: Math.min(MAX_PRECISION, Math.max(least, whole + scale)), scale };
}

/** Prices, which are multiplied with amounts. */
const MULTIPLIED: ReadonlySet<string> = new Set(['price', 'bid_prices', 'ask_prices']);
/** A digit more than 64 bits hold: the product of two that fit into them has a type that does not. */
const LEAST_MULTIPLIED = 19;
/** Columns that become one, and therefore have one type. */
const SAME_TYPE: Readonly<Record<string, string>> = {
  ...{ bid_prices: 'ask_prices', ask_prices: 'bid_prices' },
  ...{ bid_amounts: 'ask_amounts', ask_amounts: 'bid_amounts' },
};

type Targets = ReadonlyMap<string, DecimalForm>;

function groupSql(kind: SeriesKind, group: Group, targets: Targets): string {
  const { from: source, types, isText = false, columns } = group;
  const selected = [MARKET_COLUMN, ...seriesColumns(kind)].map(({ name, type }) => {
    const column = identifier(name);
    const to = targets.get(name) ?? NO_ROWS;
    if (columns !== undefined && !columns.includes(name)) {
      // By a value of a row, so that it is an error when it is read and not before.
      const said = `concat(${literal(`the column ${name} was not read; name it in the statement `)}, ${identifier(columns[0] ?? '')})`;
      return `error(${said})::${typeSql(type, to)} AS ${column}`;
    }
    if (type !== 'decimal' && type !== 'decimals') return column;
    const from = isText ? 'VARCHAR' : (types.get(name) ?? '');
    if (type === 'decimal') return `${castSql(name, column, from, to)} AS ${column}`;
    const list = from.startsWith('VARCHAR')
      ? `list_transform(${column}, lambda x: ${castSql(name, 'x', from, to)})`
      : `CAST(${column} AS ${decimalSql(to)}[])`;
    return `${list} AS ${column}`;
  });
  return `SELECT ${selected.join(', ')} FROM ${source}`;
}

/** The type of a column; of decimals in a form. */
function typeSql(type: ColumnForm, form: DecimalForm): string {
  return FORM_NAMES[type].duck ?? `${decimalSql(form)}${type === 'decimals' ? '[]' : ''}`;
}

function emptySql(kind: SeriesKind, targets: Targets): string {
  const selected = [MARKET_COLUMN, ...seriesColumns(kind)].map(({ name, type }) => {
    return `NULL::${typeSql(type, targets.get(name) ?? NO_ROWS)} AS ${identifier(name)}`;
  });
  return `SELECT ${selected.join(', ')} WHERE false`;
}
