import type { ColumnType, SeriesKind } from '../../store/index.js';
import { seriesColumns } from '../../store/index.js';
import { productSql } from '../parquet/product.js';
import { type DuckSession, identifier, literal } from '../parquet/session.js';
import { type DecimalType, decimalType } from '../reading/cold-sql.js';
import { COLUMN_ORDER, momentColumn } from './tables.js';

/** Files that hold rows of a series, with the market in their path or in a column. */
export interface SeriesFiles {
  /** Absolute paths of cold files. */
  readonly cold: readonly string[];
  /** One with the rows of the database and the market as its first column; null for none. */
  readonly hot: string | null;
}

const MAX_DIGITS = 38;
/** Of a column that no file tells about. */
const NO_ROWS: DecimalType = { precision: 18, scale: 8 };

/** Files whose columns have the same types. */
interface Group {
  readonly paths: readonly string[];
  readonly isHot: boolean;
  /** SQL types of the decimal columns. */
  readonly types: ReadonlyMap<string, string>;
}

/**
 * The view of a series over its files. Each file has decimals of as many digits as its own rows need.
 * They are cast here, one by one, to a type that holds all of them: left to itself DuckDB would take
 * one that cuts digits off where they are many.
 *
 * @param span UNIX milliseconds between which rows are let through, as far as it was asked for
 */
export async function seriesViewSql(
  duck: DuckSession,
  kind: SeriesKind,
  { cold, hot }: SeriesFiles,
  span: { readonly fromMs?: number; readonly toMs?: number },
): Promise<string> {
  const groups = [
    ...(await groupFiles(duck, cold, false)),
    ...(hot === null ? [] : await groupFiles(duck, [hot], true)),
  ];
  const columns = seriesColumns(kind, true);
  const targets = new Map(
    columns
      .filter(({ type }) => type === 'decimal' || type === 'decimals')
      .map(({ name }) => [name, commonType(groups.map(({ types }) => types.get(name) ?? ''))]),
  );
  const selects = groups.map((group) => groupSql(kind, group, targets));
  if (selects.length === 0) selects.push(emptySql(kind, targets));
  const moment = identifier(momentColumn(kind));
  const at = (ms: number) => `TIMESTAMPTZ ${literal(new Date(ms).toISOString())}`;
  const conditions = [
    ...(span.fromMs === undefined ? [] : [`${moment} >= ${at(span.fromMs)}`]),
    ...(span.toMs === undefined ? [] : [`${moment} < ${at(span.toMs)}`]),
  ];
  const where = conditions.length === 0 ? '' : ` WHERE ${conditions.join(' AND ')}`;
  const order = COLUMN_ORDER[kind].map((name) =>
    name === 'total' ? `${totalSql(targets)} AS total` : identifier(name),
  );
  return `SELECT ${order.join(', ')} FROM (${selects.join(' UNION ALL ')})${where}`;
}

async function groupFiles(
  duck: DuckSession,
  paths: readonly string[],
  isHot: boolean,
): Promise<Group[]> {
  if (paths.length === 0) return [];
  const rows = await duck.rows(
    'reading the columns of cold files',
    `SELECT file_name, name, type, converted_type, precision, scale
     FROM parquet_schema(${listSql(paths)})`,
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
  return [...groups.values()].map((group) => ({ ...group, isHot }));
}

/** The type that holds what all of these hold; text where one of them is text. */
function commonType(types: readonly string[]): DecimalType | null {
  const decimals = types.map(decimalType);
  if (decimals.some((one) => one === null)) return null;
  const known = decimals.filter((one) => one !== null);
  if (known.length === 0) return NO_ROWS;
  const scale = Math.max(...known.map((one) => one.scale));
  const whole = Math.max(...known.map((one) => one.precision - one.scale));
  // What does not fit then is an error when it is met, never another number.
  return { precision: Math.min(MAX_DIGITS, whole + scale), scale };
}

type Targets = ReadonlyMap<string, DecimalType | null>;

const sqlTypeOf = (type: DecimalType | null) =>
  type === null ? 'VARCHAR' : `DECIMAL(${type.precision},${type.scale})`;

const SQL_TYPES: Readonly<Record<Exclude<ColumnType, 'decimal' | 'decimals'>, string>> = {
  ...{ timestamp: 'TIMESTAMPTZ', integer: 'BIGINT', text: 'VARCHAR' },
};

function groupSql(kind: SeriesKind, { paths, isHot }: Group, targets: Targets): string {
  const selected = seriesColumns(kind, true).map(({ name, type }) => {
    const column = identifier(name);
    if (type !== 'decimal' && type !== 'decimals') return column;
    const sqlType = sqlTypeOf(targets.get(name) ?? null);
    return `CAST(${column} AS ${sqlType}${type === 'decimals' ? '[]' : ''}) AS ${column}`;
  });
  const hive = isHot
    ? 'hive_partitioning = false'
    : `hive_partitioning = true, hive_types = {'kind': VARCHAR, 'market': VARCHAR, 'date': VARCHAR}`;
  return `SELECT market, ${selected.join(', ')} FROM read_parquet(${listSql(paths)}, ${hive})`;
}

function emptySql(kind: SeriesKind, targets: Targets): string {
  const selected = seriesColumns(kind, true).map(({ name, type }) => {
    const decimal = sqlTypeOf(targets.get(name) ?? null);
    const sqlType =
      type === 'decimal' ? decimal : type === 'decimals' ? `${decimal}[]` : SQL_TYPES[type];
    return `NULL::${sqlType} AS ${identifier(name)}`;
  });
  return `SELECT NULL::VARCHAR AS market, ${selected.join(', ')} WHERE false`;
}

/** Files leave a total out where it is exactly the product. */
function totalSql(targets: Targets): string {
  const [price, amount, total] = ['price', 'amount', 'total'].map((name) => targets.get(name));
  if (!price || !amount || price.scale + amount.scale > MAX_DIGITS) {
    const said = `'the total of a trade has more digits than fit: ask for fewer markets at once'`;
    return `CASE WHEN total IS NULL THEN error(${said}) ELSE total::VARCHAR END`;
  }
  const scale = Math.max(total?.scale ?? 0, price.scale + amount.scale);
  const whole = Math.max(
    (total?.precision ?? 0) - (total?.scale ?? 0),
    price.precision - price.scale + amount.precision - amount.scale,
  );
  const sqlType =
    total === null
      ? 'VARCHAR'
      : sqlTypeOf({ precision: Math.min(MAX_DIGITS, whole + scale), scale });
  return `CASE WHEN total IS NULL THEN CAST(${productSql(price.scale)} AS ${sqlType}) ELSE CAST(total AS ${sqlType}) END`;
}

export function listSql(paths: readonly string[]): string {
  return `[${paths.map(literal).join(', ')}]`;
}
