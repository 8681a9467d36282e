import { type DataType, Field, Float64, Int64, TimestampMillisecond, Utf8 } from 'apache-arrow';
import { DAY_MS, SECOND_MS } from '../../kernel/durations.js';
import { ceilToMs, floorToMs, type Span } from '../../kernel/span.js';
import { formatInstant } from '../../kernel/timestamp.js';
import type { RowOf } from '../../model/series.js';
import { type Candle, CoveredWalk, computeCandles, withQuietSlots } from '../candles.js';
import { InterchangeError } from '../errors.js';
import { writeArrow } from '../export/arrow.js';
import type { Known } from '../export/manifest.js';
import type { Output } from '../export/output.js';
import type { PlainValue } from '../parquet/values.js';
import type { ArchiveReader } from '../reading.js';
import {
  depthEvents,
  type FeedEvent,
  type FeedFacts,
  feedContent,
  sealEvents,
  stageEvents,
  tradeEvents,
  tradeUs,
  zipOne,
} from './feed.js';
import type { InterchangePart, InterchangeRequest, Source } from './request.js';

/** Rows as the files of each program. */

type Write = (bytes: Uint8Array) => Promise<void>;
/**
 * The columns of a feather file, as freqtrade keeps them in a data folder, and how they are made of rows. These
 * are Arrow IPC files. Its own writer compresses them; its reader takes both. Numbers are doubles there.
 * This is where exact decimals become such, each by itself and correctly rounded.
 */
type Feather<Row> = readonly (readonly [field: Field, of: (row: Row) => PlainValue])[];

const DOUBLE = new Float64();
const field = (name: string, type: DataType) => new Field(name, type, false);

/** The columns of `PAIR-TIMEFRAME.feather`. */
export const CANDLES: Feather<Candle> = [
  [field('date', new TimestampMillisecond('UTC')), ({ openAtS }) => BigInt(openAtS * SECOND_MS)],
  [field('open', DOUBLE), ({ open }) => open],
  [field('high', DOUBLE), ({ high }) => high],
  [field('low', DOUBLE), ({ low }) => low],
  [field('close', DOUBLE), ({ close }) => close],
  [field('volume', DOUBLE), ({ volume }) => volume],
];

type Trade = RowOf<'trade'>;
const millisecond = (trade: Trade) => BigInt(Math.floor(tradeUs(trade) / 1000));
/** The columns of `PAIR-trades.feather`. */
export const TRADES: Feather<Trade> = [
  [field('timestamp', new Int64()), millisecond],
  [field('id', new Utf8()), ({ tid }) => String(tid)],
  // Limit or market: no exchange of this family reports it.
  [new Field('type', new Utf8(), true), () => null],
  [field('side', new Utf8()), ({ side }) => side],
  [field('price', DOUBLE), ({ price }) => price],
  [field('amount', DOUBLE), ({ amount }) => amount],
  [field('cost', DOUBLE), ({ total }) => total],
];

/** Writes rows as an Arrow file, its columns as freqtrade has them. */
export async function writeFeatherOf<Row>(
  columns: Feather<Row>,
  rows: AsyncIterable<readonly Row[]>,
  write: Write,
): Promise<void> {
  const batches = async function* () {
    for await (const some of rows) yield columns.map(([, of]) => some.map(of));
  };
  const fields = columns.map(([one]) => one);
  await writeArrow(fields, batches(), 'file', write);
}

/** Candles as lines of CSV, with all their digits: the reader makes numbers of them. */
interface LineForm {
  readonly heading: string;
  readonly line: (candle: Candle) => string;
}

const opening = ({ openAtS }: Candle) => formatInstant(openAtS * SECOND_MS);
const values = ({ open, high, low, close, volume }: Candle) =>
  `${open},${high},${low},${close},${volume}`;

export const BAR_LINES = {
  /** What `GenericCSVData` reads as it comes: its order of columns and its form of time. */
  backtrader: {
    heading: 'datetime,open,high,low,close,volume,openinterest',
    line: (candle) => `${opening(candle)},${values(candle)},0`,
  },
  /** What `pandas.read_csv` makes an index with a zone of, under the names that vectorbt looks for. */
  vectorbt: {
    heading: 'Date,Open,High,Low,Close,Volume',
    line: (candle) => `${opening(candle)}+00:00,${values(candle)}`,
  },
} as const satisfies Readonly<Record<string, LineForm>>;

