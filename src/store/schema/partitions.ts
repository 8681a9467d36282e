import { obtain } from '../../kernel/bounded.js';
import { DAY_MS } from '../../kernel/durations.js';
import { floorToMs, normalizeSpans, type Span, spanContains } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
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

const FIND_LOCAL = `
  SELECT span FROM partition_state
  WHERE table_name = $1 AND state IN ('hot', 'sealed') AND span @> ${fromMs('$2')}`;

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

  /**
   * The time of the partitions in the database that hold some times of a series, oldest first, joined where they touch. What
   * is at most `besideMs` beside a time counts as well, where it is in the database.
   */
  async stretches(series: Series, times: Iterable<number>, besideMs = 0): Promise<Span[]> {
    const found: Span[] = [];
    let span: Span | undefined;
    const edges = new Set<number>();
    for (const ms of times) {
      if (span === undefined || !spanContains(span, ms)) {
        span = await this.#localAt(series, ms);
        if (span !== undefined) found.push(span);
      }
      if (span === undefined) continue;
      if (ms - besideMs < span.fromMs) edges.add(ms - besideMs);
      if (ms + besideMs >= span.toMs) edges.add(ms + besideMs);
    }
    for (const ms of edges) {
      const beside = await this.#localAt(series, ms);
      if (beside !== undefined) found.push(beside);
    }
    return normalizeSpans(found);
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

  async #localAt(table: SeriesTable, ms: number): Promise<Span | undefined> {
    const known = this.#knownAt(table, ms);
    if (known !== undefined) return known;
    const [row] = await this.#database.rows<{ span: Span }>(FIND_LOCAL, [table, ms]);
    return row?.span;
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
 * checked by rows leaves it out.
 */

/**
 * Part of the covered time that is read: `local` leaves out what is archived, `all` does not. Only people who
 * ask, and wait, have archived rows read; whatever goes on by itself stays with those in the database.
 */
export type Reach = 'local' | 'all';

/** The spans of all partitions of these tables that are out of reach, as a multirange (SQL). */
export const removedFrom = (reach: Reach, ...tables: readonly string[]) => `
  (SELECT coalesce(range_agg(gone.span), '{}') FROM partition_state gone
   WHERE gone.state IN (${reach === 'all' ? '' : `'archived', `}'expired')
     AND gone.table_name IN (${tables.map((table) => `'${table}'`).join(', ')}))`;

/** The spans of all partitions of these tables that have left, as a multirange (SQL). */
export const removedSql = (...tables: readonly string[]) => removedFrom('local', ...tables);

const REMOVED_SPANS = `
  SELECT span FROM partition_state
  WHERE table_name = $1 AND state IN ('archived', 'expired') ORDER BY lower(span)`;

/** Spans of the partitions of a table whose rows have left the database, oldest first. */
export async function removedSpans(runner: Runner, table: SeriesTable): Promise<Span[]> {
  const rows = await runner.rows<{ span: Span }>(REMOVED_SPANS, [table]);
  return rows.map(({ span }) => span);
}

const PARTITION_NAMES = `
  SELECT (partition_at($1, ${fromMs('ms')})).name FROM unnest($2::float8[]) WITH ORDINALITY AS d(ms, ord) ORDER BY ord`;

/**
 * Sorts places by the partition that holds them. A statement that changes stored rows goes to one partition: its key is
 * what it finds them by, and the parent, below which archived ones are, has none.
 */
export async function byPartition(
  runner: Runner,
  table: SeriesTable,
  places: readonly number[],
  msOf: (place: number) => number,
): Promise<Map<string, number[]>> {
  const days = new Map<number, number[]>();
  for (const place of places) {
    obtain(days, floorToMs(msOf(place), DAY_MS), () => []).push(place);
  }
  const names = await runner.rows<{ name: string }>(PARTITION_NAMES, [table, [...days.keys()]]);
  const found = new Map<string, number[]>();
  for (const [index, own] of [...days.values()].entries()) {
    obtain(found, names[index]?.name ?? '', () => []).push(...own);
  }
  return found;
}

const LOCAL_SPANS = `
  SELECT unnest(range_agg(span)) AS span FROM partition_state
  WHERE table_name = $1 AND state IN ('hot', 'sealed')`;

/** The condition that a timestamp lies in one of some spans (SQL); constants, so that only their partitions are opened. */
export const withinSql = (column: string, spans: readonly Span[]) =>
  spans.length === 0
    ? 'false'
    : `(${spans
        .map(
          ({ fromMs, toMs }) =>
            `${column} >= timestamptz '${isoMs(fromMs)}' AND ${column} < timestamptz '${isoMs(toMs)}'`,
        )
        .join(' OR ')})`;

/**
 * The condition that a timestamp lies in a partition that is in the database (SQL). Every statement of the program about
 * time that it does not know to be there has it: as constants, because a statement that leaves archived partitions out only
 * while it runs has opened them by then, and needs the server that answers for them.
 */
export async function localSql(
  runner: Runner,
  table: SeriesTable,
  column: string,
): Promise<string> {
  const rows = await runner.rows<{ span: Span }>(LOCAL_SPANS, [table]);
  return withinSql(
    column,
    rows.map(({ span }) => span),
  );
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
