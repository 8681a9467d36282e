import assert from 'node:assert/strict';
import { inflateRawSync } from 'node:zlib';
import type { TradeRow } from '../../../src/model/batch.js';

const NOON_S = Date.parse('2026-01-15T12:00:00Z') / 1000;

/** A trade `atS` seconds after noon of 2026-01-15. */
export function trade(tid: number, atS: number, price: string, amount: string): TradeRow {
  const tradedAtS = NOON_S + atS;
  const known = { executedAtUs: null, receivedAtMs: NOON_S * 1000 };
  return { marketId: 1, tid, tradedAtS, side: 'buy', price, amount, total: '1', ...known };
}

export async function* batches<T>(all: readonly T[], size: number): AsyncGenerator<T[]> {
  for (let at = 0; at < all.length; at += size) yield all.slice(at, at + size);
}

export async function gather<T>(all: AsyncIterable<readonly T[]>): Promise<T[]> {
  const rows: T[] = [];
  for await (const some of all) rows.push(...some);
  return rows;
}

/** The only file of a zip archive, read by its directory as other programs do. */
export function unzipOne(archive: Buffer): { readonly name: string; readonly content: Buffer } {
  const end = archive.lastIndexOf(Buffer.from('PK\x05\x06', 'latin1'));
  assert.ok(end >= 0, 'an archive ends with its directory');
  assert.equal(archive.readUInt16LE(end + 10), 1, 'one file');
  const entry = archive.readUInt32LE(end + 16);
  assert.equal(archive.readUInt32LE(entry), 0x02014b50);
  const method = archive.readUInt16LE(entry + 10);
  const [packed, size] = [archive.readUInt32LE(entry + 20), archive.readUInt32LE(entry + 24)];
  const nameLength = archive.readUInt16LE(entry + 28);
  const name = archive.toString('utf8', entry + 46, entry + 46 + nameLength);
  const local = archive.readUInt32LE(entry + 42);
  assert.equal(archive.readUInt32LE(local), 0x04034b50);
  const begin = local + 30 + archive.readUInt16LE(local + 26) + archive.readUInt16LE(local + 28);
  const bytes = archive.subarray(begin, begin + packed);
  const content = method === 8 ? inflateRawSync(bytes) : bytes;
  assert.equal(content.length, size);
  return { name, content };
}

/** An event of a feed file as numbers; times are bigint nanoseconds. */
export interface ReadEvent {
  readonly ev: number;
  readonly exchNs: bigint;
  readonly localNs: bigint;
  readonly px: number;
  readonly qty: number;
  /** Order id, ival and fval. */
  readonly rest: readonly number[];
}

/** An array of events as numpy writes it (format version 1.0). */
export function readEvents(npy: Buffer): { readonly head: string; readonly events: ReadEvent[] } {
  assert.equal(npy.toString('latin1', 0, 8), '\x93NUMPY\x01\x00');
  const from = 10 + npy.readUInt16LE(8);
  assert.equal(from % 64, 0, 'rows begin at a cache line');
  const events: ReadEvent[] = [];
  for (let at = from; at < npy.length; at += 64) {
    events.push({
      ...{ ev: Number(npy.readBigUInt64LE(at)), exchNs: npy.readBigInt64LE(at + 8) },
      ...{ localNs: npy.readBigInt64LE(at + 16), px: npy.readDoubleLE(at + 24) },
      qty: npy.readDoubleLE(at + 32),
      rest: [
        npy.readBigUInt64LE(at + 40),
        npy.readBigInt64LE(at + 48),
        npy.readDoubleLE(at + 56),
      ].map(Number),
    });
  }
  return { head: npy.toString('latin1', 10, from), events };
}
