import { type Span, subtractSpans } from '../../kernel/span.js';
import type { Batch, GapRecord } from '../../model/batch.js';
import type { KnownGap } from '../../model/explain.js';
import { type GapFinding, type GapMemory, placeFinding } from '../../model/gap-memories.js';
import type { GapReason } from '../../model/gap-reasons.js';
import { MOMENT_STREAMS, type StreamKind } from '../../model/series.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { lockRowsSql } from '../locks.js';
import { keptFromSql } from '../schema/partitions.js';
import { fromMs, rangeSql, touchingSql } from '../sql.js';
import {
  coveredSql,
  expectedSql,
  type NamedStream,
  rangeBeforeSql,
  readAfter,
  type StreamPlace,
  type StreamSpan,
} from './ledger.js';

/** What the ledger remembers of gaps: one row a memory, those of a stream apart from each other. */

export type GapState = GapMemory['state'];

/** A process that changes memories of a market holds this until COMMIT; taken in the order of the ids. */
const LOCK_GAPS = lockRowsSql('gaps', '$1::int[]');

async function lockGaps(runner: Runner, marketIds: Iterable<number>): Promise<void> {
  const sorted = [...new Set(marketIds)].sort((a, b) => a - b);
  if (sorted.length > 0) await runner.rows(LOCK_GAPS, [sorted]);
}

/** Those that overlap a span, and those that touch it. */
const READ_NEAR = `
  SELECT gap_id, span, state, reason, note, remarks, first_seen_at, attempts, next_attempt_at,
         closed_at, revoked_at
  FROM gap WHERE market_id = $1 AND stream_id = $2 AND state <> 'filled'
    AND span && ${touchingSql('$3', '$4')}
  ORDER BY lower(span) FOR UPDATE`;

const REMOVE = 'DELETE FROM gap WHERE market_id = $1 AND gap_id = ANY ($2::bigint[])';

const INSERT = `
  INSERT INTO gap (market_id, stream_id, span, state, reason, note, remarks, first_seen_at,
                   attempts, next_attempt_at, closed_at, revoked_at)
  VALUES ($1, $2, ${rangeSql('$3', '$4')}, $5, $6, $7, $8, ${fromMs('$9')}, $10,
          ${fromMs('$11')}, ${fromMs('$12')}, ${fromMs('$13')})`;

const UPDATE = `
  UPDATE gap SET span = ${rangeSql('$3', '$4')}, state = $5, reason = $6,
    note = $7, remarks = $8, first_seen_at = ${fromMs('$9')}, attempts = $10,
    next_attempt_at = ${fromMs('$11')}, closed_at = ${fromMs('$12')},
    revoked_at = ${fromMs('$13')}
  WHERE market_id = $1 AND stream_id = $2 AND gap_id = $14`;

/** Places a finding among the memories of its stream. Runs inside the caller's transaction. */
export async function rememberGap(
  runner: Runner,
  { streamId, marketId }: StreamPlace,
  finding: GapFinding,
): Promise<void> {
  await lockGaps(runner, [marketId]);
  const { fromMs: from, toMs: to } = finding.span;
  const rows = await runner.rows<GapMemory>(READ_NEAR, [marketId, streamId, from, to]);
  const { removed, kept } = placeFinding(rows, finding);
  if (removed.length > 0) await runner.rows(REMOVE, [marketId, removed]);
  for (const memory of kept) {
    const values = [
      ...[marketId, streamId, memory.span.fromMs, memory.span.toMs],
      ...[memory.state, memory.reason, memory.note, memory.remarks, memory.firstSeenAtMs],
      ...[memory.attempts, memory.nextAttemptAtMs, memory.closedAtMs, memory.revokedAtMs],
    ];
    if (memory.gapId === null) await runner.rows(INSERT, values);
    else await runner.rows(UPDATE, [...values, memory.gapId]);
  }
}

/**
 * Memory `g` is of time that the exchange does not serve and that was never covered. While it is asked for once more,
 * that is still what is known of it.
 */
const BEYOND_HISTORY = `g.state <> 'filled' AND g.reason = 'beyond history' AND g.revoked_at IS NULL`;

/** Those that lie in a span, as far as they do. */
const READ_BEYOND = `
  SELECT g.span * ${rangeSql('$3', '$4')} AS span, g.state FROM gap g
  WHERE g.market_id = $1 AND g.stream_id = $2 AND g.span && ${rangeSql('$3', '$4')}
    AND ${BEYOND_HISTORY}
  ORDER BY lower(g.span)`;

