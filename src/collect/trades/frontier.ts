import type { SourceTrade } from './source.js';

/** A hole below an edge of coverage: what the walk would fill next. */
export interface PendingGap {
  readonly edgeMs: number;
  /** Directly below the newest coverage: the walk has lost touch with the head. */
  readonly isTop: boolean;
}

/** The lowest trade of a contiguous chain below an edge of coverage. */
export interface Frontier {
  /** Where the coverage above begins. */
  readonly edgeMs: number;
  readonly tid: number;
  /** Start of that trade's second; below the edge when the second is only partly walked. */
  readonly secondMs: number;
  /** Estimated number of trades from the head down to this one. */
  readonly depth: number;
}

/** A claim of nothing: rows are stored, no span is called covered. */
export const NOTHING = { fromMs: 0, toMs: 0 };

/** The frontier that a page leaves behind when its claim begins at `edgeMs`. */
export function chainEnd(edgeMs: number, oldest: SourceTrade, depth: number): Frontier {
  return { edgeMs, tid: oldest.tid, secondMs: oldest.tradedAtS * 1000, depth };
}
