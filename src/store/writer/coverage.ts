import { normalizeSpans, type Span, subtractSpans } from '../../kernel/span.js';
import type { CoverageClaim, Evidence, Island } from '../../ledger/batch.js';
import type { StreamKind } from '../../model/series.js';
import type { Connection } from '../connection.js';
import { fromMs } from '../instants.js';
import type { ChangedIsland } from './coverage-rows.js';
import { doubtLateTrades } from './doubts.js';
import type { Counted, FreshRows, StoredNear } from './fresh-rows.js';

/**
 * Merges claims into the ledger. The pure part decides which rows of coverage become which; the
 * rest counts, all streams of a group in one statement.
 *
 * The caller holds the lock of every market concerned since before it read what is held.
 */

/** All that a group of batches does to one stream. */
export interface StreamWork {
  readonly streamId: number;
  readonly marketId: number;
  readonly kind: StreamKind;
  readonly claims: readonly CoverageClaim[];
  readonly fresh: FreshRows;
  /** Trades and times: where there may be rows that were stored before; undefined: anywhere. */
  readonly near: StoredNear | undefined;
}

/** A row of coverage as it is. */
export interface Held extends Island {
  readonly evidence: Evidence;
}

/** A row of coverage as it will be, and the rows that it takes the place of. */
export interface Merged {
  readonly work: StreamWork;
  readonly span: Span;
  readonly members: readonly Held[];
  /** What nobody had covered before: for trades and times, its rows must be counted. */
  readonly uncovered: readonly Span[];
  readonly evidence: Evidence;
}

const contains = (outer: Span, inner: Span) =>
  outer.fromMs <= inner.fromMs && inner.toMs <= outer.toMs;

/** Pure: joins claims with the coverage around them. */
export function mergeCoverage(work: StreamWork, held: readonly Held[]): Merged[] {
  const joined = normalizeSpans([
    ...held.map(({ span }) => span),
    ...work.claims.map((c) => c.span),
  ]);
  return joined.map((span) => {
    const members = held.filter((one) => contains(span, one.span));
    const uncovered = subtractSpans(
      span,
      members.map((one) => one.span),
    );
    const newest = work.claims
      .filter((claim) => contains(span, claim.span))
      .sort((a, b) => b.span.toMs - a.span.toMs)[0];
    const evidence = newest?.evidence ?? members.at(-1)?.evidence ?? {};
    return { work, span, members, uncovered, evidence };
  });
}

const COUNT_TRADES = `
  SELECT q.ord::int AS ord, n.row_count, n.first_id, n.last_id
  FROM unnest($1::int[], $2::float8[], $3::float8[], $4::boolean[])
    WITH ORDINALITY AS q(market_id, from_ms, to_ms, needs_time, ord), LATERAL (
    SELECT count(*)::float8 AS row_count, min(tid) AS first_id, max(tid) AS last_id
    FROM trade t
    WHERE t.market_id = q.market_id AND t.traded_at >= ${fromMs('q.from_ms')}
      AND t.traded_at < ${fromMs('q.to_ms')}
      AND t.traded_at BETWEEN $5::timestamptz AND $6::timestamptz
      AND (NOT q.needs_time OR t.executed_at IS NOT NULL)) n
  ORDER BY q.ord`;

/** What a group of batches makes of the ledger. */
export interface GroupCoverage {
  /** For each stream the islands that its claims and fresh rows lie in. */
  readonly islands: ReadonlyMap<number, readonly Island[]>;
  readonly changed: readonly ChangedIsland[];
}

/** Pure: those pieces of coverage that the works of a group concern, as they will be. */
export function mergeAll(
  works: readonly StreamWork[],
  held: ReadonlyMap<number, readonly Held[]>,
): Merged[] {
  return works
    .flatMap((work) => mergeCoverage(work, held.get(work.streamId) ?? []))
    .filter(isTouched);
}

/** Whether rows must be counted where they lie: then all of them must be stored before. */
export function mustCount(merged: readonly Merged[]): boolean {
  return merged.some((one) => partsToCount(one).length > 0);
}

