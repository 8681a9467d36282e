import { join } from 'node:path';
import { multiplyDecimals } from '../../kernel/decimal.js';
import type { SeriesColumn } from '../../model/kinds.js';
import type { PartitionInfo } from '../../store/index.js';
import { readParquetTexts } from '../parquet/file.js';
import { DuckSession, ParquetError } from '../parquet/session.js';
import { shortest } from '../parquet/texts.js';
import { sumRows } from '../sealing/seal.js';
import { asRestoreError, ColdError } from './errors.js';
import { assertColdDir, checkFile } from './files.js';
import { type ColdContext, DUCK_LIMITS } from './freeze.js';
import { SCRATCH_FOLDER } from './layout.js';
import { type ColdFile, type ColdManifest, readColdManifest } from './manifest.js';

/** Lines that go to the database together. */
const BLOCK_CHARACTERS = 1024 * 1024;

/** The manifest of an archived partition, checked against the database. @throws ColdError */
async function manifestOf(coldDir: string, partition: PartitionInfo): Promise<ColdManifest> {
  const manifest = await readColdManifest(coldDir, partition.uri ?? '');
  const isOurs =
    manifest.table === partition.table &&
    Date.parse(manifest.from) === partition.span.fromMs &&
    manifest.checksum === partition.checksum;
  if (isOurs) return manifest;
  throw new ColdError(
    'cold_mismatch',
    'fatal',
    `${join(coldDir, partition.uri ?? '')} is not the manifest of ${partition.name} as it was archived: bring that back from a copy`,
  );
}

/**
 * Brings the rows of an archived partition back. They come into a table aside, which takes its place
 * only when its rows add up to the checksum that the partition was sealed with. The files stay.
 *
 * @returns the rows, or null when it is not archived any more
 * @throws ColdError naming the file that is missing or damaged; StoreError `sealing_busy`
 */
export async function restorePartition(
  context: ColdContext,
  partition: PartitionInfo,
): Promise<number | null> {
  const { admin, coldDir, watcher, signal, files } = context;
  assertColdDir(coldDir);
  await watcher.onStep('restore: check', partition.name);
  const manifest = await manifestOf(coldDir, partition);
  for (const file of manifest.files) await checkFile(coldDir, file, signal);
  await watcher.onStep('restore: load', partition.name);
  const folder = join(coldDir, SCRATCH_FOLDER);
  try {
    if (!(await admin.beginRestore(partition))) return null;
    const duck = await DuckSession.open(join(folder, 'spill'), DUCK_LIMITS, signal);
    try {
      let rows = 0;
      for (const file of manifest.files) {
        await loadFile(context, duck, partition, file);
        rows += file.rows;
        watcher.onRows(rows, manifest.rows);
      }
    } finally {
      duck.close();
    }
    await watcher.onStep('restore: indexes', partition.name);
    await admin.rebuildIndexes(partition);
    await admin.freeze(partition);
    await watcher.onStep('restore: count', partition.name);
    const facts = await sumRows(admin, partition, (rows) => watcher.onRows(rows, manifest.rows));
    if (facts.checksum !== manifest.checksum) {
      throw new ColdError(
        'cold_mismatch',
        'fatal',
        `the rows in the files of ${partition.name} do not add up to the checksum that it was sealed with (${facts.rows} of ${manifest.rows} rows): it stays archived. Bring the files back from a copy`,
      );
    }
    await watcher.onStep('restore: switch', partition.name);
    if (!(await admin.finishRestore(partition, manifest.checksum))) return null;
    return facts.rows;
  } catch (error) {
    // What came so far is of no use; should this fail too, the next run takes it away.
    if (!signal.aborted) await admin.dropEmptied(partition).catch(() => undefined);
    throw asRestoreError(error, coldDir, partition.name);
  } finally {
    await files.remove(join(folder, 'spill')).catch(() => undefined);
  }
}

async function loadFile(
  { admin, coldDir, signal }: ColdContext,
  duck: DuckSession,
  partition: PartitionInfo,
  file: ColdFile,
): Promise<void> {
  const columns = admin.columns(partition.table);
  const path = join(coldDir, file.path);
  const lineOf = lineWriter(partition, columns);
  let block = '';
  const flush = async () => {
    const lines = Buffer.from(block, 'utf8');
    block = '';
    if (lines.length > 0) await admin.copyIn(partition, lines);
  };
  try {
    for await (const rows of readParquetTexts(duck, columns, path)) {
      signal.throwIfAborted();
      for (const row of rows) block += `${file.marketId},${lineOf(row)}\n`;
      if (block.length >= BLOCK_CHARACTERS) await flush();
    }
    await flush();
  } catch (error) {
    if (!(error instanceof ParquetError)) throw error;
    throw new ColdError(
      'cold_damaged',
      'fatal',
      `${path} cannot be read (${error.message}): bring it back from a copy; nothing was changed`,
      { cause: error },
    );
  }
}

const quoted = (text: string) => `"${text.replaceAll('"', '""')}"`;

/** Files have the digits of their column, the archive those of the number. */
function fieldOf({ type }: SeriesColumn, text: string | null): string {
  if (text === null) return '';
  if (type === 'decimal') return shortest(text);
  if (type === 'decimals') {
    const inner = text.slice(1, -1).replaceAll(' ', '');
    return `"{${inner === '' ? '' : inner.split(',').map(shortest).join(',')}}"`;
  }
  return type === 'text' ? quoted(text) : text;
}

/** Writes rows of a file as lines of CSV, with all that is left out in files. */
function lineWriter(
  { table }: PartitionInfo,
  columns: readonly SeriesColumn[],
): (row: readonly (string | null)[]) => string {
  const at = (name: string) => columns.findIndex((one) => one.name === name);
  const [price, amount, total] = [at('price'), at('amount'), at('total')];
  return (row) =>
    columns
      .map((column, index) => {
        const text = row[index] ?? null;
        if (table !== 'trade' || index !== total || text !== null) return fieldOf(column, text);
        return shortest(multiplyDecimals(row[price] ?? '0', row[amount] ?? '0'));
      })
      .join(',');
}
