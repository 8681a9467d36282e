import { SECOND_US } from '../kernel/durations.js';
import { firstNot } from '../kernel/sorted.js';
import { floorToMs, type Span } from '../kernel/span.js';
import { rowPlaces, type SeriesKind, tableOfKind } from '../model/kinds.js';
import type { RowOf } from '../model/series.js';
import { type BuiltCandle, CandleMaker, joinCandles } from './candles.js';
import { shortest } from './parquet/values.js';
import { type ArchiveRow, type RowMaker, rowMaker } from './row-blocks.js';

/**
 * Rows of one series of one market in one slice of time, in columns. A row is a few numbers and a text; answers are made
 * of it when somebody asks. Loaded blocks are kept as far as a budget of bytes goes.
 */

/** A series of one market. */
export interface BlockSeries {
  readonly kind: SeriesKind;
  readonly marketId: number;
  /** Interval or period in seconds; 0 for the other kinds. */
  readonly variantS: number;
}

/** A trade of a block. */
export type PastTrade = Pick<
  RowOf<'trade'>,
  'tid' | 'tradedAtS' | 'executedAtUs' | 'price' | 'amount' | 'total' | 'side'
>;

/** Flag of a trade whose taker bought, and of a state that was pushed. */
const FLAGGED = 1;
/** Trades whose candle is kept as one, so that the candle of a whole day is soon made. */
const CHUNK = 256;
/** An interval in which all time is one candle. */
const ALL_TIME_S = Number.MAX_SAFE_INTEGER;
/** Memory of a block beside its columns. */
const OVERHEAD_BYTES = 500;

/** The columns of a block. */
interface Columns {
  /** UNIX milliseconds. */
  readonly time: Float64Array;
  /** Id of a trade, number of a state. */
  readonly id: Float64Array;
  readonly flag: Uint8Array;
  /** Exact times of trades, UNIX microseconds; NaN while unknown. */
  readonly exec: Float64Array;
  /** Times from which trades are visible, UNIX microseconds; none is less than the one before. */
  readonly seen: Float64Array;
  readonly text: Buffer;
  /** Ends of the texts of rows. */
  readonly ends: Uint32Array;
}

export class Block {
  readonly span: Span;
  readonly rows: number;
  readonly bytes: number;
  readonly #columns: Columns;
  #chunks: (BuiltCandle | undefined)[] = [];

  constructor(span: Span, columns: Columns) {
    this.span = span;
    this.#columns = columns;
    this.rows = columns.time.length;
    const sizes = Object.values(columns).map(({ byteLength }) => byteLength);
    this.bytes = sizes.reduce((sum, size) => sum + size, OVERHEAD_BYTES);
  }

  /** Rows before a time, UNIX milliseconds. */
  before(ms: number): number {
    const { time } = this.#columns;
    return firstNot(this.rows, (at) => (time[at] ?? 0) < ms);
  }

  /** Trades that are visible at a time, UNIX microseconds. */
  visible(us: number): number {
    const { seen } = this.#columns;
    return firstNot(this.rows, (at) => (seen[at] ?? 0) <= us);
  }

  timeMs(at: number): number {
    return this.#columns.time[at] ?? Number.NaN;
  }

  seenUs(at: number): number {
    return this.#columns.seen[at] ?? Number.NaN;
  }

  id(at: number): number {
    return this.#columns.id[at] ?? Number.NaN;
  }

  /** Returns true for a purchase, and for a state that was pushed. */
  isFlagged(at: number): boolean {
    return this.#columns.flag[at] === FLAGGED;
  }

  text(at: number): string {
    const { text, ends } = this.#columns;
    return text.toString('latin1', at === 0 ? 0 : ends[at - 1], ends[at]);
  }

  trade(at: number): PastTrade {
    const [price = '', amount = '', total = ''] = this.text(at).split(' ');
    const exec = this.#columns.exec[at] ?? Number.NaN;
    return {
      ...{ tid: this.id(at), tradedAtS: this.timeMs(at) / 1000, price, amount, total },
      executedAtUs: Number.isNaN(exec) ? null : exec,
      side: this.isFlagged(at) ? 'buy' : 'sell',
    };
  }

