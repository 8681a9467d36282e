import type { Span } from '../../kernel/span.js';
import {
  SERIES_TABLES,
  type SeriesTable,
  STREAM_KINDS,
  tableOfStream,
} from '../../model/series.js';
import type { StoreEvents } from '../../observe/events.js';
import type { Runner } from '../connection.js';
import { StoreError } from '../errors.js';
import { boundsSql, type Flat, withSpan } from '../sql.js';

/** How much time one partition holds. All boundaries are UTC. */
export type PartitionWidth = 'day' | 'month';

const READ_POLICY = 'SELECT table_name, width FROM partition_policy';
/** One call a transaction: a maker holds its lock only as long as one partition takes. */
const MAKE_PARTITION =
  "SELECT make_partition($1, timestamptz 'epoch' + $2 * interval '1 ms') AS made";

/** Most partitions that one call may make: beyond it the caller has mistaken the unit of a time. */
const MAX_PARTITIONS_A_CALL = 10_000;

/** Start of the period that holds `ms`, UTC. */
export function periodStartMs(width: PartitionWidth, ms: number): number {
  const date = new Date(ms);
  const day = width === 'day' ? date.getUTCDate() : 1;
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth(), day);
}

/** Start of the period after the one that begins at `startMs`. */
export function nextPeriodMs(width: PartitionWidth, startMs: number): number {
  const date = new Date(startMs);
  const [year, month] = [date.getUTCFullYear(), date.getUTCMonth()];
  return width === 'day' ? Date.UTC(year, month, date.getUTCDate() + 1) : Date.UTC(year, month + 1);
}

/**
 * Makes partitions, and remembers which exist so that the writer need not ask. What is remembered
 * may turn out wrong (a partition was archived): then {@link Partitions.forget} and ask again.
 */
export class Partitions {
  readonly #database: Runner;
  readonly #telemetry: StoreEvents;
  readonly #known = new Set<string>();
  #widths: ReadonlyMap<string, PartitionWidth> | undefined;

  constructor(database: Runner, telemetry: StoreEvents) {
    this.#database = database;
    this.#telemetry = telemetry;
  }

  /** Makes what is missing for `span`. Returns the names of the new partitions. */
  async ensure(table: SeriesTable, { fromMs, toMs }: Span): Promise<string[]> {
    const width = await this.#width(table);
    const starts: number[] = [];
    for (let at = periodStartMs(width, fromMs); at < toMs; at = nextPeriodMs(width, at)) {
      starts.push(at);
      if (starts.length > MAX_PARTITIONS_A_CALL) throw tooMany(table);
    }
    return await this.#make(table, starts);
  }

  /** Makes what is missing for rows at these times. */
  async ensureTimes(table: SeriesTable, times: Iterable<number>): Promise<void> {
    const width = await this.#width(table);
    const starts = new Set<number>();
    let [fromMs, toMs] = [Number.NaN, Number.NaN];
    for (const ms of times) {
      // Rows come in the order of time: the calendar is asked once a period, not once a row.
      if (ms >= fromMs && ms < toMs) continue;
      fromMs = periodStartMs(width, ms);
      toMs = nextPeriodMs(width, fromMs);
      starts.add(fromMs);
    }
    await this.#make(table, [...starts]);
  }

  /** Keeps `count` periods ready beyond the one that holds `nowMs`, for every table. */
  async makeAhead(nowMs: number, count: number): Promise<void> {
    for (const table of SERIES_TABLES) {
      const width = await this.#width(table);
      let toMs = periodStartMs(width, nowMs);
      for (let period = 0; period <= count; period += 1) toMs = nextPeriodMs(width, toMs);
      await this.ensure(table, { fromMs: nowMs, toMs });
      this.#telemetry.partitionLead({ table, endMs: toMs });
    }
  }

  forget(): void {
    this.#known.clear();
  }

  async #make(table: SeriesTable, starts: readonly number[]): Promise<string[]> {
    const names: string[] = [];
    for (const startMs of starts) {
      const key = `${table} ${startMs}`;
      if (this.#known.has(key)) continue;
      const [row] = await this.#database.rows<{ made: string | null }>(MAKE_PARTITION, [
        table,
        startMs,
      ]);
      this.#known.add(key);
      const made = row?.made ?? null;
      if (made === null) continue;
      names.push(made);
      this.#telemetry.partitionMade({ table, partition: made });
    }
    return names;
  }

  async #width(table: SeriesTable): Promise<PartitionWidth> {
    if (this.#widths === undefined) {
      const rows = await this.#database.rows<{ table_name: string; width: PartitionWidth }>(
        READ_POLICY,
      );
      this.#widths = new Map(rows.map(({ table_name, width }) => [table_name, width]));
    }
    return this.#widths.get(table) ?? 'day';
  }
}

function tooMany(table: string): StoreError {
  return new StoreError(
    'data_refused',
    `more than ${MAX_PARTITIONS_A_CALL} partitions of ${table} at once: the span is too long`,
  );
}

/**
 * What the ledger covers and the database does not hold any more: rows in files, or gone. What is
 * checked by rows must leave it out, or it would find them missing.
 */

/** The spans of all partitions of these tables that have left, as a multirange (SQL). */
export const removedSql = (...tables: readonly string[]) => `
  (SELECT coalesce(range_agg(gone.span), '{}') FROM partition_state gone
   WHERE gone.state IN ('archived', 'expired')
     AND gone.table_name IN (${tables.map((table) => `'${table}'`).join(', ')}))`;

/** What is known in the database of the rows of a market that have left it. */
export interface RemovedRows {
  readonly span: Span;
  readonly state: 'archived' | 'expired';
  /**
   * Of trades: rows, lowest and highest id, and the same three of those whose exact time is known; of
   * others the rows alone. Null when the market has none.
   */
  readonly counts: readonly (number | null)[] | null;
}

const REMOVED_ROWS = `
  SELECT ${boundsSql('span')}, state,
         CASE state WHEN 'archived' THEN market_rows -> $2::text END AS counts
  FROM partition_state WHERE table_name = $1 AND state IN ('archived', 'expired') ORDER BY lower(span)`;

/** The partitions of a table that have left, oldest first, with what they hold of a market. */
export async function removedRows(
  runner: Runner,
  table: SeriesTable,
  marketId: number,
): Promise<RemovedRows[]> {
  const values = [table, `${marketId}`];
  return (await runner.rows<Flat<RemovedRows>>(REMOVED_ROWS, values)).map(withSpan);
}

/** The table that holds what a kind of stream covers (SQL). */
const TABLES = STREAM_KINDS.map((kind) => `WHEN '${kind}' THEN '${tableOfStream(kind)}'`).join(' ');

/** Where what is kept of a stream begins; null where nothing was ever given up (SQL). */
export const keptFromSql = (kind: string) => `
  (SELECT max(upper(p.span)) FROM partition_state p
   WHERE p.state = 'expired' AND p.table_name = CASE ${kind} ${TABLES} END)`;
