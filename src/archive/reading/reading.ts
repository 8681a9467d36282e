import type { Span } from '../../kernel/span.js';
import type { MergedKind } from '../../model/kinds.js';
import type { ArchiveSnapshot, RowForm, SeriesSlice, SpanCompleteness } from '../../store/index.js';
import type { ColdFile } from '../cold/manifest.js';

/** What {@link openReading} needs beside the store. */
export interface ReadingOptions {
  /** The folder of cold partitions (`coldFolder(dataDir, cold.dir)`). It need not exist. */
  readonly coldDir: string;
  /** Ends whatever is being read. */
  readonly signal?: AbortSignal;
}

/** Where the rows of a piece of time are: in the database, in files, or nowhere any more. */
export type PartState = 'hot' | 'cold' | 'expired';

/** A piece of time of which all rows are in one place. */
export interface ReadingPart {
  readonly span: Span;
  readonly state: PartState;
}

/** A cold file with where it lies on this machine. */
export interface PlacedFile extends ColdFile {
  readonly absolutePath: string;
  /** The part of the day that was asked for and that its partition holds. */
  readonly span: Span;
}

/**
 * The archive as it is at one moment, rows in the database and rows in files as one: no row twice,
 * none lost where one ends and the other begins.
 *
 * What is promised of a row: its values. The text of a decimal is that of the database as long as
 * the row is there; of a cold row it is the shortest text of the same number (`1.5` for `1.50`),
 * because files keep numbers and not their texts. All else is the same to the letter.
 *
 * It holds a connection and keeps partitions from leaving the database: close it within minutes, and
 * open another to see what came since. Reads run one at a time; one that is left before its end may
 * end the whole reading.
 */
export interface Reading {
  /** The database's side of it: {@link ReadingPart} `hot` can be read there by other means. */
  readonly snapshot: ArchiveSnapshot;

  /** Where the rows of a span are, oldest first, without holes and overlaps. */
  parts(kind: MergedKind, span: Span): readonly ReadingPart[];

  /**
   * Rows as text in the order of time and id, in the forms of {@link ArchiveSnapshot.rows}, in
   * pieces that may end anywhere. Memory does not grow with their number, and the reader's pace is
   * that of the reading. Of expired parts there are none: {@link parts} and {@link completeness}
   * tell.
   *
   * @throws ColdError naming a file that is missing or not what was written; StoreError; ParquetError;
   * the signal's reason
   */
  rows(slice: SeriesSlice, form: RowForm): AsyncIterable<Buffer>;

  /**
   * The newest rows of a slice, newest first, at most `limit` of them. Takes no longer the older or
   * larger the archive is. Otherwise as {@link rows}.
   */
  newest(slice: SeriesSlice, form: RowForm, limit: number): AsyncIterable<Buffer>;

  /**
   * The cold files that may hold rows of a span, by day and then by market id, each checked against
   * its manifest: size now, and content once.
   *
   * @param marketIds all when left out
   * @throws ColdError
   */
  coldFiles(
    kind: MergedKind,
    span: Span,
    marketIds?: readonly number[],
  ): Promise<readonly PlacedFile[]>;

  /** What the ledger says of a span of a stream; lists are cut at `limit`. @throws StoreError */
  completeness(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness>;

  /** Safe to call twice. */
  close(): Promise<void>;
}
