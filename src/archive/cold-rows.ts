import { DAY_US, SECOND_US } from '../kernel/durations.js';
import { isoUs } from '../kernel/timestamp.js';
import { orderOf, rowFields, tableOfKind, timeColumnOf } from '../model/kinds.js';
import { type Column, type SERIES, type SeriesTable, seriesOf } from '../model/series.js';
import { type MergedSlice, type SeriesSlice, storedSql } from '../store/index.js';
import type { ColdHold } from './cold/storage.js';
import { type LineForm, lineSql } from './lines.js';
import { type Batches, inOneOrder } from './merge.js';
import {
  type DuckSession,
  identifier,
  literal,
  literals,
  openDuck,
  type ScratchDuck,
} from './parquet/session.js';
import {
  MADE_TOGETHER,
  makeRows,
  type RowBlock,
  type RowMaker,
  receivedAt,
  VectorBlock,
} from './row-blocks.js';
import { type ColdReader, millisOf, type PlacedFile, type PlacedSegment } from './segments.js';

/** Rows of cold files, as vectors of DuckDB. */

/**
 * Rows of files that are made ahead of their reader, of each file that is open: one or two pieces of
 * DuckDB's. By its own default it would make a day of depth ahead, hold all of its texts, and let the
 * first row wait for them.
 */
const AHEAD_KB = 64;
/** Rows that become lines together. */
const LINES_TOGETHER = 512;

/** DuckDB for the files of one reader, opened when the first is read; all series share its limits. */
export class ColdEngine {
  readonly #signal: AbortSignal | undefined;
  readonly #isSorting: boolean;
  #opened: Promise<ScratchDuck> | undefined;
  #isClosed = false;

  /** @param isSorting whether all rows are sorted before the first comes */
  constructor(isSorting: boolean, signal: AbortSignal | undefined) {
    this.#isSorting = isSorting;
    this.#signal = signal;
  }

