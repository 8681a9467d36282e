import { DAY_MS, HOUR_MS } from '../kernel/durations.js';
import { doOverlap, type Span } from '../kernel/span.js';
import type { SeriesKind } from '../model/kinds.js';
import { SERIES } from '../model/series.js';
import type { JournalEntry } from '../store/index.js';
import type { Block, BlockSeries } from './blocks.js';

/** Choice of the blocks that are kept, and of the time that each holds, so that a budget of bytes is enough. */

/** Rows of a day above which it is held by the hour. Candles are held by the month. */
const ROWS_OF_DAY_MAX: Partial<Readonly<Record<SeriesKind, number>>> = {
  ...{ trades: 50_000, states: 50_000, candles: Infinity, depth: 200 },
};
const ROWS_OF_DAY_USUAL = 3000;
/** Part of the budget that one block may have. */
const BLOCK_PART = 1 / 8;
/** Slices are not shorter; a whole number of seconds, in which trades become visible. */
const SLICE_MIN_MS = HOUR_MS / 16;
/** Rows of the busiest hour, in those of an average one. */
const BURST = 3;
/** Memory of a row, before any of its kind was read. */
const ROW_BYTES: Partial<Readonly<Record<SeriesKind, number>>> = { trades: 90, depth: 6000 };
const ROW_BYTES_USUAL = 300;

/** A slice evicted so soon after its use is wanted again soon. */
const SOON_MS = 10_000;

interface Kept {
  readonly series: BlockSeries;
  readonly block: Block;
  usedAtMs: number;
}

const keyOf = ({ kind, marketId, variantS }: BlockSeries, { fromMs, toMs }: Span) =>
  `${kind} ${marketId} ${variantS} ${fromMs} ${toMs}`;

/** Blocks within a budget of bytes; the one that was used longest ago goes first. */
export class BlockCache {
  readonly #budget: number;
  readonly #kept = new Map<string, Kept>();
  #bytes = 0;
  #isCrowded = false;

  constructor(budgetBytes: number) {
    this.#budget = budgetBytes;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Returns true once blocks had to go that were still in use. */
  get isCrowded(): boolean {
    return this.#isCrowded;
  }

  /** Length of the slices of a day of a series. Divides the day. */
  sliceMs(kind: SeriesKind, rowsOfDay: number): number {
    const isDay = rowsOfDay <= (ROWS_OF_DAY_MAX[kind] ?? ROWS_OF_DAY_USUAL) && !this.#isCrowded;
    const bytes = rowsOfDay * (ROW_BYTES[kind] ?? ROW_BYTES_USUAL);
    if (isDay && bytes <= this.#budget * BLOCK_PART) return DAY_MS;
    let widthMs = HOUR_MS;
    while (
      widthMs > SLICE_MIN_MS &&
      (bytes * BURST * widthMs) / DAY_MS > this.#budget * BLOCK_PART
    ) {
      widthMs /= 2;
    }
    return widthMs;
  }

  get(series: BlockSeries, span: Span, nowMs: number): Block | undefined {
    const key = keyOf(series, span);
    const kept = this.#kept.get(key);
    if (kept === undefined) return undefined;
    kept.usedAtMs = nowMs;
    this.#kept.delete(key);
    this.#kept.set(key, kept);
    return kept.block;
  }

  has(series: BlockSeries, span: Span): boolean {
    return this.#kept.has(keyOf(series, span));
  }

  /** Returns true if a block of such a day fits without one that was used a moment ago. */
  hasRoom(kind: SeriesKind, rowsOfDay: number, nowMs: number): boolean {
    const bytes =
      (rowsOfDay * (ROW_BYTES[kind] ?? ROW_BYTES_USUAL) * this.sliceMs(kind, rowsOfDay)) / DAY_MS;
    let left = this.#bytes + bytes - this.#budget;
    for (const { block, usedAtMs } of this.#kept.values()) {
      if (left <= 0) return true;
      if (nowMs - usedAtMs < SOON_MS) return false;
      left -= block.bytes;
    }
    return left <= 0;
  }

  /** @returns true when for the first time one had to go that was used a moment ago */
  add(series: BlockSeries, block: Block, nowMs: number): boolean {
    const wasCrowded = this.#isCrowded;
    for (const [key, { usedAtMs }] of this.#kept) {
      if (this.#bytes + block.bytes <= this.#budget) break;
      if (nowMs - usedAtMs < SOON_MS) this.#isCrowded = true;
      this.#remove(key);
    }
    this.#remove(keyOf(series, block.span));
    this.#kept.set(keyOf(series, block.span), { series, block, usedAtMs: nowMs });
    this.#bytes += block.bytes;
    return this.#isCrowded && !wasCrowded;
  }

  /** Drops what a change may have touched. */
  drop(change: BlockChange): void {
    for (const [key, { series, block }] of this.#kept) {
      if (isTouched(series, block.span, change)) this.#remove(key);
    }
  }

  #remove(key: string): void {
    this.#bytes -= this.#kept.get(key)?.block.bytes ?? 0;
    this.#kept.delete(key);
  }
}

/** An entry of the journal. */
export type BlockChange = Omit<JournalEntry, 'number' | 'received'>;

/** Returns true if a change is one of rows of a series within a span. */
export function isTouched(of: BlockSeries, within: Span, change: BlockChange): boolean {
  const { series, marketId, variant, span } = change;
  return (
    (series === null || SERIES[series].kind === of.kind) &&
    (marketId === null || marketId === of.marketId) &&
    (variant === null || variant === of.variantS) &&
    doOverlap(span, within)
  );
}
