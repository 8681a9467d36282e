import type { Collector } from '../../collect/collector.js';
import { calledBy } from '../../collect/ports.js';
import { exchangeNameOf } from '../../config/load.js';
import { reportOf } from '../../console/health.js';
import type { StatusServer } from '../../console/server.js';
import type { DiskSpace } from '../../console/state.js';
import {
  archiveStatus,
  firstHistoryText,
  type LedgerCount,
} from '../../console/status-document.js';
import { endsInTime, unlessAborted } from '../../kernel/clock.js';
import { AbortedError, type TapekeepError } from '../../kernel/errors.js';
import { Mutex } from '../../kernel/mutex.js';
import type { StoreEvents } from '../../observe/events.js';
import { fullDisk, type Store } from '../../store/index.js';
import { boundedStep } from '../ending.js';
import { leftOutText } from '../gaps.js';
import type { Circumstances } from '../notices/notices.js';
import { type RunningNotices, startNotices } from '../notices/webhook.js';
import {
  coldFolderTrouble,
  describeDatabase,
  migrateDatabase,
  openArchive,
  refuseSecondWriter,
  spoolOf,
  startEmbedded,
} from '../opening/database.js';
import {
  archiveIdentityOf,
  bindArchive,
  type ExchangeAccess,
  exchangeAddress,
  firstAnswer,
  guardIdentity,
  identityConflictOf,
  openExchange,
  proxiesOf,
} from '../opening/exchange.js';
import { type Serving, serveArchived } from '../opening/serving.js';
import { runOf, type Session } from '../opening/session.js';
import { whenDatabaseAnswers } from '../opening/waiting.js';
import type { RunningExchange } from '../sandbox/built-in-exchange.js';
import { makeCollector } from './collecting.js';
import { type ConsoleSources, consoleSources } from './console-sources.js';
import {
  type DaemonChecks,
  type DaemonView,
  daemonChecks,
  isHealthy,
  openDaemonStatus,
} from './daemon-status.js';
import { countLedger, keepHouse } from './housekeeping.js';

/** Ready notice for the operator. */
export interface DaemonAddresses {
  readonly exchange: string;
  /** Null where no states are collected. */
  readonly realtime: string | null;
  /** Proxies in front of them; null where there are none. */
  readonly proxy: string | null;
  readonly database: string;
  readonly status: string | null;
}

export interface DaemonOptions extends Session {
  /** How long a start waits for the database, milliseconds; default {@link DATABASE_WAIT_MS}. */
  readonly waitMs?: number | undefined;
  /** Called once when something happened after which going on would be wrong. */
  readonly onFatal: (error: Error) => void;
}

/** The phase that lasts until the exchange answers for the first time. */
export const WAITING_FOR_EXCHANGE = 'waiting for the exchange';
export const SIMULATING_PAST = 'simulating the past of the built-in exchange';
/** The embedded server gets this long at least to start. */
const EMBEDDED_START_MS = 60_000;
/** A database that starts beside the daemon, or recovers from a crash, is up by then. */
const DATABASE_WAIT_MS = 120_000;
/** Intake gets this long to end at a stop; what is still under way then is collected again. */
const INTAKE_STOP_MS = 3500;
/** Gaps are counted for the last summary as far as that takes no longer. */
const COUNT_STOP_MS = 1000;
/** All of a stop; container runtimes kill after 10 s. */
const STOP_MS = 9000;
/** The part of it that is kept for the embedded server, which must not be left running. */
const SERVER_STOP_MS = 3500;

/** Where the archive is, and how to let go of it in the time that is left. */
interface OpenDatabase {
  readonly url: string;
  readonly readerUrl: string;
  readonly stop?: (limits: { readonly timeoutMs: number }) => Promise<void>;
  readonly trouble?: () => string | undefined;
}

/**
 * The collecting daemon: wires the rooms together, starts them in order and stops them in reverse.
 *
 * States: *new* → *starting* (database, built-in exchange, console; then waiting for the
 * exchange's first answer, as long as it takes) → *running* → *stopping* → *stopped*. A failure while
 * starting stops what was started. A stop at any time gives up what is being started, waits until
 * that is known to have ended, and ends in bounded time whatever the database does.
 */
