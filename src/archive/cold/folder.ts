import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { BoundedSet } from '../../kernel/bounded.js';
import { codeOf } from '../../kernel/errors.js';
import type { SeriesTable, SeriesView } from '../../model/series.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import { isPattern } from '../parquet/session.js';

/**
 * Layout of the folder of cold partitions. Data are partitioned the way hive does it, so
 * that DuckDB, Spark, Trino and ClickHouse find kind, market and day in the path:
 *
 *     kind=trades/market=BTC_USDT/date=2026-01-31/part-0123456789ab.parquet
 *     manifests/trade/trade_20260131.json
 *
 * The archive alone says which files count: those named by the manifest of a partition whose state is
 * `archived`. A file that no manifest names is nothing.
 */

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
function hiveValue(text: string): string {
  return encodeURIComponent(text).replaceAll(
    /[!'()*~]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** The folder of a market, relative to the cold folder; the days are in it. */
export function coldMarketFolder(view: SeriesView, market: string): string {
  return `kind=${view}/market=${hiveValue(market)}`;
}

/**
 * Path of a data file, relative to the cold folder.
 *
 * @param date `2026-01-31`, UTC
 * @param sha256 of what it holds, hex
 */
export function coldDataPath(
  view: SeriesView,
  market: string,
  date: string,
  sha256: string,
): string {
  const name = `part-${sha256.slice(0, NAME_DIGITS)}${DATA_ENDING}`;
  return `${coldMarketFolder(view, market)}/date=${date}/${name}`;
}

/** Path of the manifest of a partition, relative to the cold folder: `partition_state.uri`. */
export function coldManifestPath(table: SeriesTable, partition: string): string {
  return `${MANIFESTS}/${table}/${partition}.json`;
}

/** Returns true if a path relative to the cold folder stays inside it, so that a manifest leads nowhere else. */
export function isColdPath(path: string): boolean {
  const parts = path.split('/');
  return parts.every(
    (part) => part !== '' && part !== '.' && part !== '..' && !/[\\\0]/.test(part),
  );
}

const READ_BYTES = 1024 * 1024;

/** Size and SHA-256 of a file. @throws ColdError `cold_missing`, `cold_refused` */
export async function sumFile(
  path: string,
  signal?: AbortSignal,
): Promise<{ readonly bytes: number; readonly sha256: string }> {
  return await inColdWords(path, async () => {
    const hash = createHash('sha256');
    let bytes = 0;
    signal?.throwIfAborted();
    for await (const piece of createReadStream(path, { highWaterMark: READ_BYTES })) {
      signal?.throwIfAborted();
      hash.update(piece as Buffer);
      bytes += (piece as Buffer).length;
    }
    return { bytes, sha256: hash.digest('hex') };
  });
}

/** @throws ColdError `cold_refused` when DuckDB would take the name of the folder for a pattern */
export function assertColdDir(coldDir: string): void {
  if (!isPattern(coldDir)) return;
  const text = `the name of the folder ${coldDir} holds one of * ? [ ] { }, which are patterns to DuckDB: call the folder of cold files otherwise`;
  throw new ColdError('cold_refused', text);
}

/** Facts of a manifest about the content of a file. */
export interface FileSums {
  readonly bytes: number;
  readonly sha256: string;
}

/**
 * Checks a file against its manifest, byte by byte.
 *
 * @throws ColdError `cold_missing`, `cold_damaged`, `cold_refused`
 */
export async function checkFile(path: string, sums: FileSums, signal?: AbortSignal): Promise<void> {
  const { size } = await inColdWords(path, () => stat(path));
  if (size !== sums.bytes) throw damaged(path, `it has ${size} bytes and not ${sums.bytes}`);
  const { sha256 } = await sumFile(path, signal);
  if (sha256 !== sums.sha256) throw damaged(path, `its sha256 is ${sha256} and not ${sums.sha256}`);
}

/** Files whose content was found right; a year of a hundred markets. */
const MAX_CHECKED = 50_000;

/**
 * Files that this process has checked, by all that a change of their content would change. A server
 * that opens many readers looks at each file once.
 */
const checked = new BoundedSet<string>(MAX_CHECKED);

/** {@link checkFile}, once per process as long as the file does not change. */
export async function checkFileOnce(
  path: string,
  sums: FileSums,
  signal?: AbortSignal,
): Promise<void> {
  const { ino, size, mtimeMs } = await inColdWords(path, () => stat(path));
  const key = [path, ino, size, mtimeMs, sums.bytes, sums.sha256].join('\0');
  if (checked.has(key)) return;
  await checkFile(path, sums, signal);
  checked.add(key);
}

/** Notes that a file was found right while it was written. @param at another name of the same file */
export async function noteChecked(path: string, sums: FileSums, at: string): Promise<void> {
  const { ino, size, mtimeMs } = await inColdWords(at, () => stat(at));
  checked.add([path, ino, size, mtimeMs, sums.bytes, sums.sha256].join('\0'));
}

function damaged(path: string, what: string): ColdError {
  const text = `${path} is not what was written: ${what}. Bring it back from a copy`;
  return new ColdError('cold_damaged', text);
}

/** All files below a folder, relative to it with `/`; none when it is not there. */
export async function filesBelow(folder: string, at = ''): Promise<string[]> {
  const found: string[] = [];
  const names = await readdir(join(folder, at), { withFileTypes: true }).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return [];
    throw asColdError(error, join(folder, at));
  });
  for (const one of names) {
    const path = at === '' ? one.name : `${at}/${one.name}`;
    if (one.isDirectory()) found.push(...(await filesBelow(folder, path)));
    else found.push(path);
  }
  return found;
}
