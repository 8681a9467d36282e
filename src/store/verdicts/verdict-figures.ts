import { holdsSpan, normalizeSpans, type Span } from '../../kernel/span.js';
import type { StreamRef } from '../../model/batch.js';
import type { CandleFigures, SlotFigures, TradeFigures } from '../../model/verdict.js';
import type { Runner } from '../connection.js';
import type { Database } from '../database.js';
import { removedSql } from '../sealing/departed.js';
import { boundsSql, fromMs } from '../sql.js';

/**
 * Inputs of checks. Bounds of time are constants of each statement, so that only the
 * partitions concerned are read, and within them only the market's part of the key.
 */

/** A market whose trades can be held against its candles. */
export interface CheckTarget {
  readonly marketId: number;
  readonly market: string;
  /** The streams of trades and of their exact times, as far as there are any. */
  readonly trades: StreamRef | null;
  readonly times: StreamRef | null;
  /** Streams of candles, the shortest interval first. */
  readonly klines: readonly StreamRef[];
}

/** Most slots that are read at once. */
export const FIGURE_SLOTS_MAX = 1000;

const TRADE_SUMS = `
  WITH sums AS (
    SELECT floor(extract(epoch FROM (traded_at - $2::timestamptz)) / $4)::int AS slot,
           count(*)::float8 AS count, sum(amount)::text AS amount, sum(total)::text AS total,
           max(price)::text AS high, min(price)::text AS low,
           min(traded_at) AS first_at, max(traded_at) AS last_at
    FROM trade WHERE market_id = $1 AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
    GROUP BY 1)
  SELECT slot, count, amount, total, high, low, first.price::text AS first, last.price::text AS last
  FROM sums, LATERAL (
    SELECT price FROM trade WHERE market_id = $1 AND traded_at = first_at
      AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
    ORDER BY tid LIMIT 1) first, LATERAL (
    SELECT price FROM trade WHERE market_id = $1 AND traded_at = last_at
      AND traded_at >= $2::timestamptz AND traded_at < $3::timestamptz
    ORDER BY tid DESC LIMIT 1) last`;

const CANDLES = `
  SELECT floor(extract(epoch FROM (open_at - $2::timestamptz)) / $4)::int AS slot,
         open::text, close::text, high::text, low::text, volume::text, amount::text
  FROM kline WHERE market_id = $1 AND interval_s = $4
    AND open_at >= $2::timestamptz AND open_at < $3::timestamptz`;

/** What is covered and can be read here. */
const COVERED = `
  SELECT c.stream_id, ${boundsSql('part')}
  FROM coverage c JOIN stream s USING (stream_id), unnest(tstzmultirange(c.span) - CASE s.kind
      WHEN 'kline' THEN ${removedSql('kline')} ELSE ${removedSql('trade')} END) AS part
  WHERE c.market_id = $1 AND c.stream_id = ANY ($2::int[])
    AND c.span && tstzrange(${fromMs('$3')} - interval '1 microsecond', ${fromMs('$4')})`;

/** The last traded candle before an instant, if everything in between is known. */
const PREVIOUS_CLOSE = `
  SELECT close::text FROM kline
  WHERE market_id = $1 AND interval_s = $4 AND volume > 0
    AND open_at >= $2::timestamptz AND open_at < $3::timestamptz
  ORDER BY open_at DESC LIMIT 1`;

type TradeSums = TradeFigures & { readonly slot: number };
type Candles = CandleFigures & { readonly slot: number };

const iso = (ms: number) => new Date(ms).toISOString();

/**
 * What the archive holds about the slots of a span, oldest first: in one snapshot, so that rows and the
 * coverage that speaks of them agree.
 *
 * @param span lies on the grid, at most {@link FIGURE_SLOTS_MAX} slots
 */
export async function readFigures(
  database: Database,
  target: CheckTarget,
  kline: StreamRef,
  span: Span,
): Promise<SlotFigures[]> {
  const stepMs = kline.variant * 1000;
  const count = (span.toMs - span.fromMs) / stepMs;
  if (count > FIGURE_SLOTS_MAX || span.fromMs % stepMs !== 0 || span.toMs % stepMs !== 0) {
    throw new RangeError(`not up to ${FIGURE_SLOTS_MAX} whole slots: ${JSON.stringify(span)}`);
  }
  return await database.transaction(async (runner) => {
    const bounds = [target.marketId, iso(span.fromMs), iso(span.toMs), kline.variant];
    const streamIds = [kline.streamId, ...(target.trades === null ? [] : [target.trades.streamId])];
    const covered = await runner.rows<Span & { readonly stream_id: number }>(COVERED, [
      target.marketId,
      streamIds,
      span.fromMs,
      span.toMs,
    ]);
    const of = (stream: StreamRef | null) =>
      normalizeSpans(covered.filter(({ stream_id }) => stream_id === stream?.streamId));
    const [tradesCovered, candlesCovered] = [of(target.trades), of(kline)];
    const trades = new Map(
      (await runner.rows<TradeSums>(TRADE_SUMS, bounds)).map((row) => [row.slot, row]),
    );
    const candles = new Map(
      (await runner.rows<Candles>(CANDLES, bounds)).map((row) => [row.slot, row]),
    );
    let previousClose = await closeBefore(runner, target, kline, span.fromMs, candlesCovered);
    return Array.from({ length: count }, (_, slot) => {
      const fromMs = span.fromMs + slot * stepMs;
      const one = { fromMs, toMs: fromMs + stepMs };
      const candle = withoutSlot(candles.get(slot));
      const figures: SlotFigures = {
        span: one,
        trades: withoutSlot(trades.get(slot)),
        candle,
        previousClose,
        hasTrades: tradesCovered.some((part) => holdsSpan(part, one)),
        hasCandle: candlesCovered.some((part) => holdsSpan(part, one)),
      };
      if (!figures.hasCandle) previousClose = null;
      else if (candle !== null && /[1-9]/.test(candle.volume)) previousClose = candle.close;
      return figures;
    });
  }, 'ISOLATION LEVEL REPEATABLE READ READ ONLY');
}

function withoutSlot<Figures extends { readonly slot: number }>(
  row: Figures | undefined,
): Omit<Figures, 'slot'> | null {
  if (row === undefined) return null;
  const { slot: _, ...figures } = row;
  return figures;
}

async function closeBefore(
  runner: Runner,
  { marketId }: CheckTarget,
  { variant }: StreamRef,
  fromMs: number,
  covered: readonly Span[],
): Promise<string | null> {
  const around = covered.find((part) => part.fromMs < fromMs && fromMs <= part.toMs);
  if (around === undefined) return null;
  const oldestMs = Math.max(around.fromMs, fromMs - FIGURE_SLOTS_MAX * variant * 1000);
  const values = [marketId, iso(oldestMs), iso(fromMs), variant];
  const [row] = await runner.rows<{ close: string }>(PREVIOUS_CLOSE, values);
  return row?.close ?? null;
}
