import { type Span, spanContains } from '../../kernel/span.js';
import {
  SERIES,
  SERIES_TABLES,
  type Series,
  type SeriesTable,
  STREAM_KINDS,
  tableOfStream,
} from '../../model/series.js';
import type { StoreEvents } from '../../observe/events.js';
import type { Runner } from '../connection.js';
import { fromMs } from '../sql.js';

/** One call a transaction: a maker holds its lock only as long as one partition takes. */
const MAKE_PARTITION = `
  SELECT make_partition($1, at) AS made, (partition_at($1, at)).span
  FROM (SELECT ${fromMs('$2')} AS at) asked`;

/** A partition that is there, and its name if it is new. */
interface Ensured {
  readonly made: string | null;
  readonly span: Span;
}

/** Makes a sealed partition hot again; answers with the state that it had. */
export const REOPEN_PARTITION = 'SELECT reopen_partition($1) AS state';

/**
 * Makes partitions, and remembers which exist so that the writer need not ask. What is remembered
 * may turn out wrong (a partition was archived): then {@link Partitions.forget} and ask again.
 */
export class Partitions {
  readonly #database: Runner;
  readonly #telemetry: StoreEvents;
  #known: { readonly table: SeriesTable; readonly span: Span }[] = [];

  constructor(database: Runner, telemetry: StoreEvents) {
    this.#database = database;
    this.#telemetry = telemetry;
  }

  /**
   * Makes what is missing for rows of a series at these times, and for their versions.
   *
   * @param isWanted asked before each partition; what is missing once it says no is left out
   */
  async ensureTimes(
    series: Series,
    times: Iterable<number>,
    isWanted: () => boolean = () => true,
  ): Promise<void> {
    const { versions } = SERIES[series];
    const tables: readonly SeriesTable[] = versions === null ? [series] : [series, versions];
    let span: Span | undefined;
    for (const ms of times) {
      // Rows come in the order of time: what is known is searched once a period, not once a row.
      if (span !== undefined && spanContains(span, ms)) continue;
      for (const table of tables) {
        if (!isWanted()) return;
        span = await this.#spanAt(table, ms);
      }
    }
  }

  /** Those of some times of a series that lie in no partition that is known to be there. */
  unknownOf(series: Series, times: readonly number[]): number[] {
    let span: Span | undefined;
    return times.filter((ms) => {
      if (span !== undefined && spanContains(span, ms)) return false;
      span = this.#knownAt(series, ms);
      return span === undefined;
    });
  }

  /** Keeps `count` periods ready beyond the one that holds `nowMs`, for every table. */
  async makeAhead(nowMs: number, count: number): Promise<void> {
    for (const table of SERIES_TABLES) {
      let endMs = nowMs;
      for (let period = 0; period <= count; period += 1) {
        endMs = (await this.#spanAt(table, endMs)).toMs;
      }
      this.#telemetry.partitionLead({ table, endMs });
    }
  }

  forget(): void {
    this.#known = [];
  }

  #knownAt(table: SeriesTable, ms: number): Span | undefined {
    return this.#known.find((one) => one.table === table && spanContains(one.span, ms))?.span;
  }

  /** The span of the partition that holds an instant; makes it where it is missing. */
  async #spanAt(table: SeriesTable, ms: number): Promise<Span> {
    const known = this.#knownAt(table, ms);
    if (known !== undefined) return known;
    const rows = await this.#database.rows<Ensured>(MAKE_PARTITION, [table, ms]);
    const [{ made, span }] = rows as [Ensured];
    this.#known.push({ table, span });
    if (made !== null) this.#telemetry.partitionMade({ table, partition: made });
    return span;
  }
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

const REMOVED_SPANS = `
  SELECT span FROM partition_state
  WHERE table_name = $1 AND state IN ('archived', 'expired') ORDER BY lower(span)`;

/** Spans of the partitions of a table whose rows have left the database, oldest first. */
export async function removedSpans(runner: Runner, table: SeriesTable): Promise<Span[]> {
  const rows = await runner.rows<{ span: Span }>(REMOVED_SPANS, [table]);
  return rows.map(({ span }) => span);
}

/** The table that holds what a kind of stream covers (SQL). */
export const tableOfKindSql = (kind: string) =>
  `CASE ${kind} ${STREAM_KINDS.map((one) => `WHEN '${one}' THEN '${tableOfStream(one)}'`).join(' ')} END`;

/** Where what is kept of a stream begins; null where nothing was ever given up (SQL). */
export const keptFromSql = (kind: string) => `
  (SELECT max(upper(p.span)) FROM partition_state p
   WHERE p.state = 'expired' AND p.table_name = ${tableOfKindSql(kind)})`;

/**
 * A kind of stream with until when its rows are expired, worked out once for all streams of it: the planner would move
 * that into each of their rows (SQL).
 */
export const EXPIRED_OF_KINDS = `
  (SELECT kind, ${keptFromSql('kind')} AS expired_until FROM (SELECT DISTINCT kind FROM stream) kinds OFFSET 0)`;
