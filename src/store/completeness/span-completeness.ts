import type { Span } from '../../kernel/span.js';
import type { MissingPart, SpanCompleteness } from '../api-series.js';
import { fromMs, toMs } from '../instants.js';
import { NOTES } from './gap-memories.js';

const SPAN = `tstzrange(${fromMs('$3')}, ${fromMs('$4')})`;
const COVERED = `
  FROM coverage c WHERE c.market_id = $1 AND c.stream_id = $2 AND c.span && ${SPAN}`;
const COVERED_SPANS = `
  SELECT ${toMs(`lower(c.span * ${SPAN})`)} AS "fromMs", ${toMs(`upper(c.span * ${SPAN})`)} AS "toMs",
         count(*) OVER ()::float8 AS count ${COVERED} ORDER BY lower(c.span) LIMIT $5`;
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
    SELECT rest, 'open', 'not collected', NULL FROM unnest(
      (SELECT range_agg(span) FROM missing) - coalesce((SELECT range_agg(span) FROM remembered), '{}'))
      AS rest)
  SELECT ${toMs('lower(span)')} AS "fromMs", ${toMs('upper(span)')} AS "toMs", state, reason, note,
         count(*) OVER ()::float8 AS count,
         (sum(extract(epoch FROM upper(span) - lower(span))) OVER () * 1000)::float8 AS "sumMs"
  FROM parts ORDER BY lower(span) LIMIT $5`;

/** Runs a statement on the connection that sees the moment in question. */
type Ask = <Row extends object>(sql: string, values: readonly unknown[]) => Promise<Row[]>;

/** What the ledger says of a span of a stream; lists are cut at `limit`. */
export async function readSpanCompleteness(
  ask: Ask,
  stream: { readonly streamId: number; readonly marketId: number },
  span: Span,
  limit: number,
): Promise<SpanCompleteness> {
  const values = [stream.marketId, stream.streamId, span.fromMs, span.toMs, limit];
  const covered = await ask<Span & { count: number }>(COVERED_SPANS, values);
  const missing = await ask<Omit<MissingPart, 'span'> & Span & { count: number; sumMs: number }>(
    MISSING_PARTS,
    values,
  );
  return {
    covered: covered.map((one) => ({ fromMs: one.fromMs, toMs: one.toMs })),
    coveredCount: covered[0]?.count ?? 0,
    missing: missing.map(({ state, reason, note, ...one }) => ({
      ...{ span: { fromMs: one.fromMs, toMs: one.toMs }, state, reason, note },
    })),
    missingCount: missing[0]?.count ?? 0,
    missingMs: missing[0]?.sumMs ?? 0,
  };
}
