/** What one source of events tells: a kind, of markets in the order of their names. */
export interface EventSlice {
  readonly kind: MergedKind;
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly markets: readonly { readonly market: string; readonly marketId: number }[];
  /** The span of events, UNIX microseconds, half-open. */
  readonly fromUs: number;
  readonly toUs: number;
}

/** How much later than the time of its row an event is: candles are known when they close. */
export function shiftUs({ kind, variantS }: Pick<EventSlice, 'kind' | 'variantS'>): number {
  return kind === 'klines' || kind === 'kline_revisions' ? variantS * SECOND_US : 0;
}

/**
 * The span of the rows' own time in which all events of a slice are. It may hold some more: trades have
 * whole seconds there.
 */
export function rowSpanOf(slice: EventSlice): { readonly fromUs: number; readonly toUs: number } {
  const shift = shiftUs(slice);
  const fromUs = slice.fromUs - shift;
  const isWhole = slice.kind === 'trades';
  return {
    fromUs: isWhole ? Math.floor(fromUs / SECOND_US) * SECOND_US : fromUs,
    toUs: slice.toUs - shift,
  };
}

import { SECOND_US } from '../../kernel/durations.js';
import type { MergedKind } from '../../model/kinds.js';
