import type { Span } from '../../kernel/span.js';
import type { Runner } from '../database.js';
import { fromMs, toMs } from '../instants.js';

/** Looks into indexes for each slot, however many trades are in it. */
const TRADED_SLOTS = `
  SELECT ${toMs('slot.at')} AS at
  FROM unnest($2::float8[], $3::float8[]) AS asked(from_ms, to_ms), LATERAL (
    SELECT ${fromMs('asked.from_ms')} + n * make_interval(secs => $4::float8) AS at
    FROM generate_series(0, ceil((asked.to_ms - asked.from_ms) / ($4::float8 * 1000))::int - 1) AS n)
      begin,
    LATERAL (SELECT begin.at, begin.at + make_interval(secs => $4::float8) AS to_at) slot
  WHERE EXISTS (
      SELECT FROM trade t
      WHERE t.market_id = $1 AND t.traded_at >= slot.at AND t.traded_at < slot.to_at)
    AND EXISTS (
      SELECT FROM stream s JOIN coverage c USING (market_id, stream_id)
      WHERE s.market_id = $1 AND s.kind = 'trades'
        AND c.span @> tstzrange(slot.at, slot.to_at))
  ORDER BY 1`;

/**
 * Slots of a grid in which a trade is stored, of those whose trades are all proven to be: where history
 * begins an exchange may have trades of a slot, and no candle. Of trades that have left the database
 * nothing is known.
 *
 * @param spans whole slots
 * @returns where these slots begin, milliseconds
 */
export async function readTradedSlots(
  runner: Runner,
  marketId: number,
  spans: readonly Span[],
  stepMs: number,
): Promise<number[]> {
  const values = [
    marketId,
    spans.map((span) => span.fromMs),
    spans.map((span) => span.toMs),
    stepMs / 1000,
  ];
  const rows = await runner.rows<{ at: number }>(TRADED_SLOTS, values);
  return rows.map(({ at }) => at);
}
