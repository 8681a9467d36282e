import type { Clock } from '../../kernel/clock.js';
import type { CloseReason } from './state-feed.js';

/** Refused queries in a row that end a connection. */
const MAX_REFUSED = 3;

export interface StateQueriesOptions {
  readonly clock: Clock;
  readonly queryEveryMs: number;
  readonly acknowledgeTimeoutMs: number;
  /** Sends a state.query; gives its id. */
  readonly send: () => number;
  readonly end: (reason: CloseReason) => void;
}

/**
 * The questions of one connection, one at a time: asked anew some time after each answer, with a
 * deadline. Not every server of the family knows them: one that goes on with updates lives without.
 */
export class StateQueries {
  readonly #options: StateQueriesOptions;
  #asked: { readonly id: number; readonly sentMonotonicMs: number } | undefined;
  #cancel: (() => void) | undefined;
  #refused = 0;
  #updates = 0;

  constructor(options: StateQueriesOptions) {
    this.#options = options;
  }

  get isWaiting(): boolean {
    return this.#asked !== undefined;
  }

  ask(): void {
    const { clock, acknowledgeTimeoutMs, send } = this.#options;
    this.end();
    this.#updates = 0;
    this.#cancel = clock.after(acknowledgeTimeoutMs, () => this.#missed());
    this.#asked = { id: send(), sentMonotonicMs: clock.monotonicMs() };
  }

  /** An update shows that the connection lives, whatever becomes of the question. */
  updated(): void {
    this.#updates += 1;
    this.#refused = 0;
  }

  /** @returns when the question left, monotonic; undefined when this is no answer to it */
  answered(id: number | string): number | undefined {
    if (this.#asked?.id !== id) return undefined;
    const { sentMonotonicMs } = this.#asked;
    this.#askLater();
    return sentMonotonicMs;
  }

  /** Whether the answer was one. */
  settled(isAnswer: boolean): void {
    this.#refused = isAnswer ? 0 : this.#refused + 1;
    if (this.#refused >= MAX_REFUSED && this.#updates === 0) this.#options.end('query_refused');
  }

  /** Leaves no timer. */
  end(): void {
    this.#cancel?.();
    this.#cancel = undefined;
    this.#asked = undefined;
  }

  #missed(): void {
    if (this.#updates === 0) this.#options.end('silent');
    else this.#askLater();
  }

  #askLater(): void {
    const { clock, queryEveryMs } = this.#options;
    this.end();
    this.#cancel = clock.after(queryEveryMs, () => this.ask());
  }
}