/** Reasons for which a try found out nothing of what the exchange serves. */
const SAYS_NOTHING: ReadonlySet<GapReason> = new Set(['exchange failed', 'walk stalled']);

/**
 * Remembers what happened to a gap: one memory for each stream and start of span. After a try that failed, what is known to be
 * older than the exchange's history stays so.
 */
async function placeGap(runner: Runner, gap: GapRecord): Promise<void> {
  const { stream, note = null, nextAttemptAtMs = null, isAttempt = false, ...rest } = gap;
  const isSuspect = rest.reason === 'suspect' && (rest.state === 'open' || !isAttempt);
  const finding = {
    ...{ ...rest, note, nextAttemptAtMs, isAttempt: isAttempt || rest.state === 'filling' },
    // A new suspect span is to be acted upon, whatever was done about an earlier one.
    ...(isSuspect ? { revokedAtMs: null } : {}),
  };
  const isFailure = rest.state === 'open' && SAYS_NOTHING.has(rest.reason);
  if (!isFailure) return await rememberGap(runner, stream, finding);
  await lockGaps(runner, [stream.marketId]);
  const { fromMs: from, toMs: to } = rest.span;
  const beyond = await runner.rows<Pick<GapMemory, 'span' | 'state'>>(READ_BEYOND, [
    ...[stream.marketId, stream.streamId, from, to],
  ]);
  const within = subtractSpans(
    rest.span,
    beyond.map(({ span }) => span),
  );
  for (const span of within) await rememberGap(runner, stream, { ...finding, span });
  for (const { span, state } of beyond) {
    if (state === 'unfillable') continue;
    await rememberGap(runner, stream, { ...finding, span, reason: 'beyond history' });
  }
}

/** Remembers a gap in a transaction of its own, for programs that do not hold the writer's lock. */
export async function recordGap(database: Database, gap: GapRecord): Promise<void> {
  await database.transaction((runner) => placeGap(runner, gap));
}

const SET_COLLECT_FROM = `
  UPDATE stream SET collect_from = greatest(${fromMs('$2')}, ${keptFromSql('kind')}),
    start_tries = NULL, start_reason = $3
  WHERE stream_id = $1`;

/** Remembers what batches learned of gaps, and where expectation begins, inside the writer's transaction. */
export async function recordFindings(runner: Runner, batches: readonly Batch[]): Promise<void> {
  const findings = batches.flatMap((batch) => batch.findings ?? []);
  await lockGaps(
    runner,
    findings.map(({ stream }) => stream.marketId),
  );
  for (const finding of findings) await placeGap(runner, finding);
  for (const begin of batches.flatMap(({ begins }) => begins ?? [])) {
    await runner.rows(SET_COLLECT_FROM, [begin.streamId, begin.fromMs, begin.reason ?? null]);
  }
}

/**
 * Closes what one covered range holds by now, also what was given up; a suspect only after its coverage was taken back.
 * Rows that another process works on are left to the next time.
 */
const CLOSE_FILLED_GAPS = `
  WITH filled AS (
    SELECT g.gap_id, g.market_id FROM gap g
    WHERE g.state IN ('open', 'filling', 'unfillable')
      AND NOT (g.state = 'open' AND g.reason = 'suspect' AND g.revoked_at IS NULL)
      AND EXISTS (SELECT FROM coverage c WHERE c.market_id = g.market_id
                    AND c.stream_id = g.stream_id AND c.span @> g.span)
    FOR UPDATE SKIP LOCKED)
  UPDATE gap SET state = 'filled', closed_at = now() FROM filled f
  WHERE gap.gap_id = f.gap_id AND gap.market_id = f.market_id
  RETURNING gap.gap_id`;

/**
 * Marks remembered gaps that coverage holds by now as filled; suspects only once they were
 * revoked. Returns how many.
 */
export async function closeFilledGaps(runner: Runner): Promise<number> {
  return (await runner.rows(CLOSE_FILLED_GAPS)).length;
}

/** Memory `g` is of what can only be observed live, and given up after $1, which has not come yet. */
const GIVEN_UP_BEYOND = `
  g.state = 'unfillable' AND upper(g.span) > ${fromMs('$1')}
  AND g.stream_id IN (SELECT stream_id FROM stream WHERE kind = ANY ($2::text[]))`;
const MARKETS_BEYOND = `SELECT DISTINCT market_id AS id FROM gap g WHERE ${GIVEN_UP_BEYOND}`;
const REMOVE_BEYOND = `
  DELETE FROM gap g
  WHERE g.market_id = ANY ($3::int[]) AND ${GIVEN_UP_BEYOND} AND lower(g.span) >= ${fromMs('$1')}`;
