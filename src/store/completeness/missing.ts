import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import type { Runner } from '../connection.js';
import { boundsSql, fromMs } from '../sql.js';

/**
 * SQL of what is expected, covered and missing. Each piece stands in the FROM of a query that has the
 * row of a stream as `s`, and names its own result. Only the ledger is read, and of it only the rows
 * of the span asked for. OFFSET 0 keeps a piece from being worked out once for every use of it. Streams
 * are looked up without their market, as the index has them.
 */

const NONE = `'{}'::tstzmultirange`;

/**
 * Where the expectation of stream `s` begins: collect_from, or the oldest instant that is covered or
 * wanted.
 */
const START = `
  coalesce(s.collect_from, least((
    SELECT lower(c.span) FROM coverage c WHERE c.stream_id = s.stream_id
    ORDER BY lower(c.span) LIMIT 1), (
    SELECT min(lower(w.span)) FROM wanted w
    WHERE w.market_id = s.market_id AND w.stream_id = s.stream_id)))`;

/**
 * Of a market that is delisted nothing is expected after it was last seen: it cannot be asked for.
 * Once it is listed again everything is, as of any other.
 */
const LAST_SEEN = `
  (SELECT m.last_seen_at FROM market m
   WHERE m.market_id = s.market_id AND m.delisted_at IS NOT NULL)`;

/** `expected.spans`: what is expected of stream `s` before `until` (SQL). */
export const expectedSql = (until: string) => `
  LATERAL (SELECT ${START} AS from_at, least(${until}, ${LAST_SEEN}) AS to_at OFFSET 0) limits,
  LATERAL (
    SELECT CASE WHEN from_at < to_at THEN tstzmultirange(tstzrange(from_at, to_at))
                ELSE ${NONE} END
         + coalesce((SELECT range_agg(w.span * tstzrange(NULL, to_at)) FROM wanted w
                     WHERE w.market_id = s.market_id AND w.stream_id = s.stream_id), ${NONE})
    AS spans OFFSET 0) expected`;

/**
 * `island.at`: the start of the last covered range of stream `s` that starts at `from` (SQL) or
 * before; null when there is none. What is missing after that start is missing whole.
 */
export const rangeBeforeSql = (from: string) => `
  LATERAL (SELECT (
    SELECT lower(c.span) FROM coverage c
    WHERE c.stream_id = s.stream_id AND lower(c.span) <= ${from}
    ORDER BY lower(c.span) DESC LIMIT 1) AS at OFFSET 0) island`;

/** `covered.spans`: the covered ranges of stream `s` that start in [`from`, `until`) (SQL). */
export const coveredSql = (from: string, until: string) => `
  LATERAL (SELECT coalesce((
    SELECT range_agg(c.span) FROM coverage c
    WHERE c.stream_id = s.stream_id
      AND lower(c.span) >= ${from} AND lower(c.span) < ${until}), ${NONE}) AS spans OFFSET 0) covered`;

const UNTIL = fromMs('$3');
const MISSING_SPANS = `
  SELECT ${boundsSql('missing')}
  FROM stream s, ${expectedSql(UNTIL)}, ${coveredSql(`'-infinity'`, UNTIL)},
    unnest(expected.spans - covered.spans) AS missing
  WHERE s.market_id = $1 AND s.stream_id = $2
  ORDER BY lower(missing)`;

/**
 * Expected minus covered of one stream, oldest first: from `collectFromMs` (or, while that is null, from
 * the oldest instant that is covered or wanted) up to `untilMs`, and what was wanted before that.
 */
export async function readMissing(
  runner: Runner,
  stream: StreamRef,
  untilMs: number,
): Promise<Span[]> {
  return await runner.rows<Span>(MISSING_SPANS, [stream.marketId, stream.streamId, untilMs]);
}
