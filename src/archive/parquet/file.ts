import type { SeriesColumn } from '../../model/kinds.js';
import {
  type DecimalForms,
  type StagedRows,
  stagedSql,
  type TypedColumn,
  typeColumns,
  typedSql,
  valueText,
} from './columns.js';
import { type DuckSession, identifier, literal } from './session.js';

export interface ParquetOptions {
  /** Taken over into the file's own metadata, under the name `tapekeep`. */
  readonly about: Readonly<Record<string, unknown>>;
  /** Types of decimals that the file may have; default: what the rows need. */
  readonly forms?: DecimalForms;
  /** Rows that are compressed, and skipped over, together; default: what the columns ask for. */
  readonly rowGroupRows?: number;
}

/** A multiple of what DuckDB works on at a time; about half a megabyte of trades. */
export const ROW_GROUP_ROWS = 122_880;
/** Rows with hundreds of levels: fewer of them make as many bytes. */
export const DEPTH_GROUP_ROWS = 8_192;
/** The rows of a relation in their types, as they were written last. */
const TYPED = 'written_rows';
/** Two per cent smaller than the default, and not much slower. */
const ZSTD_LEVEL = 6;

/**
 * Writes staged rows, in their order, as Parquet: zstd, decimals exact, timestamps as UTC microseconds,
 * least and greatest value of each column in each row group. The encodings of version 2 take ids and
 * timestamps as differences, which is half of the size.
 *
 * @returns the columns as they are in the file
 * @throws ParquetError; what is at `path` is then no file of use
 */
export async function writeParquet(
  duck: DuckSession,
  rows: StagedRows,
  path: string,
  options: ParquetOptions,
): Promise<TypedColumn[]> {
  const columns = await typeColumns(duck, rows, options.forms);
  const hasLists = columns.some(({ type }) => type === 'decimals');
  const usual = hasLists ? DEPTH_GROUP_ROWS : ROW_GROUP_ROWS;
  const about = literal(JSON.stringify(options.about));
  let source = typedSql(rows, columns);
  if ('relation' in rows) {
    // They are made once, for the file and for the comparison.
    await duck.run('typing rows', `CREATE OR REPLACE TEMP TABLE ${TYPED} AS ${source}`);
    source = `FROM ${TYPED}`;
  }
  await duck.run(
    'writing Parquet',
    `COPY (${source}) TO ${literal(path)} (
       FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL ${ZSTD_LEVEL},
       ROW_GROUP_SIZE ${Math.trunc(options.rowGroupRows ?? usual)}, OVERWRITE true,
       KV_METADATA {tapekeep: ${about}})`,
  );
  return columns;
}

/** Number and content of rows, their order included; equal for the same rows in any form. */
async function digest(duck: DuckSession, columns: readonly SeriesColumn[], source: string) {
  const texts = columns.map((column) => `coalesce(${valueText(column)}, '\\N')`);
  const [row] = await duck.rows(
    'comparing rows',
    `SELECT count(*), coalesce(sum(hash(place, line)::HUGEINT), 0)::VARCHAR FROM (
       SELECT row_number() OVER () AS place, concat_ws(chr(31), ${texts.join(', ')}) AS line
       FROM ${source})`,
  );
  return { rows: Number(row?.[0] ?? 0), digest: String(row?.[1] ?? '') };
}

/** Checksum of rows in a Parquet file: every value is read back. @throws ParquetError */
export async function digestParquet(
  duck: DuckSession,
  columns: readonly SeriesColumn[],
  path: string,
) {
  return await digest(duck, columns, `read_parquet(${literal(path)})`);
}

/** Digest of typed rows as they are: quicker, and without a look at their texts. */
async function digestTyped(
  duck: DuckSession,
  columns: readonly TypedColumn[],
  place: string,
  source: string,
) {
  const names = [place, ...columns.map(({ name }) => identifier(name))].join(', ');
  const [row] = await duck.rows(
    'comparing rows',
    `SELECT count(*), coalesce(sum(hash(${names})::HUGEINT), 0)::VARCHAR FROM ${source}`,
  );
  return { rows: Number(row?.[0] ?? 0), digest: String(row?.[1] ?? '') };
}

/**
 * Checksums of rows that were written, and of the file: of texts as the database gave them by those texts, of a relation
 * by its values.
 */
export async function digestBoth(
  duck: DuckSession,
  staged: StagedRows,
  columns: readonly TypedColumn[],
  path: string,
) {
  if (!('relation' in staged)) {
    return [await digestStaged(duck, staged), await digestParquet(duck, columns, path)] as const;
  }
  return [
    await digestTyped(duck, columns, 'rowid', TYPED),
    await digestTyped(
      duck,
      columns,
      'file_row_number',
      `read_parquet(${literal(path)}, file_row_number = true)`,
    ),
  ] as const;
}

/** Checksum of rows that wait to be written. */
export async function digestStaged(duck: DuckSession, rows: StagedRows) {
  return await digest(duck, rows.columns, stagedSql(rows));
}
