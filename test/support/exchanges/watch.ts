/** Waits until `isDone`, looking again whenever `wake` is called. */
export class Watch {
  #waiting: Array<() => void> = [];

  wake(): void {
    for (const wake of this.#waiting.splice(0)) wake();
  }

  async until(isDone: () => boolean): Promise<void> {
    while (!isDone()) await new Promise<void>((resolve) => this.#waiting.push(resolve));
  }
}
