import {
  DuckDBDecimalValue,
  DuckDBListValue,
  DuckDBTimestampTZValue,
  type DuckDBValue,
} from '@duckdb/node-api';
import { parseJson } from '../../kernel/json.js';
import type { SeriesColumn } from '../../model/kinds.js';
import { type StagedRows, stagedSql, type TypedColumn, typedSql, valueText } from './columns.js';
import { type DuckSession, identifier, literal } from './session.js';

/** What a Parquet file says of itself. */
export interface ParquetFacts {
  readonly rows: number;
  readonly rowGroups: number;
  readonly columns: readonly { readonly name: string; readonly sqlType: string }[];
  /** What {@link writeParquet} was given; null in a file of another maker. */
  readonly about: unknown;
}

/** @throws ParquetError when the file is missing or no Parquet */
export async function describeParquet(duck: DuckSession, path: string): Promise<ParquetFacts> {
  const doing = `reading ${path}`;
  const file = literal(path);
  const [counts] = await duck.rows(
    doing,
    `SELECT num_rows, num_row_groups FROM parquet_file_metadata(${file})`,
  );
  const columns = await duck.rows(doing, `DESCRIBE SELECT * FROM read_parquet(${file})`);
  const [kept] = await duck.rows(
    doing,
    `SELECT decode(value) FROM parquet_kv_metadata(${file}) WHERE decode(key) = 'tapekeep'`,
  );
  return {
    rows: Number(counts?.[0] ?? 0),
    rowGroups: Number(counts?.[1] ?? 0),
    columns: columns.map(([name, sqlType]) => ({ name: String(name), sqlType: String(sqlType) })),
    about: typeof kept?.[0] === 'string' ? parseJson(kept[0], Number.POSITIVE_INFINITY) : null,
  };
}

/** Number and content of rows, their order included; equal for the same rows in any form. */
export interface RowsDigest {
  readonly rows: number;
  readonly digest: string;
}

async function digest(
  duck: DuckSession,
  columns: readonly SeriesColumn[],
  source: string,
): Promise<RowsDigest> {
  const texts = columns.map((column) => `coalesce(${valueText(column)}, '\\N')`);
  const [row] = await duck.rows(
    'comparing rows',
    `SELECT count(*), coalesce(sum(hash(place, line)::HUGEINT), 0)::VARCHAR FROM (
       SELECT row_number() OVER () AS place, concat_ws(chr(31), ${texts.join(', ')}) AS line
       FROM ${source})`,
  );
  return { rows: Number(row?.[0] ?? 0), digest: String(row?.[1] ?? '') };
}

/** Of rows in a Parquet file: every value is read back. @throws ParquetError */
export async function digestParquet(
  duck: DuckSession,
  columns: readonly SeriesColumn[],
  path: string,
): Promise<RowsDigest> {
  return await digest(duck, columns, `read_parquet(${literal(path)})`);
}

/** Of rows that wait to be written. */
export async function digestStaged(duck: DuckSession, rows: StagedRows): Promise<RowsDigest> {
  return await digest(duck, rows.columns, stagedSql(rows));
}

/**
 * A value without its type: moments are UNIX microseconds, decimals are integers to be divided by
 * ten to the power of their column's scale.
 */
export type PlainValue = bigint | string | null | readonly PlainValue[];

function plain(value: DuckDBValue): PlainValue {
  if (value === null || typeof value === 'bigint' || typeof value === 'string') return value;
  if (value instanceof DuckDBDecimalValue) return value.value;
  if (value instanceof DuckDBTimestampTZValue) return value.micros;
  if (value instanceof DuckDBListValue) return value.items.map(plain);
  return String(value);
}

/** Staged rows in their types, some thousand at a time, one array a column. */
export async function* readStaged(
  duck: DuckSession,
  rows: StagedRows,
  columns: readonly TypedColumn[],
): AsyncGenerator<PlainValue[][]> {
  const chunks = duck.columns('reading rows', typedSql(rows, columns));
  for await (const chunk of chunks) yield chunk.map((values) => values.map(plain));
}

/**
 * The rows of a Parquet file as text in their order, some thousand at a time, row by row: decimals
 * with all digits of their column, moments as `2026-01-31 12:00:00.5+00`, null for null.
 *
 * @throws ParquetError
 */
export async function* readParquetTexts(
  duck: DuckSession,
  columns: readonly SeriesColumn[],
  path: string,
): AsyncGenerator<(string | null)[][]> {
  const selected = columns.map(({ name }) => `${identifier(name)}::VARCHAR`).join(', ');
  const sql = `SELECT ${selected} FROM read_parquet(${literal(path)})`;
  for await (const chunk of duck.columns(`reading ${path}`, sql)) {
    const length = chunk[0]?.length ?? 0;
    yield Array.from({ length }, (_, row) =>
      chunk.map((values) => (typeof values[row] === 'string' ? values[row] : null)),
    );
  }
}
