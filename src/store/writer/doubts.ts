import { SECOND_MS } from '../../kernel/durations.js';
import type { Span } from '../../kernel/span.js';
import type { StreamKind } from '../../model/series.js';
import type { Connection } from '../connection.js';
import { fromMs } from '../instants.js';
import type { FreshRows } from './fresh-rows.js';

/**
 * Marks what changes after it may have been judged. A mark commits with the change itself, so that
 * no verdict outlives the rows that it speaks of; whoever verifies takes the marks away.
 */

/** A piece of coverage as a transaction leaves it. */
interface Touched {
  readonly span: Span;
  /** The parts of it that nobody had covered before. */
  readonly uncovered: readonly Span[];
  readonly work: {
    readonly kind: StreamKind;
    readonly marketId: number;
    /** The rows that this transaction added. */
    readonly fresh: FreshRows;
  };
}

const DOUBT_TRADES = `
  INSERT INTO verdict_doubt (market_id, interval_s, span)
  SELECT market_id, 0, tstzrange(${fromMs('from_ms')}, ${fromMs('to_ms')})
  FROM unnest($1::int[], $2::float8[], $3::float8[]) AS q(market_id, from_ms, to_ms)`;

/** The candle after it may open with its close. */
const DOUBT_CANDLES = `
  INSERT INTO verdict_doubt (market_id, interval_s, span)
  SELECT s.market_id, s.interval_s,
         tstzrange(s.open_at, s.open_at + 2 * s.interval_s * interval '1 second')
  FROM stage_kline s WHERE s.ord = ANY ($1::int[])`;

/** Trades that came into a span which was covered before them. */
export async function doubtLateTrades(
  connection: Connection,
  merged: readonly Touched[],
): Promise<void> {
  const late = merged.flatMap(({ work, span, uncovered }) => {
    if (work.kind !== 'trades') return [];
    const hull = work.fresh.hullIn(span, uncovered);
    if (hull === undefined) return [];
    // A trade's moment is a whole second; its span is that second.
    return [{ marketId: work.marketId, fromMs: hull.fromMs, toMs: hull.toMs + SECOND_MS }];
  });
  if (late.length === 0) return;
  await connection.query(DOUBT_TRADES, [
    late.map(({ marketId }) => marketId),
    late.map(({ fromMs }) => fromMs),
    late.map(({ toMs }) => toMs),
  ]);
}

/** Candles that took the place of another version; their rows are staged at these positions. */
export async function doubtRevisedCandles(
  connection: Connection,
  positions: readonly number[],
): Promise<void> {
  await connection.query(DOUBT_CANDLES, [positions]);
}
