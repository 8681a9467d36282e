import { AbortedError } from '../../kernel/errors.js';
import type { Span } from '../../kernel/span.js';
import { type MergedKind, tableOfKind } from '../../model/kinds.js';
import type {
  ArchiveSnapshot,
  DepartedPartition,
  RowForm,
  SeriesSlice,
  SpanCompleteness,
} from '../../store/index.js';
import { countLines } from '../parquet/texts.js';
import { ColdFolder } from './cold-files.js';
import { ColdRows } from './cold-rows.js';
import { cutIntoParts, joinParts, type LocatedPart } from './parts.js';
import type { PlacedFile, Reading, ReadingOptions, ReadingPart } from './reading.js';

/**
 * One snapshot of the database and the files of the partitions that have left it by then.
 *
 * States: *open* → *closed*.
 */
export class ArchiveReading implements Reading {
  readonly snapshot: ArchiveSnapshot;
  readonly #folder: ColdFolder;
  readonly #cold: ColdRows;
  readonly #signal: AbortSignal | undefined;
  readonly #departed = new Map<string, DepartedPartition[]>();
  #isClosed = false;

  constructor(snapshot: ArchiveSnapshot, { coldDir, signal }: ReadingOptions) {
    this.snapshot = snapshot;
    this.#signal = signal;
    this.#folder = new ColdFolder(coldDir);
    this.#cold = new ColdRows(signal);
    for (const one of snapshot.departed) {
      const same = this.#departed.get(one.table);
      if (same === undefined) this.#departed.set(one.table, [one]);
      else same.push(one);
    }
  }

  parts(kind: MergedKind, span: Span): readonly ReadingPart[] {
    return joinParts(this.#locate(kind, span));
  }

  async *rows(slice: SeriesSlice, form: RowForm): AsyncGenerator<Buffer> {
    this.#check();
    for (const part of this.#locate(slice.kind, slice.span)) {
      const { span } = part;
      if (part.state === 'hot') {
        yield* this.snapshot.rows({ ...slice, span }, form, this.#signal);
        continue;
      }
      for (const file of await this.#filesOf(part, span, [slice.marketId])) {
        yield* this.#cold.rows(file, { ...slice, span: file.span }, form);
      }
    }
  }

  async *newest(slice: SeriesSlice, form: RowForm, limit: number): AsyncGenerator<Buffer> {
    this.#check();
    let left = limit;
    for (const part of this.#locate(slice.kind, slice.span).toReversed()) {
      for (const source of await this.#newestOf(part, slice, form)) {
        if (left <= 0) return;
        for await (const piece of source(left)) {
          left -= countLines(piece);
          yield piece;
        }
      }
    }
  }

  async coldFiles(
    kind: MergedKind,
    span: Span,
    marketIds?: readonly number[],
  ): Promise<readonly PlacedFile[]> {
    const files: PlacedFile[] = [];
    for (const part of this.#locate(kind, span)) {
      files.push(...(await this.#filesOf(part, part.span, marketIds)));
    }
    return files;
  }

  async completeness(
    stream: { readonly streamId: number; readonly marketId: number },
    span: Span,
    limit: number,
  ): Promise<SpanCompleteness> {
    this.#check();
    return await this.snapshot.completeness(stream, span, limit);
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await this.snapshot.close();
    await this.#cold.close();
  }

  /** Where the newest rows of a part come from, the newest source first. */
  async #newestOf(part: LocatedPart, slice: SeriesSlice, form: RowForm) {
    const { span } = part;
    if (part.state === 'hot') {
      return [
        (limit: number) => this.snapshot.newest({ ...slice, span }, form, limit, this.#signal),
      ];
    }
    const files = await this.#filesOf(part, span, [slice.marketId]);
    return files
      .toReversed()
      .map(
        (file) => (limit: number) =>
          this.#cold.newest(file, { ...slice, span: file.span }, form, limit),
      );
  }

  #locate(kind: MergedKind, span: Span): LocatedPart[] {
    return cutIntoParts(span, this.#departed.get(tableOfKind(kind)) ?? []);
  }

  async #filesOf(
    { state, partition }: LocatedPart,
    span: Span,
    marketIds: readonly number[] | undefined,
  ): Promise<PlacedFile[]> {
    if (state !== 'cold' || partition === undefined) return [];
    return await this.#folder.filesOf(partition, span, marketIds, this.#signal);
  }

  #check(): void {
    this.#signal?.throwIfAborted();
    if (this.#isClosed) throw new AbortedError('the reading is closed');
  }
}
