import { type Span, subtractSpans } from '../../kernel/span.js';

/** How many rows, and which are the lowest and the highest of their trade ids. */
export interface Counted {
  readonly rowCount: number;
  readonly firstId: number | null;
  readonly lastId: number | null;
}

/** Where rows of a market were stored before those of a transaction. */
export interface StoredNear {
  /** Where somebody looked. */
  readonly looked: Span;
  /** From the oldest to the newest that was found there; undefined when there was none. */
  readonly found: Span | undefined;
}

/** The rows that a transaction added, as far as the count of their stream is concerned. */
export class FreshRows {
  static readonly NONE = new FreshRows(new Float64Array());

  readonly #ms: Float64Array;
  readonly #tids: Float64Array | undefined;

  /**
   * @param ms the moments of the rows, in order
   * @param tids their ids, for trades and times
   */
  constructor(ms: Float64Array, tids?: Float64Array) {
    this.#ms = ms;
    this.#tids = tids;
  }

  /** From the first moment to the last; undefined when there is none. */
  get hull(): Span | undefined {
    const [fromMs, toMs] = [this.#ms[0], this.#ms.at(-1)];
    return fromMs === undefined || toMs === undefined ? undefined : { fromMs, toMs };
  }

  isIn(span: Span): boolean {
    return this.#before(span.fromMs) < this.#before(span.toMs);
  }

  /** Those in a span, without those in some parts of it. */
  count(span: Span, without: readonly Span[]): Counted {
    let rowCount = 0;
    let firstId: number | null = null;
    let lastId: number | null = null;
    for (const { fromMs, toMs } of subtractSpans(span, without)) {
      const [start, end] = [this.#before(fromMs), this.#before(toMs)];
      rowCount += end - start;
      for (const tid of this.#tids?.subarray(start, end) ?? []) {
        if (firstId === null || tid < firstId) firstId = tid;
        if (lastId === null || tid > lastId) lastId = tid;
      }
    }
    return { rowCount, firstId, lastId };
  }

  /** From the first to the last moment of those in a span, without those in some parts of it. */
  hullIn(span: Span, without: readonly Span[]): Span | undefined {
    let hull: Span | undefined;
    for (const { fromMs, toMs } of subtractSpans(span, without)) {
      const within = this.#ms.subarray(this.#before(fromMs), this.#before(toMs));
      const [first, last] = [within[0], within.at(-1)];
      if (first === undefined || last === undefined) continue;
      hull = { fromMs: hull?.fromMs ?? first, toMs: last };
    }
    return hull;
  }

  /** How many are before a moment. */
  #before(atMs: number): number {
    let low = 0;
    let high = this.#ms.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ms[middle] ?? Number.POSITIVE_INFINITY) < atMs) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
