import { createHash } from 'node:crypto';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { homedir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { BoundedMap, obtain } from '../kernel/bounded.js';
import { type Clock, systemClock } from '../kernel/clock.js';
import { codeOf, messageOf, TapekeepError } from '../kernel/errors.js';
import { FileLock } from '../kernel/file-lock.js';
import { makeFolder } from '../kernel/folders.js';
import { type Random, systemRandom } from '../kernel/random.js';
import type { NonceStore } from './exchange-client.js';
import { Semaphore } from './request-gate.js';

/**
 * Keeps the last nonce of a key.
 *
 * - `{ folder }`: in a file of its own there, shared by all programs that name the same folder.
 * - `memory`: nowhere. For a key with no other user, where nothing can be written: a restart goes
 *   on from the wall clock, which must not have been set back.
 * - a {@link NonceStore}: wherever it says.
 */
export type NoncePlace = 'memory' | { readonly folder: string } | NonceStore;

/**
 * Default folder of nonces: a folder of this user's for what programs remember,
 * `~/.local/state/tapekeep/nonces` or what the platform has in its place.
 */
export function defaultNonceFolder(home = homedir(), platform: string = process.platform): string {
  const places: Readonly<Record<string, readonly string[]>> = {
    darwin: ['Library', 'Application Support'],
    win32: ['AppData', 'Local'],
  };
  return join(home, ...(places[platform] ?? ['.local', 'state']), 'tapekeep', 'nonces');
}

/** Keys remembered in one process; beyond, the one used first is forgotten. */
const KEYS_MAX = 1000;
/** By place and fingerprint of the key, kept as long as the process: a nonce must not come again. */
const shared = new BoundedMap<string, NonceStore>(KEYS_MAX);

/** The nonces of a key: the same for all clients of this process that keep it at the same place. */
export function openNonces(place: NoncePlace, apiKey: string): NonceStore {
  if (typeof place === 'object' && 'load' in place) return place;
  const where = place === 'memory' ? place : resolve(place.folder);
  const name = createHash('sha256')
    .update(JSON.stringify([where, apiKey]))
    .digest('hex');
  return obtain(shared, name, () => {
    const own = { clock: systemClock, random: systemRandom, apiKey };
    return oneAtATime(
      place === 'memory' ? nonceMemory() : new NonceFile({ ...own, folder: where }),
    );
  });
}

function nonceMemory(): NonceStore {
  let last: number | undefined;
  return {
    load: () => Promise.resolve(last),
    save(nonce) {
      last = nonce;
      return Promise.resolve();
    },
  };
}

/**
 * Puts the clients of one process in line before they reach for what lies between processes: a file
 * is looked at some times a second, and knows no order among those who look.
 */
function oneAtATime(inner: NonceStore): NonceStore {
  const line = new Semaphore(1);
  return {
    place: inner.place,
    async lock(signal) {
      const leave = await line.enter(0, signal);
      try {
        const release = await inner.lock?.(signal);
        return async () => {
          await release?.();
          leave();
        };
      } catch (error) {
        leave();
        throw error;
      }
    },
    load: () => inner.load(),
    save: (nonce) => inner.save(nonce),
  };
}

/** Place of the nonces of a key, and how programs that share the key wait for each other. */
export interface NonceFileOptions {
  /** Folder of all nonces; made when missing, for its owner only. */
  readonly folder: string;
  /** Names the file by a fingerprint; the key itself is nowhere in it. */
  readonly apiKey: string;
  /** Time for the waits. */
  readonly clock: Clock;
  /** Spreads the waits. */
  readonly random: Random;
  /** Longest wait for other programs that sign with the key. Default 60 s. */
  readonly waitMs?: number;
  /** A program that signs gives a sign of life four times in this time; one on another machine without is gone. Default 10 s. */
  readonly leaseMs?: number;
}

/** Longest wait for the others. */
const DEFAULT_WAIT_MS = 60_000;
/** Characters of the fingerprint: too many to collide, and no way back to the key. */
const FINGERPRINT_LENGTH = 32;
const NONCE_TEXT = /^\d{13}\n$/;

/** Another program signs with this key and does not come to an end. */
export class NonceLockedError extends TapekeepError {
  constructor(path: string, holder: string, waitMs: number) {
    super(
      'nonce_locked',
      `another program (${holder}) has been signing requests with this key for ${Math.round(waitMs / 1000)} s; try again, or remove ${path} if there is none`,
    );
  }
}

/** The nonces of a key cannot be kept, so nothing is signed with it. */
export class NonceFileError extends TapekeepError {
  constructor(path: string, detail: string, options?: { cause?: unknown }) {
    super('nonce_file', `${path}, which keeps the last nonce of a key, ${detail}`, options);
  }
}

/**
 * Keeps the last nonce of one key in a file of its own, named by a fingerprint of the key, and lets
 * one process at a time sign with it. A file is replaced as a whole, so a crash leaves the old or
 * the new one.
 */
export class NonceFile implements NonceStore {
  readonly place: string;
  readonly #folder: string;
  readonly #lock: FileLock;
  #isTidy = false;

  constructor({ folder, apiKey, waitMs = DEFAULT_WAIT_MS, ...options }: NonceFileOptions) {
    const digest = createHash('sha256').update(apiKey).digest('hex');
    this.#folder = folder;
    this.place = join(folder, digest.slice(0, FINGERPRINT_LENGTH));
    const path = `${this.place}.lock`;
    // Taken twice, the worst is one refused request: a server accepts each nonce once.
    this.#lock = new FileLock({
      ...{ ...options, path, waitMs },
      refusal: (holder) => new NonceLockedError(path, holder, waitMs),
    });
  }

  /** @throws NonceFileError, NonceLockedError, or the signal's reason */
  async lock(signal?: AbortSignal): Promise<() => Promise<void>> {
    try {
      await makeFolder(this.#folder, 0o700);
      const release = await this.#lock.acquire(signal);
      if (!this.#isTidy) await this.#tidy().catch(() => undefined);
      return release;
    } catch (error) {
      throw this.#explained(error, 'cannot be locked');
    }
  }

  /** Removes what a process that was killed while it saved or locked has left; under the lock no other saves. */
  async #tidy(): Promise<void> {
    const leftOver = new RegExp(`^${basename(this.place)}\\.\\d+\\.new$`);
    const names = (await readdir(this.#folder)).filter((name) => leftOver.test(name));
    await Promise.all(names.map((name) => rm(join(this.#folder, name), { force: true })));
    await this.#lock.tidy();
    this.#isTidy = true;
  }

  async load(): Promise<number | undefined> {
    let text: string;
    try {
      text = await readFile(this.place, 'utf8');
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw this.#explained(error, 'cannot be read');
    }
    if (NONCE_TEXT.test(text)) return Number(text);
    const advice = 'holds no 13-digit number; delete it if the clock of this machine is right';
    throw new NonceFileError(this.place, advice);
  }

  async save(nonce: number): Promise<void> {
    const next = `${this.place}.${process.pid}.new`;
    try {
      await rm(next, { force: true });
      const file = await open(next, 'wx', 0o600);
      try {
        await file.writeFile(`${nonce}\n`);
        await file.datasync();
      } finally {
        await file.close();
      }
      await rename(next, this.place);
    } catch (error) {
      throw this.#explained(error, 'cannot be written');
    }
  }

  /** Errors of the disk get a name and advice; all others stay what they are. */
  #explained(error: unknown, what: string): unknown {
    const isOfDisk = error instanceof Error && 'syscall' in error;
    if (!isOfDisk) return error;
    const advice = `${what} (${messageOf(error)}); make the folder writable for this user, or name another one: the setting dataDir, or the option nonces of an ExchangeClient`;
    return new NonceFileError(this.place, advice, { cause: error });
  }
}
