import { createReadStream } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { PassThrough, Readable } from 'node:stream';
import { ZipFile } from 'yazl';
import { BlockWriter } from '../export/blocks.js';
import { DuckSession, literal } from '../parquet/session.js';
import { FEED, type FeedEvent } from './feed-events.js';

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

const FIELD_BYTES = 8;
const EVENT_BYTES = EVENT_FIELDS.length * FIELD_BYTES;

/** At which byte of an event a field begins. */
const EVENT_PLACES = {
  ev: 0,
  exch_ts: 8,
  local_ts: 16,
  px: 24,
  qty: 32,
  order_id: 40,
} as const;

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
const US_TO_NS = 1000n;

/**
 * Gathers events on the disk, then puts them into the order that hftbacktest asks for: ascending in
 * `exch_ts` for those that the exchange side sees, and in `local_ts` for those that the local side
 * sees. An event that comes at another place in the two orders is there twice, once for each side.
 *
 * States: *gathering* → {@link seal} → *sealed* → {@link content}.
 */
export class FeedFile {
  readonly #scratch: Scratch;
  readonly #signal: AbortSignal;
  readonly #staged: FileHandle;
  readonly #blocks: BlockWriter;
  #count = 0;

  private constructor(scratch: Scratch, signal: AbortSignal, staged: FileHandle) {
    this.#scratch = scratch;
    this.#signal = signal;
    this.#staged = staged;
    this.#blocks = new BlockWriter(staged);
  }

  static async open(scratch: Scratch, signal: AbortSignal): Promise<FeedFile> {
    return new FeedFile(scratch, signal, await open(scratch('events.csv'), 'wx', 0o600));
  }

  /** Events of the same instant keep the order in which they are added. */
  async add(events: readonly FeedEvent[]): Promise<void> {
    if (events.length === 0) return;
    const lines = events.map(({ ev, exchUs, localUs, price, amount }) => {
      this.#count += 1;
      return `${this.#count},${exchUs},${localUs},${ev},${price},${amount}\n`;
    });
    await this.#blocks.add(Buffer.from(lines.join(''), 'latin1'));
  }

  async close(): Promise<void> {
    await this.#staged.close();
  }

