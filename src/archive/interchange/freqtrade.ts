import {
  type Data,
  type DataType,
  Field,
  Float64,
  Int64,
  makeData,
  RecordBatch,
  Schema,
  Struct,
  TimestampMillisecond,
  Utf8,
} from 'apache-arrow';
import type { RowOf } from '../../model/series.js';
import { writeArrowBatches } from '../export/arrow.js';
import type { Candle } from './slots.js';

/**
 * What freqtrade keeps in a data folder: feather files, which are Arrow IPC files. Its own writer
 * compresses them; its reader takes both.
 *
 * Numbers are doubles there. This is where exact decimals become such, each by itself and correctly
 * rounded.
 */

type Write = (bytes: Uint8Array) => Promise<void>;
type Text = string | null;

/** Rows of a batch of the file. */
const BATCH_ROWS = 65_536;

function doubles<Row>(rows: readonly Row[], of: (row: Row) => string): Data {
  const data = Float64Array.from(rows, (row) => Number(of(row)));
  return makeData({ type: new Float64(), length: data.length, nullCount: 0, data });
}

function integers<Row>(type: Int64 | TimestampMillisecond, of: (row: Row) => number) {
  return (rows: readonly Row[]): Data => {
    const data = BigInt64Array.from(rows, (row) => BigInt(of(row)));
    const common = { length: data.length, nullCount: 0, data };
    return type instanceof Int64 ? makeData({ type, ...common }) : makeData({ type, ...common });
  };
}

/** @param values ids and sides, in which a character is a byte */
function texts(values: readonly Text[]): Data {
  const valueOffsets = new Int32Array(values.length + 1);
  const nullBitmap = new Uint8Array(Math.ceil(values.length / 8));
  let nullCount = 0;
  for (const [index, value] of values.entries()) {
    valueOffsets[index + 1] = (valueOffsets[index] ?? 0) + (value?.length ?? 0);
    if (value === null) nullCount += 1;
    else nullBitmap[index >> 3] = (nullBitmap[index >> 3] ?? 0) | (1 << (index & 7));
  }
  const data = Buffer.from(values.join(''), 'latin1');
  const common = { type: new Utf8(), length: values.length, valueOffsets, data };
  return makeData(
    nullCount === 0 ? { ...common, nullCount } : { ...common, nullCount, nullBitmap },
  );
}

/** A column of the file, and how it is made of rows. */
interface Column<Row> {
  readonly name: string;
  readonly type: DataType;
  readonly isNullable?: boolean;
  readonly of: (rows: readonly Row[]) => Data;
}

function double<Row>(name: string, of: (row: Row) => string): Column<Row> {
  return { name, type: new Float64(), of: (rows) => doubles(rows, of) };
}

const DATE = new TimestampMillisecond('UTC');
const CANDLE_COLUMNS: readonly Column<Candle>[] = [
  { name: 'date', type: DATE, of: integers(DATE, ({ openAtS }: Candle) => openAtS * 1000) },
  double('open', ({ open }) => open),
  double('high', ({ high }) => high),
  double('low', ({ low }) => low),
  double('close', ({ close }) => close),
  double('volume', ({ volume }) => volume),
];

const TIMESTAMP = new Int64();
type Trade = RowOf<'trade'>;
const millisecond = ({ executedAtUs, tradedAtS }: Trade) =>
  executedAtUs === null ? tradedAtS * 1000 : Math.floor(executedAtUs / 1000);
const TRADE_COLUMNS: readonly Column<Trade>[] = [
  { name: 'timestamp', type: TIMESTAMP, of: integers(TIMESTAMP, millisecond) },
  { name: 'id', type: new Utf8(), of: (rows) => texts(rows.map(({ tid }) => String(tid))) },
  // Limit or market: no exchange of this family reports it.
  {
    ...{ name: 'type', type: new Utf8(), isNullable: true },
    of: (rows) => texts(rows.map(() => null)),
  },
  { name: 'side', type: new Utf8(), of: (rows) => texts(rows.map(({ side }) => side)) },
  double('price', ({ price }) => price),
  double('amount', ({ amount }) => amount),
  double('cost', ({ total }) => total),
];

const schemaOf = <Row>(columns: readonly Column<Row>[]) =>
  new Schema(
    columns.map(({ name, type, isNullable }) => new Field(name, type, isNullable === true)),
  );

async function* toBatches<Row>(
  columns: readonly Column<Row>[],
  rows: AsyncIterable<readonly Row[]>,
): AsyncGenerator<RecordBatch> {
  const schema = schemaOf(columns);
  const batch = (some: readonly Row[]) => {
    const children = columns.map(({ of }) => of(some));
    const type = new Struct(schema.fields);
    return new RecordBatch(schema, makeData({ type, length: some.length, nullCount: 0, children }));
  };
  let waiting: Row[] = [];
  for await (const some of rows) {
    for (const row of some) waiting.push(row);
    if (waiting.length < BATCH_ROWS) continue;
    yield batch(waiting);
    waiting = [];
  }
  if (waiting.length > 0) yield batch(waiting);
}

/** Writes `PAIR-TIMEFRAME.feather`: date, open, high, low, close, volume. */
export async function writeFreqtradeCandles(
  candles: AsyncIterable<readonly Candle[]>,
  write: Write,
): Promise<void> {
  const batches = toBatches(CANDLE_COLUMNS, candles);
  await writeArrowBatches(schemaOf(CANDLE_COLUMNS), batches, 'file', write);
}

/** Writes `PAIR-trades.feather`: timestamp (ms), id, type, side, price, amount, cost. */
export async function writeFreqtradeTrades(
  trades: AsyncIterable<readonly Trade[]>,
  write: Write,
): Promise<void> {
  const batches = toBatches(TRADE_COLUMNS, trades);
  await writeArrowBatches(schemaOf(TRADE_COLUMNS), batches, 'file', write);
}
