import type { Span } from '../../kernel/span.js';
import { readSpanCompleteness, type SpanCompleteness } from '../completeness/gaps.js';
import { Connection, type ConnectionOptions, connectFailure, inStoreWords } from '../connection.js';
import { LOCK_READING } from '../locks.js';
import { boundsSql, type Flat, withSpan } from '../sql.js';
import {
  copyLedgerSql,
  copyMergedSql,
  copyRowsSql,
  copyTableSql,
  type LedgerTable,
  type MergedSlice,
  mergedSettings,
  type RowForm,
  type SeriesSlice,
  type TableSlice,
} from './copy-sql.js';

/** A partition whose rows are no longer in the database. */
export interface RemovedPartition {
  readonly table: string;
  readonly span: Span;
  /** `archived`: in files; `expired`: gone for good. */
  readonly state: 'archived' | 'expired';
  /** Manifest of its files, relative to the folder of cold partitions; null without any. */
  readonly uri: string | null;
  /** What its manifest carries of itself; null where that is not known: of an earlier version. */
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

const READ_REMOVED = `
  SELECT table_name AS "table", ${boundsSql('span')},
         state, uri, manifest_sha256 AS "manifestSha256"
  FROM partition_state WHERE state IN ('archived', 'expired') ORDER BY table_name, lower(span)`;

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
  readonly removed: readonly RemovedPartition[];
  readonly #connection: Connection;
  readonly #openFork: (seen: string) => Promise<ArchiveSnapshot>;

  constructor(
    connection: Connection,
    removed: readonly RemovedPartition[],
    openFork: (seen: string) => Promise<ArchiveSnapshot>,
  ) {
    this.#connection = connection;
    this.removed = removed;
    this.#openFork = openFork;
  }

  /** The streams that cover a series; of tickers the one of all markets. */
  async completeness(
    stream: Parameters<typeof readSpanCompleteness>[1],
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness> {
    return await readSpanCompleteness(this.#connection, stream, span, limit);
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
    return this.#connection.copyOut(copyLedgerSql(table), { signal });
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
    const removed = await connection.rows<Flat<RemovedPartition>>(READ_REMOVED);
    const openFork = (at: string) => openSnapshot(options, ending, at);
    return new ArchiveSnapshot(connection, removed.map(withSpan), openFork);
  } catch (error) {
    connection.destroy();
    throw connectFailure(error, options.databaseUrl);
  }
}