  /** Candles of the trades from one place to before another, oldest first. */
  candles(intervalS: number, from: number, to: number): BuiltCandle[] {
    const candles: BuiltCandle[] = [];
    for (let start = from; start < to; ) {
      const openAtS = Math.floor(this.timeMs(start) / 1000 / intervalS) * intervalS;
      const end = Math.min(to, this.before((openAtS + intervalS) * 1000));
      candles.push({ ...this.#candle(start, end), openAtS });
      start = end;
    }
    return candles;
  }

  #candle(from: number, to: number): BuiltCandle {
    let candle: BuiltCandle | undefined;
    for (let at = from; at < to; ) {
      const chunk = Math.floor(at / CHUNK);
      const isWhole = at % CHUNK === 0 && at + CHUNK <= to;
      const end = Math.min(to, (chunk + 1) * CHUNK);
      const part = isWhole ? (this.#chunks[chunk] ?? this.#sum(at, end)) : this.#sum(at, end);
      if (isWhole) this.#chunks[chunk] = part;
      candle = candle === undefined ? part : joinCandles(candle, part);
      at = end;
    }
    const { volume, quoteVolume, ...prices } = candle as BuiltCandle;
    return { ...prices, volume: shortest(volume), quoteVolume: shortest(quoteVolume) };
  }

  #sum(from: number, to: number): BuiltCandle {
    const maker = new CandleMaker(ALL_TIME_S);
    for (let at = from; at < to; at += 1) maker.add(this.trade(at));
    return maker.end() as BuiltCandle;
  }
}

/** Puts the text of a row and its numbers into columns. */
type Writer = (row: ArchiveRow, columns: GrowingColumns) => void;

class GrowingColumns {
  #rows = 0;
  #bytes = 0;
  #numbers = [0, 1, 2, 3].map(() => new Float64Array(1024));
  #flag = new Uint8Array(1024);
  #ends = new Uint32Array(1024);
  #text = Buffer.allocUnsafe(65_536);

