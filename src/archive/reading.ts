import { AbortedError } from '../kernel/errors.js';
import type { Span } from '../kernel/span.js';
import type { Piece } from '../model/explain.js';
import type { MergedKind, RowOfKind } from '../model/kinds.js';
import type {
  ArchiveSnapshot,
  MergedSlice,
  RowForm,
  SeriesSlice,
  Store,
  StreamChoice,
  StreamPiece,
  StreamPlace,
} from '../store/index.js';
import type { ColdHold, ColdStorage } from './cold/storage.js';
import { ColdEngine, coldCounts, linesOf } from './cold-rows.js';
import { ColdError } from './errors.js';
import type { Batches } from './merge.js';
import { type RowMaker, rowMaker } from './row-blocks.js';
import { newestRows, type RowPlace, readRows } from './rows.js';
import {
  ColdReader,
  findSegments,
  joinSegments,
  type PlacedFile,
  type PlacedSegment,
  type Segment,
} from './segments.js';

/** Options of {@link openReading} beside the store. */
export interface ReadingOptions {
  readonly cold: ColdStorage;
  /** Ends whatever is being read. */
  readonly signal?: AbortSignal;
}

/** Markets whose rows are read together. */
interface MarketsOf {
  readonly marketIds: readonly number[];
}

/** Rows of one market, by the name of their series. */
export type SliceOf<Kind extends MergedKind> = SeriesSlice & { readonly kind: Kind };

/**
 * Opens the archive as it is now, for reading hot and cold rows as one.
 *
 * @throws StoreError
 */
export async function openReading(
  store: Pick<Store, 'snapshot'>,
  options: ReadingOptions,
): Promise<ArchiveReader> {
  options.signal?.throwIfAborted();
  return new ArchiveReader(await store.snapshot(), options);
}

/**
 * The archive as it is at one instant, rows in the database and rows in files as one: no row twice,
 * none lost where one ends and the other begins.
 *
 * What is promised of a row: its values. The text of a decimal is that of the database as long as
 * the row is there; of a cold row it is the shortest text of the same number (`1.5` for `1.50`),
 * because files keep numbers and not their texts. All else is the same to the letter.
 *
 * It holds a connection and keeps partitions from leaving the database: close it within minutes, and
 * open another to see what came since. Reads run one at a time; one that is left before its end may
 * end the whole reading.
 *
 * States: *open* → *closed*.
 */
export class ArchiveReader {
  /** The database's side of it: hot {@link Segment}s can be read there by other means. */
  readonly snapshot: ArchiveSnapshot;
  readonly #signal: AbortSignal | undefined;
  readonly #place: RowPlace;
  /** Files that were handed out: they stay here until the end. */
  readonly #held: ColdHold;
  #isClosed = false;

  /** Use {@link openReading}. */
  constructor(snapshot: ArchiveSnapshot, { cold, signal }: ReadingOptions) {
    this.snapshot = snapshot;
    this.#signal = signal;
    const reader = new ColdReader(cold, signal);
    this.#held = reader.hold();
    this.#place = { snapshot, cold: reader, engine: new ColdEngine(false, signal), signal };
  }

