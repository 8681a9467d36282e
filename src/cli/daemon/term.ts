import type { Collector } from '../../collect/collector.js';
import { calledBy } from '../../collect/ports.js';
import type { DiskSpace } from '../../console/state.js';
import {
  archiveStatus,
  firstHistoryText,
  type LedgerCount,
} from '../../console/status-document.js';
import { endsInTime, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, type TapekeepError } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import type { Store } from '../../store/index.js';
import { boundedStep } from '../ending.js';
import { leftOutText } from '../gaps.js';
import { coldFolderTrouble, shareOf } from '../opening/database.js';
import {
  bindArchive,
  type ExchangeAccess,
  type ExchangeAddress,
  firstAnswer,
  guardIdentity,
  identityConflictOf,
  openExchange,
  type Sending,
} from '../opening/exchange.js';
import { type Serving, serveArchived } from '../opening/serving.js';
import { runOf, type Session } from '../opening/session.js';
import { makeCollector } from './collecting.js';
import { countLedger, keepHouse } from './housekeeping.js';
import type { WarmFeeds } from './warm-feeds.js';

/** The phase that lasts until the exchange answers for the first time. */
export const WAITING_FOR_EXCHANGE = 'waiting for the exchange';
/** Intake gets this long to end; what is still under way then is collected again. */
const INTAKE_STOP_MS = 3500;
/** Gaps are counted for the last summary as far as that takes no longer. */
const COUNT_STOP_MS = 1000;
/** A connection that shows no sign of life within this time is not waited for. */
const CONFIRM_MS = 1000;
/** All of the end of a term that another one follows. */
const TERM_STOP_MS = 9000;
/** A term that lost the archive ends sooner: nothing can be stored any more. */
const LOST_STOP_MS = 1000;

export interface TermOptions extends Session {
  readonly store: Store;
  /** When requests may start. */
  readonly sending: Sending;
  /** Real-time connections that were opened before. */
  readonly warm: WarmFeeds | undefined;
  /** Aborts when the daemon stops. */
  readonly stopping: AbortSignal;
  /** Names the phase. @throws AbortedError after a stop */
  readonly enter: (phase: string) => void;
  /** Does a piece of work again while the database is away. */
  readonly retrying: <T>(work: () => Promise<T>) => Promise<T>;
  readonly onFatal: (error: Error) => void;
}

/**
 * The time in which a daemon holds the archive: it alone serves archived rows, asks the exchange and stores.
 *
 * States: *open* → *connected* (the exchange answered, the archive is bound to it) → *collecting* → *over*: the daemon
 * stops, or another one holds the archive. Nothing that a term remembers of the archive goes into the next one.
 */
export class Term {
  readonly #options: TermOptions;
  readonly #ending = new AbortController();
  /** Aborts when the term is to end, for any reason. */
  readonly signal: AbortSignal;
  #serving: Serving | null = null;
  access: ExchangeAccess | undefined;
  collector: Collector | undefined;
  /** One collector is started or ended at a time. */
  readonly #turn = new Mutex();
  #housekeeping: Promise<void> | undefined;
  #countOnceMore: (() => Promise<void>) | undefined;
  /** The exchange that the archive belongs to, once that has answered. */
  identity: { readonly value: string | null } | undefined;
  /** Why the archive may be that of another exchange, which only an answer can tell. */
  identityConflict: TapekeepError | undefined;
  #stopMs = TERM_STOP_MS;
  #lastTickMs: number;
  lastAnswerMs: number | undefined;
  counted: LedgerCount | undefined;
  firstHistory: readonly string[] = [];
  leftOut: string | undefined;
  disks: readonly DiskSpace[] = [];

