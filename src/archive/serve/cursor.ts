import type { ColdHold } from '../cold/storage.js';
import type { Cells, DuckSession, RowCells } from '../parquet/session.js';
import { type Replies, Writer } from './frames.js';
import { type Output, writeRow } from './rows.js';
import type { Plan } from './select.js';

/** Bytes that are written ahead of a reader at most, and one piece of rows more. */
const AHEAD_BYTES = 1024 * 1024;
/** Fetches one after the other that show a reader who wants all rows. */
const IN_A_ROW = 2;

/** Means by which a statement reads, until both are closed. */
interface Opened {
  readonly session: DuckSession;
  /** Keeps its files here. */
  readonly held: ColdHold;
}

/** Rows that wait for their reader. */
interface Ahead {
  readonly bytes: Buffer;
  /** Places at which rows end. */
  readonly ends: readonly number[];
}

/**
 * The rows of a statement, read as they are asked for. It holds a connection of DuckDB from its first row to its
 * last. Postgres asks for rows only when it is done with those before, so that a reader who asks again and again
 * has the next ones written meanwhile.
 *
 * States: *new* → *open* → *done*; rewound it is new again.
 */
export class Cursor {
  readonly outputs: readonly Output[];
  readonly #sql: string;
  readonly #open: (signal: AbortSignal) => Promise<Opened>;
  #reading: Reading | undefined;
  #ahead: Promise<Ahead> | undefined;
  #inARow = 0;
  #isDone = false;

  /** @param open opens a connection that the signal ends */
  constructor({ sql, outputs }: Plan, open: (signal: AbortSignal) => Promise<Opened>) {
    this.#sql = sql;
    this.outputs = outputs;
    this.#open = open;
  }

  /**
   * Writes the next rows.
   *
   * @returns how many there were
   * @throws the signal's reason; ParquetError. The cursor is closed then
   */
  async fetch(max: number, out: Replies, signal: AbortSignal): Promise<number> {
    let rows = 0;
    try {
      rows = await this.#takeAhead(max, out, signal);
      while (rows < max && !this.#isDone) {
        signal.throwIfAborted();
        this.#reading ??= await Reading.open(this.#sql, this.outputs, this.#open);
        const written = await this.#reading.write(max - rows, out, signal);
        rows += written;
        if (written === 0) await this.close();
        else if (out.isFull) await out.flush(signal);
      }
      this.#inARow += 1;
      return rows;
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** Writes as many rows as were asked for last, before they are asked for. Their error comes with the next fetch. */
  readAhead(max: number): void {
    const reading = this.#reading;
    if (reading === undefined || this.#ahead !== undefined || this.#inARow < IN_A_ROW) return;
    this.#ahead = writeAhead(reading, max);
    this.#ahead.catch(() => undefined);
  }

  /** Another cursor is read meanwhile. */
  rest(): void {
    this.#inARow = 0;
  }

  async #takeAhead(max: number, out: Replies, signal: AbortSignal): Promise<number> {
    const coming = this.#ahead;
    if (coming === undefined) return 0;
    const interrupt = () => this.#reading?.interrupt(signal);
    signal.addEventListener('abort', interrupt, { once: true });
    const { bytes, ends } = await coming.finally(() => {
      signal.removeEventListener('abort', interrupt);
    });
    const rows = Math.min(max, ends.length);
    const end = ends[rows - 1] ?? 0;
    out.bytes(bytes.subarray(0, end));
    const rest = ends.slice(rows).map((one) => one - end);
    const left = { bytes: bytes.subarray(end), ends: rest };
    this.#ahead = rest.length === 0 ? undefined : Promise.resolve(left);
    return rows;
  }

  /** Begins again with the first row. */
  async rewind(): Promise<void> {
    await this.close();
    this.#isDone = false;
  }

  async close(): Promise<void> {
    this.#isDone = true;
    this.#inARow = 0;
    const [reading, ahead] = [this.#reading, this.#ahead];
    [this.#reading, this.#ahead] = [undefined, undefined];
    reading?.interrupt();
    await ahead?.catch(() => undefined);
    await reading?.close();
  }
}

async function writeAhead(reading: Reading, max: number): Promise<Ahead> {
  const { signal } = new AbortController();
  const writer = new Writer();
  const ends: number[] = [];
  while (ends.length < max && writer.at < AHEAD_BYTES) {
    const written = await reading.write(max - ends.length, writer, signal, ends);
    if (written === 0) break;
  }
  return { bytes: writer.take(), ends };
}

/** A statement that is being read. */
class Reading {
  readonly #outputs: readonly Output[];
  readonly #opened: Opened;
  readonly #ending: AbortController;
  readonly #pieces: AsyncGenerator<RowCells>;
  #cells: (readonly Cells[])[] = [];
  #rows = 0;
  #row = 0;

  private constructor(
    outputs: readonly Output[],
    opened: Opened,
    ending: AbortController,
    sql: string,
  ) {
    this.#outputs = outputs;
    this.#opened = opened;
    this.#ending = ending;
    this.#pieces = opened.session.cells('reading archived rows', sql);
  }

  static async open(
    sql: string,
    outputs: readonly Output[],
    open: (signal: AbortSignal) => Promise<Opened>,
  ): Promise<Reading> {
    const ending = new AbortController();
    return new Reading(outputs, await open(ending.signal), ending, sql);
  }

  /**
   * Writes rows, of one piece at most.
   *
   * @param ends gets the place at which each row ends
   * @returns how many; 0 at the end
   */
  async write(max: number, out: Writer, signal: AbortSignal, ends?: number[]): Promise<number> {
    if (this.#row >= this.#rows && !(await this.#next(signal))) return 0;
    const end = Math.min(this.#rows, this.#row + max);
    const written = end - this.#row;
    for (; this.#row < end; this.#row += 1) {
      writeRow(out, this.#outputs, this.#cells, this.#row);
      ends?.push(out.at);
    }
    return written;
  }

  /** Ends what DuckDB does, with the signal's reason. */
  interrupt(signal?: AbortSignal): void {
    this.#ending.abort(signal?.reason);
  }

  async #next(signal: AbortSignal): Promise<boolean> {
    const interrupt = () => this.interrupt(signal);
    signal.addEventListener('abort', interrupt, { once: true });
    try {
      const { value, done } = await this.#pieces.next();
      if (done === true) return false;
      let at = 0;
      this.#cells = this.#outputs.map(({ cells }) => {
        at += cells.length;
        return value.columns.slice(at - cells.length, at);
      });
      this.#rows = value.rows;
      this.#row = 0;
      return true;
    } finally {
      signal.removeEventListener('abort', interrupt);
    }
  }

  async close(): Promise<void> {
    this.#ending.abort();
    await this.#pieces.return(undefined).catch(() => undefined);
    this.#opened.session.close();
    this.#opened.held[Symbol.dispose]();
  }
}
