import { Socket } from 'node:net';
import pg from 'pg';
import { to as copyTo } from 'pg-copy-streams';
import { startDeadline } from '../../kernel/clock.js';
import { AbortedError, messageOf } from '../../kernel/errors.js';
import type { Span } from '../../kernel/span.js';
import type {
  ArchiveSnapshot,
  DepartedPartition,
  LedgerTable,
  MergedSlice,
  RowForm,
  SeriesSlice,
  SpanCompleteness,
  TableSlice,
} from '../api-series.js';
import { copyMergedSql, mergedSettings } from '../completeness/merged-rows.js';
import { readSpanCompleteness } from '../completeness/span-completeness.js';
import {
  type ConnectionOptions,
  clientConfig,
  connectFailure,
  sessionSettings,
} from '../connection.js';
import { StoreError } from '../errors.js';
import { toMs } from '../instants.js';
import { LOCK_READING } from '../locks.js';
import { actionOf, sqlstateOf, toStoreError } from '../sqlstate.js';
import { copyRowsSql } from './copy-rows.js';
import { copyLedgerSql, copyTableSql } from './table-rows.js';

/** The server may be silent this long while rows are due; the reader may take any time. */
const SILENCE_MS = 120_000;
/** The same while it sorts what may be the whole archive. */
const SORTING_MS = 6 * 3_600_000;
/** Read ahead of a slow reader, bytes. */
const READ_AHEAD = 256 * 1024;

/**
 * The first statement of the transaction, held until its end. LOCK TABLE takes no snapshot, so that
 * what is seen afterwards is what was there once the lock was had.
 */
const BEGIN = `BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; ${LOCK_READING}`;

const READ_DEPARTED = `
  SELECT table_name AS "table", ${toMs('lower(span)')} AS "fromMs", ${toMs('upper(span)')} AS "toMs",
         state, uri, manifest_sha256 AS "manifestSha256"
  FROM partition_state WHERE state IN ('archived', 'expired') ORDER BY table_name, lower(span)`;

/**
 * Rows come by COPY, which has neither a limit on its time nor, by the order of the primary key,
 * anything to sort: the planner would otherwise sort whole days on the server's disk. The moment that
 * is seen is that of the first statement, not of BEGIN.
 *
 * Nobody is too slow: a reader may pause, and one of sparse rows waits for those of dense ones as long as
 * these take. What ends a snapshot is its reader, or the end of the reader's program; when that goes with
 * its machine and says no word, the server finds out by asking its network.
 */
const SETTINGS = `
  SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0;
  SET tcp_keepalives_idle = 60; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 6;
  SET enable_sort = off;`;
const SEE_NOW = 'SELECT pg_current_snapshot()';

/**
 * One connection in one transaction that sees one moment.
 *
 * States: *open* → *lost*. A failure of the wire, a silent server or a reader that left ends it.
 */
class PostgresSnapshot implements ArchiveSnapshot {
  readonly #client: pg.Client;
  readonly #socket: Socket;
  readonly #options: ConnectionOptions;
  readonly #openTwin: (seen: string) => Promise<ArchiveSnapshot>;
  #departed: readonly DepartedPartition[] = [];
  #isLost = false;
  /** What took it away, where that was not its owner. */
  #lostBy: unknown;

