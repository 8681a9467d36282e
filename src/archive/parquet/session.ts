import { join } from 'node:path';
import type {
  DuckDBConnection,
  DuckDBDataChunk,
  DuckDBInstance,
  DuckDBResult,
  DuckDBValue,
  DuckDBVector,
} from '@duckdb/node-api';
import { AbortedError } from '../../kernel/errors.js';
import { ParquetError } from '../errors.js';
import { Scratch } from '../files.js';
import { duckDb } from './duckdb.js';

/** Limits of one piece of work. Beyond the memory DuckDB goes to the scratch folder. */
export interface DuckLimits {
  /** Default 512. */
  readonly memoryMb?: number;
  /** Default 2. */
  readonly threads?: number;
  /**
   * Lead of a streamed result over its reader, kB; default 1,000. DuckDB counts 16
   * bytes for a text, however long it is: rows of long texts take many times as much as this.
   */
  readonly aheadKb?: number;
}

/** Some rows of a result, column by column. */
export interface RowVectors {
  readonly rows: number;
  /** `getItem(row)` makes a value; null for null. */
  readonly columns: readonly Pick<DuckDBVector, 'getItem'>[];
}

/** Values of a column of a result. */
export interface Cells {
  /** Makes a value; null for null. */
  getItem(row: number): DuckDBValue;
  /** Units of a decimal: 1250 of `12.50` where the column has two digits after the point. */
  getScaledValue?(row: number): bigint | number | null;
}

/** Some rows of a result, in whole columns. */
export interface RowCells {
  readonly rows: number;
  readonly columns: readonly Cells[];
}

const MEMORY_MB = 512;
const THREADS = 2;

/**
 * DuckDB in memory, for one piece of work on files. It loads nothing from anywhere: what it needs is
 * built in.
 *
 * States: *open* → *closed*.
 */
export class DuckSession implements Disposable {
  readonly #instance: DuckDBInstance;
  readonly #connection: DuckDBConnection;
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort: () => void;
  readonly #limits: DuckLimits;
  /** True if the memory ends with this session. */
  readonly #isOwner: boolean;

