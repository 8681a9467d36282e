import { createHash } from 'node:crypto';
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Clock } from '../kernel/clock.js';
import { codeOf, messageOf, TapekeepError } from '../kernel/errors.js';
import type { Random } from '../kernel/random.js';
import type { NonceStore } from './exchange-client.js';
import { NonceLock, type NonceLockOptions } from './nonce-lock.js';

/** Where the nonces of a key are kept, and how programs that share the key wait for each other. */
export interface NonceFileOptions
  extends Pick<NonceLockOptions, 'clock' | 'random' | 'waitMs' | 'leaseMs'> {
  /** Folder of all nonces; made when missing, for its owner only. */
  readonly folder: string;
  /** Names the file by a fingerprint; the key itself is nowhere in it. */
  readonly apiKey: string;
  /** Time for the waits. */
  readonly clock: Clock;
  /** Spreads the waits. */
  readonly random: Random;
}

/** Characters of the fingerprint: too many to collide, and no way back to the key. */
const FINGERPRINT_LENGTH = 32;
const NONCE_TEXT = /^\d{13}\n$/;

/** The nonces of a key cannot be kept, so nothing is signed with it. */
export class NonceFileError extends TapekeepError {
  constructor(path: string, detail: string, options?: { cause?: unknown }) {
    super(
      'nonce_file',
      'fatal',
      `${path}, which keeps the last nonce of a key, ${detail}`,
      options,
    );
  }
}

/**
 * Keeps the last nonce of one key in a file of its own, named by a fingerprint of the key, and lets
 * one process at a time sign with it. A file is replaced as a whole, so a crash leaves the old or
 * the new one.
 */
export class NonceFile implements NonceStore {
  readonly #folder: string;
  readonly #path: string;
  readonly #lock: NonceLock;

  constructor({ folder, apiKey, ...options }: NonceFileOptions) {
    const digest = createHash('sha256').update(apiKey).digest('hex');
    this.#folder = folder;
    this.#path = join(folder, digest.slice(0, FINGERPRINT_LENGTH));
    this.#lock = new NonceLock({ ...options, path: `${this.#path}.lock` });
  }

  /** @throws NonceFileError, or what {@link NonceLock.acquire} throws */
  async lock(signal?: AbortSignal): Promise<() => Promise<void>> {
    try {
      await mkdir(this.#folder, { recursive: true, mode: 0o700 });
      return await this.#lock.acquire(signal);
    } catch (error) {
      throw this.#explained(error, 'cannot be locked');
    }
  }

  async load(): Promise<number | undefined> {
    let text: string;
    try {
      text = await readFile(this.#path, 'utf8');
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw this.#explained(error, 'cannot be read');
    }
    if (NONCE_TEXT.test(text)) return Number(text);
    const advice = 'holds no 13-digit number; delete it if the clock of this machine is right';
    throw new NonceFileError(this.#path, advice);
  }

  async save(nonce: number): Promise<void> {
    const next = `${this.#path}.${process.pid}.new`;
    try {
      await rm(next, { force: true });
      const file = await open(next, 'wx', 0o600);
      try {
        await file.writeFile(`${nonce}\n`);
        await file.datasync();
      } finally {
        await file.close();
      }
      await rename(next, this.#path);
    } catch (error) {
      throw this.#explained(error, 'cannot be written');
    }
  }

  /** Errors of the disk get a name and advice; all others stay what they are. */
  #explained(error: unknown, what: string): unknown {
    const isOfDisk = error instanceof Error && 'syscall' in error;
    if (!isOfDisk) return error;
    const advice = `${what} (${messageOf(error)}); make the folder writable for this user, or name another one: the setting dataDir, or the option nonces of an ExchangeClient`;
    return new NonceFileError(this.#path, advice, { cause: error });
  }
}
