import { AbortedError } from '../../kernel/errors.js';
import { ArchiveError } from '../errors.js';
import type { Batches } from '../merge.js';
import type { ArchiveEvent } from './event.js';

/**
 * Events in their order, one at a time or some hundred together. Nothing is read before the first is
 * asked for, and no more than a few thousand ahead of the reader, however slow it is.
 *
 * States: *new* → *reading* → *ended*. Leaving the loop, an error and the abort of a signal end it;
 * connections and files are then closed, and every further `next` returns done. A second loop would see
 * nothing and take it for a quiet market, so it is refused.
 */
export class EventStream<Event extends ArchiveEvent = ArchiveEvent>
  implements AsyncIterableIterator<Event>
{
  readonly #open: (signal: AbortSignal) => Promise<Batches<ArchiveEvent>>;
  readonly #onEnd: (stream: EventStream<Event>) => void;
  readonly #controller = new AbortController();
  readonly #signal: AbortSignal | undefined;
  readonly #onAbort = () => this.#stop(this.#signal?.reason);
  #batches: Batches<ArchiveEvent> | undefined;
  #batch: readonly Event[] = [];
  #at = 0;
  #isEnded = false;
  #hasBegun = false;
  /** Thrown to the reader once. */
  #failure: { readonly reason: unknown } | undefined;
  #turn: Promise<unknown> = Promise.resolve();

  /**
   * @param open opens all that is read, at the first call of `next`
   * @param onEnd called at the end, which may be noticed twice
   */
  constructor(
    open: (signal: AbortSignal) => Promise<Batches<ArchiveEvent>>,
    signal: AbortSignal | undefined,
    onEnd: (stream: EventStream<Event>) => void,
  ) {
    this.#open = open;
    this.#onEnd = onEnd;
    this.#signal = signal;
    if (signal?.aborted === true) this.#onAbort();
    else signal?.addEventListener('abort', this.#onAbort);
  }

  /** @throws ArchiveError `events_ended` for a second loop, when the first has come to its end */
  [Symbol.asyncIterator](): this {
    this.#begin();
    return this;
  }

  /** The next event. Calls that do not wait for each other are answered in their order. */
  next(): Promise<IteratorResult<Event, undefined>> {
    const at = this.#at;
    if (at < this.#batch.length) {
      this.#at = at + 1;
      return Promise.resolve({ done: false, value: this.#batch[at] as Event });
    }
    return this.#inTurn(async () => {
      if (this.#at >= this.#batch.length && !(await this.#refill())) {
        return { done: true, value: undefined };
      }
      const value = this.#batch[this.#at] as Event;
      this.#at += 1;
      return { done: false, value };
    });
  }

  /**
   * Returns the events, some at a time: quicker where each of them takes less than a microsecond. Use this
   * or the stream itself, not both at once.
   *
   * @throws ArchiveError `events_ended` as the stream itself
   */
  async *batches(): AsyncGenerator<readonly Event[], void, undefined> {
    this.#begin();
    try {
      for (;;) {
        const isMore = await this.#inTurn(
          async () => this.#at < this.#batch.length || (await this.#refill()),
        );
        if (!isMore) return;
        const batch = this.#batch.slice(this.#at);
        this.#at = this.#batch.length;
        yield batch;
      }
    } finally {
      await this.return();
    }
  }

  /** Ends it and closes all that was opened. Safe to call at any time. */
  async return(): Promise<IteratorResult<Event, undefined>> {
    this.#stop(new AbortedError('the events were left'));
    this.#failure = undefined;
    await this.#turn;
    return { done: true, value: undefined };
  }

  /** Ends the events as {@link return} does, then fails with the reason. */
  async throw(reason: unknown): Promise<IteratorResult<Event, undefined>> {
    await this.return();
    throw reason;
  }

  /** Ends it with an error that the reader's next question is answered with. */
  fail(reason: Error): void {
    this.#stop(reason);
  }

  #begin(): void {
    if (this.#hasBegun && this.#isEnded) {
      const text = 'these events were read already: call archive.events again';
      throw new ArchiveError('events_ended', text);
    }
    this.#hasBegun = true;
  }

  #stop(reason: unknown): void {
    if (this.#isEnded || this.#failure !== undefined) return;
    this.#failure = { reason };
    this.#batch = [];
    this.#at = 0;
    this.#controller.abort(reason);
    void this.#inTurn(() => this.#end());
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Returns true if there is a batch. @throws what reading failed with, once */
  async #refill(): Promise<boolean> {
    this.#throwFailure();
    if (this.#isEnded) return false;
    try {
      this.#batches ??= await this.#open(this.#controller.signal);
      const next = await this.#batches.next();
      this.#throwFailure();
      if (next.done !== true) {
        this.#batch = next.value as readonly ArchiveEvent[] as readonly Event[];
        this.#at = 0;
        return true;
      }
    } catch (error) {
      await this.#end();
      this.#throwFailure();
      throw error;
    }
    await this.#end();
    return false;
  }

  #throwFailure(): void {
    const failure = this.#failure;
    this.#failure = undefined;
    if (failure !== undefined) throw failure.reason;
  }

  async #end(): Promise<void> {
    this.#isEnded = true;
    this.#batch = [];
    this.#at = 0;
    this.#signal?.removeEventListener('abort', this.#onAbort);
    // Work in progress may fail once more because it was ended.
    await this.#batches?.return(undefined).catch(() => undefined);
    this.#onEnd(this);
  }
}