/** The file's text in pieces. */
export async function* barLines(
  candles: AsyncIterable<readonly Candle[]>,
  { heading, line }: LineForm,
): AsyncGenerator<Buffer> {
  yield Buffer.from(`${heading}\n`);
  for await (const batch of candles) {
    if (batch.length > 0) yield Buffer.from(batch.map((one) => `${line(one)}\n`).join(''));
  }
}

/** Facts that a writer returns of its file. */
export interface Written {
  readonly rows: number;
  readonly counts: Readonly<Record<string, number>>;
}

/** What one file is made of. */
export interface FileWork {
  readonly request: InterchangeRequest;
  /** Its span is the file's own. */
  readonly part: InterchangePart;
  /** What it is made of, in the order of the part. */
  readonly sources: readonly Known<Source>[];
  readonly reader: ArchiveReader;
  readonly output: Output;
  readonly madeAt: Date;
  readonly signal: AbortSignal;
  readonly onProgress: (rows: number, atMs: number) => void;
  readonly onPhase: (phase: string) => void;
}

/** Of how many rows in a thousand the times may be useless before it is refused. */
const FAR_SHARE = 0.01;

type Counts = Record<string, number>;

const rowsOf = <Kind extends 'trades' | 'candles' | 'depth'>(
  { reader, part }: FileWork,
  kind: Kind,
  variantS = 0,
  span: Span = part.span,
) => reader.typed({ kind, marketId: part.market.marketId, variantS, span });

async function* counted<Row>(
  batches: AsyncIterable<readonly Row[]>,
  { onProgress, signal }: FileWork,
  counts: Counts,
  atMs: (row: Row) => number,
): AsyncGenerator<readonly Row[]> {
  for await (const batch of batches) {
    signal.throwIfAborted();
    const last = batch.at(-1);
    counts.rows = (counts.rows ?? 0) + batch.length;
    if (last !== undefined) onProgress(counts.rows, atMs(last));
    yield batch;
  }
}

function add(counts: Counts, name: string): () => void {
  return () => {
    counts[name] = (counts[name] ?? 0) + 1;
  };
}

/** @param isWhole whether slots without trades are wanted too */
function candles(
  work: FileWork,
  counts: Counts,
  isWhole: boolean,
): AsyncIterable<readonly Candle[]> {
  const { part, sources, request } = work;
  const [source] = sources;
  const intervalMs = request.intervalS * 1000;
  const covered = () => new CoveredWalk(source?.known.covered ?? []);
  const onPartial = add(counts, 'partialSlotsLeftOut');
  // Candles that begin in the span and end outside of it are the exchange's, and whole.
  const { fromMs, toMs } = part.span;
  const grid = { fromMs: ceilToMs(fromMs, intervalMs), toMs: floorToMs(toMs, intervalMs) };
  const some =
    source?.kind === 'candles'
      ? rowsOf(work, 'candles', request.intervalS)
      : computeCandles(rowsOf(work, 'trades', 0, grid), {
          ...{ intervalMs, covered: covered(), onPartial },
        });
  const all = isWhole
    ? withQuietSlots(some, {
        ...{ span: part.span, intervalMs, covered: covered() },
        onFilled: add(counts, 'quietSlotsFilled'),
        onLeftOut: add(counts, 'quietSlotsLeftOut'),
      })
    : some;
  return counted(all, work, counts, ({ openAtS }) => openAtS * SECOND_MS);
}

/** @param isExact whether the span cuts them by their exact times, and not by the seconds they belong to */
function trades(
  work: FileWork,
  counts: Counts,
  isExact = false,
): AsyncIterable<readonly RowOf<'trade'>[]> {
  const { fromMs, toMs } = work.part.span;
  const seconds = { fromMs: floorToMs(fromMs, SECOND_MS), toMs: ceilToMs(toMs, SECOND_MS) };
  const all = rowsOf(work, 'trades', 0, isExact ? seconds : work.part.span);
  const isWithin = (row: RowOf<'trade'>) =>
    tradeUs(row) >= fromMs * 1000 && tradeUs(row) < toMs * 1000;
  const onSecond = add(counts, 'timesToTheSecond');
  async function* looked() {
    for await (const batch of all) {
      const rows = isExact ? batch.filter(isWithin) : batch;
      for (const { executedAtUs } of rows) if (executedAtUs === null) onSecond();
      yield rows;
    }
  }
  return counted(looked(), work, counts, ({ tradedAtS }) => tradedAtS * SECOND_MS);
}

function written({ rows = 0, ...counts }: Counts): Written {
  return { rows, counts };
}

