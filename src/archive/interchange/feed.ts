import { createReadStream } from 'node:fs';
import { PassThrough, Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { SECOND_US } from '../../kernel/durations.js';
import type { RowOf } from '../../model/series.js';
import { fillFile } from '../files.js';
import { csvSql } from '../parquet/columns.js';
import { DuckSession } from '../parquet/session.js';

/**
 * The events of hftbacktest, as its documentation of data has them: what a row is in the low bits of
 * `ev`, whom it concerns and when in the high ones.
 */
export const FEED = {
  depth: 1,
  trade: 2,
  depthClear: 3,
  depthSnapshot: 4,
  /** A buyer took it, or a bid changed. */
  buy: 2 ** 29,
  sell: 2 ** 28,
  /** Seen by the exchange at `exch_ts`, and by the local side at `local_ts`. */
  exchange: 2 ** 31,
  local: 2 ** 30,
} as const;

/** A row before it is known in which order the two sides see it. Decimals are text. */
export interface FeedEvent {
  readonly ev: number;
  readonly exchUs: number;
  readonly localUs: number;
  readonly price: string;
  readonly amount: string;
}

/** The book of one instant; levels best first, decimals as text. */
export type BookSides = Pick<
  RowOf<'depth'>,
  'bidPrices' | 'bidAmounts' | 'askPrices' | 'askAmounts'
>;

type Change = Pick<FeedEvent, 'ev' | 'price' | 'amount'>;
type Levels = Map<number, { readonly price: string; readonly amount: string }>;

const NOTHING = '0';

/**
 * Makes of books what changed between them: the first as a whole, in place of whatever the reader
 * has, the others level by level. A level that leaves the depth that is observed goes to zero, so the
 * reader has what the archive has and nothing else.
 */
export class BookChanges {
  #bids: Levels | undefined;
  #asks: Levels | undefined;

  of({ bidPrices, bidAmounts, askPrices, askAmounts }: BookSides): Change[] {
    const [bids, asks] = [levelsOf(bidPrices, bidAmounts), levelsOf(askPrices, askAmounts)];
    const [before, beforeAsks] = [this.#bids, this.#asks];
    this.#bids = bids;
    this.#asks = asks;
    if (before === undefined || beforeAsks === undefined) {
      return [...whole(bids, FEED.buy), ...whole(asks, FEED.sell)];
    }
    // First what is gone: a new level must not meet an old one of the other side.
    return [
      ...gone(before, bids, FEED.buy),
      ...gone(beforeAsks, asks, FEED.sell),
      ...changed(before, bids, FEED.buy),
      ...changed(beforeAsks, asks, FEED.sell),
    ];
  }
}

/** By the number that the reader will see. */
function levelsOf(prices: readonly string[], amounts: readonly string[]): Levels {
  return new Map(
    prices.map((price, index) => [Number(price), { price, amount: amounts[index] ?? NOTHING }]),
  );
}

function whole(levels: Levels, side: number): Change[] {
  const worst = [...levels.values()].at(-1);
  if (worst === undefined) return [];
  const clear = { ev: FEED.depthClear + side, price: worst.price, amount: NOTHING };
  return [
    clear,
    ...[...levels.values()].map((level) => ({ ev: FEED.depthSnapshot + side, ...level })),
  ];
}

function gone(before: Levels, now: Levels, side: number): Change[] {
  return [...before]
    .filter(([key]) => !now.has(key))
    .map(([, { price }]) => ({ ev: FEED.depth + side, price, amount: NOTHING }));
}

function changed(before: Levels, now: Levels, side: number): Change[] {
  return [...now]
    .filter(([key, { amount }]) => Number(before.get(key)?.amount ?? NOTHING) !== Number(amount))
    .map(([, level]) => ({ ev: FEED.depth + side, ...level }));
}

/** When a trade happened, as far as it is known. */
export function tradeUs({
  executedAtUs,
  tradedAtS,
}: Pick<RowOf<'trade'>, 'executedAtUs' | 'tradedAtS'>): number {
  return executedAtUs ?? tradedAtS * SECOND_US;
}

/** Trades as events: the side is the taker's. */
export async function* tradeEvents(
  trades: AsyncIterable<readonly RowOf<'trade'>[]>,
): AsyncGenerator<FeedEvent[]> {
  for await (const batch of trades) {
    yield batch.map(({ side, executedAtUs, tradedAtS, receivedAtMs, price, amount }) => ({
      ev: FEED.trade + (side === 'buy' ? FEED.buy : FEED.sell),
      exchUs: tradeUs({ executedAtUs, tradedAtS }),
      localUs: Math.round(receivedAtMs * 1000),
      price,
      amount,
    }));
  }
}

/** Observations of the book as events: what changed since the one before. */
export async function* depthEvents(
  books: AsyncIterable<readonly RowOf<'depth'>[]>,
): AsyncGenerator<FeedEvent[]> {
  const changes = new BookChanges();
  for await (const batch of books) {
    for (const book of batch) {
      const exchUs = Math.round(book.observedAtMs * 1000);
      const localUs = Math.round(book.receivedAtMs * 1000);
      yield changes.of(book).map((change) => ({ ...change, exchUs, localUs }));
    }
  }
}

/** The fields of an event of hftbacktest, in their order; each takes eight bytes. */
const EVENT_FIELDS = [
  ['ev', '<u8'],
  ['exch_ts', '<i8'],
  ['local_ts', '<i8'],
  ['px', '<f8'],
  ['qty', '<f8'],
  ['order_id', '<u8'],
  ['ival', '<i8'],
  ['fval', '<f8'],
] as const;

const EVENT_BYTES = EVENT_FIELDS.length * 8;
const US_TO_NS = 1000n;

/** What stands before the length of the heading: its magic bytes and version 1.0. */
const MAGIC = Buffer.from('\x93NUMPY\x01\x00', 'latin1');
/** Readers map the rows as they lie, which must then be at the start of a cache line. */
const ALIGNMENT = 64;

/** What an array of so many events begins with in a file of numpy (format version 1.0). */
function npyHead(rows: number): Buffer {
  const fields = EVENT_FIELDS.map(([name, type]) => `('${name}', '${type}')`).join(', ');
  const text = `{'descr': [${fields}], 'fortran_order': False, 'shape': (${rows},), }`;
  const before = MAGIC.length + 2;
  const length = Math.ceil((before + text.length + 1) / ALIGNMENT) * ALIGNMENT - before;
  const size = Buffer.alloc(2);
  size.writeUInt16LE(length);
  return Buffer.concat([MAGIC, size, Buffer.from(`${text.padEnd(length - 1)}\n`, 'latin1')]);
}

/** How the local side comes to know an event. */
export type Latency =
  /** When the collector did. */
  | { readonly kind: 'received' }
  /** Always so long after it happened. */
  | { readonly kind: 'fixed'; readonly latencyUs: number };

/** What is known of the events once all of them were seen. */
export interface FeedFacts {
  readonly events: number;
  /** Events that reached the collector more than a minute after, or before, they happened. */
  readonly farOff: number;
  /** The least time between happening and being received; negative when the clocks disagree. */
  readonly leastLatencyUs: number;
}

/** Paths of files that are needed until the end. */
type Scratch = (name: string) => string;

const FAR_US = 60_000_000;

const STAGED_COLUMNS = `'place': 'BIGINT', 'exch': 'BIGINT', 'local': 'BIGINT', 'ev': 'BIGINT',
  'px': 'DOUBLE', 'qty': 'DOUBLE'`;
const stagedSql = (scratch: Scratch) => csvSql(scratch('events.csv'), STAGED_COLUMNS);

/** Gathers events on the disk; those of the same instant keep the order in which they come. */
export async function stageEvents(
  scratch: Scratch,
  events: AsyncIterable<readonly FeedEvent[]>,
): Promise<void> {
  let count = 0;
  await fillFile(scratch('events.csv'), async (add) => {
    for await (const batch of events) {
      const lines = batch.map(({ ev, exchUs, localUs, price, amount }) => {
        count += 1;
        return `${count},${exchUs},${localUs},${ev},${price},${amount}\n`;
      });
      if (lines.length > 0) await add(Buffer.from(lines.join(''), 'latin1'));
    }
  });
}

/**
 * Puts gathered events into the order that hftbacktest asks for: ascending in `exch_ts` for those that
 * the exchange side sees, and in `local_ts` for those that the local side sees. An event that comes at
 * another place in the two orders is there twice, once for each side.
 *
 * @param check receives facts about the events, and may throw
 */
export async function sealEvents(
  scratch: Scratch,
  latency: Latency,
  check: (facts: FeedFacts) => void,
  signal: AbortSignal,
): Promise<{ readonly rows: number; readonly facts: FeedFacts }> {
  using duck = await DuckSession.open(scratch('spill'), {}, signal);
  const [row] = await duck.rows(
    'looking at events',
    `SELECT count(*), count(*) FILTER (abs(local - exch) > ${FAR_US}),
         coalesce(min(local - exch), 0) FROM ${stagedSql(scratch)}`,
  );
  const [events = 0, farOff = 0, leastLatencyUs = 0] = (row ?? []).map(Number);
  const facts = { events, farOff, leastLatencyUs };
  check(facts);
  const isFixed = latency.kind === 'fixed';
  const local = isFixed
    ? `exch + ${Math.trunc(latency.latencyUs)}`
    : `local + ${Math.max(0, -leastLatencyUs)}`;
  const sorted = async function* (session: DuckSession, order: string) {
    const sql = `SELECT place, exch, ${local} AS local, ev, px, qty FROM ${stagedSql(scratch)} ORDER BY ${order}`;
    const { chunks } = await session.result('sorting events', sql);
    for await (const columns of chunks) {
      for (const row of columns[0]?.keys() ?? []) {
        yield columns.map((values) => values[row]) as unknown as SortedEvent;
      }
    }
  };
  const byExchange = sorted(duck, 'exch, place');
  using beside = await duck.beside();
  const rows = await fillFile(scratch('feed'), async (add) => {
    if (isFixed) return await writeEvents(byExchange, add);
    return await writeMerged(byExchange, sorted(beside, 'local, exch, place'), add);
  });
  return { rows, facts };
}

/** Its place among all events, times in microseconds, and what it says. */
type SortedEvent = readonly [
  place: bigint,
  exch: bigint,
  local: bigint,
  ev: bigint,
  px: number,
  qty: number,
];

type Add = (bytes: Uint8Array) => Promise<void>;

/** The bytes of an event in the array; what it does not have is zero. */
function eventBytes([, exch, local, ev, px, qty]: SortedEvent, flags: number): Buffer {
  const bytes = Buffer.alloc(EVENT_BYTES);
  bytes.writeBigUInt64LE(ev + BigInt(flags), 0);
  bytes.writeBigInt64LE(exch * US_TO_NS, 8);
  bytes.writeBigInt64LE(local * US_TO_NS, 16);
  bytes.writeDoubleLE(px, 24);
  bytes.writeDoubleLE(qty, 32);
  return bytes;
}

/** Events that both sides see in one order. Returns the number of rows. */
async function writeEvents(events: AsyncIterable<SortedEvent>, add: Add): Promise<number> {
  let rows = 0;
  for await (const event of events) {
    await add(eventBytes(event, FEED.exchange + FEED.local));
    rows += 1;
  }
  return rows;
}

/** Whether an event is before another one in the order of the exchange's time. */
function isBefore([place, exch]: SortedEvent, [otherPlace, other]: SortedEvent): boolean {
  return exch < other || (exch === other && place < otherPlace);
}

/** The same events in two orders as one: an event at the head of both is one row. */
async function writeMerged(
  byExchange: AsyncGenerator<SortedEvent>,
  byLocal: AsyncGenerator<SortedEvent>,
  add: Add,
): Promise<number> {
  let rows = 0;
  let exchange = (await byExchange.next()).value as SortedEvent | undefined;
  let local = (await byLocal.next()).value as SortedEvent | undefined;
  while (exchange !== undefined || local !== undefined) {
    const isLocal = local !== undefined && (exchange === undefined || !isBefore(exchange, local));
    const isExchange =
      exchange !== undefined && (local === undefined || !isBefore(local, exchange));
    const flags = (isExchange ? FEED.exchange : 0) + (isLocal ? FEED.local : 0);
    await add(eventBytes((isExchange ? exchange : local) as SortedEvent, flags));
    rows += 1;
    if (isExchange) exchange = (await byExchange.next()).value as SortedEvent | undefined;
    if (isLocal) local = (await byLocal.next()).value as SortedEvent | undefined;
  }
  return rows;
}

/** The sealed events as an array of numpy. */
export async function* feedContent(scratch: Scratch, rows: number): AsyncGenerator<Uint8Array> {
  yield npyHead(rows);
  for await (const piece of createReadStream(scratch('feed'))) yield piece as Buffer;
}

/** Half the time of the default, and a twentieth more bytes of what is written here. */
const LEVEL = 4;
const READABLE_BY_ALL = 0o100_644;

/**
 * A zip archive of one file, as it comes.
 *
 * @param content what the file holds; its errors are those of the reader of this
 * @param madeAt written into the archive
 */
export async function* zipOne(
  name: string,
  content: AsyncIterable<Uint8Array>,
  madeAt: Date,
): AsyncGenerator<Buffer> {
  const zip = new ZipFile();
  const source = Readable.from(content, { objectMode: false });
  const output = new PassThrough();
  const fail = (error: Error) => output.destroy(error);
  source.once('error', fail);
  zip.once('error', fail);
  zip.outputStream.pipe(output);
  zip.addReadStream(source, name, {
    ...{ mtime: madeAt, mode: READABLE_BY_ALL, compressionLevel: LEVEL },
  });
  zip.end();
  try {
    for await (const piece of output) yield piece as Buffer;
  } finally {
    source.destroy();
    output.destroy();
  }
}