  add(ms: number, id: number, isFlagged: boolean, text: string, exec = NaN, seen = NaN): void {
    const at = this.#rows;
    if (at === this.#flag.length) this.#grow();
    if (this.#bytes + text.length > this.#text.length) this.#growText(text.length);
    const [time, ids, execs, seens] = this.#numbers as [
      ...[Float64Array, Float64Array, Float64Array, Float64Array],
    ];
    time[at] = ms;
    ids[at] = id;
    execs[at] = exec;
    // A trade is never visible before one that comes before it: nobody would look for it there again.
    seens[at] = at === 0 ? seen : Math.max(seen, seens[at - 1] ?? seen);
    this.#flag[at] = isFlagged ? FLAGGED : 0;
    this.#bytes += this.#text.write(text, this.#bytes, 'latin1');
    this.#ends[at] = this.#bytes;
    this.#rows += 1;
  }

  block(span: Span, isOfTrades: boolean): Block {
    const rows = this.#rows;
    const [time, id, exec, seen] = this.#numbers.map((one, at) =>
      one.slice(0, at < 2 || isOfTrades ? rows : 0),
    ) as [Float64Array, Float64Array, Float64Array, Float64Array];
    // Copies: what is not used of a large one would stay with it.
    const text = Buffer.from(this.#text.subarray(0, this.#bytes));
    const rest = { flag: this.#flag.slice(0, rows), ends: this.#ends.slice(0, rows), text };
    return new Block(span, { time, id, exec, seen, ...rest });
  }

  #grow(): void {
    const length = this.#flag.length * 2;
    const larger = <T extends { set(from: T): void }>(from: T, made: T) => {
      made.set(from);
      return made;
    };
    this.#numbers = this.#numbers.map((one) => larger(one, new Float64Array(length)));
    this.#flag = larger(this.#flag, new Uint8Array(length));
    this.#ends = larger(this.#ends, new Uint32Array(length));
  }

  #growText(more: number): void {
    const larger = Buffer.allocUnsafe(Math.max(this.#text.length * 2, this.#bytes + more));
    this.#text.copy(larger, 0, 0, this.#bytes);
    this.#text = larger;
  }
}

/** The record of a pushed state in JSON as the contract has it; that of a queried one with its change behind it. */
function writeState(periodS: number): Writer {
  const at = placesOf('states');
  const [timeAt, seqAt, originAt, changeAt] = [
    ...[at('observed_at'), at('seq'), at('origin'), at('change')],
  ] as [number, number, number, number];
  const fields = (
    [
      ...[['last'], ['open'], ['close'], ['high'], ['low'], ['quote_volume', 'deal'], ['volume']],
    ] as const
  ).map(([column = '', name = column]) => [`,"${name}":"`, at(column)] as const);
  return (row, columns) => {
    let text = `{"period":${periodS}`;
    for (const [lead, place] of fields) text += `${lead}${row.decimal(row.text(place))}"`;
    const isUpdate = row.text(originAt) === 'update';
    const change = row.isNull(changeAt) ? '' : `\n${row.decimal(row.text(changeAt))}`;
    columns.add(row.us(timeAt) / 1000, row.number(seqAt), isUpdate, `${text}}${change}`);
  };
}

function writeTrade(): Writer {
  const at = placesOf('trades');
  const [timeAt, tidAt, execAt, sideAt] = [
    ...[at('traded_at'), at('tid'), at('executed_at'), at('side')],
  ] as [number, number, number, number];
  const [priceAt, amountAt, totalAt] = [at('price'), at('amount'), at('total')];
  return (row, columns) => {
    const us = row.us(timeAt);
    const exec = row.isNull(execAt) ? Number.NaN : row.us(execAt);
    const seen = Number.isNaN(exec) ? us + SECOND_US : exec;
    const [price, amount] = [row.decimal(row.text(priceAt)), row.decimal(row.text(amountAt))];
    const text = `${price} ${amount} ${row.decimal(row.text(totalAt))}`;
    columns.add(us / 1000, row.number(tidAt), row.text(sideAt) === 'buy', text, exec, seen);
  };
}

/** The row as it is, in JSON. */
function writeRow({ kind, marketId, variantS }: BlockSeries): Writer {
  const maker = rowMaker(kind, [marketId], variantS);
  return (row, columns) => {
    const text = JSON.stringify({ ...maker.make(row), marketId });
    columns.add(row.us(TIME_AT) / 1000, 0, false, text);
  };
}

/** Column of the time of a row. */
const TIME_AT = 1;

function placesOf(kind: SeriesKind): (name: string) => number {
  const places = rowPlaces(tableOfKind(kind));
  return (name) => places.get(name) ?? 0;
}

/** Makes the blocks of one slice of several markets, whose rows come in the order of each market. */
export class BlockMaker implements RowMaker<number> {
  readonly #all: readonly (readonly [GrowingColumns, Writer])[];
  readonly #isOfTrades: boolean;

  constructor(all: readonly BlockSeries[]) {
    this.#isOfTrades = all[0]?.kind === 'trades';
    this.#all = all.map((series) => {
      if (series.kind === 'trades') return [new GrowingColumns(), writeTrade()];
      if (series.kind === 'states') return [new GrowingColumns(), writeState(series.variantS)];
      return [new GrowingColumns(), writeRow(series)];
    });
  }

  /** Returns the time of the row, which orders those of several markets. */
  make(row: ArchiveRow): number {
    const [columns, write] = this.#all[row.number(0)] ?? [];
    if (columns !== undefined) write?.(row, columns);
    return row.us(TIME_AT);
  }

  timeOf(us: number): number {
    return us;
  }

  compare(a: number, b: number): number {
    return a - b;
  }

  /** In the order of the markets. */
  blocks(span: Span): Block[] {
    return this.#all.map(([columns]) => columns.block(span, this.#isOfTrades));
  }
}

/** The slice that holds a time. @param widthMs divides the day; 0: the month */
export function sliceAt(atMs: number, widthMs: number): Span {
  if (widthMs > 0) {
    const fromMs = floorToMs(atMs, widthMs);
    return { fromMs, toMs: fromMs + widthMs };
  }
  const at = new Date(atMs);
  const month = (more: number) => Date.UTC(at.getUTCFullYear(), at.getUTCMonth() + more);
  return { fromMs: month(0), toMs: month(1) };
}