export class Daemon {
  readonly #options: DaemonOptions;
  readonly #stopping = new AbortController();
  #database: OpenDatabase | undefined;
  /** What is being started; never rejects. */
  #stage: Promise<unknown> = Promise.resolve();
  #store: Store | undefined;
  #serving: Serving | null = null;
  #builtIn: RunningExchange | undefined;
  #access: ExchangeAccess | undefined;
  #sources: ConsoleSources | undefined;
  #status: StatusServer | undefined;
  readonly #checks: DaemonChecks;
  #notices: RunningNotices | undefined;
  #disks: readonly DiskSpace[] = [];
  #collector: Collector | undefined;
  /** One collector is started or ended at a time. */
  readonly #turn = new Mutex();
  #housekeeping: Promise<void> | undefined;
  #countOnceMore: (() => Promise<void>) | undefined;
  #identity: { readonly value: string | null } | undefined;
  #identityConflict: TapekeepError | undefined;
  #phase = 'starting';
  #failure: Error | undefined;
  #lastTickMs: number;
  #counted: LedgerCount | undefined;
  #firstHistory: readonly string[] = [];
  #leftOut: string | undefined;
  /** Why the database is waited for; undefined while it is not. */
  #awaited: string | undefined;
  #lastAnswerMs: number | undefined;
  #stopped: Promise<void> | undefined;

  constructor(options: DaemonOptions) {
    this.#options = options;
    this.#checks = daemonChecks(options, () => this.view);
    this.#lastTickMs = options.clock.monotonicMs();
  }

  /** Starts everything that does not depend on the exchange's answering. */
  open(): Promise<DaemonAddresses> {
    return this.#asStage(() => this.#open());
  }

  /** Waits for the exchange's first answer, as long as it takes, and checks whose archive this is. */
  connect(): Promise<void> {
    return this.#asStage(() => this.#connect());
  }

  /** Collects until {@link Daemon.stop}. */
  collect(): Promise<void> {
    return this.#asStage(() => this.#collect());
  }

