import { BoundedMap } from '../kernel/bounded.js';
import type { Clock } from '../kernel/clock.js';
import type { Sight } from './catalog.js';

/** An answer with the times between which it is the answer. */
export interface Holding {
  readonly sinceMs: number;
  readonly nextAtMs: number;
}

interface Held<T> {
  readonly madeAtMs: number;
  readonly value: T;
}

/** Answers are believed this long: a daemon may write beside the replay. */
const FRESH_MS = 10_000;
/** Answers kept of one thing: sessions at other times ask about other times. */
const HELD_MAX = 8;

/** Remembers what was seen last of each thing, for as long as it stayed the last. */
export class SeenCache<T extends Holding> {
  readonly #sight: Sight;
  readonly #held: BoundedMap<string, Held<T>[]>;
  readonly #pending = new Map<string, Promise<T>>();

  /** @param max things that are remembered */
  constructor(sight: Sight, max: number) {
    this.#sight = sight;
    this.#held = new BoundedMap(max);
  }

  /** @param fetch asks the archive about the last instant up to `nowMs` that may be seen */
  get(key: string, nowMs: number, fetch: (atMs: number) => Promise<T>): Promise<T> {
    const { clock, toMs } = this.#sight;
    const atMs = Math.min(nowMs, toMs - 1);
    const madeAtMs = clock.monotonicMs();
    const found = this.#held
      .get(key)
      ?.filter((one) => madeAtMs - one.madeAtMs < FRESH_MS)
      .find(({ value }) => value.sinceMs <= atMs && atMs < value.nextAtMs);
    if (found !== undefined) return Promise.resolve(found.value);
    const asked = `${key} ${atMs}`;
    const pending = this.#pending.get(asked);
    if (pending !== undefined) return pending;
    const fetched = fetch(atMs)
      .then((value) => {
        this.#keep(key, { madeAtMs, value });
        return value;
      })
      .finally(() => this.#pending.delete(asked));
    this.#pending.set(asked, fetched);
    return fetched;
  }

  #keep(key: string, one: Held<T>): void {
    const others = (this.#held.get(key) ?? []).slice(0, HELD_MAX - 1);
    this.#held.set(key, [one, ...others]);
  }
}

/** Remembers a bounded number of answers for a while; of those asked for at once one is fetched. */
export class FreshCache<T> {
  readonly #clock: Clock;
  readonly #freshMs: number;
  readonly #entries: BoundedMap<string, Held<Promise<T>>>;

  constructor(clock: Clock, max: number, freshMs = FRESH_MS) {
    this.#clock = clock;
    this.#freshMs = freshMs;
    this.#entries = new BoundedMap(max);
  }

  get(key: string, fetch: () => Promise<T>): Promise<T> {
    const nowMs = this.#clock.monotonicMs();
    const known = this.#entries.get(key);
    const isFresh = known !== undefined && nowMs - known.madeAtMs < this.#freshMs;
    const entry = isFresh ? known : { madeAtMs: nowMs, value: fetch() };
    // The longest unused is forgotten first.
    this.#entries.set(key, entry);
    if (isFresh) return entry.value;
    entry.value.catch(() => {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
    });
    return entry.value;
  }

  /** Replaces an answer by one that goes on from it, and is as old as that one at most. */
  put(key: string, value: T): void {
    const known = this.#entries.get(key);
    if (known !== undefined) this.#entries.set(key, { ...known, value: Promise.resolve(value) });
  }
}