/** Counts what must be counted, and marks what may have been judged already. */
export async function settleCoverage(
  connection: Connection,
  works: readonly StreamWork[],
  merged: readonly Merged[],
): Promise<GroupCoverage> {
  const islands = new Map<number, Island[]>(works.map(({ streamId }) => [streamId, []]));
  const counts = await countUncovered(connection, merged);
  const changed: ChangedIsland[] = [];
  for (const [index, one] of merged.entries()) {
    const island = islandOf(one, counts.get(index) ?? []);
    islands.get(island.streamId)?.push(island);
    if (isUnchanged(one, island)) continue;
    const { work, evidence, members } = one;
    changed.push({ island, marketId: work.marketId, evidence, was: members.map((it) => it.span) });
  }
  await doubtLateTrades(connection, merged);
  return { islands, changed };
}

function isTouched({ work, span }: Merged): boolean {
  return work.claims.some((claim) => contains(span, claim.span)) || work.fresh.isIn(span);
}

function isUnchanged({ members }: Merged, island: Island): boolean {
  const [only, ...others] = members;
  return (
    only !== undefined &&
    others.length === 0 &&
    only.span.fromMs === island.span.fromMs &&
    only.span.toMs === island.span.toMs &&
    only.rowCount === island.rowCount
  );
}

function hullOfSpans(spans: readonly Span[]): Span | undefined {
  return spans.reduce<Span | undefined>(
    (hull, { fromMs, toMs }) => ({
      fromMs: Math.min(hull?.fromMs ?? fromMs, fromMs),
      toMs: Math.max(hull?.toMs ?? toMs, toMs),
    }),
    undefined,
  );
}

/**
 * The parts of a span, covered by nobody before, in which rows may have been stored before: they must
 * be counted where they lie, fresh ones among them. For trades and times only.
 */
function partsToCount({ work: { kind, near }, uncovered }: Merged): readonly Span[] {
  if (kind !== 'trades' && kind !== 'times') return [];
  return uncovered.flatMap((span) => {
    if (near === undefined || !contains(near.looked, span)) return [span];
    const fromMs = Math.max(span.fromMs, near.found?.fromMs ?? Number.POSITIVE_INFINITY);
    const toMs = Math.min(span.toMs, near.found?.toMs ?? Number.NEGATIVE_INFINITY);
    return fromMs < toMs ? [{ fromMs, toMs }] : [];
  });
}

/** Counts, by position in `merged`, the trades that nobody has counted. */
async function countUncovered(
  connection: Connection,
  merged: readonly Merged[],
): Promise<Map<number, Counted[]>> {
  const asked = merged.flatMap((one, index) =>
    partsToCount(one).map((span) => ({ index, work: one.work, span })),
  );
  const counts = new Map<number, Counted[]>();
  const hull = hullOfSpans(asked.map(({ span }) => span));
  if (hull === undefined) return counts;
  const rows = await connection.queryAgain<{
    ord: number;
    row_count: number;
    first_id: string | null;
    last_id: string | null;
  }>(COUNT_TRADES, [
    asked.map(({ work }) => work.marketId),
    asked.map(({ span }) => span.fromMs),
    asked.map(({ span }) => span.toMs),
    asked.map(({ work }) => work.kind === 'times'),
    new Date(hull.fromMs).toISOString(),
    new Date(hull.toMs).toISOString(),
  ]);
  for (const row of rows) {
    const index = asked[row.ord - 1]?.index ?? 0;
    const list = counts.get(index) ?? [];
    list.push({
      rowCount: row.row_count,
      firstId: row.first_id === null ? null : Number(row.first_id),
      lastId: row.last_id === null ? null : Number(row.last_id),
    });
    counts.set(index, list);
  }
  return counts;
}

function islandOf(merged: Merged, counted: readonly Counted[]): Island {
  const { work, span, members } = merged;
  const fresh = work.fresh.count(span, partsToCount(merged));
  const parts: Counted[] = [...members, ...counted, fresh];
  return {
    streamId: work.streamId,
    span,
    firstId: lowest(parts.map(({ firstId }) => firstId)),
    lastId: highest(parts.map(({ lastId }) => lastId)),
    rowCount: parts.reduce((sum, { rowCount }) => sum + rowCount, 0),
  };
}

function lowest(ids: readonly (number | null)[]): number | null {
  return ids.reduce((low, id) => (low === null || (id !== null && id < low) ? id : low), null);
}

function highest(ids: readonly (number | null)[]): number | null {
  return ids.reduce((high, id) => (high === null || (id !== null && id > high) ? id : high), null);
}
