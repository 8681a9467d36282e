import { isEmptySpan, type Span } from '../../kernel/span.js';
import type { CoveredRange, IdEpoch, StreamRef } from '../../model/batch.js';
import type { Share } from '../../model/share.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { removedSql } from '../schema/partitions.js';
import { fromMs } from '../sql.js';

/** Reading and writing the ledger outside the writer's transactions. */

/** A stream as rows of the ledger name it. */
export type StreamPlace = Pick<StreamRef, 'streamId' | 'marketId'>;

/** A stream with the name of its market: `*` where it covers all markets together. */
export interface NamedStream extends Omit<StreamRef, 'collectFromMs'> {
  readonly market: string;
}

/** A span of one stream. */
export interface StreamSpan extends StreamPlace {
  readonly span: Span;
}

export interface SessionClosing {
  readonly atMs: number;
  readonly code: number;
  readonly reason: string;
}

/** SQL for the columns of a covered range. @param c the row of coverage */
export const coveredRangeSql = (c: string) => `${c}.stream_id, ${c}.span`;

/** SQL for the columns of a {@link StreamRef}. @param s the row of stream */
export const streamRefSql = (s: string) =>
  `${s}.stream_id, ${s}.kind, ${s}.market_id, ${s}.variant, ${s}.collect_from`;

/** By the stream alone, as the index has it: a stream has one market. */
const NEWEST_RANGES = `
  SELECT ${coveredRangeSql('c')} FROM coverage c WHERE stream_id = $1 ORDER BY lower(span) DESC LIMIT $2`;

/** The newest `limit` covered ranges, newest first. */
export async function readCoveredRanges(
  runner: Runner,
  stream: StreamRef,
  limit: number,
): Promise<CoveredRange[]> {
  const values = [stream.streamId, limit];
  return await runner.rows<CoveredRange>(NEWEST_RANGES, values);
}

const OPEN_SESSION = `
  INSERT INTO session (stream_id, market_id, connected_at, last_message_at)
  VALUES ($1, $2, ${fromMs('$3')}, ${fromMs('$3')}) RETURNING session_id`;
const TOUCH_SESSION = `
  UPDATE session SET last_message_at = greatest(last_message_at, ${fromMs('$2')})
  WHERE session_id = $1 AND closed_at IS NULL`;
const CLOSE_SESSION = `
  UPDATE session SET closed_at = ${fromMs('$2')}, close_code = $3, reason = left($4, 500)
  WHERE session_id = $1 AND closed_at IS NULL`;
/**
 * Until when a session is known to have lived that was not closed. Its last message is noted now and then, what
 * it proved with every batch.
 */
export const LAST_SEEN_ALIVE = `greatest(session.last_message_at, (
    SELECT max(upper(c.span)) FROM coverage c
    WHERE c.stream_id = session.stream_id AND c.market_id = session.market_id
      AND c.evidence ->> 'session' = session.session_id::text))`;
const CLOSE_ORPHANS = `
  UPDATE session SET closed_at = ${LAST_SEEN_ALIVE}, reason = 'the collector ended without closing it'
  WHERE closed_at IS NULL AND ($1::int[] IS NULL OR market_id = ANY ($1)) RETURNING session_id`;

/** Opens a session and returns its id. */
export async function openSession(
  runner: Runner,
  stream: StreamRef,
  atMs: number,
): Promise<number> {
  const values = [stream.streamId, stream.marketId, atMs];
  const [row] = await runner.rows<{ sessionId: number }>(OPEN_SESSION, values);
  return row?.sessionId ?? Number.NaN;
}

export async function touchSession(runner: Runner, id: number, lastAtMs: number): Promise<void> {
  await runner.rows(TOUCH_SESSION, [id, lastAtMs]);
}

export async function closeSession(
  runner: Runner,
  id: number,
  { atMs, code, reason }: SessionClosing,
): Promise<void> {
  await runner.rows(CLOSE_SESSION, [id, atMs, code, reason]);
}

/** Closes, where they were last seen alive, sessions of a share that a crash left open. Returns how many. */
export async function closeOrphanSessions(runner: Runner, share: Share): Promise<number> {
  return (await runner.rows(CLOSE_ORPHANS, [await readMarketsOf(runner, share)])).length;
}

/** Ids of the markets that belong to a share; null: all of them. */
async function readMarketsOf(runner: Runner, share: Share): Promise<number[] | null> {
  if (share.isWhole) return null;
  const rows = await runner.rows<{ id: number; name: string }>(
    'SELECT market_id AS id, name FROM market',
  );
  return rows.filter(({ name }) => share.has(name)).map(({ id }) => id);
}

