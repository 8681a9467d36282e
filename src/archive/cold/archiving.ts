import { type FileHandle, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { makeFolder } from '../../kernel/folders.js';
import { isoMs, isoSpan } from '../../kernel/timestamp.js';
import { columnsOf } from '../../model/kinds.js';
import { viewOf } from '../../model/series.js';
import {
  type PartitionInfo,
  type PartitionMarket,
  readCoverage,
  type SealFacts,
} from '../../store/index.js';
import { asColdError, ColdError, inColdWords } from '../errors.js';
import { BlockWriter } from '../files.js';
import type { StagedRows } from '../parquet/columns.js';
import { digestBoth, writeParquet } from '../parquet/file.js';
import { DuckSession, identifier, literal } from '../parquet/session.js';
import { jsonOf } from '../parquet/values.js';
import { assertSealed, type LifeContext, sumRows } from '../sealing/seal.js';
import { ColdDecimals } from './decimals.js';
import { coldDataPath, coldManifestPath, sumFile } from './folder.js';
import {
  type ColdContent,
  type ColdFile,
  type ColdManifest,
  findColdManifest,
  writeColdManifest,
} from './manifest.js';

/** Beside a collecting daemon: enough for a day of a market, and not more. */
export const DUCK_LIMITS = { memoryMb: 256, threads: 2 };
const STAYS = 'it stays in the database';
/** Files written of a partition. */
export interface ArchivedFiles {
  readonly uri: string;
  readonly manifest: ColdManifest;
}

/**
 * Writes a sealed partition into files, a day of a market each, reads every one of them back and holds
 * it against the rows, and writes the manifest that names them. Files that are there already serve again if they are whole:
 * of an attempt that was stopped, of before a restore, or of the sealing. The database is not changed.
 *
 * @throws ColdError `cold_disk_full`, `cold_mismatch`; ParquetError; the signal's reason. Files without
 *   a manifest may be left; they are nothing, and go with the next tidying
 */
export async function writeFiles(
  context: LifeContext,
  partition: PartitionInfo,
): Promise<ArchivedFiles> {
  const { cold, watcher, signal } = context;
  cold.assertReadable();
  const uri = coldManifestPath(partition.table, partition.name);
  const { manifest: earlier, version } = await findColdManifest(cold, uri);
  if (earlier !== undefined && (await isWhole(context, partition, earlier))) {
    return { uri, manifest: earlier };
  }
  const folder = cold.scratch;
  const written: ColdFile[] = [];
  const facts = await inColdWords(folder, async () => {
    await makeFolder(folder);
    using duck = await DuckSession.open(join(folder, 'spill'), DUCK_LIMITS, signal);
    await watcher.onStep('archive: read', partition.name);
    const decimals = new ColdDecimals(cold, partition.table, duck);
    return await stageDays(context, partition, folder, async (day) => {
      const staged = { path: day.path, columns: columnsOf(partition.table) };
      written.push(await archiveDay(context, { duck, decimals }, partition, day, staged));
    });
  });
  assertSealed(partition, facts, STAYS);
  await watcher.onStep('archive: manifest', partition.name);
  const content = await contentOf(context, partition, facts, written);
  return { uri, manifest: await writeColdManifest(cold, uri, content, { version }) };
}

/** Returns true if a manifest is of the rows of a partition, by their checksum, and its files are whole. */
async function isWhole(
  { cold, watcher, signal }: LifeContext,
  partition: PartitionInfo,
  { checksum, rows, files }: ColdManifest,
): Promise<boolean> {
  if (checksum !== partition.checksum || rows !== partition.rows) return false;
  await watcher.onStep('archive: verify', partition.name);
  try {
    for (const file of files) await cold.check(file.path, file, signal);
    return true;
  } catch (error) {
    if (error instanceof ColdError) return false;
    throw error;
  }
}

/**
 * Writes a day of a market, reads it back, and gives it its place.
 *
 * @param day its path is a name in the scratch folder
 * @param staged its rows
 */
export async function archiveDay(
  { cold, watcher, version, signal }: Omit<LifeContext, 'admin' | 'store' | 'clock'>,
  { duck, decimals }: { readonly duck: DuckSession; readonly decimals: ColdDecimals },
  partition: Pick<PartitionInfo, 'table' | 'name'>,
  day: StagedDay,
  staged: StagedRows,
): Promise<ColdFile> {
  const kind = viewOf(partition.table);
  const { market } = day;
  const { columns } = staged;
  const path = `${day.path}.parquet`;
  try {
    await watcher.onStep('archive: write', partition.name);
    const typed = await writeParquet(duck, staged, path, {
      forms: await decimals.formsOf(day, market),
      about: { tapekeep: version, kind, market, date: day.date },
    });
    await watcher.onStep('archive: verify', partition.name);
    const [wanted, found] = await digestBoth(duck, staged, typed, path);
    if (wanted.rows !== day.rows || found.rows !== wanted.rows || found.digest !== wanted.digest) {
      throw new ColdError(
        'cold_mismatch',
        `what was written of ${market} on ${day.date} does not read back as it was (${found.rows} of ${day.rows} rows): ${partition.name} stays as it is. Check the disk of ${cold.scratch}`,
        { action: 'retry' },
      );
    }
    const sums = await sumFile(path, signal);
    const [first = '', last = ''] = await timesOf(duck, columns[0]?.name ?? '', path);
    decimals.written(day, typed);
    const place = coldDataPath(kind, market, day.date, sums.sha256);
    await watcher.onStep('archive: place', partition.name);
    await cold.put(path, place, sums, signal);
    return {
      ...{ path: place, market, marketId: day.marketId, date: day.date, rows: day.rows },
      ...{ ...sums, first, last },
    };
  } catch (error) {
    await rm(path, { force: true }).catch(() => undefined);
    throw error;
  }
}

async function timesOf(duck: DuckSession, column: string, path: string) {
  const [row] = await duck.rows(
    `reading ${path}`,
    `SELECT min(${identifier(column)}), max(${identifier(column)}) FROM read_parquet(${literal(path)})`,
  );
  return (row ?? []).map(jsonOf).map(String);
}

/** Facts of a manifest about files of a partition. */
export async function contentOf(
  { admin, clock, version }: Pick<LifeContext, 'admin' | 'clock' | 'version'>,
  partition: Pick<PartitionInfo, 'table' | 'span'>,
  { rows, checksum }: SealFacts,
  files: readonly ColdFile[],
): Promise<ColdContent> {
  const coverage = await readCoverage(admin.connection, partition);
  return {
    tapekeep: version,
    madeAt: isoMs(clock.wallMs()),
    table: partition.table,
    kind: viewOf(partition.table),
    ...isoSpan(partition.span),
    ...{ rows, checksum },
    columns: columnsOf(partition.table).map(({ name, type }) => ({ name, type })),
    files,
    coverage: coverage.map(({ spans, ...stream }) => ({
      ...stream,
      spans: spans.map(isoSpan),
    })),
  };
}

/** The rows of a day of a market, on their way into a file. */
export interface StagedDay extends PartitionMarket {
  /** UTC, `2026-01-31`. */
  readonly date: string;
  readonly path: string;
  readonly rows: number;
}

const LINE_FEED = 0x0a;
/** A line begins with its instant, and that with its day. */
const DATE_BYTES = 10;
/** Calls `onRun` with stretches of whole lines that begin with the same day. */
async function splitDays(
  pieces: AsyncIterable<Buffer>,
  onRun: (date: string, lines: Buffer, rows: number) => Promise<void>,
): Promise<void> {
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of pieces) {
    const buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    let runFrom = 0;
    let rows = 0;
    let date: string | undefined;
    let at = 0;
    for (;;) {
      const end = buffer.indexOf(LINE_FEED, at);
      if (end < 0) break;
      const day = buffer.toString('latin1', at, at + DATE_BYTES);
      if (date !== undefined && day !== date) {
        await onRun(date, buffer.subarray(runFrom, at), rows);
        runFrom = at;
        rows = 0;
      }
      date = day;
      rows += 1;
      at = end + 1;
    }
    if (date !== undefined) await onRun(date, buffer.subarray(runFrom, at), rows);
    rest = buffer.subarray(at);
  }
}

