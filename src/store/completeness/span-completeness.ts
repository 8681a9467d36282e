import type { Span } from '../../kernel/span.js';
import { BEFORE_COLLECTING, GIVEN_UP } from '../../model/gap-reasons.js';
import { MOMENT_STREAMS } from '../../model/series.js';
import type { Runner } from '../connection.js';
import { keptFromSql } from '../schema/partitions.js';
import { rangeSql } from '../sql.js';
import { type Gap, NOTES } from './gaps.js';
import type { StreamPlace } from './ledger.js';

/** A missing part of a span, with what is remembered of it. */
export interface MissingPart extends Pick<Gap, 'span' | 'reason' | 'note'> {
  /** What lies before a stream, after its market, or was given up by retention, is no open gap: no filling works on it. */
  readonly state:
    | Gap['state']
    | 'before history'
    | typeof BEFORE_COLLECTING
    | 'given up'
    | 'not listed';
}

/** Ledger of a span, whether or not all of it was expected. */
export interface SpanCompleteness {
  /** Oldest first, as many as were asked for. */
  readonly covered: readonly Span[];
  readonly coveredCount: number;
  /** Oldest first, as many as were asked for. */
  readonly missing: readonly MissingPart[];
  readonly missingCount: number;
  readonly missingMs: number;
}

const SPAN = rangeSql('$3', '$4');
const COVERED = `
  FROM coverage c WHERE c.market_id = $1 AND c.stream_id = $2 AND c.span && ${SPAN}`;
const COVERED_SPANS = `
  SELECT c.span * ${SPAN} AS span, count(*) OVER () ${COVERED} ORDER BY lower(c.span) LIMIT $5`;
/** A candle that was open when the market left never closed. Longer ones may begin at any hour or weekday. */
const GONE_AT = `
  CASE WHEN s.kind = 'candles' AND s.variant < 86400
    THEN to_timestamp(floor(extract(epoch FROM m.delisted_at) / s.variant) * s.variant)
    ELSE m.delisted_at END`;
const MISSING_PARTS = `
  WITH missing AS (
    SELECT one AS span FROM unnest(
      tstzmultirange(${SPAN}) - coalesce((SELECT range_agg(c.span) ${COVERED}), '{}')) AS one),
  remembered AS (
    SELECT g.span * m.span AS span, g.state, g.reason, ${NOTES} AS note
    FROM missing m JOIN gap g ON g.span && m.span
    WHERE g.market_id = $1 AND g.stream_id = $2 AND g.state <> 'filled'),
  parts AS (
    SELECT * FROM remembered
    UNION ALL
    SELECT part, state, reason, NULL FROM (
      SELECT (SELECT range_agg(span) FROM missing) - coalesce((SELECT range_agg(span) FROM remembered), '{}') AS spans,
             (SELECT ${keptFromSql('s.kind')} FROM stream s WHERE s.market_id = $1 AND s.stream_id = $2) AS kept_from,
             (SELECT coalesce(${GONE_AT}, 'infinity') FROM market m JOIN stream s USING (market_id)
              WHERE market_id = $1 AND s.stream_id = $2) AS gone_at) rest,
      LATERAL (VALUES
        ('given up', '${GIVEN_UP}', tstzrange(NULL, coalesce(kept_from, '-infinity'))),
        ('open', 'not collected', tstzrange(kept_from, greatest(kept_from, gone_at))),
        ('not listed', 'delisted', tstzrange(greatest(kept_from, gone_at), NULL))) AS cut(state, reason, span),
      LATERAL unnest(rest.spans * tstzmultirange(cut.span)) AS part)
  SELECT parts.span, known.state, note, count(*) OVER (),
         CASE known.state WHEN 'before history' THEN 'beyond history'
                          WHEN '${BEFORE_COLLECTING}' THEN '${BEFORE_COLLECTING}' ELSE reason END AS reason,
         (sum(extract(epoch FROM upper(span) - lower(span))) OVER () * 1000)::float8 AS sum_ms
  FROM parts, stream s, LATERAL (
    SELECT coalesce(s.collect_from, (
      SELECT lower(c.span) FROM coverage c WHERE c.market_id = $1 AND c.stream_id = $2
      ORDER BY lower(c.span) LIMIT 1), '-infinity') AS at) begins, LATERAL (
    SELECT CASE
      WHEN reason <> 'not collected' OR upper(span) > begins.at THEN parts.state
      WHEN EXISTS (SELECT FROM wanted w WHERE w.market_id = $1 AND w.stream_id = $2 AND w.span && parts.span)
        THEN parts.state
      -- The walk of trades has not found the start, and goes on down.
      WHEN kind = 'trades' AND collect_from IS NULL THEN parts.state
      WHEN start_reason IS NOT NULL AND NOT kind = ANY ($6::text[]) THEN 'before history'
      ELSE '${BEFORE_COLLECTING}' END AS state) known
  WHERE s.market_id = $1 AND s.stream_id = $2
  ORDER BY lower(parts.span) LIMIT $5`;

/** Ledger of a span of a stream; lists are cut at `limit`. */
export async function readSpanCompleteness(
  runner: Runner,
  stream: StreamPlace,
  span: Span,
  limit: number,
): Promise<SpanCompleteness> {
  const values = [stream.marketId, stream.streamId, span.fromMs, span.toMs, limit];
  const covered = await runner.rows<{ span: Span; count: number }>(COVERED_SPANS, values);
  const missing = await runner.rows<MissingPart & { count: number; sumMs: number }>(MISSING_PARTS, [
    ...values,
    [...MOMENT_STREAMS],
  ]);
  return {
    covered: covered.map((one) => one.span),
    coveredCount: covered[0]?.count ?? 0,
    missing: missing.map(({ count: _, sumMs: __, ...part }) => part),
    missingCount: missing[0]?.count ?? 0,
    missingMs: missing[0]?.sumMs ?? 0,
  };
}