const RECORD_EPOCH = `
  INSERT INTO trade_epoch (market_id, begins_at, first_id, last_before_at, last_id_before, endpoint, seen_at)
  VALUES ($1, ${fromMs('$2')}, $3, ${fromMs('$4')}, $5, $6, ${fromMs('$7')})
  ON CONFLICT DO NOTHING RETURNING market_id`;

/** @returns whether it was not known before */
export async function recordIdEpoch(runner: Runner, epoch: IdEpoch): Promise<boolean> {
  const { marketId, beginsMs, firstId, lastBeforeMs, lastIdBefore, endpoint, atMs } = epoch;
  const values = [marketId, beginsMs, firstId, lastBeforeMs, lastIdBefore, endpoint, atMs];
  return (await runner.rows(RECORD_EPOCH, values)).length > 0;
}

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
 * Of a market that is delisted nothing is expected from when it was missing from the list: it cannot be asked for.
 * It may have been traded until then, however long before that it was last seen. The candle that was open then never
 * closed. Once the market is listed again everything is expected, as of any other.
 */
const FOUND_MISSING = `
  (SELECT CASE s.kind WHEN 'candles'
          THEN date_bin(s.variant * interval '1 second', m.delisted_at, coalesce((
            SELECT lower(c.span) FROM coverage c
            WHERE c.market_id = s.market_id AND c.stream_id = s.stream_id
            ORDER BY lower(c.span) LIMIT 1), 'epoch'))
          ELSE m.delisted_at END
   FROM market m
   WHERE m.market_id = s.market_id AND m.delisted_at IS NOT NULL)`;

/** `expected.spans`: what is expected of stream `s` before `until` (SQL). */
export const expectedSql = (until: string) => `
  LATERAL (SELECT ${START} AS from_at, least(${until}, ${FOUND_MISSING}) AS to_at OFFSET 0) limits,
  LATERAL (
    SELECT CASE WHEN from_at < to_at THEN tstzmultirange(tstzrange(from_at, to_at))
                ELSE ${NONE} END
         + coalesce((SELECT range_agg(w.span * tstzrange(NULL, to_at)) FROM wanted w
                     WHERE w.market_id = s.market_id AND w.stream_id = s.stream_id), ${NONE})
    AS spans OFFSET 0) expected`;

/**
 * `range_before.at`: the start of the last covered range of stream `s` that starts at `from` (SQL) or
 * before; null when there is none. What is missing after that start is missing whole.
 */
export const rangeBeforeSql = (from: string) => `
  LATERAL (SELECT (
    SELECT lower(c.span) FROM coverage c
    WHERE c.stream_id = s.stream_id AND lower(c.span) <= ${from}
    ORDER BY lower(c.span) DESC LIMIT 1) AS at OFFSET 0) range_before`;

/** `covered.spans`: the covered ranges of stream `s` that start in [`from`, `until`) (SQL). */
export const coveredSql = (from: string, until: string) => `
  LATERAL (SELECT coalesce((
    SELECT range_agg(c.span) FROM coverage c
    WHERE c.stream_id = s.stream_id
      AND lower(c.span) >= ${from} AND lower(c.span) < ${until}), ${NONE}) AS spans OFFSET 0) covered`;

/** Where a slot of stream `k` ends, as the newest that is known shows its grid: null where none is (SQL). */
const SLOT_EDGE = `
  coalesce((
    SELECT upper(c.span) FROM coverage c
    WHERE c.market_id = k.market_id AND c.stream_id = k.stream_id ORDER BY lower(c.span) DESC LIMIT 1), (
    SELECT max(upper(g.span)) FROM gap g
    WHERE g.market_id = k.market_id AND g.stream_id = k.stream_id AND g.state = 'unfillable'))`;

const slotFrom = (at: string) => `
  coalesce(date_bin(slot.length, ${at} + slot.length - interval '1 microsecond', slot.edge), ${at})`;

/**
 * Time whose rows have left, of the stream of row `of` (SQL): in files or gone, so that none can be added. A candle lies
 * where it opens, with all of its time.
 */
export const leftSql = (of: string) => `
  (SELECT CASE k.kind
     WHEN 'trades' THEN ${removedSql('trade')}
     WHEN 'candles' THEN (
       SELECT coalesce(range_agg(tstzrange(${slotFrom('lower(one)')}, ${slotFrom('upper(one)')})), '{}')
       FROM unnest(${removedSql('kline')}) AS one,
         (SELECT k.variant * interval '1 s' AS length, ${SLOT_EDGE} AS edge OFFSET 0) slot)
     ELSE '{}' END
   FROM stream k WHERE k.stream_id = ${of}.stream_id)`;

