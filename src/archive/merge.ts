/** One order of rows that come from several places. */

/** Rows in order, some at a time; none of the lists is empty. */
export type Batches<Row> = AsyncGenerator<Row[], void, undefined>;

/** Order of two rows. */
export interface RowOrder<Row> {
  timeOf(row: Row): number;
  /** Negative when `a` comes first. */
  compare(a: Row, b: Row): number;
}

/** A part of the rows, in order by itself. */
export interface Source<Row> {
  /** Decides among rows of the same time; sources with the same rank compare their rows. */
  readonly rank: number;
  readonly batches: Batches<Row>;
}

/** Rows that go out together at most; less when a source has to be waited for. */
const BATCH_MAX = 256;

/** A source and how far it was read. */
interface Cursor<Row> {
  readonly source: Source<Row>;
  batch: readonly Row[];
  at: number;
  row: Row;
  time: number;
}

/**
 * One order of several. It holds one batch of each source, and asks a source for more only when its
 * batch is used up, so that the slowest reader sets the pace of all. When it is left early the sources
 * are ended.
 */
export async function* mergeSources<Row>(
  sources: readonly Source<Row>[],
  order: RowOrder<Row>,
): Batches<Row> {
  try {
    const opened = await Promise.all(
      sources.map(async (source) => {
        const cursor = { source, batch: [], at: 0, row: undefined as Row, time: 0 };
        return (await refill(cursor, order)) ? cursor : undefined;
      }),
    );
    let cursors = opened.filter((one) => one !== undefined);
    let out: Row[] = [];
    while (cursors.length > 0) {
      const first = firstOf(cursors, order);
      const isLeft = drain(first, limitOf(cursors, first), out, order);
      if (isLeft && out.length < BATCH_MAX) continue;
      yield out;
      out = [];
      if (isLeft || (await refill(first, order))) continue;
      cursors = cursors.filter((one) => one !== first);
    }
  } finally {
    await Promise.all(sources.map(({ batches }) => batches.return(undefined)));
  }
}

/** Merges sources of one rank, of which there is at least one. */
export function inOneOrder<Row>(all: readonly Batches<Row>[], order: RowOrder<Row>): Batches<Row> {
  const [only, ...others] = all;
  if (only !== undefined && others.length === 0) return only;
  return mergeSources(
    all.map((batches) => ({ rank: 0, batches })),
    order,
  );
}

/** Returns true if there was more. */
async function refill<Row>(cursor: Cursor<Row>, order: RowOrder<Row>): Promise<boolean> {
  const next = await cursor.source.batches.next();
  if (next.done === true) return false;
  cursor.batch = next.value;
  cursor.at = 0;
  cursor.row = next.value[0] as Row;
  cursor.time = order.timeOf(cursor.row);
  return true;
}

function firstOf<Row>(cursors: readonly Cursor<Row>[], order: RowOrder<Row>): Cursor<Row> {
  let first = cursors[0] as Cursor<Row>;
  for (let index = 1; index < cursors.length; index += 1) {
    const one = cursors[index] as Cursor<Row>;
    if (one.time > first.time) continue;
    const isBefore =
      one.time < first.time ||
      one.source.rank < first.source.rank ||
      (one.source.rank === first.source.rank && order.compare(one.row, first.row) < 0);
    if (isBefore) first = one;
  }
  return first;
}

/** The earliest time of the others: up to it nothing needs to be compared. */
function limitOf<Row>(cursors: readonly Cursor<Row>[], first: Cursor<Row>): number {
  let limit = Number.POSITIVE_INFINITY;
  for (const one of cursors) if (one !== first && one.time < limit) limit = one.time;
  return limit;
}

/** Moves the first row, and those after it that come before all others. Whether any are left. */
function drain<Row>(cursor: Cursor<Row>, limit: number, out: Row[], order: RowOrder<Row>): boolean {
  const { batch } = cursor;
  let { at } = cursor;
  out.push(cursor.row);
  at += 1;
  while (at < batch.length) {
    const row = batch[at] as Row;
    const time = order.timeOf(row);
    if (time >= limit || out.length >= BATCH_MAX) {
      cursor.at = at;
      cursor.row = row;
      cursor.time = time;
      return true;
    }
    out.push(row);
    at += 1;
  }
  return false;
}

/**
 * Puts rows that come in the order of a key into their final order. Rows with the same key may come in
 * any order, and have to come all before one of them goes out: so much is held and no more.
 */
export class InOrder<Row> {
  readonly #compare: (a: Row, b: Row) => number;
  #rows: Row[] = [];
  #key: unknown;
  /** Start of the rows of the current key. */
  #start = 0;
  #isSorted = true;

  constructor(compare: (a: Row, b: Row) => number) {
    this.#compare = compare;
  }

  push(key: string | number, row: Row): void {
    const rows = this.#rows;
    if (key !== this.#key) {
      if (!this.#isSorted) this.#sort();
      this.#start = rows.length;
      this.#key = key;
    } else {
      const last = rows[rows.length - 1];
      if (last !== undefined && this.#compare(last, row) > 0) this.#isSorted = false;
    }
    rows.push(row);
  }

  /** The rows whose place is settled. */
  take(): Row[] {
    const rest = this.#rows.splice(this.#start);
    const settled = this.#rows;
    this.#rows = rest;
    this.#start = 0;
    return settled;
  }

  /** All that is left, after the last row. */
  end(): Row[] {
    if (!this.#isSorted) this.#sort();
    const settled = this.#rows;
    this.#rows = [];
    this.#start = 0;
    this.#key = undefined;
    return settled;
  }

  #sort(): void {
    const group = this.#rows.splice(this.#start).sort(this.#compare);
    for (const row of group) this.#rows.push(row);
    this.#isSorted = true;
  }
}