  private constructor(
    instance: DuckDBInstance,
    connection: DuckDBConnection,
    limits: DuckLimits,
    signal: AbortSignal | undefined,
    isOwner: boolean,
  ) {
    this.#limits = limits;
    this.#isOwner = isOwner;
    this.#instance = instance;
    this.#connection = connection;
    this.#signal = signal;
    this.#onAbort = () => connection.interrupt();
    signal?.addEventListener('abort', this.#onAbort);
  }

  /** @param scratchDir a folder for what does not fit into memory */
  static async open(
    scratchDir: string,
    limits: DuckLimits = {},
    signal?: AbortSignal,
  ): Promise<DuckSession> {
    const instance = await duckDb().DuckDBInstance.create(':memory:', {
      threads: String(limits.threads ?? THREADS),
      memory_limit: `${limits.memoryMb ?? MEMORY_MB}MB`,
      temp_directory: scratchDir,
      autoinstall_known_extensions: 'false',
      autoload_known_extensions: 'false',
      preserve_insertion_order: 'true',
    });
    const connection = await connect(instance, limits);
    return new DuckSession(instance, connection, limits, signal, true);
  }

  /**
   * Another connection within the same limits, for a result that is read at the same time as others.
   * To be closed before this one.
   *
   * @param signal ends what this one reads; default: the signal of the first
   */
  async beside(signal = this.#signal): Promise<DuckSession> {
    const connection = await connect(this.#instance, this.#limits);
    return new DuckSession(this.#instance, connection, this.#limits, signal, false);
  }

  /** @throws {@link ParquetError}, or the signal's reason */
  async run(doing: string, sql: string): Promise<void> {
    await this.#guard(doing, () => this.#connection.run(sql));
  }

  /** The types of the columns of a relation, by their names. */
  async types(doing: string, relation: string): Promise<Map<string, string>> {
    const columns = await this.rows(doing, `DESCRIBE SELECT * FROM ${relation}`);
    return new Map(columns.map(([name, type]) => [String(name), String(type)]));
  }

  /** Has a statement read as {@link rows} would, and does not run it. @throws as {@link run} */
  async check(doing: string, sql: string): Promise<void> {
    await this.#guard(doing, async () => {
      const statement = await this.#connection.prepare(sql);
      statement.destroySync();
    });
  }

  /** All rows of a small result. */
  async rows(doing: string, sql: string): Promise<DuckDBValue[][]> {
    return await this.#guard(doing, async () => {
      const reader = await this.#connection.runAndReadAll(sql);
      return reader.getRows();
    });
  }

  /**
   * A large result with the names of its columns, a few rows at a time: what is held does not grow with the
   * length of texts and lists.
   */
  async answer(
    doing: string,
    sql: string,
    rowsMax: number,
  ): Promise<{ readonly names: string[]; readonly pieces: AsyncGenerator<RowVectors> }> {
    const result = await this.#guard(doing, () => this.#connection.stream(sql));
    return { names: result.columnNames(), pieces: this.#pieces(doing, result, rowsMax) };
  }

  /**
   * A large result, a few rows at a time, with values that are made when they are asked for: for many
   * results that are read side by side. Pieces remember the values that they made, so that small ones
   * are forgotten soon. Each piece is good until the next one.
   */
  async *vectors(doing: string, sql: string, rowsMax: number): AsyncGenerator<RowVectors> {
    const { pieces } = await this.answer(doing, sql, rowsMax);
    yield* pieces;
  }

  async *#pieces(doing: string, result: DuckDBResult, rowsMax: number): AsyncGenerator<RowVectors> {
    for await (const chunk of this.#chunks(doing, result)) {
      const whole = vectorsOf(chunk);
      for (let from = 0; from < chunk.rowCount; from += rowsMax) {
        const rows = Math.min(rowsMax, chunk.rowCount - from);
        yield { rows, columns: whole.map((vector) => vector.slice(from, rows)) };
      }
    }
  }

  /** A large result, as many rows at a time as DuckDB makes together. Each piece is good until the next one. */
  async *cells(doing: string, sql: string): AsyncGenerator<RowCells> {
    const result = await this.#guard(doing, () => this.#connection.stream(sql));
    for await (const chunk of this.#chunks(doing, result)) {
      yield { rows: chunk.rowCount, columns: vectorsOf(chunk) };
    }
  }

  async *#chunks(doing: string, result: DuckDBResult): AsyncGenerator<DuckDBDataChunk> {
    const fetch = () => {
      const fetched = this.#guard(doing, () => result.fetchChunk());
      // Reported on request; after the reader has left nothing may ask.
      fetched.catch(() => undefined);
      return fetched;
    };
    let coming = fetch();
    try {
      for (;;) {
        const chunk = await coming;
        if (chunk === null || chunk.rowCount === 0) return;
        // The next rows are made while these are looked at.
        coming = fetch();
        yield chunk;
        // Texts lie outside of what the garbage collector counts, so that it would let them pile up.
        chunk.reset();
      }
    } finally {
      // The connection is not closed under it.
      await coming.catch(() => undefined);
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  close(): void {
    this.#signal?.removeEventListener('abort', this.#onAbort);
    this.#connection.closeSync();
    if (this.#isOwner) this.#instance.closeSync();
  }

  async #guard<T>(doing: string, work: () => Promise<T>): Promise<T> {
    if (this.#signal?.aborted) throw abortReason(this.#signal);
    try {
      return await work();
    } catch (error) {
      if (this.#signal?.aborted) throw abortReason(this.#signal);
      throw new ParquetError(doing, error);
    }
  }
}

function vectorsOf(chunk: DuckDBDataChunk): DuckDBVector[] {
  return Array.from({ length: chunk.columnCount }, (_, at) => chunk.getColumnVector(at));
}

export type ScratchDuck = Awaited<ReturnType<typeof openDuck>>;

/**
 * DuckDB with a folder of its own on the disk, which goes with it.
 *
 * @param purpose a word for people who find the folder
 */
export async function openDuck(purpose: string, limits: DuckLimits, signal?: AbortSignal) {
  const folder = await Scratch.make(purpose);
  let session: DuckSession;
  try {
    session = await DuckSession.open(join(folder.path, 'spill'), limits, signal);
  } catch (error) {
    await folder.remove();
    throw error;
  }
  let closing: Promise<void> | undefined;
  /** Safe to call twice; to call it while something is read is not. */
  const close = (): Promise<void> => {
    if (closing === undefined) session.close();
    closing ??= folder.remove();
    return closing;
  };
  return { session, close, scratch: (name: string) => join(folder.path, name) };
}

async function connect(
  instance: DuckDBInstance,
  { aheadKb }: DuckLimits,
): Promise<DuckDBConnection> {
  const connection = await instance.connect();
  const ahead = aheadKb === undefined ? '' : `; SET streaming_buffer_size = '${aheadKb}KB'`;
  await connection.run(`SET TimeZone = 'UTC'${ahead}`);
  return connection;
}

function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new AbortedError();
}

/** Returns true if DuckDB would take the name of a file that it reads for a pattern. */
export function isPattern(path: string): boolean {
  return /[*?[\]{}]/.test(path);
}

/** A text as a SQL literal. */
export function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

/** Texts as SQL literals, with commas between. */
export function literals(texts: readonly string[]): string {
  return texts.map(literal).join(', ');
}

/** A name as a SQL identifier. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}