const UNTIL = fromMs('$3');
const MISSING_SPANS = `
  SELECT missing AS span
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
  const values = [stream.marketId, stream.streamId, untilMs];
  const rows = await runner.rows<{ span: Span }>(MISSING_SPANS, values);
  return rows.map(({ span }) => span);
}

/** The exchange's present, as far as the archive knows it, and coverage that lies beyond it. */

/** A piece of coverage that ends in the future, or the part of it that does. */
export type BeyondPresent = NamedStream & StreamSpan;

/** Notes come every few seconds, and claims are made between them. */
const LEEWAY = `interval '10 seconds'`;

const NOTE_PRESENT = `
  UPDATE archive SET present = ${fromMs('$1')}, present_noted_at = now(), present_pace = $2`;

/** The exchange's time, UNIX milliseconds, and exchange seconds per second. */
export interface Present {
  readonly presentMs: number;
  readonly pace: number;
}

/**
 * Notes the exchange's time; for {@link readBeyondPresent}. It is dated by the begin of the transaction: a server that
 * hangs may run what it was sent long after that.
 *
 * @param read called when the transaction has begun; undefined: nothing is noted
 */
export async function notePresent(
  database: Database,
  read: () => Present | undefined,
): Promise<void> {
  await database.transaction(async (runner) => {
    const present = read();
    if (present !== undefined) await runner.rows(NOTE_PRESENT, [present.presentMs, present.pace]);
  });
}

/** The latest that the present can be; null where it was never noted. */
const LATEST = `(
  SELECT present + present_pace * (now() - present_noted_at + ${LEEWAY}) FROM archive)`;

const EXCHANGE_NOW = `
  SELECT least(max(upper(span) + (now() - updated_at)), ${LATEST}) AS now FROM coverage`;

/**
 * The newest covered instant of all streams, moved on by the time since it was written, but never
 * beyond what can be the present.
 */
export async function readExchangeNow(runner: Runner): Promise<number | null> {
  const [row] = await runner.rows<{ nowMs: number | null }>(EXCHANGE_NOW);
  return row?.nowMs ?? null;
}

const beyondSql = (present: string) => `
  SELECT c.stream_id, s.kind, c.market_id, m.name AS market, s.variant, c.span, p.at
  FROM (SELECT ${present} AS at) p
  JOIN coverage c ON upper(c.span) > p.at
  JOIN stream s USING (stream_id) JOIN market m ON m.market_id = c.market_id
  ORDER BY m.name, s.kind, s.variant, lower(c.span) LIMIT 10000`;

type BeyondRow = BeyondPresent & { readonly atMs: number };

/** Coverage of time that has not come yet, as far as the archive knows: it cannot be true. */
export async function readBeyondPresent(runner: Runner): Promise<BeyondPresent[]> {
  return (await runner.rows<BeyondRow>(beyondSql(LATEST))).map(toBeyond);
}

/** Time since the last note. A longer one is a jump of this server's clock rather than a pause. */
const PAUSE = 'now() - present_noted_at';
const PAUSE_MAX = `interval '1 hour'`;

/**
 * Coverage after an instant. Of a played exchange, which may begin anew, only what never was past. Where
 * the last run noted a present that has not come yet, its coverage ended too late from then on: the time
 * since that note, in which nothing ran, goes as well.
 */
const AFTER = `
  SELECT CASE WHEN $2 AND is_sandbox THEN greatest(${fromMs('$1')}, ${LATEST})
              WHEN $2 AND present > ${fromMs('$1')} + ${LEEWAY}
                AND ${PAUSE} BETWEEN interval '0' AND ${PAUSE_MAX}
              THEN ${fromMs('$1')} - present_pace * (${PAUSE})
              ELSE ${fromMs('$1')} END
  FROM archive`;

const READ_AFTER = `SELECT (${AFTER}) AS at`;

/** The instant after which coverage is taken back; see {@link readBeyond}. */
export async function readAfter(
  runner: Runner,
  presentMs: number,
  isStart: boolean,
): Promise<number | null> {
  const [row] = await runner.rows<{ atMs: number | null }>(READ_AFTER, [presentMs, isStart]);
  return row?.atMs ?? null;
}

export async function readBeyond(
  runner: Runner,
  presentMs: number,
  isStart: boolean,
): Promise<BeyondPresent[]> {
  const rows = await runner.rows<BeyondRow>(beyondSql(`(${AFTER})`), [presentMs, isStart]);
  return rows.map(toBeyond).filter(({ span }) => !isEmptySpan(span));
}

/** From the second, or the candle, in which the present lies. */
function toBeyond({ span: { fromMs, toMs }, atMs, ...stream }: BeyondRow): BeyondPresent {
  const { kind, variant } = stream;
  const stepMs = kind === 'candles' ? variant * 1000 : kind === 'trades' ? 1000 : 1;
  const passed = Math.max(0, Math.floor((atMs - fromMs) / stepMs));
  return { ...stream, span: { fromMs: fromMs + passed * stepMs, toMs } };
}