const CUT_BEYOND = `
  UPDATE gap g SET span = g.span * tstzrange(NULL, ${fromMs('$1')})
  WHERE g.market_id = ANY ($3::int[]) AND ${GIVEN_UP_BEYOND}`;

/** Takes back that something was not observed at a time that has not come yet: it still can be. */
export async function forgetBeyond(
  database: Database,
  presentMs: number,
  isStart: boolean,
): Promise<void> {
  await database.transaction(async (runner) => {
    const afterMs = await readAfter(runner, presentMs, isStart);
    const values = [afterMs === null ? null : Math.floor(afterMs), [...MOMENT_STREAMS]];
    const found = await runner.rows<{ id: number }>(MARKETS_BEYOND, values);
    if (found.length === 0) return;
    const markets = found.map(({ id }) => id);
    await lockGaps(runner, markets);
    await runner.rows(REMOVE_BEYOND, [...values, markets]);
    await runner.rows(CUT_BEYOND, [...values, markets]);
  });
}

/** What the last try found, and what people wrote. */
export const NOTES = `nullif(concat_ws(E'\\n', g.note, g.remarks), '')`;

/**
 * `before.spans`: what stream `s` was wished to have and the exchange does not serve, before its oldest covered range
 * (`c.oldest`). Of what was covered and is suspect, or could not be observed, that is unknown.
 */
export const BEFORE_HISTORY = `
  LATERAL (
    SELECT coalesce(range_agg(g.span * tstzrange(NULL, c.oldest)), '{}') AS spans FROM gap g
    WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id
      AND lower(g.span) < coalesce(c.oldest, 'infinity') AND ${BEYOND_HISTORY}
    OFFSET 0) before`;

/**
 * Up to where gaps of a stream are counted: to the end of the newest that is covered, or that is remembered of. What is
 * newer was not asked for yet: it is lag. Of a stream of which neither is known it is null.
 *
 * @param newest SQL of the end of what is covered
 * @param remembered SQL of the end of its memories that are not filled
 */
export const countedUntilSql = (newest: string, remembered: string) =>
  `greatest(${newest}, ${remembered})`;

/** The same of stream `s` at `until` (SQL), where neither is known: the candle that is not closed and final yet is lag. */
export const lagFromSql = (newest: string, remembered: string, until: string) =>
  `coalesce(${countedUntilSql(newest, remembered)}, CASE s.kind WHEN 'candles'
     THEN date_bin(make_interval(secs => s.variant), ${until} - interval '1 minute', 'epoch') END)`;

/** Gaps: what is expected and not covered, cut along what is remembered of it. */

/**
 * A span that is expected and not covered, with what is remembered of it. Gaps are derived: expected
 * (from `collect_from`, and what was wanted besides) minus covered. Where several memories overlap a
 * missing span it is cut into one gap each; a part that nothing is remembered of has the reason
 * `not collected`, no `gapId`, and no attempts.
 */
export interface Gap extends NamedStream, KnownGap {
  /** It lies before all that is covered, because the exchange's history begins later: it was never there to be had. */
  readonly isBeforeHistory: boolean;
}

export interface GapFilter {
  readonly marketIds?: readonly number[] | undefined;
  readonly kinds?: readonly StreamKind[] | undefined;
  /** Only what overlaps this span; gaps are cut to it. */
  readonly span?: Span | undefined;
  readonly states?: readonly Gap['state'][] | undefined;
  readonly reasons?: readonly string[] | undefined;
  /** Also time that a stream has not reached yet: newer than all covered and requested time. */
  readonly hasLag?: boolean;
  /** Newest first; at most this many. */
  readonly limit: number;
}

/** Open and lost time by stream and reason, from the ledger alone. */
export interface GapTotals extends Omit<NamedStream, 'variant'> {
  readonly state: 'open' | 'unfillable';
  readonly reason: string;
  readonly count: number;
  readonly lengthMs: number;
  /** Oldest instant that is missing. */
  readonly oldestMs: number;
}

/** Gaps that end after $1 (null: all) and begin before $2; those outside [$3, …) are cut off. */
const WINDOW_FROM = `coalesce(${fromMs('$1')}, '-infinity')`;
const UNTIL = fromMs('$2');
const CUT_FROM = `coalesce(${fromMs('$3')}, '-infinity')`;