  /** For other statements than those for rows. @throws ParquetError; the signal's reason */
  async session(): Promise<DuckSession> {
    this.#signal?.throwIfAborted();
    if (this.#isClosed) throw new Error('the reader of cold files is closed');
    // Files that are read in their order are read side by side already; each further thread would only
    // hold what it decodes, of every one of them. One large sort is quicker with two.
    const limits = { threads: this.#isSorting ? 2 : 1, aheadKb: AHEAD_KB };
    this.#opened ??= openDuck('rows', limits, this.#signal);
    return (await this.#opened).session;
  }

  /** Rows of a statement for rows of a slice. @throws ParquetError; the signal's reason */
  rows<Row>(sql: string, slice: MergedSlice, maker: RowMaker<Row>): Batches<Row> {
    return makeRows(this.#blocks(sql), slice, maker);
  }

  async *#blocks(sql: string): AsyncGenerator<RowBlock> {
    using session = await (await this.session()).beside();
    const block = new VectorBlock();
    for await (const vectors of session.vectors('reading cold files', sql, MADE_TOGETHER)) {
      block.take(vectors);
      yield block;
    }
  }

  /** Safe to call twice. What still reads is to be closed before. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    await opened?.close();
  }
}

/**
 * Rows of a file in its order as lines of text, some hundred at a time.
 *
 * @param lead text before each line
 * @throws ParquetError; the signal's reason
 */
export async function* linesOf(
  session: DuckSession,
  path: string,
  query: ColdQuery,
  form: LineForm,
  lead = '',
): AsyncGenerator<string> {
  const doing = `reading ${path}`;
  const file = `read_parquet(${literal(path)}, hive_partitioning = false)`;
  const types = await session.types(doing, file);
  const line = lineSql(tableOfKind(query.kind), form, types, lead);
  const sql = `SELECT ${line} FROM ${sourceSql(query, [path])}`;
  for await (const { rows, columns: vectors } of session.vectors(doing, sql, LINES_TOGETHER)) {
    let lines = '';
    for (let row = 0; row < rows; row += 1) lines += `${vectors[0]?.getItem(row) as string}\n`;
    yield lines;
  }
}

/** The files of one market, in the order of their days. */
export interface MarketFiles {
  /** The market's place in the slice. */
  readonly place: number;
  readonly paths: readonly string[];
}

/** Reads a column: times and ids as numbers, decimals as text. */
function selectedSql({ name, type }: Column): string {
  const column = identifier(name);
  if (type.form === 'timestamp') return `epoch_us(${column})::DOUBLE`;
  if (type.form === 'integer') return `${column}::DOUBLE`;
  if (type.form === 'decimals') return `array_to_string(${column}::VARCHAR[], ' ')`;
  return type.form === 'text' ? column : `${column}::VARCHAR`;
}

/** Rows of files to read; the variant is null for all, and of no meaning where there is none. */
interface ColdQuery extends Pick<MergedSlice, 'fromUs' | 'toUs'> {
  readonly kind: (typeof SERIES)[SeriesTable]['kind'];
  readonly variantS: number | null;
  readonly stored?: SeriesSlice['stored'];
}

function sourceSql(
  { kind, variantS, fromUs, toUs, stored }: ColdQuery,
  paths: readonly string[],
): string {
  const table = tableOfKind(kind);
  const { variant } = seriesOf(table);
  const time = timeColumnOf(table);
  const conditions = [
    `${time} >= TIMESTAMPTZ ${literal(isoUs(fromUs))}`,
    `${time} < TIMESTAMPTZ ${literal(isoUs(toUs))}`,
    ...(variant === null || variantS === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    ...(stored === undefined ? [] : [storedSql(table, stored)]),
  ];
  // Files may differ in the digits of a decimal; the widest holds all of them.
  return `read_parquet([${literals(paths)}], hive_partitioning = false, union_by_name = ${paths.length > 1})
    WHERE ${conditions.join(' AND ')}`;
}

/**
 * Rows of one market in the order of its files, which is that of its key: nothing is sorted.
 *
 * @param newest only so many of its rows, the newest ones, newest first
 */
function fileRowsSql(query: ColdQuery, files: MarketFiles, newest?: number): string {
  const table = tableOfKind(query.kind);
  const names = rowFields(table, selectedSql).map((one, index) => `${one} AS c${index + 1}`);
  const from = sourceSql(query, files.paths);
  const order = orderOf(table).map((name) => `${identifier(name)} DESC`);
  const source =
    newest === undefined
      ? from
      : `(SELECT * FROM ${from} ORDER BY ${order.join(', ')} LIMIT ${Math.trunc(newest)})`;
  return `SELECT ${files.place}::DOUBLE AS c0, ${names.join(', ')}
    FROM ${source}`;
}

/**
 * Rows of several markets, sorted by their time or by their receipt; what does not fit into memory
 * goes to the scratch folder.
 */
export function sortedRowsSql(
  slice: Omit<MergedSlice, 'marketIds' | 'newest'>,
  markets: readonly MarketFiles[],
): string {
  const all = markets.map((files) => fileRowsSql(slice, files)).join(' UNION ALL ');
  return `${all} ORDER BY ${slice.isByReceipt ? `c${receivedAt(slice.kind)}, c0, c1, c2` : 'c1, c0, c2'}`;
}

/** Parts that read cold files. */
export interface ColdPlace {
  readonly cold: ColdReader;
  readonly engine: ColdEngine;
}

/** Returns true if rows were found before, and now. */
export async function* coldDays<Row>(
  place: ColdPlace,
  slice: MergedSlice,
  segment: PlacedSegment,
  wasBegun: boolean,
  maker: RowMaker<Row>,
): AsyncGenerator<Row[], boolean, undefined> {
  let isBegun = wasBegun;
  for (let { fromUs } = slice; fromUs < slice.toUs; ) {
    const toUs = Math.min(Math.floor(fromUs / DAY_US) * DAY_US + DAY_US, slice.toUs);
    using held = place.cold.hold();
    const files = await filesOf(place, held, { ...slice, fromUs, toUs }, segment);
    if (!isBegun && files.length > 0) {
      fromUs = yield* beginDay(place, { ...slice, fromUs, toUs }, files, maker);
      isBegun = true;
    }
    if (fromUs < toUs) yield* restOfDay(place, { ...slice, fromUs, toUs }, files, maker);
    fromUs = toUs;
  }
  return isBegun;
}

/** Rows that the first look into files aims at: the first row waits for these, not for whole groups. */
const FIRST_ROWS = 256;
/** Looks that found nothing widen so much each, before all that is left of the day is opened. */
const WIDENING = 8;
const LOOKS_MAX = 4;

/**
 * The first rows of a day, in short looks at all of its files together, so that they come as soon
 * from large files as from small ones. Returns the time from which on nothing was read.
 */
async function* beginDay<Row>(
  place: ColdPlace,
  slice: MergedSlice,
  files: readonly PlacedFile[],
  maker: RowMaker<Row>,
): AsyncGenerator<Row[], number, undefined> {
  const rows = files.reduce((sum, file) => sum + file.rows, 0);
  const firstUs = Math.min(...files.map(({ first }) => Date.parse(first))) * 1000;
  const lastUs = Math.max(...files.map(({ last }) => Date.parse(last))) * 1000;
  // Rows of one second stay together.
  const onSecond = (us: number) => Math.ceil(us / SECOND_US) * SECOND_US;
  let widthUs = onSecond(((lastUs - firstUs) / rows) * FIRST_ROWS + 1);
  let [atUs, endUs] = [slice.fromUs, onSecond(Math.max(slice.fromUs, firstUs))];
  for (let look = 0; look < LOOKS_MAX && atUs < slice.toUs; look += 1) {
    endUs = Math.min(endUs + widthUs, slice.toUs);
    let hasFound = false;
    const found = sortedFiles(place, { ...slice, fromUs: atUs, toUs: endUs }, files, maker);
    for await (const batch of found) {
      hasFound = true;
      yield batch;
    }
    atUs = endUs;
    if (hasFound) break;
    widthUs *= WIDENING;
  }
  return atUs;
}

/**
 * Files of one day that are read side by side, the largest ones. What is left are the small ones:
 * they are sorted together instead, because every open file holds some memory.
 */
const OPEN_FILES_MAX = 24;

function restOfDay<Row>(
  place: ColdPlace,
  slice: MergedSlice,
  files: readonly PlacedFile[],
  maker: RowMaker<Row>,
): Batches<Row> {
  const bySize = files.toSorted((a, b) => b.rows - a.rows);
  const isAll = bySize.length <= OPEN_FILES_MAX;
  const large = bySize.slice(0, isAll ? OPEN_FILES_MAX : OPEN_FILES_MAX - 1);
  const small = bySize.slice(large.length);
  const read = byMarket(slice, large).map((one) =>
    place.engine.rows(fileRowsSql(slice, one), slice, maker),
  );
  if (small.length > 0) read.push(sortedFiles(place, slice, small, maker));
  return inOneOrder(read, maker);
}

export function sortedFiles<Row>(
  { engine }: ColdPlace,
  slice: MergedSlice,
  files: readonly PlacedFile[],
  maker: RowMaker<Row>,
): Batches<Row> {
  return engine.rows(sortedRowsSql(slice, byMarket(slice, files)), slice, maker);
}

function byMarket({ marketIds }: MergedSlice, files: readonly PlacedFile[]): MarketFiles[] {
  return marketIds.flatMap((marketId, place) => {
    const paths = files.filter((one) => one.marketId === marketId).map((one) => one.absolutePath);
    return paths.length === 0 ? [] : [{ place, paths }];
  });
}

export async function filesOf(
  { cold }: ColdPlace,
  held: ColdHold,
  slice: MergedSlice,
  segment: PlacedSegment,
) {
  const span = millisOf(slice.fromUs, slice.toUs);
  const files = await cold.filesOf(held, segment, span, slice.marketIds);
  return files.filter(({ rows }) => rows > 0);
}

/** Rows of each piece of so many milliseconds, by its start. */
export async function coldCounts(
  { cold, engine }: ColdPlace,
  { kind, marketId, variantS, span }: SeriesSlice,
  segment: PlacedSegment,
  widthMs: number,
): Promise<(readonly [fromMs: number, rows: number])[]> {
  using held = cold.hold();
  const found = await cold.filesOf(held, segment, span, [marketId]);
  const files = found.filter(({ rows }) => rows > 0);
  if (files.length === 0) return [];
  const [fromUs, toUs] = [span.fromMs * 1000, span.toMs * 1000];
  const source = sourceSql(
    { kind, variantS, fromUs, toUs },
    files.map(({ absolutePath }) => absolutePath),
  );
  const width = Math.trunc(widthMs);
  const piece = `epoch_ms(${identifier(timeColumnOf(tableOfKind(kind)))}) // ${width} * ${width}`;
  const sql = `SELECT ${piece}, count(*) FROM ${source} GROUP BY 1`;
  const rows = await (await engine.session()).rows('counting cold rows', sql);
  return rows.map(([fromMs, count]) => [Number(fromMs), Number(count)] as const);
}

/** Rows that are compressed together, by the times between which they lie. */
interface RowGroup {
  readonly rows: number;
  readonly firstUs: number;
  readonly lastUs: number;
}

/** So many rows are held at once to see whether they are enough. */
const MAX_TRIED = 10_000;
/** Rows come in bursts: the time that is looked at would on average hold so many times what is asked. */
const AMPLE = 4;

/** The newest rows of a file, newest first. Only the groups of rows that can hold them are looked at. */
export async function* newestOfFile<Row>(
  engine: ColdEngine,
  { absolutePath: path, marketId }: PlacedFile,
  slice: MergedSlice,
  limit: number,
  maker: RowMaker<Row>,
): Batches<Row> {
  const groups = await groupsOf(engine, path, slice);
  const files = { place: slice.marketIds.indexOf(marketId), paths: [path] };
  const ask = (fromUs: number) =>
    engine.rows(fileRowsSql({ ...slice, fromUs }, files, limit), slice, maker);
  const surelyUs = Math.max(slice.fromUs, startOfNewest(groups, slice, limit));
  const likelyUs = likelyStart(groups, slice, limit);
  if (likelyUs !== null && likelyUs > surelyUs) {
    const rows: Row[] = [];
    for await (const batch of ask(likelyUs)) rows.push(...batch);
    if (rows.length >= limit) {
      yield rows;
      return;
    }
  }
  yield* ask(surelyUs);
}

/** Least and greatest time of each group, from the file's own statistics; none if it has none. */
async function groupsOf(engine: ColdEngine, path: string, slice: MergedSlice): Promise<RowGroup[]> {
  const table = tableOfKind(slice.kind);
  // In a file of several variants a group may hold several of them; there it has no meaning.
  if (seriesOf(table).variant !== null) return [];
  const us = (name: string) => `epoch_us(${name}::TIMESTAMPTZ)`;
  const rows = await (await engine.session()).rows(
    `reading ${path}`,
    `SELECT row_group_num_rows, ${us('stats_min_value')}, ${us('stats_max_value')}
     FROM parquet_metadata(${literal(path)}) WHERE path_in_schema = ${literal(timeColumnOf(table))}
       AND stats_min_value IS NOT NULL AND stats_max_value IS NOT NULL
     ORDER BY row_group_id`,
  );
  return rows.map(([count, firstUs, lastUs]) => ({
    ...{ rows: Number(count), firstUs: Number(firstUs), lastUs: Number(lastUs) },
  }));
}

/** A time from which on there are at least `limit` rows of the slice, by statistics. */
function startOfNewest(groups: readonly RowGroup[], slice: MergedSlice, limit: number): number {
  let rows = 0;
  for (const group of groups.toReversed()) {
    if (group.firstUs >= slice.toUs) continue;
    if (group.lastUs < slice.toUs) rows += group.rows;
    if (rows >= limit) return group.firstUs;
  }
  return slice.fromUs;
}

/**
 * A time from which on there are as many rows if they come as evenly as in the rest of their group:
 * worth a try, because then most of the group is passed over. Null where it is not.
 */
function likelyStart(
  groups: readonly RowGroup[],
  { toUs }: MergedSlice,
  limit: number,
): number | null {
  const group = groups.findLast(({ firstUs }) => firstUs < toUs);
  if (group === undefined || limit > MAX_TRIED || group.rows < AMPLE * limit) return null;
  const endUs = Math.min(toUs, group.lastUs + 1);
  return Math.floor(endUs - ((group.lastUs - group.firstUs) / group.rows) * limit * AMPLE);
}