type FileWriter = (work: FileWork) => Promise<Written>;

async function writeAll(pieces: AsyncIterable<Uint8Array>, { output }: FileWork): Promise<void> {
  for await (const piece of pieces) await output.write(piece);
}

export const writeFeather: FileWriter = async (work) => {
  const counts: Counts = {};
  const write: Write = (bytes) => work.output.write(bytes);
  if (work.request.content === 'trades') await writeFeatherOf(TRADES, trades(work, counts), write);
  else await writeFeatherOf(CANDLES, candles(work, counts, false), write);
  return written(counts);
};

export const writeBars =
  (form: 'backtrader' | 'vectorbt'): FileWriter =>
  async (work) => {
    const counts: Counts = {};
    await writeAll(barLines(candles(work, counts, true), BAR_LINES[form]), work);
    return written(counts);
  };

export const writeFeed: FileWriter = async (work) => {
  const { output, signal, onPhase } = work;
  const { latency, isAnyLatency } = work.request;
  const counts: Counts = {};
  const scratch = (name: string) => output.scratch(name);
  await stageEvents(scratch, allEvents(work, counts));
  onPhase('sorting events');
  const check = ({ events, farOff }: FeedFacts) => {
    if (latency.kind === 'fixed' || isAnyLatency) return;
    if (farOff > events * FAR_SHARE) throw farAway(farOff, events);
  };
  const { rows, facts } = await sealEvents(scratch, latency, check, signal);
  onPhase('writing events');
  await writeAll(zipOne('data.npy', feedContent(scratch, rows), work.madeAt), work);
  return {
    rows,
    counts: {
      ...{ trades: counts.rows ?? 0, timesToTheSecond: counts.timesToTheSecond ?? 0 },
      ...{ events: facts.events, eventsPutApart: rows - facts.events },
      ...(latency.kind === 'fixed'
        ? { latencyUs: latency.latencyUs }
        : {
            localTimesShiftedUs: Math.max(0, -facts.leastLatencyUs),
            receivedFarOff: facts.farOff,
          }),
    },
  };
};

/** Of the same instant the trade comes first: the book that follows has lost its amount already. */
async function* allEvents(work: FileWork, counts: Counts): AsyncGenerator<FeedEvent[]> {
  let seen = 0;
  const books = booksFrom(await standingBook(work), rowsOf(work, 'depth'));
  for (const events of [tradeEvents(trades(work, counts, true)), depthEvents(books)]) {
    for await (const batch of events) {
      work.signal.throwIfAborted();
      yield batch;
      seen += batch.length;
      const at = batch.at(-1);
      if (at !== undefined) work.onProgress(seen, Math.min(at.exchUs / 1000, work.part.span.toMs));
    }
  }
}

/** A book that did not change for longer is not looked for. */
const STANDING_MAX_MS = DAY_MS;
/** Covered spans of that time that are looked at. */
const KNOWN_BEFORE_MAX = 10_000;

/** The book that holds where the span begins, as of that instant; undefined where depth is not covered up to there. */
async function standingBook(work: FileWork): Promise<RowOf<'depth'> | undefined> {
  const { reader, part, sources } = work;
  const { fromMs } = part.span;
  const source = sources.find(({ kind }) => kind === 'depth');
  if (source === undefined) return undefined;
  const before = { fromMs: fromMs - STANDING_MAX_MS, toMs: fromMs };
  const { covered } = await reader.completeness(source.stream, before, KNOWN_BEFORE_MAX);
  const last = covered.at(-1);
  if (last?.toMs !== fromMs) return undefined;
  const slice = { kind: 'depth', marketId: part.market.marketId, variantS: 0, span: last } as const;
  for await (const [book] of reader.newest(slice, 1)) {
    if (book !== undefined) return { ...book, observedAtMs: fromMs, receivedAtMs: fromMs };
  }
  return undefined;
}

async function* booksFrom(
  first: RowOf<'depth'> | undefined,
  rest: AsyncIterable<readonly RowOf<'depth'>[]>,
): AsyncGenerator<readonly RowOf<'depth'>[]> {
  if (first !== undefined) yield [first];
  yield* rest;
}

function farAway(farOff: number, events: number): InterchangeError {
  const share = `${Math.round((100 * farOff) / events)} %`;
  return new InterchangeError(
    `${share} of the events were received more than a minute off the time at which they happened, as those that were fetched later are: a backtest would see them as late as that. --latency 100ms lets each be seen 100 ms after it happened; --latency received takes the times as they are`,
  );
}
