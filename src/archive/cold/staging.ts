import { join } from 'node:path';
import type { PartitionInfo, PartitionMarket, SealFacts, SealingAdmin } from '../../store/index.js';
import { type RowsProgress, sumRows } from '../sealing/seal.js';
import { asColdError } from './errors.js';
import type { ColdFileSystem } from './files.js';

/** The rows of a day of a market, as text on the disk. */
export interface StagedDay extends PartitionMarket {
  /** UTC, `2026-01-31`. */
  readonly date: string;
  readonly path: string;
  readonly rows: number;
}

const LINE_FEED = 0x0a;
/** A line begins with its instant, and that with its day. */
const DATE_BYTES = 10;
/** Written to the disk together. */
const BLOCK_BYTES = 1024 * 1024;

/** A file of lines that is being filled. */
class DayWriter {
  readonly #files: ColdFileSystem;
  readonly path: string;
  readonly date: string;
  readonly #output: Awaited<ReturnType<ColdFileSystem['create']>>;
  #waiting: Buffer[] = [];
  #waitingBytes = 0;
  rows = 0;

  private constructor(
    files: ColdFileSystem,
    path: string,
    date: string,
    output: Awaited<ReturnType<ColdFileSystem['create']>>,
  ) {
    this.#files = files;
    this.path = path;
    this.date = date;
    this.#output = output;
  }

  static async open(files: ColdFileSystem, path: string, date: string): Promise<DayWriter> {
    return new DayWriter(files, path, date, await files.create(path));
  }

  async add(lines: Buffer, rows: number): Promise<void> {
    this.#waiting.push(Buffer.from(lines));
    this.#waitingBytes += lines.length;
    this.rows += rows;
    if (this.#waitingBytes >= BLOCK_BYTES) await this.#flush();
  }

  async close(): Promise<void> {
    await this.#flush();
    await this.#output.close();
  }

  async abandon(): Promise<void> {
    await this.#output.close().catch(() => undefined);
    await this.#files.remove(this.path).catch(() => undefined);
  }

  async #flush(): Promise<void> {
    const block = Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#waitingBytes = 0;
    if (block.length > 0) await this.#output.write(block);
  }
}

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
 * Puts the rows of a partition down as text, a file for each day of each market, and hands each on as
 * soon as it is whole. Only one is there at a time.
 *
 * @returns what was counted and summed up on the way
 */
export async function stageDays(
  admin: SealingAdmin,
  partition: PartitionInfo,
  { files, folder }: { readonly files: ColdFileSystem; readonly folder: string },
  onRows: RowsProgress,
  onDay: (day: StagedDay) => Promise<void>,
): Promise<SealFacts> {
  return await sumRows(admin, partition, onRows, async (market, lines) => {
    let writer: DayWriter | undefined;
    const finish = async () => {
      if (writer === undefined) return;
      const { path, date, rows } = writer;
      await writer.close();
      writer = undefined;
      await onDay({ ...market, date, path, rows });
      await files.remove(path);
    };
    try {
      await splitDays(lines, async (date, run, rows) => {
        if (writer !== undefined && writer.date !== date) await finish();
        const path = join(folder, `${market.marketId}-${date}.csv`);
        writer ??= await DayWriter.open(files, path, date);
        await writer.add(run, rows);
      });
      await finish();
    } catch (error) {
      await writer?.abandon();
      throw asColdError(error, folder);
    }
  });
}
