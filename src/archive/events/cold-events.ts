import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { DepartedPartition } from '../../store/index.js';
import { DuckSession } from '../parquet/session.js';
import type { ColdFolder } from '../reading/cold-files.js';
import type { PlacedFile } from '../reading/reading.js';
import {
  type ColdQuery,
  columnReader,
  inFileOrderSql,
  type MarketFiles,
  sortedSql,
  timeOfRow,
} from './cold-rows.js';
import type { ArchiveEvent } from './event.js';
import { MADE_TOGETHER, type RowSpan } from './hot-events.js';
import { InOrder } from './in-order.js';
import { type Batches, mergeSources } from './merge.js';
import { compareWithin, type EventOrder, timeOf } from './order.js';
import type { EventSlice } from './slice.js';

const DAY_US = 86_400_000_000;
/**
 * Files of one day that are read side by side, the largest ones. What is left are the small ones:
 * they are sorted together instead, because every open file holds some memory.
 */
const OPEN_FILES_MAX = 24;

/** DuckDB for one stream of events, opened when the first file is read. */
export class ColdReader {
  readonly #folder: ColdFolder;
  readonly #signal: AbortSignal;
  #duck: Promise<{ readonly session: DuckSession; readonly scratch: string }> | undefined;
  #isClosed = false;

  constructor(folder: ColdFolder, signal: AbortSignal) {
    this.#folder = folder;
    this.#signal = signal;
  }

  /** Events of rows in files of one partition or several, which follow each other in time. */
  async *events(
    slice: EventSlice,
    parts: readonly { readonly partition: DepartedPartition; readonly span: RowSpan }[],
    order: EventOrder,
  ): Batches {
    if (order === 'received') {
      const files: PlacedFile[] = [];
      for (const { partition, span } of parts)
        files.push(...(await this.#files(slice, partition, span)));
      const bounds = { fromUs: parts[0]?.span.fromUs ?? 0, toUs: parts.at(-1)?.span.toUs ?? 0 };
      const query = { ...slice, ...bounds };
      if (files.length > 0) {
        yield* this.#read(slice, sortedSql(query, byMarket(slice, files), true), order);
      }
      return;
    }
    for (const { partition, span } of parts) {
      for (let fromUs = span.fromUs; fromUs < span.toUs; ) {
        const toUs = Math.min(Math.floor(fromUs / DAY_US) * DAY_US + DAY_US, span.toUs);
        yield* this.#day(slice, partition, { fromUs, toUs }, order);
        fromUs = toUs;
      }
    }
  }

  /** Safe to call twice. */
  async close(): Promise<void> {
    this.#isClosed = true;
    const duck = await this.#duck?.catch(() => undefined);
    this.#duck = undefined;
    duck?.session.close();
    if (duck !== undefined) await rm(duck.scratch, { recursive: true, force: true });
  }

  async *#day(
    slice: EventSlice,
    partition: DepartedPartition,
    span: RowSpan,
    order: EventOrder,
  ): Batches {
    const files = await this.#files(slice, partition, span);
    const query: ColdQuery = { ...slice, ...span };
    const bySize = files.toSorted((a, b) => b.rows - a.rows);
    const isAll = bySize.length <= OPEN_FILES_MAX;
    const large = bySize.slice(0, isAll ? OPEN_FILES_MAX : OPEN_FILES_MAX - 1);
    const small = bySize.slice(large.length);
    const statements = byMarket(slice, large).map((one) => inFileOrderSql(query, one));
    if (small.length > 0) statements.push(sortedSql(query, byMarket(slice, small), false));
    const sources = statements.map((sql) => ({ rank: 0, batches: this.#read(slice, sql, order) }));
    const [only] = sources;
    if (only === undefined) return;
    yield* sources.length === 1
      ? only.batches
      : mergeSources(sources, timeOf(order), compareWithin(order));
  }

  async #files(slice: EventSlice, partition: DepartedPartition, { fromUs, toUs }: RowSpan) {
    const span = { fromMs: Math.floor(fromUs / 1000), toMs: Math.ceil(toUs / 1000) };
    const ids = slice.markets.map(({ marketId }) => marketId);
    const files = await this.#folder.filesOf(partition, span, ids, this.#signal);
    return files.filter(({ rows }) => rows > 0);
  }

  async *#read(slice: EventSlice, sql: string, order: EventOrder): Batches {
    const { kind, variantS, markets } = slice;
    const names = markets.map(({ market }) => market);
    const read = columnReader(kind, names, variantS);
    const settling = new InOrder<ArchiveEvent>(compareWithin(order));
    const isByReceipt = order === 'received';
    const session = await (await this.#open()).beside();
    try {
      const pieces = session.vectors('reading events', sql, MADE_TOGETHER);
      for await (const { columns, rows } of pieces) {
        for (let row = 0; row < rows; row += 1) {
          const event = read(columns, row);
          settling.push(isByReceipt ? event.receivedAtUs : timeOfRow(columns, row), event);
        }
        const settled = settling.take();
        if (settled.length > 0) yield settled;
      }
      const rest = settling.end();
      if (rest.length > 0) yield rest;
    } finally {
      session.close();
    }
  }

  async #open(): Promise<DuckSession> {
    this.#signal.throwIfAborted();
    if (this.#isClosed) throw new Error('the reader of cold files is closed');
    this.#duck ??= openDuck(this.#signal);
    return (await this.#duck).session;
  }
}

async function openDuck(signal: AbortSignal) {
  const scratch = await mkdtemp(join(tmpdir(), 'tapekeep-events-'));
  try {
    return { session: await DuckSession.open(scratch, {}, signal), scratch };
  } catch (error) {
    await rm(scratch, { recursive: true, force: true });
    throw error;
  }
}

function byMarket({ markets }: EventSlice, files: readonly PlacedFile[]): MarketFiles[] {
  return markets.flatMap(({ marketId }, place) => {
    const paths = files.filter((one) => one.marketId === marketId).map((one) => one.absolutePath);
    return paths.length === 0 ? [] : [{ place, paths }];
  });
}
