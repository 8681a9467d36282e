import type { Span } from '../kernel/span.js';
import { isoMs } from '../kernel/timestamp.js';
import { FORM_NAMES } from '../model/columns.js';
import {
  MARKET_COLUMN,
  type SeriesKind,
  seriesColumns,
  shownColumns,
  tableOfKind,
  timeColumnOf,
} from '../model/kinds.js';
import { fillFile } from './files.js';
import {
  type DecimalForm,
  decimalForm,
  decimalSql,
  MAX_PRECISION,
  type StagedRows,
  TOO_LONG,
  typeColumns,
  typedSql,
} from './parquet/columns.js';
import { type DuckSession, identifier, literal, literals } from './parquet/session.js';
import type { ArchiveReader } from './reading.js';

/**
 * A series as one relation of DuckDB: cold files as they lie in their folder, and rows of the database
 * as text that is staged once.
 */

/** Places of the rows of a series. */
export interface SeriesRows {
  /** Absolute paths of cold files, with the market in their path. */
  readonly cold: readonly string[];
  /** The rows of the database, with the market as their first column; null for none. */
  readonly hot: StagedRows | null;
}

/**
 * Stages the hot rows of a series as text, in no order. Memory does not grow with them.
 *
 * @param marketIds undefined for all
 * @returns null when there are none
 */
export async function stageHotRows(
  reader: ArchiveReader,
  path: string,
  kind: SeriesKind,
  span: Span,
  marketIds: readonly number[] | undefined,
  signal: AbortSignal,
): Promise<StagedRows | null> {
  const hot = reader.segments(kind, span).filter(({ state }) => state === 'hot');
  if (hot.length === 0 || marketIds?.length === 0) return null;
  const bytes = await fillFile(path, async (add) => {
    let sum = 0;
    for (const part of hot) {
      const slice = { kind, marketIds: marketIds ?? null, span: part.span };
      for await (const piece of reader.snapshot.table(slice, signal)) {
        await add(piece);
        sum += piece.length;
      }
    }
    return sum;
  });
  return bytes > 0 ? { path, columns: [MARKET_COLUMN, ...seriesColumns(kind)] } : null;
}

/** Digits of text in files that are let through. */
const OF_TEXTS: DecimalForm = { precision: MAX_PRECISION, scale: 18 };
/** Digits of a total: those of price and amount together. */
const OF_TOTALS: DecimalForm = { precision: MAX_PRECISION, scale: 24 };
/** Digits of a column without file metadata. */
const NO_ROWS: DecimalForm = { precision: 18, scale: 8 };

/** Rows whose columns have the same types. */
interface Group {
  /** SQL that reads them. */
  readonly from: string;
  /** SQL types of the decimal columns. */
  readonly types: ReadonlyMap<string, string>;
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
  { cold, hot }: SeriesRows,
  span: { readonly fromMs?: number; readonly toMs?: number },
): Promise<string> {
  const groups = [
    ...(await groupFiles(duck, cold)),
    ...(hot === null ? [] : [await groupStaged(duck, hot)]),
  ];
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

async function groupStaged(duck: DuckSession, rows: StagedRows): Promise<Group> {
  const typed = await typeColumns(duck, rows);
  return {
    from: `(${typedSql(rows, typed)})`,
    types: new Map(typed.map(({ name, sqlType }) => [name, sqlType])),
  };
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
function commonForm(name: string, types: readonly string[]): DecimalForm {
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

/** A value as the common type, or an error; never another number. */
function castSql(name: string, value: string, from: string, to: DecimalForm): string {
  const cast = `CAST(${value} AS ${decimalSql(to)})`;
  if (!from.startsWith('VARCHAR')) return cast;
  // Text would be rounded.
  const digits = `length(rtrim(split_part(${value}, '.', 2), '0'))`;
  const said = `concat(${literal(`the ${name} `)}, ${value}, ${literal(` ${TOO_LONG}`)})`;
  return `CASE WHEN ${value} IS NULL OR ${digits} <= ${to.scale} THEN ${cast} ELSE error(${said}) END`;
}

function groupSql(kind: SeriesKind, { from: source, types }: Group, targets: Targets): string {
  const selected = seriesColumns(kind).map(({ name, type }) => {
    const column = identifier(name);
    if (type !== 'decimal' && type !== 'decimals') return column;
    const [from, to] = [types.get(name) ?? '', targets.get(name) ?? NO_ROWS];
    if (type === 'decimal') return `${castSql(name, column, from, to)} AS ${column}`;
    const list = from.startsWith('VARCHAR')
      ? `list_transform(${column}, lambda x: ${castSql(name, 'x', from, to)})`
      : `CAST(${column} AS ${decimalSql(to)}[])`;
    return `${list} AS ${column}`;
  });
  return `SELECT market, ${selected.join(', ')} FROM ${source}`;
}

function emptySql(kind: SeriesKind, targets: Targets): string {
  const selected = seriesColumns(kind).map(({ name, type }) => {
    const decimal = `${decimalSql(targets.get(name) ?? NO_ROWS)}${type === 'decimals' ? '[]' : ''}`;
    return `NULL::${FORM_NAMES[type].duck ?? decimal} AS ${identifier(name)}`;
  });
  return `SELECT NULL::VARCHAR AS market, ${selected.join(', ')} WHERE false`;
}
