import type { Span } from '../../kernel/span.js';
import { isoMs, isoUs } from '../../kernel/timestamp.js';
import type { Piece } from '../../model/explain.js';
import {
  columnsOf,
  type MergedKind,
  orderOf,
  rowFields,
  type SeriesColumn,
  type SeriesKind,
  tableOfKind,
  timeColumnOf,
} from '../../model/kinds.js';
import { type SeriesTable, seriesOf } from '../../model/series.js';
import type { ConnectionOptions } from '../address.js';
import { readStreamPieces, type StreamChoice, type StreamPiece } from '../completeness/days.js';
import type { StreamPlace } from '../completeness/ledger.js';
import { Connection, inStoreWords } from '../connection.js';
import { journalNumber } from '../journal.js';
import { LOCK_READING } from '../locks.js';
import { withinSql } from '../schema/partitions.js';
import { readPieces } from './pieces.js';

/** Rows of one market: those of which the instant lies in the span. */
export interface SeriesSlice {
  readonly kind: MergedKind;
  readonly marketId: number;
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly span: Span;
  /** Only the rows that these entries of the journal stored. */
  readonly stored?: readonly StoredRows[];
}

/** Rows that a transaction stored, as its entry in the journal tells them. */
export interface StoredRows {
  readonly span: Span;
  readonly received: Span;
}

/**
 * How rows are written, one a line that ends with `\n`; none holds another line break.
 *
 * - `csv`: the columns of {@link SeriesColumn} in their order with commas between, nothing for null.
 *   Lists of decimals are JSON arrays, in quotes where they hold commas. No header.
 * - `json`: an object, with decimals as text so that no reader makes floats of them.
 */
export type RowForm = 'csv' | 'json';

function csvExpression({ name, type }: SeriesColumn, table = ''): string {
  const column = `${table}${name}`;
  return type === 'decimals' ? `'[' || array_to_string(${column}, ',') || ']'` : column;
}

/** The conditions of a half-open span. */
function within(column: string, from: string, to: string): string[] {
  return [`${column} >= timestamptz '${from}'`, `${column} < timestamptz '${to}'`];
}

/** A condition of SQL, for Postgres and DuckDB, that rows of a series were stored by one of these. */
export function storedSql(table: SeriesTable, stored: readonly StoredRows[]): string {
  const bounds = (column: string, { fromMs, toMs }: Span) =>
    within(column, isoMs(fromMs), isoMs(toMs));
  const each = stored.map(({ span, received }) =>
    [...bounds(timeColumnOf(table), span), ...bounds(seriesOf(table).received, received)].join(
      ' AND ',
    ),
  );
  return `(${each.join(' OR ')})`;
}

function jsonExpression({ name, type }: SeriesColumn): string {
  if (type === 'decimals') return `${name}::text[] AS ${name}`;
  return type === 'decimal' ? `${name}::text AS ${name}` : name;
}

/**
 * The statement that reads a slice. COPY takes no parameters; what is written into it here are names
 * of this program and numbers.
 */
export function copyRowsSql(
  { kind, marketId, variantS, span, stored }: SeriesSlice,
  form: RowForm,
): string {
  const table = tableOfKind(kind);
  const { variant } = seriesOf(table);
  const columns = columnsOf(table);
  const conditions = [
    `market_id = ${Math.trunc(marketId)}`,
    ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    ...within(timeColumnOf(table), isoMs(span.fromMs), isoMs(span.toMs)),
    ...(stored === undefined ? [] : [storedSql(table, stored)]),
  ];
  const rest = `FROM ${table} WHERE ${conditions.join(' AND ')} ORDER BY ${orderOf(table).join(', ')}`;
  if (form === 'json') {
    const query = `SELECT ${columns.map(jsonExpression).join(', ')} ${rest}`;
    // Marks that JSON text never holds, so that every line is the object and nothing else.
    const options = `FORMAT csv, DELIMITER E'\\x02', QUOTE E'\\x01'`;
    return `COPY (SELECT row_to_json(r) FROM (${query}) r) TO STDOUT (${options})`;
  }
  const selected = columns.map((one) => csvExpression(one));
  return `COPY (SELECT ${selected.join(', ')} ${rest}) TO STDOUT (FORMAT csv)`;
}

