import { createHash } from 'node:crypto';
import { homedir } from 'node:os';
import { join, resolve } from 'node:path';
import { systemClock } from '../kernel/clock.js';
import { systemRandom } from '../kernel/random.js';
import type { NonceStore } from './exchange-client.js';
import { NonceFile } from './nonce-file.js';
import { Slots } from './slots.js';

/**
 * Where the last nonce of a key is kept.
 *
 * - `{ folder }`: in a file of its own there, shared by all programs that name the same folder.
 * - `memory`: nowhere. For a key with no other user, where nothing can be written: a restart goes
 *   on from the wall clock, which must not have been set back.
 * - a {@link NonceStore}: wherever it says.
 */
export type NoncePlace = 'memory' | { readonly folder: string } | NonceStore;

/**
 * Where nonces are kept by default: a folder of this user's for what programs remember,
 * `~/.local/state/tapekeep/nonces` or what the platform has in its place.
 */
export function defaultNonceFolder(home = homedir(), platform = process.platform): string {
  const places: Readonly<Record<string, readonly string[]>> = {
    darwin: ['Library', 'Application Support'],
    win32: ['AppData', 'Local'],
  };
  return join(home, ...(places[platform] ?? ['.local', 'state']), 'tapekeep', 'nonces');
}

/** Keys remembered in one process; beyond, the one used first is forgotten. */
const KEYS_MAX = 1000;
/** By place and fingerprint of the key, kept as long as the process: a nonce must not come again. */
const shared = new Map<string, NonceStore>();

/** The nonces of a key: the same for all clients of this process that keep it at the same place. */
export function openNonces(place: NoncePlace, apiKey: string): NonceStore {
  if (typeof place === 'object' && 'load' in place) return place;
  const where = place === 'memory' ? place : resolve(place.folder);
  const name = createHash('sha256')
    .update(JSON.stringify([where, apiKey]))
    .digest('hex');
  const known = shared.get(name);
  if (known !== undefined) return known;
  const own = { clock: systemClock, random: systemRandom, apiKey };
  const inner = place === 'memory' ? new NonceMemory() : new NonceFile({ ...own, folder: where });
  const opened = new OneAtATime(inner);
  const [first] = shared.keys();
  if (shared.size >= KEYS_MAX && first !== undefined) shared.delete(first);
  shared.set(name, opened);
  return opened;
}

class NonceMemory implements NonceStore {
  #last: number | undefined;

  load(): Promise<number | undefined> {
    return Promise.resolve(this.#last);
  }

  save(nonce: number): Promise<void> {
    this.#last = nonce;
    return Promise.resolve();
  }
}

/**
 * Puts the clients of one process in line before they reach for what lies between processes: a file
 * is looked at some times a second, and knows no order among those who look.
 */
class OneAtATime implements NonceStore {
  readonly #inner: NonceStore;
  readonly #line = new Slots(1);

  constructor(inner: NonceStore) {
    this.#inner = inner;
  }

  async lock(signal?: AbortSignal): Promise<() => Promise<void>> {
    const leave = await this.#line.enter(0, signal);
    try {
      const release = await this.#inner.lock?.(signal);
      return async () => {
        await release?.();
        leave();
      };
    } catch (error) {
      leave();
      throw error;
    }
  }

  load(): Promise<number | undefined> {
    return this.#inner.load();
  }

  save(nonce: number): Promise<void> {
    return this.#inner.save(nonce);
  }
}
