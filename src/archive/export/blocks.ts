import { type FileHandle, open } from 'node:fs/promises';

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
    this.#underWay = writeWhole(this.#file, block);
    // It is reported to the next one who waits for it.
    this.#underWay.catch(() => undefined);
  }
}

/** A write may take less than it was given. */
export async function writeWhole(file: FileHandle, bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes, at, bytes.length - at);
    at += bytesWritten;
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
