import type { Span } from '../../kernel/span.js';
import type { StreamRef } from '../../ledger/batch.js';

/** A span of one stream that is to be filled. */
export interface FillTask {
  readonly market: string;
  readonly stream: StreamRef;
  readonly span: Span;
}

/** How far all tasks together have come. Time is counted once for each stream. */
export interface FillTotals {
  readonly lengthMs: number;
  readonly coveredMs: number;
  readonly unfillableMs: number;
  readonly waitingMs: number;
  /** Trades and candles under coverage of the streams at work, whenever they came. */
  readonly rows: number;
}

/** The part that is covered, 0 to 1. */
export function shareOf({ coveredMs, lengthMs }: FillTotals): number {
  return lengthMs === 0 ? 1 : coveredMs / lengthMs;
}
