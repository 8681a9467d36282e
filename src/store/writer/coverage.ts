import { obtain } from '../../kernel/bounded.js';
import { SECOND_MS } from '../../kernel/durations.js';
import { firstNot } from '../../kernel/sorted.js';
import { holdsSpan, hullOf, normalizeSpans, type Span, subtractSpans } from '../../kernel/span.js';
import { isoMs } from '../../kernel/timestamp.js';
import type { Batch, CoverageClaim, CoveredRange, Evidence, StreamRef } from '../../model/batch.js';
import { timeColumnOf } from '../../model/kinds.js';
import { MOMENT_STREAMS, type Series, tableOfStream } from '../../model/series.js';
import { markSuspects } from '../checks/results.js';
import { coveredRangeSql, NO_ROWS, type RowCount, sumCounts } from '../completeness/ledger.js';
import type { Connection } from '../connection.js';
import {
  executeSql,
  fromMs,
  type NamedStatement,
  rangeSql,
  touchingSql,
  unnested,
} from '../sql.js';
import type { TradeColumnSet } from './trade-columns.js';

/** A row of coverage as it is. */
export interface Held extends CoveredRange {
  readonly evidence: Evidence;
}

/** Reading the coverage that the claims and trades of a group lie in, or touch. */

const HELD_COLUMNS = `${coveredRangeSql('c')}, c.evidence`;

const IS_NEAR = `c.span && ${touchingSql('q.from_ms', 'q.to_ms')}`;

const OF_STREAMS: NamedStatement = {
  name: 'read_coverage',
  types: ['int[]', 'int[]', 'float8[]', 'float8[]'],
  sql: `
    SELECT ${HELD_COLUMNS} FROM unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    JOIN coverage c ON c.stream_id = q.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY c.stream_id, lower(c.span)`,
};

/** Of all streams in which the trades of a market count. */
const OF_MARKETS: NamedStatement = {
  name: 'read_trade_coverage',
  types: ['int[]', 'float8[]', 'float8[]'],
  sql: `
    SELECT ${HELD_COLUMNS} FROM unnest($1, $2, $3) AS q(market_id, from_ms, to_ms)
    JOIN stream s ON s.market_id = q.market_id AND s.kind IN ('trades', 'times')
    JOIN coverage c ON c.stream_id = s.stream_id AND c.market_id = q.market_id AND ${IS_NEAR}
    ORDER BY c.stream_id, lower(c.span)`,
};

/** The statements that read it: of the streams that claims name, and of the trades of markets. */
export function readHeldSql(batches: readonly Batch[], trades: TradeColumnSet): string[] {
  const markets = new Map<number, Span>();
  for (const { marketId, start, end } of trades.runs) {
    markets.set(marketId, { fromMs: trades.ms[start] ?? 0, toMs: trades.ms[end - 1] ?? 0 });
  }
  const streams = new Map<number, { readonly marketId: number; readonly span: Span }>();
  for (const { stream, span } of batches.flatMap(({ claims }) => claims ?? [])) {
    const { streamId, marketId, kind } = stream;
    const ofMarket = markets.get(marketId);
    if (ofMarket !== undefined && (kind === 'trades' || kind === 'times')) {
      markets.set(marketId, hullOf([ofMarket, span]));
    } else {
      const before = streams.get(streamId)?.span;
      streams.set(streamId, {
        marketId,
        span: before === undefined ? span : hullOf([before, span]),
      });
    }
  }
  const ofStreams = [...streams].map(([streamId, one]) => ({ streamId, ...one, ...one.span }));
  const ofMarkets = [...markets].map(([marketId, span]) => ({ marketId, ...span }));
  return [
    ...(ofStreams.length > 0 ? [executeSql(OF_STREAMS, unnested(ofStreams, ...KEY_FIELDS))] : []),
    ...(ofMarkets.length > 0
      ? [executeSql(OF_MARKETS, unnested(ofMarkets, 'marketId', 'fromMs', 'toMs'))]
      : []),
  ];
}

/** By stream, in the order of time. */
export function heldByStream(rows: readonly Held[]): Map<number, Held[]> {
  const held = new Map<number, Held[]>();
  for (const row of rows) obtain(held, row.streamId, () => []).push(row);
  return held;
}

/** A row of coverage as it will be, and the spans of those that it takes the place of, oldest first. */
export interface ChangedRange {
  readonly range: CoveredRange;
  readonly marketId: number;
  readonly evidence: Evidence;
  readonly was: readonly Span[];
}

