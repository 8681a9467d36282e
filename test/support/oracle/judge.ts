import assert from 'node:assert/strict';
import { multiplyDecimals } from '../../../src/kernel/decimal.js';
import { type RecordedTrade, storedTrades } from '../exchanges/recorded.js';
import { runSql } from '../postgres/postgres.js';
import type { OpenSql } from '../postgres/postgres-server.js';
import type { OracleWorld } from './world.js';

interface Covered {
  readonly kind: 'trades';
  readonly fromS: number;
  readonly toS: number;
}

interface Expected {
  readonly kind: 'trades';
  /** Null while the start of history is not known: then everything older is still to come. */
  readonly fromS: number | null;
}

/** What an archive holds of what an exchange issued. */
export interface Judgement {
  readonly issued: number;
  /** Issued, and covered by the ledger: each of them is stored exactly. */
  readonly proven: number;
  /** Issued, and listed as missing. */
  readonly inGaps: number;
  /** Issued before collecting could begin: a server that pages by id shows its newest page only. */
  readonly beforeStart: number;
  /**
   * Stored exactly, in the second in which history begins: nothing proves that the exchange still has
   * all of it, so it is neither covered nor expected.
   */
  readonly atStart: number;
  /** Nothing of either stream is missing before the last second of the tape. */
  readonly isWhole: boolean;
}

/**
 * The oracle: every issued trade is either proven to be stored, and is so in every field, or lies in
 * a span that the archive itself calls a gap; those of the very first second are stored, but not
 * proven. Nothing is stored twice, and nothing that was never issued.
 */
export async function judge(
  databaseUrl: string,
  market: string,
  trades: readonly RecordedTrade[],
  isStartLater: boolean,
): Promise<Judgement> {
  const issued = new Map(trades.map((trade) => [String(trade.id), trade]));
  const stored = await storedTrades(databaseUrl, market);
  const storedIds = new Map(stored.map((row) => [row.id, row]));
  assert.equal(storedIds.size, stored.length, 'a trade is stored twice');
  for (const row of stored) {
    const trade = issued.get(row.id);
    assert.ok(trade !== undefined, `trade ${row.id} was never issued`);
    const { micros, ...fields } = row;
    assert.deepEqual(fields, {
      id: String(trade.id),
      second: String(Math.floor(trade.timeMs / 1000)),
      price: trade.price,
      amount: trade.amount,
      total: multiplyDecimals(trade.price, trade.amount),
      side: trade.side,
    });
    if (micros !== null) assert.equal(micros, `${trade.timeMs}000`, `exact time of ${row.id}`);
  }
  const covered = await coverageOf(databaseUrl, market);
  const expected = await expectedOf(databaseUrl, market);
  const firstSecond = Math.floor((trades[0]?.timeMs ?? 0) / 1000);
  const lastSecond = Math.floor((trades.at(-1)?.timeMs ?? 0) / 1000);
  let proven = 0;
  let inGaps = 0;
  let missing = 0;
  let beforeStart = 0;
  let atStart = 0;
  for (const { kind, fromS } of expected) {
    const spans = covered.filter((one) => one.kind === kind);
    for (const trade of trades) {
      const second = Math.floor(trade.timeMs / 1000);
      const row = storedIds.get(String(trade.id));
      if (spans.some((span) => span.fromS <= second && second < span.toS)) {
        assert.ok(row !== undefined, `${kind}: trade ${trade.id} is covered, but not stored`);
        proven += 1;
        continue;
      }
      if (fromS !== null && second < fromS) {
        // Where nothing that old was asked for, a page may have brought it, or not.
        if (isStartLater) {
          beforeStart += 1;
          continue;
        }
        const isFirst = second === firstSecond && row !== undefined;
        assert.ok(isFirst, `${kind}: trade ${trade.id} is neither covered nor in a gap`);
        atStart += 1;
        continue;
      }
      inGaps += 1;
      if (second < lastSecond) missing += 1;
    }
  }
  const isWhole = missing === 0;
  return { issued: trades.length, proven, inGaps, beforeStart, atStart, isWhole };
}

