import { unlessAborted } from './clock.js';

/** Runs pieces of asynchronous work one after the other, in the order in which they were asked for. */
export class Mutex {
  #tail: Promise<void> = Promise.resolve();
  #pending = 0;

  /** Returns true if some work runs or waits: more would not start at once. */
  get isBusy(): boolean {
    return this.#pending > 0;
  }

  /** Runs `work` when all earlier work has ended; passes on its result or error. */
  run<T>(work: () => Promise<T>): Promise<T> {
    this.#pending += 1;
    const ended = () => {
      this.#pending -= 1;
    };
    const result = this.#tail.then(work);
    this.#tail = result.then(ended, ended);
    return result;
  }
}

/** Lets so many pieces of work run at once; a few others wait for their turn, in the order in which they came. */
export class Slots {
  readonly #waiting: (() => void)[] = [];
  readonly #waitingMax: number;
  readonly #refusal: () => Error;
  #free: number;

  /** @param refusal thrown where more would wait than may */
  constructor(atOnce: number, waitingMax: number, refusal: () => Error) {
    this.#free = atOnce;
    this.#waitingMax = waitingMax;
    this.#refusal = refusal;
  }

  /**
   * Runs `work` in a slot; passes on its result or error.
   *
   * @throws the signal's reason while it waits
   */
  async run<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#turn(signal);
    try {
      return await work();
    } finally {
      this.#leave();
    }
  }

  /** Hands the slot to the next one that waits. */
  #leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next();
  }

  async #turn(signal: AbortSignal): Promise<void> {
    if (this.#waiting.length >= this.#waitingMax) throw this.#refusal();
    let enter: () => void = () => undefined;
    const turn = new Promise<void>((resolve) => {
      enter = resolve;
      this.#waiting.push(resolve);
    });
    try {
      await unlessAborted(signal, turn);
    } catch (error) {
      const at = this.#waiting.indexOf(enter);
      if (at >= 0) this.#waiting.splice(at, 1);
      else this.#leave();
      throw error;
    }
  }
}
