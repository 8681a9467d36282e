import { readlinkSync, rmSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { isAlive } from '../../kernel/processes.js';

/** Whose a folder is stands in its name: the process, and where its number counts. */
const NAME = /^\.?tapekeep-[a-z]+-(\d+)\.(\d+)-[A-Za-z0-9]{6}$/;

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

  /**
   * Takes away what programs left that were killed.
   *
   * @param purpose a word for people who find it
   */
  static async make(purpose: string): Promise<Scratch> {
    swept ??= sweep(tmpdir());
    await swept;
    return await Scratch.#makeIn(tmpdir(), `tapekeep-${purpose}`);
  }

  /**
   * A hidden folder on the disk of a file that is to come to `folder`. Takes away what programs left
   * there that were killed.
   *
   * @throws the system's error when nothing can be made there
   */
  static async makeBeside(purpose: string, folder: string): Promise<Scratch> {
    await sweep(folder);
    return await Scratch.#makeIn(folder, `.tapekeep-${purpose}`);
  }

  static async #makeIn(folder: string, name: string): Promise<Scratch> {
    return new Scratch(await mkdtemp(join(folder, `${name}-${process.pid}.${numberSpace()}-`)));
  }

  /** Safe to call twice. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
    process.off('exit', this.#onExit);
  }
}

let swept: Promise<void> | undefined;

/** Removes scratch folders of programs that run no more; what cannot be removed belongs to another user. */
export async function sweep(folder: string): Promise<void> {
  const names = await readdir(folder).catch(() => []);
  const here = numberSpace();
  for (const name of names) {
    const [, pid, space] = NAME.exec(name) ?? [];
    if (pid === undefined || space !== here || isAlive(Number(pid))) continue;
    await rm(join(folder, name), { recursive: true, force: true }).catch(() => undefined);
  }
}

/** Containers that share a folder count their processes each from one; 0 where it is unknown. */
function numberSpace(): string {
  try {
    return /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0] ?? '0';
  } catch {
    return '0';
  }
}
