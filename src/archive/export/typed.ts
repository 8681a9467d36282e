import type { SeriesColumn } from '../../model/kinds.js';
import { type StagedRows, typeColumns } from '../parquet/columns.js';
import { readStaged, writeParquet } from '../parquet/file.js';
import { DuckSession } from '../parquet/session.js';
import { arrowTypeName, writeArrow } from './arrow.js';
import { fillFile } from './blocks.js';
import { asDiskFull } from './errors.js';
import type { ManifestColumn, MarketPart } from './manifest.js';
import type { Output } from './output.js';

/** Rows on their way into a file whose columns have types. */
export interface Stage {
  readonly columns: readonly SeriesColumn[];
  /** Writes all rows as text. */
  readonly fill: (write: (bytes: Uint8Array) => Promise<void>) => Promise<MarketPart[]>;
  readonly format: 'parquet' | 'arrow';
  readonly about: Readonly<Record<string, unknown>>;
}

interface Surroundings {
  readonly signal: AbortSignal;
  readonly onPhase: (phase: string) => void;
}

/** Puts rows down as text first, then writes them in types that hold every one of them. */
export async function writeTyped(
  { columns, fill, format, about }: Stage,
  output: Output,
  { signal, onPhase }: Surroundings,
): Promise<{ readonly parts: MarketPart[]; readonly columns: readonly ManifestColumn[] }> {
  const staged: StagedRows = { path: output.scratch('rows.csv'), columns };
  const parts = await fillFile(staged.path, fill).catch((error: unknown) => {
    throw asDiskFull(error, output.name);
  });
  const duck = await DuckSession.open(output.scratch('spill'), {}, signal);
  try {
    onPhase(`writing ${format === 'parquet' ? 'Parquet' : 'Arrow'}`);
    if (format === 'parquet') {
      const path = output.scratch('rows.parquet');
      const typed = await writeParquet(duck, staged, path, { about });
      await output.writeFile(path, signal);
      return { parts, columns: typed.map((one) => ({ ...one, type: one.sqlType })) };
    }
    const typed = await typeColumns(duck, staged);
    const form = output.fileName === null ? 'stream' : 'file';
    const rows = readStaged(duck, staged, typed);
    await writeArrow(typed, rows, form, (bytes) => output.write(bytes));
    return { parts, columns: typed.map((one) => ({ ...one, type: arrowTypeName(one) })) };
  } catch (error) {
    throw asDiskFull(error, output.name);
  } finally {
    duck.close();
  }
}
