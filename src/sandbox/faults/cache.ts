interface Kept<T> {
  readonly value: T;
  readonly weight: number;
  readonly untilMs: number;
}

const MAX_ENTRIES = 256;
/** Characters kept in all. */
const MAX_WEIGHT = 16 * 1024 * 1024;

/**
 * Keeps the first value seen under each key for a time, as a cache in front of a server does: what
 * comes within that time may be answered by the kept one. Bounded; the oldest make room.
 */
export class ReplyCache<T> {
  readonly #keepMs: number;
  readonly #kept = new Map<string, Kept<T>>();
  #weight = 0;

  constructor(keepMs: number) {
    this.#keepMs = keepMs;
  }

  /** The kept value of `key`; when there is none, `value` is kept from now on. */
  take(key: string, value: T, weight: number, nowMs: number): T | undefined {
    const known = this.#kept.get(key);
    if (known !== undefined && nowMs < known.untilMs) return known.value;
    this.#forget(key);
    this.#kept.set(key, { value, weight, untilMs: nowMs + this.#keepMs });
    this.#weight += weight;
    for (const oldest of this.#kept.keys()) {
      if (this.#kept.size <= MAX_ENTRIES && this.#weight <= MAX_WEIGHT) break;
      this.#forget(oldest);
    }
    return undefined;
  }

  #forget(key: string): void {
    this.#weight -= this.#kept.get(key)?.weight ?? 0;
    this.#kept.delete(key);
  }
}
