import type { Span } from '../../kernel/span.js';
import type {
  Answer,
  CoverageNeighbour,
  GapDetail,
  InspectionStore,
  KnownStream,
  QuarantineFilter,
  SpanProgress,
  StreamSpan,
} from '../api-inspection.js';
import { NOTES } from '../completeness/gap-memories.js';
import { noteTheseGaps } from '../completeness/gap-notes.js';
import { START_TRIES } from '../completeness/start-tries.js';
import type { Database, Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';
import { IS_WRITTEN } from '../locks.js';
import { readAnswer } from './answers.js';
import { readQuarantine, readQuarantineCounts, readQuarantinedRow } from './quarantine-reader.js';

const STREAMS = `
  SELECT s.stream_id AS "streamId", s.kind, s.market_id AS "marketId", s.variant,
         ${toMs('s.collect_from')} AS "collectFromMs", m.name AS market,
         m.delisted_at IS NOT NULL AS "isDelisted", ${toMs('c.oldest')} AS "oldestCoveredMs",
         ${toMs('c.newest')} AS "newestCoveredMs", ${START_TRIES},
         s.start_reason AS "startReason"
  FROM stream s JOIN market m USING (market_id) LEFT JOIN (
    SELECT stream_id, market_id, min(lower(span)) AS oldest, max(upper(span)) AS newest
    FROM coverage GROUP BY stream_id, market_id) c USING (stream_id, market_id)
  ORDER BY m.name, s.kind, s.variant`;

const LENGTH_MS = (spans: string) => `
  (SELECT coalesce(sum(extract(epoch FROM upper(one) - lower(one))) * 1000, 0)::float8
   FROM unnest(${spans}) AS one)`;

const REMEMBERED = (state: string) => `
  (SELECT coalesce(range_agg(g.span), '{}') FROM gap g
   WHERE g.market_id = a.market_id AND g.stream_id = a.stream_id AND g.span && a.span
     AND ${state})`;

const PROGRESS = `
  WITH asked AS (
    SELECT stream_id, market_id, ord, tstzrange(${fromMs('from_ms')}, ${fromMs('to_ms')}) AS span
    FROM unnest($1::int[], $2::int[], $3::float8[], $4::float8[]) WITH ORDINALITY
      AS t(stream_id, market_id, from_ms, to_ms, ord)),
  known AS (
    SELECT a.ord, a.span,
           (SELECT coalesce(sum(c.row_count), 0)::float8 FROM coverage c
            WHERE c.market_id = a.market_id AND c.stream_id = a.stream_id) AS rows,
           (SELECT coalesce(range_agg(c.span * a.span), '{}') FROM coverage c
            WHERE c.market_id = a.market_id AND c.stream_id = a.stream_id AND c.span && a.span)
             AS covered,
           ${REMEMBERED(`g.state = 'unfillable'`)} AS unfillable,
           ${REMEMBERED(`g.state = 'open' AND g.next_attempt_at > ${fromMs('$5')}`)} AS waiting
    FROM asked a),
  parts AS (SELECT *, tstzmultirange(span) - covered AS missing FROM known)
  SELECT extract(epoch FROM upper(span) - lower(span))::float8 * 1000 AS "lengthMs",
         ${LENGTH_MS('covered')} AS "coveredMs",
         ${LENGTH_MS('missing * unfillable')} AS "unfillableMs",
         ${LENGTH_MS('missing * waiting - unfillable')} AS "waitingMs", rows
  FROM parts ORDER BY ord`;

const NEIGHBOUR = `
  SELECT ${toMs('lower(span)')} AS "fromMs", ${toMs('upper(span)')} AS "toMs",
         first_id::float8 AS "firstId", last_id::float8 AS "lastId",
         row_count::float8 AS "rowCount", evidence
  FROM coverage WHERE market_id = $1 AND stream_id = $2`;
const BEFORE = `${NEIGHBOUR} AND lower(span) < ${fromMs('$3')} ORDER BY lower(span) DESC LIMIT 1`;
const AFTER = `${NEIGHBOUR} AND lower(span) >= ${fromMs('$3')} ORDER BY lower(span) LIMIT 1`;

const GAP = `
  SELECT gap_id::float8 AS "gapId", stream_id AS "streamId", market_id AS "marketId",
         ${toMs('lower(span)')} AS "fromMs", ${toMs('upper(span)')} AS "toMs", state, reason,
         ${NOTES} AS note, ${toMs('first_seen_at')} AS "firstSeenAtMs", attempts,
         ${toMs('next_attempt_at')} AS "nextAttemptAtMs", ${toMs('closed_at')} AS "closedAtMs"
  FROM gap g WHERE gap_id = $1`;

type Flat<T extends { readonly span: Span }> = Omit<T, 'span'> & Span;

function withSpan<T extends { readonly span: Span }>({ fromMs, toMs, ...rest }: Flat<T>) {
  return { ...rest, span: { fromMs, toMs } };
}

/** The details of an archive in Postgres. */
export class PostgresInspection implements InspectionStore {
  readonly #open: () => Database;

  /** @param open the database, or throws when the store is stopped */
  constructor(open: () => Database) {
    this.#open = open;
  }

  async streams(): Promise<KnownStream[]> {
    return await this.#open().rows<KnownStream>(STREAMS);
  }

  async progress(spans: readonly StreamSpan[], untilMs: number): Promise<SpanProgress[]> {
    return await this.#open().rows<SpanProgress>(PROGRESS, [
      spans.map(({ streamId }) => streamId),
      spans.map(({ marketId }) => marketId),
      spans.map(({ span }) => span.fromMs),
      spans.map(({ span }) => span.toMs),
      untilMs,
    ]);
  }

  async neighbours({ streamId, marketId, span }: StreamSpan) {
    return {
      before: await readNeighbour(this.#open(), BEFORE, [marketId, streamId, span.fromMs]),
      after: await readNeighbour(this.#open(), AFTER, [marketId, streamId, span.toMs]),
    };
  }

  async gap(gapId: number): Promise<GapDetail | null> {
    const [row] = await this.#open().rows<Flat<GapDetail>>(GAP, [gapId]);
    return row === undefined ? null : (withSpan<GapDetail>(row) as GapDetail);
  }

  async note(gaps: Parameters<InspectionStore['note']>[0], note: string, atMs: number) {
    return await noteTheseGaps(this.#open(), gaps, note, atMs);
  }

  async ask(sql: string, timeoutMs: number): Promise<Answer> {
    return await readAnswer(this.#open(), sql, timeoutMs);
  }

  async isWritten(): Promise<boolean> {
    const [row] = await this.#open().rows<{ written: boolean }>(IS_WRITTEN);
    return row?.written === true;
  }

  async quarantined(filter: QuarantineFilter) {
    return await readQuarantine(this.#open(), filter);
  }

  async quarantinedRow(quarantineId: number) {
    return await readQuarantinedRow(this.#open(), quarantineId);
  }

  async quarantineCounts() {
    return await readQuarantineCounts(this.#open());
  }
}

async function readNeighbour(
  runner: Runner,
  sql: string,
  values: readonly number[],
): Promise<CoverageNeighbour | null> {
  const [row] = await runner.rows<Flat<CoverageNeighbour>>(sql, values);
  return row === undefined ? null : (withSpan<CoverageNeighbour>(row) as CoverageNeighbour);
}
