import type { Span } from '../kernel/span.js';
import type { MergedKind, SeriesKind } from '../model/kinds.js';
import type { Gap } from './api-completeness.js';

/** Rows of one market: those of which the moment lies in the span. */
export interface SeriesSlice {
  readonly kind: MergedKind;
  readonly marketId: number;
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  readonly span: Span;
}

/**
 * How rows are written, one a line that ends with `\n`; none holds another line break.
 *
 * - `csv`: the columns of {@link SeriesColumn} in their order with commas between, nothing for null.
 *   Lists of decimals are JSON arrays, in quotes where they hold commas. No header.
 * - `lean`: the same, but the total of a trade only where it is not price × amount.
 * - `json`: an object, with decimals as text so that no reader makes floats of them.
 */
export type RowForm = 'csv' | 'lean' | 'json';

/** A row of depth in the form `json`. */
export interface DepthJson {
  readonly observed_at: string;
  readonly bid_prices: readonly string[];
  readonly bid_amounts: readonly string[];
  readonly ask_prices: readonly string[];
  readonly ask_amounts: readonly string[];
  readonly received_at: string;
}

/** A missing part of a span, with what is remembered of it. */
export interface MissingPart extends Pick<Gap, 'span' | 'state' | 'reason' | 'note'> {}

/** What the ledger says of a span, whether or not all of it was expected. */
export interface SpanCompleteness {
  /** Oldest first, as many as were asked for. */
  readonly covered: readonly Span[];
  readonly coveredCount: number;
  /** Oldest first, as many as were asked for. */
  readonly missing: readonly MissingPart[];
  readonly missingCount: number;
  readonly missingMs: number;
}

/** A partition whose rows are no longer in the database. */
export interface DepartedPartition {
  readonly table: string;
  readonly span: Span;
  /** `archived`: in files; `expired`: gone for good. */
  readonly state: 'archived' | 'expired';
  /** Manifest of its files, relative to the folder of cold partitions; null without any. */
  readonly uri: string | null;
  /** What its manifest carries of itself; null where that is not known: of an earlier version. */
  readonly manifestSha256: string | null;
}

/** Rows of several markets: those of which the first column of their key lies in the span. */
export interface MergedSlice {
  readonly kind: MergedKind;
  /** At least one; rows tell the place in this list. */
  readonly marketIds: readonly number[];
  /** Interval of klines or period of states in seconds; 0 for the other kinds. */
  readonly variantS: number;
  /** UNIX microseconds, half-open. */
  readonly fromUs: number;
  readonly toUs: number;
  /** In the order in which they became known, instead of the order of their time. */
  readonly isByReceipt: boolean;
  /** Of one market, in the order of time: only so many, the newest ones, newest first. */
  readonly newest?: number;
}

/** Rows of some markets, or (null) of all, with all intervals or periods, in no order. */
export interface TableSlice {
  readonly kind: SeriesKind;
  readonly marketIds: readonly number[] | null;
  readonly span: Span;
}

/** Tables of the schema `analytics` that can be had whole. */
export type LedgerTable = 'markets' | 'coverage' | 'gaps';

/**
 * The archive as it is at one moment: rows and ledger agree, whatever is written meanwhile. It holds
 * a connection, and old row versions in the database; close it soon.
 */
export interface ArchiveSnapshot {
  /** What is not in the database, by table and time. No partition leaves while this is open. */
  readonly departed: readonly DepartedPartition[];
  /** The streams that cover a series; of tickers the one of all markets. */
  completeness(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness>;
  /**
   * Rows as text in the order of time and id, in pieces that may end anywhere. Memory does not grow
   * with their number; the reader's pace is the database's. One at a time; a reader that leaves
   * before the end ends the snapshot.
   *
   * @throws {@link StoreError}, and the signal's reason
   */
  rows(slice: SeriesSlice, form: RowForm, signal?: AbortSignal): AsyncIterable<Buffer>;
  /**
   * Rows of several markets as text, a line each, the fields with tabs between and `\\N` for null:
   * the market's place in the list, the time, and what the kind has (see `merged-rows.ts`). In the
   * order of time, rows of the same moment in any order; or in that of receipt, then by place and
   * key, which the database sorts before the first row comes. Otherwise as {@link rows}.
   */
  merged(slice: MergedSlice, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** Another connection that sees the same moment, for reading beside this one; to be closed too. */
  twin(): Promise<ArchiveSnapshot>;
  /** Rows in no order as CSV without heading, the market's name first. Otherwise as {@link rows}. */
  table(slice: TableSlice, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** A table of the ledger as CSV without heading. Otherwise as {@link rows}. */
  ledger(table: LedgerTable, signal?: AbortSignal): AsyncIterable<Buffer>;
  /** Safe to call twice. */
  close(): Promise<void>;
}
