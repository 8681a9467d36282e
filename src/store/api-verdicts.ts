import type { Span } from '../kernel/span.js';
import type { StreamRef } from '../ledger/batch.js';
import type { SlotFigures, SlotVerdict, VerdictRow } from '../ledger/verdict.js';

/** A market whose trades can be held against its candles. */
export interface VerdictTarget {
  readonly marketId: number;
  readonly market: string;
  /** The streams of trades and of their exact times, as far as there are any. */
  readonly trades: StreamRef | null;
  readonly times: StreamRef | null;
  /** Streams of candles, the shortest interval first. */
  readonly klines: readonly StreamRef[];
}

/** A span of whole slots that both roads cover and nobody has judged. */
export interface PendingSpan {
  readonly marketId: number;
  readonly intervalS: number;
  readonly span: Span;
}

/** A recorded mismatch. */
export interface Mismatch extends VerdictRow {
  readonly marketId: number;
  readonly market: string;
  readonly intervalS: number;
}

/** What is known of one market and interval. */
export interface VerdictTotals {
  readonly marketId: number;
  readonly market: string;
  readonly intervalS: number;
  /** Time whose candles agree with the trades. */
  readonly matchMs: number;
  readonly mismatches: number;
  /** End of the newest verdict; null while there is none. */
  readonly judgedUntilMs: number | null;
  /** End of what both roads cover; null while that is nothing. */
  readonly coveredUntilMs: number | null;
}

/** Most slots that are read at once. */
export const FIGURE_SLOTS_MAX = 1000;

/** Verdicts of trades against candles, and what they are judged by. */
export interface VerdictStore {
  /** All markets that trades or candles are collected of, by name. */
  targets(): Promise<VerdictTarget[]>;
  /**
   * What the archive holds about the slots of a span, oldest first, all in one snapshot.
   *
   * @param span lies on the grid, at most {@link FIGURE_SLOTS_MAX} slots
   */
  figures(target: VerdictTarget, kline: StreamRef, span: Span): Promise<SlotFigures[]>;
  /**
   * What is expected of both roads, oldest first: from where both are to be collected (or happen to
   * be covered) up to where both are covered, but for partitions that have left the database. Empty
   * while that is nothing.
   */
  expected(target: VerdictTarget, kline: StreamRef): Promise<Span[]>;
  /** For each market and interval its newest span without a verdict, newest first. */
  pending(limit: number): Promise<PendingSpan[]>;
  /** Records verdicts; a later one of the same slot replaces the earlier. */
  record(marketId: number, intervalS: number, rows: readonly VerdictRow[]): Promise<void>;
  /**
   * Records what somebody found who does not work through everything: mismatches, and what does not
   * hold any more. The continuous verification goes on from there.
   */
  report(
    marketId: number,
    intervalS: number,
    verdicts: readonly SlotVerdict[],
    nowMs: number,
  ): Promise<void>;
  /** Takes back verdicts of what changed since. Returns how many changes there were. */
  applyDoubts(nowMs: number, limit: number): Promise<number>;
  /** Mismatches whose next try has come, newest first. */
  dueMismatches(nowMs: number, limit: number): Promise<Mismatch[]>;
  /** Recorded mismatches, newest first. */
  mismatches(
    filter: { readonly marketId?: number; readonly span?: Span },
    limit: number,
  ): Promise<Mismatch[]>;
  totals(): Promise<VerdictTotals[]>;
  /** Ids of the stored trades of a span, in order. */
  tradeIds(marketId: number, span: Span, limit: number): Promise<number[]>;
}
