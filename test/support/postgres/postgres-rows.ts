import type { CoverageClaim, StreamRef, TickerRow, TradeRow } from '../../../src/model/batch.js';
import { runSql } from './postgres-server.js';

/** A round second that tests count from: 2026-01-15 12:00:00 UTC. */
export const NOON_S = Date.UTC(2026, 0, 15, 12) / 1_000;
/** All time. */
export const ALWAYS = { fromMs: 0, toMs: Number.POSITIVE_INFINITY };

/** A storable trade of market 1, `atS` seconds after noon, with its own values over it. */
export function trade(tid: number, atS: number, values: Partial<TradeRow> = {}): TradeRow {
  return {
    marketId: 1,
    tid,
    tradedAtS: NOON_S + atS,
    executedAtUs: null,
    price: '100.5',
    amount: '2',
    total: '201',
    side: 'buy',
    receivedAtMs: (NOON_S + atS) * 1_000 + 250,
    ...values,
  };
}

export function ticker(marketId: number, atS: number, values: Partial<TickerRow> = {}): TickerRow {
  const ms = (NOON_S + atS) * 1_000;
  const one = { bid: '1', ask: '2', open: '1', high: '3', low: '1', last: '2' };
  const rest = { volume: '10', quoteVolume: '20', change: '-1.5' };
  return { marketId, observedAtMs: ms, atMs: ms, receivedAtMs: ms, ...one, ...rest, ...values };
}

/** A claim of `[fromS, toS)`, seconds after noon. */
export function claim(stream: StreamRef, fromS: number, toS: number): CoverageClaim {
  const span = { fromMs: (NOON_S + fromS) * 1_000, toMs: (NOON_S + toS) * 1_000 };
  return { stream, span, evidence: { fromS, toS } };
}

/**
 * The ledger's promise about trades and candles, checked row by row: each span holds exactly as many
 * as it says, with these lowest and highest trade ids. Returns the spans that break it.
 */
export async function brokenCoverage(url: string): Promise<object[]> {
  return await runSql(
    url,
    `SELECT c.*, n.* FROM coverage c JOIN stream s USING (stream_id, market_id), LATERAL (
       SELECT count(*) AS rows, min(tid) AS lowest, max(tid) AS highest FROM trade t
       WHERE t.market_id = c.market_id AND t.traded_at <@ c.span
         AND (s.kind = 'trades' OR t.executed_at IS NOT NULL)) n
     WHERE s.kind IN ('trades', 'times')
       AND (n.rows <> c.row_count OR n.lowest IS DISTINCT FROM c.first_id
            OR n.highest IS DISTINCT FROM c.last_id)
     UNION ALL
     SELECT c.*, n.*, NULL, NULL FROM coverage c JOIN stream s USING (stream_id, market_id), LATERAL (
       SELECT count(*) AS rows FROM kline k
       WHERE k.market_id = c.market_id AND k.interval_s = s.variant AND k.open_at <@ c.span) n
     WHERE s.kind = 'candles' AND n.rows <> c.row_count`,
  );
}
