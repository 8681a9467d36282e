import type { Span } from '../../kernel/span.js';
import type { Gap, GapFilter, GapTotals } from '../api-completeness.js';
import type { Database, Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';
import { lockGaps, NOTES, rememberGap } from './gap-memories.js';
import { coveredSql, expectedSql, islandBeforeSql } from './missing.js';

/** Gaps: what is expected and not covered, cut along what is remembered of it. */

/** Gaps that end after $1 (null: all) and begin before $2; those outside [$3, …) are cut off. */
const WINDOW_FROM = `coalesce(${fromMs('$1')}, '-infinity')`;
const UNTIL = fromMs('$2');
const CUT_FROM = `coalesce(${fromMs('$3')}, '-infinity')`;

/** Something is expected right below the start of island `c` of stream `e`, if not more than that. */
const HAS_EXPECTED_BELOW = `
  CASE WHEN e.collect_from IS NOT NULL THEN e.collect_from < lower(c.span)
       ELSE EXISTS (SELECT FROM coverage o
                    WHERE o.stream_id = c.stream_id AND lower(o.span) < lower(c.span))
         OR EXISTS (SELECT FROM wanted w
                    WHERE w.stream_id = c.stream_id AND lower(w.span) < lower(c.span)) END`;

/**
 * A gap ends where an island begins, unless expectation begins there as well; where what is wanted
 * ends; or not before `until`.
 */
const MAY_HAVE_GAPS = `
  SELECT s.stream_id AS id FROM stream s
  WHERE ($3::text[] IS NULL OR s.kind = ANY ($3)) AND s.stream_id IN (
    SELECT c.stream_id FROM coverage c JOIN stream e USING (stream_id)
    WHERE lower(c.span) > ${WINDOW_FROM} AND lower(c.span) < ${UNTIL} AND ${HAS_EXPECTED_BELOW}
    UNION SELECT stream_id FROM wanted WHERE upper(span) > ${WINDOW_FROM}
    UNION (SELECT stream_id FROM stream EXCEPT
           SELECT stream_id FROM coverage
           WHERE upper(span) >= ${UNTIL} AND lower(span) < ${UNTIL}))`;

/** Each missing span gives at least the gap at its end: older ones than these can not be among the newest. */
const ENOUGH = `
  ORDER BY upper(one) DESC
  FETCH FIRST (CASE WHEN $6::text[] IS NULL AND $7::text[] IS NULL THEN $8::bigint
                    ELSE 9e15::bigint END) ROWS WITH TIES`;

const listGapsSql = (column: 'stream_id' | 'market_id') => `
  WITH candidates AS MATERIALIZED (
    SELECT s.* FROM stream s
    WHERE s.${column} = ANY ($4::int[]) AND ($5::text[] IS NULL OR s.kind = ANY ($5))),
  missing AS MATERIALIZED (
    SELECT s.stream_id, s.market_id, one AS span
    FROM candidates s, ${islandBeforeSql(WINDOW_FROM)}, ${expectedSql(UNTIL)},
      ${coveredSql(`coalesce(island.at, '-infinity')`, UNTIL)},
      unnest(expected.spans * tstzmultirange(tstzrange(
               greatest(island.at, ${CUT_FROM}), NULL)) - covered.spans) AS one
    WHERE upper(one) > ${WINDOW_FROM} ${ENOUGH}),
  remembered AS MATERIALIZED (
    SELECT m.stream_id, m.span AS missing, g.span * m.span AS part, g.gap_id, g.state, g.reason,
           g.attempts, g.first_seen_at, g.next_attempt_at, ${NOTES} AS note
    FROM missing m, LATERAL (
      SELECT * FROM gap g
      WHERE g.market_id = m.market_id AND g.stream_id = m.stream_id AND g.state <> 'filled'
        AND g.span && m.span OFFSET 0) g),
  parts AS (
    SELECT stream_id, part, gap_id, state, reason, attempts, first_seen_at, next_attempt_at, note
    FROM remembered
    UNION ALL
    SELECT m.stream_id, part, NULL, 'open', 'not collected', 0, NULL, NULL, NULL
    FROM missing m LEFT JOIN (
        SELECT stream_id, missing AS span, range_agg(part) AS parts
        FROM remembered GROUP BY stream_id, missing) r USING (stream_id, span),
      unnest(tstzmultirange(m.span) - coalesce(r.parts, '{}')) AS part)
  SELECT p.gap_id::float8 AS "gapId", s.stream_id AS "streamId", s.kind, s.market_id AS "marketId",
         m.name AS market, s.variant, ${toMs('lower(part)')} AS "fromMs",
         ${toMs('upper(part)')} AS "toMs", p.state, p.reason, p.attempts,
         ${toMs('p.first_seen_at')} AS "firstSeenAtMs",
         ${toMs('p.next_attempt_at')} AS "nextAttemptAtMs", p.note
  FROM parts p JOIN candidates s USING (stream_id) JOIN market m USING (market_id)
  WHERE upper(part) > ${WINDOW_FROM}
    AND ($6::text[] IS NULL OR p.state = ANY ($6)) AND ($7::text[] IS NULL OR p.reason = ANY ($7))
  ORDER BY upper(part) DESC, lower(part) DESC, s.stream_id LIMIT $8`;

const LIST_OF_STREAMS = listGapsSql('stream_id');
const LIST_OF_MARKETS = listGapsSql('market_id');

/** Nearly every island ends a gap: after the start of the nth newest there are about n gaps. */
const NTH_START = `
  SELECT ${toMs('lower(span)')} AS at FROM coverage WHERE lower(span) < ${fromMs('$1')}
  ORDER BY lower(span) DESC OFFSET $2 LIMIT 1`;
/** Compared as rows, which only the index by start can do: others would read the stream whole. */
const NTH_START_OF_MARKETS = `
  SELECT ${toMs('n.at')} AS at FROM stream s, LATERAL (
    SELECT lower(c.span) AS at FROM coverage c
    WHERE ROW(c.stream_id, lower(c.span)) >= ROW(s.stream_id, '-infinity')
      AND ROW(c.stream_id, lower(c.span)) < ROW(s.stream_id, ${fromMs('$1')})
    ORDER BY c.stream_id DESC, lower(c.span) DESC LIMIT $2 + 1) n
  WHERE s.market_id = ANY ($3::int[]) AND ($4::text[] IS NULL OR s.kind = ANY ($4))
  ORDER BY n.at DESC OFFSET $2 LIMIT 1`;

/** Some islands begin no gap: where a stream begins, or what is left out. */
const SPARE = 2;
/** How many more islands are looked at when the first ones gave too few gaps. */
const WIDER = 16;

/**
 * The newest gaps before `untilMs`. Looks back over as many islands as are likely to hold enough of
 * them, and further only when they were too few, so that the cost follows the answer.
 */
export async function listGaps(runner: Runner, filter: GapFilter, untilMs: number): Promise<Gap[]> {
  const { marketIds = null, kinds = null, states = null, reasons = null, span, limit } = filter;
  const toMs = Math.min(untilMs, span?.toMs ?? untilMs);
  const cutMs = span?.fromMs ?? null;
  const sql = marketIds === null ? LIST_OF_STREAMS : LIST_OF_MARKETS;
  for (let depth = SPARE * limit; ; depth *= WIDER) {
    const nthMs = await nthStart(runner, filter, toMs, depth);
    const isLast = nthMs === null || (cutMs !== null && nthMs <= cutMs);
    const fromMs = isLast ? cutMs : nthMs;
    const among = marketIds ?? (await mayHaveGaps(runner, fromMs, toMs, kinds));
    if (among.length > 0) {
      const values = [fromMs, toMs, cutMs, among, kinds, states, reasons, limit];
      const rows = await runner.rows<Omit<Gap, 'span'> & Span>(sql, values);
      if (isLast || rows.length >= limit) return rows.map(toGap);
    } else if (isLast) return [];
  }
}

/** Asked by itself: where all is well, that is the whole answer, and far less to be planned. */
async function mayHaveGaps(
  runner: Runner,
  fromMs: number | null,
  untilMs: number,
  kinds: readonly string[] | null,
): Promise<number[]> {
  const rows = await runner.rows<{ id: number }>(MAY_HAVE_GAPS, [fromMs, untilMs, kinds]);
  return rows.map(({ id }) => id);
}

async function nthStart(
  runner: Runner,
  { marketIds, kinds }: GapFilter,
  beforeMs: number,
  depth: number,
): Promise<number | null> {
  const rows =
    marketIds === undefined
      ? await runner.rows<{ at: number }>(NTH_START, [beforeMs, depth])
      : await runner.rows<{ at: number }>(NTH_START_OF_MARKETS, [
          ...[beforeMs, depth, marketIds],
          kinds ?? null,
        ]);
  return rows[0]?.at ?? null;
}

function toGap({ fromMs, toMs, ...rest }: Omit<Gap, 'span'> & Span): Gap {
  return { ...rest, span: { fromMs, toMs } };
}

const TOTALS_UNTIL = fromMs('$1');
const GAP_TOTALS = `
  WITH covered_all AS (
    SELECT stream_id, range_agg(span) AS spans
    FROM (SELECT * FROM coverage OFFSET 0) c GROUP BY stream_id),
  missing AS (
    SELECT s.stream_id, expected.spans - coalesce(c.spans, '{}') AS spans
    FROM stream s LEFT JOIN covered_all c USING (stream_id), ${expectedSql(TOTALS_UNTIL)}),
  remembered AS (
    SELECT stream_id, CASE state WHEN 'unfillable' THEN state ELSE 'open' END AS state, reason,
           range_agg(span) AS spans
    FROM gap WHERE state <> 'filled' GROUP BY 1, 2, 3),
  parts AS (
    SELECT m.stream_id, r.state, r.reason, m.spans * r.spans AS spans
    FROM missing m JOIN remembered r USING (stream_id)
    UNION ALL
    SELECT m.stream_id, 'open', 'not collected', m.spans - coalesce(r.spans, '{}')
    FROM missing m LEFT JOIN (
      SELECT stream_id, range_agg(span) AS spans FROM gap WHERE state <> 'filled' GROUP BY 1) r
      USING (stream_id))
  SELECT s.stream_id AS "streamId", s.kind, s.market_id AS "marketId", m.name AS market, p.state,
         p.reason, sums.count, sums."lengthMs", ${toMs('sums.oldest')} AS "oldestMs"
  FROM parts p JOIN stream s USING (stream_id) JOIN market m USING (market_id), LATERAL (
    SELECT count(*)::int AS count, min(lower(one)) AS oldest,
           sum(round(date_part('epoch', upper(one) - lower(one)) * 1e6)) / 1e3 AS "lengthMs"
    FROM unnest(p.spans) AS one) sums
  WHERE sums.count > 0
  ORDER BY m.name, s.kind, s.variant, p.state, p.reason`;

/** Sums of gaps; parts that touch and have state and reason in common count as one. */
export async function readGapTotals(runner: Runner, untilMs: number): Promise<GapTotals[]> {
  return await runner.rows<GapTotals>(GAP_TOTALS, [untilMs]);
}

const ADD_REMARK = `
  UPDATE gap SET remarks = left(concat_ws(E'\\n', remarks, $3::text), 10000)
  WHERE gap_id = ANY ($1::bigint[]) AND market_id = ANY ($2::int[]) AND state <> 'filled'
  RETURNING gap_id`;

/** Writes a person's words to the memories of gaps, with a memory for those that had none. */
export async function noteGaps(
  database: Database,
  filter: GapFilter,
  untilMs: number,
  note: string,
): Promise<number> {
  return await database.transaction(async (runner) => {
    const { gaps, ids, marketIds } = await findForChange(runner, filter, untilMs);
    const fresh = gaps.filter(({ gapId }) => gapId === null);
    for (const { streamId, marketId, span } of fresh) {
      await rememberGap(
        runner,
        { streamId, marketId },
        {
          ...{ span, state: 'open', reason: 'not collected', note: null, remarks: note },
          ...{ atMs: untilMs, nextAttemptAtMs: null, isAttempt: false },
        },
      );
    }
    const noted = await runner.rows(ADD_REMARK, [ids, marketIds, note]);
    return fresh.length + noted.length;
  });
}

const MAKE_DUE = `
  UPDATE gap SET state = 'open', next_attempt_at = NULL, closed_at = NULL
  WHERE gap_id = ANY ($1::bigint[]) AND market_id = ANY ($2::int[])
    AND (state IN ('open', 'filling') OR ($3 AND state = 'unfillable'))
  RETURNING gap_id`;

/** What nothing is remembered of has no pause either: it is due anyway and not counted. */
export async function retryGaps(
  database: Database,
  filter: GapFilter,
  untilMs: number,
  isUnfillableToo: boolean,
): Promise<number> {
  return await database.transaction(async (runner) => {
    const { ids, marketIds } = await findForChange(runner, filter, untilMs);
    return (await runner.rows(MAKE_DUE, [ids, marketIds, isUnfillableToo])).length;
  });
}

/** Reads gaps, then again under the lock of their markets: nobody changes their memories now. */
async function findForChange(runner: Runner, filter: GapFilter, untilMs: number) {
  const seen = await listGaps(runner, filter, untilMs);
  await lockGaps(
    runner,
    seen.map(({ marketId }) => marketId),
  );
  const locked = [...new Set(seen.map(({ marketId }) => marketId))];
  const gaps =
    locked.length === 0 ? [] : await listGaps(runner, { ...filter, marketIds: locked }, untilMs);
  const ids = [...new Set(gaps.flatMap(({ gapId }) => (gapId === null ? [] : [gapId])))];
  return { gaps, ids, marketIds: locked };
}
