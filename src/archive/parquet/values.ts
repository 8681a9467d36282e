import type { DuckDBValue } from '@duckdb/node-api';
import { duckDb } from './duckdb.js';

/** A value for JSON: what a float could not hold, such as decimals and 64-bit integers, is text. */
export function jsonOf(value: DuckDBValue): unknown {
  if (value === null || typeof value === 'boolean' || typeof value === 'string') return value;
  if (typeof value === 'number') return Number.isFinite(value) ? value : String(value);
  const duck = duckDb();
  if (value instanceof duck.DuckDBTimestampTZValue) return isoOf(value.micros, 'Z');
  if (value instanceof duck.DuckDBTimestampValue) return isoOf(value.micros, '');
  if (value instanceof duck.DuckDBBlobValue)
    return `\\x${Buffer.from(value.bytes).toString('hex')}`;
  if (value instanceof duck.DuckDBListValue || value instanceof duck.DuckDBArrayValue) {
    return value.items.map(jsonOf);
  }
  if (value instanceof duck.DuckDBStructValue) {
    return Object.fromEntries(
      Object.entries(value.entries).map(([name, one]) => [name, jsonOf(one)]),
    );
  }
  if (value instanceof duck.DuckDBMapValue) {
    return value.entries.map(({ key, value: one }) => ({ key: jsonOf(key), value: jsonOf(one) }));
  }
  return String(value);
}

/** `2026-01-31T12:00:00.000Z`, with microseconds where there are any. */
function isoOf(micros: bigint, zone: string): string {
  const ms = micros >= 0n ? micros / 1000n : -((999n - micros) / 1000n);
  const rest = Number(micros - ms * 1000n);
  const time = new Date(Number(ms));
  if (Number.isNaN(time.getTime())) return micros > 0n ? 'infinity' : '-infinity';
  const text = time.toISOString().slice(0, -1);
  return `${text}${rest === 0 ? '' : String(rest).padStart(3, '0')}${zone}`;
}

const ZERO = 48;
const POINT = 46;

/** The text of the same number without superfluous zeros at its end: `1.5` of `1.50`, `2` of `2.00`. */
export function shortest(text: string): string {
  let end = text.length;
  if (text.charCodeAt(end - 1) !== ZERO || !text.includes('.')) return text;
  while (text.charCodeAt(end - 1) === ZERO) end -= 1;
  if (text.charCodeAt(end - 1) === POINT) end -= 1;
  return text.slice(0, end);
}