const SPANS = ['int[]', 'int[]', 'float8[]', 'float8[]'];
const COLUMNS = [...SPANS, 'bigint[]', 'bigint[]', 'bigint[]', 'jsonb[]'];
/** What goes into them, in their order. */
const KEY_FIELDS = ['streamId', 'marketId', 'fromMs', 'toMs'] as const;
const FIELDS = [...KEY_FIELDS, 'firstId', 'lastId', 'rowCount', 'evidence'] as const;

const DELETE_COVERAGE: NamedStatement = {
  name: 'delete_coverage',
  types: SPANS,
  sql: `
    DELETE FROM coverage c
    USING unnest($1, $2, $3, $4) AS q(stream_id, market_id, from_ms, to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = ${rangeSql('q.from_ms', 'q.to_ms')}`,
};

const UPDATE_COVERAGE: NamedStatement = {
  name: 'update_coverage',
  types: [...COLUMNS, 'float8[]', 'float8[]'],
  sql: `
    UPDATE coverage c
    SET span = ${rangeSql('q.from_ms', 'q.to_ms')}, first_id = q.first_id,
        last_id = q.last_id, row_count = q.row_count, evidence = q.evidence, updated_at = now()
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
      AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence,
           old_from_ms, old_to_ms)
    WHERE c.stream_id = q.stream_id AND c.market_id = q.market_id
      AND c.span = ${rangeSql('q.old_from_ms', 'q.old_to_ms')}`,
};

const INSERT_COVERAGE: NamedStatement = {
  name: 'insert_coverage',
  types: COLUMNS,
  sql: `
    INSERT INTO coverage (stream_id, market_id, span, first_id, last_id, row_count, evidence)
    SELECT stream_id, market_id, ${rangeSql('from_ms', 'to_ms')},
           first_id, last_id, row_count, evidence
    FROM unnest($1, $2, $3, $4, $5, $6, $7, $8)
      AS q(stream_id, market_id, from_ms, to_ms, first_id, last_id, row_count, evidence)`,
};

/**
 * The statements that write covered ranges. One that grew keeps its row, the oldest of those that
 * were joined; the others go first.
 */
export function writeRangesSql(changed: readonly ChangedRange[]): string[] {
  const joined = changed.flatMap(({ range: { streamId }, marketId, was }) =>
    was.slice(1).map((span) => ({ streamId, marketId, ...span })),
  );
  const rows = changed.map(({ range, marketId, evidence, was: [first] }) => ({
    ...{ ...range, ...range.span, marketId, evidence: JSON.stringify(evidence) },
    ...{ oldFromMs: first?.fromMs ?? null, oldToMs: first?.toMs ?? null },
  }));
  const grown = rows.filter(({ oldFromMs }) => oldFromMs !== null);
  const made = rows.filter(({ oldFromMs }) => oldFromMs === null);
  const statements = [
    [DELETE_COVERAGE, unnested(joined, ...KEY_FIELDS)],
    [UPDATE_COVERAGE, unnested(grown, ...FIELDS, 'oldFromMs', 'oldToMs')],
    [INSERT_COVERAGE, unnested(made, ...FIELDS)],
  ] as const;
  return statements.flatMap(([statement, values]) =>
    values[0]?.length === 0 ? [] : [executeSql(statement, values)],
  );
}

/**
 * Merges claims into the ledger. The pure part decides which rows of coverage become which; the
 * rest counts, all streams of a group in one statement.
 *
 * The caller holds the lock of every market concerned since before it read what is held.
 */

/** Where rows of a market were stored before those of a transaction. */
export interface StoredNear {
  /** Where rows were looked up. */
  readonly looked: Span;
  /** From the oldest to the newest that was found there; undefined when there was none. */
  readonly found: Span | undefined;
}

/** The rows that a transaction added, as far as the count of their stream is concerned. */
export class FreshRows {
  static readonly NONE = new FreshRows(new Float64Array());

  readonly #ms: Float64Array;
  readonly #tids: Float64Array | undefined;

  /**
   * @param ms the times of the rows, in order
   * @param tids their ids, for trades and times
   */
  constructor(ms: Float64Array, tids?: Float64Array) {
    this.#ms = ms;
    this.#tids = tids;
  }

  isIn(span: Span): boolean {
    return this.#before(span.fromMs) < this.#before(span.toMs);
  }

