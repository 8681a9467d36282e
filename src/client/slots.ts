import { WaitingLine } from '../kernel/waiting-line.js';

/**
 * A fixed number of places to work in at the same time, given out by turn. It bounds the
 * requests under way, so that none waits inside the connection pool after its token was taken.
 */
export class Slots {
  readonly #line = new WaitingLine();
  #free: number;

  constructor(count: number) {
    if (!Number.isInteger(count) || count < 1)
      throw new RangeError(`not a number of slots: ${count}`);
    this.#free = count;
  }

  /**
   * Waits for a place.
   *
   * @returns gives the place back; a second call does nothing
   * @throws the signal's reason when it aborts first
   */
  async enter(turn: number, signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#line.join(turn, signal);
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      if (!this.#line.admitNext()) this.#free += 1;
    };
  }
}