  constructor(options: TermOptions) {
    this.#options = options;
    this.signal = AbortSignal.any([options.stopping, this.#ending.signal]);
    this.#lastTickMs = options.clock.monotonicMs();
  }

  /** Returns true if it ends although the daemon does not. */
  get isOver(): boolean {
    return this.#ending.signal.aborted && !this.#options.stopping.aborted;
  }

  get isCollecting(): boolean {
    return this.#housekeeping !== undefined && !this.signal.aborted;
  }

  /** Time since its loops last turned, milliseconds. */
  get idleMs(): number {
    return this.#housekeeping === undefined
      ? 0
      : this.#options.clock.monotonicMs() - this.#lastTickMs;
  }

  /** Lets the states be covered up to now, before another daemon goes on with them. */
  async confirmStates(): Promise<void> {
    const confirming = this.collector?.confirmStates() ?? Promise.resolve();
    await endsInTime(this.#options.clock, CONFIRM_MS, confirming);
  }

  /**
   * Lets go of what is under way; {@link stop} follows.
   *
   * @param isLost whether another daemon has the archive already
   */
  end({ isLost } = { isLost: false }): void {
    if (isLost) this.#stopMs = LOST_STOP_MS;
    this.#ending.abort(new AbortedError('this daemon holds the archive no longer'));
  }

  /** Resolves when it is to end. */
  async untilEnd(): Promise<void> {
    const { signal } = this;
    if (signal.aborted) return;
    await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
  }

  /** Takes the archive over from whoever held it before. */
  async open(address: ExchangeAddress): Promise<void> {
    const { store, sending, warm } = this.#options;
    await this.#retrying(() => store.noteRun(runOf(this.#options)));
    await this.#retrying(() => store.closeOrphanSessions());
    if (shareOf(this.#options.config).isFirst) {
      const serving = () => serveArchived(this.#options, store);
      this.#serving = await this.#retrying(serving, async (late) => await late?.close());
    }
    const access = openExchange(this.#options, address, sending);
    this.access = warm?.over(access) ?? access;
  }

  /** Waits for the exchange's first answer, as long as it takes, and checks whose archive this is. */
  async connect(): Promise<void> {
    const { config, clock, telemetry, store, enter } = this.#options;
    const { access, signal } = this;
    if (access === undefined) throw new Error('open() comes first');
    enter(WAITING_FOR_EXCHANGE);
    const conflict = await this.#retrying(() => identityConflictOf(store, config));
    this.identityConflict = conflict;
    if (conflict) telemetry.daemon.warned({ code: conflict.code, message: conflict.message });
    const identity = await firstAnswer(access, signal, this.#options);
    this.lastAnswerMs = clock.monotonicMs();
    const retrying = <T>(work: () => Promise<T>) => this.#retrying(work);
    await bindArchive(store, access, identity, signal, this.#options, retrying);
    const trouble = await this.#retrying(() => coldFolderTrouble(config, store));
    if (trouble !== null) {
      const { code, found, advice } = trouble;
      telemetry.daemon.warned({ code, message: `${found}: ${advice}` });
    }
    const leftOut = leftOutText(config, await this.#retrying(() => store.inspection.streams()));
    this.leftOut = leftOut;
    if (leftOut) telemetry.daemon.warned({ code: 'streams_left_out', message: leftOut });
    this.identity = { value: identity };
  }

  async collect(): Promise<void> {
    const { clock, store, enter } = this.#options;
    const { signal } = this;
    store.onWentBack(() => void this.#collectAgain());
    const tick = () => {
      this.#lastTickMs = clock.monotonicMs();
    };
    const onCounted = (counted: LedgerCount) => {
      this.counted = counted;
      const { kinds } = archiveStatus(counted, counted.atMs, { worst: 0 });
      this.firstHistory = kinds.flatMap((kind) => firstHistoryText(kind) ?? []);
    };
    const onDisks = (disks: readonly DiskSpace[]) => {
      this.disks = disks;
    };
    enter('storing what the spool kept');
    await this.#retrying(() => store.openSpool(signal));
    const collector = { review: async () => await this.collector?.review() };
    const beside = { ...this.#options, signal, tick, collector, onCounted, onDisks };
    this.collector = this.#newCollector();
    this.#housekeeping = keepHouse(store, beside);
    this.#countOnceMore = () => countLedger(store, beside);
    await this.#turn.run(() => this.#startCollector());
  }

  /**
   * Stops intake, stores what has arrived, and closes all but the database.
   *
   * @param mostMs time that the daemon has left for it
   * @param whenSilent called when no request is sent any more
   */
  async stop(mostMs: () => number, whenSilent: () => Promise<void>): Promise<void> {
    this.#ending.abort(new AbortedError());
    const { clock, store } = this.#options;
    const endMs = clock.monotonicMs() + this.#stopMs;
    const leftMs = () => Math.max(0, Math.min(mostMs(), endMs - clock.monotonicMs()));
    const steps: Array<[string, (withinMs: number) => Promise<unknown> | undefined, number?]> = [
      ['collector', (withinMs) => this.collector?.stop(withinMs), INTAKE_STOP_MS],
      ['client', () => this.access?.[Symbol.asyncDispose]()],
      ['kept feeds', () => this.#options.warm?.release()],
      ['gaps', () => (leftMs() > 3 * COUNT_STOP_MS ? this.#countAtEnd() : undefined)],
      ['archived rows', () => this.#serving?.close()],
      ['lease', whenSilent],
      ['store', () => store.stop()],
      ['housekeeping', () => this.#housekeeping],
    ];
    for (const [name, step, limitMs = TERM_STOP_MS] of steps) {
      const withinMs = Math.min(limitMs, leftMs());
      await boundedStep(this.#options, name, withinMs, () => step(withinMs));
    }
  }

  #newCollector(): Collector {
    const { clock, store, onFatal } = this.#options;
    const { access, identity } = this;
    if (access === undefined || identity === undefined) throw new Error('connect() comes first');
    const guarded = guardIdentity(access.client, identity.value, onFatal);
    const exchange = calledBy(guarded, async (name, params, options) => {
      const reply = await guarded.call(name, params, options);
      this.lastAnswerMs = clock.monotonicMs();
      return reply;
    });
    const parts = { store, access, exchange, identity: identity.value, onFatal };
    return makeCollector(this.#options, parts);
  }

  async #startCollector(): Promise<void> {
    const { enter } = this.#options;
    enter('opening the markets');
    await unlessAborted(this.signal, this.collector?.start() ?? Promise.resolve());
    await this.#options.warm?.release();
    enter('collecting');
  }

  /** The database went back: what the collector remembers of it is wrong. */
  async #collectAgain(): Promise<void> {
    const { store, enter, onFatal } = this.#options;
    try {
      await this.#turn.run(async () => {
        this.signal.throwIfAborted();
        enter('reading the ledger again');
        await this.collector?.stop();
        await this.#retrying(() => store.closeOrphanSessions());
        this.collector = this.#newCollector();
        await this.#startCollector();
      });
    } catch (error) {
      if (!this.signal.aborted) onFatal(error as Error);
    }
  }

  #retrying<T>(work: () => Promise<T>, discard?: (late: T) => Promise<void>): Promise<T> {
    return unlessAborted(this.signal, this.#options.retrying(work), discard);
  }

  /** So that the last summary has the gaps as they are at the end. */
  async #countAtEnd(): Promise<void> {
    const counting = this.#countOnceMore?.().catch(() => undefined);
    if (counting !== undefined) await endsInTime(this.#options.clock, COUNT_STOP_MS, counting);
  }
}