  constructor(
    client: pg.Client,
    socket: Socket,
    options: ConnectionOptions,
    openTwin: (seen: string) => Promise<ArchiveSnapshot>,
  ) {
    this.#client = client;
    this.#socket = socket;
    this.#options = options;
    this.#openTwin = openTwin;
    const lose = (reason: unknown) => {
      if (!this.#isLost) this.#lostBy = reason;
      this.#isLost = true;
    };
    client.on('error', lose);
    client.on('end', () => lose(new Error('the server closed it')));
  }

  get departed(): readonly DepartedPartition[] {
    return this.#departed;
  }

  /**
   * Begins the transaction. Whatever waits for a lock gives up at the deadline of a statement.
   *
   * @param seen the exported moment of another snapshot; now when left out
   */
  async begin(seen?: string): Promise<void> {
    await this.#client.query(BEGIN);
    const see = seen === undefined ? SEE_NOW : `SET TRANSACTION SNAPSHOT '${seen}'`;
    await this.#client.query(`${SETTINGS} ${see}`);
    const rows = await this.#ask<Omit<DepartedPartition, 'span'> & Span>(READ_DEPARTED, []);
    this.#departed = rows.map(({ fromMs, toMs: endMs, ...rest }) => ({
      ...{ ...rest, span: { fromMs, toMs: endMs } },
    }));
  }

  async completeness(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness> {
    return await readSpanCompleteness(
      (sql, values) => this.#ask(sql, values),
      ...([stream, span, limit] as const),
    );
  }

  rows(slice: SeriesSlice, form: RowForm, signal?: AbortSignal): AsyncGenerator<Buffer> {
    return this.#copy(copyRowsSql(slice, form), signal);
  }

  async *merged(slice: MergedSlice, signal?: AbortSignal): AsyncGenerator<Buffer> {
    await this.#ask(mergedSettings(slice), []);
    yield* this.#copy(copyMergedSql(slice), signal, slice.isByReceipt ? SORTING_MS : SILENCE_MS);
  }

  async twin(): Promise<ArchiveSnapshot> {
    const [row] = await this.#ask<{ seen: string }>('SELECT pg_export_snapshot() AS seen', []);
    return await this.#openTwin(row?.seen ?? '');
  }

  table(slice: TableSlice, signal?: AbortSignal): AsyncGenerator<Buffer> {
    return this.#copy(copyTableSql(slice), signal);
  }

  ledger(table: LedgerTable, signal?: AbortSignal): AsyncGenerator<Buffer> {
    return this.#copy(copyLedgerSql(table), signal);
  }

  async *#copy(
    sql: string,
    signal: AbortSignal | undefined,
    silenceMs = SILENCE_MS,
  ): AsyncGenerator<Buffer> {
    this.#check(signal);
    const stop = () => this.destroy();
    signal?.addEventListener('abort', stop, { once: true });
    let isWhole = false;
    try {
      const copied = this.#client.query(copyTo(sql, { highWaterMark: READ_AHEAD }));
      const pieces = copied[Symbol.asyncIterator]() as AsyncIterator<Buffer, undefined>;
      for (;;) {
        const piece = await this.#inTime(pieces.next(), silenceMs);
        if (piece.done === true) break;
        yield piece.value;
      }
      isWhole = true;
    } catch (error) {
      signal?.throwIfAborted();
      if (!this.#isLost) this.#lostBy = error;
      throw failure(error);
    } finally {
      signal?.removeEventListener('abort', stop);
      if (!isWhole) this.destroy();
    }
  }

  async close(): Promise<void> {
    const isOpen = !this.#isLost;
    this.#isLost = true;
    if (isOpen) await this.#inTime(this.#client.end()).catch(() => undefined);
    this.destroy();
  }

  destroy(): void {
    this.#isLost = true;
    this.#socket.destroy();
  }

  async #ask<Row extends object>(sql: string, values: readonly unknown[]): Promise<Row[]> {
    this.#check();
    try {
      return (await this.#inTime(this.#client.query<Row>(sql, [...values]))).rows;
    } catch (error) {
      throw failure(error);
    }
  }

  #check(signal?: AbortSignal): void {
    signal?.throwIfAborted();
    if (!this.#isLost) return;
    if (this.#lostBy === undefined) throw new AbortedError('the snapshot is closed');
    const cause = this.#lostBy;
    const text = `the connection that the archive was read through is lost (${messageOf(cause)}): read again`;
    throw new StoreError('database_unreachable', 'retry', text, {
      ...{ cause, sqlstate: sqlstateOf(cause) },
    });
  }

  /** Waits for the server, but not for ever. */
  async #inTime<T>(work: Promise<T>, silenceMs = SILENCE_MS): Promise<T> {
    const silent = () =>
      new StoreError(
        'database_unreachable',
        'retry',
        `Postgres was silent for ${silenceMs / 1000} s while it was read from`,
      );
    using deadline = startDeadline(this.#options.clock, silenceMs, silent);
    let onMissed: () => void = () => undefined;
    const missed = new Promise<never>((_, reject) => {
      onMissed = () => {
        this.#lostBy ??= deadline.signal.reason;
        this.destroy();
        reject(deadline.signal.reason as Error);
      };
    });
    deadline.signal.addEventListener('abort', onMissed);
    return await Promise.race([work, missed]);
  }
}

function failure(error: unknown): Error {
  const doing = actionOf(error) === 'retry' ? 'the database is in trouble' : 'refused';
  return toStoreError(error, doing);
}

/** The snapshots of one store: what is open when the store stops is ended with it. */
export class Snapshots {
  readonly #options: ConnectionOptions;
  readonly #open = new Set<Socket>();

  constructor(options: ConnectionOptions) {
    this.#options = options;
  }

  /**
   * @param seen the exported moment of another snapshot; now when left out
   * @throws {@link StoreError} naming host, port and database
   */
  async open(seen?: string): Promise<ArchiveSnapshot> {
    const options = this.#options;
    const socket = new Socket();
    this.#open.add(socket);
    socket.once('close', () => this.#open.delete(socket));
    try {
      const client = new pg.Client({ ...clientConfig(options), stream: () => socket });
      const snapshot = new PostgresSnapshot(client, socket, options, (at) => this.open(at));
      await client.connect();
      await client.query(sessionSettings(options.statementTimeoutMs));
      await snapshot.begin(seen);
      return snapshot;
    } catch (error) {
      socket.destroy();
      throw connectFailure(error, options.databaseUrl);
    }
  }

  stop(): void {
    for (const socket of this.#open) socket.destroy();
  }
}
