import { rmSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A folder of one's own for what does not fit into memory; gone with the program at the latest. */
export class Scratch {
  readonly path: string;
  readonly #onExit: () => void;

  private constructor(path: string) {
    this.path = path;
    // A reader of our output that has seen enough ends the program at once.
    this.#onExit = () => rmSync(path, { recursive: true, force: true });
    process.once('exit', this.#onExit);
  }

  /** @param purpose a word for people who find it */
  static async make(purpose: string): Promise<Scratch> {
    return new Scratch(await mkdtemp(join(tmpdir(), `tapekeep-${purpose}-`)));
  }

  /** Safe to call twice. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
    process.off('exit', this.#onExit);
  }
}
