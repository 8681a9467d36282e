import type { Candle } from '../contract/resources.js';
import type { RejectedRow } from '../contract/shape.js';
import type { Span } from '../kernel/span.js';
import type { KlineRow } from '../ledger/batch.js';
import type { CandleGrid } from './candle-grid.js';

/** What was asked for, as far as it tells which candles of the answer belong to it. */
export interface CandleQuestion {
  readonly market: string;
  readonly grid: CandleGrid;
  readonly asked: Span;
  /** Candles that open from here on are not final yet. */
  readonly closedToMs: number;
}

/** Closed candles on the grid; those off it or out of the asked span are strays, to be refused. */
export function sortCandles(
  candles: readonly Candle[],
  { market, grid, asked, closedToMs }: CandleQuestion,
  receivedAtMs: number,
) {
  const rows: Array<Omit<KlineRow, 'marketId' | 'intervalS'>> = [];
  const strays: RejectedRow[] = [];
  let open = 0;
  for (const [at, candle] of candles.entries()) {
    const openMs = candle.time * 1000;
    if (!grid.holds(openMs) || openMs < asked.fromMs || openMs >= asked.toMs) {
      strays.push({ at, reason: 'time: not an open time that was asked for', payload: candle });
    } else if (candle.market !== market) {
      strays.push({ at, reason: 'market: not the one that was asked for', payload: candle });
    } else if (openMs >= closedToMs) {
      open += 1;
    } else {
      const { open: opened, close, highest, lowest, volume, amount } = candle;
      rows.push({
        openAtS: candle.time,
        open: opened,
        close,
        high: highest,
        low: lowest,
        volume,
        amount,
        receivedAtMs,
      });
    }
  }
  return { rows, strays, open };
}

/** The open time of a refused candle, milliseconds; undefined when even that is unreadable. */
export function slotOf(payload: unknown): number | undefined {
  const time: unknown = (payload as { time?: unknown } | null)?.time;
  return typeof time === 'number' && Number.isSafeInteger(time) ? time * 1000 : undefined;
}