/** Whether anything is expected right below the start of covered range `c` of stream `e`. */
const HAS_EXPECTED_BELOW = `
  CASE WHEN e.collect_from IS NOT NULL THEN e.collect_from < lower(c.span)
       ELSE EXISTS (SELECT FROM coverage o
                    WHERE o.stream_id = c.stream_id AND lower(o.span) < lower(c.span))
         OR EXISTS (SELECT FROM wanted w
                    WHERE w.stream_id = c.stream_id AND lower(w.span) < lower(c.span)) END`;

/**
 * A gap ends where a covered range begins, unless expectation begins there as well; where what is
 * wanted ends; or not before `until`.
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

/** Each missing span gives at least the gap at its end: older ones than these cannot be among the newest. */
const ENOUGH = `
  ORDER BY upper(one) DESC
  FETCH FIRST (CASE WHEN $6::text[] IS NULL AND $7::text[] IS NULL THEN $8::bigint
                    ELSE 9e15::bigint END) ROWS WITH TIES`;

const NEWEST_COVERED = `
  (SELECT upper(c.span) FROM coverage c WHERE c.stream_id = s.stream_id
   ORDER BY lower(c.span) DESC LIMIT 1)`;
export const NEWEST_REMEMBERED = `
  (SELECT max(upper(g.span)) FROM gap g
   WHERE g.market_id = s.market_id AND g.stream_id = s.stream_id AND g.state <> 'filled')`;

const listGapsSql = (column: 'stream_id' | 'market_id') => `
  WITH candidates AS MATERIALIZED (
    SELECT s.* FROM stream s
    WHERE s.${column} = ANY ($4::int[]) AND ($5::text[] IS NULL OR s.kind = ANY ($5))),
  missing AS MATERIALIZED (
    SELECT s.stream_id, s.market_id, one AS span
    FROM candidates s, ${rangeBeforeSql(WINDOW_FROM)}, ${expectedSql(UNTIL)},
      ${coveredSql(`coalesce(range_before.at, '-infinity')`, UNTIL)},
      LATERAL (SELECT CASE WHEN NOT $9 THEN ${lagFromSql(NEWEST_COVERED, NEWEST_REMEMBERED, UNTIL)} END AS from_at
               OFFSET 0) lag,
      unnest(expected.spans * tstzmultirange(tstzrange(
               greatest(range_before.at, ${CUT_FROM}), NULL))
             * tstzmultirange(tstzrange(NULL, lag.from_at)) - covered.spans) AS one
    WHERE upper(one) > ${WINDOW_FROM} ${ENOUGH}),
  remembered AS MATERIALIZED (
    SELECT m.stream_id, m.span AS missing, g.span * m.span AS part, g.gap_id, g.state, g.reason,
           g.attempts, g.first_seen_at, g.next_attempt_at, ${NOTES} AS note,
           ${BEYOND_HISTORY} AND NOT EXISTS (
             SELECT FROM coverage c
             WHERE c.market_id = m.market_id AND c.stream_id = m.stream_id
               AND lower(c.span) < lower(m.span)) AS is_before_history
    FROM missing m, LATERAL (
      SELECT * FROM gap g
      WHERE g.market_id = m.market_id AND g.stream_id = m.stream_id AND g.state <> 'filled'
        AND g.span && m.span OFFSET 0) g),
  parts AS (
    SELECT stream_id, part, gap_id, state, reason, attempts, first_seen_at, next_attempt_at, note,
           is_before_history
    FROM remembered
    UNION ALL
    SELECT m.stream_id, part, NULL, 'open', 'not collected', 0, NULL, NULL, NULL, false
    FROM missing m LEFT JOIN (
        SELECT stream_id, missing AS span, range_agg(part) AS parts
        FROM remembered GROUP BY stream_id, missing) r USING (stream_id, span),
      unnest(tstzmultirange(m.span) - coalesce(r.parts, '{}')) AS part)
  SELECT p.gap_id, s.stream_id, s.kind, s.market_id, m.name AS market, s.variant, part AS span,
         p.state, p.reason, p.attempts, p.first_seen_at, p.next_attempt_at, p.note,
         p.is_before_history
  FROM parts p JOIN candidates s USING (stream_id) JOIN market m USING (market_id)
  WHERE upper(part) > ${WINDOW_FROM}
    AND ($6::text[] IS NULL OR p.state = ANY ($6)) AND ($7::text[] IS NULL OR p.reason = ANY ($7))
  ORDER BY upper(part) DESC, lower(part) DESC, s.stream_id LIMIT $8`;

