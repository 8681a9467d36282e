import { DAY_US, SECOND_US } from '../../kernel/durations.js';
import type { DepartedPartition } from '../../store/index.js';
import { ColdFolder } from '../reading/cold-files.js';
import type { PlacedFile } from '../reading/reading.js';
import type { ColdEngine } from './cold-engine.js';
import { type ColdQuery, inFileOrderSql, type MarketFiles, sortedSql } from './cold-rows.js';
import type { ArchiveEvent } from './event.js';
import { eventMaker, TIME_AT, VectorRow } from './event-rows.js';
import { MADE_TOGETHER, type RowSpan } from './hot-events.js';
import { InOrder } from './in-order.js';
import { type Batches, mergeSources } from './merge.js';
import { compareWithin, type EventOrder, timeOf } from './order.js';
import type { EventSlice } from './slice.js';

/**
 * Files of one day that are read side by side, the largest ones. What is left are the small ones:
 * they are sorted together instead, because every open file holds some memory.
 */
const OPEN_FILES_MAX = 24;

/** Rows that the first look into files aims at: the first event waits for these, not for whole groups. */
const FIRST_ROWS = 256;
/** Looks that found nothing widen so much each, before all that is left of the day is opened. */
const WIDENING = 8;
const LOOKS_MAX = 4;

/** Reads the events of one slice from files. */
export class ColdReader {
  readonly #coldDir: string;
  readonly #engine: ColdEngine;
  readonly #signal: AbortSignal;
  /** Whether the reader has its first event. */
  #isBegun = false;

  constructor(coldDir: string, engine: ColdEngine, signal: AbortSignal) {
    this.#coldDir = coldDir;
    this.#engine = engine;
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
      const folder = new ColdFolder(this.#coldDir);
      for (const { partition, span } of parts)
        files.push(...(await this.#files(folder, slice, partition, span)));
      const bounds = { fromUs: parts[0]?.span.fromUs ?? 0, toUs: parts.at(-1)?.span.toUs ?? 0 };
      const query = { ...slice, ...bounds };
      if (files.length > 0) {
        yield* this.#read(slice, sortedSql(query, byMarket(slice, files), true), order);
      }
      return;
    }
    for (const { partition, span } of parts) {
      // One for each: the lists of files of years would fill the memory.
      const folder = new ColdFolder(this.#coldDir);
      for (let fromUs = span.fromUs; fromUs < span.toUs; ) {
        const toUs = Math.min(Math.floor(fromUs / DAY_US) * DAY_US + DAY_US, span.toUs);
        const files = await this.#files(folder, slice, partition, { fromUs, toUs });
        if (!this.#isBegun && files.length > 0) {
          fromUs = yield* this.#begin(slice, files, { fromUs, toUs }, order);
          this.#isBegun = true;
        }
        if (fromUs < toUs) yield* this.#day(slice, files, { fromUs, toUs }, order);
        fromUs = toUs;
      }
    }
  }

  /**
   * The first events of a day, in short looks at all of its files together, so that they come as soon
   * from large files as from small ones. Returns the moment from which on nothing was read.
   */
  async *#begin(
    slice: EventSlice,
    files: readonly PlacedFile[],
    { fromUs, toUs }: RowSpan,
    order: EventOrder,
  ): AsyncGenerator<ArchiveEvent[], number, undefined> {
    const rows = files.reduce((sum, file) => sum + file.rows, 0);
    const firstUs = Math.min(...files.map(({ first }) => Date.parse(first))) * 1000;
    const lastUs = Math.max(...files.map(({ last }) => Date.parse(last))) * 1000;
    // What belongs to one second stays together.
    const onSecond = (us: number) => Math.ceil(us / SECOND_US) * SECOND_US;
    let widthUs = onSecond(((lastUs - firstUs) / rows) * FIRST_ROWS + 1);
    let [atUs, endUs] = [fromUs, onSecond(Math.max(fromUs, firstUs))];
    for (let look = 0; look < LOOKS_MAX && atUs < toUs; look += 1) {
      endUs = Math.min(endUs + widthUs, toUs);
      const query = { ...slice, fromUs: atUs, toUs: endUs };
      let hasFound = false;
      for await (const batch of this.#read(
        slice,
        sortedSql(query, byMarket(slice, files), false),
        order,
      )) {
        hasFound = true;
        yield batch;
      }
      atUs = endUs;
      if (hasFound) break;
      widthUs *= WIDENING;
    }
    return atUs;
  }

  async *#day(
    slice: EventSlice,
    files: readonly PlacedFile[],
    span: RowSpan,
    order: EventOrder,
  ): Batches {
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

  async #files(
    folder: ColdFolder,
    slice: EventSlice,
    partition: DepartedPartition,
    { fromUs, toUs }: RowSpan,
  ) {
    const span = { fromMs: Math.floor(fromUs / 1000), toMs: Math.ceil(toUs / 1000) };
    const ids = slice.markets.map(({ marketId }) => marketId);
    const files = await folder.filesOf(partition, span, ids, this.#signal);
    return files.filter(({ rows }) => rows > 0);
  }

  async *#read(slice: EventSlice, sql: string, order: EventOrder): Batches {
    const { kind, variantS, markets } = slice;
    const names = markets.map(({ market }) => market);
    const read = eventMaker(kind, names, variantS);
    const one = new VectorRow();
    const settling = new InOrder<ArchiveEvent>(compareWithin(order));
    const isByReceipt = order === 'received';
    const session = await this.#engine.connect();
    try {
      const pieces = session.vectors('reading events', sql, MADE_TOGETHER);
      for await (const { columns, rows } of pieces) {
        one.columns = columns;
        for (one.row = 0; one.row < rows; one.row += 1) {
          const event = read(one);
          settling.push(isByReceipt ? event.receivedAtUs : one.us(TIME_AT), event);
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
}

function byMarket({ markets }: EventSlice, files: readonly PlacedFile[]): MarketFiles[] {
  return markets.flatMap(({ marketId }, place) => {
    const paths = files.filter((one) => one.marketId === marketId).map((one) => one.absolutePath);
    return paths.length === 0 ? [] : [{ place, paths }];
  });
}
