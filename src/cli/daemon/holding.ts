import { hostname } from 'node:os';
import { sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { Freed, Lease, Store } from '../../store/index.js';
import { VERSION } from '../command.js';
import { coldFolderTrouble } from '../opening/database.js';
import type { Sending } from '../opening/exchange.js';
import type { Session } from '../opening/session.js';

/** The phase of a daemon while another one holds the archive. */
export const STANDING_BY = 'standing by';
/** Between two tries to take a lock that is free, while the database is in trouble. */
const TRY_EVERY_MS = 1_000;

interface HoldingOptions extends Session {
  /** Aborts when the daemon stops. */
  readonly stopping: AbortSignal;
  readonly enter: (phase: string) => void;
  /** Does a piece of work again while the database is away. */
  readonly retrying: <T>(work: () => Promise<T>) => Promise<T>;
}

/** What is heard of a hold. */
interface HoldHears {
  readonly onLost: (heldBy: string) => void;
  readonly onAsked: () => void;
}

/** A hold of the archive. */
export interface Hold {
  readonly lease: Lease;
  /** When its requests may start. */
  readonly sending: Sending;
}

/**
 * Whether this daemon holds the archive, or stands by for the one that does. An archive in the embedded Postgres has no
 * standby: the server ends with its owner.
 *
 * States: *new* → *standing by* → *holding* → *standing by* …
 */
export class Holding {
  readonly #options: HoldingOptions;
  #heldBy: string | undefined;
  #lease: Lease | undefined;
  #told = new Set<string>();

  constructor(options: HoldingOptions) {
    this.#options = options;
  }

  /** Name of the other holder while this daemon stands by. */
  get heldBy(): string | undefined {
    return this.#heldBy;
  }

  /** Daemons that stand by for this one. */
  get standbys(): readonly string[] {
    return this.#lease?.standbys ?? [];
  }

  /**
   * Takes the lock if it is free.
   *
   * @returns whether this daemon has it
   * @throws StoreError `writer_lock_held` where there is no standing by
   */
  async isFree(store: Store): Promise<boolean> {
    try {
      await this.#options.retrying(() => store.acquireWriterLock());
      return true;
    } catch (error) {
      const isHeld = codeOf(error) === 'writer_lock_held';
      if (!isHeld || this.#options.config.database.url === null) throw error;
      return false;
    }
  }

  /** Stands by until this daemon has the lock. @throws the signal's reason */
  async standBy(store: Store): Promise<Freed> {
    const { enter, stopping: signal, clock, telemetry } = this.#options;
    enter(STANDING_BY);
    await this.#checkColdFiles(store);
    const sinceMs = clock.monotonicMs();
    const standing = store.standBy({
      facts: { host: hostname(), pid: process.pid, version: VERSION },
      signal,
      onLook: (heldBy) => {
        if (this.#heldBy === undefined) {
          telemetry.daemon.roleChanged({ role: 'standby', cause: 'held', heldBy, waitedMs: 0 });
        }
        this.#heldBy = heldBy;
      },
      onTrouble: (code, message) => telemetry.daemon.warned({ code, message }),
    });
    try {
      for (;;) {
        const freed = await standing.untilFree();
        if (!(await this.#takes(store))) continue;
        const waitedMs = clock.monotonicMs() - sinceMs;
        telemetry.daemon.roleChanged({ role: 'holder', cause: freed.cause, waitedMs });
        return freed;
      }
    } finally {
      this.#heldBy = undefined;
      await standing.stop();
    }
  }

  /**
   * Begins to show that this daemon holds the lock.
   *
   * @param freed how it came to it; undefined: nobody held it
   */
  hold(store: Store, freed: Freed | undefined, hears: HoldHears): Hold {
    const { telemetry } = this.#options;
    if (freed === undefined) {
      telemetry.daemon.roleChanged({ role: 'holder', cause: 'start', waitedMs: 0 });
    }
    const lease = store.keepLease({
      quietUntilMs: freed?.quietUntilMs ?? Number.NEGATIVE_INFINITY,
      onBeat: (standbys) => telemetry.daemon.beatAnswered({ standbys: standbys.length }),
      ...hears,
    });
    this.#lease = lease;
    // The former holder may have used what the limit allowed.
    const firstTokens = freed === undefined ? {} : { firstTokens: 0 };
    return { lease, sending: { ...firstTokens, isHeldBack: () => !lease.maySend } };
  }

  async #takes(store: Store): Promise<boolean> {
    const { stopping, clock, telemetry } = this.#options;
    try {
      await store.acquireWriterLock();
      return true;
    } catch (error) {
      stopping.throwIfAborted();
      if (codeOf(error) === 'writer_lock_held') return false;
      const message = `the lock is free and cannot be taken (${messageOf(error)})`;
      telemetry.daemon.warned({ code: codeOf(error), message });
      await sleep(clock, TRY_EVERY_MS, stopping);
      return false;
    }
  }

  /** Archived days can be served after a takeover only by who has their files. */
  async #checkColdFiles(store: Store): Promise<void> {
    const { config, telemetry } = this.#options;
    const trouble = await coldFolderTrouble(config, store).catch(() => null);
    if (trouble === null || this.#told.has(trouble.code)) return;
    this.#told.add(trouble.code);
    const message = `${trouble.found}: a standby needs the folder of cold files (cold.dir) or the bucket (cold.url) of the holder`;
    telemetry.daemon.warned({ code: trouble.code, message });
  }
}