  /** Places of the rows of a span, oldest first, without gaps and overlaps. */
  segments(kind: MergedKind, span: Span): readonly Segment[] {
    return joinSegments(this.#find(kind, span));
  }

  /**
   * Rows as text in the order of time and id, in the forms of {@link ArchiveSnapshot.rows}, in
   * pieces that may end anywhere. Memory does not grow with their number, and the reader's pace is
   * that of the reading. Of expired parts there are none: {@link segments} and {@link pieces}
   * say so.
   *
   * @throws ColdError naming a file that is missing or not what was written; StoreError; ParquetError;
   * the signal's reason
   */
  async *rows(slice: SeriesSlice, form: RowForm): AsyncGenerator<Buffer> {
    this.#check();
    for (const segment of this.#find(slice.kind, slice.span)) {
      const { span } = segment;
      if (segment.state === 'hot') {
        yield* this.snapshot.rows({ ...slice, span }, form, this.#signal);
        continue;
      }
      const { cold, engine } = this.#place;
      using held = cold.hold();
      for (const file of await cold.filesOf(held, segment, span, [slice.marketId])) {
        const part = { ...mergedSlice({ ...slice, span: file.span }), stored: slice.stored };
        const lines = linesOf(await engine.session(), file.absolutePath, part, form);
        for await (const some of lines) yield Buffer.from(some);
      }
    }
  }

  /** Reads the rows as values, some at a time. */
  async *typed<Kind extends MergedKind>(slice: SliceOf<Kind>): Batches<RowOfKind<Kind>> {
    this.#check();
    const { kind, marketId, variantS } = slice;
    const maker = rowMaker(kind, [marketId], variantS);
    yield* readRows(this.#place, mergedSlice(slice), this.#find(kind, slice.span), maker);
  }

  /** Reads other values than rows, of several markets, in the order of their time. */
  async *made<Row>(
    { kind, marketIds, variantS, span }: Omit<SeriesSlice, 'marketId'> & MarketsOf,
    maker: RowMaker<Row>,
  ): Batches<Row> {
    this.#check();
    const slice = { ...mergedSlice({ kind, marketId: 0, variantS, span }), marketIds };
    yield* readRows(this.#place, slice, this.#find(kind, span), maker, true);
  }

  /** Counts the rows of each piece of so many milliseconds; by its start. */
  async countEach(slice: SeriesSlice, widthMs: number): Promise<ReadonlyMap<number, number>> {
    this.#check();
    const counts = new Map<number, number>();
    const add = (rows: readonly (readonly [fromMs: number, rows: number])[]) => {
      for (const [fromMs, count] of rows) counts.set(fromMs, (counts.get(fromMs) ?? 0) + count);
    };
    for (const segment of this.#find(slice.kind, slice.span)) {
      const part = { ...slice, span: segment.span };
      if (segment.state === 'hot') add(await this.snapshot.countEach(part, widthMs));
      if (segment.state === 'cold') add(await coldCounts(this.#place, part, segment, widthMs));
    }
    return counts;
  }

  /**
   * Reads the newest rows of a slice as other values, newest first, at most `limit`. Takes no longer the older or
   * larger the archive is. Otherwise as {@link typed}.
   */
  async *newestAs<Row>(slice: SeriesSlice, limit: number, maker: RowMaker<Row>): Batches<Row> {
    this.#check();
    const segments = this.#find(slice.kind, slice.span);
    yield* newestRows(this.#place, mergedSlice(slice), segments, limit, maker);
  }

  /**
   * The cold files that may hold rows of a span, by day and then by market id, each checked against
   * its manifest: size now, and content once.
   *
   * @param marketIds all when left out
   * @throws ColdError
   */
  async coldFiles(
    kind: MergedKind,
    span: Span,
    marketIds?: readonly number[],
  ): Promise<readonly PlacedFile[]> {
    return await this.#place.cold.filesOfAll(this.#held, this.#find(kind, span), marketIds);
  }

  /**
   * Finds the rows of a span for a large scan: files as {@link coldFiles} gives them, also those of partitions
   * that are in the database as well, and the spans of what only the database has. Files of the first kind
   * may be on another machine: then the database is read.
   *
   * @throws ColdError
   */
  async scan(
    kind: MergedKind,
    span: Span,
    marketIds: readonly number[] | undefined,
  ): Promise<{ readonly files: readonly PlacedFile[]; readonly hot: readonly Span[] }> {
    this.#check();
    const files: PlacedFile[] = [];
    const segments: Segment[] = [];
    const placed = findSegments(kind, span, this.snapshot.placed);
    for (const [at, one] of placed.entries()) {
      this.#place.cold.expect(placed, at, marketIds);
      const found = await this.#place.cold
        .filesOf(this.#held, one, one.span, marketIds)
        .catch((error: unknown) => {
          if (error instanceof ColdError && one.partition?.state === 'sealed') return undefined;
          throw error;
        });
      files.push(...(found ?? []));
      segments.push({ span: one.span, state: found === undefined ? 'hot' : one.state });
    }
    const hot = joinSegments(segments).filter(({ state }) => state === 'hot');
    return { files, hot: hot.map((one) => one.span) };
  }

  /** Returns the pieces of a span of a stream, covered or missing. @throws StoreError */
  async pieces(stream: StreamPlace, span: Span): Promise<Piece[]> {
    this.#check();
    return await this.snapshot.pieces(stream, span);
  }

  /** Reads what is expected of streams, as {@link ArchiveSnapshot.streamPieces} does. @throws StoreError */
  async streamPieces(choice: StreamChoice, span: Span, nowMs: number): Promise<StreamPiece[]> {
    this.#check();
    return await this.snapshot.streamPieces(choice, span, nowMs);
  }

  /** Safe to call twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.snapshot.close();
    await this.#place.engine.close();
    this.#held[Symbol.dispose]();
  }

  #find(kind: MergedKind, span: Span): PlacedSegment[] {
    return findSegments(kind, span, this.snapshot.removed);
  }

  #check(): void {
    this.#signal?.throwIfAborted();
    if (this.#isClosed) throw new AbortedError('the reading is closed');
  }
}

/** A slice of one market as a slice of several, in the order of time. */
function mergedSlice({ kind, marketId, variantS, span }: SeriesSlice): MergedSlice {
  return {
    ...{ kind, marketIds: [marketId], variantS, isByReceipt: false },
    ...{ fromUs: Math.floor(span.fromMs) * 1000, toUs: Math.floor(span.toMs) * 1000 },
  };
}
