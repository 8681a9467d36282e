/** The value of a key, made and kept where there is none. */
export function obtain<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const known = map.get(key);
  if (known !== undefined) return known;
  const made = make();
  map.set(key, made);
  return made;
}

/** A map that forgets what was set longest ago when there are more entries than `max`. */
export class BoundedMap<K, V> extends Map<K, V> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  /** An entry that is set again counts as new. */
  override set(key: K, value: V): this {
    this.delete(key);
    super.set(key, value);
    for (const oldest of this.keys()) {
      if (this.size <= this.#max) break;
      this.delete(oldest);
    }
    return this;
  }
}

/** A bounded set of values: one that is added again counts as new. */
export class BoundedSet<T> extends Set<T> {
  readonly #max: number;

  constructor(max: number) {
    super();
    this.#max = max;
  }

  override add(value: T): this {
    this.delete(value);
    super.add(value);
    for (const oldest of this) {
      if (this.size <= this.#max) break;
      this.delete(oldest);
    }
    return this;
  }
}
