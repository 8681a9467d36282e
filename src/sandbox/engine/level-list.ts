import { firstNot } from '../../kernel/sorted.js';

/**
 * What entries are ordered by. A number as long as it is exact, else a bigint: JavaScript compares
 * the two by mathematical value, and plain numbers compare several times faster.
 */
export type LevelKey = number | bigint;

/** Most entries of a chunk: moving half of them is cheap, and 100,000 levels stand in some 600. */
const CHUNK_MAX = 256;

/** What a list holds. */
export class LevelEntry {
  readonly key: LevelKey;
  /** Number of orders; changed by {@link LevelList.count} only. */
  orders = 0;
  /** The part of the list that holds it. */
  chunk: { orders: number } = { orders: 0 };

  constructor(key: LevelKey) {
    this.key = key;
  }
}

interface Chunk<E> {
  /** Never empty, but in a list without entries. */
  readonly entries: E[];
  /** Orders in all entries. */
  orders: number;
}

/**
 * Price levels in ascending order of their keys, in chunks that know how many orders they hold.
 * Finding costs O(log levels); adding and removing move the entries of one chunk; skipping orders
 * looks at each chunk before them. A full chunk splits in two; an empty one goes.
 */
export class LevelList<E extends LevelEntry> {
  readonly #make: (key: LevelKey) => E;
  readonly #chunks: Chunk<E>[] = [{ entries: [], orders: 0 }];
  #orders = 0;

  /** @param make builds the entry of a key that is new */
  constructor(make: (key: LevelKey) => E) {
    this.#make = make;
  }

  /** Number of orders in all entries. */
  get orders(): number {
    return this.#orders;
  }

  /** The entry with the lowest key. */
  get first(): E | undefined {
    return this.#chunks[0]?.entries[0];
  }

  /** The entry of `key`, made if there is none. */
  obtain(key: LevelKey): E {
    const { chunk, at, index } = this.#placeOf(key);
    const known = chunk.entries[index];
    if (known?.key === key) return known;
    const made = this.#make(key);
    made.chunk = chunk;
    chunk.entries.splice(index, 0, made);
    if (chunk.entries.length > CHUNK_MAX) {
      const right: Chunk<E> = { entries: chunk.entries.splice(CHUNK_MAX >>> 1), orders: 0 };
      for (const entry of right.entries) {
        entry.chunk = right;
        right.orders += entry.orders;
      }
      chunk.orders -= right.orders;
      this.#chunks.splice(at + 1, 0, right);
    }
    return made;
  }

  /** Records that an entry of this list has `change` orders more. */
  count(entry: E, change: number): void {
    entry.orders += change;
    entry.chunk.orders += change;
    this.#orders += change;
  }

  /** Takes out an entry of this list; it must have no orders. */
  remove(entry: E): void {
    const { chunk, at, index } = this.#placeOf(entry.key);
    chunk.entries.splice(index, 1);
    if (chunk.entries.length === 0 && this.#chunks.length > 1) this.#chunks.splice(at, 1);
  }

  /** All entries, lowest key first. The list must not change meanwhile. */
  *[Symbol.iterator](): Generator<E> {
    for (const { entries } of this.#chunks) yield* entries;
  }

  /** The first `limit` entries. */
  head(limit: number): E[] {
    const found: E[] = [];
    for (const { entries } of this.#chunks) {
      if (found.length >= limit) break;
      found.push(...entries.slice(0, limit - found.length));
    }
    return found;
  }

  /**
   * The entries of the orders `[offset, offset + limit)`, counted over all entries.
   *
   * @returns the entries, and how many of the first one's orders come before `offset`
   */
  seek(offset: number, limit: number): { readonly entries: E[]; readonly skip: number } {
    const found: E[] = [];
    let skip = offset;
    let missing = limit;
    for (const { entries, orders } of this.#chunks) {
      if (missing <= 0) break;
      if (found.length === 0 && skip >= orders) {
        skip -= orders;
        continue;
      }
      for (const entry of entries) {
        if (missing <= 0) break;
        if (found.length === 0 && skip >= entry.orders) {
          skip -= entry.orders;
          continue;
        }
        missing -= found.length === 0 ? entry.orders - skip : entry.orders;
        found.push(entry);
      }
    }
    return { entries: found, skip: found.length === 0 ? 0 : skip };
  }

  /** Where the entry of a key is, or belongs. */
  #placeOf(key: LevelKey): {
    readonly chunk: Chunk<E>;
    readonly at: number;
    readonly index: number;
  } {
    const chunks = this.#chunks;
    // The last chunk that begins at or below the key; what is below all belongs to the first.
    const after = firstNot(
      chunks.length - 1,
      (at) => (chunks[at + 1]?.entries[0]?.key ?? 0) <= key,
    );
    const chunk = chunks[after] ?? { entries: [], orders: 0 };
    const { entries } = chunk;
    const index = firstNot(entries.length, (at) => (entries[at]?.key ?? 0) < key);
    return { chunk, at: after, index };
  }
}
