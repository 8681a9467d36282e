import type { Clock } from '../../kernel/clock.js';
import { AbortedError } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import type { ArchiveReader } from '../reading.js';

/** A reading is kept this long at most: partitions cannot leave the database meanwhile. */
const LIFE_MS = 20_000;
/** Without a question it is closed sooner. */
const IDLE_MS = 3_000;

/** A reading that is held. */
export interface Held {
  readonly reader: ArchiveReader;
  /** Reads of it run one at a time, each within this. */
  readonly alone: Mutex;
}

/** A reading that questions share. */
interface Lease extends Held {
  readonly openedAtMs: number;
  users: number;
  isWorn: boolean;
  onUnused: () => void;
}

/**
 * Lends one reading to many questions. While a question holds it, rows that are in the database stay
 * there, so that statements beside it see what it says.
 *
 * States: *none* → *open* (lent to any number) → *worn* (old or broken: not lent again) → *none*.
 * A new one is opened only when the old one is closed: a process that waits to move a partition out of the
 * database gets its turn between the two.
 */
export class ReadingLease {
  readonly #clock: Clock;
  readonly #open: () => Promise<ArchiveReader>;
  readonly #takers = new Mutex();
  #lease: Lease | undefined;
  #cancelIdle: (() => void) | undefined;
  #isStopped = false;

  constructor(clock: Clock, open: () => Promise<ArchiveReader>) {
    this.#clock = clock;
    this.#open = open;
  }

  /**
   * Runs `work` while the reading is held; any number at once, but its reads each within `alone`.
   *
   * @throws AbortedError when stopped; StoreError
   */
  async hold<T>(work: (held: Held) => Promise<T>): Promise<T> {
    const lease = await this.#takers.run(() => this.#take());
    try {
      return await work(lease);
    } catch (error) {
      // A reading that failed may be at its end; the next question gets another.
      lease.isWorn = true;
      throw error;
    } finally {
      lease.users -= 1;
      if (lease.users === 0) this.#rest(lease);
    }
  }

  /** Waits for the questions under way. Safe to call twice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await this.#takers.run(() => this.#end());
  }

  async #take(): Promise<Lease> {
    if (this.#isStopped) throw new AbortedError('the archive is closed');
    this.#cancelIdle?.();
    const known = this.#lease;
    const nowMs = this.#clock.monotonicMs();
    if (known !== undefined && !known.isWorn && nowMs - known.openedAtMs < LIFE_MS) {
      known.users += 1;
      return known;
    }
    await this.#end();
    const reader = await this.#open();
    const lease = { reader, openedAtMs: nowMs, alone: new Mutex(), users: 1, isWorn: false };
    this.#lease = { ...lease, onUnused: () => undefined };
    return this.#lease;
  }

  async #end(): Promise<void> {
    this.#cancelIdle?.();
    const lease = this.#lease;
    if (lease === undefined) return;
    lease.isWorn = true;
    if (lease.users > 0) {
      await new Promise<void>((resolve) => {
        lease.onUnused = resolve;
      });
    }
    this.#lease = undefined;
    await lease.reader.close();
  }

  #rest(lease: Lease): void {
    lease.onUnused();
    if (lease !== this.#lease || this.#takers.isBusy) return;
    const idle = () => {
      const ending = this.#takers.run(async () => {
        if (lease.users === 0) await this.#end();
      });
      // Nothing waits for it, and nothing can be done about a folder that cannot be removed.
      ending.catch(() => undefined);
    };
    this.#cancelIdle?.();
    this.#cancelIdle = this.#clock.after(IDLE_MS, idle, { background: true });
  }
}
