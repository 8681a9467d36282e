import { readlinkSync, rmSync } from 'node:fs';
import { type FileHandle, mkdtemp, open, readdir, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { makeTemporary } from '../kernel/folders.js';
import { isAlive } from '../kernel/processes.js';

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
    return new Scratch(await makeTemporary(nameOf(`tapekeep-${purpose}`)));
  }

  /**
   * A hidden folder on the disk of a file that is to come to `folder`. Takes away what programs left
   * there that were killed.
   *
   * @throws the system's error when nothing can be made there
   */
  static async makeBeside(folder: string): Promise<Scratch> {
    await sweep(folder);
    return new Scratch(await mkdtemp(join(folder, nameOf('.tapekeep-export'))));
  }

  /** Safe to call twice. */
  async remove(): Promise<void> {
    await rm(this.path, { recursive: true, force: true });
    process.off('exit', this.#onExit);
  }
}

/** Start of the name of a folder. */
const nameOf = (name: string) => `${name}-${process.pid}.${numberSpace()}-`;

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

const BLOCK_BYTES = 1024 * 1024;

/**
 * Gathers what is to be written into a file, so that it takes few calls, and goes on gathering while
 * one block is being written.
 */
export class BlockWriter {
  readonly #file: FileHandle;
  #block = Buffer.allocUnsafe(BLOCK_BYTES);
  #spare = Buffer.allocUnsafe(BLOCK_BYTES);
  #used = 0;
  #underWay: Promise<void> = Promise.resolve();

  constructor(file: FileHandle) {
    this.#file = file;
  }

  /** The bytes are the caller's again at once. @throws the error of a write, also of an earlier one */
  async add(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.length; ) {
      const count = Math.min(BLOCK_BYTES - this.#used, bytes.length - from);
      this.#block.set(bytes.subarray(from, from + count), this.#used);
      this.#used += count;
      from += count;
      if (this.#used === BLOCK_BYTES) await this.#turn();
    }
  }

  /** Resolves when everything is with the system. */
  async flush(): Promise<void> {
    if (this.#used > 0) await this.#turn();
    await this.#underWay;
  }

  async #turn(): Promise<void> {
    await this.#underWay;
    const block = this.#block.subarray(0, this.#used);
    [this.#block, this.#spare] = [this.#spare, this.#block];
    this.#used = 0;
    // Goes on from where the last one ended.
    this.#underWay = this.#file.writeFile(block);
    // It is reported to the next one who waits for it.
    this.#underWay.catch(() => undefined);
  }
}

/** Makes a new file that only this user reads, of what is added to it. */
export async function fillFile<T>(
  path: string,
  fill: (add: (bytes: Uint8Array) => Promise<void>) => Promise<T>,
): Promise<T> {
  const file = await open(path, 'wx', 0o600);
  try {
    const blocks = new BlockWriter(file);
    const result = await fill((bytes) => blocks.add(bytes));
    await blocks.flush();
    return result;
  } finally {
    await file.close();
  }
}

/** Writes a new file that is on the disk whole when this resolves. */
export async function writeSynced(path: string, text: string): Promise<void> {
  const file = await open(path, 'wx', 0o644);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the content of a file last over a loss of power. */
export async function syncFile(path: string): Promise<void> {
  const file = await open(path, 'r+');
  try {
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Gives a file its place, which lasts from then on. */
export async function moveSynced(from: string, to: string): Promise<void> {
  await rename(from, to);
  await syncFolder(dirname(to));
}

/** Makes entries and renames in a folder last over a loss of power, where the system can. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}
