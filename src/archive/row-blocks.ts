import { SECOND_US } from '../kernel/durations.js';
import {
  type MergedKind,
  type RowOfKind,
  rowColumns,
  rowPlaces,
  tableOfKind,
} from '../model/kinds.js';
import { seriesOf } from '../model/series.js';
import type { ArchiveSnapshot, MergedSlice } from '../store/index.js';
import { type Batches, InOrder, type RowOrder } from './merge.js';
import type { RowVectors } from './parquet/session.js';
import { shortest } from './parquet/values.js';

/**
 * Rows of one series, the same wherever they lie: those of the database come as lines of COPY, those of
 * files as vectors of DuckDB, and both are read by the places that the registry gives their columns.
 */

/** A row: the place of its market, then its columns as `rowPlaces` has them. Values are made when asked for. */
export interface ArchiveRow {
  isNull(at: number): boolean;
  /** A time, UNIX microseconds. */
  us(at: number): number;
  number(at: number): number;
  /** Decimals as they were kept: in files with the digits of their column. Lists with `|` between. */
  text(at: number): string;
  /** The text of a decimal as the archive has it: what only the column of a file added is taken off. */
  decimal(text: string): string;
  /** Something that is the same for the same time. */
  timeKey(at: number): string | number;
}

/** Some rows, one at a time, until the next block comes. */
export interface RowBlock extends ArchiveRow {
  readonly rows: number;
  move(row: number): void;
}

/** Result of a reader for rows; orders those of several markets at one time. */
export interface RowMaker<Row> extends RowOrder<Row> {
  make(row: ArchiveRow): Row;
}

/** Column of the time of a row. */
const TIME_AT = 1;
const NULL = '\\N';
/**
 * Rows that are made together, before those of another source. What waits long is moved by the garbage
 * collector, which costs more than making it.
 */
export const MADE_TOGETHER = 32;

const INSTANT = /^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?\+00$/;

/**
 * Reads `2026-01-31 12:00:00.5+00`, UTC. Rows that follow each other are mostly of the same minute,
 * which is taken apart once.
 */
class Instants {
  #minute = '';
  #minuteUs = 0;

  us(text: string): number {
    if (!text.startsWith(this.#minute) || this.#minute === '') {
      if (!INSTANT.test(text)) throw new RangeError(`invalid timestamp: "${text}"`);
      this.#minute = text.slice(0, 16);
      this.#minuteUs = Date.parse(`${this.#minute.replace(' ', 'T')}Z`) * 1000;
    }
    const ten = text.charCodeAt(17) - 48;
    const seconds = ten * 10 + text.charCodeAt(18) - 48;
    let us = this.#minuteUs + seconds * SECOND_US;
    if (text.charCodeAt(19) !== 46) return us;
    for (let at = 20, unit = 100_000; unit >= 1; at += 1, unit /= 10) {
      const digit = text.charCodeAt(at) - 48;
      if (!(digit >= 0)) break;
      us += digit * unit;
    }
    return us;
  }
}

/** Rows of the database: fields of lines. */
class LineBlock implements RowBlock {
  rows = 0;
  #lines: readonly string[] = [];
  #from = 0;
  #fields: readonly string[] = [];
  // Rows next to each other are of one minute, and were received in another.
  readonly #instants = new Instants();
  readonly #received = new Instants();

  take(lines: readonly string[], from: number, rows: number): void {
    this.#lines = lines;
    this.#from = from;
    this.rows = rows;
  }

  move(row: number): void {
    this.#fields = (this.#lines[this.#from + row] ?? '').split('\t');
  }

  isNull(at: number): boolean {
    return this.#fields[at] === NULL;
  }

