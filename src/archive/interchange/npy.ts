/** The fields of an event of hftbacktest, in their order; each takes eight bytes. */
export const EVENT_FIELDS = [
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
export const EVENT_BYTES = EVENT_FIELDS.length * FIELD_BYTES;

/** At which byte of an event a field begins. */
export const EVENT_PLACES = {
  ev: 0,
  exch_ts: 8,
  local_ts: 16,
  px: 24,
  qty: 32,
  order_id: 40,
} as const;

/** What stands before the length of the heading: its magic bytes and version 1.0. */
const MAGIC = Buffer.from('\x93NUMPY\x01\x00', 'latin1');
/** Readers map the rows as they lie, which must then be at the begin of a cache line. */
const ALIGNMENT = 64;

/** What an array of so many events begins with in a file of numpy (format version 1.0). */
export function npyHead(rows: number): Buffer {
  const fields = EVENT_FIELDS.map(([name, type]) => `('${name}', '${type}')`).join(', ');
  const text = `{'descr': [${fields}], 'fortran_order': False, 'shape': (${rows},), }`;
  const before = MAGIC.length + 2;
  const length = Math.ceil((before + text.length + 1) / ALIGNMENT) * ALIGNMENT - before;
  const size = Buffer.alloc(2);
  size.writeUInt16LE(length);
  return Buffer.concat([MAGIC, size, Buffer.from(`${text.padEnd(length - 1)}\n`, 'latin1')]);
}
