import { Scratch } from '../parquet/scratch.js';
import { DuckSession } from '../parquet/session.js';
import type { EventOrder } from './order.js';

/**
 * Rows that are made ahead of their reader, of each file that is open: one or two pieces of DuckDB's. By
 * its own default it would make a day of depth ahead, hold all of its texts, and let the first event wait
 * for them.
 */
const AHEAD_KB = 64;

/** DuckDB for one stream of events, opened when the first file is read; all kinds share its limits. */
export class ColdEngine {
  readonly #signal: AbortSignal;
  readonly #order: EventOrder;
  #opened: Promise<{ readonly session: DuckSession; readonly scratch: Scratch }> | undefined;
  #isClosed = false;

  constructor(order: EventOrder, signal: AbortSignal) {
    this.#order = order;
    this.#signal = signal;
  }

  /** A connection of one's own, to be closed before this. @throws the signal's reason */
  async connect(): Promise<DuckSession> {
    this.#signal.throwIfAborted();
    if (this.#isClosed) throw new Error('the reader of cold files is closed');
    this.#opened ??= open(this.#order, this.#signal);
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

async function open(order: EventOrder, signal: AbortSignal) {
  // Files that are read in their order are read side by side already; each further thread would only
  // hold what it decodes, of every one of them. One large sort is quicker with two.
  const limits = { threads: order === 'received' ? 2 : 1, aheadKb: AHEAD_KB };
  const scratch = await Scratch.make('events');
  try {
    return {
      session: await DuckSession.open(scratch.path, limits, signal),
      scratch,
    };
  } catch (error) {
    await scratch.remove();
    throw error;
  }
}
