import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { fromMs, rangeSql, toMs } from '../sql.js';
import { leftSql, type StreamSpan } from './ledger.js';

/** What is asked of the gap filler; it stands in the ledger until it is done. */

/** A memory of a gap that something is to be done about. */
interface RememberedSpan {
  readonly gapId: number;
  readonly streamId: number;
  readonly span: Span;
}

/**
 * What a person or the verification asks of the gap filler: read again and again, so that it
 * reaches a daemon in another process and survives a crash.
 */
export interface FillRequests {
  /** What is requested beyond what is collected anyway (backfill). */
  readonly wanted: readonly StreamSpan[];
  /** Open memories with reason `suspect` whose span is still (partly) covered: to be revoked. */
  readonly suspects: readonly RememberedSpan[];
  /** Open memories that may be tried again now: `next_attempt_at` null or reached. */
  readonly due: readonly DueSpan[];
  /** Up to where rows are no longer kept, UNIX milliseconds; null where all are. */
  readonly expired: Readonly<Record<'trades' | 'candles', number | null>>;
  /** Time whose candles are in files. */
  readonly candlesInFiles: readonly Span[];
}

interface DueSpan extends RememberedSpan {
  readonly attempts: number;
  readonly nextAttemptAtMs: number | null;
}

/** Most requests of a sort in one answer; the others come when these are done. */
const MOST_REQUESTS = 1_000;

const WANT = `
  INSERT INTO wanted (stream_id, market_id, span)
  VALUES ($1, $2, ${rangeSql('$3', '$4')})
  ON CONFLICT (market_id, stream_id, span) DO UPDATE SET requested_at = wanted.requested_at
  RETURNING stream_id, market_id, span`;

/** Adds a span to what is expected of a stream; the same span twice is one. @throws {@link StoreError} for a span that is empty */
export async function want(runner: Runner, stream: StreamRef, span: Span): Promise<StreamSpan> {
  const values = [stream.streamId, stream.marketId, span.fromMs, span.toMs];
  const [row] = await runner.rows<StreamSpan>(WANT, values);
  if (row === undefined) throw new Error('an upsert returned no row');
  return row;
}

/** Of these streams alone: requests of others would take the place of theirs. */
const isAsked = (of: string) => `($1::int[] IS NULL OR ${of}.stream_id = ANY ($1))`;

/** What is covered, and what is given up, needs no more work; what lies in files cannot be had. */
const OPEN_WANTED = `
  SELECT w.stream_id, w.market_id, one AS span
  FROM wanted w, unnest(tstzmultirange(w.span) - ${leftSql('w')}) AS one
  WHERE lower(w.span) < ${fromMs('$2')} AND ${isAsked('w')}
    AND NOT EXISTS (
      SELECT FROM coverage c
      WHERE c.market_id = w.market_id AND c.stream_id = w.stream_id AND c.span @> w.span)
    AND NOT tstzmultirange(one) <@ (
      SELECT coalesce(range_agg(settled.span), '{}') FROM (
        SELECT c.span FROM coverage c
        WHERE c.market_id = w.market_id AND c.stream_id = w.stream_id AND c.span && w.span
        UNION ALL
        SELECT g.span FROM gap g
        WHERE g.market_id = w.market_id AND g.stream_id = w.stream_id AND g.span && w.span
          AND g.state = 'unfillable') settled)
  ORDER BY lower(one) DESC LIMIT ${MOST_REQUESTS}`;

const HAS_COVERAGE = `
  EXISTS (SELECT FROM coverage c WHERE c.market_id = g.market_id AND c.stream_id = g.stream_id
            AND c.span && g.span)`;

/** Rows of it are in files or gone: nothing can be added there, and nothing looked at, as long as that is so. */
const HAS_LEFT = `tstzmultirange(g.span) <@ ${leftSql('g')}`;

const SUSPECTS = `
  SELECT gap_id, stream_id, span FROM gap g
  WHERE state = 'open' AND reason = 'suspect' AND revoked_at IS NULL AND ${HAS_COVERAGE}
    AND NOT ${HAS_LEFT} AND ${isAsked('g')}
  ORDER BY lower(span) DESC LIMIT ${MOST_REQUESTS}`;

const DUE = `
  SELECT gap_id, stream_id, span, attempts, next_attempt_at FROM gap g
  WHERE state = 'open' AND (next_attempt_at IS NULL OR next_attempt_at <= ${fromMs('$2')})
    AND ${isAsked('g')}
    AND NOT (reason = 'suspect' AND revoked_at IS NULL AND ${HAS_COVERAGE})
    AND NOT EXISTS (SELECT FROM coverage c WHERE c.market_id = g.market_id
                      AND c.stream_id = g.stream_id AND c.span @> g.span)
    AND NOT ${HAS_LEFT}
  ORDER BY lower(span) DESC LIMIT ${MOST_REQUESTS}`;

const EXPIRED = `
  SELECT ${toMs(`max(upper(span)) FILTER (WHERE table_name = 'trade')`)} AS trades,
         ${toMs(`max(upper(span)) FILTER (WHERE table_name = 'kline')`)} AS candles
  FROM partition_state WHERE state = 'expired'`;

const CANDLES_IN_FILES = `
  SELECT span FROM partition_state WHERE table_name = 'kline' AND state = 'archived'`;

/** Newest first, all in one snapshot. @param streamIds what can be worked on; null for all that there is */
export async function readFillRequests(
  database: Database,
  nowExchangeMs: number,
  streamIds: readonly number[] | null = null,
): Promise<FillRequests> {
  return await database.transaction(async (runner) => {
    const wanted = await runner.rows<StreamSpan>(OPEN_WANTED, [streamIds, nowExchangeMs]);
    const suspects = await runner.rows<RememberedSpan>(SUSPECTS, [streamIds]);
    const due = await runner.rows<DueSpan>(DUE, [streamIds, nowExchangeMs]);
    const [expired] = await runner.rows<FillRequests['expired']>(EXPIRED);
    const inFiles = await runner.rows<{ readonly span: Span }>(CANDLES_IN_FILES);
    return {
      ...{ wanted, suspects, due, expired: expired ?? { trades: null, candles: null } },
      candlesInFiles: inFiles.map(({ span }) => span),
    };
  }, 'ISOLATION LEVEL REPEATABLE READ READ ONLY');
}
