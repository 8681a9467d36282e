import type { Span } from '../../kernel/span.js';
import type { StreamKind } from '../../ledger/batch.js';
import type { Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';
import type { PartitionedTable } from '../schema/partitioned-tables.js';
import { LOCK_MARKETS } from '../writer/transaction.js';
import { LIFE_TABLES } from './tables.js';

/**
 * What becomes of the ledger when rows are given up. Of the time up to the end of the partition nothing
 * is claimed, expected, wanted, missing or judged any more; what is left of an island that reached
 * beyond it keeps an exact count of its rows.
 */

const END = fromMs('$1');
const STREAMS = `
  SELECT stream_id, market_id, kind, variant FROM stream WHERE kind = ANY ($2::text[])
  ORDER BY market_id, stream_id`;

const ISLANDS = `
  SELECT s.stream_id, s.market_id, s.kind, s.variant, ${toMs('lower(c.span)')} AS from_ms,
         ${toMs('upper(c.span)')} AS to_ms, c.row_count::float8 AS row_count,
         c.first_id::float8 AS first_id, c.last_id::float8 AS last_id
  FROM stream s JOIN coverage c USING (stream_id)
  WHERE s.kind = ANY ($2::text[]) AND lower(c.span) < ${END} AND upper(c.span) > ${END}`;

interface IslandRow {
  readonly stream_id: number;
  readonly market_id: number;
  readonly kind: StreamKind;
  readonly variant: number;
  readonly from_ms: number;
  readonly to_ms: number;
  readonly row_count: number;
  readonly first_id: number | null;
  readonly last_id: number | null;
}

/** An island as it will be. */
interface Rest {
  readonly island: IslandRow;
  readonly rowCount: number;
  readonly firstId: number | null;
}

/** Rows of a stream that lie in [$2, $3) of its table, which holds them. */
const PRESENT: Readonly<Record<StreamKind, string>> = {
  trades: 'SELECT count(*) AS rows FROM trade WHERE market_id = $1 AND traded_at',
  times: 'SELECT count(executed_at) AS rows FROM trade WHERE market_id = $1 AND traded_at',
  kline: 'SELECT count(*) AS rows FROM kline WHERE market_id = $1 AND interval_s = $4 AND open_at',
  ticker: 'SELECT count(*) AS rows FROM ticker WHERE $1 = 0 AND observed_at',
  depth: 'SELECT count(*) AS rows FROM depth WHERE market_id = $1 AND observed_at',
  state:
    'SELECT count(*) AS rows FROM market_state WHERE market_id = $1 AND period_s = $4 AND observed_at',
  balance: 'SELECT count(*) AS rows FROM balance WHERE market_id = $1 AND observed_at',
  orders: 'SELECT count(*) AS rows FROM active_order WHERE market_id = $1 AND observed_at',
};

/** By market: rows, first and last id; timed rows, first and last id of them. */
const FINAL_ROWS = `
  SELECT state, market_rows -> $2::text AS counts FROM partition_state
  WHERE table_name = 'trade' AND state IN ('sealed', 'archived') AND lower(span) >= ${fromMs('$1')}
    AND lower(span) < ${fromMs('$3')} AND market_rows -> $2::text IS NOT NULL
  ORDER BY lower(span)`;
const FIRST_PRESENT = `
  SELECT tid::float8 AS tid FROM trade
  WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz`;

/** What the rows of an archived partition were, if it was sealed with them. */
const ARCHIVED_ROWS = `
  SELECT market_rows -> $2::text AS counts FROM partition_state
  WHERE table_name = $3 AND state = 'archived' AND span @> ${fromMs('$1')}`;

type Counts = readonly (number | null)[] | null;

const iso = (ms: number) => new Date(ms).toISOString();

/** The ledger's part of giving up a partition. Must run before its rows go, in the same transaction. */
export class Expiry {
  readonly #runner: Runner;
  readonly #kinds: readonly StreamKind[];
  readonly #table: PartitionedTable;
  readonly #span: Span;
  #rests: readonly Rest[] = [];

  constructor(runner: Runner, table: PartitionedTable, span: Span) {
    this.#runner = runner;
    this.#table = table;
    this.#span = span;
    // Revisions have no ledger of their own.
    this.#kinds = table === 'kline_revision' ? [] : LIFE_TABLES[table].streams;
  }

  /** Locks the markets and works out what is left of islands, while the rows are still there. */
  async prepare(): Promise<void> {
    const values = [this.#span.toMs, this.#kinds];
    const markets = await this.#runner.rows<{ market_id: number }>(
      `SELECT DISTINCT market_id FROM (${STREAMS}) s WHERE $1::float8 IS NOT NULL ORDER BY 1`,
      values,
    );
    const ids = markets.map(({ market_id }) => market_id);
    if (ids.length > 0) await this.#runner.rows(LOCK_MARKETS, [ids]);
    const islands = await this.#runner.rows<IslandRow>(ISLANDS, values);
    const rests: Rest[] = [];
    for (const island of islands) rests.push(await this.#restOf(island));
    this.#rests = rests;
  }

  /** Changes the ledger. */
  async apply(): Promise<void> {
    if (this.#kinds.length === 0) return;
    const values = [this.#span.toMs, this.#kinds];
    await this.#runner.rows(DELETE_COVERAGE, values);
    for (const { island, rowCount, firstId } of this.#rests) {
      const key = [island.stream_id, island.from_ms, this.#span.toMs];
      await this.#runner.rows(CUT_ISLAND, [...key, rowCount, firstId]);
    }
    await this.#runner.rows(MOVE_START, values);
    await this.#runner.rows(DELETE_WANTED, values);
    await this.#runner.rows(CUT_WANTED, values);
    await this.#runner.rows(DELETE_GAPS, values);
    await this.#runner.rows(CUT_GAPS, values);
    if (this.#table !== 'trade' && this.#table !== 'kline') return;
    for (const sql of [DELETE_VERDICTS, CUT_VERDICTS, DELETE_DOUBTS]) {
      await this.#runner.rows(sql, [this.#span.toMs]);
    }
  }

  async #restOf(island: IslandRow): Promise<Rest> {
    const gone = await this.#rowsGone(island);
    const isExact = island.kind === 'trades' || island.kind === 'times';
    const rowCount = Math.max(0, island.row_count - gone);
    if (!isExact || rowCount === 0) return { island, rowCount, firstId: null };
    return { island, rowCount, firstId: await this.#firstId(island) };
  }

  /** Rows of an island that go with the partition. */
  async #rowsGone(island: IslandRow): Promise<number> {
    const { market_id: marketId, kind, variant } = island;
    const [archived] = await this.#runner.rows<{ counts: Counts }>(ARCHIVED_ROWS, [
      this.#span.fromMs,
      `${marketId}`,
      this.#table,
    ]);
    if (archived === undefined) {
      const from = Math.max(island.from_ms, this.#span.fromMs);
      const usesVariant = kind === 'kline' || kind === 'state';
      const [row] = await this.#runner.rows<{ rows: string }>(
        `${PRESENT[kind]} >= $2::timestamptz AND ${timeOf(kind)} < $3::timestamptz`,
        [marketId, iso(from), iso(this.#span.toMs), ...(usesVariant ? [variant] : [])],
      );
      return Number(row?.rows ?? 0);
    }
    if (kind === 'trades') return archived.counts?.[0] ?? 0;
    if (kind === 'times') return archived.counts?.[3] ?? 0;
    // Rows of other kinds are counted under their claims: they go in proportion to time.
    const share = (this.#span.toMs - island.from_ms) / (island.to_ms - island.from_ms);
    return Math.round(island.row_count * share);
  }

  /** Lowest id of what is left: ids grow with time, so it is that of the oldest rows. */
  async #firstId({ market_id: marketId, kind, to_ms: untilMs }: IslandRow): Promise<number | null> {
    const isTimed = kind === 'times';
    const finals = await this.#runner.rows<{ counts: Counts }>(FINAL_ROWS, [
      this.#span.toMs,
      `${marketId}`,
      untilMs,
    ]);
    const known = finals.flatMap(({ counts }) => {
      const id = counts?.[isTimed ? 4 : 1];
      return typeof id === 'number' ? [id] : [];
    });
    const timed = isTimed ? 'AND executed_at IS NOT NULL' : '';
    const [present] = await this.#runner.rows<{ tid: number }>(
      `${FIRST_PRESENT} ${timed} ORDER BY traded_at, tid LIMIT 1`,
      [marketId, iso(this.#span.toMs), iso(untilMs)],
    );
    const ids = [...known.slice(0, 1), ...(present === undefined ? [] : [present.tid])];
    return ids.length === 0 ? null : Math.min(...ids);
  }
}

function timeOf(kind: StreamKind): string {
  if (kind === 'trades' || kind === 'times') return 'traded_at';
  return kind === 'kline' ? 'open_at' : 'observed_at';
}

const DELETE_COVERAGE = `
  DELETE FROM coverage c USING stream s
  WHERE s.stream_id = c.stream_id AND s.kind = ANY ($2::text[]) AND upper(c.span) <= ${END}`;
const CUT_ISLAND = `
  UPDATE coverage SET span = tstzrange(${fromMs('$3')}, upper(span)), row_count = $4::float8::bigint,
    first_id = $5::float8::bigint, last_id = CASE WHEN $4::float8 = 0 THEN NULL ELSE last_id END
  WHERE stream_id = $1 AND lower(span) = ${fromMs('$2')}`;
const MOVE_START = `
  UPDATE stream SET collect_from = ${END}
  WHERE kind = ANY ($2::text[]) AND (collect_from IS NULL OR collect_from < ${END})`;
const DELETE_WANTED = `
  DELETE FROM wanted w USING stream s
  WHERE s.stream_id = w.stream_id AND s.kind = ANY ($2::text[]) AND upper(w.span) <= ${END}`;
const CUT_WANTED = `
  UPDATE wanted w SET span = tstzrange(${END}, upper(w.span)) FROM stream s
  WHERE s.stream_id = w.stream_id AND s.kind = ANY ($2::text[]) AND lower(w.span) < ${END}
    AND NOT EXISTS (
      SELECT FROM wanted o WHERE o.stream_id = w.stream_id AND o.market_id = w.market_id
        AND o.wanted_id <> w.wanted_id AND upper(o.span) = upper(w.span) AND lower(o.span) <= ${END})`;
const DELETE_GAPS = `
  DELETE FROM gap g USING stream s
  WHERE s.stream_id = g.stream_id AND s.kind = ANY ($2::text[]) AND upper(g.span) <= ${END}`;
const CUT_GAPS = `
  UPDATE gap g SET span = tstzrange(${END}, upper(g.span)) FROM stream s
  WHERE s.stream_id = g.stream_id AND s.kind = ANY ($2::text[]) AND lower(g.span) < ${END}`;
const SLOT_AFTER = `to_timestamp(ceil(date_part('epoch', ${END}) / interval_s) * interval_s)`;
const DELETE_VERDICTS = `DELETE FROM verdict WHERE lower(span) < ${END} AND upper(span) <= ${SLOT_AFTER}`;
const CUT_VERDICTS = `
  UPDATE verdict SET span = tstzrange(${SLOT_AFTER}, upper(span)) WHERE lower(span) < ${END}`;
const DELETE_DOUBTS = `DELETE FROM verdict_doubt WHERE upper(span) <= ${END}`;
