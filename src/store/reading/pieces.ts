import type { Span } from '../../kernel/span.js';
import { explain, type KnownGap, type Piece } from '../../model/explain.js';
import { NOTES } from '../completeness/gaps.js';
import type { StreamPlace } from '../completeness/ledger.js';
import type { Runner } from '../connection.js';
import { rangeSql } from '../sql.js';
import { readStreams } from './inspection.js';

/** Ranges and gaps that are read: of what lies beyond them nothing counts as covered. */
const FACTS_MAX = 1_000_000;

const SPAN = rangeSql('$3', '$4');
const FACTS = `
  SELECT 'remembered' AS what, g.span * ${SPAN} AS span, g.gap_id, g.state, g.reason, ${NOTES} AS note,
         g.attempts, g.first_seen_at, g.next_attempt_at
  FROM gap g WHERE g.market_id = $1 AND g.stream_id = $2 AND g.span && ${SPAN} AND g.state <> 'filled'
  UNION ALL
  SELECT 'covered', c.span * ${SPAN}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM coverage c WHERE c.market_id = $1 AND c.stream_id = $2 AND c.span && ${SPAN}
  UNION ALL
  SELECT 'wanted', w.span * ${SPAN}, NULL, NULL, NULL, NULL, NULL, NULL, NULL
  FROM wanted w WHERE w.market_id = $1 AND w.stream_id = $2 AND w.span && ${SPAN}
  ORDER BY 2 LIMIT ${FACTS_MAX}`;

type Fact = KnownGap & { readonly what: 'covered' | 'wanted' | 'remembered' };

/**
 * Returns the pieces of a time range of a stream, oldest first; none for an unknown stream.
 *
 * @param nowMs the exchange's time
 */
export async function readPieces(
  runner: Runner,
  { streamId, marketId }: StreamPlace,
  span: Span,
  nowMs = span.toMs,
): Promise<Piece[]> {
  const [stream] = await readStreams(runner, streamId);
  if (stream === undefined) return [];
  const facts = await runner.rows<Fact>(FACTS, [marketId, streamId, span.fromMs, span.toMs]);
  const of = (what: Fact['what']) => facts.filter((one) => one.what === what);
  const spansOf = (what: Fact['what']) => of(what).map((one) => one.span);
  return explain(
    {
      stream,
      nowMs,
      covered: spansOf('covered'),
      wanted: spansOf('wanted'),
      remembered: of('remembered').map(({ what: _, ...gap }) => gap),
    },
    span,
  );
}
