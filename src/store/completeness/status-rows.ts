import type { StreamStatus } from '../api.js';
import type { Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';
import { expectedSql } from './missing.js';

/** All streams at a glance, from the ledger alone. */

/** Summed as whole microseconds, which a float holds exactly. */
const SECONDS_OF = (spans: string) => `
  (SELECT coalesce(sum(round(date_part('epoch', upper(one) - lower(one)) * 1e6)), 0) / 1e6
   FROM unnest(${spans}) AS one)`;

/**
 * What stream `s` was wished to have and the exchange does not serve, before its oldest island. Of what
 * was covered and is doubted, or could not be observed, that can not be said.
 */
const BEFORE_HISTORY = `
  LATERAL (
    SELECT coalesce(range_agg(g.span * tstzrange(NULL, c.oldest)), '{}') AS spans FROM gap g
    WHERE g.stream_id = s.stream_id AND lower(g.span) < c.oldest AND g.state = 'unfillable'
      AND g.reason = 'beyond history' AND g.uncovered_at IS NULL
    OFFSET 0) before`;

const STATUS_ROWS = `
  WITH covered AS (
    SELECT stream_id, range_agg(span) AS spans, max(upper(span)) AS newest, min(lower(span)) AS oldest,
           sum(row_count) AS row_count
    FROM (SELECT * FROM coverage OFFSET 0) c GROUP BY stream_id),
  unfillable AS (
    SELECT stream_id, range_agg(span) AS spans FROM gap WHERE state = 'unfillable'
    GROUP BY stream_id),
  seen AS (
    SELECT s.*, m.name, c.newest, c.row_count, coalesce(c.spans, '{}') AS spans,
           coalesce(u.spans, '{}') AS unfillable,
           expected.spans AS expected, before.spans AS before_history
    FROM stream s JOIN market m USING (market_id) LEFT JOIN covered c USING (stream_id)
      LEFT JOIN unfillable u USING (stream_id),
      ${BEFORE_HISTORY},
      ${expectedSql(`least(c.newest, ${fromMs('$1')})`)}),
  missed AS MATERIALIZED (SELECT seen.*, expected - spans AS missing FROM seen)
  SELECT stream_id AS "streamId", kind, market_id AS "marketId", name AS market, variant,
         coalesce(row_count, 0)::float8 AS rows, ${toMs('newest')} AS "newestCoveredMs",
         ${SECONDS_OF('spans')} AS "coveredS",
         (SELECT count(*) FROM unnest(missing))::int AS gaps,
         ${SECONDS_OF('missing')} AS "gapS",
         ${SECONDS_OF('missing * unfillable')} AS "unfillableS",
         ${SECONDS_OF('missing * before_history')} AS "beforeHistoryS",
         (SELECT count(*) FROM unnest(missing - before_history))::int AS "gapsWithinHistory",
         (SELECT count(*) FROM unnest(missing - unfillable))::int AS "openGaps",
         ${toMs('collect_from')} AS "collectFromMs", start_reason AS "startReason"
  FROM missed ORDER BY name, kind, variant`;

export async function readStatus(runner: Runner, untilMs: number): Promise<StreamStatus[]> {
  return await runner.rows<StreamStatus>(STATUS_ROWS, [untilMs]);
}
