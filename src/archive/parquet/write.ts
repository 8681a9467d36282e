import {
  type DecimalForms,
  type StagedRows,
  type TypedColumn,
  typeColumns,
  typedSql,
} from './columns.js';
import { type DuckSession, literal } from './session.js';

export interface ParquetOptions {
  /** Taken over into the file's own metadata, under the name `tapekeep`. */
  readonly about: Readonly<Record<string, unknown>>;
  /** Types of decimals that the file may have; default: what the rows need. */
  readonly forms?: DecimalForms;
  /** Rows that are compressed, and skipped over, together. Default {@link ROW_GROUP_ROWS}. */
  readonly rowGroupRows?: number;
}

/** A multiple of what DuckDB works on at a time; about half a megabyte of trades. */
export const ROW_GROUP_ROWS = 122_880;
/** Rows with hundreds of levels: fewer of them make as many bytes. */
export const DEPTH_GROUP_ROWS = 8_192;
/** Two per cent smaller than the default, and not much slower. */
const ZSTD_LEVEL = 6;

/**
 * Writes staged rows, in their order, as Parquet: zstd, decimals exact, moments as UTC microseconds,
 * least and greatest value of each column in each row group. The encodings of version 2 take ids and
 * moments as differences, which is half of the size.
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
  const about = literal(JSON.stringify(options.about));
  await duck.run(
    'writing Parquet',
    `COPY (${typedSql(rows, columns)}) TO ${literal(path)} (
       FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL ${ZSTD_LEVEL},
       ROW_GROUP_SIZE ${Math.trunc(options.rowGroupRows ?? ROW_GROUP_ROWS)}, OVERWRITE true,
       KV_METADATA {tapekeep: ${about}})`,
  );
  return columns;
}
