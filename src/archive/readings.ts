import type { Clock } from '../kernel/clock.js';
import { AbortedError } from '../kernel/errors.js';
import { Mutex } from '../kernel/mutex.js';
import type { ArchiveReader } from './reading.js';

/**
 * A reading is kept this long at most: partitions cannot leave the database meanwhile, and who moves one waits two
 * seconds for its turn.
 */
const LIFE_MS = 2000;
/** Without work it is closed sooner. */
const IDLE_MS = 1000;
/** Readings at once, each with a connection. */
const READINGS = 2;

/** A reading, used by one piece of work at a time, and opened again when the archive has changed. */
class Seat {
  readonly turn = new Mutex();
  readonly #clock: Clock;
  readonly #open: () => Promise<ArchiveReader>;
  #held: { reader: ArchiveReader; version: number; openedAtMs: number } | undefined;
  #cancelIdle: (() => void) | undefined;

  constructor(clock: Clock, open: () => Promise<ArchiveReader>) {
    this.#clock = clock;
    this.#open = open;
  }

  async run<T>(version: number, work: (reader: ArchiveReader) => Promise<T>): Promise<T> {
    this.#cancelIdle?.();
    const nowMs = this.#clock.monotonicMs();
    const held = this.#held;
    const isFit = held?.version === version && nowMs - held.openedAtMs < LIFE_MS;
    if (!isFit) {
      await this.close();
      this.#held = { reader: await this.#open(), version, openedAtMs: nowMs };
    }
    try {
      const { reader } = this.#held as { reader: ArchiveReader };
      const result = await work(reader);
      this.#rest();
      return result;
    } catch (error) {
      // A reading that failed may be at its end.
      await this.close();
      throw error;
    }
  }

  async close(): Promise<void> {
    this.#cancelIdle?.();
    const held = this.#held;
    this.#held = undefined;
    await held?.reader.close();
  }

  #rest(): void {
    const end = () => {
      // Nothing waits for it, and nothing can be done about a folder that cannot be removed.
      this.turn.run(() => this.close()).catch(() => undefined);
    };
    this.#cancelIdle = this.#clock.after(IDLE_MS, end, { background: true });
  }
}

/**
 * Lends readings of the archive, each to one piece of work at a time. One is lent again while nothing was committed
 * since it was opened; without work it is closed, so that partitions can leave the database.
 */
export class Readings {
  readonly #seats: readonly Seat[];
  #next = 0;
  #isStopped = false;

  constructor(clock: Clock, open: () => Promise<ArchiveReader>) {
    this.#seats = Array.from({ length: READINGS }, () => new Seat(clock, open));
  }

  /**
   * @param version number of the newest commit that the work has to see
   * @throws AbortedError when stopped; StoreError
   */
  async use<T>(version: number, work: (reader: ArchiveReader) => Promise<T>): Promise<T> {
    this.#next = (this.#next + 1) % READINGS;
    const free = this.#seats.find(({ turn }) => !turn.isBusy);
    const seat = free ?? (this.#seats[this.#next] as Seat);
    return await seat.turn.run(async () => {
      if (this.#isStopped) throw new AbortedError('the archive is closed');
      return await seat.run(version, work);
    });
  }

  /** Waits for the work under way. Safe to call twice. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    await Promise.all(this.#seats.map((seat) => seat.turn.run(() => seat.close())));
  }
}