/** Rows of several markets: those of which the first column of their key lies in the span. */
export interface MergedSlice {
  readonly kind: MergedKind;
  /** At least one; rows hold the place in this list. */
  readonly marketIds: readonly number[];
  /** Interval of candles or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** UNIX microseconds, half-open. */
  readonly fromUs: number;
  readonly toUs: number;
  /** In the order in which they became known, instead of the order of their time. */
  readonly isByReceipt: boolean;
  /** In the order of receipt: the parts of the span whose rows are in the database. Default: all of it. */
  readonly within?: readonly Span[];
  /** Of one market, in the order of time: only so many, the newest ones, newest first. */
  readonly newest?: number;
}

/** What becomes the fields of a line, after the place of the market. */
function fieldsOf(table: SeriesTable): string[] {
  return rowFields(table, ({ name, type }) =>
    type.form === 'decimals' ? `array_to_string(${name}, ' ')` : name,
  );
}

/** What holds while it is read: sorting is of use only where there is no index to go by. */
function mergedSettings({ isByReceipt }: MergedSlice): string {
  return isByReceipt
    ? `SET LOCAL enable_sort = on; SET LOCAL work_mem = '64MB'`
    : 'SET LOCAL enable_sort = off; SET LOCAL max_parallel_workers_per_gather = 0';
}

/**
 * The statement that reads rows of several markets in one order. In the order of time each market is
 * read by the order of its index and the database merges them, so that nothing is sorted and the
 * first row costs no more than the last; a flat list of conditions would be sorted whole. In the
 * order of receipt there is no index: the database sorts, on its disk what does not fit its memory.
 */
export function copyMergedSql(slice: MergedSlice): string {
  const { kind, marketIds, variantS, fromUs, toUs, isByReceipt, newest, within: parts } = slice;
  const table = tableOfKind(kind);
  const { variant, received } = seriesOf(table);
  const [order, fields] = [orderOf(table), fieldsOf(table)];
  const ids = marketIds.map((id) => Math.trunc(id));
  const conditions = [
    ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
    ...within(timeColumnOf(table), isoUs(fromUs), isoUs(toUs)),
    ...(parts === undefined ? [] : [withinSql(timeColumnOf(table), parts)]),
  ].join(' AND ');
  const selected = fields.join(', ');
  if (isByReceipt) {
    const places = `'{${ids.join(',')}}'::int[]`;
    return `COPY (
      SELECT array_position(${places}, market_id) - 1 AS place, ${selected} FROM ${table}
      WHERE market_id = ANY (${places}) AND ${conditions}
      ORDER BY ${received}, place, ${order.join(', ')}) TO STDOUT`;
  }
  const names = fields.map((field, index) => `${field} AS f${index}`).join(', ');
  const sorted =
    newest === undefined
      ? order.join(', ')
      : `${order.map((name) => `${name} DESC`).join(', ')} LIMIT ${Math.trunc(newest)}`;
  const branches = ids.map(
    (id, place) => `(SELECT ${place} AS place, ${names} FROM ${table}
      WHERE market_id = ${id} AND ${conditions} ORDER BY ${sorted})`,
  );
  // The first field is the time. One branch alone is in order, and may not be given another.
  const merged = branches.length === 1 ? '' : ' ORDER BY f0';
  return `COPY (${branches.join(' UNION ALL ')}${merged}) TO STDOUT`;
}

/** Rows of some markets, or (null) of all, with all intervals or periods, in no order. */
export interface TableSlice {
  readonly kind: SeriesKind;
  /** Columns that follow the name of the market. */
  readonly columns: readonly SeriesColumn[];
  readonly marketIds: readonly number[] | null;
  readonly span: Span;
}

/** Tables of the schema `analytics` that can be had whole. */
export type LedgerTable = 'markets' | 'coverage' | 'gaps';

/**
 * Statements that write rows for a reader who puts them into tables of its own and needs no order.
 * COPY takes no parameters; what is written into them here are names of this program and numbers.
 */

/** Rows of a series with the name of their market before them. */
export function copyTableSql({ kind, columns, marketIds, span }: TableSlice): string {
  const table = tableOfKind(kind);
  const [from, to] = [isoMs(span.fromMs), isoMs(span.toMs)];
  const selected = ['m.name', ...columns.map((one) => csvExpression(one, 't.'))];
  const ids = marketIds?.map((id) => Math.trunc(id)).join(', ');
  const conditions = [
    ...within(`t.${timeColumnOf(table)}`, from, to),
    ...(ids === undefined ? [] : [`t.market_id IN (${ids === '' ? 'NULL' : ids})`]),
  ];
  return `COPY (SELECT ${selected.join(', ')} FROM ${table} t
    JOIN market m ON m.market_id = t.market_id WHERE ${conditions.join(' AND ')}) TO STDOUT (FORMAT csv)`;
}