  us(at: number): number {
    const instants = at === this.#fields.length - 1 ? this.#received : this.#instants;
    return instants.us(this.#fields[at] ?? '');
  }

  number(at: number): number {
    return Number(this.#fields[at]);
  }

  text(at: number): string {
    return this.#fields[at] ?? '';
  }

  decimal(text: string): string {
    return text;
  }

  timeKey(at: number): string {
    return this.text(at);
  }
}

/** Rows of files: places in columns. */
export class VectorBlock implements RowBlock {
  rows = 0;
  #columns: RowVectors['columns'] = [];
  #row = 0;

  take({ columns, rows }: RowVectors): void {
    this.#columns = columns;
    this.rows = rows;
  }

  move(row: number): void {
    this.#row = row;
  }

  isNull(at: number): boolean {
    return (this.#columns[at]?.getItem(this.#row) ?? null) === null;
  }

  us(at: number): number {
    return this.#columns[at]?.getItem(this.#row) as number;
  }

  number(at: number): number {
    return this.us(at);
  }

  text(at: number): string {
    return this.#columns[at]?.getItem(this.#row) as string;
  }

  decimal(text: string): string {
    return shortest(text);
  }

  timeKey(at: number): number {
    return this.us(at);
  }
}

/** Rows of one statement in the database. */
export async function* hotBlocks(
  snapshot: ArchiveSnapshot,
  slice: MergedSlice,
  signal: AbortSignal | undefined,
): AsyncGenerator<RowBlock> {
  const block = new LineBlock();
  let open = '';
  for await (const piece of snapshot.merged(slice, signal)) {
    // Digits, times and words of the registry: a byte is a character.
    const lines = (open + piece.toString('latin1')).split('\n');
    open = lines.pop() ?? '';
    for (let from = 0; from < lines.length; from += MADE_TOGETHER) {
      block.take(lines, from, Math.min(MADE_TOGETHER, lines.length - from));
      yield block;
    }
  }
}

/** Column of the receipt of a row. */
export function receivedAt(kind: MergedKind): number {
  const table = tableOfKind(kind);
  return rowPlaces(table).get(seriesOf(table).received) ?? TIME_AT;
}

/** Makes rows of blocks, in batches of which the order is settled. */
export async function* makeRows<Row>(
  blocks: AsyncIterable<RowBlock>,
  { kind, isByReceipt }: Pick<MergedSlice, 'kind' | 'isByReceipt'>,
  maker: RowMaker<Row>,
): Batches<Row> {
  const settling = new InOrder<Row>((a, b) => maker.compare(a, b));
  const keyAt = isByReceipt ? receivedAt(kind) : TIME_AT;
  for await (const block of blocks) {
    for (let row = 0; row < block.rows; row += 1) {
      block.move(row);
      settling.push(block.timeKey(keyAt), maker.make(block));
    }
    const settled = settling.take();
    if (settled.length > 0) yield settled;
  }
  const rest = settling.end();
  if (rest.length > 0) yield rest;
}

/** Rows as this program has them, of one market or several in any order at one time. */
export function rowMaker<Kind extends MergedKind>(
  kind: Kind,
  marketIds: readonly number[],
  variantS: number,
  decimalOf = (row: ArchiveRow, text: string) => row.decimal(text),
): RowMaker<RowOfKind<Kind>> {
  const table = tableOfKind(kind);
  const places = rowPlaces(table);
  const at = (name: string) => places.get(name) ?? 0;
  const columns = rowColumns(table);
  const lists = columns.filter(({ type }) => type.form === 'decimals');
  const listsAt = at(lists[0]?.name ?? '');
  const fields = columns.flatMap(({ field, name, type }) => {
    if (field === null || type.form === 'decimals') return [];
    return [{ field, type, place: at(name) }];
  });
  const readValue = (row: ArchiveRow, { type, place }: (typeof fields)[number]) => {
    if (row.isNull(place)) return null;
    if (type.form === 'timestamp') return type.decode(row.us(place));
    if (type.form === 'integer') return row.number(place);
    return type.form === 'decimal' ? decimalOf(row, row.text(place)) : type.decode(row.text(place));
  };
  const { variant, columns: declared } = seriesOf(table);
  const variantField = declared.find(({ name }) => name === variant)?.field ?? null;
  const make = (row: ArchiveRow) => {
    const made: Record<string, unknown> = { marketId: marketIds[row.number(0)] };
    if (variantField !== null) made[variantField] = variantS;
    for (const one of fields) made[one.field] = readValue(row, one);
    const texts = lists.length === 0 ? [] : row.text(listsAt).split('|');
    for (const [index, { field }] of lists.entries()) {
      const text = texts[index] ?? '';
      const values = text === '' ? [] : text.split(' ').map((one) => decimalOf(row, one));
      if (field !== null) made[field] = values;
    }
    return made as RowOfKind<Kind>;
  };
  return { make, timeOf: () => 0, compare: () => 0 };
}
