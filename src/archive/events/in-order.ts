/**
 * Puts rows that come in the order of a key into their final order. Rows with the same key may come in
 * any order, and have to come all before they are told: so much is held and no more.
 */
export class InOrder<Row> {
  readonly #compare: (a: Row, b: Row) => number;
  #rows: Row[] = [];
  #key: unknown;
  /** Where the rows of the current key begin. */
  #start = 0;
  #isSorted = true;

  constructor(compare: (a: Row, b: Row) => number) {
    this.#compare = compare;
  }

  push(key: string | number, row: Row): void {
    const rows = this.#rows;
    if (key !== this.#key) {
      if (!this.#isSorted) this.#sort();
      this.#start = rows.length;
      this.#key = key;
    } else if (this.#isSorted) {
      const last = rows[rows.length - 1];
      if (last !== undefined && this.#compare(last, row) > 0) this.#isSorted = false;
    }
    rows.push(row);
  }

  /** The rows whose place is settled. */
  take(): Row[] {
    const rest = this.#rows.splice(this.#start);
    const settled = this.#rows;
    this.#rows = rest;
    this.#start = 0;
    return settled;
  }

  /** All that is left, after the last row. */
  end(): Row[] {
    if (!this.#isSorted) this.#sort();
    const settled = this.#rows;
    this.#rows = [];
    this.#start = 0;
    this.#key = undefined;
    return settled;
  }

  #sort(): void {
    const group = this.#rows.splice(this.#start).sort(this.#compare);
    for (const row of group) this.#rows.push(row);
    this.#isSorted = true;
  }
}