  /** @param judge receives facts about the events, and may throw */
  async seal(
    latency: Latency,
    judge: (facts: FeedFacts) => void,
  ): Promise<{ readonly rows: number; readonly facts: FeedFacts }> {
    await this.#blocks.flush();
    const duck = await DuckSession.open(this.#scratch('spill'), {}, this.#signal);
    try {
      const facts = await this.#facts(duck);
      judge(facts);
      const isFixed = latency.kind === 'fixed';
      const local = isFixed
        ? `exch + ${Math.trunc(latency.latencyUs)}`
        : `local + ${Math.max(0, -facts.leastLatencyUs)}`;
      const flags = isFixed ? FEED.exchange + FEED.local : 0;
      const first = isFixed ? 'feed' : 'by-exchange';
      const from = `SELECT place, exch, ${local} AS local, ev, px, qty FROM ${this.#source()}`;
      await this.#sort(duck, `${from} ORDER BY exch, place`, first, flags);
      if (isFixed) return { rows: facts.events, facts };
      await this.#sort(duck, `${from} ORDER BY local, exch, place`, 'by-local', 0);
      const rows = await mergeOrders(
        this.#scratch('by-exchange'),
        this.#scratch('by-local'),
        this.#scratch('feed'),
        this.#signal,
      );
      return { rows, facts };
    } finally {
      duck.close();
    }
  }

  /** The sealed events as an array of numpy. */
  async *content(rows: number): AsyncGenerator<Uint8Array> {
    yield npyHead(rows);
    for await (const piece of createReadStream(this.#scratch('feed'))) yield piece as Buffer;
  }

  #source(): string {
    return `read_csv(${literal(this.#scratch('events.csv'))}, auto_detect = false, header = false,
      delim = ',', columns = {'place': 'BIGINT', 'exch': 'BIGINT', 'local': 'BIGINT',
      'ev': 'BIGINT', 'px': 'DOUBLE', 'qty': 'DOUBLE'})`;
  }

  async #facts(duck: DuckSession): Promise<FeedFacts> {
    const [row] = await duck.rows(
      'looking at events',
      `SELECT count(*), count(*) FILTER (abs(local - exch) > ${FAR_US}),
         coalesce(min(local - exch), 0) FROM ${this.#source()}`,
    );
    const [events, farOff, leastLatencyUs] = (row ?? []).map(Number);
    return { events: events ?? 0, farOff: farOff ?? 0, leastLatencyUs: leastLatencyUs ?? 0 };
  }

  /** Writes the events of a statement as they will be, with their place where ids of orders belong. */
  async #sort(duck: DuckSession, sql: string, name: string, flags: number): Promise<void> {
    const file = await open(this.#scratch(name), 'wx', 0o600);
    try {
      const blocks = new BlockWriter(file);
      for await (const columns of duck.columns('sorting events', sql)) {
        const [place = [], exch = [], local = [], ev = [], px = [], qty = []] = columns;
        const bytes = Buffer.alloc(place.length * EVENT_BYTES);
        for (let row = 0; row < place.length; row += 1) {
          const at = row * EVENT_BYTES;
          bytes.writeBigUInt64LE((ev[row] as bigint) + BigInt(flags), at + EVENT_PLACES.ev);
          bytes.writeBigInt64LE((exch[row] as bigint) * US_TO_NS, at + EVENT_PLACES.exch_ts);
          bytes.writeBigInt64LE((local[row] as bigint) * US_TO_NS, at + EVENT_PLACES.local_ts);
          bytes.writeDoubleLE(px[row] as number, at + EVENT_PLACES.px);
          bytes.writeDoubleLE(qty[row] as number, at + EVENT_PLACES.qty);
          if (flags === 0) {
            bytes.writeBigUInt64LE(place[row] as bigint, at + EVENT_PLACES.order_id);
          }
        }
        await blocks.add(bytes);
      }
      await blocks.flush();
    } finally {
      await file.close();
    }
  }
}

/** The events of a file, one after the other. */
class EventReader {
  readonly #file: FileHandle;
  readonly #block = Buffer.allocUnsafe(4096 * EVENT_BYTES);
  #used = 0;
  #at = 0;

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** The present event, or undefined behind the last one; valid until {@link next}. */
  async event(): Promise<Buffer | undefined> {
    if (this.#at === this.#used) {
      this.#at = 0;
      this.#used = 0;
      while (this.#used % EVENT_BYTES !== 0 || this.#used === 0) {
        const rest = this.#block.length - this.#used;
        const { bytesRead } = await this.#file.read(this.#block, this.#used, rest);
        if (bytesRead === 0) return undefined;
        this.#used += bytesRead;
      }
    }
    return this.#block.subarray(this.#at, this.#at + EVENT_BYTES);
  }

  next(): void {
    this.#at += EVENT_BYTES;
  }
}

/** Whether the event is before the other one in the order of the exchange's time. */
function isBefore(one: Buffer, other: Buffer): boolean {
  const [a, b] = [one, other].map((event) => event.readBigInt64LE(EVENT_PLACES.exch_ts));
  if (a !== b) return (a ?? 0n) < (b ?? 0n);
  return one.readBigUInt64LE(EVENT_PLACES.order_id) < other.readBigUInt64LE(EVENT_PLACES.order_id);
}

async function mergeOrders(
  byExchange: string,
  byLocal: string,
  target: string,
  signal: AbortSignal,
): Promise<number> {
  const files = [await open(byExchange, 'r'), await open(byLocal, 'r')] as const;
  const out = await open(target, 'wx', 0o600);
  let rows = 0;
  try {
    const [exchange, local] = files.map((file) => new EventReader(file)) as [
      EventReader,
      EventReader,
    ];
    const blocks = new BlockWriter(out);
    const put = async (event: Buffer, flags: number): Promise<void> => {
      const ev = event.readBigUInt64LE(EVENT_PLACES.ev) + BigInt(flags);
      const bytes = Buffer.from(event);
      bytes.writeBigUInt64LE(ev, EVENT_PLACES.ev);
      bytes.writeBigUInt64LE(0n, EVENT_PLACES.order_id);
      await blocks.add(bytes);
      rows += 1;
    };
    for (;;) {
      if (rows % 4096 === 0) signal.throwIfAborted();
      const [one, other] = [await exchange.event(), await local.event()];
      if (one === undefined && other === undefined) break;
      if (other === undefined || (one !== undefined && isBefore(one, other))) {
        if (one !== undefined) await put(one, FEED.exchange);
        exchange.next();
      } else if (one === undefined || isBefore(other, one)) {
        await put(other, FEED.local);
        local.next();
      } else {
        await put(one, FEED.exchange + FEED.local);
        exchange.next();
        local.next();
      }
    }
    await blocks.flush();
  } finally {
    for (const file of [...files, out]) await file.close();
  }
  return rows;
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
