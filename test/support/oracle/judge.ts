import assert from 'node:assert/strict';
import { multiplyDecimals } from '../../../src/kernel/decimal.js';
import { type RecordedTrade, storedTrades } from '../exchanges/recorded.js';
import { runSql } from '../postgres/postgres.js';
import type { OpenSql } from '../postgres/postgres-server.js';

interface Covered {
  readonly kind: 'trades' | 'times';
  readonly fromS: number;
  readonly toS: number;
  readonly rowCount: number;
}

interface Expected {
  readonly kind: 'trades' | 'times';
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
    for (const span of spans) {
      const held = stored.filter(
        ({ second, micros }) =>
          Number(second) >= span.fromS &&
          Number(second) < span.toS &&
          (kind === 'trades' || micros !== null),
      );
      assert.equal(held.length, span.rowCount, `the ledger's count of ${kind} from ${span.fromS}`);
    }
    for (const trade of trades) {
      const second = Math.floor(trade.timeMs / 1000);
      const row = storedIds.get(String(trade.id));
      if (spans.some((span) => span.fromS <= second && second < span.toS)) {
        assert.ok(row !== undefined, `${kind}: trade ${trade.id} is covered, but not stored`);
        if (kind === 'times') assert.notEqual(row.micros, null, `exact time of ${trade.id}`);
        if (kind === 'trades') proven += 1;
        continue;
      }
      if (fromS !== null && second < fromS) {
        // Where nothing that old was asked for, a page may have brought it, or not.
        if (isStartLater) {
          if (kind === 'trades') beforeStart += 1;
          continue;
        }
        const isFirst = second === firstSecond && row !== undefined;
        assert.ok(isFirst, `${kind}: trade ${trade.id} is neither covered nor in a gap`);
        if (kind === 'times') assert.notEqual(row.micros, null, `exact time of ${trade.id}`);
        if (kind === 'trades') atStart += 1;
        continue;
      }
      if (kind === 'trades') inGaps += 1;
      if (second < lastSecond) missing += 1;
    }
  }
  const isWhole = missing === 0;
  return { issued: trades.length, proven, inGaps, beforeStart, atStart, isWhole };
}

async function coverageOf(databaseUrl: string, market: string): Promise<Covered[]> {
  return await runSql<Covered>(
    databaseUrl,
    `SELECT kind, extract(epoch FROM lower(span))::float8 AS "fromS",
            extract(epoch FROM upper(span))::float8 AS "toS", row_count::float8 AS "rowCount"
     FROM coverage c JOIN stream s USING (stream_id) JOIN market m ON m.market_id = s.market_id
     WHERE m.name = $1 AND kind IN ('trades', 'times')`,
    [market],
  );
}

async function expectedOf(databaseUrl: string, market: string): Promise<Expected[]> {
  return await runSql<Expected>(
    databaseUrl,
    `SELECT kind, extract(epoch FROM collect_from)::float8 AS "fromS"
     FROM stream JOIN market USING (market_id)
     WHERE name = $1 AND kind IN ('trades', 'times')`,
    [market],
  );
}

/** Spans of the tape that are missing and that somebody may still try to fill now. */
const TO_DO = `
  WITH wanted AS (
    SELECT s.stream_id, s.kind,
           tstzrange(to_timestamp($2), to_timestamp($3)) * tstzrange(s.collect_from, NULL) AS tape,
           coalesce((SELECT range_agg(span) FROM coverage c WHERE c.stream_id = s.stream_id), '{}')
             AS covered,
           coalesce((SELECT range_agg(span) FROM gap g WHERE g.stream_id = s.stream_id
             AND (state = 'unfillable' OR next_attempt_at > to_timestamp($4))), '{}') AS put_off
    FROM stream s JOIN market m USING (market_id)
    WHERE m.name = $1 AND s.kind IN ('trades', 'times'))
  SELECT kind FROM wanted WHERE NOT isempty(tstzmultirange(tape) - covered - put_off)`;

/** Whether nothing of the tape is left to be done now: it is covered, given up, or put off. */
export async function isSettled(
  archive: OpenSql,
  market: string,
  trades: readonly RecordedTrade[],
  nowMs: number,
): Promise<boolean> {
  const fromS = Math.floor((trades[0]?.timeMs ?? 0) / 1000);
  // Coverage that grows by time alone is written some seconds later: the last second is not waited for.
  const toS = Math.floor((trades.at(-1)?.timeMs ?? 0) / 1000);
  const [state] = await archive.run<{ covered: boolean; open: boolean }>(
    `SELECT EXISTS (${TO_DO}) AS open,
            EXISTS (SELECT FROM coverage JOIN stream USING (stream_id) WHERE kind = 'trades') AS covered`,
    [market, fromS, toS, nowMs / 1000],
  );
  return state?.covered === true && !state.open;
}