/** Tables of the ledger as analysts know them. */
const LEDGER: Readonly<Record<LedgerTable, string>> = {
  markets: `market, base, quote, base_prec, quote_prec, fee_prec, min_amount, first_seen_at,
    last_seen_at, delisted_at, market_id FROM analytics.markets`,
  coverage: 'market, kind, variant, starts_at, ends_at, updated_at FROM analytics.coverage',
  gaps: `market, kind, variant, starts_at, ends_at, state, reason, is_lag, attempts, first_seen_at,
    next_attempt_at, note, is_before_history FROM analytics.gaps`,
};

/** A partition whose rows are in files, or gone. */
export interface PlacedPartition {
  readonly table: string;
  readonly span: Span;
  /** `sealed`: in files and in the database; `archived`: in files; `expired`: gone for good. */
  readonly state: 'sealed' | 'archived' | 'expired';
  /** Manifest of its files, relative to the folder of cold partitions; null without any. */
  readonly uri: string | null;
  /** Checksum that its manifest carries of itself; null without a manifest. */
  readonly manifestSha256: string | null;
}

/** The server may be silent this long while rows are due; the reader may take any time. */
const SILENCE_MS = 120_000;
/** The same while it sorts what may be the whole archive. */
const SORTING_MS = 6 * 3_600_000;
/** Error text of a snapshot that was lost: what it saw is gone with it. */
const LOST = 'read again: the connection that the archive was read through is lost';

/**
 * The first statement of the transaction, held until its end. LOCK TABLE takes no snapshot, so that
 * what is seen afterwards is what was there once the lock was had.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ${LOCK_READING}`;

const READ_PLACED = `
  SELECT table_name AS table, span, state, uri, manifest_sha256
  FROM partition_state WHERE state IN ('archived', 'expired')
    OR state = 'sealed' AND uri IS NOT NULL AND manifest_sha256 IS NOT NULL
  ORDER BY table_name, lower(span)`;

/**
 * Rows come by COPY, which has neither a limit on its time nor, by the order of the primary key,
 * anything to sort: the planner would otherwise sort whole days on the server's disk. The instant that
 * is seen is that of the first statement, not of BEGIN.
 *
 * No reader is too slow: it may pause, and one of sparse rows waits for those of dense ones as long as
 * these take. What ends a snapshot is its reader, or the end of the reader's program; when that goes with
 * its machine without closing, the server finds out by asking its network.
 */
const SETTINGS = `
  SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;
  SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 6;
  SET enable_sort = off;`;
const SEE_NOW = 'SELECT pg_current_snapshot()';

/**
 * The archive as it is at one instant: rows and ledger agree, whatever is written meanwhile. It is one
 * connection in one transaction, which holds old row versions in the database; close it soon. A failure
 * of the wire, a silent server or a reader that left ends it.
 */
export class ArchiveSnapshot {
  /** What is not in the database, by table and time. No partition leaves while this is open. */
  readonly removed: readonly PlacedPartition[];
  /** Those, and the partitions that are in files as well. */
  readonly placed: readonly PlacedPartition[];
  readonly #connection: Connection;
  readonly #openFork: (seen: string) => Promise<ArchiveSnapshot>;

  constructor(
    connection: Connection,
    placed: readonly PlacedPartition[],
    openFork: (seen: string) => Promise<ArchiveSnapshot>,
  ) {
    this.#connection = connection;
    this.placed = placed;
    this.removed = placed.filter(({ state }) => state !== 'sealed');
    this.#openFork = openFork;
  }

