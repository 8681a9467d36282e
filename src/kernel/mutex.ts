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
