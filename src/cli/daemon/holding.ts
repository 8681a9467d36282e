import { hostname } from 'node:os';
import { sleep } from '../../kernel/clock.js';
import { codeOf, messageOf } from '../../kernel/errors.js';
import type { Freed, Lease, Store } from '../../store/index.js';
import { VERSION } from '../command.js';
import { coldFolderTrouble } from '../opening/database.js';
import type { ExchangeAddress, Sending } from '../opening/exchange.js';
import type { Session } from '../opening/session.js';
import { WarmFeeds } from './warm-feeds.js';

/** Facts by which other daemons and people name this one. */
const FACTS = { host: hostname(), pid: process.pid, version: VERSION };
/** The phase of a daemon while another one holds the archive. */
export const STANDING_BY = 'standing by';
/** Between two tries to take a lock that is free, while the database is in trouble. */
const TRY_EVERY_MS = 1_000;

/** A daemon that handed over takes the lock back only when nobody took it within this time. */
const GIVE_WAY_MS = 5_000;

interface HoldingOptions extends Session {
  /** Aborts when the daemon stops. */
  readonly stopping: AbortSignal;
  readonly enter: (phase: string) => void;
  /** Does a piece of work again while the database is away. */
  readonly retrying: <T>(work: () => Promise<T>) => Promise<T>;
}

/** Events of a hold. */
interface HoldHears {
  readonly onLost: (heldBy: string) => void;
  readonly onAsked: () => void;
}

/** A hold of the archive. */
export interface Hold {
  readonly lease: Lease;
  /** When its requests may start. */
  readonly sending: Sending;
  /** Real-time connections that were opened before. */
  readonly warm: WarmFeeds | undefined;
}

/** The lock as this daemon came to it. */
export interface Taken extends Freed {
  readonly warm: WarmFeeds;
}

/**
 * Takes the archive for this daemon, or stands by for the one that holds it. An archive in the embedded Postgres has no
 * standby: the server ends with its owner.
 *
 * States: *new* → *standing by* → *holding* → *standing by* …
 */
export class Holding {
  readonly #options: HoldingOptions;
  #heldBy: string | undefined;
  #lease: Lease | undefined;
  #givesWayUntilMs = Number.NEGATIVE_INFINITY;
  readonly #told = new Set<string>();

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

  /**
   * Stands by until this daemon has the lock.
   *
   * @param address of the exchange, whose real-time connections are opened meanwhile
   * @throws the signal's reason
   */
  async standBy(store: Store, address: ExchangeAddress): Promise<Taken> {
    const { enter, stopping: signal, clock, telemetry, config } = this.#options;
    enter(STANDING_BY);
    await this.#checkColdFiles(store);
    const sinceMs = clock.monotonicMs();
    const warm = new WarmFeeds(this.#options, address);
    const beReady = async () => {
      try {
        await warm.open(store);
        await warm.untilProven();
        standing.ready();
      } catch (error) {
        // The holder waits no longer than it likes; the term opens what is missing.
        if (signal.aborted) return;
        telemetry.daemon.warned({ code: codeOf(error), message: messageOf(error) });
      }
    };
    if (config.standby.warm) warm.keepOpen(store);
    const standing = store.standBy({
      facts: FACTS,
      signal,
      onLook: (heldBy) => {
        if (this.#heldBy === undefined) {
          telemetry.daemon.roleChanged({ role: 'standby', cause: 'held', heldBy, waitedMs: 0 });
        }
        this.#heldBy = heldBy;
        telemetry.store.databaseState({ up: true });
      },
      onAsked: () => void beReady(),
      onTrouble: (code, message) => {
        if (code === 'standby_blind') telemetry.store.databaseState({ up: false, detail: message });
        telemetry.daemon.warned({ code, message });
      },
    });
    try {
      for (;;) {
        const freed = await standing.untilFree();
        if (await this.#givesWay()) continue;
        if (!(await this.#takes(store))) continue;
        const waitedMs = clock.monotonicMs() - sinceMs;
        telemetry.daemon.roleChanged({ role: 'holder', cause: freed.cause, waitedMs });
        return { ...freed, warm };
      }
    } catch (error) {
      await warm.release();
      throw error;
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
  hold(store: Store, freed: Taken | undefined, hears: HoldHears): Hold {
    const { telemetry } = this.#options;
    if (freed === undefined) {
      telemetry.daemon.roleChanged({ role: 'holder', cause: 'start', waitedMs: 0 });
    }
    const lease = store.keepLease({
      facts: FACTS,
      quietUntilMs: freed?.quietUntilMs ?? Number.NEGATIVE_INFINITY,
      onBeat: (standbys) => telemetry.daemon.beatAnswered({ standbys: standbys.length }),
      ...hears,
    });
    this.#lease = lease;
    // The former holder may have used what the limit allowed.
    const firstTokens = freed === undefined ? {} : { firstTokens: 0 };
    const sending = { ...firstTokens, isHeldBack: () => !lease.maySend };
    return { lease, sending, warm: freed?.warm };
  }

  /** After a handover the lock is free for the other one first. */
  giveWay(): void {
    this.#givesWayUntilMs = this.#options.clock.monotonicMs() + GIVE_WAY_MS;
  }

  async #givesWay(): Promise<boolean> {
    const { clock, stopping } = this.#options;
    if (clock.monotonicMs() >= this.#givesWayUntilMs) return false;
    await sleep(clock, TRY_EVERY_MS, stopping);
    return true;
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
