import type { Clock } from '../kernel/clock.js';

/** Answers are believed this long: a daemon may write beside the replay. */
const FRESH_MS = 10_000;

interface Entry<T> {
  readonly madeAtMs: number;
  readonly value: Promise<T>;
}

/** Remembers a bounded number of answers for a while; of those asked for at once one is fetched. */
export class FreshCache<T> {
  readonly #clock: Clock;
  readonly #max: number;
  readonly #entries = new Map<string, Entry<T>>();

  constructor(clock: Clock, max: number) {
    this.#clock = clock;
    this.#max = max;
  }

  get(key: string, fetch: () => Promise<T>): Promise<T> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#entries.get(key);
    this.#entries.delete(key);
    if (known !== undefined && nowMs - known.madeAtMs < FRESH_MS) {
      // Last in the map: the longest unused is forgotten first.
      this.#entries.set(key, known);
      return known.value;
    }
    const entry = { madeAtMs: nowMs, value: fetch() };
    this.#keep(key, entry);
    entry.value.catch(() => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    });
    return entry.value;
  }

  /** Replaces an answer by one that goes on from it, and is as old as that one at most. */
  put(key: string, value: T): void {
    const madeAtMs = this.#entries.get(key)?.madeAtMs;
    if (madeAtMs === undefined) return;
    this.#entries.delete(key);
    this.#keep(key, { madeAtMs, value: Promise.resolve(value) });
  }

  #keep(key: string, entry: Entry<T>): void {
    this.#entries.set(key, entry);
    for (const oldest of this.#entries.keys()) {
      if (this.#entries.size <= this.#max) break;
      this.#entries.delete(oldest);
    }
  }
}