/** What the issued trades of one market add up to. */
const MADE = `
  WITH issued AS (
    SELECT * FROM unnest($2::bigint[], $3::bigint[], $4::numeric[], $5::numeric[])
      AS t(tid, at_ms, price, amount)),
  series AS (
    SELECT s.* FROM stream s JOIN market m USING (market_id)
    WHERE m.name = $1 AND s.kind = 'candles'),
  made AS (
    SELECT stream_id, variant, at_ms / (variant * 1000) * variant AS open_s,
           (array_agg(price ORDER BY tid))[1] AS open, (array_agg(price ORDER BY tid DESC))[1] AS close,
           max(price) AS high, min(price) AS low, sum(amount) AS volume, sum(price * amount) AS amount
    FROM issued, series GROUP BY 1, 2, 3),
  stored AS (
    SELECT s.stream_id, extract(epoch FROM k.open_at)::bigint AS open_s, k.*
    FROM kline k JOIN series s USING (market_id) WHERE k.interval_s = s.variant)`;

const IS_COVERED = `EXISTS (
  SELECT FROM coverage c
  WHERE c.stream_id = made.stream_id AND c.span @> to_timestamp(made.open_s))`;

/** The archive says itself that something is wrong there. */
const IS_NAMED = `EXISTS (
  SELECT FROM candle_check v JOIN series s USING (market_id)
  WHERE v.outcome = 'mismatch' AND v.interval_s = s.variant
    AND s.stream_id = made.stream_id AND v.span @> to_timestamp(made.open_s))`;

/** Each counts what must not be. */
const CANDLE_LIES: Readonly<Record<string, string>> = {
  'covered and traded, but not stored': `
    SELECT count(*) FROM made LEFT JOIN stored USING (stream_id, open_s)
    WHERE stored.open_s IS NULL AND ${IS_COVERED} AND NOT ${IS_NAMED}`,
  'stored, but not traded': `
    SELECT count(*) FROM stored LEFT JOIN made USING (stream_id, open_s) WHERE made.open_s IS NULL`,
  'covered and stored with other figures than its trades make': `
    SELECT count(*) FROM made JOIN stored USING (stream_id, open_s)
    WHERE ${IS_COVERED} AND NOT ${IS_NAMED} AND
      (made.open, made.close, made.high, made.low, made.volume, made.amount) IS DISTINCT FROM
      (stored.open, stored.close, stored.high, stored.low, stored.volume, stored.quote_volume)`,
  'counted otherwise by the ledger': `
    SELECT count(*) FROM rows_by_day r WHERE r.series = 'kline'
      AND r.rows <> (SELECT count(*) FROM kline k WHERE k.market_id = r.market_id
        AND k.interval_s = r.variant AND (k.open_at AT TIME ZONE 'UTC')::date = r.day)`,
};

/** What an archive holds of the candles that an exchange issued. */
export interface CandleJudgement {
  /** Traded in, covered, and stored exactly. */
  readonly proven: number;
  /** Covered without a candle, and nothing was traded in them. */
  readonly quiet: number;
  /** Traded in and not covered. */
  readonly missing: number;
  /** Known not to add up, and still to be tried again or given up. */
  readonly named: number;
}

/** The same oracle of candles: a covered slot holds the candle that its trades make, or none if it has none. */
export async function judgeCandles(
  archive: OpenSql,
  market: string,
  trades: readonly RecordedTrade[],
): Promise<CandleJudgement> {
  const parameters = [
    market,
    trades.map(({ id }) => id),
    trades.map(({ timeMs }) => timeMs),
    trades.map(({ price }) => price),
    trades.map(({ amount }) => amount),
  ];
  const count = async (sql: string) => {
    const [row] = await archive.run<{ count: string }>(`${MADE} ${sql}`, parameters);
    return Number(row?.count);
  };
  for (const [lie, sql] of Object.entries(CANDLE_LIES)) {
    assert.equal(await count(sql), 0, `candles ${lie}`);
  }
  return {
    proven: await count(`SELECT count(*) FROM made WHERE ${IS_COVERED}`),
    quiet: await count(
      `SELECT coalesce(sum(extract(epoch FROM upper(c.span) - lower(c.span)) / variant - (
         SELECT count(*) FROM stored
         WHERE stored.stream_id = c.stream_id AND c.span @> to_timestamp(stored.open_s))), 0)::bigint AS count
       FROM coverage c JOIN series USING (stream_id)`,
    ),
    missing: await count(`SELECT count(*) FROM made WHERE NOT ${IS_COVERED}`),
    named: await count(`SELECT count(*) FROM made WHERE ${IS_NAMED}`),
  };
}