const LIST_OF_STREAMS = listGapsSql('stream_id');
const LIST_OF_MARKETS = listGapsSql('market_id');

/** Nearly every covered range ends a gap: above the start of the nth newest lie about n gaps. */
const NTH_START = `
  SELECT lower(span) AS at FROM coverage WHERE lower(span) < ${fromMs('$1')}
  ORDER BY lower(span) DESC OFFSET $2 LIMIT 1`;
/** Compared as rows, which only the index by start can do: others would read the stream whole. */
const NTH_START_OF_MARKETS = `
  SELECT n.at FROM stream s, LATERAL (
    SELECT lower(c.span) AS at FROM coverage c
    WHERE ROW(c.stream_id, lower(c.span)) >= ROW(s.stream_id, '-infinity')
      AND ROW(c.stream_id, lower(c.span)) < ROW(s.stream_id, ${fromMs('$1')})
    ORDER BY c.stream_id DESC, lower(c.span) DESC LIMIT $2 + 1) n
  WHERE s.market_id = ANY ($3::int[]) AND ($4::text[] IS NULL OR s.kind = ANY ($4))
  ORDER BY n.at DESC OFFSET $2 LIMIT 1`;

/** Some covered ranges begin no gap: where a stream begins, or what is left out. */
const SPARE = 2;
/** How many more covered ranges are looked at when the first ones gave too few gaps. */
const WIDER = 16;

/**
 * The newest gaps before `untilMs`, from the ledger alone. Looks back over as many covered ranges as are likely to hold
 * enough of them, and further only when they were too few, so that the cost follows the answer.
 */
