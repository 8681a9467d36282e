import { AbortedError } from './errors.js';

/**
 * A first-in-first-out queue with a limit, read with `for await`.
 *
 * States: *open* → *closed*. While open, {@link BoundedQueue.put} waits at the limit (backpressure)
 * and {@link BoundedQueue.offer} refuses instead, for sources that cannot wait (a socket). After
 * {@link BoundedQueue.close} readers drain what is left and then end; writers are refused.
 */
export class BoundedQueue<T> implements AsyncIterable<T> {
  readonly #limit: number;
  #items: T[] = [];
  #head = 0;
  #closed = false;
  #readers: Array<() => void> = [];
  #writers: Array<() => void> = [];

  constructor(limit: number) {
    if (!Number.isInteger(limit) || limit < 1) throw new RangeError('a queue needs a limit of 1+');
    this.#limit = limit;
  }

  get size(): number {
    return this.#items.length - this.#head;
  }

  /** Adds `item`, waiting while the queue is full. @throws {@link AbortedError} once closed. */
  async put(item: T): Promise<void> {
    while (!this.#closed && this.size >= this.#limit) {
      await new Promise<void>((resolve) => this.#writers.push(resolve));
    }
    if (this.#closed) throw new AbortedError('the queue is closed');
    this.#push(item);
  }

  /** Adds `item` if there is room; false when full or closed, and then the caller must count it. */
  offer(item: T): boolean {
    if (this.#closed || this.size >= this.#limit) return false;
    this.#push(item);
    return true;
  }

  /** Takes up to `max` items, waiting for the first one; empty only when closed and drained. */
  async takeUpTo(max: number): Promise<T[]> {
    while (this.size === 0 && !this.#closed) {
      await new Promise<void>((resolve) => this.#readers.push(resolve));
    }
    const taken = this.#items.slice(this.#head, this.#head + max);
    this.#head += taken.length;
    if (this.#head > 1024 || this.#head === this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    for (let freed = 0; freed < taken.length; freed += 1) this.#writers.shift()?.();
    return taken;
  }

  /** Refuses further items; readers end after the last one. Safe to call twice. */
  close(): void {
    this.#closed = true;
    for (const wake of [...this.#readers.splice(0), ...this.#writers.splice(0)]) wake();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    for (;;) {
      const taken = await this.takeUpTo(1);
      if (taken.length === 0) return;
      yield* taken;
    }
  }

  #push(item: T): void {
    this.#items.push(item);
    this.#readers.shift()?.();
  }
}