  /** Those in a span, without those in some parts of it. */
  count(span: Span, without: readonly Span[]): RowCount {
    let rowCount = 0;
    let firstId: number | null = null;
    let lastId: number | null = null;
    for (const { fromMs, toMs } of subtractSpans(span, without)) {
      const [start, end] = [this.#before(fromMs), this.#before(toMs)];
      rowCount += end - start;
      for (const tid of this.#tids?.subarray(start, end) ?? []) {
        if (firstId === null || tid < firstId) firstId = tid;
        if (lastId === null || tid > lastId) lastId = tid;
      }
    }
    return { rowCount, firstId, lastId };
  }

  /** From the first to the last instant of those in a span, without those in some parts of it. */
  hullIn(span: Span, without: readonly Span[]): Span | undefined {
    let hull: Span | undefined;
    for (const { fromMs, toMs } of subtractSpans(span, without)) {
      const within = this.#ms.subarray(this.#before(fromMs), this.#before(toMs));
      const [first, last] = [within[0], within.at(-1)];
      if (first === undefined || last === undefined) continue;
      hull = { fromMs: hull?.fromMs ?? first, toMs: last };
    }
    return hull;
  }

  /** How many are before an instant. */
  #before(atMs: number): number {
    return firstNot(this.#ms.length, (at) => (this.#ms[at] ?? Number.POSITIVE_INFINITY) < atMs);
  }
}

/** A stream as far as its rows are counted. */
export type CountedStream = Omit<StreamRef, 'collectFromMs'>;

/** All that a group of batches does to one stream. */
export interface CoverageUpdate extends CountedStream {
  readonly claims: readonly CoverageClaim[];
  readonly fresh: FreshRows;
  /** Trades and times: where there may be rows that were stored before; undefined: anywhere. */
  readonly near: StoredNear | undefined;
}

/** A row of coverage as it will be, and the rows that it takes the place of. */
interface Merged {
  readonly update: CoverageUpdate;
  readonly span: Span;
  readonly members: readonly Held[];
  /** What was not covered before: of what can be fetched again, its rows must be counted. */
  readonly uncovered: readonly Span[];
  readonly evidence: Evidence;
}

/** Pure: joins claims with the coverage around them. */
function mergeCoverage(update: CoverageUpdate, held: readonly Held[]): Merged[] {
  const joined = normalizeSpans([
    ...held.map(({ span }) => span),
    ...update.claims.map((c) => c.span),
  ]);
  return joined.map((span) => {
    const members = held.filter((one) => holdsSpan(span, one.span));
    const uncovered = subtractSpans(
      span,
      members.map((one) => one.span),
    );
    const newest = update.claims
      .filter((claim) => holdsSpan(span, claim.span))
      .sort((a, b) => b.span.toMs - a.span.toMs)[0];
    const evidence = newest?.evidence ?? members.at(-1)?.evidence ?? {};
    return { update, span, members, uncovered, evidence };
  });
}

/** @param holds which rows of a market count, by `q.part` */
const countStatement = (table: Series, tid: string, holds: string): NamedStatement => {
  const at = timeColumnOf(table);
  return {
    name: `count_${table}`,
    types: ['int[]', 'float8[]', 'float8[]', 'int[]', 'timestamptz', 'timestamptz'],
    sql: `
    SELECT q.ord::int AS ord, n.*
    FROM unnest($1, $2, $3, $4)
      WITH ORDINALITY AS q(market_id, from_ms, to_ms, part, ord), LATERAL (
      SELECT count(*) AS row_count, min(${tid}) AS first_id, max(${tid}) AS last_id
      FROM ${table} t
      WHERE t.market_id = q.market_id AND t.${at} >= ${fromMs('q.from_ms')}
        AND t.${at} < ${fromMs('q.to_ms')}
        AND t.${at} BETWEEN $5 AND $6 AND ${holds}) n
    ORDER BY q.ord`,
  };
};

/** Counts of the rows that can be fetched again. */
const COUNTS = {
  trade: countStatement('trade', 'tid', '(q.part = 0 OR t.executed_at IS NOT NULL)'),
  kline: countStatement('kline', 'NULL::bigint', 't.interval_s = q.part'),
} as const;

export const COVERAGE_STATEMENTS = [
  ...[OF_STREAMS, OF_MARKETS, ...Object.values(COUNTS)],
  ...[DELETE_COVERAGE, UPDATE_COVERAGE, INSERT_COVERAGE],
];

/** What a group of batches makes of the ledger. */
interface GroupCoverage {
  /** For each stream the covered ranges that its claims and fresh rows lie in. */
  readonly ranges: ReadonlyMap<number, readonly CoveredRange[]>;
  readonly changed: readonly ChangedRange[];
}

/** Pure: those pieces of coverage that the works of a group concern, as they will be. */
export function mergeAll(
  works: readonly CoverageUpdate[],
  held: ReadonlyMap<number, readonly Held[]>,
): Merged[] {
  return works
    .flatMap((update) => mergeCoverage(update, held.get(update.streamId) ?? []))
    .filter(isTouched);
}

/** Whether trades must be counted where they lie: then all of them must be stored before. */
export function mustCountTrades(merged: readonly Merged[]): boolean {
  return merged.some((one) => one.update.kind !== 'candles' && partsToCount(one).length > 0);
}

/** Counts what must be counted, and marks what may have been checked already. */
export async function settleCoverage(
  connection: Connection,
  works: readonly CoverageUpdate[],
  merged: readonly Merged[],
): Promise<GroupCoverage> {
  const ranges = new Map<number, CoveredRange[]>(works.map(({ streamId }) => [streamId, []]));
  const counts = await countUncovered(connection, merged);
  const changed: ChangedRange[] = [];
  for (const [index, one] of merged.entries()) {
    const range = rangeOf(one, counts.get(index) ?? []);
    ranges.get(range.streamId)?.push(range);
    if (isUnchanged(one, range)) continue;
    const { update, evidence, members } = one;
    changed.push({ range, marketId: update.marketId, evidence, was: members.map((it) => it.span) });
  }
  await suspectLateTrades(connection, merged);
  return { ranges, changed };
}

/** Trades that came into a span which was covered before them. */
async function suspectLateTrades(connection: Connection, merged: readonly Merged[]): Promise<void> {
  const late = merged.flatMap(({ update, span, uncovered }) => {
    if (update.kind !== 'trades') return [];
    const hull = update.fresh.hullIn(span, uncovered);
    if (hull === undefined) return [];
    // A trade's instant is a whole second; its span is that second.
    const { marketId } = update;
    return [{ marketId, intervalS: 0, fromMs: hull.fromMs, toMs: hull.toMs + SECOND_MS }];
  });
  await markSuspects(connection, late);
}

function isTouched({ update, span }: Merged): boolean {
  return update.claims.some((claim) => holdsSpan(span, claim.span)) || update.fresh.isIn(span);
}

function isUnchanged({ members }: Merged, range: CoveredRange): boolean {
  const [only, ...others] = members;
  return (
    only !== undefined &&
    others.length === 0 &&
    only.span.fromMs === range.span.fromMs &&
    only.span.toMs === range.span.toMs &&
    only.rowCount === range.rowCount
  );
}

/**
 * The parts of a span, not covered before, in which rows may have been stored before: they must
 * be counted where they lie, fresh ones among them. What can only be seen at its instant counts as it comes.
 */
function partsToCount({ update: { kind, near }, uncovered }: Merged): readonly Span[] {
  if (MOMENT_STREAMS.has(kind)) return [];
  return uncovered.flatMap((span) => {
    if (near === undefined || !holdsSpan(near.looked, span)) return [span];
    const fromMs = Math.max(span.fromMs, near.found?.fromMs ?? Number.POSITIVE_INFINITY);
    const toMs = Math.min(span.toMs, near.found?.toMs ?? Number.NEGATIVE_INFINITY);
    return fromMs < toMs ? [{ fromMs, toMs }] : [];
  });
}

/** Counts, by position in `merged`, the rows not counted yet. */
async function countUncovered(
  connection: Connection,
  merged: readonly Merged[],
): Promise<Map<number, RowCount[]>> {
  const counts = new Map<number, RowCount[]>();
  for (const [table, statement] of Object.entries(COUNTS)) {
    const asked = merged.flatMap((one, index) => {
      const { marketId, kind, variant } = one.update;
      if (tableOfStream(kind) !== table) return [];
      const part = kind === 'times' ? 1 : variant;
      return partsToCount(one).map((span) => ({ index, marketId, part, ...span }));
    });
    if (asked.length === 0) continue;
    const hull = hullOf(asked);
    const sql = executeSql(statement, [
      ...unnested(asked, 'marketId', 'fromMs', 'toMs', 'part'),
      ...[isoMs(hull.fromMs), isoMs(hull.toMs)],
    ]);
    const rows = await connection.rows<RowCount & { readonly ord: number }>(sql);
    for (const { ord, ...count } of rows) {
      obtain(counts, asked[ord - 1]?.index ?? 0, () => []).push(count);
    }
  }
  return counts;
}

function rangeOf(merged: Merged, counted: readonly RowCount[]): CoveredRange {
  const { update, span, members } = merged;
  const fresh = update.fresh.count(span, partsToCount(merged));
  const counts = sumCounts([...members, ...counted, fresh, ...earlierCounts(merged)]);
  return { streamId: update.streamId, span, ...counts };
}

/** What is counted where it lies is counted there, these too. */
function earlierCounts({ update: { kind, claims }, span }: Merged): RowCount[] {
  if (!MOMENT_STREAMS.has(kind)) return [];
  return claims
    .filter((claim) => holdsSpan(span, claim.span))
    .map(({ earlierRows = 0 }) => ({ ...NO_ROWS, rowCount: earlierRows }));
}
