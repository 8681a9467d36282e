/** Runs pieces of asynchronous work one after the other, in the order in which they were asked for. */
export class Mutex {
  #tail: Promise<void> = Promise.resolve();

  /** Runs `work` when all earlier work has ended; passes on its result or error. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#tail.then(work);
    this.#tail = result.then(
      () => undefined,
      () => undefined,
    );
    return result;
  }
}