  /** Number of the newest entry of the journal: whoever has read everything here continues after it. */
  async journalNumber(): Promise<number> {
    return await journalNumber(this.#connection);
  }

  /** Returns the pieces of a span of a stream, covered or missing. */
  async pieces(stream: StreamPlace, span: Span): Promise<Piece[]> {
    return await readPieces(this.#connection, stream, span);
  }

  /** Reads what is expected of streams in a time range; see {@link readStreamPieces}. */
  async streamPieces(choice: StreamChoice, span: Span, nowMs: number): Promise<StreamPiece[]> {
    return await readStreamPieces(this.#connection, choice, span, nowMs);
  }

  /**
   * Rows as text in the order of time and id, in pieces that may end anywhere. Memory does not grow
   * with their number; the reader's pace is the database's. One at a time; a reader that leaves
   * before the end ends the snapshot.
   *
   * @throws {@link StoreError}, and the signal's reason
   */
  rows(slice: SeriesSlice, form: RowForm, signal?: AbortSignal): AsyncGenerator<Buffer> {
    return this.#connection.copyOut(copyRowsSql(slice, form), { signal });
  }

  /**
   * Rows of several markets as text, a line each, the fields with tabs between and `\\N` for null:
   * the market's place in the list, the time, and what the kind has (see `copyMergedSql`). In the
   * order of time, rows of the same instant in any order; or in that of receipt, then by place and
   * key, which the database sorts before the first row comes. Otherwise as {@link rows}.
   */
  async *merged(slice: MergedSlice, signal?: AbortSignal): AsyncGenerator<Buffer> {
    await this.#connection.rows(mergedSettings(slice));
    const silenceMs = slice.isByReceipt ? SORTING_MS : SILENCE_MS;
    yield* this.#connection.copyOut(copyMergedSql(slice), { signal, silenceMs });
  }

  /** Rows of each piece of so many milliseconds, by its start. @throws {@link StoreError} */
  async countEach(
    { kind, marketId, variantS, span }: SeriesSlice,
    widthMs: number,
  ): Promise<(readonly [fromMs: number, rows: number])[]> {
    const table = tableOfKind(kind);
    const { variant } = seriesOf(table);
    const time = timeColumnOf(table);
    const conditions = [
      'market_id = $1',
      ...(variant === null ? [] : [`${variant} = ${Math.trunc(variantS)}`]),
      ...within(time, isoMs(span.fromMs), isoMs(span.toMs)),
    ];
    const piece = `date_bin($2 * interval '1 ms', ${time}, timestamptz 'epoch')`;
    const sql = `SELECT ${piece} AS start, count(*) AS rows
      FROM ${table} WHERE ${conditions.join(' AND ')} GROUP BY 1`;
    const rows = await this.#connection.rows<{ startMs: number; rows: number }>(sql, [
      ...[marketId, widthMs],
    ]);
    return rows.map((row) => [row.startMs, row.rows] as const);
  }

  /** Another connection that sees the same instant, for reading beside this one; to be closed too. */
  async fork(): Promise<ArchiveSnapshot> {
    const sql = 'SELECT pg_export_snapshot() AS seen';
    const [row] = await this.#connection.rows<{ seen: string }>(sql);
    return await this.#openFork(row?.seen ?? '');
  }

  /** Rows in no order as CSV without heading, the market's name first. Otherwise as {@link rows}. */
  table(slice: TableSlice, signal?: AbortSignal): AsyncGenerator<Buffer> {
    return this.#connection.copyOut(copyTableSql(slice), { signal });
  }

  /** A table of the ledger as CSV without heading. Otherwise as {@link rows}. */
  ledger(table: LedgerTable, signal?: AbortSignal): AsyncGenerator<Buffer> {
    const sql = `COPY (SELECT ${LEDGER[table]}) TO STDOUT (FORMAT csv)`;
    return this.#connection.copyOut(sql, { signal });
  }

  /** Safe to call twice. */
  async close(): Promise<void> {
    await this.#connection.close();
  }
}

/**
 * Begins the transaction of a snapshot. A wait for a lock ends at the deadline of a
 * statement.
 *
 * @param ending ends the snapshot with the store
 * @param seen the exported instant of another snapshot; now when left out
 * @throws {@link StoreError} naming host, port and database
 */
export async function openSnapshot(
  options: ConnectionOptions,
  ending: AbortSignal,
  seen?: string,
): Promise<ArchiveSnapshot> {
  const connection = await Connection.open(options, {
    ...{ silenceMs: SILENCE_MS, signal: ending, explain: inStoreWords, lostText: LOST },
  });
  try {
    await connection.rows(BEGIN);
    const see = seen === undefined ? SEE_NOW : `SET TRANSACTION SNAPSHOT '${seen}'`;
    await connection.rows(`${SETTINGS} ${see}`);
    const placed = await connection.rows<PlacedPartition>(READ_PLACED);
    const openFork = (at: string) => openSnapshot(options, ending, at);
    return new ArchiveSnapshot(connection, placed, openFork);
  } catch (error) {
    connection.destroy();
    throw error;
  }
}
