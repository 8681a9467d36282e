import { join } from 'node:path';
import type { SERIES, SeriesTable } from '../../model/series.js';

/**
 * Where things lie in the folder of cold partitions. Data are partitioned the way hive does it, so
 * that DuckDB, Spark, Trino and ClickHouse find kind, market and day in the path:
 *
 *     kind=trades/market=BTC_USDT/date=2026-01-31/part-0123456789ab.parquet
 *     manifests/trade/trade_20260131.json
 *
 * The archive alone says which files count: those named by the manifest of a partition whose state is
 * `archived`. A file that no manifest names is nothing.
 */

/** What the rows of a table are called in paths. */
export type ColdKind = (typeof SERIES)[SeriesTable]['kind'];

/** Stands in the path for rows that belong to no market. */
export const NO_MARKET = '_all';
/** Files under way; no reader looks here. */
export const SCRATCH_FOLDER = '.scratch';
const MANIFESTS = 'manifests';
const DATA_ENDING = '.parquet';
/** Digits of a file's own checksum in its name: a remake never takes the place of what is read. */
const NAME_DIGITS = 12;

/** The folder of cold partitions. @param dir `cold.dir`, null for the default below `dataDir` */
export function coldFolder(dataDir: string, dir: string | null): string {
  return dir ?? join(dataDir, 'cold');
}

/** A text as the value of a hive partition: readers decode it as they do a URL's. */
export function hiveValue(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*~]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** The folder of a market, relative to the cold folder; the days are in it. */
export function coldMarketFolder(kind: ColdKind, market: string): string {
  return `kind=${kind}/market=${hiveValue(market)}`;
}

/** The folder of one day of a market, relative to the cold folder. @param date `2026-01-31`, UTC */
export function coldDayFolder(kind: ColdKind, market: string, date: string): string {
  return `${coldMarketFolder(kind, market)}/date=${date}`;
}

/** Where a data file lies, relative to the cold folder. @param sha256 of what it holds, hex */
export function coldDataPath(kind: ColdKind, market: string, date: string, sha256: string): string {
  const name = `part-${sha256.slice(0, NAME_DIGITS)}${DATA_ENDING}`;
  return `${coldDayFolder(kind, market, date)}/${name}`;
}

/** Where the manifest of a partition lies, relative to the cold folder: `partition_state.uri`. */
export function coldManifestPath(table: SeriesTable, partition: string): string {
  return `${MANIFESTS}/${table}/${partition}.json`;
}

/** Whether a path relative to the cold folder stays inside it, so that a manifest leads nowhere else. */
export function isColdPath(path: string): boolean {
  const parts = path.split('/');
  return parts.every(
    (part) => part !== '' && part !== '.' && part !== '..' && !/[\\\0]/.test(part),
  );
}