export async function listGaps(runner: Runner, filter: GapFilter, untilMs: number): Promise<Gap[]> {
  const { marketIds = null, kinds = null, states = null, reasons = null, span, limit } = filter;
  const { hasLag = false } = filter;
  const toMs = Math.min(untilMs, span?.toMs ?? untilMs);
  const cutMs = span?.fromMs ?? null;
  const sql = marketIds === null ? LIST_OF_STREAMS : LIST_OF_MARKETS;
  for (let depth = SPARE * limit; ; depth *= WIDER) {
    const nthMs = await nthStart(runner, filter, toMs, depth);
    const isLast = nthMs === null || (cutMs !== null && nthMs <= cutMs);
    const fromMs = isLast ? cutMs : nthMs;
    const among = marketIds ?? (await mayHaveGaps(runner, fromMs, toMs, kinds));
    if (among.length > 0) {
      const values = [fromMs, toMs, cutMs, among, kinds, states, reasons, limit, hasLag];
      const rows = await runner.rows<Gap>(sql, values);
      if (isLast || rows.length >= limit) return rows;
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
      ? await runner.rows<{ atMs: number }>(NTH_START, [beforeMs, depth])
      : await runner.rows<{ atMs: number }>(NTH_START_OF_MARKETS, [
          ...[beforeMs, depth, marketIds],
          kinds ?? null,
        ]);
  return rows[0]?.atMs ?? null;
}

const TOTALS_UNTIL = fromMs('$1');
const GAP_TOTALS = `
  WITH covered_all AS (
    SELECT stream_id, range_agg(span) AS spans, max(upper(span)) AS newest, min(lower(span)) AS oldest
    FROM (SELECT * FROM coverage OFFSET 0) c GROUP BY stream_id),
  known AS (
    SELECT stream_id, range_agg(span) AS spans, max(upper(span)) AS newest
    FROM gap WHERE state <> 'filled' GROUP BY stream_id),
  missing AS (
    SELECT s.stream_id, coalesce(k.spans, '{}') AS known, expected.spans
      * tstzmultirange(tstzrange(NULL, ${lagFromSql('c.newest', 'k.newest', TOTALS_UNTIL)}))
      - coalesce(c.spans, '{}') - before.spans AS spans
    FROM stream s LEFT JOIN covered_all c USING (stream_id) LEFT JOIN known k USING (stream_id),
      ${BEFORE_HISTORY},
      ${expectedSql(TOTALS_UNTIL)}),
  remembered AS (
    SELECT stream_id, CASE state WHEN 'unfillable' THEN state ELSE 'open' END AS state, reason,
           range_agg(span) AS spans
    FROM gap WHERE state <> 'filled' GROUP BY 1, 2, 3),
  parts AS (
    SELECT m.stream_id, r.state, r.reason, m.spans * r.spans AS spans
    FROM missing m JOIN remembered r USING (stream_id)
    UNION ALL
    SELECT m.stream_id, 'open', 'not collected', m.spans - m.known FROM missing m)
  SELECT s.stream_id, s.kind, s.market_id, m.name AS market, p.state,
         p.reason, sums.*
  FROM parts p JOIN stream s USING (stream_id) JOIN market m USING (market_id), LATERAL (
    SELECT count(*)::int AS count, min(lower(one)) AS oldest,
           (sum(extract(epoch FROM upper(one) - lower(one))) * 1000)::float8 AS length_ms
    FROM unnest(p.spans) AS one) sums
  WHERE sums.count > 0
  ORDER BY m.name, s.kind, s.variant, p.state, p.reason`;

/**
 * Sums of gaps up to `untilMs`, from the ledger alone, without what is only lag ({@link lagFromSql}) or lies before
 * history; parts that touch and have state and reason in common count as one.
 */
export async function readGapTotals(runner: Runner, untilMs: number): Promise<GapTotals[]> {
  return await runner.rows<GapTotals>(GAP_TOTALS, [untilMs]);
}

const MAKE_DUE = `
  UPDATE gap SET state = 'open', next_attempt_at = NULL, closed_at = NULL
  WHERE gap_id = ANY ($1::bigint[]) AND market_id = ANY ($2::int[])
    AND (state IN ('open', 'filling') OR ($3 AND state = 'unfillable'))
  RETURNING gap_id`;

/**
 * Makes gaps due now, whatever their pause: open ones, and with `isUnfillableToo` also those that
 * were given up (they become open again). What nothing is remembered of has no pause either: it is due
 * anyway and not counted. Returns how many.
 */
export async function retryGaps(
  database: Database,
  filter: GapFilter,
  untilMs: number,
  isUnfillableToo: boolean,
): Promise<number> {
  return await database.transaction(async (runner) => {
    const seen = await listGaps(runner, filter, untilMs);
    const marketIds = [...new Set(seen.map(({ marketId }) => marketId))];
    if (marketIds.length === 0) return 0;
    // Read again under the lock of their markets: no process changes their memories now.
    await lockGaps(runner, marketIds);
    const gaps = await listGaps(runner, { ...filter, marketIds }, untilMs);
    const ids = gaps.flatMap(({ gapId }) => gapId ?? []);
    return (await runner.rows(MAKE_DUE, [ids, marketIds, isUnfillableToo])).length;
  });
}

/**
 * Makes exactly these gaps due now, as {@link retryGaps} does; those without a memory are due anyway. Returns how many
 * have a memory.
 */
export async function retryMemories(
  database: Database,
  gaps: readonly Pick<Gap, 'gapId' | 'marketId'>[],
  isUnfillableToo: boolean,
): Promise<number> {
  const known = gaps.filter(({ gapId }) => gapId !== null);
  const marketIds = [...new Set(known.map(({ marketId }) => marketId))];
  const ids = known.map(({ gapId }) => gapId);
  if (ids.length === 0) return 0;
  return await database.transaction(async (runner) => {
    await lockGaps(runner, marketIds);
    return (await runner.rows(MAKE_DUE, [ids, marketIds, isUnfillableToo])).length;
  });
}

const ADD_REMARK = `
  UPDATE gap SET remarks = left(concat_ws(E'\\n', remarks, $5::text), 10000)
  WHERE market_id = $1 AND stream_id = $2 AND state <> 'filled'
    AND span && ${rangeSql('$3', '$4')}
  RETURNING gap_id`;

/**
 * Appends a person's words to the memories of exactly these gaps, with a memory for each that had
 * none.
 *
 * @param atMs exchange time
 * @returns how many memories have the words now
 */
export async function noteGaps(
  database: Database,
  gaps: readonly StreamSpan[],
  note: string,
  atMs: number,
): Promise<number> {
  return await database.transaction(async (runner) => {
    await lockGaps(
      runner,
      gaps.map(({ marketId }) => marketId),
    );
    let noted = 0;
    for (const { marketId, streamId, span } of gaps) {
      const values = [marketId, streamId, span.fromMs, span.toMs, note];
      const known = await runner.rows(ADD_REMARK, values);
      noted += Math.max(1, known.length);
      if (known.length > 0) continue;
      const fresh = { state: 'open', reason: 'not collected', note: null, remarks: note } as const;
      const unplanned = { atMs, nextAttemptAtMs: null, isAttempt: false };
      await rememberGap(runner, { streamId, marketId }, { span, ...fresh, ...unplanned });
    }
    return noted;
  });
}
