import {
  type Data,
  type DataType,
  Decimal,
  Field,
  Float64,
  Int64,
  List,
  makeData,
  RecordBatch,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  type RecordBatchWriter,
  Schema,
  Struct,
  TimestampMicrosecond,
  Utf8,
} from 'apache-arrow';
import { FORM_NAMES } from '../../model/columns.js';
import type { TypedColumn } from '../parquet/columns.js';
import type { PlainValue } from '../parquet/values.js';

/** Rows of one batch of the file: what a reader gets at a time. */
const BATCH_ROWS = 65_536;
/** Digits of a 128-bit decimal; the precision says nothing about the size. */
const PRECISION = 38;
const BITS = 128;

function typeOf({ type, scale }: TypedColumn): DataType {
  const decimal = () => (scale === null ? new Utf8() : new Decimal(scale, PRECISION, BITS));
  switch (type) {
    case 'timestamp':
      return new TimestampMicrosecond('UTC');
    case 'integer':
      return new Int64();
    case 'text':
      return new Utf8();
    case 'decimal':
      return decimal();
    case 'decimals':
      return new List(new Field('item', decimal(), false));
  }
}

/** What a column is called in a manifest. */
export function arrowTypeName({ type, scale }: TypedColumn): string {
  const decimal = scale === null ? 'utf8' : `decimal128(${PRECISION}, ${scale})`;
  return FORM_NAMES[type].arrow ?? (type === 'decimals' ? `list<${decimal}>` : decimal);
}

function validity(values: readonly PlainValue[]) {
  const nullBitmap = new Uint8Array(Math.ceil(values.length / 8));
  let nullCount = 0;
  for (const [index, value] of values.entries()) {
    if (value === null) nullCount += 1;
    else nullBitmap[index >> 3] = (nullBitmap[index >> 3] ?? 0) | (1 << (index & 7));
  }
  return nullCount === 0 ? { nullCount } : { nullCount, nullBitmap };
}

/** Where each value begins, and after the last one where it ends. */
function offsetsOf(values: readonly { readonly length: number }[]) {
  const offsets = new Int32Array(values.length + 1);
  for (const [index, { length }] of values.entries()) {
    offsets[index + 1] = (offsets[index] ?? 0) + length;
  }
  return offsets;
}

/** The fields of columns as DuckDB typed them. */
export function arrowFields(columns: readonly TypedColumn[]): Field[] {
  return columns.map((one) => new Field(one.name, typeOf(one), one.isNullable));
}

/** The values of a column in the layout of Arrow's memory. */
function dataOf(type: DataType, values: readonly PlainValue[]): Data {
  const common = { length: values.length, ...validity(values) };
  if (type instanceof Utf8) {
    const texts = values.map((value) => Buffer.from(typeof value === 'string' ? value : ''));
    const data = Buffer.concat(texts);
    return makeData({ type, ...common, valueOffsets: offsetsOf(texts), data });
  }
  if (type instanceof List) {
    const lists = values.map((value) => (Array.isArray(value) ? (value as PlainValue[]) : []));
    const child = dataOf((type.children[0] as Field).type as DataType, lists.flat());
    return makeData({ type, ...common, valueOffsets: offsetsOf(lists), child });
  }
  if (type instanceof Float64) {
    return makeData({ type, ...common, data: Float64Array.from(values, Number) });
  }
  const integers = values.map((value) => (typeof value === 'bigint' ? value : 0n));
  if (type instanceof Decimal) {
    const halves = new BigInt64Array(2 * integers.length);
    for (const [index, value] of integers.entries()) {
      halves[2 * index] = BigInt.asIntN(64, value);
      halves[2 * index + 1] = value >> 64n;
    }
    return makeData({ type, ...common, data: new Uint32Array(halves.buffer) });
  }
  const data = BigInt64Array.from(integers);
  return type instanceof Int64
    ? makeData({ type, ...common, data })
    : makeData({ type: type as TimestampMicrosecond, ...common, data });
}

/** Writers that count the bytes that they have put out. */
class FileWriter extends RecordBatchFileWriter {
  get position(): number {
    return this._position;
  }
}
class StreamWriter extends RecordBatchStreamWriter {
  get position(): number {
    return this._position;
  }
}

/**
 * Writes rows as Arrow IPC, uncompressed, decimals as 128-bit integers: a file that can be mapped
 * into memory, or a stream that can be read from a pipe. Texts in a column of doubles become the
 * nearest ones.
 *
 * @param rows some at a time, one array a column
 * @param write takes what comes next; the rows wait for it
 */
export async function writeArrow(
  fields: Field[],
  rows: AsyncIterable<readonly (readonly PlainValue[])[]>,
  form: 'file' | 'stream',
  write: (bytes: Uint8Array) => Promise<void>,
): Promise<void> {
  const schema = new Schema(fields);
  const writer = form === 'file' ? new FileWriter() : new StreamWriter();
  const bytes = writer[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>;
  let written = 0;
  const drain = async (): Promise<void> => {
    while (written < writer.position) {
      const piece = await bytes.next();
      if (piece.done === true) return;
      await write(piece.value);
      written += piece.value.byteLength;
    }
  };
  writer.reset(undefined, schema);
  for await (const columns of gathered(fields.length, rows)) {
    const children = columns.map((values, at) =>
      dataOf((fields[at] as Field).type as DataType, values),
    );
    const [{ length } = []] = columns;
    const data = makeData({ type: new Struct(fields), length, nullCount: 0, children });
    (writer as RecordBatchWriter).write(new RecordBatch(schema, data));
    await drain();
  }
  writer.finish();
  // What closes it: small, and no longer counted by the writer.
  for (;;) {
    const piece = await bytes.next();
    if (piece.done === true) return;
    await write(piece.value);
  }
}

/** Rows in batches that are worth their heads; at least one, which may be empty. */
async function* gathered(
  columnCount: number,
  batches: AsyncIterable<readonly (readonly PlainValue[])[]>,
): AsyncGenerator<PlainValue[][]> {
  const none = () => Array.from({ length: columnCount }, (): PlainValue[] => []);
  let waiting = none();
  for await (const batch of batches) {
    for (const [index, values] of batch.entries()) {
      for (const value of values) waiting[index]?.push(value);
    }
    if ((waiting[0]?.length ?? 0) < BATCH_ROWS) continue;
    yield waiting;
    waiting = none();
  }
  yield waiting;
}