/**
 * Stages the rows of a partition as text, a file for each day of each market, and hands each on as
 * soon as it is whole. Only one is there at a time.
 *
 * @returns row count and checksum of all that was staged
 */
async function stageDays(
  context: LifeContext,
  partition: PartitionInfo,
  folder: string,
  onDay: (day: StagedDay) => Promise<void>,
): Promise<SealFacts> {
  return await sumRows(context, partition, async (market, lines) => {
    let day:
      | { date: string; path: string; file: FileHandle; blocks: BlockWriter; rows: number }
      | undefined;
    const finish = async () => {
      if (day === undefined) return;
      const { date, path, file, blocks, rows } = day;
      await blocks.flush();
      await file.close();
      day = undefined;
      await onDay({ ...market, date, path, rows });
      await rm(path, { force: true });
    };
    try {
      await splitDays(lines, async (date, run, rows) => {
        if (day?.date !== date) await finish();
        if (day === undefined) {
          const path = join(folder, `${market.marketId}-${date}.csv`);
          const file = await open(path, 'w', 0o644);
          day = { date, path, file, blocks: new BlockWriter(file), rows: 0 };
        }
        await day.blocks.add(run);
        day.rows += rows;
      });
      await finish();
    } catch (error) {
      await day?.file.close().catch(() => undefined);
      if (day !== undefined) await rm(day.path, { force: true }).catch(() => undefined);
      throw asColdError(error, folder);
    }
  });
}
