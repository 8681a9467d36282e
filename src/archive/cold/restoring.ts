import { SERIES } from '../../model/series.js';
import type { PartitionInfo } from '../../store/index.js';
import { linesOf } from '../cold-rows.js';
import { asRestoreError, ColdError, ParquetError } from '../errors.js';
import { type DuckSession, openDuck } from '../parquet/session.js';
import { type LifeContext, sumRows } from '../sealing/seal.js';
import { DUCK_LIMITS } from './archiving.js';
import {
  type ColdFile,
  type ColdManifest,
  isOfFiles,
  isOfPartition,
  readColdManifest,
} from './manifest.js';
import type { ColdTexts } from './storage.js';

/** Lines that go to the database together. */
const BLOCK_CHARACTERS = 1024 * 1024;

/** The manifest of an archived partition, checked against the database. @throws ColdError */
export async function manifestOf(cold: ColdTexts, partition: PartitionInfo): Promise<ColdManifest> {
  const manifest = await readColdManifest(cold, partition.uri ?? '');
  assertManifestOf(cold, partition, manifest);
  return manifest;
}

/** @throws ColdError `cold_mismatch` if a manifest is of another partition, or of other rows */
export function assertManifestOf(
  cold: ColdTexts,
  partition: PartitionInfo,
  manifest: ColdManifest,
): void {
  if (isOfPartition(manifest, partition) && manifest.checksum === partition.checksum) return;
  throw new ColdError(
    'cold_mismatch',
    `${cold.at(partition.uri ?? '')} is not the manifest of ${partition.name} as it was archived: bring that back from a copy`,
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
  context: LifeContext,
  partition: PartitionInfo,
): Promise<number | null> {
  const { admin, cold, watcher, signal } = context;
  cold.assertReadable();
  await watcher.onStep('restore: check', partition.name);
  const manifest = await manifestOf(cold, partition);
  for (const file of manifest.files) await cold.check(file.path, file, signal);
  await watcher.onStep('restore: load', partition.name);
  try {
    const name = await admin.beginRestore(partition);
    if (name === null) return null;
    const aside = { ...partition, name };
    await loadFiles(context, aside, manifest);
    await watcher.onStep('restore: indexes', partition.name);
    await admin.indexRestored(partition);
    await admin.freeze(aside);
    await watcher.onStep('restore: count', partition.name);
    const facts = await sumRows(context, aside);
    // Imported files have no checksum by rows: each is whole, and finish_restore counts the rows of each market.
    if (!isOfFiles(manifest) && facts.checksum !== manifest.checksum) {
      throw new ColdError(
        'cold_mismatch',
        `the rows in the files of ${partition.name} do not add up to the checksum that it was sealed with (${facts.rows} of ${manifest.rows} rows): it stays archived. Bring the files back from a copy`,
      );
    }
    await watcher.onStep('restore: switch', partition.name);
    if (!(await admin.finishRestore(partition, manifest.checksum, facts.checksum))) return null;
    return facts.rows;
  } catch (error) {
    // Rows restored so far are of no use; should this fail too, the next run takes it away.
    if (!signal.aborted) await admin.dropRestored(partition).catch(() => undefined);
    throw asRestoreError(error, cold.name, partition.name);
  }
}

async function loadFiles(
  context: LifeContext,
  aside: PartitionInfo,
  { files, rows: total }: ColdManifest,
): Promise<void> {
  // Not in the folder, which may belong to the database that this one is a copy of.
  const duck = await openDuck('restore', DUCK_LIMITS, context.signal);
  try {
    let rows = 0;
    for (const file of files) {
      await loadFile(context, duck.session, aside, file);
      rows += file.rows;
      context.watcher.onRows(rows, total);
    }
  } finally {
    await duck.close();
  }
}

/** Copies the rows of a file into the table aside, as CSV with the market before the columns. */
async function loadFile(
  { admin, cold, signal }: LifeContext,
  duck: DuckSession,
  aside: PartitionInfo,
  file: ColdFile,
): Promise<void> {
  const { table, span } = aside;
  using held = cold.hold(signal);
  const path = await held.local(file.path, file);
  const slice = {
    kind: SERIES[table].kind,
    variantS: null,
    fromUs: span.fromMs * 1000,
    toUs: span.toMs * 1000,
  };
  let lines = '';
  const flush = async () => {
    if (lines !== '') await admin.copyIn(aside, Buffer.from(lines, 'utf8'));
    lines = '';
  };
  try {
    for await (const more of linesOf(duck, path, slice, 'copy', `${file.marketId},`)) {
      signal.throwIfAborted();
      lines += more;
      if (lines.length >= BLOCK_CHARACTERS) await flush();
    }
    await flush();
  } catch (error) {
    if (!(error instanceof ParquetError)) throw error;
    throw new ColdError(
      'cold_damaged',
      `${cold.at(file.path)} cannot be read (${error.message}): bring it back from a copy; nothing was changed`,
      { cause: error },
    );
  }
}
