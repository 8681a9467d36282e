import {
  type FileHandle,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { hostname } from 'node:os';
import { basename, dirname, join } from 'node:path';
import { type Clock, sleep } from './clock.js';
import { codeOf } from './errors.js';
import { birthOf, isAlive, isZombie } from './processes.js';
import type { Random } from './random.js';

export interface FileLockOptions {
  /** The file that names the holder. */
  readonly path: string;
  /** Time for the waits. */
  readonly clock: Clock;
  /** Spreads the waits. */
  readonly random: Random;
  /** Longest wait for the others. */
  readonly waitMs: number;
  /** A holder gives a sign of life four times in this time; without one it is gone. Default 10 s. */
  readonly leaseMs?: number | undefined;
  /** Error for a holder that takes too long. @param holder such as `process 12 on HOST` */
  readonly refusal: (holder: string) => Error;
  /** Called once, when the others take longer than a moment. @param holder as above */
  readonly onWait?: ((holder: string) => void) | undefined;
}

const DEFAULT_LEASE_MS = 10_000;
/** Mean pause between two looks at a held lock. */
const LOOK_EVERY_MS = 20;
/** A wait that lasts this long is reported. */
const REPORT_AFTER_MS = 1_000;
const SIGNS_A_LEASE = 4;
/** Ends the name of a lock that is moved away; before it stands who moves it. */
const ASIDE = '.stale';
/** Texts of the locks that this process holds. */
const heldHere = new Set<string>();

type Release = () => Promise<void>;

/** A lock file as it was found. */
interface Found {
  /** Process id, machine, birth of the process and a random word: no two holders ever write the same. */
  readonly text: string;
  readonly mtimeMs: number;
}

/**
 * A lock between processes, also of several machines: a file that exists while it is held.
 *
 * States: *free* (no file) → *held* (the file names its holder, whose signs of life move the file's
 * time) → *free*; or → *stale*, when the holder's process is gone from this machine, or, where that
 * cannot be seen, gave no sign of life for a lease, as measured by the one who waits: clocks of two machines
 * are never compared.
 *
 * Should a stale lock be taken twice in a race of three, two hold it: what it guards must bear that.
 */
export class FileLock {
  readonly #options: FileLockOptions;
  readonly #leaseMs: number;

  constructor(options: FileLockOptions) {
    this.#options = options;
    this.#leaseMs = options.leaseMs ?? DEFAULT_LEASE_MS;
  }

  /**
   * Waits for the lock. The function returned gives it back and never fails.
   *
   * @param needless asked at each look at a lock that another holds; true ends the wait without the lock
   * @throws the refusal when the others take too long; the signal's reason; errors of the disk
   */
  async acquire(signal?: AbortSignal): Promise<Release>;
  async acquire(
    signal: AbortSignal | undefined,
    needless: () => Promise<boolean>,
  ): Promise<Release | undefined>;
  async acquire(
    signal?: AbortSignal,
    needless?: () => Promise<boolean>,
  ): Promise<Release | undefined> {
    const { clock, random, waitMs, refusal, onWait } = this.#options;
    const birth = (await birthOf(process.pid)) || '-';
    const own = `${process.pid} ${hostname()} ${birth} ${random().toString(36).slice(2)}\n`;
    const startedMs = clock.monotonicMs();
    let isReported = false;
    let seen: (Found & { readonly sinceMs: number }) | undefined;
    for (;;) {
      signal?.throwIfAborted();
      if (await this.#create(own)) return this.#hold(own);
      const nowMs = clock.monotonicMs();
      const found = await this.#find();
      if (found !== undefined) {
        const isSame = seen?.text === found.text && seen.mtimeMs === found.mtimeMs;
        seen = isSame && seen !== undefined ? seen : { ...found, sinceMs: nowMs };
        if (await this.#isStale(found.text, nowMs - seen.sinceMs)) {
          await this.#clearAway(found.text, own);
          continue;
        }
        if (await needless?.()) return undefined;
      }
      if (nowMs - startedMs >= waitMs) throw refusal(nameOf(seen));
      if (!isReported && nowMs - startedMs >= REPORT_AFTER_MS) {
        isReported = true;
        onWait?.(nameOf(seen));
      }
      await sleep(clock, LOOK_EVERY_MS * (0.5 + random()), signal);
    }
  }

  /** @param silentMs since when its holder gave no sign of life, as far as was seen */
  async #isStale(text: string, silentMs: number): Promise<boolean> {
    const life = await lifeOf(text);
    return life === 'gone' || (life === 'unknown' && silentMs >= this.#leaseMs);
  }

  /** False when it is there already. One that could not be filled, as on a full disk, does not stay. */
  async #create(own: string): Promise<boolean> {
    const { path } = this.#options;
    let file: FileHandle;
    try {
      file = await open(path, 'wx', 0o644);
    } catch (error) {
      if (codeOf(error) === 'EEXIST') return false;
      throw error;
    }
    try {
      await file.writeFile(own);
      return true;
    } catch (error) {
      await rm(path, { force: true });
      throw error;
    } finally {
      await file.close();
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
      if (moved !== stale) await writeFile(path, moved, { flag: 'wx', mode: 0o644 });
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
    for (const name of await readdir(folder)) {
      if (!name.startsWith(start) || !name.endsWith(ASIDE)) continue;
      const mover = name.slice(start.length, -ASIDE.length);
      const life = await lifeOf(Buffer.from(mover, 'base64url').toString());
      if (life === 'gone') await rm(join(folder, name), { force: true });
    }
  }

  #hold(own: string): () => Promise<void> {
    const { clock, path } = this.#options;
    let isHeld = true;
    heldHere.add(own);
    let cancel: () => void = () => undefined;
    const giveSigns = () => {
      cancel = clock.after(
        this.#leaseMs / SIGNS_A_LEASE,
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
      heldHere.delete(own);
      cancel();
      const text = await readFile(path, 'utf8').catch(() => undefined);
      if (text === own) await rm(path, { force: true }).catch(() => undefined);
    };
  }
}

/**
 * Returns true if the holder runs; unknown where it is on another machine, or its id may be that of a later process, and of this
 * process where it gave the lock back, or another thread of it has it.
 */
async function lifeOf(text: string): Promise<'runs' | 'gone' | 'unknown'> {
  const [id = '', host, birth = '-'] = text.trim().split(' ');
  if (host !== hostname() || !/^\d{1,10}$/.test(id)) return 'unknown';
  const pid = Number(id);
  if (!isAlive(pid) || (await isZombie(pid))) return 'gone';
  const nowBirth = await birthOf(pid);
  if (!birth.includes('/') || nowBirth === '') return 'unknown';
  if (birth !== nowBirth) return 'gone';
  return pid === process.pid && !heldHere.has(text) ? 'unknown' : 'runs';
}

function nameOf(found: Found | undefined): string {
  const [pid, host] = found?.text.trim().split(' ') ?? [];
  return /^\d{1,10}$/.test(pid ?? '') ? `process ${pid} on ${host ?? '?'}` : 'an unknown process';
}
