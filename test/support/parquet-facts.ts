import { type DuckSession, literal } from '../../src/archive/parquet/session.js';
import { parseJson } from '../../src/kernel/json.js';

/** Metadata of a Parquet file. */
interface ParquetFacts {
  readonly rows: number;
  readonly columns: readonly { readonly name: string; readonly sqlType: string }[];
  /** What `writeParquet` was given; null in a file of another maker. */
  readonly about: unknown;
}

/** @throws ParquetError when the file is missing or no Parquet */
export async function describeParquet(duck: DuckSession, path: string): Promise<ParquetFacts> {
  const doing = `reading ${path}`;
  const file = literal(path);
  const [counts] = await duck.rows(doing, `SELECT num_rows FROM parquet_file_metadata(${file})`);
  const columns = await duck.rows(doing, `DESCRIBE SELECT * FROM read_parquet(${file})`);
  const [kept] = await duck.rows(
    doing,
    `SELECT decode(value) FROM parquet_kv_metadata(${file}) WHERE decode(key) = 'tapekeep'`,
  );
  return {
    rows: Number(counts?.[0] ?? 0),
    columns: columns.map(([name, sqlType]) => ({ name: String(name), sqlType: String(sqlType) })),
    about: typeof kept?.[0] === 'string' ? parseJson(kept[0], Number.POSITIVE_INFINITY) : null,
  };
}