  async #open(): Promise<DaemonAddresses> {
    const { config, telemetry } = this.#options;
    const { signal } = this.#stopping;
    // First of all: what takes long must not look dead from outside.
    try {
      const sources = consoleSources(
        this.#options,
        () => this.view,
        () => void this.#status?.noteState(),
      );
      this.#sources = sources;
      this.#status = await openDaemonStatus(this.#options, () => this.view, this.#checks, sources);
    } catch (error) {
      await refuseSecondWriter(this.#options);
      throw error;
    }
    this.#notices = startNotices(this.#options, {
      exchange: () => this.view.exchange.name,
      circumstances: () => this.#circumstances(),
    });
    this.#enter('starting the database');
    const database = await this.#openDatabase();
    this.#database = database;
    this.#enter('migrating the database');
    const { roles } = await this.#retrying(() => {
      return migrateDatabase(this.#options, database.url);
    });
    if (roles.state !== 'busy' && roles.note !== null) {
      telemetry.daemon.warned({ code: 'roles_unsettled', message: roles.note });
    }
    const opening = () => openArchive(this.#options, database.url, spoolOf(config));
    const store = await this.#retrying(opening, (late) => late.stop());
    this.#store = store;
    await this.#retrying(() => store.acquireWriterLock());
    await this.#retrying(() => store.noteRun(runOf(this.#options)));
    await this.#retrying(() => store.closeOrphanSessions());
    this.#serving = await this.#retrying(() => serveArchived(this.#options, store));
    if (config.exchange.url === null) this.#enter(SIMULATING_PAST);
    const { address, builtIn } = await exchangeAddress(this.#options);
    this.#builtIn = builtIn;
    signal.throwIfAborted();
    this.#access = openExchange(this.#options, address);
    return {
      exchange: address.url,
      realtime: config.streams.states.enabled ? address.realtimeUrl : null,
      proxy: proxiesOf(this.#options, address),
      database: describeDatabase(database.url),
      status: this.#status?.url ?? null,
    };
  }

  async #connect(): Promise<void> {
    const { config, clock, telemetry } = this.#options;
    const { signal } = this.#stopping;
    const [store, access] = [this.#store, this.#access];
    if (store === undefined || access === undefined) throw new Error('open() comes first');
    this.#enter(WAITING_FOR_EXCHANGE);
    const conflict = await this.#retrying(() => identityConflictOf(store, config));
    this.#identityConflict = conflict;
    if (conflict) telemetry.daemon.warned({ code: conflict.code, message: conflict.message });
    const identity = await firstAnswer(access, signal, this.#options);
    this.#lastAnswerMs = clock.monotonicMs();
    const retrying = <T>(work: () => Promise<T>) => this.#retrying(work);
    await bindArchive(store, access, identity, signal, this.#options, retrying);
    const trouble = await this.#retrying(() => coldFolderTrouble(config, store));
    if (trouble !== null) {
      const { code, found, advice } = trouble;
      telemetry.daemon.warned({ code, message: `${found}: ${advice}` });
    }
    const leftOut = leftOutText(config, await this.#retrying(() => store.inspection.streams()));
    this.#leftOut = leftOut;
    if (leftOut) telemetry.daemon.warned({ code: 'streams_left_out', message: leftOut });
    this.#identity = { value: identity };
  }

  /** Why the archive may be that of another exchange, which only an answer can tell. */
  get identityConflict(): TapekeepError | undefined {
    return this.#identityConflict;
  }

  /** Whether the exchange has answered at all. */
  get isConnected(): boolean {
    return this.#identity !== undefined;
  }

  async #collect(): Promise<void> {
    const { clock } = this.#options;
    const { store } = this.#opened;
    store.onWentBack(() => void this.#collectAgain());
    const { signal } = this.#stopping;
    const tick = () => {
      this.#lastTickMs = clock.monotonicMs();
    };
    const onCounted = (counted: LedgerCount) => {
      this.#counted = counted;
      const { kinds } = archiveStatus(counted, counted.atMs, { worst: 0 });
      this.#firstHistory = kinds.flatMap((kind) => firstHistoryText(kind) ?? []);
    };
    const onDisks = (disks: readonly DiskSpace[]) => {
      this.#disks = disks;
    };
    this.#enter('storing what the spool kept');
    await this.#retrying(() => store.openSpool(signal));
    const collector = { review: async () => await this.#collector?.review() };
    const beside = { ...this.#options, signal, tick, collector, onCounted, onDisks };
    this.#collector = this.#newCollector();
    this.#housekeeping = keepHouse(store, beside);
    this.#countOnceMore = () => countLedger(store, beside);
    await this.#turn.run(() => this.#startCollector());
  }

  /** What {@link connect} has made sure of. */
  get #opened() {
    const [store, access, identity] = [this.#store, this.#access, this.#identity];
    if (store === undefined || access === undefined || identity === undefined) {
      throw new Error('connect() comes first');
    }
    return { store, access, identity };
  }

  #newCollector(): Collector {
    const { clock } = this.#options;
    const { store, access, identity } = this.#opened;
    const onFatal = (error: Error) => this.#fail(error);
    const guarded = guardIdentity(access.client, identity.value, onFatal);
    const exchange = calledBy(guarded, async (name, params, options) => {
      const reply = await guarded.call(name, params, options);
      this.#lastAnswerMs = clock.monotonicMs();
      return reply;
    });
    const parts = { store, access, exchange, identity: identity.value, onFatal };
    return makeCollector(this.#options, parts);
  }

  async #startCollector(): Promise<void> {
    this.#enter('opening the markets');
    await unlessAborted(this.#stopping.signal, this.#collector?.start() ?? Promise.resolve());
    this.#enter('collecting');
  }

  /** The database went back: what the collector remembers of it is wrong. */
  async #collectAgain(): Promise<void> {
    try {
      await this.#turn.run(async () => {
        const { store } = this.#opened;
        this.#enter('reading the ledger again');
        await this.#collector?.stop();
        await this.#retrying(() => store.closeOrphanSessions());
        this.#collector = this.#newCollector();
        await this.#startCollector();
      });
    } catch (error) {
      if (!this.#stopping.signal.aborted) this.#fail(error as Error);
    }
  }

  /** Stops intake, stores what has arrived, closes everything. Safe to call twice. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop();
    return this.#stopped;
  }

  async #stop(): Promise<void> {
    const { clock } = this.#options;
    this.#phase = 'stopping';
    this.#stopping.abort(new AbortedError());
    const endMs = clock.monotonicMs() + STOP_MS;
    const leftMs = () => Math.max(0, endMs - clock.monotonicMs());
    const lastNotice = this.#notices?.stop(this.#failure);
    // Only when the stage has ended is it known what there is to stop.
    await boundedStep(this.#options, 'start', leftMs(), () => this.#stage);
    const reservedMs = this.#database?.stop === undefined ? 0 : SERVER_STOP_MS;
    const steps: Array<[string, (withinMs: number) => Promise<unknown> | undefined, number?]> = [
      ['collector', (withinMs) => this.#collector?.stop(withinMs), INTAKE_STOP_MS],
      ['client', () => this.#access?.[Symbol.asyncDispose]()],
      ['gaps', () => (leftMs() - reservedMs > 3 * COUNT_STOP_MS ? this.#countAtEnd() : undefined)],
      ['archived rows', () => this.#serving?.close()],
      ['store', () => this.#store?.stop()],
      ['housekeeping', () => this.#housekeeping],
      ['status', () => this.#stopStatus()],
      ['notices', () => lastNotice],
      ['exchange', () => this.#builtIn?.stop()],
    ];
    for (const [name, step, mostMs = STOP_MS] of steps) {
      const withinMs = Math.min(mostMs, Math.max(0, leftMs() - reservedMs));
      await boundedStep(this.#options, name, withinMs, () => step(withinMs));
    }
    const timeoutMs = Math.max(leftMs(), reservedMs);
    await boundedStep(this.#options, 'database', timeoutMs + 1000, () =>
      this.#database?.stop?.({ timeoutMs }),
    );
    this.#phase = 'stopped';
  }

  async #stopStatus(): Promise<void> {
    this.#sources?.stop();
    await this.#status?.stop();
  }

  /** So that the last summary has the gaps as they are at the end. */
  async #countAtEnd(): Promise<void> {
    const counting = this.#countOnceMore?.().catch(() => undefined);
    if (counting !== undefined) await endsInTime(this.#options.clock, COUNT_STOP_MS, counting);
  }

  #asStage<T>(work: () => Promise<T>): Promise<T> {
    const running = work();
    this.#stage = running.catch(() => undefined);
    return running;
  }

  /** @throws AbortedError after a stop, which alone names the phase then */
  #enter(phase: string): void {
    this.#stopping.signal.throwIfAborted();
    this.#phase = phase;
  }

  #retrying<T>(work: () => Promise<T>, discard?: (late: T) => Promise<void>): Promise<T> {
    const { clock, telemetry, config } = this.#options;
    const onOwnDisk = () =>
      work().catch(async (error: Error) => {
        throw (await fullDisk(config.dataDir, error)) ?? error;
      });
    const databaseAwaited: StoreEvents['databaseAwaited'] = (event) => {
      this.#awaited = event.detail;
      telemetry.store.databaseAwaited(event);
    };
    return whenDatabaseAnswers(
      {
        ...{ clock, telemetry: { databaseAwaited }, waitMs: this.#waitMs },
        ...{ databaseUrl: this.#database?.url ?? null, signal: this.#stopping.signal },
      },
      config.database.url === null ? onOwnDisk : work,
      discard,
    ).finally(() => {
      this.#awaited = undefined;
    });
  }

  /** Gathers what notices are about; never rejects. */
  async #circumstances(): Promise<Circumstances> {
    const reports = [this.#checks.health, this.#checks.ready].map((check) => reportOf(check));
    const checks = (await Promise.all(reports)).flatMap((report) => report.checks);
    const unfillableS = this.#counted?.streams.reduce((sum, one) => sum + one.unfillableS, 0);
    const unfillableMs = unfillableS === undefined ? undefined : unfillableS * 1000;
    return { checks, disks: this.#disks, unfillableMs };
  }

  /** Health fails from here on: only a new start can help. */
  #fail(error: Error): void {
    this.#failure ??= error;
    this.#options.onFatal(error);
  }

  get #waitMs(): number {
    return this.#options.waitMs ?? DATABASE_WAIT_MS;
  }

  /** The configured Postgres, or the embedded one, started if need be. */
  async #openDatabase(): Promise<OpenDatabase> {
    const configured = this.#options.config.database.url;
    if (configured !== null) return { url: configured, readerUrl: configured };
    const { signal } = this.#stopping;
    const starting = () =>
      startEmbedded(this.#options, {
        signal,
        // Recovery after a crash may take its time.
        startTimeoutMs: Math.max(EMBEDDED_START_MS, this.#waitMs),
        onLost: (error) => this.#fail(error),
      });
    const server = await this.#retrying(starting);
    const { url, readerUrl, trouble } = server;
    return { url, readerUrl, trouble, stop: (limits) => server.stop(limits) };
  }

  /** Whether its loops turn, as `/healthz` says. */
  get isAlive(): boolean {
    return isHealthy(this.view);
  }

  /** Progress of the first walk through history, a line a kind. */
  get firstHistory(): readonly string[] {
    return this.#firstHistory;
  }

  /** All that the console shows. */
  get view(): DaemonView {
    const nowMs = this.#options.clock.monotonicMs();
    return {
      phase: this.#phase,
      exchange:
        this.#identity === undefined
          ? { name: exchangeNameOf(this.#options.config) }
          : archiveIdentityOf(this.#options.config, this.#identity.value),
      failure: this.#failure,
      databaseTrouble: this.#database?.trouble?.() ?? this.#awaited,
      ...{ collector: this.#collector, access: this.#access, store: this.#store },
      database: this.#database,
      idleMs: this.#housekeeping === undefined ? 0 : nowMs - this.#lastTickMs,
      silentMs: this.#lastAnswerMs === undefined ? undefined : nowMs - this.#lastAnswerMs,
      ...{ counted: this.#counted, disks: this.#disks, leftOut: this.#leftOut },
    };
  }
}
