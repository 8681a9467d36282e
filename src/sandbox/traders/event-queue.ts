/**
 * Events in order of time; those of one instant in order of rank, then in the order in which they
 * were added. A binary heap.
 */
export interface Scheduled {
  /** UNIX microseconds. */
  readonly timeUs: number;
  /** Settles the order of events of one instant. */
  readonly rank: number;
}

export class EventQueue<E extends Scheduled> {
  #heap: Array<{ readonly event: E; readonly sequence: number }> = [];
  #nextSequence = 0;

  get size(): number {
    return this.#heap.length;
  }

  /** The event that comes next. */
  get first(): E | undefined {
    return this.#heap[0]?.event;
  }

  add(event: E): void {
    const entry = { event, sequence: this.#nextSequence };
    this.#nextSequence += 1;
    let at = this.#heap.length;
    this.#heap.push(entry);
    while (at > 0) {
      const parent = (at - 1) >>> 1;
      if (!this.#isBefore(at, parent)) break;
      this.#swap(at, parent);
      at = parent;
    }
  }

  /** Takes out the event that comes next. */
  take(): E | undefined {
    const first = this.#heap[0];
    const last = this.#heap.pop();
    if (first === undefined || last === undefined || first === last) return first?.event;
    this.#heap[0] = last;
    let at = 0;
    for (;;) {
      const left = 2 * at + 1;
      const right = left + 1;
      let least = at;
      if (left < this.#heap.length && this.#isBefore(left, least)) least = left;
      if (right < this.#heap.length && this.#isBefore(right, least)) least = right;
      if (least === at) return first.event;
      this.#swap(at, least);
      at = least;
    }
  }

  clear(): void {
    this.#heap = [];
  }

  #isBefore(index: number, other: number): boolean {
    const a = this.#heap[index];
    const b = this.#heap[other];
    if (a === undefined || b === undefined) return false;
    if (a.event.timeUs !== b.event.timeUs) return a.event.timeUs < b.event.timeUs;
    if (a.event.rank !== b.event.rank) return a.event.rank < b.event.rank;
    return a.sequence < b.sequence;
  }

  #swap(index: number, other: number): void {
    const a = this.#heap[index];
    const b = this.#heap[other];
    if (a === undefined || b === undefined) return;
    this.#heap[index] = b;
    this.#heap[other] = a;
  }
}
