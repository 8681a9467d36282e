import { open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Span } from '../../kernel/span.js';
import { type SeriesKind, seriesColumns } from '../../model/kinds.js';
import { BlockWriter } from '../export/blocks.js';
import { MARKET_COLUMN } from '../export/formats.js';
import type { StagedRows } from '../parquet/columns.js';
import type { DuckSession } from '../parquet/session.js';
import { DEPTH_GROUP_ROWS, ROW_GROUP_ROWS, writeParquet } from '../parquet/write.js';
import type { Reading } from '../reading.js';

/** What rows of the database are put into: a file that a statement reads like a cold one. */
export interface HotStage {
  readonly duck: DuckSession;
  readonly reading: Reading;
  /** Of this statement alone. */
  readonly scratch: string;
  readonly signal: AbortSignal;
}

/** Writes what comes into a new file; returns how many bytes there were. */
export async function stagePieces(
  path: string,
  sources: readonly (() => AsyncIterable<Buffer>)[],
): Promise<number> {
  const file = await open(path, 'wx', 0o600);
  let bytes = 0;
  try {
    const blocks = new BlockWriter(file);
    for (const source of sources) {
      for await (const piece of source()) {
        await blocks.add(piece);
        bytes += piece.length;
      }
    }
    await blocks.flush();
    return bytes;
  } finally {
    await file.close();
  }
}

/**
 * Brings the hot rows of a series into a Parquet file, by way of text on the disk: memory does not
 * grow with them.
 *
 * @param marketIds null for all
 * @returns its path, or null when there are none
 */
export async function stageHotRows(
  { duck, reading, scratch, signal }: HotStage,
  kind: SeriesKind,
  span: Span,
  marketIds: readonly number[] | null,
): Promise<string | null> {
  const hot = reading.parts(kind, span).filter(({ state }) => state === 'hot');
  if (hot.length === 0 || marketIds?.length === 0) return null;
  const staged: StagedRows = {
    path: join(scratch, `${kind}.csv`),
    columns: [MARKET_COLUMN, ...seriesColumns(kind, false)],
  };
  const bytes = await stagePieces(
    staged.path,
    hot.map((part) => () => reading.snapshot.table({ kind, marketIds, span: part.span }, signal)),
  );
  const path = join(scratch, `${kind}.parquet`);
  if (bytes > 0) {
    const rowGroupRows = kind === 'depth' ? DEPTH_GROUP_ROWS : ROW_GROUP_ROWS;
    await writeParquet(duck, staged, path, { about: {}, rowGroupRows });
  }
  await rm(staged.path);
  return bytes > 0 ? path : null;
}