async function coverageOf(databaseUrl: string, market: string): Promise<Covered[]> {
  return await runSql<Covered>(
    databaseUrl,
    `SELECT kind, extract(epoch FROM lower(span))::float8 AS "fromS",
            extract(epoch FROM upper(span))::float8 AS "toS"
     FROM coverage c JOIN stream s USING (stream_id) JOIN market m ON m.market_id = s.market_id
     WHERE m.name = $1 AND kind = 'trades'`,
    [market],
  );
}

async function expectedOf(databaseUrl: string, market: string): Promise<Expected[]> {
  return await runSql<Expected>(
    databaseUrl,
    `SELECT kind, extract(epoch FROM collect_from)::float8 AS "fromS"
     FROM stream JOIN market USING (market_id)
     WHERE name = $1 AND kind = 'trades'`,
    [market],
  );
}

/** Spans of the tape that are missing and that somebody may still try to fill now. */
const TO_DO = `
  WITH wanted AS (
    SELECT s.stream_id, s.kind,
           tstzrange(to_timestamp(least(begin_s, end_s)), to_timestamp(end_s)) AS tape,
           coalesce((SELECT range_agg(span) FROM coverage c WHERE c.stream_id = s.stream_id), '{}')
             AS covered,
           coalesce((SELECT range_agg(span) FROM gap g WHERE g.stream_id = s.stream_id
             AND (state = 'unfillable' OR next_attempt_at > to_timestamp($4))), '{}') AS put_off
    FROM stream s JOIN market m USING (market_id),
      LATERAL (SELECT greatest(s.variant, 1)::numeric AS step) i,
      LATERAL (SELECT ceil(greatest($2, extract(epoch FROM s.collect_from)) / step) * step AS begin_s,
                      floor($3 / step) * step AS end_s) w
    WHERE m.name = $1 AND s.kind = ANY ($5))
  SELECT FROM wanted WHERE NOT isempty(tstzmultirange(tape) - covered - put_off)`;

/** What verification has not come to an end with: marks, tries, and whole slots without a result. */
const TO_VERIFY = `
  SELECT FROM candle_recheck
  UNION ALL
  SELECT FROM candle_check WHERE next_try_at <= to_timestamp($4)
  UNION ALL
  SELECT FROM stream s,
    LATERAL (SELECT range_agg(span) AS spans FROM coverage WHERE stream_id = s.stream_id) k,
    LATERAL (SELECT range_agg(span) AS spans FROM coverage JOIN stream o USING (stream_id)
      WHERE o.kind = 'trades' AND o.market_id = s.market_id) t,
    generate_series($2::bigint / s.variant * s.variant, $3::bigint, s.variant) AS open_s
  WHERE s.kind = 'candles' AND s.kind = ANY ($5) AND $1 <> ''
    AND k.spans * t.spans @> tstzrange(to_timestamp(open_s), to_timestamp(open_s + s.variant))
    AND NOT EXISTS (SELECT FROM candle_check v WHERE v.market_id = s.market_id
      AND v.interval_s = s.variant AND v.span @> to_timestamp(open_s))`;

/** Whether nothing of the tape is left to be done now: it is covered, given up, or put off; and verified. */
export async function isSettled(
  archive: OpenSql,
  market: string,
  { trades, kinds }: Pick<OracleWorld, 'trades' | 'kinds'>,
  nowMs: number,
): Promise<boolean> {
  const fromS = Math.floor((trades[0]?.timeMs ?? 0) / 1000);
  // Coverage that grows by time alone is written some seconds later: the last second is not waited for.
  const toS = Math.floor((trades.at(-1)?.timeMs ?? 0) / 1000);
  const [state] = await archive.run<{ covered: boolean; open: boolean; unverified: boolean }>(
    `SELECT EXISTS (${TO_DO}) AS open, EXISTS (${TO_VERIFY}) AS unverified,
            EXISTS (SELECT FROM coverage JOIN stream USING (stream_id) WHERE kind = 'trades') AS covered`,
    [market, fromS, toS, nowMs / 1000, kinds],
  );
  if (state?.covered !== true || state.open) return false;
  return !state.unverified || !kinds.includes('candles');
}
