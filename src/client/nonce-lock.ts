import { readdir, readFile, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { type Clock, sleep } from '../kernel/clock.js';
import { codeOf, TapekeepError } from '../kernel/errors.js';
import { isAlive } from '../kernel/processes.js';
import type { Random } from '../kernel/random.js';

/** How long programs that sign with the same key wait for each other. */
export interface NonceLockOptions {
  /** The file that names who signs. */
  readonly path: string;
  /** Time for the waits. */
  readonly clock: Clock;
  /** Spreads the waits. */
  readonly random: Random;
  /** Longest wait for the others. Default 60 s. */
  readonly waitMs?: number;
  /** A holder gives a sign of life four times in this time; without one it is gone. Default 10 s. */
  readonly leaseMs?: number;
}

const DEFAULT_WAIT_MS = 60_000;
const DEFAULT_LEASE_MS = 10_000;
/** Mean pause between two looks at a held lock. */
const LOOK_EVERY_MS = 20;
const SIGNS_A_LEASE = 4;
/** Ends the name of a lock that is moved away; before it stands who moves it. */
const ASIDE = '.stale';

/** Another program signs with this key and does not come to an end. */
export class NonceLockedError extends TapekeepError {
  constructor(path: string, holder: string, waitMs: number) {
    super(
      'nonce_locked',
      `another program (${holder}) has been signing requests with this key for ${Math.round(waitMs / 1000)} s; try again, or remove ${path} if there is none`,
    );
  }
}

/** A lock file as it was found. */
interface Found {
  /** Process id, machine and a random word: no two holders ever write the same. */
  readonly text: string;
  readonly mtimeMs: number;
}

/**
 * A lock between processes that sign with one key: a file that exists while it is held.
 *
 * States: *free* (no file) → *held* (the file names its holder, whose signs of life move the file's
 * time) → *free*; or → *stale*, when the holder's process is gone from this machine, or gave no sign
 * of life for a lease, as measured by the one who waits: clocks of two machines are never compared.
 *
 * Should a stale lock be taken twice in a race of three, the worst is one refused request: nonces
 * are read and saved under the lock, and a server accepts each of them once.
 */
export class NonceLock {
  readonly #options: Required<NonceLockOptions>;

  constructor(options: NonceLockOptions) {
    this.#options = { waitMs: DEFAULT_WAIT_MS, leaseMs: DEFAULT_LEASE_MS, ...options };
  }

  /**
   * Waits for the lock. The function returned gives it back and never fails.
   *
   * @throws NonceLockedError when the others take too long; the signal's reason; errors of the disk
   */
  async acquire(signal?: AbortSignal): Promise<() => Promise<void>> {
    const { clock, random, waitMs, leaseMs, path } = this.#options;
    const own = `${process.pid} ${hostname()} ${random().toString(36).slice(2)}\n`;
    const startedMs = clock.monotonicMs();
    let seen: (Found & { readonly sinceMs: number }) | undefined;
    for (;;) {
      signal?.throwIfAborted();
      if (await this.#create(own)) return this.#hold(own);
      const nowMs = clock.monotonicMs();
      const found = await this.#find();
      if (found !== undefined) {
        const isSame = seen?.text === found.text && seen.mtimeMs === found.mtimeMs;
        seen = isSame && seen !== undefined ? seen : { ...found, sinceMs: nowMs };
        if (isProcessGone(found.text) || nowMs - seen.sinceMs >= leaseMs) {
          await this.#clearAway(found.text, own);
          continue;
        }
      }
      if (nowMs - startedMs >= waitMs) throw new NonceLockedError(path, nameOf(seen), waitMs);
      await sleep(clock, LOOK_EVERY_MS * (0.5 + random()), signal);
    }
  }

  async #create(own: string): Promise<boolean> {
    try {
      await writeFile(this.#options.path, own, { flag: 'wx', mode: 0o600 });
      return true;
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    }
  }

  /** Undefined when it was given back meanwhile. */
  async #find(): Promise<Found | undefined> {
    const { path } = this.#options;
    try {
      const [text, { mtimeMs }] = await Promise.all([readFile(path, 'utf8'), stat(path)]);
      return { text, mtimeMs };
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return undefined;
      throw error;
    }
  }

  /** Moved away rather than removed: of several that find it stale, one moves this very file. */
  async #clearAway(stale: string, own: string): Promise<void> {
    const { path } = this.#options;
    const aside = `${path}.${Buffer.from(own).toString('base64url')}${ASIDE}`;
    try {
      await rename(path, aside);
      const moved = await readFile(aside, 'utf8');
      // Another process holds it already: what was moved belongs to that one.
      if (moved !== stale) await writeFile(path, moved, { flag: 'wx', mode: 0o600 });
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' && codeOf(error) !== 'EEXIST') throw error;
    } finally {
      await rm(aside, { force: true });
    }
  }

  /** Removes what processes moved away and left, because they were killed at that; of others it may be needed. */
  async tidy(): Promise<void> {
    const { path } = this.#options;
    const [folder, start] = [dirname(path), `${basename(path)}.`];
    const left = (await readdir(folder)).filter((name) => {
      if (!name.startsWith(start) || !name.endsWith(ASIDE)) return false;
      const mover = name.slice(start.length, -ASIDE.length);
      return isProcessGone(Buffer.from(mover, 'base64url').toString());
    });
    await Promise.all(left.map((name) => rm(join(folder, name), { force: true })));
  }

  #hold(own: string): () => Promise<void> {
    const { clock, path, leaseMs } = this.#options;
    let isHeld = true;
    let cancel: () => void = () => undefined;
    const giveSigns = () => {
      cancel = clock.after(
        leaseMs / SIGNS_A_LEASE,
        () => {
          const atS = clock.wallMs() / 1000;
          void utimes(path, atS, atS)
            .catch(() => undefined)
            .then(() => {
              if (isHeld) giveSigns();
            });
        },
        { background: true },
      );
    };
    giveSigns();
    return async () => {
      if (!isHeld) return;
      isHeld = false;
      cancel();
      const text = await readFile(path, 'utf8').catch(() => undefined);
      if (text === own) await rm(path, { force: true }).catch(() => undefined);
    };
  }
}

/** Whether the holder ran on this machine and does so no longer. */
function isProcessGone(text: string): boolean {
  const [pid, host] = text.trim().split(' ');
  return host === hostname() && /^\d{1,10}$/.test(pid ?? '') && !isAlive(Number(pid));
}

function nameOf(found: Found | undefined): string {
  const [pid, host] = found?.text.trim().split(' ') ?? [];
  return /^\d{1,10}$/.test(pid ?? '') ? `process ${pid} on ${host ?? '?'}` : 'an unknown process';
}
