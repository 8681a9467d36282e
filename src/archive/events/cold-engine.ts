import { Scratch } from '../parquet/scratch.js';
import { DuckSession } from '../parquet/session.js';

/**
 * Rows that are made ahead of their reader, of each file that is open: one or two pieces of DuckDB's. By
 * its own default it would make a day of depth ahead, hold all of its texts, and let the first event wait
 * for them.
 */
const AHEAD_KB = 64;

/** DuckDB for one stream of events, opened when the first file is read; all kinds share its limits. */
export class ColdEngine {
  readonly #signal: AbortSignal;
  #opened: Promise<{ readonly session: DuckSession; readonly scratch: Scratch }> | undefined;
  #isClosed = false;

  constructor(signal: AbortSignal) {
    this.#signal = signal;
  }

  /** A connection of one's own, to be closed before this. @throws the signal's reason */
  async connect(): Promise<DuckSession> {
    this.#signal.throwIfAborted();
    if (this.#isClosed) throw new Error('the reader of cold files is closed');
    this.#opened ??= open(this.#signal);
    return await (await this.#opened).session.beside();
  }

  /** Safe to call twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const opened = await this.#opened?.catch(() => undefined);
    this.#opened = undefined;
    opened?.session.close();
    await opened?.scratch.remove();
  }
}

async function open(signal: AbortSignal) {
  const scratch = await Scratch.make('events');
  try {
    return {
      session: await DuckSession.open(scratch.path, { aheadKb: AHEAD_KB }, signal),
      scratch,
    };
  } catch (error) {
    await scratch.remove();
    throw error;
  }
}
